"""Coverage: per table and axis what could be judged, and what could not and why. Plain rows from small counts."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lakeaudit.evidence.protocol import SnapshotWindow
from lakeaudit.findings import absence_ceiling
from lakeaudit.findings.absence_ceiling import SampleCheck
from lakeaudit.kinds import COVERED_AXES, JUDGED_OUTCOMES, LIVE_AXES, YOUNG_OUTCOME
from lakeaudit.matching.table_facts import TableFacts
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation, Rows

OUTCOMES = ("consistent", "finding", "ignored", "out_of_window", "undecided", "moved_on", "uncovered")
METASTORE_AXES = ("metastore", "metastore_tree")
POINTER = "pointer"
NOT_OF_MANIFESTS = (*METASTORE_AXES, POINTER)
"""Axes that can be asked of a table whatever its manifests say."""
AXES = COVERED_AXES
NOT_COVERED = "no storage source covers the table"
NAMED = 3
"""Places that storage sources cover and that a reason names."""


@dataclass(frozen=True)
class Tally:
    """Files by outcome for one (table, axis); on the axis `commit` they are commits and whole writes."""

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
        """(consistent + finding + ignored) / (files - out_of_window); null where that is 0."""
        old_enough = self.files - self.outcomes.get(YOUNG_OUTCOME, 0)
        judged = sum(self.outcomes.get(outcome, 0) for outcome in JUDGED_OUTCOMES)
        return judged / old_enough if old_enough else None


Tallies = dict[tuple[str, str], Tally]


def count(con: Connection, rows: Rows) -> Relation:
    """Verdict rows of PAIR -> one row per (judged_table, axis, outcome): files, bytes, unconfirmed, refuted."""
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
    """The same for rows (judged_table, axis, outcome, `size`) that no live check looks at, also by columns `more`."""
    by = ", ".join(("judged_table", "axis", "outcome", *more))
    sql = f"""
        SELECT {by}, count(*) AS files, CAST(coalesce(sum({size}), 0) AS BIGINT) AS bytes,
            CAST(0 AS BIGINT) AS unconfirmed, CAST(0 AS BIGINT) AS refuted
        FROM input GROUP BY {by}
    """
    return duck.made_of(con, sql, rows)


def uncounted(con: Connection, rows: Rows, outcome: str | None = "consistent", size: str = "0") -> Relation:
    """What takes rows from a tally again: they were counted under `outcome`, each with `size` (SQL) bytes.

    Without an outcome each row was counted under its own.
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
    """Rows of `count` by (table, axis)."""
    found: Tallies = {}
    for row in counts:
        place = (row["judged_table"], row["axis"])
        one = Tally({row["outcome"]: row["files"]}, row["bytes"], row["unconfirmed"], row["refuted"])
        found[place] = found[place].plus(one) if place in found else one
    return found


def together(*parts: Tallies) -> Tallies:
    """The sum of several tallies."""
    whole: Tallies = {}
    for part in parts:
        for place, tally in part.items():
            whole[place] = whole[place].plus(tally) if place in whole else tally
    return whole


@dataclass(frozen=True)
class AxisState:
    """Whether an axis could be asked of a table at all, and what stood in the way."""

    status: str
    reason: str = ""


@dataclass(frozen=True)
class Availability:
    """What there is to judge with: the deciding cuts of storage and of metadata stores, by table.

    `metastores_wanted` are the tables of which a metadata store should speak, whether or not it could be read, and
    `treeless` those of which only stores of names alone do;
    `overtaken` names the newer run that has settled a table; `sample_checks` are those of sources that lack too much;
    `narrowed` says of which parts of a table the run was asked, where it was not asked of the whole; `fresh` how many
    files too young for the evidence a live look has answered for; `remarks` by (table, axis) why something is undecided
    that nothing configured stands in the way of; `declared` are tables whose writes are held against storage as wholes.
    `catalogs`: there are any; `catalog_cuts` are those of the catalogs that name a table, `catalog_gap` says why not
    all could be read, and `catalog_holes` by table why its partitions are not known. `not_rechecked` gives by table why
    its newest state could not be read again, though findings depend on it.
    """

    storage_cuts: Mapping[str, SnapshotWindow]
    metastore_cuts: Mapping[str, Sequence[SnapshotWindow]]
    metastores_wanted: frozenset[str] = frozenset()
    holed_sources: Sequence[str] = ()
    reasons: Mapping[str, str] = field(default_factory=dict)
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
    """By table and axis which files lie where no storage source looks, and were not looked at or not compared."""
    looked_outside: Mapping[str, int] = field(default_factory=dict)
    """By table how many of its files that lie where no storage source looks a live look has answered for."""
    other_listers: Mapping[str, str] = field(default_factory=dict)
    """By table why not all is known that another format, or another table of a catalog, lists of its folder."""
    unnamed_fields: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """By table and axis which fields storage does not name, so that files are undecided."""
    covered: Sequence[str] = ()
    """URIs of the places that storage sources cover."""
    incomplete_reports: Mapping[str, str] = field(default_factory=dict)
    """By table why the report that decides there is not complete, so that it does not show every object."""


def axis_state(axis: str, facts: TableFacts, availability: Availability, tally: Tally) -> AxisState:
    """The status of one axis of one table.

    overtaken: a newer run has settled the table; off: nothing is configured for the axis; partial: something that is
    configured could not be used whole, or is not believed, or only a part of the table was asked for. A complete axis
    whose reason begins with a mass loss has lost much indeed.
    """
    if newer := availability.overtaken.get(facts.table.name):
        return AxisState("overtaken", f"run {newer}, which is newer, has settled this table")
    if unasked := _not_requested(axis, facts, availability):
        return AxisState("off", unasked)
    sample_checks = absence_ceiling.of_table(availability.sample_checks, facts.table.name, axis)
    doubt = _messages(absence_ceiling.doubts(sample_checks))
    if hindrance := _unreadable(axis, facts, availability) or doubt or _gap(axis, facts, availability, tally):
        return AxisState("partial", hindrance)
    if asked := availability.narrowed.get(facts.table.name):
        return AxisState("partial", asked)
    said = (
        _messages(absence_ceiling.losses(sample_checks)),
        _recent_files(axis, facts, availability, tally),
        _elsewhere(axis, facts, availability),
        _young(axis, facts, availability, tally),
        availability.remarks.get((facts.table.name, axis), ""),
        facts.remark if axis == "content" else "",
    )
    return AxisState("complete", "; ".join(filter(None, said)))


def _recent_files(axis: str, facts: TableFacts, availability: Availability, tally: Tally) -> str:
    """How many of the files too young for the evidence were looked at now."""
    looked_at = availability.fresh.get(facts.table.name, 0)
    if axis != "content" or not looked_at:
        return ""
    young = looked_at + tally.outcomes.get("out_of_window", 0)
    return f"{looked_at:,} of {young:,} files younger than the evidence were looked at now"


def _elsewhere(axis: str, facts: TableFacts, availability: Availability) -> str:
    """How many of the files that lie where no storage source looks were looked at now."""
    looked_at = availability.looked_outside.get(facts.table.name, 0)
    if axis != "content" or not looked_at:
        return ""
    return f"{looked_at:,} {'file that lies' if looked_at == 1 else 'files that lie'} elsewhere were looked at now"


def _young(axis: str, facts: TableFacts, availability: Availability, tally: Tally) -> str:
    """How many files are too young, and from when on a storage snapshot can judge them."""
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
        return "no manifest that keeps a log, or says what each write committed, is configured"
    if axis in METASTORE_AXES and facts.table.name not in availability.metastores_wanted:
        return "no metastore covers the table"
    if axis == POINTER and not availability.catalogs:
        return "no catalog is configured"
    if axis == POINTER and facts.table.name not in availability.catalog_cuts and not availability.catalog_gap:
        return "no catalog names the table"
    if axis == "metastore_tree" and facts.table.name in availability.treeless:
        return "the metastore of the table knows names alone, and no tree of folders"
    return None


def _unreadable(axis: str, facts: TableFacts, availability: Availability) -> str | None:
    if axis in METASTORE_AXES and facts.table.name not in availability.metastore_cuts:
        return "no metastore that covers the table could be read"
    if axis == POINTER and facts.table.name not in availability.catalog_cuts:
        return availability.catalog_gap
    if facts.refusal and axis not in NOT_OF_MANIFESTS:
        return facts.refusal
    if facts.unseen:
        lacks = (
            "no file of the table's log"
            if facts.log_since
            else "none of the table's files, which are in storage"
        )
        return f"the report of storage names {lacks}, so it does not cover the table"
    if facts.table.name not in availability.storage_cuts:
        return availability.reasons.get("storage") or _uncovered(facts, availability)
    return None


def _uncovered(facts: TableFacts, availability: Availability) -> str:
    """Where the table is, and what the storage sources cover instead."""
    if not availability.covered:
        return NOT_COVERED
    place = facts.table.location
    where = f"bucket {place.bucket}" if place.bucket else place.uri
    more = (
        f" and {len(availability.covered) - NAMED} more places" if len(availability.covered) > NAMED else ""
    )
    return f"{NOT_COVERED}: it is in {where}, and they cover {', '.join(availability.covered[:NAMED])}{more}"


def _unseen(axis: str, table: str, availability: Availability) -> str | None:
    """Why not all objects, or not all that lists them, is known, which axes about unlisted files rest on."""
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
    if availability.holed_sources and tally.outcomes.get("undecided", 0):
        return f"holes in {', '.join(availability.holed_sources)}"
    return _of_files(axis, facts.table.name, availability, tally)


def _of_files(axis: str, table: str, availability: Availability, tally: Tally) -> str | None:
    """Why single files are not judged: no source covers them, or storage does not name what their rules need."""
    if tally.outcomes.get("uncovered", 0):
        return availability.outside.get((table, axis), "some files lie where no storage source covers")
    if tally.outcomes.get("undecided", 0):
        return availability.unnamed_fields.get((table, axis))
    return None


def not_rechecked(why: str) -> str:
    """The reason, in coverage and in findings, of a table whose newest state could not be read again."""
    return f"the table's newest state could not be read again: {why}"


def rows(
    tables: Sequence[TableFacts],
    tally: Tallies,
    availability: Availability,
    run_id: str,
    lake: str,
    axes: Sequence[str] = AXES,
) -> list[dict[str, Any]]:
    """The rows of the `coverage` table, every axis of every table in scope."""
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
