"""Print the result of `audit` for people, and its verdict.

Keys, table names and reasons come from stores and writers and are untrusted: no text that was read is interpreted as
markup, and characters that are invisible or move the cursor are escaped (`formatting.visible`).
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from lakeaudit import formatting
from lakeaudit.advice import next_steps
from lakeaudit.advice.command_lines import operand
from lakeaudit.kinds import WHOLE_PARTITION, axis_words
from lakeaudit.report import closing, coverage_view, summary, verdict
from lakeaudit.report.page_data import PageData
from lakeaudit.results import recovery

if TYPE_CHECKING:
    from lakeaudit.runtime.connections.aws import Endpoint

Row = Mapping[str, Any]

STYLES = {"critical": "bold red", "error": "red", "warning": "yellow", "info": "dim"}


@dataclass(frozen=True)
class Size:
    """The number of lines that are printed for each part; the others are only counted.

    `worst` are findings, `tables` those that were not fully judged; `steps`: print the next step of each finding.
    """

    kinds: int = 8
    worst: int = 3
    steps: bool = True
    tables: int = 4
    reasons: int = 3
    sources: int = 6
    gates: int = 5


SIZES = (
    Size(),
    Size(steps=False),
    Size(worst=2, steps=False, tables=3, reasons=2, sources=3, gates=2),
    Size(kinds=6, worst=1, steps=False, tables=2, reasons=1, sources=1, gates=1),
    Size(kinds=5, worst=1, steps=False, tables=0, reasons=1, sources=0, gates=1),
    Size(kinds=7, worst=0, steps=False, tables=0, reasons=0, sources=0, gates=0),
    Size(kinds=4, worst=0, steps=False, tables=0, reasons=0, sources=0, gates=0),
    Size(kinds=2, worst=0, steps=False, tables=0, reasons=0, sources=0, gates=0),
    Size(kinds=1, worst=0, steps=False, tables=0, reasons=0, sources=0, gates=0),
)
"""The largest size that fits on the screen is used."""

AROUND = 3
"""Lines of a screen for the command, the verdict and the next prompt."""

_LEVELS = {"unjudged": "UNDECIDED", "fine": "OK"}


def verdict_line(page: PageData) -> str:
    """Return `CRITICAL: 12 files dropped in 2 tables`: the worst findings, else open questions, else no finding."""
    tables = coverage_view.judged(page.coverage)
    result = verdict.verdict(page.run, page.standing, page.totals, tables, page.lake_tables, page.verified)
    level = _LEVELS.get(result.level, result.level.upper())
    limit = _limit(page.run) if result.level in STYLES else ""
    scope = f"; {result.scope[:1].lower()}{result.scope[1:]}" if result.scope else ""
    return formatting.visible(f"{level}: {result.headline}{limit}{scope}")


def _limit(run: Row) -> str:
    """Return the status of an audit that is not complete, in brackets."""
    if run["status"] == "complete":
        return ""
    if run["status"] == "failed":
        return f" (the audit failed{': ' if run['error'] else ''}{run['error'] or ''})"
    return f" (the audit is {run['status']})"


def audit(console: Console, page: PageData) -> None:
    """Print the run, its findings by kind, the worst ones, the coverage, the evidence and the next commands.

    On a terminal the output is shortened to one screen.
    """
    for size in SIZES:
        with console.capture() as printed:
            _audit(console, page, size)
        if not console.is_terminal or _rows(printed.get(), console.width) <= console.height - AROUND:
            break
    _audit(console, page, size)


def scan(
    console: Console,
    page: PageData,
    unlisted: Iterable[str],
    small: Iterable[str],
    left_out: Iterable[str],
    commands: Iterable[str],
) -> None:
    """Print the worst findings, the files that no table lists, small files, the coverage and the next commands."""
    size = Size()
    if page.totals:
        title(console, "Findings")
        console.print(_kinds(page, size.kinds, console.width))
        title(console, "Worst findings")
        for row in page.findings:
            _with_recovery(console, page, row)
        if rest := page.finding_count - len(page.findings):
            line(console, plain(f"and {formatting.number(rest, 'more finding')}", "dim"), indent=1)
    title(console, "Files that no table lists")
    for each in unlisted:
        line(console, plain(each), indent=1)
    _small_files(console, [*small])
    _judged(console, page, size)
    for each in left_out:
        line(console, plain(each, STYLES["warning"]), indent=1)
    title(console, "Next")
    for each in commands:
        line(console, plain(each), indent=1)


def _small_files(console: Console, lines: Sequence[str]) -> None:
    if lines:
        title(console, "Small files")
    for each in lines:
        line(console, plain(each), indent=1)


def _rows(text: str, width: int) -> int:
    """Return the number of lines on a screen, which wraps longer lines."""
    lengths = (Text.from_ansi(each).cell_len for each in text.splitlines())
    return sum(max(-(-length // width), 1) for length in lengths)


def _audit(console: Console, page: PageData, size: Size) -> None:
    line(console, _headline(page.run))
    if page.totals:
        title(console, "Findings")
        console.print(_kinds(page, size.kinds, console.width))
        _worst(console, page, size)
    _judged(console, page, size)
    _evidence(console, page.run, size)
    _end(console, page, size)


def _judged(console: Console, page: PageData, size: Size) -> None:
    """Print the number of fully judged tables, and for the others the missing parts with the reasons."""
    tables = coverage_view.judged(page.coverage)
    others = [table for table in tables if table.standing != "whole"]
    title(console, "Coverage: what was judged")
    whole = len(tables) - len(others)
    words = f"{formatting.count(whole)} of {formatting.number(len(tables), 'table')} fully judged"
    summary_line = plain(words, "green" if tables and not others else "")
    rest = _by_standing(others[size.tables :], "more " if size.tables else "")
    if not size.tables and rest:
        summary_line.append(f", {rest}", STYLES["warning"])
    line(console, summary_line, indent=1)
    if size.tables and page.run["status"] == "partial":
        sentence(console, plain(PARTIAL), indent=1)
    for table in others[: size.tables]:
        sentence(console, _not_whole(table), indent=1)
    if size.tables and rest:
        sentence(console, plain(rest, STYLES["warning"]), indent=1)
    reasons = list(_reasons(page, size.reasons))
    if reasons and others[: size.tables]:
        line(console, plain("Reasons:"), indent=1)
    for reason in reasons:
        sentence(console, reason, indent=1)


PARTIAL = "A partial audit ends with exit code 3, or with 1 if a finding reaches --fail-on."


def _by_standing(tables: Sequence[coverage_view.Judged], more: str) -> str:
    """Return the number of tables by standing."""
    numbers = Counter(table.description for table in tables)
    return ", ".join(
        f"{formatting.number(n, f'{more}table')} {_phrase(standing)}" for standing, n in numbers.items()
    )


def _phrase(standing: str) -> str:
    return f"of which {standing}" if standing == coverage_view.NOTHING_JUDGED else standing


def _not_whole(table: coverage_view.Judged) -> Text:
    """Return a table with the axes that were not fully judged."""
    text = plain(
        formatting.shortened(formatting.visible(table.name or formatting.NO_TABLE), NAME), STYLES["warning"]
    )
    cells = {axis: cell for axis, cell in table.cells.items() if cell.state != "off"}
    by_extent: dict[str, list[str]] = {}
    for axis, cell in cells.items():
        if cell.state not in FINE:
            by_extent.setdefault(extent(cell), []).append(axis_words(axis))
    whole = len(by_extent) == 1 and len(next(iter(by_extent.values()))) == len(cells)
    parts = [words if whole else with_axes(words, axes) for words, axes in by_extent.items()]
    off = [axis_words(axis) for axis in table.cells if axis not in cells]
    parts += (
        [f"no source for {formatting.number(len(off), 'check')} ({', '.join(off)})"]
        if off and len(off) < len(table.cells)
        else []
    )
    parts += [coverage_view.NOTHING_JUDGED] if len(off) == len(table.cells) else []
    return text.append(f": {'; '.join(parts)}")


def extent(cell: coverage_view.Cell) -> str:
    """Return how much of an axis was judged, with the unit of a percentage."""
    return f"{cell.percent} of {cell.noun}s judged" if cell.percent else cell.extent


def with_axes(judged: str, axes: Sequence[str]) -> str:
    """Return `partly judged (commits, duplicates)`: how much was judged, and on which axes; an axis is named once."""
    if judged.endswith(f"{axes[0]} judged"):
        return judged
    return f"{_SHORT.get(judged, judged)} ({', '.join(axes)})"


_SHORT = {coverage_view.NOTHING_JUDGED: "not judged"}
FINE = ("whole", "empty")
NAME = 48
"""Most characters of a table's name in the coverage."""


def _evidence(console: Console, run: Row, size: Size) -> None:
    sources = run["sources"] or ()
    if size.sources:
        title(console, "Evidence: what was read")
    else:
        rows = sum(source["rejected"] or 0 for source in sources)
        oldest = min((source["cut_from"] for source in sources if source["cut_from"]), default=None)
        words = (
            f"{formatting.number(len(sources), 'source')}, the oldest taken at {formatting.second(oldest)}"
        )
        words += f"; {formatting.number(rows, 'row')} could not be read" if rows else ""
        sentence(console, plain(words), indent=1)
    for source in sources[: size.sources]:
        _source(console, source)
    if size.sources and len(sources) > size.sources:
        more = f"and {formatting.number(len(sources) - size.sources, 'more source')}"
        sentence(console, plain(more, "dim"), indent=1)
    gates = run.get("gates") or ()
    for words_of_gate in gates[: size.gates]:
        line(
            console, plain(f"failed check of the audit itself, {words_of_gate}", STYLES["warning"]), indent=1
        )
    if len(gates) > size.gates:
        words = (
            f"{formatting.number(len(gates) - size.gates, 'more check' if size.gates else 'check')} failed"
        )
        sentence(console, plain(words, STYLES["warning"]), indent=1)


def _end(console: Console, page: PageData, size: Size) -> None:
    """Print the changes of the ledger, and the next commands."""
    console.print()
    if page.history is not None:
        line(console, plain(f"Discrepancies: {closing.closing(page)}", "bold"))
    if held := closing.pressing(page):
        sentence(console, plain(held, "bold"))
    commands = closing.next_commands(page)
    if size.worst:
        line(console, plain(f"Next: {closing.purposes(commands)}"))
    for command in commands:
        line(console, plain(command), indent=1)


def finding(console: Console, row: Row, place: str | None = None, known: str = "") -> None:
    """Print one finding, with its subject on a line of its own for copying.

    `place` replaces the row's subject if that is a group of one file. `known` is a subject that is printed already,
    with explanations.
    """
    severity = row["severity"] or ""
    head = plain(severity or formatting.UNKNOWN, STYLES.get(severity, "")).append(" ")
    head.append_text(plain(row["kind"], "bold")).append("  ")
    head.append_text(plain(row["table_name"] or formatting.NO_TABLE)).append(f"  {at_stake(row)}")
    line(console, head, indent=1)
    if known not in (row["subject"], formatting.uri(row)):
        line(console, plain(place or row["subject"]), indent=3)
    if not known and (row["explanation"] or "").startswith(WHOLE_PARTITION):
        sentence(console, plain(row["explanation"].partition("; ")[0], "dim"), indent=3)
    if known := formatting.cause(row):
        sentence(console, plain(f"cause: {known}", "dim"), indent=3)


def next_step(
    console: Console,
    row: Row,
    at: "Endpoint | None",
    lake_file: str,
    marker: str | None = None,
    beside: Collection[str] = (),
) -> None:
    """Print the command that restores the file on a line of its own, or the advice for its kind.

    `lake_file` is the lake file as it was typed; `beside` are the kinds of all findings about the file.
    """
    step = next_steps.printed_step(row, at, marker, beside)
    if do := next_steps.advice(row, step, beside):
        do = next_steps.with_names(do, lake_file, [row["table_name"]])
        sentence(console, plain(f"do: {do}", "dim"), indent=3)
    if step is not None:
        line(console, plain(f"to {step.what}:", "dim"), indent=3)
        line(console, plain(step.command), indent=5)


def discrepancy(console: Console, row: Row, known: str = "") -> None:
    """Print one row of the ledger: the finding, then its state, since when, and who accepts it; see `finding`."""
    finding(console, row, known=known)
    parts = [row["state"], f"first seen at {formatting.second(row['first_seen_at'])}"]
    if row["state"] == "resolved":
        parts += [f"{next_steps.resolution_text(row)} at {formatting.second(row['resolved_at'])}"]
    if row["reopened"]:
        parts += [f"reopened {formatting.number(row['reopened'], 'time')}"]
    if row["ack_until"]:
        parts += [
            f"accepted by {row['ack_by']} until {formatting.day_end(row['ack_until'])}: {row['ack_reason']}"
        ]
    line(console, plain(" · ".join([*parts, f"id {row['discrepancy_id']}"]), "dim"), indent=3)


def plain(value: object, style: str = "") -> Text:
    """Return a value as text that cannot control the terminal; a dash if it is unknown."""
    return Text(formatting.UNKNOWN if value is None else formatting.visible(str(value)), style=style)


def grid(*columns: tuple[str, str], header: bool = True) -> Table:
    """Return a table without lines; each column has a title and `left`, `right` or `fold`.

    On a narrow terminal only the `fold` columns wrap.
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
    """Return rows and bytes at stake, and the number of files unless it is one."""
    files, rows = finding["files"], finding["rows_at_stake"]
    parts = [formatting.number(files, "file")] if files not in (None, 1) else []
    parts += [formatting.number(rows, "row")] if rows is not None else []
    parts += [formatting.size(finding["bytes_at_stake"])] if finding["bytes_at_stake"] is not None else []
    return ", ".join(parts)


def _headline(run: Row) -> Text:
    status = _STATUSES.get(run["status"], run["status"])
    parts = [run["lake"], status, f"as of {formatting.second(run['as_of'])}"]
    if run["finished_at"] and run["started_at"]:
        parts.append(f"took {formatting.duration(run['finished_at'] - run['started_at'])}")
    parts.append(f"run {run['run_id']}")
    return plain(" · ".join(parts), "bold")


_STATUSES = {
    "partial": "partial (evidence is incomplete)",
    "suspect": "suspect (a source lacks too many files)",
    "failed": "failed (nothing could be judged)",
}


def title(console: Console, text: str) -> None:
    """Print the heading of a section."""
    console.print()
    console.print(plain(text, "bold"), soft_wrap=True)


def line(console: Console, text: Text, indent: int = 0) -> None:
    """Print a line that only the terminal wraps, so that copied text has no additional line breaks."""
    console.print(Text(" " * indent).append_text(text), soft_wrap=True)


def sentence(console: Console, text: Text, indent: int = 0) -> None:
    """Print text that nobody copies as a whole: a terminal gets it wrapped at words."""
    if console.is_terminal:
        console.print(Padding(text, (0, 0, 0, indent), expand=False))
    else:
        line(console, text, indent)


def _kinds(page: PageData, shown: int, width: int) -> Table:
    """Return a row per kind; on a narrow screen the columns of files and bytes are omitted."""
    amounts = ("findings", "files", "rows", "bytes") if width >= WIDE else ("findings", "rows")
    table = grid(
        ("severity", "left"), ("kind", "left"), *((title, "right") for title in amounts), ("where", "fold")
    )
    kinds = summary.by_kind(page.totals)
    for kind in kinds[:shown]:
        stake = kind.stake
        values = {
            "findings": formatting.count(stake.findings),
            "files": _amount(stake.files, formatting.count),
            "rows": _amount(stake.rows, formatting.count),
            "bytes": _amount(stake.bytes, formatting.size),
        }
        cells = [kind.name, *(values[title] for title in amounts), _where(kind)]
        table.add_row(plain(kind.worst, STYLES.get(kind.worst, "")), *map(plain, cells))
    if rest := kinds[shown:]:
        findings = formatting.count(sum(kind.stake.findings for kind in rest))
        names = {kind.name for kind in rest} - {kind.name for kind in kinds[:shown]}
        parts = [formatting.number(len(names), "more kind")] if names else []
        more = ", ".join([*parts, *(["other severities"] if len(rest) > len(names) else [])])
        table.add_row(plain("", "dim"), plain(more, "dim"), plain(findings, "dim"))
    return table


WIDE = 100
"""Columns of a screen that are wide enough for all amounts."""


def _where(kind: summary.Line) -> str:
    """Return the table's name, or the number of tables; a dash without a table."""
    if kind.table is not None:
        return formatting.shortened(formatting.visible(kind.table), PLACE)
    return formatting.number(kind.tables, "table") if kind.tables else formatting.UNKNOWN


PLACE = 22
"""Most characters of a table's name next to its findings."""


def _amount(value: summary.Amount, put: Any) -> str:
    """Format a sum, with a sign for "at least" if a part is unknown."""
    text: str = put(value.known)
    return text if value.whole or value.known is None else f"\u2265 {text}"


def _worst(console: Console, page: PageData, size: Size) -> None:
    if size.worst:
        title(console, "Worst findings")
    for row in page.findings[: size.worst]:
        _with_recovery(console, page, row)
        if size.steps:
            next_step(console, row, page.reach.get(row["bucket"] or ""), page.lake, beside=page.beside(row))
    rest = page.finding_count - len(page.findings[: size.worst])
    if rest and size.worst:
        more = f"and {formatting.number(rest, 'more finding')}: lakeaudit findings {operand(page.lake)}"
        line(console, plain(more, "dim"), indent=1)


def _with_recovery(console: Console, page: PageData, row: Row) -> None:
    finding(console, row, page.place(row))
    if text := recovery.of_finding(row):
        line(console, plain(text, "dim"), indent=3)


def _reasons(page: PageData, shown: int) -> Iterator[Text]:
    """Yield the reasons for missing judgements, each once, with its tables and axes."""
    holding: dict[str, list[tuple[str, str, str]]] = {}
    for table in coverage_view.judged(page.coverage):
        for cell in table.cells.values():
            if cell.state in ("nothing", "part", "young") and cell.reason:
                about = (table.name or formatting.NO_TABLE, axis_words(cell.axis), cell.reason)
                holding.setdefault(_without_place(cell.reason), []).append(about)
    for common, held in list(holding.items())[:shown]:
        names, axes = (list(dict.fromkeys(each[at] for each in held)) for at in (0, 1))
        reasons = {reason for _, _, reason in held}
        text = next(iter(reasons)) if len(reasons) == 1 else common
        more = f" and {formatting.number(len(names) - 1, 'more table')}" if len(names) > 1 else ""
        yield plain(f"{names[0]}{more} ({', '.join(axes)}): {text}", STYLES["warning"])
    if len(holding) > shown and shown:
        more = formatting.number(len(holding) - shown, "more reason")
        yield plain(f"and {more}, see the report", "dim")


def _without_place(reason: str) -> str:
    """Return a reason without the location at its beginning, so that equal reasons of several tables are merged."""
    place, _, rest = reason.partition(": ")
    return rest if rest and place.startswith(("s3://", "/")) else reason


def _source(console: Console, source: Row) -> None:
    head = plain(f"{formatting.side_label(source['role'])} {source['kind']}", "bold").append("  ")
    if source["rows"] is not None:
        what = "object" if source["role"] == "storage" else "row"
        head.append(f"{formatting.number(source['rows'], what)}, ")
    if source["rejected"]:
        head.append(f"{formatting.count(source['rejected'])} could not be read, ", STYLES["warning"])
    head.append(f"{_storage_window(source)}  ", "dim")
    head.append_text(plain(_places(source["location"])))
    line(console, head, indent=1)


def _places(location: str | None) -> str | None:
    """Return the first place of a source and the number of the others."""
    places = (location or "").split(", ")
    if len(places) == 1 or not all(each.startswith(("s3://", "/")) for each in places):
        return location
    return f"{places[0]} and {formatting.number(len(places) - 1, 'more place')}"


def _storage_window(source: Row) -> str:
    """Return when the source was read or written; a time on the same day is printed without the date."""
    start, end = source["cut_from"], source["cut_to"]
    first, last = formatting.second(start or end), formatting.second(end or start)
    if first == last:
        return f"taken at {first}"
    return f"taken from {first} to {last.removeprefix(first[: len('2026-11-21 ')])}"
