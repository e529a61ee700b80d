"""Adds a finding for each table that lost coverage: an earlier audit judged it, and this audit cannot."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from lakeaudit.audit.judge import Judgement
from lakeaudit.collect.evidence import Evidence
from lakeaudit.collect.evidence_gaps import not_ignored
from lakeaudit.config import Table
from lakeaudit.findings import finding_rows
from lakeaudit.findings.absence_ceiling import doubts
from lakeaudit.formatting import second
from lakeaudit.judged import CONTENT, NOTHING, PART, About, LastJudged, Row, axis_state, judged_share
from lakeaudit.kinds import COVERAGE_AXIS, COVERAGE_LOST, KINDS, STATE_LOST, STATE_LOST_FROM_ERROR
from lakeaudit.ledger.axis_observation import AxisObservation
from lakeaudit.results.read import Results
from lakeaudit.results.summaries.last_judged import known_lost, last_judged
from lakeaudit.runtime import duck

MUCH = 0.5
"""Coverage is also lost if an audit judges less than this part of the share that the earlier audit judged."""

DECISIVE = ("content", "metastore", "pointer", "duplicate")
"""Axes whose coverage counts. A doubt often turns off the others on purpose: then nothing of a table is cleaned up."""

_PROBLEMS = {
    "content": "missing and changed files",
    "metastore": "differences from the metadata store",
    "metastore_tree": "broken folders of the metadata store",
    "leftover": "unused files",
    "duplicate": "duplicates",
    "commit": "lost and repeated commits",
    "pointer": "stale catalog pointers",
    "hazard": "upcoming losses",
}
"""The problems that nobody sees while an axis is not judged."""


@dataclass(frozen=True)
class LostTable:
    """A table with lost coverage: the rows of its lost axes, since when, and the files that were judged before."""

    table: str
    rows: tuple[Row, ...]
    since: datetime
    files: int | None

    @property
    def cause(self) -> str:
        """Return why its most important axis cannot be judged; tables with the same lost source have the same text."""
        return str(_ordered(self.rows)[0]["reason"] or "the audit gives no reason")

    @property
    def explanation(self) -> str:
        """Return what the audit cannot see, since when, and why."""
        axes: dict[str, list[str]] = {}
        for row in _ordered(self.rows):
            axes.setdefault(row["reason"] or "", []).append(_PROBLEMS.get(row["axis"], str(row["axis"])))
        hidden = "; ".join(", ".join(names) + (f" ({why})" if why else "") for why, names in axes.items())
        return f"audits cannot see since {second(self.since)}: {hidden}"


def with_lost_coverage(judgement: Judgement, evidence: Evidence, past: Results) -> Judgement:
    """Return the judgement with findings of kind `coverage_lost`.

    An audit that was limited to a listing, to partitions or to the past cannot tell. A sample that contradicts the
    evidence of a table makes the run suspect instead, and a table whose own log is lost has a finding about that.
    """
    if evidence.observed.listed or evidence.partitions or not evidence.context.live:
        return judgement
    doubtful = {check.missing.table for check in doubts(judgement.sample_checks)}
    tables = {table.name: table for table in evidence.scope if table.name not in doubtful}
    damaged = _tables_with_lost_states(judgement, evidence)
    lost = [each for each in _blind_tables(judgement, tables, evidence, past) if each.table not in damaged]
    as_of, con = evidence.stamp.as_of, evidence.con
    observed = [AxisObservation(name, COVERAGE_AXIS, "complete", as_of, as_of) for name in tables]
    rows = not_ignored(
        evidence.lake, tables, [_finding(each, tables[each.table]) for each in lost], as_of.date()
    )
    findings = judgement.findings
    if rows:
        more = finding_rows.from_plain(con, rows, evidence.stamp)
        more = finding_rows.with_owners(con, more, evidence.owners)
        findings = duck.hold(con, duck.union(con, [findings, more]))
    return replace(judgement, findings=findings, observations=[*judgement.observations, *observed])


def _tables_with_lost_states(judgement: Judgement, evidence: Evidence) -> set[str]:
    """Return the tables that have a finding of severity error or worse about a lost state of their own."""
    kinds = duck.literals((*STATE_LOST, *STATE_LOST_FROM_ERROR))
    sql = f"""SELECT DISTINCT table_name FROM input
        WHERE kind IN ({kinds}) AND severity IN ('critical', 'error')"""
    return {row["table_name"] for row in duck.rows_of(duck.made_of(evidence.con, sql, judgement.findings))}


def _blind_tables(
    judgement: Judgement, tables: Mapping[str, Table], evidence: Evidence, past: Results
) -> Iterable[LostTable]:
    mine = [row for row in judgement.coverage_rows if row["table_name"] in tables]
    rows = unjudged(mine, judgement.requested_reasons)
    if not rows:
        return ()
    before = last_judged(past, {(row["table_name"], row["axis"]) for row in rows}, evidence.stamp.as_of)
    return lost_tables(rows, before, known_lost(past))


def _finding(lost: LostTable, table: Table) -> dict[str, Any]:
    return {
        "table_name": table.name,
        "axis": COVERAGE_AXIS,
        "kind": COVERAGE_LOST,
        "severity": table.severity_of(COVERAGE_LOST, KINDS[COVERAGE_LOST].severity),  # type: ignore[arg-type]
        "subject_type": "table",
        "subject": table.name,
        "bucket": table.location.bucket,
        "key": table.location.prefix,
        "files": lost.files,
        "confirmation": "not_needed",
        "cause": lost.cause,
        "cause_at": lost.since,
        "explanation": lost.explanation,
    }


def unjudged(coverage: Iterable[Row], excused: Collection[str]) -> list[Row]:
    """Return the rows of axes that an audit could judge at most in part, but for those with an excused reason."""
    return [
        row
        for row in coverage
        if row["status"] in ("complete", "partial")
        and axis_state(row) in (NOTHING, PART)
        and (row["reason"] or "") not in excused
        and (judged_share(row) or 0.0) < MUCH
    ]


def lost_tables(
    rows: Sequence[Row], before: Mapping[About, LastJudged], known: Mapping[str, datetime]
) -> Iterator[LostTable]:
    """Yield the tables that lost coverage.

    Args:
        rows: the rows of `unjudged`.
        before: the last audit that judged each axis.
        known: tables whose coverage was lost already, and since when.
    """
    by_table: dict[str, list[Row]] = {}
    for row in rows:
        last = before.get((row["table_name"], row["axis"]))
        if _is_lost(row, last) or (last is None and row["table_name"] in known):
            by_table.setdefault(row["table_name"], []).append(row)
    for table, lost in by_table.items():
        if not any(row["axis"] in DECISIVE for row in lost):
            continue
        last_judged = [before[table, row["axis"]] for row in lost if (table, row["axis"]) in before]
        since = known.get(table) or max(last.at for last in last_judged)
        files = max((last.files for last in last_judged if last.files is not None), default=None)
        yield LostTable(table, tuple(lost), since, files)


def _is_lost(row: Row, last: LastJudged | None) -> bool:
    now = judged_share(row)
    return last is not None and (now is None or now < last.share * MUCH)


def _ordered(rows: Iterable[Row]) -> list[Row]:
    """Return rows by the importance of their axes."""
    order = [CONTENT, *(axis for axis in _PROBLEMS if axis != CONTENT)]
    return sorted(rows, key=lambda row: order.index(row["axis"]) if row["axis"] in order else len(order))
