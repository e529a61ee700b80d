"""Build the profiles that the gates check: a few rows each, from data that a run has anyway.

Every row has a `subject`; a column that does not apply to it is None.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import median
from typing import Any

from lakeaudit.config import Lake
from lakeaudit.errors import one_line
from lakeaudit.evidence.protocol import SourceInfo
from lakeaudit.findings.coverage import NOT_COVERED
from lakeaudit.kinds import KINDS
from lakeaudit.results.read import PUBLISHED, Row
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Rows

RUNS_BEFORE = 5
"""The number of published runs with whose median a source's rows are compared."""

UNREADABLE = "unreadable"
LONGEST = 200
"""The most characters of a fault in a line of a gate."""
_SAME_SOURCE = ("role", "kind", "location")


def of_sources(
    lake: Lake,
    infos: Sequence[SourceInfo],
    counts: Mapping[str, Mapping[str, Any]],
    coverage: Sequence[Row],
    runs: Sequence[Row],
    as_of: datetime,
) -> list[Row]:
    """Return a row per source (readable, age_of_max, unreadable_share, share_of_before), and one per table (covered).

    `why` is a cause: the first fault of a source's rows, or why no storage source covers a table.
    """
    ages = {source.location.uri: getattr(source, "max_age", None) for source in lake.inventories}
    before = _of_the_whole_lake(lake, coverage, runs)
    sources = [_source(info, counts.get(info.id, {}), ages, before, as_of) for info in infos]
    tables = [
        {"subject": row["table_name"], "covered": row["storage_cut_from"] is not None, "why": _elsewhere(row)}
        for row in coverage
        if row["axis"] == "content" and row["status"] in ("complete", "partial")
    ]
    return [*sources, *tables]


def _elsewhere(coverage: Row) -> str | None:
    """Return the location of a table that no storage source covers, and the covered places."""
    known, _, why = (coverage.get("reason") or "").partition(": ")
    return why or None if known == NOT_COVERED else None


def _of_the_whole_lake(lake: Lake, coverage: Sequence[Row], runs: Sequence[Row]) -> Sequence[Row]:
    """Return the last published runs over all tables, if this run is one too: partial runs cannot be compared."""
    if len({row["table_name"] for row in coverage}) < len(lake.tables):
        return ()
    whole = [run for run in runs if run["status"] in PUBLISHED and run["tables_expected"] == len(lake.tables)]
    return whole[-RUNS_BEFORE:]


def _source(
    info: SourceInfo, counts: Mapping[str, Any], ages: Mapping[str, Any], runs: Sequence[Row], as_of: datetime
) -> Row:
    rows, rejected = counts.get("rows", info.rows), counts.get("rejected", info.rejected)
    before = [
        source["rows"]
        for run in runs
        for source in run["sources"] or ()
        if source["rows"] and all(source[name] == getattr(info, name) for name in _SAME_SOURCE)
    ]
    max_age = info.max_age or ages.get(info.location)
    return {
        "subject": f"{info.kind} {info.location}",
        "readable": info.identity != UNREADABLE,
        "age_of_max": (as_of - info.cut.start) / max_age if info.cut and max_age else None,
        "unreadable_share": rejected / rows if rows and rejected is not None else None,
        "share_of_before": rows / median(before) if before and rows is not None else None,
        "why": f"for example, {one_line(counts['sample'], LONGEST)}" if counts.get("sample") else None,
    }


@dataclass(frozen=True)
class Tally:
    """The counts of a run's findings: a row per kind and severity (count, nameless), and the number of repeated ids."""

    kinds: Sequence[Row]
    repeated: int


def tally(con: Connection, findings: Rows) -> Tally:
    """Count FINDINGS; small: kinds x severities."""
    counted = """
        SELECT kind, severity, count(*) AS count, count(*) FILTER (subject IS NULL) AS nameless
        FROM findings GROUP BY ALL ORDER BY ALL"""
    if duck.is_empty(findings):
        return Tally([], 0)
    repeated = f"SELECT {_REPEATED} FROM findings"
    kinds = duck.rows_of(duck.query(con, counted, findings=findings))
    (of_all,) = duck.rows_of(duck.query(con, repeated, findings=findings))
    return Tally(kinds, of_all["repeated"])


def of_findings(tally: Tally) -> list[Row]:
    """Return a row per kind and severity (kind, severity, known, unclassified, nameless), and one of all (repeated)."""
    kinds = [
        {
            "subject": f"{row['kind']}, {row['severity']}",
            **{name: row[name] for name in ("kind", "severity", "nameless")},
            "known": row["kind"] in KINDS,
            "unclassified": row["kind"] == "unclassified",
        }
        for row in tally.kinds
    ]
    return [*kinds, {"subject": "all findings", "kind": "any", "repeated": tally.repeated}]


def of_ledger(con: Connection, changed: Rows) -> list[Row]:
    """Return a row per state of the changed rows, with the number that breaks each rule, and one for all (repeated)."""
    numbers = ", ".join(f"count(*) FILTER ({broken}) AS {name}" for name, broken in _BROKEN.items())
    by_state = f"SELECT state, {_REPEATED}, {numbers} FROM changed GROUP BY state ORDER BY state"
    states = duck.rows_of(duck.query(con, by_state, changed=changed))
    (of_all,) = duck.rows_of(duck.query(con, f"SELECT {_REPEATED} FROM changed", changed=changed))
    return [
        *({"subject": f"state {row['state']}", **row} for row in states),
        {"subject": "all that changed", "state": "open", **of_all},
    ]


_REPEATED = "count(*) - count(DISTINCT discrepancy_id) AS repeated"
_ENDED = "resolved_at IS NOT NULL AND resolution IS NOT NULL"
_NOT_ENDED = "resolved_at IS NULL AND resolution IS NULL"
_BROKEN = {
    "ill_resolved": f"NOT CASE WHEN state = 'resolved' THEN {_ENDED} ELSE {_NOT_ENDED} END",
    "never_opened": "state = 'open' AND opened_at IS NULL",
    "backwards": "last_evidence_at < first_seen_at",
    "ill_accepted": "(ack_by IS NULL) <> (ack_reason IS NULL) OR (ack_by IS NULL) <> (ack_until IS NULL)",
    "ill_reopened": "reopened > 0 AND opened_at IS NULL",
}
"""SQL over DISCREPANCIES: the rows that break a rule."""
