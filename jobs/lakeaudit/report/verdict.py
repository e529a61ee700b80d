"""Words the headline: the open damage of the lake, that there is none, or that it could not be judged.

The damage is what the ledger has open, also outside the scope of the last audit; the notes name that scope.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lakeaudit.errors import one_line
from lakeaudit.formatting import ACCEPTED, PENDING, count, first_names, number, visible
from lakeaudit.judged import NOTHING, PART
from lakeaudit.kind_nouns import counted_kind
from lakeaudit.kinds import COVERAGE_LOST, rank
from lakeaudit.report.coverage_view import Judged
from lakeaudit.report.summary import AT_STAKE, Line, by_kind, by_severity
from lakeaudit.results.recovery import Recovery, statements
from lakeaudit.results.watermark import fell_behind

Row = Mapping[str, Any]

DECIDED = ("part", "whole")
LOWEST = AT_STAKE[-1]
"""The lowest severity that a headline counts."""
NAMED = 5
"""Number of tables that a sentence names; the others are counted."""
LONGEST_REASON = 300
"""Number of characters of a reason in a headline."""
KINDS_NAMED = 4
"""Number of kinds that the headline names; if there are more, one less, and the number of the others."""

_UNFINISHED = {
    "failed": "The audit failed",
    "running": "The audit has not finished",
    "suspect": "The evidence is suspect",
}


@dataclass(frozen=True)
class Verdict:
    """The headline with its `level` (critical, error, warning, unjudged or fine) and the notes that qualify it.

    `scope` names the tables that the audit checked and its findings there, if that was not the whole lake; it is also
    the first note.
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
    verified: Sequence[Row] = (),
) -> Verdict:
    """Return the verdict on the lake after a run.

    Args:
        run: its row of `runs`.
        standing: sums of unresolved discrepancies from `results.summaries.lake_standing`.
        totals: sums of the findings of the run itself.
        tables: the run's coverage.
        lake_tables: every table of the lake file.
        verified: the run's rows of `verified`.
    """
    unaccepted = [row for row in standing if row["standing"] != "accepted"]
    lost = [row for row in unaccepted if row["kind"] == COVERAGE_LOST and row["severity"] in AT_STAKE]
    pressing = [row for row in unaccepted if row["kind"] != COVERAGE_LOST]
    severities = by_severity(pressing)
    worst = next((line for line in severities if line.name in AT_STAKE and line.stake.findings), None)
    doubts = tuple(_doubts(run, tables))
    followed = {row["table_name"] for row in standing if row["standing"] != "found" and row["table_name"]}
    scope = _scope(run, totals, tables, {*lake_tables, *followed})
    first = (scope,) if scope else ()
    accepted = tuple(_accepted(standing))
    behind = tuple(_fallen_behind(verified))
    lost_severity = min((row["severity"] for row in lost), key=rank, default=LOWEST)
    if lost and (worst is None or rank(lost_severity) <= rank(worst.name)):
        damage = [f"Open discrepancies: {_worst_kinds(worst, by_kind(pressing))}"] if worst else []
        notes = (*damage, *_also(worst, severities), *_pending(pressing), *behind)
        return Verdict(
            lost_severity, _lost_coverage(lost, tables), (*first, *notes, *accepted, *doubts), scope
        )
    if worst:
        notes = (
            *([_lost_coverage(lost, tables)] if lost else []),
            *_losses(tables),
            *_recovery(worst, pressing),
            *_also(worst, severities),
            *_pending(pressing),
            *behind,
            *_young(tables),
        )
        headline = f"{_mostly_blind(run, tables)}{_worst_kinds(worst, by_kind(pressing))}"
        return Verdict(worst.name, headline, (*first, *notes, *accepted, *doubts), scope)
    decided = [table for table in tables if table.standing in DECIDED]
    quiet = tuple(
        f"{count(line.stake.findings)} of severity info" for line in severities if line.stake.findings
    )
    if doubts:
        headline = f"Could not judge {'everything' if decided else 'anything'}: {_lower(doubts[0])}"
        rest = (_nothing_else(quiet),) if decided else ()
        notes = (*first, *behind, *doubts[1:], *rest, *accepted, *_idle(run, tables), *_young(tables))
        return Verdict("unjudged", headline, notes, scope)
    part = "the requested part of " if any(table.standing == "part" for table in decided) else ""
    headline = f"No finding of severity {LOWEST} or higher in {part}{_tables(len(decided))}"
    notes = (*first, *behind, *quiet, *accepted, *_idle(run, tables), *_young(tables))
    return Verdict("fine", headline, notes, scope)


def _lost_coverage(lost: Sequence[Row], tables: Sequence[Judged]) -> str:
    """Return which tables audits cannot judge any more, and the most frequent reason."""
    names = sorted({row["table_name"] for row in lost})
    cells = [cell for table in tables if table.name in names for cell in table.cells.values()]
    reasons = Counter(cell.reason for cell in cells if cell.state in (NOTHING, PART) and cell.reason)
    why = f": {one_line(reasons.most_common(1)[0][0], LONGEST_REASON)}" if reasons else ""
    return f"Coverage lost in {_tables(len(names))} ({_names(names)}){why}"


def _scope(run: Row, totals: Sequence[Row], tables: Sequence[Judged], known: Collection[str]) -> str:
    """Return the scope of the audit and its findings above info; empty if it checked the whole lake.

    `known` are the tables of the lake file and those with open discrepancies: each audit may discover more tables.
    """
    audited = [table.name for table in tables]
    narrowed = any(
        table.standing == "part" and _is_requested_scope(run, table) and table.has_manifest
        for table in tables
    )
    if not audited or (not narrowed and set(known) <= set(audited)):
        return ""
    of = f"{count(len(audited))} of {_tables(len({*known, *audited}))}"
    lines = [line for line in by_kind(totals) if line.worst in AT_STAKE]
    findings = ", ".join(_of_kind(line) for line in lines) or f"nothing of severity {LOWEST} or higher"
    part = "a part of " if narrowed else ""
    return f"This audit checked {part}{of} ({_names(audited)}) and reported {findings} there"


def _young(tables: Sequence[Judged]) -> Iterable[str]:
    """Word how many files of how many tables are too young to judge, with the reason of one of them."""
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
    alone = f", among them all files of {_names(whole)}" if whole else ""
    until = next((cell.reason for cell in young.values() if cell.reason), None)
    because = f" ({min(young)}: {until})" if until and len(young) > 1 else f" ({until})" if until else ""
    verb = "is" if files == 1 else "are"
    yield f"{number(files, 'file')} of {_tables(len(young))} {verb} too young to judge{alone}{because}"


def _of_kind(line: Line) -> str:
    return counted_kind(line.name, line.stake.findings, line.stake.files.known)


def _worst_kinds(worst: Line, kinds: Sequence[Line]) -> str:
    """Return the kinds of the worst severity, the most first; at most KINDS_NAMED, so that the headline is short."""
    lines = [line for line in kinds if line.worst == worst.name]
    first = lines if len(lines) <= KINDS_NAMED else lines[: KINDS_NAMED - 1]
    rest = sum(line.stake.findings for line in lines[len(first) :])
    named = [*map(_of_kind, first), *([f"{count(rest)} of other kinds"] if rest else [])]
    where = f" in {_tables(worst.tables)}" if worst.tables else ""
    if len(named) == 1 or not where:
        return f"{', '.join(named)}{where}"
    return f"{count(sum(line.stake.findings for line in lines))} discrepancies{where}: {', '.join(named)}"


def _also(worst: Line | None, severities: Sequence[Line]) -> Iterable[str]:
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
        yield f"Not counted: {number(accepted, f'{ACCEPTED} finding')}"


def _fallen_behind(verified: Sequence[Row]) -> Iterable[str]:
    """Word which tables have commits that an earlier audit verified, and this one does not."""
    rows = [row for row in verified if fell_behind(row)]
    if len(rows) > 1:
        names = _names([row["table_name"] for row in rows])
        yield f"{_tables(len(rows))} fell behind ({names}): commits that were verified are no longer verified"
    elif rows:
        yield f"{visible(rows[0]['table_name'])} {fell_behind(rows[0])}"


def _recovery(worst: Line, pressing: Sequence[Row]) -> Iterable[str]:
    """Word how much of the worst severity is recoverable, if anything is lost."""
    recovery = Recovery.of_sums([row for row in pressing if row["severity"] == worst.name])
    if recovery.losses:
        for words in statements(recovery, with_table=True, severity=worst.name):
            yield f"{words[:1].upper()}{words[1:]}"


def _losses(tables: Sequence[Judged]) -> Iterable[str]:
    losses = dict.fromkeys(cell.loss for table in tables for cell in table.cells.values() if cell.loss)
    yield from (f"{words[:1].upper()}{words[1:]}" for words in losses)


def _doubts(run: Row, tables: Sequence[Judged]) -> Iterable[str]:
    if run["status"] in _UNFINISHED:
        yield f"{_UNFINISHED[run['status']]}{_because(run['error'])}"
    nothing = _blind(run, tables)
    if nothing or not tables:
        yield f"No file could be judged in {_listed(nothing, len(tables))}"
    part = [table.name for table in tables if table.standing == "part" and _is_gap(run, table)]
    if part:
        yield _partly_judged(part, len(tables))
    expected, audited = run["tables_expected"], run["tables_audited"]
    if expected is not None and audited != expected:
        yield f"{count(audited)} of {count(expected)} tables were audited"
    rejected = sum(source["rejected"] or 0 for source in run["sources"] or ())
    if rejected:
        yield f"{number(rejected, 'row')} of evidence could not be read"
    if run["status"] == "partial" and not (nothing or part or rejected or audited != expected):
        yield f"The audit is partial{_because(run['error'])}"


def _partly_judged(part: Sequence[str], of: int) -> str:
    """Word which tables are not fully judged: a file or a commit of them, or a whole check."""
    are = "is" if len(part) == 1 else "are"
    return f"{count(len(part))} of {_tables(of)} {are} only partly judged ({_names(part)})"


def _is_gap(run: Row, table: Judged) -> bool:
    """Return whether the run should have judged more of a table; without a manifest it judges all that it can."""
    return not (table.is_decided and (run["status"] == "complete" or not table.has_manifest))


def _is_requested_scope(run: Row, table: Judged) -> bool:
    """Return whether the run was started for a part of the table: it is complete, and leaves nothing undecided."""
    return run["status"] == "complete" and table.is_decided


def _blind(run: Row, tables: Sequence[Judged]) -> list[str]:
    """Return the tables without any decision, though the run should have judged them.

    In a complete run a table may be off, empty or too young if others were decided. In any other run it counts as not
    judged.
    """
    excusable = run["status"] == "complete" and any(table.standing in DECIDED for table in tables)
    return [
        table.name
        for table in tables
        if table.standing == "nothing" or (table.standing in ("idle", "young") and not excusable)
    ]


def _mostly_blind(run: Row, tables: Sequence[Judged]) -> str:
    """Return the start of the headline if most tables could not be judged; else empty."""
    blind = _blind(run, tables)
    if len(blind) * 2 <= len(tables):
        return ""
    return f"Could not judge {count(len(blind))} of {_tables(len(tables))}; open discrepancies: "


def _idle(run: Row, tables: Sequence[Judged]) -> Iterable[str]:
    blind = _blind(run, tables)
    names = [table.name for table in tables if table.standing == "idle" and table.name not in blind]
    if names:
        yield f"There was no file to judge in {_listed(names, len(tables))}"


def _because(error: str | None) -> str:
    return f": {error}" if error else ""


def _listed(names: Sequence[str], of: int) -> str:
    if not of:
        return "any table"
    return f"{count(len(names))} of {_tables(of)} ({_names(names)})"


def _names(names: Sequence[str]) -> str:
    return first_names([*map(visible, names)], NAMED)


def _nothing_else(quiet: Sequence[str]) -> str:
    return f"The judged part has no finding of severity {LOWEST} or higher{''.join(f' ({words})' for words in quiet)}"


def _tables(many: int) -> str:
    return number(many, "table")


def _lower(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:]
