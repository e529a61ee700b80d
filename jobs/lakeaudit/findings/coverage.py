"""Describes coverage per table and axis: what was judged, and what was not and why. Plain rows from small counts."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lakeaudit.config import Table
from lakeaudit.evidence.protocol import SnapshotWindow
from lakeaudit.findings import absence_ceiling
from lakeaudit.findings.absence_ceiling import SampleCheck
from lakeaudit.findings.unread_sources import UnreadSource, causes_of_table
from lakeaudit.kinds import COVERED_AXES, FILE_AXES, JUDGED_OUTCOMES, LIVE_AXES, YOUNG_OUTCOME
from lakeaudit.matching.table_facts import TableFacts
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation, Rows

OUTCOMES = ("consistent", "finding", "ignored", "out_of_window", "undecided", "moved_on", "uncovered")
METASTORE_AXES = ("metastore", "metastore_tree")
POINTER = "pointer"
NOT_OF_MANIFESTS = (*METASTORE_AXES, POINTER)
"""Axes that can be judged without the table's manifests."""
AXES = COVERED_AXES
NOT_COVERED = "no storage source covers the table"
NAMED = 3
"""The number of covered places that a reason names."""


@dataclass(frozen=True)
class Tally:
    """Files by outcome for one (table, axis); on the axis `commit` the files are commits."""

    outcomes: Mapping[str, int] = field(default_factory=dict)
    bytes: int = 0
    unconfirmed: int = 0
    refuted: int = 0

    def plus(self, other: "Tally") -> "Tally":
        names = {*self.outcomes, *other.outcomes}
        outcomes = {name: self.outcomes.get(name, 0) + other.outcomes.get(name, 0) for name in names}
        return Tally(outcomes, self.bytes + other.bytes, self.unconfirmed + other.unconfirmed,
                     self.refuted + other.refuted)  # fmt: skip

    @property
    def files(self) -> int:
        return sum(self.outcomes.values())

    @property
    def decided_share(self) -> float | None:
        """Return (consistent + finding + ignored) / (files - out_of_window); None if the divisor is 0."""
        old_enough = self.files - self.outcomes.get(YOUNG_OUTCOME, 0)
        judged = sum(self.outcomes.get(outcome, 0) for outcome in JUDGED_OUTCOMES)
        return judged / old_enough if old_enough else None


Tallies = dict[tuple[str, str], Tally]


def count(con: Connection, rows: Rows) -> Relation:
    """Count verdict rows per (judged_table, axis, outcome): files, bytes, unconfirmed, refuted."""
    unsure = "outcome = 'finding' AND l_confirmation IN ('limit', 'denied', 'error')"
    cleared = "suspected AND outcome <> 'finding' AND l_confirmation = 'live'"
    sql = f"""
        SELECT judged_table, axis, outcome, count(*) AS files,
            CAST(coalesce(sum(coalesce(s_size, c_size)), 0) AS BIGINT) AS bytes,
            count(*) FILTER ({unsure}) AS unconfirmed, count(*) FILTER ({cleared}) AS refuted
        FROM input GROUP BY judged_table, axis, outcome
    """
    return duck.made_of(con, sql, rows)


def count_others(con: Connection, rows: Rows, size: str, *more: str) -> Relation:
    """Count rows (judged_table, axis, outcome, `size`) that are not checked live, also by columns `more`."""
    by = ", ".join(("judged_table", "axis", "outcome", *more))
    sql = f"""
        SELECT {by}, count(*) AS files, CAST(coalesce(sum({size}), 0) AS BIGINT) AS bytes,
            CAST(0 AS BIGINT) AS unconfirmed, CAST(0 AS BIGINT) AS refuted
        FROM input GROUP BY {by}
    """
    return duck.made_of(con, sql, rows)


def uncounted(con: Connection, rows: Rows, outcome: str | None = "consistent", size: str = "0") -> Relation:
    """Return negative counts for rows that were counted under `outcome`, each with `size` (SQL) bytes.

    Without an outcome each row was counted under its own outcome.
    """
    counted_as = "outcome" if outcome is None else duck.literal(outcome)
    sql = f"""
        SELECT judged_table, axis, {counted_as} AS outcome, -count(*) AS files,
            CAST(-coalesce(sum({size}), 0) AS BIGINT) AS bytes,
            CAST(0 AS BIGINT) AS unconfirmed, CAST(0 AS BIGINT) AS refuted
        FROM input GROUP BY judged_table, axis{", input.outcome" if outcome is None else ""}
    """
    return duck.made_of(con, sql, rows)


def tallies(counts: Iterable[Mapping[str, Any]]) -> Tallies:
    """Group rows of `count` by (table, axis)."""
    found: Tallies = {}
    for row in counts:
        place = (row["judged_table"], row["axis"])
        one = Tally({row["outcome"]: row["files"]}, row["bytes"], row["unconfirmed"], row["refuted"])
        found[place] = found[place].plus(one) if place in found else one
    return found


def together(*parts: Tallies) -> Tallies:
    """Return the sum of several tallies."""
    whole: Tallies = {}
    for part in parts:
        for place, tally in part.items():
            whole[place] = whole[place].plus(tally) if place in whole else tally
    return whole


@dataclass(frozen=True)
class AxisState:
    """Whether an axis could be judged for a table, and the reason if not."""

    status: str
    reason: str = ""


@dataclass(frozen=True)
class Availability:
    """The evidence that is available to judge tables: the deciding cutoffs of storage and metadata stores, by table.

    `metastores_wanted` are tables with a configured metadata store, readable or not; `treeless` are those with stores
    of names alone. `overtaken` names the newer run that has settled a table. `sample_checks` are those of sources that
    lack too many files. `narrowed` describes the requested parts of a table. `fresh` counts recent files that were
    checked live. `remarks` explain by (table, axis) undecided files without a gap. `declared` are tables whose total
    counts of writes are compared with storage. `catalogs`: there is a catalog; `catalog_cuts` are the cutoffs of
    catalogs that name a table, `catalog_gap` explains why a catalog could not be read, and `catalog_holes` by table why
    its partitions are unknown. `not_rechecked` explains by table why its newest state could not be read again.
    """

    storage_cuts: Mapping[str, SnapshotWindow]
    metastore_cuts: Mapping[str, Sequence[SnapshotWindow]]
    metastores_wanted: frozenset[str] = frozenset()
    gaps: Mapping[tuple[str, str], Sequence[str]] = field(default_factory=dict)
    """By table and role (storage, metastore) the sources that were not read completely."""
    reasons: Mapping[str, str] = field(default_factory=dict)
    outdated: Mapping[str, str] = field(default_factory=dict)
    """By table why its storage snapshot is too old."""
    overtaken: Mapping[str, str] = field(default_factory=dict)
    sample_checks: Sequence[SampleCheck] = ()
    narrowed: Mapping[str, str] = field(default_factory=dict)
    fresh: Mapping[str, int] = field(default_factory=dict)
    remarks: Mapping[tuple[str, str], str] = field(default_factory=dict)
    declared: frozenset[str] = frozenset()
    treeless: frozenset[str] = frozenset()
    catalogs: bool = False
    catalog_cuts: Mapping[str, Sequence[SnapshotWindow]] = field(default_factory=dict)
    catalog_gap: str = ""
    catalog_holes: Mapping[str, str] = field(default_factory=dict)
    not_rechecked: Mapping[str, str] = field(default_factory=dict)
    outside: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """By table and axis the files that no storage source covers and that were not checked or not compared."""
    looked_outside: Mapping[str, int] = field(default_factory=dict)
    """By table the number of uncovered files that were checked live."""
    other_listers: Mapping[str, str] = field(default_factory=dict)
    """By table why the files that another format or catalog table lists in its folder are not all known."""
    unnamed_fields: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """By table and axis the fields that storage does not report, so that files are undecided."""
    covered: Sequence[str] = ()
    """URIs of the places that storage sources cover."""
    incomplete_reports: Mapping[str, str] = field(default_factory=dict)
    """By table why the deciding report is incomplete."""
    unread: Mapping[str, Sequence[UnreadSource]] = field(default_factory=dict)
    """By role the sources that could not be read, with their places and the reasons."""

    def naming_unread(self, reason: str, role: str, table: Table) -> str:
        """Return a reason followed by the sources of a role that could not be read, those of the table first."""
        causes = causes_of_table(self.unread.get(role, ()), table.location)
        return f"{reason} ({causes})" if causes else reason


def overtaken_reason(run_id: str) -> str:
    """Return the reason of coverage that names the run which has judged the table instead."""
    return f"the newer run {run_id} has already judged this table"


def axis_state(axis: str, facts: TableFacts, availability: Availability, tally: Tally) -> AxisState:
    """Return the status of one axis of one table.

    overtaken: a newer run has settled the table; off: nothing is configured for the axis; partial: configured evidence
    is incomplete or doubtful, or only a part of the table was requested. A complete axis whose reason begins with a
    mass loss has a confirmed mass loss.
    """
    if newer := availability.overtaken.get(facts.table.name):
        return AxisState("overtaken", overtaken_reason(newer))
    if why := _not_requested(axis, facts, availability):
        return AxisState("off", why)
    sample_checks = absence_ceiling.of_table(availability.sample_checks, facts.table.name, axis)
    doubt = _messages(absence_ceiling.doubts(sample_checks))
    hindrance = _unreadable(axis, facts, availability) or doubt or _gap(axis, facts, availability, tally)
    requested = availability.narrowed.get(facts.table.name)
    if hindrance or requested:
        return AxisState("partial", "; ".join(filter(None, (hindrance, requested))))
    remarks = (
        _messages(absence_ceiling.losses(sample_checks)),
        _recent_files(axis, facts, availability, tally),
        _elsewhere(axis, facts, availability),
        _young(axis, facts, availability, tally),
        availability.remarks.get((facts.table.name, axis), ""),
        facts.remark if axis == "content" else "",
    )
    return AxisState("complete", "; ".join(filter(None, remarks)))


def _recent_files(axis: str, facts: TableFacts, availability: Availability, tally: Tally) -> str:
    """Return how many recent files were checked live."""
    looked_at = availability.fresh.get(facts.table.name, 0)
    if axis != "content" or not looked_at:
        return ""
    young = looked_at + tally.outcomes.get("out_of_window", 0)
    return f"{looked_at:,} of {young:,} files younger than the evidence were checked live"


def _elsewhere(axis: str, facts: TableFacts, availability: Availability) -> str:
    """Return how many uncovered files were checked live."""
    looked_at = availability.looked_outside.get(facts.table.name, 0)
    if axis != "content" or not looked_at:
        return ""
    return f"{looked_at:,} {'file was' if looked_at == 1 else 'files were'} outside the covered places and checked live"


def _young(axis: str, facts: TableFacts, availability: Availability, tally: Tally) -> str:
    """Return how many files are too young, and from when on a storage snapshot can judge them."""
    young, cut = tally.outcomes.get(YOUNG_OUTCOME, 0), availability.storage_cuts.get(facts.table.name)
    if axis != "content" or not young or cut is None:
        return ""
    since = facts.read_at + facts.table.settings.grace + cut.margin if facts.read_at else None
    until = f" until a storage snapshot begins at {since:%Y-%m-%d %H:%M:%SZ} or later" if since else ""
    return f"{young:,} {'file is' if young == 1 else 'files are'} too young to judge{until}"


def _messages(sample_checks: Sequence[SampleCheck]) -> str:
    return "; ".join(check.message for check in sample_checks)


def _not_requested(axis: str, facts: TableFacts, availability: Availability) -> str | None:
    if axis in ("content", "hazard") and not facts.table.manifests:
        return "no manifest is configured"
    if axis == "content" and facts.not_yet:
        return facts.not_yet
    if axis == "commit" and not facts.stateful and not facts.declared:
        return "no manifest of the table is a log of commits or writes"
    if axis in METASTORE_AXES and facts.table.name not in availability.metastores_wanted:
        return "no metadata store covers the table"
    if axis == POINTER and not availability.catalogs:
        return "no catalog is configured"
    if axis == POINTER and facts.table.name not in availability.catalog_cuts and not availability.catalog_gap:
        return "no catalog names the table"
    if axis == "metastore_tree" and facts.table.name in availability.treeless:
        return "the metadata store of the table has no folders"
    return None


def _unreadable(axis: str, facts: TableFacts, availability: Availability) -> str | None:
    if axis in METASTORE_AXES and facts.table.name not in availability.metastore_cuts:
        return availability.naming_unread(
            "no metadata store of the table could be read", "metastore", facts.table
        )
    if axis == POINTER and facts.table.name not in availability.catalog_cuts:
        return availability.catalog_gap
    if facts.refusal and axis not in NOT_OF_MANIFESTS:
        return facts.refusal
    if facts.unseen:
        lacks = (
            "no file of the table's log"
            if facts.log_since
            else "none of the table's files, although storage has them"
        )
        return f"the inventory lists {lacks}, so it does not cover the table"
    if facts.table.name not in availability.storage_cuts:
        reason = availability.reasons.get("storage") or _uncovered(facts, availability)
        return availability.naming_unread(reason, "storage", facts.table)
    return availability.outdated.get(facts.table.name) if axis in FILE_AXES else None


def _uncovered(facts: TableFacts, availability: Availability) -> str:
    """Return the place of the table, and the places that storage sources cover instead."""
    if not availability.covered:
        return NOT_COVERED
    place = facts.table.location
    where = f"bucket {place.bucket}" if place.bucket else place.uri
    more = (
        f" and {len(availability.covered) - NAMED} more places" if len(availability.covered) > NAMED else ""
    )
    return (
        f"{NOT_COVERED}: the table is in {where}, and the sources cover "
        f"{', '.join(availability.covered[:NAMED])}{more}"
    )


def _unseen(axis: str, table: str, availability: Availability) -> str | None:
    """Return why not all objects, or not all lists of them, are known, for axes about unlisted files."""
    if axis in ("leftover", "duplicate") and table in availability.incomplete_reports:
        return availability.incomplete_reports[table]
    return availability.other_listers.get(table) if axis == "leftover" else None


def _gap(axis: str, facts: TableFacts, availability: Availability, tally: Tally) -> str | None:
    if facts.holes and axis not in NOT_OF_MANIFESTS:
        return facts.holes[0].reason
    if facts.doubt and axis == "leftover":
        return facts.doubt
    if axis == POINTER and facts.table.name in availability.catalog_holes:
        return availability.catalog_holes[facts.table.name]
    if unseen := _unseen(axis, facts.table.name, availability):
        return unseen
    if axis in LIVE_AXES and facts.table.name in availability.not_rechecked:
        return not_rechecked(availability.not_rechecked[facts.table.name])
    if gap := _of_sources(axis, facts.table.name, availability, tally):
        return gap
    return _of_files(axis, facts.table.name, availability, tally)


def _of_sources(axis: str, table: str, availability: Availability, tally: Tally) -> str | None:
    """Return which sources were not read completely, if they can decide the axis and something is undecided."""
    roles = ("storage", "metastore") if axis in METASTORE_AXES else ("storage",)
    sources = [source for role in roles for source in availability.gaps.get((table, role), ())]
    undecided = tally.outcomes.get("undecided", 0)
    if not sources or not undecided:
        return None
    what = f"{undecided:,} {'commit' if axis == 'commit' else 'file'}{'' if undecided == 1 else 's'}"
    return f"{what} undecided: {' and '.join(sources)} {'was' if len(sources) == 1 else 'were'} not read completely"


def _of_files(axis: str, table: str, availability: Availability, tally: Tally) -> str | None:
    """Return why single files are not judged: no source covers them, or storage does not report a required field."""
    if tally.outcomes.get("uncovered", 0):
        return availability.outside.get((table, axis), "no storage source covers some of the files")
    if tally.outcomes.get("undecided", 0):
        return availability.unnamed_fields.get((table, axis))
    return None


def not_rechecked(why: str) -> str:
    """Return the reason for a table whose newest state could not be read again, for coverage and findings."""
    return f"the table's newest state could not be read again: {why}"


def rows(
    tables: Sequence[TableFacts],
    tally: Tallies,
    availability: Availability,
    run_id: str,
    lake: str,
    axes: Sequence[str] = AXES,
) -> list[dict[str, Any]]:
    """Return the rows of the `coverage` table: every axis of every table in scope."""
    return [_row(facts, axis, tally, availability, run_id, lake) for facts in tables for axis in axes]


def _row(
    facts: TableFacts, axis: str, tally: Tallies, availability: Availability, run_id: str, lake: str
) -> dict[str, Any]:
    name = facts.table.name
    counted = tally.get((name, axis), Tally())
    state = axis_state(axis, facts, availability, counted)
    cut = availability.storage_cuts.get(name)
    outcome = counted.outcomes
    return {
        "run_id": run_id,
        "lake": lake,
        "table_name": name,
        "axis": axis,
        "status": state.status,
        "reason": state.reason or None,
        "table_version": facts.version,
        "storage_cut_from": cut.start if cut else None,
        "storage_cut_to": cut.end if cut else None,
        "history_horizon": facts.horizon,
        "files": counted.files,
        "bytes": counted.bytes,
        "consistent": outcome.get("consistent", 0),
        "findings": outcome.get("finding", 0),
        "ignored": outcome.get("ignored", 0),
        "out_of_window": outcome.get("out_of_window", 0),
        "undecided": outcome.get("undecided", 0),
        "moved_on": outcome.get("moved_on", 0),
        "uncovered": outcome.get("uncovered", 0),
        "unconfirmed": counted.unconfirmed,
        "refuted": counted.refuted,
        "decided_share": counted.decided_share,
    }
