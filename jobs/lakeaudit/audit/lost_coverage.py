"""Adds a finding for each table that lost coverage: an earlier audit judged it, and this audit cannot."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from lakeaudit.audit.judge import Judgement
from lakeaudit.collect.evidence import Evidence
from lakeaudit.collect.evidence_gaps import not_ignored
from lakeaudit.config import Table
from lakeaudit.findings import finding_rows
from lakeaudit.findings.absence_ceiling import doubts
from lakeaudit.findings.lost_coverage import COVERAGE_LOST, LostTable, lost_tables, unjudged
from lakeaudit.kinds import COVERAGE_AXIS, KINDS
from lakeaudit.ledger.axis_observation import AxisObservation
from lakeaudit.results.read import Results
from lakeaudit.results.summaries.last_judged import known_lost, last_judged
from lakeaudit.runtime import duck


def with_lost_coverage(judgement: Judgement, evidence: Evidence, past: Results) -> Judgement:
    """Return the judgement with findings of kind `coverage_lost`.

    An audit that was limited to a listing, to partitions or to the past cannot tell; a sample that contradicts the
    evidence of a table makes the run suspect instead.
    """
    if evidence.observed.listed or evidence.partitions or not evidence.context.live:
        return judgement
    doubtful = {check.missing.table for check in doubts(judgement.sample_checks)}
    tables = {table.name: table for table in evidence.scope if table.name not in doubtful}
    lost = _lost(judgement, tables, evidence, past)
    as_of, con = evidence.stamp.as_of, evidence.con
    observed = [AxisObservation(name, COVERAGE_AXIS, "complete", as_of, as_of) for name in tables]
    rows = not_ignored(
        evidence.lake, tables, [_finding(each, tables[each.table]) for each in lost], as_of.date()
    )
    findings = judgement.findings
    if rows:
        findings = duck.hold(
            con, duck.union(con, [findings, finding_rows.from_plain(con, rows, evidence.stamp)])
        )
    return replace(judgement, findings=findings, observations=[*judgement.observations, *observed])


def _lost(
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
