"""Makes the outcome of an audit: the summary object, the final row of `runs` and the exit code."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakeaudit import __version__
from lakeaudit.audit.judge import Judgement
from lakeaudit.collect.evidence_gaps import gap_text
from lakeaudit.collect.match_result import SmallFiles
from lakeaudit.collect.read_sources import Observed
from lakeaudit.config import Table
from lakeaudit.evidence.protocol import SourceInfo
from lakeaudit.findings.absence_ceiling import doubts
from lakeaudit.findings.finding_rows import RunStamp
from lakeaudit.findings.unread_sources import CAUSES, first_causes
from lakeaudit.formatting import iso
from lakeaudit.gates.publish_gate import Guarded
from lakeaudit.json_documents import AxisSummary, RunStatus, RunSummary, SourceSummary, TableStatus
from lakeaudit.judged import files_judged
from lakeaudit.kinds import FILE_AXES
from lakeaudit.ledger.ledger_tables import Standing
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Rows
from lakeaudit.schemas import RECENT_COMMIT


@dataclass(frozen=True)
class Outcome:
    """The outcome of a run: `summary` is the object of `--format json`, and `exit_code` ignores `--fail-on`.

    `pressing` counts findings by severity without those that a person has accepted. `warnings` come from sources and
    checks. `tables` are all tables of the lake, including discovered ones. `small_files` are those of each table, see
    `MatchResult.small_files`.
    """

    run_id: str
    status: RunStatus
    summary: RunSummary
    exit_code: int
    run_row: dict[str, Any]
    pressing: Mapping[str, int]
    warnings: tuple[str, ...] = field(default=())
    tables: tuple[Table, ...] = field(default=())
    small_files: Mapping[str, SmallFiles] = field(default_factory=dict)


def conclude(
    con: Connection,
    observed: Observed,
    judgement: Judgement,
    report: Guarded,
    standing: Standing,
    stamp: RunStamp,
    started: datetime,
    finished: datetime,
    *,
    coverage_lost: int,
) -> Outcome:
    """Summarise the run after its findings and the ledger are published.

    `coverage_lost` is the number of tables in the run's scope whose lost coverage is open.
    """
    of_tables = [row for row in judgement.coverage_rows if row["table_name"] not in judgement.watched]
    status, tables = _status(judgement), _tables(of_tables)
    times = {"as_of": stamp.as_of, "started_at": started, "finished_at": finished}
    row = {"run_id": stamp.run_id, "lake": stamp.lake, "status": status, **times} | _source_columns(
        observed, judgement, tables
    )
    if status == "failed":
        row["error"] = row["error"] or failure_cause(observed.infos, judgement)
    elif status == "partial" and not _is_incomplete(judgement):
        row["error"] = row["error"] or _gaps_elsewhere(judgement)
    row["gates"] = report.messages
    kinds = report.tally.kinds
    accepted = standing.accepted
    pressing = kinds if accepted is None else _kinds_without(con, judgement.findings, accepted)
    retry = status == "failed" and any(gap.retryable for gap in judgement.gaps)
    summary = _summary(
        row, judgement, tables, kinds, standing.states, coverage_lost=coverage_lost, retry=retry
    )
    warnings = (*observed.warnings, *judgement.warnings, *report.messages)
    code = _exit_code(status, judgement)
    severities = _sum_by(pressing, "severity")
    small = judgement.small_files
    return Outcome(stamp.run_id, status, summary, code, row, severities, warnings, small_files=small)


def failure_cause(infos: Sequence[SourceInfo], judgement: Judgement) -> str | None:
    """Return why a run could not judge anything: evidence gaps with their locations, else reasons in coverage."""
    places = {info.id: info.location for info in infos}
    causes = [gap_text(gap, places.get(gap.source, gap.source)) for gap in judgement.gaps]
    causes = causes or [row["reason"] for row in judgement.coverage_rows if row["status"] == "partial"]
    return first_causes(causes) or None


def _source_columns(observed: Observed, judgement: Judgement, tables: Mapping[str, str]) -> dict[str, Any]:
    """Return the columns of the run's row about its sources and about the tables that they allowed to judge."""
    return {
        "sources": [_source(info, judgement.counts.get(info.id, {})) for info in observed.infos],
        "tables_expected": len(tables),
        "tables_audited": sum(state != "off" for state in tables.values()),
        "error": "; ".join(dict.fromkeys(check.message for check in doubts(judgement.sample_checks))) or None,
        "version": __version__,
    }


def recent_commits(observed: Observed, tables: Sequence[str], stamp: RunStamp) -> pa.Table:
    """Return rows of `commits`: the newest commits of these tables whose logs were read."""
    read = [claims.recent for claims in observed.sources.claims if claims.recent is not None]
    recent = pa.concat_tables([RECENT_COMMIT.empty_table(), *read])
    mine = recent.filter(pc.field("table_name").isin(list(tables)))
    for name, value in (("lake", stamp.lake), ("run_id", stamp.run_id)):
        mine = mine.append_column(name, pa.repeat(pa.scalar(value, pa.string()), mine.num_rows))
    return mine


def _exit_code(status: str, judgement: Judgement) -> int:
    """Return the exit code of the command without regard to findings."""
    if any(row["status"] == "overtaken" for row in judgement.coverage_rows):
        return 13
    return {"complete": 0, "partial": 3, "failed": 10, "suspect": 12}[status]


def _summary(
    row: Mapping[str, Any],
    judgement: Judgement,
    tables: dict[str, TableStatus],
    kinds: Sequence[Mapping[str, Any]],
    states: Mapping[str, int],
    *,
    coverage_lost: int,
    retry: bool,
) -> RunSummary:
    """Return the run's row as it is printed, with coverage and counts of findings."""
    return {
        "run_id": row["run_id"],
        "lake": row["lake"],
        "status": row["status"],
        "as_of": iso(row["as_of"]),
        "started_at": iso(row["started_at"]),
        "finished_at": iso(row["finished_at"]),
        "tables": tables,
        "sources": [_source_summary(info) for info in row["sources"]],
        "coverage": _coverage(judgement.coverage_rows),
        "findings": _sum_by(kinds, "kind"),
        "severities": _sum_by(kinds, "severity"),
        "states": dict(states),
        "coverage_lost": coverage_lost,
        "error": row["error"],
        "retry": retry,
    }


def _status(judgement: Judgement) -> RunStatus:
    """Return the run's status.

    suspect: a source lacks too many files to be credible; failed: evidence is incomplete and no file could be decided;
    partial: evidence is incomplete.
    """
    rows = judgement.coverage_rows
    if doubts(judgement.sample_checks):
        return "suspect"
    incomplete = _is_incomplete(judgement) or _gaps_elsewhere(judgement) is not None
    of_files = [row for row in rows if row["axis"] in FILE_AXES]
    decided = sum(map(files_judged, of_files))
    decided += sum(one.outcome == "finding" for one in judgement.lineage)
    if incomplete and not decided and not any(row["status"] == "complete" for row in of_files):
        return "failed"
    return "partial" if incomplete else "complete"


def _is_incomplete(judgement: Judgement) -> bool:
    """Whether a source or a requested table could not be read completely."""
    rows = judgement.coverage_rows
    requested = {row["table_name"] for row in rows}
    partial = any(
        row["status"] == "partial" and row["reason"] not in judgement.requested_reasons for row in rows
    )
    return partial or any(gap.table is None or gap.table in requested for gap in judgement.gaps)


def _gaps_elsewhere(judgement: Judgement) -> str | None:
    """Name tables outside of the request whose gaps leave files undecided; None if there are no such tables."""
    requested = {row["table_name"] for row in judgement.coverage_rows}
    others = sorted({gap.table for gap in judgement.gaps if gap.table is not None} - requested)
    if not others or not any(row["undecided"] for row in judgement.coverage_rows):
        return None
    more = f" and {len(others) - CAUSES} more" if len(others) > CAUSES else ""
    return (
        f"{', '.join(others[:CAUSES])}{more} could not be read whole, and may list files that are undecided"
    )


def _tables(rows: Sequence[Mapping[str, Any]]) -> dict[str, TableStatus]:
    """Return the status of each table: off if every axis is off, partial if any axis is partial, else complete."""
    states: dict[str, set[str]] = {}
    for row in rows:
        states.setdefault(row["table_name"], set()).add(row["status"])
    return {name: _table(of_table) for name, of_table in states.items()}


def _table(states: set[str]) -> TableStatus:
    if states == {"off"}:
        return "off"
    return "partial" if "partial" in states else "complete"


def _coverage(rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, AxisSummary]]:
    coverage: dict[str, dict[str, AxisSummary]] = {}
    for row in rows:
        axis: AxisSummary = {
            "status": row["status"],
            "decided_share": row["decided_share"],
            "reason": row["reason"],
        }
        coverage.setdefault(row["table_name"], {})[row["axis"]] = axis
    return coverage


def _kinds_without(con: Connection, findings: Rows, accepted: Rows) -> list[dict[str, Any]]:
    """Count findings that nobody has accepted, by kind and severity."""
    sql = """
        SELECT kind, severity, count(*) AS count FROM findings ANTI JOIN accepted USING (discrepancy_id)
        GROUP BY kind, severity
    """
    return duck.rows_of(duck.query(con, sql, findings=findings, accepted=accepted))


def _sum_by(kinds: Sequence[Mapping[str, Any]], name: str) -> dict[str, int]:
    sums: dict[str, int] = {}
    for row in kinds:
        sums[row[name]] = sums.get(row[name], 0) + row["count"]
    return dict(sorted(sums.items()))


def _source(info: SourceInfo, counts: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "role": info.role,
        "kind": info.kind,
        "location": info.location,
        "identity": info.identity,
        "cut_from": info.cut.start if info.cut else None,
        "cut_to": info.cut.end if info.cut else None,
        "rows": counts.get("rows", info.rows),
        "rejected": counts.get("rejected", info.rejected),
        "seconds": info.seconds,
    }


def _source_summary(source: Mapping[str, Any]) -> SourceSummary:
    """Return an element of `runs.sources` with its times as texts."""
    start, end = source["cut_from"], source["cut_to"]
    return {
        "role": source["role"],
        "kind": source["kind"],
        "location": source["location"],
        "identity": source["identity"],
        "cut_from": None if start is None else iso(start),
        "cut_to": None if end is None else iso(end),
        "rows": source["rows"],
        "rejected": source["rejected"],
        "seconds": source["seconds"],
    }
