"""How things are shown on every page, and how stored text is kept from acting there.

Everything that was read may be hostile. Streamlit takes most texts for Markdown, with arrows, emoji, formulas and bare
addresses of its own on top, so stored text goes through one of three doors: `st.text` or `st.code`, which interpret
nothing; `literal`, a code span; `prose`, where every word that could mean anything becomes a code span.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote, urlencode

import pandas as pd
import streamlit as st

from lakeaudit import formatting
from lakeaudit.dashboard import looks
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

PAGES = "/pages"
"""Where the session keeps its pages by name."""

_NAME = r"[A-Za-z0-9]+(?:[._=/'-][A-Za-z0-9]+)*"
_TAME = re.compile(
    rf"\(?{_NAME}[%]?\)?[,;.:]?|\d{{1,3}}(?:,\d{{3}})+[,;.:]?|\d\d:\d\d:\d\dZ\)?[,;.]?|[%\u2014\u2265]"
)
_TELLING = re.compile(r"www\.|https?|ftp|^\(?\d+[.)]$|^\((?:c|r|tm|p)\)", re.IGNORECASE)
"""What Markdown, or Streamlit on top of it, makes a link, a list or a sign of, though it is letters and digits."""


def literal(value: object) -> str:
    """A stored value as a Markdown code span that holds exactly it."""
    if value is None:
        return UNKNOWN
    text = re.sub(" {2,}", lambda spaces: r"\x20" * len(spaces[0]), visible(str(value)))
    if not text:
        return "(empty)"
    fence = "`" * (max((len(run) for run in re.findall("`+", text)), default=0) + 1)
    edge = " " if "`" in (text[0], text[-1]) else ""
    return f"{fence}{edge}{text}{edge}{fence}"


def prose(sentence: str) -> str:
    """A sentence with stored words in it as Markdown: what is not a plain word is a code span."""
    words = visible(sentence).split(" ") if sentence else []
    return " ".join(word if _tame(word) else literal(word or r"\x20") for word in words)


def _tame(word: str) -> bool:
    return _TAME.fullmatch(word) is not None and _TELLING.search(word) is None


def badge(level: str, words: str | None = None) -> str:
    """A severity, or other words of ours, as a coloured mark."""
    if level not in COLOURS:
        return literal(level)
    return f":{COLOURS[level]}-badge[{shape(level)} {words or display_name(level)}]"


def marks(level: str, doubt: str) -> str:
    """How a table stands; what could not be decided always has its own mark, and never a green one."""
    doubts = [badge("unjudged", doubt)] if doubt else []
    return " ".join([badge(level), *doubts] if level != "unjudged" else doubts)


def link(page: str, label: str, **chosen: str) -> None:
    """A link to another page, with what is chosen there; the label is Markdown that the caller has made safe."""
    st.page_link(st.session_state[PAGES][page], label=label, query_params=chosen)


def address_of(page: str, **chosen: str) -> str:
    """Where a page lies with what is chosen there, for what is no `link`: cells of grids and marks of charts."""
    return f"{page}?{urlencode(chosen, quote_via=quote, safe='')}"


def cell_link(page: str, label: str, **chosen: str) -> str:
    """The same in a cell of a `grid`; as everywhere in cells it opens a page of its own."""
    return f"[{label}]({address_of(page, **chosen)})"


def title(level: str | None, text: str, kicker: str = "", *, stored: bool = False) -> None:
    """The head of a page: what it is about, and how that stands. `stored`: all of it is one stored name."""
    if kicker:
        st.caption(kicker)
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        if level:
            st.markdown(badge(level), width="content")
        st.title(literal(text) if stored else prose(text), anchor=False)


def section(words: str) -> None:
    """The head of a part of a page, in words of ours."""
    st.header(words, anchor=False)


def grid(
    columns: Sequence[str],
    rows: Sequence[Sequence[object]],
    alt: str,
    numbers: Sequence[str] = (),
    of: str = "",
) -> None:
    """A real table of texts; cells are Markdown that the caller has made safe.

    Args:
        columns: their heads.
        rows: a cell for each column.
        alt: what the table is called where it is read out.
        numbers: columns set to the right.
        of: what tells it from others of the same name on the page: an id of what it is about.
    """
    frame = pd.DataFrame([[str(cell) for cell in row] for row in rows], columns=list(columns), dtype=str)
    right = "".join(f"n{at}-" for at, name in enumerate(columns, 1) if name in numbers)
    with st.container(key=f"{looks.GRID}-{right}{re.sub('[^a-z0-9]+', '-', f'{alt} {of}'.lower())}"):
        st.table(frame, border="horizontal", hide_index=True, alt=alt)


def columns_said(rows: Sequence[Mapping[str, object]]) -> list[str]:
    """The columns in which any row says something: the others only take room."""
    return [
        name for name in (rows[0] if rows else ()) if any(row[name] not in (None, "", []) for row in rows)
    ]


def facts(named: Mapping[str, object], alt: str) -> None:
    """Names and stored values beside each other; what is unknown is left out."""
    rows = [(name, literal(value)) for name, value in named.items() if value is not None]
    if rows:
        frame = pd.DataFrame(rows, columns=["what", "value"], dtype=str)
        st.table(frame, border="horizontal", hide_index=True, hide_header=True, alt=alt)


def amount(value: Amount, *, of_bytes: bool = False) -> str:
    """A sum in words; where a part of it is unknown, it is at least that."""
    told = size(value.known) if of_bytes else count(value.known)
    return told if value.whole or value.known is None else f"\u2265 {told}"


def reopened(again: int, number: int) -> str:
    """How many of so many were resolved before; empty where none was."""
    return f", {'' if again == number else f'{count(again)} '}reopened" if again else ""


def number(value: int | None, noun: str) -> str:
    """1 file, 2 files."""
    return f"{count(value)} {noun}{'' if value == 1 else 's'}"


def files(value: Amount) -> str:
    """Of a sum of files."""
    return number(1, "file") if value == Amount(1, whole=True) else f"{amount(value)} files"


def plain(sentence: str) -> None:
    """A sentence with stored words in it, as it is."""
    st.text(visible(sentence))


@contextmanager
def told() -> Iterator[None]:
    """A failure inside becomes one sentence on the page, with the way out, and never a traceback."""
    try:
        yield
    except LakeFileError as error:
        failure(str(error), "mend the lake file, then reload")
    except AuditError as error:
        failure(f"{error.where}: {error.what}", error.hint)
    except Exception as error:  # noqa: BLE001 - a page says what happened, the rest of the session goes on
        first = one_line(next(iter(str(error).splitlines()), ""), 200)
        failure(f"unexpected {type(error).__name__}: {first}", "reload; if it stays, please report it")


def failure(what: str, hint: str) -> None:
    """What cannot be shown, and what to do about it."""
    with st.container(border=True):
        st.markdown(":red-badge[cannot be shown]")
        for line in what.split("\n"):
            plain(line)
        st.caption("What to do")
        plain(hint)


class Address:
    """The page's own address: what is chosen lives there and nowhere else, so that every view can be shared.

    Its values are hostile: what is not offered is not chosen.
    """

    def __init__(self, page: str) -> None:
        self._page = page

    def given(self, name: str) -> str | None:
        """A text as it stands there."""
        value = st.query_params.get(name)
        return None if value is None else value.encode("utf-8", "replace").decode()

    def number(self, name: str, most: int) -> int:
        """A whole number from 1 on."""
        given = self.given(name) or ""
        wanted = int(given) if re.fullmatch(r"[0-9]{1,9}", given) else 1
        return min(max(wanted, 1), max(most, 1))

    def several(
        self, name: str, label: str, options: Sequence[str], default: Sequence[str] = ()
    ) -> tuple[str, ...]:
        """A choice of several."""
        there = st.query_params.get_all(name) if name in st.query_params else list(default)
        key = self._key(name)
        st.session_state[key] = [value for value in options if value in there]
        chosen = st.multiselect(
            label, options, key=key, on_change=self._put, args=(name,), format_func=visible
        )
        return tuple(chosen)

    def one(self, name: str, label: str, options: Sequence[str]) -> str | None:
        """A choice of one; None where nothing is chosen."""
        key, given = self._key(name), self.given(name)
        st.session_state[key] = given if given in options else None
        chosen: str | None = st.selectbox(
            label, options, key=key, index=None, on_change=self._put, args=(name,), format_func=visible
        )
        return chosen

    def typed(self, name: str, label: str, help: str | None = None) -> str:  # noqa: A002 - Streamlit's own word
        """A text that is typed."""
        key = self._key(name)
        st.session_state[key] = (self.given(name) or "")[:2000]
        return st.text_input(label, key=key, on_change=self._put, args=(name,), help=help)

    def pages(self, name: str, total: int, size: int) -> int:
        """Which page of a list is shown, with buttons to the next ones."""
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

    def _put(self, name: str) -> None:
        value: Any = st.session_state[self._key(name)]
        st.query_params[name] = [*value] if isinstance(value, list) and value else value or ""
        if "page" in st.query_params:
            del st.query_params["page"]
