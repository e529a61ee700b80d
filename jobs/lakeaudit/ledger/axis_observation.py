"""Observe each table and axis: whether the run's coverage was complete, and up to which time its evidence reaches."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from lakeaudit.evidence.protocol import SnapshotWindow
from lakeaudit.findings.absence_ceiling import BAD, of_table
from lakeaudit.findings.coverage import METASTORE_AXES, POINTER, Availability
from lakeaudit.kinds import LIVE_AXES
from lakeaudit.runtime import duck
from lakeaudit.schemas import plain_time

COMMIT = "commit"
HAZARD = "hazard"
_OF_NOW = (COMMIT, HAZARD)
NEVER: Mapping[tuple[str, str], datetime] = MappingProxyType({})
"""No live check has refuted any evidence."""

SOURCE = "source"
"""The axis of findings about a source as a whole, which belong to no table."""

_TEXT, _FLAG, _TIME = pa.string(), pa.bool_(), pa.timestamp("us")
OBSERVED = pa.schema(
    [
        ("table_name", _TEXT),
        ("axis", _TEXT),
        ("a_audited", _FLAG),
        ("a_complete", _FLAG),
        ("a_off", _FLAG),
        ("a_evidence_at", _TIME),
        ("a_edge", _TIME),
        ("a_refuted_at", _TIME),
    ]
)
"""The `a_` columns of SETTLE by table and axis."""


@dataclass(frozen=True)
class AxisObservation:
    """One axis of one table: its status in coverage (or `bad`: its evidence is rejected) and its evidence's time.

    Events before `edge` are in the evidence for certain; null where there was none. `unsure` files had no verdict: a
    finding about many files (a group of unused files, copies) may be hidden among them.
    """

    table: str
    axis: str
    status: str
    at: datetime
    edge: datetime | None
    unsure: int = 0
    refuted_at: datetime | None = None
    """When a live check of an earlier run last refuted the evidence."""

    @property
    def complete(self) -> bool:
        """Whether a missing finding means that there is none; single files have verdicts of their own."""
        return self.status == "complete" and (self.axis in LIVE_AXES or not self.unsure)


def axis_observations(
    coverage: Sequence[Mapping[str, Any]],
    availability: Availability,
    as_of: datetime,
    *,
    all_sources: bool,
    refuted: Mapping[tuple[str, str], datetime] = NEVER,
) -> list[AxisObservation]:
    """Return the observations of a run: one per row of coverage, and one of the sources as a whole.

    Args:
        coverage: rows of COVERAGE.
        availability: the snapshot windows of the run.
        as_of: the time of evidence that has no window.
        all_sources: whether the run read every source; if not, the findings about sources are not complete.
        refuted: by table and axis, when a live check of an earlier run last refuted the evidence.
    """
    of_tables = [
        replace(
            _observation(row, availability, as_of, all_sources=all_sources),
            refuted_at=refuted.get((row["table_name"], row["axis"])),
        )
        for row in coverage
    ]
    of_sources = AxisObservation("", SOURCE, "complete" if all_sources else "partial", as_of, as_of)
    return [*of_tables, of_sources]


def evidence_at(table: str, axis: str, availability: Availability) -> datetime | None:
    """Return the time of an axis's evidence: the start of its oldest snapshot window; None: it has none."""
    return min((cut.start for cut in _cuts(table, axis, availability)), default=None)


def observation_rows(observations: Sequence[AxisObservation]) -> pa.Table:
    """Return the observations as rows of OBSERVED."""
    rows = [
        (each.table, each.axis, each.status in ("complete", "partial"), each.complete,
         each.status == "off", plain_time(each.at), plain_time(each.edge), plain_time(each.refuted_at))
        for each in observations
    ]  # fmt: skip
    return duck.small(OBSERVED, rows)


def _observation(
    row: Mapping[str, Any], availability: Availability, as_of: datetime, *, all_sources: bool
) -> AxisObservation:
    if row["axis"] in _OF_NOW and not (row["axis"] == COMMIT and row["table_name"] in availability.declared):
        return _of_now(row, as_of, all_sources=all_sources)
    cuts = list(_cuts(row["table_name"], row["axis"], availability))
    checks = of_table(availability.sample_checks, row["table_name"], row["axis"])
    status = "bad" if any(check.verdict == BAD for check in checks) else row["status"]
    at = evidence_at(row["table_name"], row["axis"], availability) or as_of
    edge = min((cut.start - cut.margin for cut in cuts), default=None)
    unsure = row["undecided"] + row["uncovered"]
    return AxisObservation(row["table_name"], row["axis"], status, at, edge, unsure)


def _of_now(row: Mapping[str, Any], as_of: datetime, *, all_sources: bool) -> AxisObservation:
    """Observe commits and hazards, whose evidence is current; a listing shows no older versions of commits."""
    unseen = row["axis"] == COMMIT and row["status"] == "complete" and not all_sources
    status = "partial" if unseen else row["status"]
    return AxisObservation(row["table_name"], row["axis"], status, as_of, as_of, row["undecided"])


def _cuts(table: str, axis: str, availability: Availability) -> Iterator[SnapshotWindow]:
    """Yield the snapshot windows on which a verdict on this axis depends; the oldest limits it."""
    if table in availability.storage_cuts:
        yield availability.storage_cuts[table]
    if axis in METASTORE_AXES:
        yield from availability.metastore_cuts.get(table, ())
    if axis == POINTER:
        yield from availability.catalog_cuts.get(table, ())
