"""Elements of every page, which show stored text without interpreting it.

All stored text may be hostile. Streamlit interprets most texts as Markdown, and also arrows, emoji, formulas and plain
addresses. So stored text is shown in one of three ways: by `st.text` or `st.code`, which interpret nothing; by
`literal`, as a code span; by `prose`, in which every word that could be markup becomes a code span.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date
from typing import Any

import pandas as pd
import streamlit as st

from lakeaudit import formatting
from lakeaudit.dashboard import markup
from lakeaudit.dashboard.addresses import relative_address
from lakeaudit.errors import AuditError, LakeFileError, one_line
from lakeaudit.formatting import UNKNOWN, count, size, visible
from lakeaudit.report.palette import display_name, shape
from lakeaudit.report.summary import Amount

COLOURS = {
    "critical": "red",
    "error": "orange",
    "warning": "yellow",
    "info": "blue",
    "fine": "green",
    "unjudged": "violet",
}
"""Only `fine` is green."""

shortened = formatting.shortened

FILLED = 10
"""A column of a grid has a value in at least one of so many rows."""
PAGES = "/pages"
"""Key of the session's pages by name."""
LAKE = "/lake"
"""Key of the name of the session's lake, at a dashboard of several lakes."""

_NAME = r"[A-Za-z0-9]+(?:[._=/'-][A-Za-z0-9]+)*"
_TAME = re.compile(
    rf"\(?{_NAME}[%]?\)?[,;.:]?|\d{{1,3}}(?:,\d{{3}})+[,;.:]?|\d\d:\d\d:\d\dZ\)?[,;.]?|[%\u2014\u2265]"
)
_MARKUP_WORDS = re.compile(r"www\.|https?|ftp|^\(?\d+[.)]$|^\((?:c|r|tm|p)\)", re.IGNORECASE)
"""Words of letters and digits from which Markdown or Streamlit makes a link, a list or a sign."""


def literal(value: object) -> str:
    """Return a stored value as a Markdown code span with exactly this text."""
    if value is None:
        return UNKNOWN
    text = re.sub(" {2,}", lambda spaces: r"\x20" * len(spaces[0]), visible(str(value)))
    if not text:
        return "(empty)"
    fence = "`" * (max((len(run) for run in re.findall("`+", text)), default=0) + 1)
    edge = " " if "`" in (text[0], text[-1]) else ""
    return f"{fence}{edge}{text}{edge}{fence}"


def prose(sentence: str) -> str:
    """Return a sentence with stored words as Markdown: words that are not plain become code spans."""
    words = visible(sentence).split(" ") if sentence else []
    return " ".join(word if _tame(word) else literal(word or r"\x20") for word in words)


def _tame(word: str) -> bool:
    return _TAME.fullmatch(word) is not None and _MARKUP_WORDS.search(word) is None


def badge(level: str, words: str | None = None) -> str:
    """Return a severity, with its own or other fixed words, as a coloured mark."""
    if level not in COLOURS:
        return literal(level)
    return f":{COLOURS[level]}-badge[{shape(level)} {words or display_name(level)}]"


def marks(level: str, doubt: str) -> str:
    """Return the marks of a table; a doubt has a mark of its own, never a green one."""
    doubts = [badge("unjudged", doubt)] if doubt else []
    return " ".join([badge(level), *doubts] if level != "unjudged" else doubts)


def link(page: str, label: str, **chosen: str) -> None:
    """Show a link to another page with its parameters; the label is Markdown that the caller has made safe."""
    link_with(page, label, current_lake() | chosen)


def link_with(page: str, label: str, parameters: dict[str, str]) -> None:
    """Show a link to a page with parameters of any name, such as those of an address."""
    st.page_link(st.session_state[PAGES][page], label=label, query_params=parameters)


def current_lake() -> dict[str, str]:
    """Return the parameter that names the lake in addresses; empty at a dashboard of one lake."""
    name = st.session_state.get(LAKE)
    return {"lake": name} if name else {}


def address_of(page: str, **chosen: str) -> str:
    """Return the address of a page with parameters, for cells of grids and marks of charts."""
    return relative_address(page, current_lake() | chosen)


def cell_link(page: str, label: str, **chosen: str) -> str:
    """Return a link for a cell of a `grid`; links in cells open a new page."""
    return f"[{label}]({address_of(page, **chosen)})"


def title(level: str | None, text: str, kicker: str = "", *, stored: bool = False) -> None:
    """Show the title of a page and its severity. `stored`: the whole text is one stored name."""
    if kicker:
        st.caption(kicker)
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        if level:
            st.markdown(badge(level), width="content")
        st.title(literal(text) if stored else prose(text), anchor=False)


def section(words: str) -> None:
    """Show the heading of a section; the text is ours."""
    st.header(words, anchor=False)


@contextmanager
def item(details: str) -> Iterator[None]:
    """Show elements of the block in one line, and details close below them, so that both are seen as one item."""
    with st.container(gap="xxsmall"):
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            yield
        plain(details)


def grid(
    columns: Sequence[str],
    rows: Sequence[Sequence[object]],
    alt: str,
    numbers: Sequence[str] = (),
    of: str = "",
    phone: Sequence[str] = (),
) -> None:
    """Show an HTML table; cells are Markdown that the caller has made safe.

    Args:
        columns: headings.
        rows: a cell for each column.
        alt: name of the table for screen readers.
        numbers: columns that are aligned right.
        of: an id that distinguishes the table from others of the same name on the page.
        phone: columns that a narrow screen shows; by default the first three.
    """
    columns, rows = _filled(columns, rows)
    frame = pd.DataFrame([[str(cell) for cell in row] for row in rows], columns=list(columns), dtype=str)
    right = "".join(f"n{at}-" for at, name in enumerate(columns, 1) if name in numbers)
    narrow = phone or columns[:3]
    wide = "".join(f"w{at}-" for at, name in enumerate(columns, 1) if name not in narrow)
    with st.container(key=f"{markup.GRID}-{right}{wide}{re.sub('[^a-z0-9]+', '-', f'{alt} {of}'.lower())}"):
        st.table(frame, border="horizontal", hide_index=True, alt=alt)


def _filled(
    columns: Sequence[str], rows: Sequence[Sequence[object]]
) -> tuple[Sequence[str], Sequence[Sequence[object]]]:
    """Return the table without columns that are nearly empty; the first column stays."""
    filled = [sum(row[at] not in ("", UNKNOWN) for row in rows) for at in range(len(columns))]
    used = [at for at, number in enumerate(filled) if at == 0 or 0 < number >= len(rows) / FILLED]
    return [columns[at] for at in used], [[row[at] for at in used] for row in rows]


def used_columns(rows: Sequence[Mapping[str, object]], rare: Sequence[str] = ()) -> list[str]:
    """Return the columns that have a value in at least one of ten rows; a nearly empty column hides the others.

    `rare` columns need only one value.
    """
    filled = {
        name: sum(row[name] not in (None, "", []) for row in rows) for name in (rows[0] if rows else ())
    }
    return [
        name
        for name, number in filled.items()
        if number > 0 and (name in rare or number >= len(rows) / FILLED)
    ]


def facts(named: Mapping[str, object], alt: str) -> None:
    """Show names and stored values in two columns, without unknown values."""
    rows = [(name, literal(value)) for name, value in named.items() if value is not None]
    if rows:
        frame = pd.DataFrame(rows, columns=["what", "value"], dtype=str)
        st.table(frame, border="horizontal", hide_index=True, hide_header=True, alt=alt)


def amount(value: Amount, *, of_bytes: bool = False) -> str:
    """Return a sum as text, with `≥` where a part of it is unknown."""
    text = size(value.known) if of_bytes else count(value.known)
    return text if value.whole or value.known is None else f"\u2265 {text}"


def reopened(again: int, number: int) -> str:
    """Return how many of the discrepancies were resolved before; empty if none."""
    return f", {'' if again == number else f'{count(again)} '}reopened" if again else ""


def number(value: int | None, noun: str) -> str:
    """Return `1 file` or `2 files`."""
    return f"{count(value)} {noun}{'' if value == 1 else 's'}"


def discrepancies(value: int) -> str:
    """Return `1 discrepancy` or `2 discrepancies`."""
    return f"{count(value)} {'discrepancy' if value == 1 else 'discrepancies'}"


def files(value: Amount) -> str:
    """Return a sum of files as text."""
    return number(1, "file") if value == Amount(1, whole=True) else f"{amount(value)} files"


def plain(sentence: str) -> None:
    """Show a sentence with stored words, uninterpreted."""
    st.text(visible(sentence))


@contextmanager
def show_failures() -> Iterator[None]:
    """Show a failure inside the block as one sentence with a hint, never as a traceback."""
    try:
        yield
    except LakeFileError as error:
        failure(str(error), "correct the lake file, then reload")
    except AuditError as error:
        failure(f"{error.where}: {error.what}", error.hint)
    except Exception as error:  # noqa: BLE001 - the page shows the error, and the session continues
        first = one_line(next(iter(str(error).splitlines()), ""), 200)
        failure(f"unexpected {type(error).__name__}: {first}", "reload; if it stays, please report it")


def failure(what: str, hint: str) -> None:
    """Show an error, and what to do about it."""
    with st.container(border=True):
        st.markdown(":red-badge[cannot be shown]")
        for line in what.split("\n"):
            plain(line)
        st.caption("What to do")
        plain(hint)


def _day(text: str | None) -> date | None:
    try:
        return date.fromisoformat(text or "")
    except ValueError:
        return None


class Address:
    """The parameters in the page's address, which hold every choice, so that every view can be shared.

    The values may be hostile: a value that is not an option is ignored.
    """

    def __init__(self, page: str) -> None:
        self._page = page

    def value(self, name: str) -> str | None:
        """Return the text of a parameter."""
        value = st.query_params.get(name)
        return None if value is None else value.encode("utf-8", "replace").decode()

    def number(self, name: str, most: int) -> int:
        """Return a whole number of at least 1."""
        text = self.value(name) or ""
        number = int(text) if re.fullmatch(r"[0-9]{1,9}", text) else 1
        return min(max(number, 1), max(most, 1))

    def several(
        self, name: str, label: str, options: Sequence[str], default: Sequence[str] = ()
    ) -> tuple[str, ...]:
        """Show a choice of several options, and return the chosen ones."""
        there = st.query_params.get_all(name) if name in st.query_params else list(default)
        key = self._key(name)
        st.session_state[key] = [value for value in options if value in there]
        chosen = st.multiselect(
            label, options, key=key, on_change=self._put, args=(name,), format_func=visible
        )
        return tuple(chosen)

    def one(self, name: str, label: str, options: Sequence[str]) -> str | None:
        """Show a choice of one option, and return it; None if nothing is chosen."""
        key, value = self._key(name), self.value(name)
        st.session_state[key] = value if value in options else None
        chosen: str | None = st.selectbox(
            label, options, key=key, index=None, on_change=self._put, args=(name,), format_func=visible
        )
        return chosen

    def typed(self, name: str, label: str, help: str | None = None) -> str:  # noqa: A002 - Streamlit's own word
        """Show a text field, and return its text."""
        key = self._key(name)
        st.session_state[key] = (self.value(name) or "")[:2000]
        return st.text_input(label, key=key, on_change=self._put, args=(name,), help=help)

    def flag(self, name: str, value: str, label: str, of: str = "") -> bool:
        """Show a box to tick, and return whether the parameter has this value.

        `of` distinguishes several boxes of one page for the same parameter.
        """
        key = self._key(f"{name}{of}")
        st.session_state[key] = self.value(name) == value
        return st.checkbox(label, key=key, on_change=self._switch, args=(name, value, key))

    def day_value(self, name: str, default: date, first: date, last: date) -> date:
        """Return the day of a parameter, or the nearest between two others."""
        return min(max(_day(self.value(name)) or default, first), last)

    def day(self, name: str, label: str, default: date, first: date, last: date) -> date:
        """Show a choice of a day between two others, and return it."""
        key = self._key(name)
        st.session_state[key] = self.day_value(name, default, first, last)
        chosen: date = st.date_input(
            label, key=key, min_value=first, max_value=last, format="YYYY-MM-DD", width=160,
            on_change=self._put, args=(name,),
        )  # fmt: skip
        return chosen

    def pages(self, name: str, total: int, size: int) -> int:
        """Show buttons for the pages of a list, and return the number of the current page."""
        last = max(-(-total // size), 1)
        page = self.number(name, last)
        if last > 1:
            with st.container(horizontal=True, vertical_alignment="center"):
                back, on = page <= 1, page >= last
                st.button(
                    "Previous", key=f"{name}-back", disabled=back, on_click=self._go, args=(name, page - 1)
                )
                st.button("Next", key=f"{name}-on", disabled=on, on_click=self._go, args=(name, page + 1))
                st.caption(f"page {count(page)} of {count(last)}")
        return page

    def _key(self, name: str) -> str:
        return f"{self._page}/{name}"

    def _go(self, name: str, page: int) -> None:
        st.query_params[name] = str(page)

    def _switch(self, name: str, value: str, key: str) -> None:
        if st.session_state[key]:
            st.query_params[name] = value
        elif name in st.query_params:
            del st.query_params[name]

    def _put(self, name: str) -> None:
        value: Any = st.session_state[self._key(name)]
        value = value.isoformat() if isinstance(value, date) else value
        st.query_params[name] = [*value] if isinstance(value, list) and value else value or ""
        if "page" in st.query_params:
            del st.query_params["page"]
