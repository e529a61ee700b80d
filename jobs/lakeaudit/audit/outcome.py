"""Outcome: what one audit says of itself: the summary object, the final row of `runs` and the exit code."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakeaudit import __version__
from lakeaudit.audit.judge import Judgement
from lakeaudit.collect.read_sources import Observed
from lakeaudit.config import Table
from lakeaudit.evidence.protocol import EvidenceGap, SourceInfo
from lakeaudit.findings.absence_ceiling import doubts
from lakeaudit.findings.finding_rows import RunStamp
from lakeaudit.formatting import iso
from lakeaudit.gates.publish_gate import Guarded
from lakeaudit.judged import files_judged
from lakeaudit.kinds import FILE_AXES
from lakeaudit.ledger.ledger_tables import Standing
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Rows
from lakeaudit.schemas import RECENT_COMMIT


@dataclass(frozen=True)
class Outcome:
    """`summary` is the object of `--format json`; `exit_code` leaves `--fail-on` to the command line.

    `pressing` counts findings by severity without those that a person has accepted; `warnings` are what the sources
    had to say of themselves. `tables` are all of the lake, those that were found among them.
    """

    run_id: str
    status: str
    summary: dict[str, Any]
    exit_code: int
    run_row: dict[str, Any]
    pressing: Mapping[str, int]
    warnings: tuple[str, ...] = field(default=())
    tables: tuple[Table, ...] = field(default=())


def conclude(
    con: Connection,
    observed: Observed,
    judgement: Judgement,
    report: Guarded,
    standing: Standing,
    stamp: RunStamp,
    started: datetime,
    finished: datetime,
) -> Outcome:
    """Everything that is said of the run once its findings and the ledger stand."""
    of_tables = [row for row in judgement.coverage_rows if row["table_name"] not in judgement.watched]
    status, tables = _status(judgement), _tables(of_tables)
    times = {"as_of": stamp.as_of, "started_at": started, "finished_at": finished}
    row = {"run_id": stamp.run_id, "lake": stamp.lake, "status": status, **times} | _read(
        observed, judgement, tables
    )
    if status == "failed":
        row["error"] = row["error"] or failure_cause(observed.infos, judgement)
    elif status == "partial" and not _in_the_way(judgement):
        row["error"] = row["error"] or _of_others(judgement)
    row["gates"] = report.messages
    kinds = report.tally.kinds
    accepted = standing.accepted
    pressing = kinds if accepted is None else _kinds_without(con, judgement.findings, accepted)
    summary = _summary(row, judgement, tables, kinds) | {
        "states": dict(standing.states),
        "error": row["error"],
        "retry": status == "failed" and any(hole.retryable for hole in judgement.holes),
    }
    warnings = (*observed.warnings, *judgement.warnings, *report.messages)
    code = _exit_code(status, judgement)
    return Outcome(stamp.run_id, status, summary, code, row, _summed(pressing, "severity"), warnings)


CAUSES = 2
"""Causes of a failed run that its last line names; the rest is a number."""


def failure_cause(infos: Sequence[SourceInfo], judgement: Judgement) -> str | None:
    """What kept a run from judging anything: the evidence gaps with their places, else the reasons in coverage."""
    places = {info.id: info.location for info in infos}
    causes = [_gap(hole, places.get(hole.source, hole.source)) for hole in judgement.holes]
    causes = causes or [row["reason"] for row in judgement.coverage_rows if row["status"] == "partial"]
    named = list(dict.fromkeys(filter(None, causes)))
    more = f"; and {len(named) - CAUSES} more" if len(named) > CAUSES else ""
    return "; ".join(named[:CAUSES]) + more or None


def _gap(hole: EvidenceGap, place: str) -> str:
    at = hole.subject or place
    return hole.reason if hole.reason.startswith(at) else f"{at}: {hole.reason}"


def _read(observed: Observed, judgement: Judgement, tables: Mapping[str, str]) -> dict[str, Any]:
    """Of the run's row: the sources, and how much of the lake they let judge."""
    return {
        "sources": [_source(info, judgement.counts.get(info.id, {})) for info in observed.infos],
        "tables_expected": len(tables),
        "tables_audited": sum(state != "off" for state in tables.values()),
        "error": "; ".join(dict.fromkeys(check.message for check in doubts(judgement.sample_checks))) or None,
        "version": __version__,
    }


def recent_commits(observed: Observed, tables: Sequence[str], stamp: RunStamp) -> pa.Table:
    """Rows of `commits`: the newest ones of these tables, as far as their logs were read."""
    read = [claims.recent for claims in observed.sources.claims if claims.recent is not None]
    found = pa.concat_tables([RECENT_COMMIT.empty_table(), *read])
    mine = found.filter(pc.field("table_name").isin(list(tables)))
    for name, value in (("lake", stamp.lake), ("run_id", stamp.run_id)):
        mine = mine.append_column(name, pa.repeat(pa.scalar(value, pa.string()), mine.num_rows))
    return mine


def _exit_code(status: str, judgement: Judgement) -> int:
    """What the command ends with, but for findings."""
    if any(row["status"] == "overtaken" for row in judgement.coverage_rows):
        return 13
    return {"complete": 0, "partial": 3, "failed": 10, "suspect": 12}[status]


def _summary(
    row: Mapping[str, Any],
    judgement: Judgement,
    tables: Mapping[str, str],
    kinds: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    """The run's row as it is printed, with what was found."""
    return {
        "run_id": row["run_id"],
        "lake": row["lake"],
        "status": row["status"],
        **{name: iso(row[name]) for name in ("as_of", "started_at", "finished_at")},
        "tables": tables,
        "sources": [{name: _told(value) for name, value in info.items()} for info in row["sources"]],
        "coverage": _coverage(judgement.coverage_rows),
        "findings": _summed(kinds, "kind"),
        "severities": _summed(kinds, "severity"),
    }


def _status(judgement: Judgement) -> str:
    """The run's status.

    suspect: a source lacks too much to be believed; failed: nothing could be decided although something stood in the
    way; partial: something could not be used.
    """
    rows = judgement.coverage_rows
    if doubts(judgement.sample_checks):
        return "suspect"
    in_the_way = _in_the_way(judgement) or _of_others(judgement) is not None
    of_files = [row for row in rows if row["axis"] in FILE_AXES]
    decided = sum(map(files_judged, of_files))
    decided += sum(one.outcome == "finding" for one in judgement.lineage)
    if in_the_way and not decided and not any(row["status"] == "complete" for row in of_files):
        return "failed"
    return "partial" if in_the_way else "complete"


def _in_the_way(judgement: Judgement) -> bool:
    """Whether something of the sources, or of the tables that were asked for, could not be used whole."""
    rows = judgement.coverage_rows
    asked = {row["table_name"] for row in rows}
    partial = any(
        row["status"] == "partial" and row["reason"] not in judgement.requested_reasons for row in rows
    )
    return partial or any(hole.table is None or hole.table in asked for hole in judgement.holes)


def _of_others(judgement: Judgement) -> str | None:
    """Which tables that were not asked for leave files undecided, since they could not be read whole; None: none do."""
    asked = {row["table_name"] for row in judgement.coverage_rows}
    others = sorted({hole.table for hole in judgement.holes if hole.table is not None} - asked)
    if not others or not any(row["undecided"] for row in judgement.coverage_rows):
        return None
    more = f" and {len(others) - CAUSES} more" if len(others) > CAUSES else ""
    return (
        f"{', '.join(others[:CAUSES])}{more} could not be read whole, and may list files that are undecided"
    )


def _tables(rows: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """A table is off where every axis is, partial where any is, else complete."""
    states: dict[str, set[str]] = {}
    for row in rows:
        states.setdefault(row["table_name"], set()).add(row["status"])
    return {name: _table(found) for name, found in states.items()}


def _table(states: set[str]) -> str:
    if states == {"off"}:
        return "off"
    return "partial" if "partial" in states else "complete"


def _coverage(rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    told: dict[str, dict[str, Any]] = {}
    for row in rows:
        axis = {name: row[name] for name in ("status", "decided_share", "reason")}
        told.setdefault(row["table_name"], {})[row["axis"]] = axis
    return told


def _kinds_without(con: Connection, findings: Rows, accepted: Rows) -> list[dict[str, Any]]:
    """Small: kinds x severities of what nobody has accepted."""
    sql = """
        SELECT kind, severity, count(*) AS count FROM findings ANTI JOIN accepted USING (discrepancy_id)
        GROUP BY kind, severity
    """
    return duck.rows_of(duck.query(con, sql, findings=findings, accepted=accepted))


def _summed(kinds: Sequence[Mapping[str, Any]], name: str) -> dict[str, int]:
    summed: dict[str, int] = {}
    for row in kinds:
        summed[row[name]] = summed.get(row[name], 0) + row["count"]
    return dict(sorted(summed.items()))


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


def _told(value: Any) -> Any:
    return iso(value) if isinstance(value, datetime) else value
