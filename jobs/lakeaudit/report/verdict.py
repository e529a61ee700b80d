"""The first line: what is wrong in the lake now, that nothing is, or that it could not be told; never two of them.

What is wrong is what the ledger holds open, wherever the last audit looked; what that audit looked at stands beside it.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lakeaudit.formatting import ACCEPTED, PENDING, count, number, visible
from lakeaudit.report.coverage_view import OPEN, Judged
from lakeaudit.report.summary import AT_STAKE, Line, by_kind, by_severity
from lakeaudit.results.recovery import Recovery, sentence

Row = Mapping[str, Any]

DECIDED = ("part", "whole")
NAMED = 5
"""Tables named in a sentence; the rest is a number."""
KINDS_NAMED = 4
"""Kinds named in the headline, or one less and how many are of others."""

_UNFINISHED = {
    "failed": "The audit failed",
    "running": "The audit has not finished",
    "suspect": "The evidence is suspect",
}


@dataclass(frozen=True)
class Verdict:
    """`level` is critical, error or warning, else `unjudged` or `fine`; the headline says it, the notes qualify it.

    `scope` says what the audit looked at and found there, where that was not the whole lake; it is the first note too.
    """

    level: str
    headline: str
    notes: tuple[str, ...]
    scope: str = ""


def verdict(
    run: Row,
    standing: Sequence[Row],
    totals: Sequence[Row],
    tables: Sequence[Judged],
    lake_tables: Sequence[str] = (),
) -> Verdict:
    """How the lake stands after a run.

    Args:
        run: its row of `runs`.
        standing: sums of what is unresolved, as `results.lake_standing` has them.
        totals: sums of what the run itself found.
        tables: the run's coverage.
        lake_tables: every table of the lake file.
    """
    pressing = [row for row in standing if row["standing"] != "accepted"]
    severities = by_severity(pressing)
    worst = next((line for line in severities if line.name in AT_STAKE and line.stake.findings), None)
    doubts = tuple(_doubts(run, tables))
    followed = {row["table_name"] for row in standing if row["standing"] != "found" and row["table_name"]}
    scope = _scope(run, totals, tables, {*lake_tables, *followed})
    first = (scope,) if scope else ()
    accepted = tuple(_accepted(standing))
    if worst:
        notes = (
            *_losses(tables),
            *_recovery(worst, pressing),
            *_also(worst, severities),
            *_pending(pressing),
            *_young(tables),
        )
        headline = f"{_mostly_blind(run, tables)}{_found(worst, by_kind(pressing))}"
        return Verdict(worst.name, headline, (*first, *notes, *accepted, *doubts), scope)
    decided = [table for table in tables if table.standing in DECIDED]
    quiet = tuple(f"{count(line.stake.findings)} at info" for line in severities if line.stake.findings)
    if doubts:
        headline = f"Could not judge {'all of it' if decided else 'anything'}: {_lower(doubts[0])}"
        rest = (_nothing_else(quiet),) if decided else ()
        notes = (*first, *doubts[1:], *rest, *accepted, *_idle(run, tables), *_young(tables))
        return Verdict("unjudged", headline, notes, scope)
    asked = "what was asked for of " if any(table.standing == "part" for table in decided) else ""
    headline = f"Nothing above info found in {asked}{_tables(len(decided))}"
    notes = (*first, *quiet, *accepted, *_idle(run, tables), *_young(tables))
    return Verdict("fine", headline, notes, scope)


def _scope(run: Row, totals: Sequence[Row], tables: Sequence[Judged], known: Collection[str]) -> str:
    """What the audit looked at, and the worst that it found there; empty where it looked at the whole lake.

    `known` are the tables of the lake file and those of which anything is open: tables may be found by each audit anew.
    """
    looked = [table.name for table in tables]
    narrowed = any(table.standing == "part" and _as_asked(run, table) and _lists(table) for table in tables)
    if not looked or (not narrowed and set(known) <= set(looked)):
        return ""
    of = f"{count(len(looked))} of {_tables(len({*known, *looked}))}"
    lines = [line for line in by_kind(totals) if line.worst in AT_STAKE]
    found = ", ".join(_of_kind(line) for line in lines) or "nothing above info"
    return f"This audit looked at {'a part of ' if narrowed else ''}{of} ({_names(looked)}) and found {found} there"


def _lists(table: Judged) -> bool:
    """Whether a manifest lists the files of the table: without one its content is judged in part, wherever it lies."""
    content = table.cells.get("content")
    return content is None or content.state != "off"


def _young(tables: Sequence[Judged]) -> Iterable[str]:
    """How many files are too young to judge, in how many tables, and why of one of them."""
    young = {
        table.name: cell
        for table in tables
        for cell in table.cells.values()
        if cell.axis == "content" and cell.counts["out_of_window"]
    }
    if not young:
        return
    files = sum(cell.counts["out_of_window"] for cell in young.values())
    whole = [table.name for table in tables if table.standing == "young"]
    alone = f", among them all of {_names(whole)}" if whole else ""
    until = next((cell.reason for cell in young.values() if cell.reason), None)
    because = f" ({min(young)}: {until})" if until and len(young) > 1 else f" ({until})" if until else ""
    yield f"{number(files, 'file')} of {_tables(len(young))} too young to judge{alone}{because}"


def _of_kind(line: Line) -> str:
    return f"{count(line.stake.findings)} {line.name.replace('_', ' ')}"


def _found(worst: Line, kinds: Sequence[Line]) -> str:
    """The kinds of the worst severity, the most first; so few that it is read at a glance."""
    lines = [line for line in kinds if line.worst == worst.name]
    first = lines if len(lines) <= KINDS_NAMED else lines[: KINDS_NAMED - 1]
    rest = sum(line.stake.findings for line in lines[len(first) :])
    named = [*map(_of_kind, first), *([f"{count(rest)} of other kinds"] if rest else [])]
    where = f" in {_tables(worst.tables)}" if worst.tables else ""
    return f"{', '.join(named)}{where}"


def _also(worst: Line, severities: Sequence[Line]) -> Iterable[str]:
    rest = [
        f"{count(line.stake.findings)} {line.name}"
        for line in severities
        if line.stake.findings and line != worst
    ]
    if rest:
        yield f"Also {', '.join(rest)}"


def _pending(pressing: Sequence[Row]) -> Iterable[str]:
    pending = sum(row["findings"] for row in pressing if row["standing"] == "pending")
    if pending:
        yield f"{count(pending)} of these {'is' if pending == 1 else 'are'} {PENDING}"


def _accepted(standing: Sequence[Row]) -> Iterable[str]:
    accepted = sum(row["findings"] for row in standing if row["standing"] == "accepted")
    if accepted:
        yield f"Not counted: {count(accepted)} {ACCEPTED}"


def _recovery(worst: Line, pressing: Sequence[Row]) -> Iterable[str]:
    """What of the worst severity is recoverable, where anything of it is lost."""
    recovery = Recovery.of_sums([row for row in pressing if row["severity"] == worst.name])
    if recovery.losses:
        words = sentence(recovery, with_table=True)
        yield f"{words[:1].upper()}{words[1:]}"


def _losses(tables: Sequence[Judged]) -> Iterable[str]:
    said = dict.fromkeys(cell.loss for table in tables for cell in table.cells.values() if cell.loss)
    yield from (f"{words[:1].upper()}{words[1:]}" for words in said)


def _doubts(run: Row, tables: Sequence[Judged]) -> Iterable[str]:
    if run["status"] in _UNFINISHED:
        yield f"{_UNFINISHED[run['status']]}{_because(run['error'])}"
    nothing = _blind(run, tables)
    if nothing or not tables:
        yield f"Nothing could be judged for {_listed(nothing, len(tables))}"
    part = [table.name for table in tables if table.standing == "part" and not _as_asked(run, table)]
    if part:
        yield f"Only a part could be judged for {_listed(part, len(tables))}"
    expected, audited = run["tables_expected"], run["tables_audited"]
    if expected is not None and audited != expected:
        yield f"{count(audited)} of {count(expected)} tables were audited"
    rejected = sum(source["rejected"] or 0 for source in run["sources"] or ())
    if rejected:
        yield f"{number(rejected, 'row')} of evidence could not be read"
    if run["status"] == "partial" and not (nothing or part or rejected or audited != expected):
        yield f"The audit is partial{_because(run['error'])}"


def _as_asked(run: Row, table: Judged) -> bool:
    """A complete run that leaves nothing open was asked for a part of the table."""
    left = (cell.counts[outcome] for cell in table.cells.values() for outcome in OPEN)
    return run["status"] == "complete" and not any(left)


def _blind(run: Row, tables: Sequence[Judged]) -> list[str]:
    """Tables of which nothing was decided though it should have been.

    In a complete run a table may be off, empty or too young beside others that were decided. In any other run it is
    not known that this was meant.
    """
    meant = run["status"] == "complete" and any(table.standing in DECIDED for table in tables)
    return [
        table.name
        for table in tables
        if table.standing == "nothing" or (table.standing in ("idle", "young") and not meant)
    ]


def _mostly_blind(run: Row, tables: Sequence[Judged]) -> str:
    """What comes before everything else where most tables could not be judged; empty where they could."""
    blind = _blind(run, tables)
    if len(blind) * 2 <= len(tables):
        return ""
    return f"Could not judge {count(len(blind))} of {_tables(len(tables))}; open: "


def _idle(run: Row, tables: Sequence[Judged]) -> Iterable[str]:
    blind = _blind(run, tables)
    names = [table.name for table in tables if table.standing == "idle" and table.name not in blind]
    if names:
        yield f"There was nothing to decide for {_listed(names, len(tables))}"


def _because(error: str | None) -> str:
    return f": {error}" if error else ""


def _listed(names: Sequence[str], of: int) -> str:
    if not of:
        return "any table"
    return f"{count(len(names))} of {_tables(of)} ({_names(names)})"


def _names(names: Sequence[str]) -> str:
    more = f" and {count(len(names) - NAMED)} more" if len(names) > NAMED else ""
    return f"{', '.join(map(visible, names[:NAMED]))}{more}"


def _nothing_else(quiet: Sequence[str]) -> str:
    return f"In what was judged, nothing above info was found{''.join(f' ({words})' for words in quiet)}"


def _tables(many: int) -> str:
    return number(many, "table")


def _lower(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:]
