"""Adds a finding for each table that lost coverage: an earlier audit judged it, and this audit cannot."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

from lakeaudit.audit.judge import Judgement
from lakeaudit.collect.evidence import Evidence
from lakeaudit.collect.evidence_gaps import not_ignored, unread_sources
from lakeaudit.config import Lake, Table
from lakeaudit.evidence.protocol import DAILY_MAX_AGE
from lakeaudit.findings import finding_rows
from lakeaudit.findings.absence_ceiling import doubts
from lakeaudit.findings.unread_sources import first_causes
from lakeaudit.formatting import second
from lakeaudit.judged import (
    CONTENT,
    NOTHING,
    OUTDATED,
    PART,
    About,
    LastJudged,
    Row,
    axis_state,
    judged_share,
)
from lakeaudit.kinds import COVERAGE_AXIS, COVERAGE_LOST, KINDS, SERIOUS, STATE_LOST, STATE_LOST_FROM_ERROR
from lakeaudit.ledger.axis_observation import AxisObservation
from lakeaudit.results.blind_since import EVIDENCE_OF
from lakeaudit.results.read import Results
from lakeaudit.results.summaries.last_judged import (
    MUCH,
    judged_tables,
    known_lost,
    last_judged,
)
from lakeaudit.results.summaries.scheduled_runs import scheduled_runs
from lakeaudit.runtime import duck

DECISIVE = ("content", "metastore", "pointer", "duplicate")
"""Axes whose coverage counts. A doubt often turns off the others on purpose: then nothing of a table is cleaned up."""

OF_SOURCES = ("no storage source", "no metadata store", OUTDATED)
"""Beginnings of reasons in coverage that are about sources, and not about the log of a table."""

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
    """A table with lost coverage.

    Attributes:
        table: its name.
        rows: the rows of its lost axes.
        since: the `as_of` of the last audit that judged it.
        files: the number of files that were judged then.
        snapshot: the time of the storage snapshot of that audit; None: not known.
        usable_until: when this snapshot is older than `max_age`; None: not known.
    """

    table: str
    rows: tuple[Row, ...]
    since: datetime
    files: int | None
    snapshot: datetime | None = None
    usable_until: datetime | None = None

    @property
    def cause(self) -> str:
        """Return why its most important axis cannot be judged; tables with the same lost source have the same text."""
        return str(_ordered(self.rows)[0]["reason"] or "the audit gives no reason")

    @property
    def has_lost_source(self) -> bool:
        """Return whether a source of storage or a metadata store is lost, and not only the log of the table."""
        return any((row["reason"] or "").startswith(OF_SOURCES) for row in self.rows)

    @property
    def explanation(self) -> str:
        """Return when an audit last judged the table, what audits cannot see, and why."""
        axes: dict[str, list[str]] = {}
        for row in _ordered(self.rows):
            axes.setdefault(row["reason"] or "", []).append(_PROBLEMS.get(row["axis"], str(row["axis"])))
        hidden = "; ".join(", ".join(names) + (f" ({why})" if why else "") for why, names in axes.items())
        return f"an audit last judged the table at {second(self.since)}{self._evidence}; audits cannot see: {hidden}"

    @property
    def _evidence(self) -> str:
        if self.snapshot is None:
            return ""
        limit = f" (usable until {second(self.usable_until)})" if self.usable_until else ""
        return f" {EVIDENCE_OF}{second(self.snapshot)}{limit}"


def with_lost_coverage(
    judgement: Judgement, evidence: Evidence, past: Results, *, all_found: bool
) -> Judgement:
    """Return the judgement with findings of kind `coverage_lost`.

    A live audit of some tables, and an audit of partitions or of the past, cannot tell. A sample that contradicts the
    evidence of a table makes the run suspect instead, and a table whose own log is lost has a finding about that.

    Args:
        judgement: findings and coverage of the run.
        evidence: its evidence.
        past: the results of earlier runs.
        all_found: whether discovery cannot have missed a table.
    """
    whole = {table.name for table in evidence.lake.tables} <= {table.name for table in evidence.scope}
    if (evidence.observed.listed and not whole) or evidence.partitions or not evidence.context.live:
        return judgement
    doubtful = {check.missing.table for check in doubts(judgement.sample_checks)}
    tables = {table.name: table for table in evidence.scope if table.name not in doubtful}
    damaged = _tables_with_lost_states(judgement, evidence)
    earlier = _Earlier(past, evidence)
    blind = _blind_tables(judgement, tables, earlier)
    lost = [each for each in blind if each.table not in damaged or each.has_lost_source]
    lost += [] if all_found or not whole else _missed_tables(judgement, evidence, earlier)
    as_of, con = evidence.stamp.as_of, evidence.con
    # a table without its log, or that discovery misses, stays as it is
    states = {each.table: "partial" for each in lost} | {
        name: "partial" if name in damaged else "complete" for name in tables
    }
    observed = [AxisObservation(name, COVERAGE_AXIS, state, as_of, as_of) for name, state in states.items()]
    found = [_finding(each, tables.get(each.table), evidence.lake) for each in lost]
    rows = not_ignored(evidence.lake, tables, found, as_of.date())
    findings = judgement.findings
    if rows:
        more = finding_rows.from_plain(con, rows, evidence.stamp)
        more = finding_rows.with_owners(con, more, evidence.owners)
        findings = duck.hold(con, duck.union(con, [findings, more]))
    return replace(judgement, findings=findings, observations=[*judgement.observations, *observed])


def lost_in_scope(
    lost: Collection[str], judgement: Judgement, names: Collection[str], lake: Lake
) -> set[str]:
    """Return the tables with lost coverage that concern a run: of an audit of some tables those it cannot judge either.

    An audit of the whole lake is concerned by all of them, also by tables that discovery does not find.

    Args:
        lost: the tables whose lost coverage is open.
        judgement: the coverage of the run.
        names: the tables that the run audits.
        lake: the lake with its tables.
    """
    if {table.name for table in lake.tables} <= set(names):
        return set(lost)
    blind = {row["table_name"] for row in unjudged(judgement.coverage_rows, judgement.requested_reasons)}
    return blind & set(lost) & set(names)


def _tables_with_lost_states(judgement: Judgement, evidence: Evidence) -> set[str]:
    """Return the tables that have a finding of severity error or worse about a lost state of their own."""
    kinds = duck.literals((*STATE_LOST, *STATE_LOST_FROM_ERROR))
    sql = f"""SELECT DISTINCT table_name FROM input
        WHERE kind IN ({kinds}) AND severity IN ({duck.literals(SERIOUS)})"""
    return {row["table_name"] for row in duck.rows_of(duck.made_of(evidence.con, sql, judgement.findings))}


@dataclass(frozen=True)
class _Earlier:
    """The earlier audits with which a run compares its coverage, newest first."""

    past: Results
    evidence: Evidence

    @cached_property
    def runs(self) -> Sequence[dict[str, Any]]:
        infos = self.evidence.observed.infos
        sources = {(each.kind, each.location) for each in infos if each.role == "storage"}
        return scheduled_runs(self.past, self.evidence.stamp.as_of, sources)

    @cached_property
    def lost_before(self) -> Mapping[str, LastJudged]:
        """Return the tables whose coverage was lost already, those with another name now under that name, too."""
        known = known_lost(self.past)
        renamed = {new: known[old] for new, old in self.former_names.items() if old in known}
        return renamed | known

    @cached_property
    def tables(self) -> Sequence[dict[str, Any]]:
        """Return the rows of all tables that earlier audits had in their scope."""
        return self.past.tables()

    @cached_property
    def former_names(self) -> Mapping[str, str]:
        """Return the last names of tables that the lake file had at the same location and no longer has."""
        now = {table.location.uri: table.name for table in self.evidence.lake.tables}
        names = set(now.values())
        judged = [row for row in self.tables if row["last_audited_at"] and row["table_name"] not in names]
        return {
            now[row["location"]]: row["table_name"]
            for row in sorted(judged, key=lambda row: row["last_audited_at"])
            if row["location"] in now
        }

    def usable_until(self, as_of: datetime, snapshot: datetime | None) -> datetime | None:
        """Return when the storage snapshot of an earlier run is older than its source allows; None: not known."""
        if snapshot is None:
            return None
        places = {
            source["location"].rstrip("/") for run in self.runs if run["as_of"] == as_of
            for source in run["sources"] or () if (source["role"], source["cut_from"]) == ("storage", snapshot)
        }  # fmt: skip
        limits = [limit for place, limit in self._age_limits.items() if place in places]
        return snapshot + min(limits) if limits else None

    @cached_property
    def _age_limits(self) -> Mapping[str, timedelta]:
        """Return by location the highest age of each storage source that has a limit."""
        # a source that can be read states its own limit, which is longer for weekly reports
        inventories = [each for each in self.evidence.lake.inventories if hasattr(each, "max_age")]
        written = {each.location.uri.rstrip("/"): each.max_age or DAILY_MAX_AGE for each in inventories}
        infos = self.evidence.observed.infos
        return written | {each.location.rstrip("/"): each.max_age for each in infos if each.max_age}

    def judged(self, wanted: AbstractSet[About]) -> dict[About, LastJudged]:
        """Return the earlier coverage of axes, of renamed tables under their former names."""
        audited = {row["table_name"]: row["last_audited_at"] for row in self.tables if row["last_audited_at"]}
        found = last_judged(self.past, self.runs, wanted, audited)
        former = {
            (self.former_names[table], axis): (table, axis)
            for table, axis in wanted - found.keys()
            if table in self.former_names
        }
        if former:
            before = last_judged(self.past, self.runs, former.keys(), audited)
            found |= {former[about]: last for about, last in before.items()}
        return found


def _blind_tables(
    judgement: Judgement, tables: Mapping[str, Table], earlier: _Earlier
) -> Iterable[LostTable]:
    mine = [row for row in judgement.coverage_rows if row["table_name"] in tables]
    rows = unjudged(mine, judgement.requested_reasons)
    if not rows:
        return ()
    before = earlier.judged({(row["table_name"], row["axis"]) for row in rows})
    lost = lost_tables(rows, before, earlier.lost_before)
    return [replace(each, usable_until=earlier.usable_until(each.since, each.snapshot)) for each in lost]


def _missed_tables(judgement: Judgement, evidence: Evidence, earlier: _Earlier) -> Iterator[LostTable]:
    """Yield the tables of the last audit that discovery does not find, because it could not read all of its sources."""
    known, found = earlier.lost_before, {table.name for table in evidence.lake.tables}
    last = judged_tables(earlier.past, earlier.runs[0]["run_id"]) if earlier.runs else set()
    unread = unread_sources(evidence.observed.infos, judgement.gaps)
    causes = "; ".join(first_causes([cause for _, cause in of_role]) for of_role in unread.values())
    why = f" ({causes})" if causes else ""
    row = {"axis": CONTENT, "reason": f"discovery does not find the table{why}"}
    renamed = set(earlier.former_names.values())
    for name in sorted({*last, *known} - found - renamed):
        since = known[name] if name in known else LastJudged(earlier.runs[0]["as_of"], 1.0, None)
        yield LostTable(name, (row,), since.at, since.files)


def _finding(lost: LostTable, table: Table | None, lake: Lake) -> dict[str, Any]:
    severities = lake.severities if table is None else table.severities
    return {
        "table_name": lost.table,
        "axis": COVERAGE_AXIS,
        "kind": COVERAGE_LOST,
        "severity": severities.get(COVERAGE_LOST, KINDS[COVERAGE_LOST].severity),
        "subject_type": "table",
        "subject": lost.table,
        "bucket": table and table.location.bucket,
        "key": table and table.location.prefix,
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
    rows: Sequence[Row], before: Mapping[About, LastJudged], known: Mapping[str, LastJudged]
) -> Iterator[LostTable]:
    """Yield the tables that lost coverage.

    Args:
        rows: the rows of `unjudged`.
        before: the coverage of each axis in earlier audits.
        known: tables whose coverage was lost already: since when, and their files then.
    """
    by_table: dict[str, list[Row]] = {}
    for row in rows:
        last = before.get((row["table_name"], row["axis"]))
        if _is_lost(row, last) or (last is None and row["table_name"] in known):
            by_table.setdefault(row["table_name"], []).append(row)
    for table, lost in by_table.items():
        if not any(row["axis"] in DECISIVE for row in lost):
            continue
        earlier = [before[table, row["axis"]] for row in lost if (table, row["axis"]) in before]
        first = known.get(table) or max(earlier, key=lambda last: (last.at, last.files or 0))
        snapshot = next((last.snapshot for last in earlier if last.at == first.at and last.snapshot), None)
        yield LostTable(table, tuple(lost), first.at, first.files, snapshot)


def _is_lost(row: Row, last: LastJudged | None) -> bool:
    now = judged_share(row)
    return last is not None and (now is None or now < last.share * MUCH)


def _ordered(rows: Iterable[Row]) -> list[Row]:
    """Return rows by the importance of their axes."""
    order = [CONTENT, *(axis for axis in _PROBLEMS if axis != CONTENT)]
    return sorted(rows, key=lambda row: order.index(row["axis"]) if row["axis"] in order else len(order))
