"""From open discrepancies to steps: what storage answers now decides what may be done. It changes nothing."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakeaudit.advice.next_steps import to_do
from lakeaudit.config import Lake, Table
from lakeaudit.keys import digest, uri_of
from lakeaudit.reconcile.four_yeses import DOUBLES, LEFTOVERS
from lakeaudit.reconcile.key_state import Unclear
from lakeaudit.reconcile.lost_content import NOTHING_LOST, LostContent
from lakeaudit.reconcile.matching import on_purpose
from lakeaudit.reconcile.partitions import POINTERS
from lakeaudit.reconcile.plan_shares import Share
from lakeaudit.reconcile.protocol import METADATA, Action, Case, Look, Proposal, Sight, State
from lakeaudit.reconcile.registry import ACTIONS, FOLLOWED_BY, REMOVING, RESTORING, WAYS
from lakeaudit.reconcile.steps import NEEDS_PERSON, Step
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
_NOT_NAMED = "its files are not in the results any more: audit again"

_EVIDENCE = (
    *("severity", "explanation", "confirmation", "last_evidence_at", "manifest_kind", "manifest_time"),
    *("table_version", "manifest_size", "manifest_etag", "cause", "cause_at", "cause_principal"),
)


@dataclass(frozen=True)
class Planner:
    """Makes steps of discrepancies.

    Attributes:
        lake: its tables are the only ones that anything is done about, but for partitions of `found`.
        plan_id: of the plan that the steps are of.
        allow: what the user allows beside the default, of ALLOWED.
        now: the clock reading of the plan.
        sight: looks at things as they are now.
        first_audits: by table when the first complete audit of its leftovers looked at storage.
        found: tables that catalogs name and the lake file does not.
        losing: by table the kind of an open discrepancy that means that a state of it is lost or contradicts itself:
            what no state lists may be all that is left of it, so that nothing there is hidden, moved or removed.
        lost_files: by table the names of the files of its lost states, which one discrepancy speaks for.
        lost_content: live files that are lost, whose bytes a leftover may hold.
    """

    lake: Lake
    plan_id: str
    allow: Collection[str]
    now: datetime
    sight: Sight
    first_audits: Mapping[str, datetime] = field(default_factory=dict)
    found: Sequence[Table] = ()
    losing: Mapping[str, str] = field(default_factory=dict)
    lost_files: Mapping[str, Sequence[str]] = field(default_factory=dict)
    lost_content: LostContent = NOTHING_LOST

    def steps(self, results: Results, wanted: RowFilter) -> Iterator[Step]:
        """A step for every open discrepancy, worst severity first; a batch of them in memory at a time.

        Raises:
            CannotAudit: the ledger cannot be read.
        """
        yield from self.steps_of(self.shares(results, wanted))

    def shares(self, results: Results, wanted: RowFilter) -> Iterator[Share]:
        """All that is to be planned, in the plan's order. Raises as `steps`."""
        for batch in results.discrepancies(("open",), row_filter=wanted):
            groups = self._by_file(batch)
            grouped = pc.is_in(batch["discrepancy_id"], value_set=groups)
            yield Share(pa.table(batch.filter(pc.invert(grouped))))
            if len(groups):
                yield from _shares_of(results, pa.table(batch.filter(grouped)))

    def steps_of(self, shares: Iterable[Share]) -> Iterator[Step]:
        """The steps of some shares, in their order."""
        with beside(THREADS) as pool:
            for share in shares:
                if share.lost:
                    yield from (self._for_person(row, [self._unnamed(row)]) for row in share.rows.to_pylist())
                else:
                    yield from chain.from_iterable(pool.map(self.steps_for, _rows(share)))

    def _unnamed(self, row: Row) -> str:
        """Why no file of a row is known: another audit names none either while a state of the table is lost."""
        return self._may_be_all(row) if row["table_name"] in self.losing else _NOT_NAMED

    def _by_file(self, batch: pa.RecordBatch) -> pa.Array:
        """Ids of rows that stand for many files, of which each may have a step."""
        by_file = UPLOADS if self.lake.quarantine is None else (*LEFTOVERS, *UPLOADS)
        many = (pc.field("subject_type") != "file") | pc.field("subject_type").is_null()
        rows = batch.filter(many & pc.field("kind").isin(list(by_file))).to_pylist()
        ids = [row["discrepancy_id"] for row in rows if not self._of_row(row, self._table(row))]
        return pa.array(ids, pa.string())

    def steps_for(self, row: Row) -> list[Step]:
        """The steps of one row of the ledger: one for each file that it speaks for."""
        return [step for each in self._of_each_state(row) for step in self._steps_for(each)]

    def _of_each_state(self, row: Row) -> list[Row]:
        """The row once for every lost state that it speaks for, oldest first; itself where it speaks for its file."""
        folder, _, name = (row["key"] or "").rpartition("/")
        names = self.lost_files.get(row["table_name"], ()) if row["kind"] == METADATA else ()
        if name not in names or name.endswith(_WHOLE):
            return [row]
        alike = [each for each in names if _is_commit(each) == _is_commit(name) and not each.endswith(_WHOLE)]
        apart = dict.fromkeys(("rows_at_stake", "bytes_at_stake"))
        return [{**row, "key": f"{folder}/{each}"} | ({} if each == name else apart) for each in alike]

    def _steps_for(self, row: Row) -> list[Step]:
        """The step of one file, and what has to follow it."""
        step, table = self.step(row), self._table(row)
        if step.action not in FOLLOWED_BY or table is None:
            return [step]
        action = ACTIONS[FOLLOWED_BY[step.action]]
        case = Case(row, self.lake, table, self.allow, self.now, after=step)
        proposal = action.refuses(case) or self._proposed(action, case, {})
        return [step] if isinstance(proposal, str) else [step, self._planned(row, action, proposal)]

    def step(self, row: Row) -> Step:
        """The step of one row of the ledger: the first way that is one, else what keeps a program from it."""
        row, table = _by_subject(row), self._table(row)
        why = self._obstacles(row, table)
        if table is None:
            return self._for_person(row, why)
        first_audit = self.first_audits.get(table.name)
        case = Case(row, self.lake, table, self.allow, self.now, first_audit)
        return self._for_person(row, [*why, *_refused(case)]) if why else self._first_way(case)

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
        told = {"matched_by": proposal.matched_by}
        return self._step(
            row, action.name, proposal.precondition, told, action.undo, action.reversibility, action.risk
        )

    def _proposed(self, action: Action, case: Case, seen: dict[Look, State]) -> Proposal | str:
        try:
            if action.look not in seen:
                seen[action.look] = action.look(self.sight, case.row["bucket"], case.row["key"])
        except Unclear as error:
            return str(error)
        return action.propose(case, seen[action.look])

    def _obstacles(self, row: Row, table: Table | None) -> list[str]:
        """Every reason for which nothing is asked of storage."""
        why = self._of_row(row, table)
        if row["kind"] not in WAYS:
            return why
        unplaced = row["kind"] in LEFTOVERS and self.lake.quarantine is None
        why += ["no quarantine place is named"] if unplaced else []
        if self.lake.is_weak(row["bucket"] or ""):
            why.append("answers of its bucket may lag behind writes (consistency: weak)")
        if row["kind"] in POINTERS:
            return why
        if not row["bucket"] or not row["key"]:
            return why or ["it is not an object of a bucket"]
        if not any(table.location.holds(row["bucket"], row["key"]) for table in self.lake.tables):
            why.append("it lies outside every table that the lake file names")
        return why

    def _of_row(self, row: Row, table: Table | None) -> list[str]:
        """The same for all files of a row, from the ledger alone."""
        if row["kind"] not in WAYS:
            return ["no action is known for this kind"]
        lost = row["kind"] in (*LEFTOVERS, *DOUBLES, *UPLOADS) and row["table_name"] in self.losing
        moved = row["kind"] == "dropped" and row["related_key"]
        accepted = row["ack_until"] is not None and row["ack_until"] > self.now
        return [
            *([self._may_be_all(row)] if lost else []),
            *([_moved_to(row)] if moved else []),
            *([f"accepted by {row['ack_by']}: {row['ack_reason']}"] if accepted else []),
            *(["its table is not named in the lake file"] if table is None else []),
        ]

    def _may_be_all(self, row: Row) -> str:
        return _MAY_BE_ALL.format(self.losing[row["table_name"]])

    def _table(self, row: Row) -> Table | None:
        of_kind = self.found if row["kind"] in POINTERS else ()
        tables = (*self.lake.tables, *of_kind)
        return next((table for table in tables if table.name == row["table_name"]), None)

    def _for_person(self, row: Row, why: list[str]) -> Step:
        do = to_do(row["kind"], manifest_kind=row["manifest_kind"])
        told = {"why": "; ".join(filter(None, dict.fromkeys(why))), "do": do}
        return self._step(row, NEEDS_PERSON, {}, told, "", "", "")

    def _step(
        self, row: Row, action: str, precondition: Row, told: Row, undo: str, reversibility: str, risk: str
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
            evidence={**told, **known},
            undo=undo,
            reversibility=reversibility,
            risk=risk,
            rows_at_stake=row["rows_at_stake"],
            bytes_at_stake=row["bytes_at_stake"],
        )


_WHOLE = ".metadata.json"
"""The end of the names of states that need no older one (Iceberg)."""


def _is_commit(name: str) -> bool:
    """Whether a state's file is one of Delta, and none of a Hudi table at the same place."""
    return name.endswith(".json")


def _moved_to(row: Row) -> str:
    return f"the same bytes lie at {uri_of(row['bucket'], row['related_key'])}: to restore the file may double its rows"


def _refused(case: Case) -> list[str]:
    """What each way refuses before anything is looked at; nothing where one of them refuses nothing."""
    if case.row["ack_until"] is not None and case.row["ack_until"] > case.now:
        return []
    refusals = [ACTIONS[name].refuses(case) for name in WAYS.get(case.row["kind"], ())]
    return [] if None in refusals else [each for why in refusals if why for each in why.split("; ")]


def _by_subject(row: Row) -> Row:
    """What is about a partition or a table of a catalog has the finding's subject in place of a key."""
    return {**row, "key": row["subject"]} if row["kind"] in POINTERS else row


def _withheld(proposal: Proposal | str, leave: str) -> str:
    """What keeps a program from it where leave is needed, too; none is asked for what could not be done with it."""
    if not isinstance(proposal, str):
        return leave
    return f"{leave}; {proposal}" if "`--allow " in proposal else proposal


def _rows(share: Share) -> list[Row]:
    """A row for each step."""
    rows: list[Row] = share.rows.to_pylist()
    if share.files is None:
        return rows
    groups = {row["discrepancy_id"]: row for row in rows}
    return [as_finding(groups[file["discrepancy_id"]], file) for file in share.files.to_pylist()]


def _shares_of(results: Results, groups: pa.Table) -> Iterator[Share]:
    """Of rows that stand for many the files, and those of which none is known."""
    left, ids = groups, groups["discrepancy_id"].to_pylist()
    for batch in results.batches("leftover_files", pc.field("discrepancy_id").isin(ids)):
        named = batch["discrepancy_id"]
        yield Share(groups.filter(pc.is_in(groups["discrepancy_id"], value_set=named)), pa.table(batch))
        left = left.filter(pc.invert(pc.is_in(left["discrepancy_id"], value_set=named)))
    if left.num_rows:
        yield Share(left, lost=True)


def _lister(row: Row) -> Row:
    """The table that lists the file, which none does of what is removed."""
    return {} if row["kind"] in (*LEFTOVERS, *DOUBLES, *POINTERS) else {"listed_by": row["table_name"]}
