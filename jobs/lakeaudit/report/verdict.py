"""The page's first line: what is wrong now, that nothing is, or that it could not be told; never two of them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lakeaudit.formatting import count, second, visible
from lakeaudit.report.coverage_view import OPEN, Judged
from lakeaudit.report.summary import AT_STAKE, Line

Row = Mapping[str, Any]

DECIDED = ("part", "whole")
NAMED = 5
"""Tables named in a sentence; the rest is a number."""

_UNFINISHED = {
    "failed": "The audit failed",
    "running": "The audit has not finished",
    "suspect": "The evidence is suspect",
}


@dataclass(frozen=True)
class Verdict:
    """`level` is critical, error or warning, else `unjudged` or `fine`; the headline says it, the notes qualify it."""

    level: str
    headline: str
    notes: tuple[str, ...]


def verdict(
    run: Row,
    kinds: Sequence[Line],
    severities: Sequence[Line],
    tables: Sequence[Judged],
    findings: Sequence[Row],
) -> Verdict:
    """The verdict on one run from its `runs` row, its findings summed, its coverage and the findings written out."""
    worst = next((line for line in severities if line.name in AT_STAKE and line.stake.findings), None)
    doubts = tuple(_doubts(run, tables))
    if worst:
        return Verdict(
            worst.name,
            _found(worst, kinds),
            (*_losses(tables), *_comeback(worst, findings), *_also(worst, severities), *doubts),
        )
    decided = [table for table in tables if table.standing in DECIDED]
    quiet = tuple(f"{count(line.stake.findings)} at info" for line in severities if line.stake.findings)
    if doubts:
        headline = f"Could not judge {'all of it' if decided else 'anything'}: {_lower(doubts[0])}"
        rest = (_nothing_else(quiet),) if decided else ()
        return Verdict("unjudged", headline, (*doubts[1:], *rest, *_idle(run, tables)))
    asked = "what was asked for of " if any(table.standing == "part" for table in decided) else ""
    headline = f"Nothing above info found in {asked}{_tables(len(decided))}"
    return Verdict("fine", headline, (*quiet, *_idle(run, tables)))


def _found(worst: Line, kinds: Sequence[Line]) -> str:
    named = [f"{count(k.stake.findings)} {k.name.replace('_', ' ')}" for k in kinds if k.worst == worst.name]
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


def _comeback(worst: Line, findings: Sequence[Row]) -> Iterable[str]:
    answers = [row["recoverable"] for row in findings if row["severity"] == worst.name]
    no = "{} cannot" if "yes" in answers else "{} cannot come back"
    said = {"yes": "{} can come back", "no": no, "unknown": "for {} it is not known"}
    parts = [
        words.format(count(answers.count(answer))) for answer, words in said.items() if answer in answers
    ]
    if parts:
        whose = (
            "Of these"
            if len(answers) == worst.stake.findings
            else f"Of the {count(len(answers))} listed below"
        )
        soonest = f"; the soonest only until {second(worst.stake.until)}" if worst.stake.until else ""
        yield f"{whose}, {', '.join(parts)}{soonest}"


def _losses(tables: Sequence[Judged]) -> Iterable[str]:
    said = dict.fromkeys(cell.loss for table in tables for cell in table.cells.values() if cell.loss)
    yield from (f"{words[:1].upper()}{words[1:]}" for words in said)


def _doubts(run: Row, tables: Sequence[Judged]) -> Iterable[str]:
    if run["status"] in _UNFINISHED:
        yield f"{_UNFINISHED[run['status']]}{_because(run['error'])}"
    nothing = _blind(run, tables)
    if nothing or not tables:
        yield f"Nothing could be decided for {_listed(nothing, len(tables))}"
    part = [table.name for table in tables if table.standing == "part" and not _as_asked(run, table)]
    if part:
        yield f"Only a part could be decided for {_listed(part, len(tables))}"
    expected, audited = run["tables_expected"], run["tables_audited"]
    if expected is not None and audited != expected:
        yield f"{count(audited)} of {count(expected)} tables were audited"
    rejected = sum(source["rejected"] or 0 for source in run["sources"] or ())
    if rejected:
        yield f"{count(rejected)} rows of evidence could not be understood"
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
        if table.standing == "nothing" or (table.standing == "idle" and not meant)
    ]


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
    shown = ", ".join(map(visible, names[:NAMED]))
    more = f" and {count(len(names) - NAMED)} more" if len(names) > NAMED else ""
    return f"{count(len(names))} of {_tables(of)} ({shown}{more})"


def _nothing_else(quiet: Sequence[str]) -> str:
    return f"In what was judged, nothing above info was found{''.join(f' ({words})' for words in quiet)}"


def _tables(number: int) -> str:
    return f"{count(number)} table{'' if number == 1 else 's'}"


def _lower(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:]
