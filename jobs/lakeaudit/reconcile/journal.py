"""What became of plans and their steps: the tables `plans` and `actions`. Whoever writes here holds the results' lease.

A batch is recorded before anything of it is done (its rows say `started`), and what became of it after: first in a
small file of its own (`write_ahead`), and those of many batches then in `actions`, by one commit. A run that is killed
leaves its files, and the next one folds them before it does anything else.

status of a step: started, applied; moved_on (the table does not list the file any more); changed (the key is not as it
was when the step was decided on); unknown (nobody could tell); needs_person (the store honours no form that is safe);
failed (the store refused); waiting (not begun: beyond `--limit`, or after too many failures); undoing, undone; kept
(the key is not as the step left it, so it was not taken back); purged (what lay in the quarantine is gone for good).
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc

from lakeaudit.errors import AuditError
from lakeaudit.keys import digest
from lakeaudit.reconcile.plan_file import Header
from lakeaudit.reconcile.steps import Step
from lakeaudit.reconcile.write_ahead import WriteAhead, plans_left
from lakeaudit.results import delta_writer, sql
from lakeaudit.results.read import Results, Row
from lakeaudit.schemas import RECONCILE_RESULTS

PLANNED, APPLYING, APPLIED, UNDOING, UNDONE = "planned", "applying", "applied", "undoing", "undone"
STARTED, MOVED_ON, CHANGED, UNKNOWN, FAILED = "started", "moved_on", "changed", "unknown", "failed"
NOT_SAFE, WAITING, KEPT, PURGED = "needs_person", "waiting", "kept", "purged"

SETTLED = (APPLIED, MOVED_ON, CHANGED, NOT_SAFE, UNDOING, UNDONE, KEPT, PURGED)
"""What no other try of `apply` does again."""
FOLDED_AT_ONCE = 100
"""Batches whose rows are held in memory until one commit takes them all."""
PUT_BACK = "put_back"
"""The action by which apply takes back at once what may not stay done."""
TO_UNDO = (STARTED, APPLIED, UNDOING)
"""What may have been done."""


@dataclass(frozen=True)
class Done:
    """What became of a step; `undo` is what taking it back has to know."""

    status: str
    error: str | None = None
    undo: Mapping[str, Any] | None = None
    at: datetime | None = None
    put_back: datetime | None = None
    """When apply itself took back what the step had done."""
    is_ours: bool = True
    """Whether it is known that this run did it: a request that was refused may have met what somebody else did."""


class Journal:
    """The records of one plan.

    `results` are those of a run that holds their lease (`Results.leased_by`). Raises, from what writes,
    `CannotPublish`, and `Busy` where another run may have taken over; from what reads, `CannotAudit` or `SourceError`.
    """

    def __init__(self, results: Results, plan_id: str) -> None:
        self._results = results
        self.plan_id = plan_id
        self._files = WriteAhead(results, plan_id)
        self._ahead: dict[int, list[Row]] = {}
        self._put_backs: dict[str, Row] = {}
        self.approved_by: str | None = None

    @contextmanager
    def kept(self) -> Iterator[Self]:
        """The same, with what a killed run left; however the block ends, all of it is in the table then."""
        self._ahead |= self._files.left()
        self.fold()
        try:
            yield self
        except BaseException:
            with suppress(AuditError):
                self.fold()
            raise
        self.fold()

    def plan(self) -> Row | None:
        """The plan's row; None: it was never made here."""
        wanted = pc.field("plan_id") == self.plan_id
        rows = [row for batch in self._fresh().batches("plans", wanted) for row in batch.to_pylist()]
        return rows[0] if rows else None

    def put_plan(self, header: Header, status: str) -> None:
        """Put the plan's row in the place of the one before, and keep who approved it."""
        before = self.plan() or {}
        row = {
            "approved_by": self.approved_by or before.get("approved_by"),
            "plan_id": header.plan_id,
            "lake": self._results.lake,
            "digest": header.digest,
            "lake_digest": header.lake_digest,
            "created_by": header.created_by,
            "created_at": datetime.fromisoformat(header.created_at),
            "expires_at": datetime.fromisoformat(header.expires_at),
            "status": status,
            "steps": header.steps,
            "for_person": header.for_person,
        }
        self._replace("plans", [row], "")

    def counts(self) -> dict[int, dict[str, int]]:
        """By batch how many of its steps have which status."""
        steps = f"WHERE plan_id = {sql.text(self.plan_id)} AND action <> '{PUT_BACK}'"
        mine = f"{steps} GROUP BY batch, status"
        found: dict[int, dict[str, int]] = {}
        for row in sql.ask(
            self._fresh(), f"SELECT batch, status, count(*) AS n FROM actions {mine}", "actions"
        ):
            found.setdefault(row["batch"], {})[row["status"]] = row["n"]
        return found

    def batch(self, number: int) -> dict[str, Done]:
        """What became of the steps of a batch, by action_id."""
        rows = self._rows(number)
        self._put_backs |= {row["undo"]: row for row in rows if row["action"] == PUT_BACK}
        return {
            row["action_id"]: Done(
                row["status"], row["error"], row["undo"] and json.loads(row["undo"]), row["done_at"]
            )
            for row in rows
            if row["action"] != PUT_BACK
        }

    def steps(self, number: int) -> list[Step]:
        """The steps of a batch as far as the record has them, for a run that has no plan file."""
        return [_step_of(row) for row in self._rows(number) if row["action"] != PUT_BACK]

    def put_batch(self, number: int, steps: Sequence[Step], done: Mapping[str, Done]) -> None:
        """Replace the rows of a batch."""
        if number not in self._ahead and len(self._ahead) >= FOLDED_AT_ONCE:
            self.fold()
        rows = [self._row(number, step, done[step.action_id]) for step in steps]
        for row in rows:
            if (at := done[row["action_id"]].put_back) is not None:
                self._put_backs[row["action_id"]] = _of_put_back(row, at)
        rows += [self._put_backs[row["action_id"]] for row in rows if row["action_id"] in self._put_backs]
        self._files.put(number, rows)
        self._ahead[number] = rows

    def fold(self) -> None:
        """Bring what was recorded into the table, in one commit."""
        if not self._ahead:
            return
        rows = [row for of_batch in self._ahead.values() for row in of_batch]
        self._replace("actions", rows, f" AND batch IN ({', '.join(map(str, self._ahead))})")
        self._files.forget(self._ahead)
        self._ahead.clear()

    def _rows(self, number: int) -> list[Row]:
        ahead = self._ahead.get(number)
        if ahead is not None:
            return ahead
        wanted = (pc.field("plan_id") == self.plan_id) & (pc.field("batch") == number)
        return [row for batch in self._fresh().batches("actions", wanted) for row in batch.to_pylist()]

    def _row(self, number: int, step: Step, done: Done) -> Row:
        same = ("plan_id", "action_id", "discrepancy_id", "table_name", "action", "bucket", "key")
        return {name: getattr(step, name) for name in (*same, "reversibility")} | {
            "lake": self._results.lake,
            "batch": number,
            "precondition": json.dumps(dict(step.precondition)),
            "status": done.status,
            "undo": None if done.undo is None else json.dumps(dict(done.undo)),
            "error": done.error,
            "done_at": done.at,
        }

    def _replace(self, table: str, rows: Sequence[Row], narrower: str) -> None:
        whose = f"lake = {delta_writer.texts(self._results.lake)} AND plan_id = {delta_writer.texts(self.plan_id)}"
        arrow = pa.Table.from_pylist(list(rows), RECONCILE_RESULTS[table])
        delta_writer.overwrite(self._results, table, arrow, whose + narrower)

    def _fresh(self) -> Results:
        """The tables as they lie there now."""
        return self._results.again()


def begun_batches(results: Results) -> dict[str, list[int]]:
    """By plan the batches with steps that a run began and did not end, once what it left is in the table.

    Raises CannotAudit, SourceError: the record cannot be read. What writes raises CannotPublish.
    """
    fresh = results.again()
    if fresh.delta("actions") is None:
        return {}
    begun = f"SELECT DISTINCT plan_id, batch FROM actions WHERE status IN ('{STARTED}', '{UNDOING}')"
    found: dict[str, list[int]] = {}
    for row in sql.ask(fresh, f"{begun} ORDER BY plan_id, batch", "actions"):
        found.setdefault(row["plan_id"], []).append(row["batch"])
    return found


def left_by_killed(results: Results) -> Collection[str]:
    """Plans of which a killed run left records that are not in the table yet. Raises SourceError."""
    return plans_left(results)


def _step_of(row: Row) -> Step:
    known = json.loads(row["undo"] or "{}") if row["status"] == STARTED else {}
    same = (
        "plan_id",
        "action_id",
        "discrepancy_id",
        "table_name",
        "action",
        "bucket",
        "key",
        "reversibility",
    )
    return Step(
        **{name: row[name] for name in same},
        kind=known.get("kind", ""),
        precondition=json.loads(row["precondition"]),
        evidence={},
        undo="",
        risk="",
        rows_at_stake=None,
        bytes_at_stake=None,
    )


def _of_put_back(row: Row, at: datetime) -> Row:
    """An action of its own: what a step did was taken back by apply; `undo` names that step."""
    of = row["action_id"]
    return {
        **row,
        "action_id": digest(of, PUT_BACK),
        "action": PUT_BACK,
        "status": APPLIED,
        "undo": of,
        "done_at": at,
    }
