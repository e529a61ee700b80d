"""Turn open discrepancies into steps by the current state of storage. Nothing in the lake changes."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakeaudit.advice.next_steps import LAKE_FILE, to_do_for, with_names
from lakeaudit.config import Lake, Table
from lakeaudit.keys import digest, uri_of
from lakeaudit.reconcile.deletion_guards import DUPLICATES, LEFTOVERS
from lakeaudit.reconcile.key_state import Unclear
from lakeaudit.reconcile.plans.lost_content import NOTHING_LOST, LostContent
from lakeaudit.reconcile.plans.matching import on_purpose
from lakeaudit.reconcile.plans.plan_shares import Share
from lakeaudit.reconcile.protocol import METADATA, Action, Case, Look, Proposal, State, StateReader
from lakeaudit.reconcile.registry import ACTIONS, FOLLOWED_BY, REMOVING, RESTORING, WAYS
from lakeaudit.reconcile.steps import NEEDS_PERSON, Step
from lakeaudit.reconcile.stores.partitions import POINTERS
from lakeaudit.results.leftover_groups import as_finding
from lakeaudit.results.read import Results, RowFilter
from lakeaudit.runtime.threads import beside

Row = Mapping[str, Any]

UPLOADS = ("unfinished_upload",)
THREADS = 16
_MAY_BE_ALL = (
    "a state of its table is lost or contradicts itself ({}), "
    "and the file may be all that is left of it: restore that state first"
)
_NOT_NAMED = "the results no longer contain its files: run an audit"

_EVIDENCE = (
    *("severity", "explanation", "confirmation", "last_evidence_at", "manifest_kind", "manifest_time"),
    *("table_version", "manifest_size", "manifest_etag", "cause", "cause_at", "cause_principal"),
)


@dataclass(frozen=True)
class Planner:
    """Makes steps for discrepancies.

    Attributes:
        lake: steps act only on its tables, except those on partitions of `discovered`.
        plan_id: id of the plan.
        allow: values of `--allow`.
        now: current time.
        reader: reads current states.
        first_audits: by table the time of the first complete audit of its unused files.
        discovered: tables that catalogs name and the lake file does not.
        losing: by table the kind of an open discrepancy that reports a lost or contradictory state. An unused file may
            then be all that is left of that state, so no file of the table is hidden, moved or removed.
        lost_files: by table the file names of its lost states, which one discrepancy covers.
        lost_content: lost live files, whose bytes an unused file may contain.
        lake_file: path that commands in advice name.
    """

    lake: Lake
    plan_id: str
    allow: Collection[str]
    now: datetime
    reader: StateReader
    first_audits: Mapping[str, datetime] = field(default_factory=dict)
    discovered: Sequence[Table] = ()
    losing: Mapping[str, str] = field(default_factory=dict)
    lost_files: Mapping[str, Sequence[str]] = field(default_factory=dict)
    lost_content: LostContent = NOTHING_LOST
    lake_file: str = LAKE_FILE

    def steps(self, results: Results, row_filter: RowFilter) -> Iterator[Step]:
        """Yield a step for every open discrepancy, worst severity first; one batch is in memory at a time.

        Raises:
            CannotAudit: the ledger cannot be read.
        """
        yield from self.steps_of(self.shares(results, row_filter))

    def shares(self, results: Results, row_filter: RowFilter) -> Iterator[Share]:
        """Yield the shares of the plan in its order. Raises as `steps`."""
        for batch in results.discrepancies(("open",), row_filter=row_filter):
            groups = self._by_file(batch)
            grouped = pc.is_in(batch["discrepancy_id"], value_set=groups)
            yield Share(pa.table(batch.filter(pc.invert(grouped))))
            if len(groups):
                yield from _shares_of(results, pa.table(batch.filter(grouped)))

    def steps_of(self, shares: Iterable[Share]) -> Iterator[Step]:
        """Yield the steps of some shares, in their order."""
        with beside(THREADS) as pool:
            for share in shares:
                if share.lost:
                    yield from (self._for_person(row, [self._unnamed(row)]) for row in share.rows.to_pylist())
                else:
                    yield from chain.from_iterable(pool.map(self.steps_for, _rows(share)))

    def _unnamed(self, row: Row) -> str:
        """Return why no file of a row is known: while a state of the table is lost, no audit names files."""
        return self._may_be_all(row) if row["table_name"] in self.losing else _NOT_NAMED

    def _by_file(self, batch: pa.RecordBatch) -> pa.Array:
        """Return ids of rows about many files, each of which may have a step."""
        by_file = UPLOADS if self.lake.quarantine is None else (*LEFTOVERS, *UPLOADS)
        many = (pc.field("subject_type") != "file") | pc.field("subject_type").is_null()
        rows = batch.filter(many & pc.field("kind").isin(list(by_file))).to_pylist()
        ids = [row["discrepancy_id"] for row in rows if not self._of_row(row, self._table(row))]
        return pa.array(ids, pa.string())

    def steps_for(self, row: Row) -> list[Step]:
        """Return the steps of one row of the ledger: one for each of its files."""
        return [step for each in self._of_each_state(row) for step in self._steps_for(each)]

    def _of_each_state(self, row: Row) -> list[Row]:
        """Return the row once for every lost state that it covers, oldest first; else the row itself."""
        folder, _, name = (row["key"] or "").rpartition("/")
        names = self.lost_files.get(row["table_name"], ()) if row["kind"] == METADATA else ()
        if name not in names or name.endswith(_WHOLE):
            return [row]
        same = [each for each in names if _is_commit(each) == _is_commit(name) and not each.endswith(_WHOLE)]
        unknown = dict.fromkeys(("rows_at_stake", "bytes_at_stake"))
        return [{**row, "key": f"{folder}/{each}"} | ({} if each == name else unknown) for each in same]

    def _steps_for(self, row: Row) -> list[Step]:
        """Return the step of one file, and the step that has to follow it."""
        step, table = self.step(row), self._table(row)
        if step.action not in FOLLOWED_BY or table is None:
            return [step]
        action = ACTIONS[FOLLOWED_BY[step.action]]
        case = Case(row, self.lake, table, self.allow, self.now, after=step)
        proposal = action.refuses(case) or self._proposed(action, case, {})
        return [step] if isinstance(proposal, str) else [step, self._planned(row, action, proposal)]

    def step(self, row: Row) -> Step:
        """Return the step of one row of the ledger: the first action that applies, else `needs_person` with reasons."""
        row, table = _by_subject(row), self._table(row)
        why = self._obstacles(row, table)
        if table is None:
            return self._for_person(row, why)
        first_audit = self.first_audits.get(table.name)
        case = Case(row, self.lake, table, self.allow, self.now, first_audit)
        return self._for_person(row, [*why, *_refusals(case)]) if why else self._first_way(case)

    def _first_way(self, case: Case) -> Step:
        row, refused = case.row, []
        seen: dict[Look, State] = {}
        for name in WAYS[row["kind"]]:
            action = ACTIONS[name]
            why = action.refuses(case)
            if why is None and name in REMOVING:
                lost = row["table_name"] in self.losing
                why = self._may_be_all(row) if lost else self.lost_content.of_row(row)
            proposal = self._proposed(action, case, seen) if why is None else why
            if name in RESTORING and (leave := on_purpose(case)):
                proposal = _withheld(proposal, leave)
            if not isinstance(proposal, str):
                return self._planned(row, action, proposal)
            refused.append(proposal)
        return self._for_person(row, refused)

    def _planned(self, row: Row, action: Action, proposal: Proposal) -> Step:
        proof = {"matched_by": proposal.matched_by}
        return self._step(
            row, action.name, proposal.precondition, proof, action.undo, action.reversibility, action.risk
        )

    def _proposed(self, action: Action, case: Case, seen: dict[Look, State]) -> Proposal | str:
        try:
            if action.look not in seen:
                seen[action.look] = action.look(self.reader, case.row["bucket"], case.row["key"])
        except Unclear as error:
            return str(error)
        return action.propose(case, seen[action.look])

    def _obstacles(self, row: Row, table: Table | None) -> list[str]:
        """Return every reason that makes a request to storage unnecessary."""
        why = self._of_row(row, table)
        if row["kind"] not in WAYS:
            return why
        unplaced = row["kind"] in LEFTOVERS and self.lake.quarantine is None
        why += ["the lake file names no quarantine"] if unplaced else []
        if self.lake.is_weak(row["bucket"] or ""):
            why.append("responses of its bucket may lag behind writes (consistency: weak)")
        if row["kind"] in POINTERS:
            return why
        if not row["bucket"] or not row["key"]:
            return why or ["it is not an object of a bucket"]
        if not any(table.location.holds(row["bucket"], row["key"]) for table in self.lake.tables):
            why.append("it is outside every table of the lake file")
        return why

    def _of_row(self, row: Row, table: Table | None) -> list[str]:
        """Return the reasons that hold for all files of a row, from the ledger alone."""
        if row["kind"] not in WAYS:
            return ["there is no automatic repair for this kind"]
        lost = row["kind"] in (*LEFTOVERS, *DUPLICATES, *UPLOADS) and row["table_name"] in self.losing
        moved = row["kind"] == "dropped" and row["related_key"]
        accepted = row["ack_until"] is not None and row["ack_until"] > self.now
        return [
            *([self._may_be_all(row)] if lost else []),
            *([_moved_to(row)] if moved else []),
            *([f"accepted by {row['ack_by']}: {row['ack_reason']}"] if accepted else []),
            *(["the lake file does not name its table"] if table is None else []),
        ]

    def _may_be_all(self, row: Row) -> str:
        return _MAY_BE_ALL.format(self.losing[row["table_name"]])

    def _table(self, row: Row) -> Table | None:
        of_kind = self.discovered if row["kind"] in POINTERS else ()
        tables = (*self.lake.tables, *of_kind)
        return next((table for table in tables if table.name == row["table_name"]), None)

    def _for_person(self, row: Row, why: list[str]) -> Step:
        do = with_names(to_do_for({**row, "recoverable": None}), self.lake_file, [row["table_name"]])
        reasons = {"why": "; ".join(filter(None, dict.fromkeys(why))), "do": do}
        return self._step(row, NEEDS_PERSON, {}, reasons, "", "", "")

    def _step(
        self,
        row: Row,
        action: str,
        precondition: Row,
        evidence: Row,
        undo: str,
        reversibility: str,
        risk: str,
    ) -> Step:
        known = {name: row[name] for name in _EVIDENCE if row[name] is not None}
        return Step(
            plan_id=self.plan_id,
            action_id=digest(
                self.plan_id, row["discrepancy_id"], action, row["bucket"] or "", row["key"] or ""
            ),
            discrepancy_id=row["discrepancy_id"],
            table_name=row["table_name"],
            kind=row["kind"],
            action=action,
            bucket=row["bucket"],
            key=row["key"],
            precondition=precondition and {**precondition, **_lister(row)},
            evidence={**evidence, **known},
            undo=undo,
            reversibility=reversibility,
            risk=risk,
            rows_at_stake=row["rows_at_stake"],
            bytes_at_stake=row["bytes_at_stake"],
        )


_WHOLE = ".metadata.json"
"""Suffix of state files that need no older state (Iceberg)."""


def _is_commit(name: str) -> bool:
    """Return whether a state's file is one of Delta, not of a Hudi table at the same location."""
    return name.endswith(".json")


def _moved_to(row: Row) -> str:
    other = uri_of(row["bucket"], row["related_key"])
    return f"the same bytes are at {other}: restoring the file may duplicate its rows"


def _refusals(case: Case) -> list[str]:
    """Return why each action refuses the case before any state is read; empty if one of them does not refuse."""
    if case.row["ack_until"] is not None and case.row["ack_until"] > case.now:
        return []
    refusals = [ACTIONS[name].refuses(case) for name in WAYS.get(case.row["kind"], ())]
    return [] if None in refusals else [each for why in refusals if why for each in why.split("; ")]


def _by_subject(row: Row) -> Row:
    """Replace the key of a row about a partition or table of a catalog by the finding's subject."""
    return {**row, "key": row["subject"]} if row["kind"] in POINTERS else row


def _withheld(proposal: Proposal | str, leave: str) -> str:
    """Return why the step is not planned; `leave` is included only if `--allow` would make it possible."""
    if not isinstance(proposal, str):
        return leave
    return f"{leave}; {proposal}" if "`--allow " in proposal else proposal


def _rows(share: Share) -> list[Row]:
    """Return a row for each step."""
    rows: list[Row] = share.rows.to_pylist()
    if share.files is None:
        return rows
    groups = {row["discrepancy_id"]: row for row in rows}
    return [as_finding(groups[file["discrepancy_id"]], file) for file in share.files.to_pylist()]


def _shares_of(results: Results, groups: pa.Table) -> Iterator[Share]:
    """Yield rows about many files with these files, then the rows whose files are not known."""
    left, ids = groups, groups["discrepancy_id"].to_pylist()
    for batch in results.batches("leftover_files", pc.field("discrepancy_id").isin(ids)):
        named = batch["discrepancy_id"]
        yield Share(groups.filter(pc.is_in(groups["discrepancy_id"], value_set=named)), pa.table(batch))
        left = left.filter(pc.invert(pc.is_in(left["discrepancy_id"], value_set=named)))
    if left.num_rows:
        yield Share(left, lost=True)


def _lister(row: Row) -> Row:
    """Return the table that lists the file; no table lists a file that is removed."""
    return {} if row["kind"] in (*LEFTOVERS, *DUPLICATES, *POINTERS) else {"listed_by": row["table_name"]}
