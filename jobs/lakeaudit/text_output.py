"""What `audit` prints for people, and the line that says its verdict.

Keys, table names and reasons come from stores and writers and are hostile: nothing that was read is taken for
markup, and whatever cannot be seen, or would move the cursor, is spelled out (`report.words.visible`).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from lakeaudit import formatting, next_steps
from lakeaudit.kinds import axis_words
from lakeaudit.report import closing, coverage_view, summary, verdict
from lakeaudit.report.page import PageData

if TYPE_CHECKING:
    from lakeaudit.runtime.aws import Endpoint

Row = Mapping[str, Any]

STYLES = {"critical": "bold red", "error": "red", "warning": "yellow", "info": "dim"}
KINDS = 8
WORST = 3
"""Findings written out."""
TABLES = 4
"""Tables with a line of their own under coverage, the least judged first: those that were judged whole are a number."""
REASONS = 3
SOURCES = 6

_LEVELS = {"unjudged": "UNDECIDED", "fine": "OK"}
_CELLS = {"off": ("\u2013", "dim"), "empty": ("no files", "dim"), "nothing": ("nothing", "bold red")}
_OFF = "\u2013 not judged: no such evidence is set up, or the table could not be read"


def verdict_line(page: PageData) -> str:
    """`CRITICAL: 12 dropped in 2 tables`: the worst there is, else what could not be told, else that all is well."""
    tables = coverage_view.judged(page.coverage)
    said = verdict.verdict(page.run, page.standing, page.totals, tables, page.lake_tables)
    level = _LEVELS.get(said.level, said.level.upper())
    unsure = page.run["status"] if said.level in STYLES and page.run["status"] != "complete" else None
    scope = f"; {said.scope[:1].lower()}{said.scope[1:]}" if said.scope else ""
    return formatting.visible(f"{level}: {said.headline}" + (f" (audit {unsure})" if unsure else "") + scope)


def audit(console: Console, page: PageData) -> None:
    """What fits a screen: the run, its findings by kind, the worst, what was not judged, the evidence, what is next."""
    line(console, _headline(page.run))
    if page.totals:
        title(console, "Findings")
        console.print(_kinds(page))
        title(console, "Worst")
        _worst(console, page)
    _judged(console, page)
    title(console, "Evidence")
    sources = page.run["sources"] or ()
    for source in sources[:SOURCES]:
        _source(console, source)
    if len(sources) > SOURCES:
        line(console, plain(f"and {formatting.count(len(sources) - SOURCES)} more", "dim"), indent=1)
    for words_of_gate in page.run.get("gates") or ():
        line(console, plain(words_of_gate, STYLES["warning"]), indent=1)
    _end(console, page)


def _judged(console: Console, page: PageData) -> None:
    """How many tables were judged whole, and of the others what was judged of them and why no more."""
    tables = coverage_view.judged(page.coverage)
    apart = [table for table in tables if table.standing != "whole"]
    title(console, "Coverage")
    whole = len(tables) - len(apart)
    words = f"{formatting.count(whole)} of {formatting.number(len(tables), 'table')} fully judged"
    line(console, plain(words, "green" if tables and not apart else ""), indent=1)
    if not apart:
        return
    axes, _ = coverage_view.axes_to_show(apart)
    console.print(_coverage(apart, axes))
    if any(
        table.cells[axis].state == "off" for table in apart[:TABLES] for axis in axes if axis in table.cells
    ):
        line(console, plain(_OFF, "dim"), indent=1)
    for reason in _reasons(page):
        line(console, reason, indent=1)


def _end(console: Console, page: PageData) -> None:
    """What became of the ledger, and what to type next."""
    console.print()
    if page.history is not None:
        line(console, plain(closing.closing(page), "bold"))
    for command in closing.next_commands(page):
        line(console, plain(command), indent=1)


def finding(console: Console, row: Row, place: str | None = None) -> None:
    """One finding: what and where on lines of their own, so that a key can be copied whole.

    `place` stands for the row's subject where that is a group of this one file.
    """
    severity = row["severity"] or ""
    head = plain(severity or formatting.UNKNOWN, STYLES.get(severity, "")).append(" ")
    head.append_text(plain(row["kind"], "bold")).append("  ")
    head.append_text(plain(row["table_name"] or summary.NO_TABLE)).append(f"  {at_stake(row)}")
    line(console, head, indent=1)
    line(console, plain(place or row["subject"]), indent=3)
    if known := formatting.cause(row):
        line(console, plain(f"cause: {known}", "dim"), indent=3)


def next_step(console: Console, row: Row, at: "Endpoint | None", marker: str | None = None) -> None:
    """How the file comes back, as a command of its own line; else what to do about its kind."""
    step = next_steps.way_back(row, at, marker)
    do = next_steps.to_do(row["kind"])
    if do and (step is None or row["kind"] in next_steps.THINK_FIRST):
        line(console, plain(f"do: {do}", "dim"), indent=3)
    if step is not None:
        line(console, plain(f"to {step.what}:", "dim"), indent=3)
        line(console, plain(step.command), indent=5)


def discrepancy(console: Console, row: Row) -> None:
    """One row of the ledger: the finding, then how it stands, since when, and who accepts it."""
    finding(console, row)
    parts = [row["state"], f"seen since {formatting.second(row['first_seen_at'])}"]
    if row["state"] == "resolved":
        parts += [f"{formatting.ended(row['resolution'])} at {formatting.second(row['resolved_at'])}"]
    if row["reopened"]:
        parts += [f"came back {formatting.number(row['reopened'], 'time')}"]
    if row["ack_until"]:
        parts += [
            f"accepted by {row['ack_by']} until {formatting.second(row['ack_until'])}: {row['ack_reason']}"
        ]
    line(console, plain(" · ".join([*parts, f"id {row['discrepancy_id']}"]), "dim"), indent=3)


def plain(value: object, style: str = "") -> Text:
    """A value as text that cannot act on the terminal; a dash where it is unknown."""
    return Text(formatting.UNKNOWN if value is None else formatting.visible(str(value)), style=style)


def grid(*columns: tuple[str, str], header: bool = True) -> Table:
    """A table without lines; each column is its title and `left`, `right` or `fold`.

    Only what may fold gives way on a narrow terminal.
    """
    table = Table(box=None, show_header=header, header_style="dim", pad_edge=False, padding=(0, 2, 0, 1))
    for title, kind in columns:
        table.add_column(
            title,
            justify="right" if kind == "right" else "left",
            overflow="fold",
            no_wrap=kind != "fold",
        )
    return table


def at_stake(finding: Row) -> str:
    """Rows and bytes at stake, and the number of files where it is not one."""
    files, rows = finding["files"], finding["rows_at_stake"]
    parts = [formatting.number(files, "file")] if files not in (None, 1) else []
    parts += [formatting.number(rows, "row")] if rows is not None else []
    parts += [formatting.size(finding["bytes_at_stake"])] if finding["bytes_at_stake"] is not None else []
    return ", ".join(parts)


def _headline(run: Row) -> Text:
    parts = [run["lake"], run["status"], f"run {run['run_id']}", f"as of {formatting.second(run['as_of'])}"]
    if run["finished_at"] and run["started_at"]:
        parts.append(f"took {formatting.duration(run['finished_at'] - run['started_at'])}")
    return plain(" · ".join(parts), "bold")


def title(console: Console, text: str) -> None:
    """The head of a section."""
    console.print()
    console.print(plain(text, "bold"), soft_wrap=True)


def line(console: Console, text: Text, indent: int = 0) -> None:
    """A line that the terminal wraps, not we: what is copied has no line break of ours in it."""
    console.print(Text(" " * indent).append_text(text), soft_wrap=True)


def _kinds(page: PageData) -> Table:
    table = grid(
        ("severity", "left"),
        ("kind", "left"),
        *((title, "right") for title in ("findings", "files", "rows", "bytes", "tables")),
    )
    kinds = summary.by_kind(page.totals)
    for kind in kinds[:KINDS]:
        stake = kind.stake
        amounts = [_amount(stake.files, formatting.count), _amount(stake.rows, formatting.count)]
        cells = [
            formatting.count(stake.findings),
            *amounts,
            _amount(stake.bytes, formatting.size),
            str(kind.tables),
        ]
        style = STYLES.get(kind.worst, "")
        table.add_row(plain(kind.worst, style), plain(kind.name), *map(plain, cells))
    if rest := kinds[KINDS:]:
        found = formatting.count(sum(kind.stake.findings for kind in rest))
        table.add_row(
            plain("", "dim"),
            plain(f"{formatting.number(len(rest), 'more kind')}", "dim"),
            plain(found, "dim"),
        )
    return table


def _amount(value: summary.Amount, put: Any) -> str:
    """A sum of which a part is unknown is at least that."""
    told: str = put(value.known)
    return told if value.whole or value.known is None else f"\u2265 {told}"


def _worst(console: Console, page: PageData) -> None:
    for row in page.findings[:WORST]:
        finding(console, row, page.place(row))
        if told := formatting.comeback(row):
            line(console, plain(told, "dim"), indent=3)
        next_step(console, row, page.reach.get(row["bucket"] or ""))
    rest = page.found - len(page.findings[:WORST])
    if rest:
        more = f"and {formatting.count(rest)} more: lakeaudit findings {formatting.shell_word(page.lake)}"
        line(console, plain(more, "dim"), indent=1)


def _coverage(tables: Sequence[coverage_view.Judged], axes: Sequence[str]) -> Table:
    grid_of = grid(("table", "fold"), *((axis_words(axis), "fold") for axis in axes))
    for table in tables[:TABLES]:
        cells = [_cell(table.cells.get(axis)) for axis in axes]
        name_style = "" if table.standing == "whole" else STYLES["warning"]
        grid_of.add_row(plain(table.name or summary.NO_TABLE, name_style), *cells)
    for standing, called in coverage_view.STANDINGS.items():
        rest = sum(table.standing == standing for table in tables[TABLES:])
        if rest:
            grid_of.add_row(plain(f"{formatting.count(rest)} more {called}", "dim"))
    return grid_of


def _cell(cell: coverage_view.Cell | None) -> Text:
    """A share is green only where everything was decided, and 100 % only there."""
    if cell is None:
        return Text("")
    if cell.state in _CELLS:
        return Text(*_CELLS[cell.state])
    told = formatting.share(cell.share) if cell.share is not None else "nothing"
    return Text(told, "green" if cell.state == "whole" else STYLES["warning"])


def _reasons(page: PageData) -> Iterator[Text]:
    """Why something could not be judged, each reason once, with the tables and questions that it holds for."""
    holding: dict[str, list[tuple[str, str, str]]] = {}
    for table in coverage_view.judged(page.coverage):
        for cell in table.cells.values():
            if cell.state in ("nothing", "part") and cell.reason:
                about = (table.name or summary.NO_TABLE, axis_words(cell.axis), cell.reason)
                holding.setdefault(_without_place(cell.reason), []).append(about)
    for common, held in list(holding.items())[:REASONS]:
        names, axes = (list(dict.fromkeys(each[at] for each in held)) for at in (0, 1))
        reasons = {reason for _, _, reason in held}
        told = next(iter(reasons)) if len(reasons) == 1 else common
        more = f" and {formatting.count(len(names) - 1)} more" if len(names) > 1 else ""
        yield plain(f"{', '.join(axes)}, {names[0]}{more}: {told}", STYLES["warning"])
    if len(holding) > REASONS:
        yield plain(f"and {formatting.count(len(holding) - REASONS)} more reasons in the report", "dim")


def _without_place(reason: str) -> str:
    """What is the same for every table of a store that cannot be reached: the place at its begin is not."""
    place, _, rest = reason.partition(": ")
    return rest if rest and place.startswith(("s3://", "/")) else reason


def _source(console: Console, source: Row) -> None:
    head = plain(f"{source['role']} {source['kind']}", "bold").append(
        f"  {formatting.count(source['rows'])} rows"
    )
    if source["rejected"]:
        head.append(f", {formatting.count(source['rejected'])} rejected", STYLES["warning"])
    head.append(f", {_cut(source)}  ", "dim").append_text(plain(source["location"]))
    line(console, head, indent=1)


def _cut(source: Row) -> str:
    start, end = source["cut_from"], source["cut_to"]
    if start is None or end is None or end == start:
        return f"taken {formatting.second(start or end)}"
    return f"taken {formatting.second(start)}, over {formatting.duration(end - start)}"
