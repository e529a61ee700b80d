"""Record plans and the results of their steps in the tables `plans` and `actions`. Writers hold the results' lease.

A batch is recorded before it starts (with the status `started`) and again when it ends: first in a small file of its
own (`write_ahead`), later with many other batches in `actions`, by one commit. If a run is killed, its files remain,
and the next run merges them before it does anything else.

status of a step: started, applied; moved_on (the table no longer lists the file); changed (the key has changed since
the step was decided on); unknown (the state could not be decided); needs_person (the store honours no safe request);
failed (the store refused); waiting (not begun: beyond `--limit`, or after too many failures); undoing, undone; kept
(the key is not as the step left it, so the step was not reversed); purged (permanently removed from the quarantine).
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
from lakeaudit.reconcile.execution.write_ahead import WriteAhead, plans_left
from lakeaudit.reconcile.plans.plan_file import Header
from lakeaudit.reconcile.steps import Step
from lakeaudit.results import delta_writer, sql
from lakeaudit.results.read import Results, Row
from lakeaudit.schemas import RECONCILE_RESULTS

PLANNED, APPLYING, APPLIED, UNDOING, UNDONE = "planned", "applying", "applied", "undoing", "undone"
STARTED, MOVED_ON, CHANGED, UNKNOWN, FAILED = "started", "moved_on", "changed", "unknown", "failed"
NOT_SAFE, WAITING, KEPT, PURGED = "needs_person", "waiting", "kept", "purged"

SETTLED = (APPLIED, MOVED_ON, CHANGED, NOT_SAFE, UNDOING, UNDONE, KEPT, PURGED)
"""Statuses of steps that `apply` does not try again."""
FOLDED_AT_ONCE = 100
"""Batches whose rows stay in memory until one commit writes all of them."""
PUT_BACK = "put_back"
"""The action with which apply itself reverses a step at once."""
TO_UNDO = (STARTED, APPLIED, UNDOING)
"""Statuses of steps that may have had an effect."""


@dataclass(frozen=True)
class StepResult:
    """The result of a step; `undo` is the data that its undo needs."""

    status: str
    error: str | None = None
    undo: Mapping[str, Any] | None = None
    at: datetime | None = None
    put_back: datetime | None = None
    """When apply itself reversed the step."""
    is_ours: bool = True
    """Whether this run is known to have caused the effect: after a refused request, another writer may have."""


class Journal:
    """The records of one plan.

    `results` are those of a run that holds their lease (`Results.leased_by`). Methods that write raise `CannotPublish`,
    and `Busy` if another run may have taken over; methods that read raise `CannotAudit` or `SourceError`.
    """

    def __init__(self, results: Results, plan_id: str) -> None:
        self._results = results
        self.plan_id = plan_id
        self._files = WriteAhead(results, plan_id)
        self._ahead: dict[int, list[Row]] = {}
        self._put_backs: dict[str, Row] = {}
        self.approved_by: str | None = None

    @contextmanager
    def recording(self) -> Iterator[Self]:
        """Merge the records of a killed run, and write all records to the table at the end of the block."""
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
        """Return the plan's row; None: these results do not know the plan."""
        ours = pc.field("plan_id") == self.plan_id
        rows = [row for batch in self._reload().batches("plans", ours) for row in batch.to_pylist()]
        return rows[0] if rows else None

    def put_plan(self, header: Header, status: str) -> None:
        """Replace the plan's row; a recorded approver is preserved."""
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
        """Return the number of steps by batch and status."""
        steps = f"WHERE plan_id = {sql.text(self.plan_id)} AND action <> '{PUT_BACK}'"
        mine = f"{steps} GROUP BY batch, status"
        counts: dict[int, dict[str, int]] = {}
        for row in sql.ask(
            self._reload(), f"SELECT batch, status, count(*) AS n FROM actions {mine}", "actions"
        ):
            counts.setdefault(row["batch"], {})[row["status"]] = row["n"]
        return counts

    def batch(self, number: int) -> dict[str, StepResult]:
        """Return the results of the steps of a batch, by action_id."""
        rows = self._rows(number)
        self._put_backs |= {row["undo"]: row for row in rows if row["action"] == PUT_BACK}
        return {
            row["action_id"]: StepResult(
                row["status"], row["error"], row["undo"] and json.loads(row["undo"]), row["done_at"]
            )
            for row in rows
            if row["action"] != PUT_BACK
        }

    def steps(self, number: int) -> list[Step]:
        """Return the steps of a batch as far as the record contains them, for a run without the plan file."""
        return [_step_of(row) for row in self._rows(number) if row["action"] != PUT_BACK]

    def put_batch(self, number: int, steps: Sequence[Step], done: Mapping[str, StepResult]) -> None:
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
        """Write the recorded batches to the table, in one commit."""
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
        of_batch = (pc.field("plan_id") == self.plan_id) & (pc.field("batch") == number)
        return [row for batch in self._reload().batches("actions", of_batch) for row in batch.to_pylist()]

    def _row(self, number: int, step: Step, done: StepResult) -> Row:
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

    def _reload(self) -> Results:
        """Return the current state of the tables."""
        return self._results.again()


def unfinished_batches(results: Results) -> dict[str, list[int]]:
    """Return by plan the batches with unfinished steps, once the records of killed runs are in the table.

    Raises CannotAudit, SourceError: the record cannot be read.
    """
    current = results.again()
    if current.delta("actions") is None:
        return {}
    begun = f"SELECT DISTINCT plan_id, batch FROM actions WHERE status IN ('{STARTED}', '{UNDOING}')"
    batches: dict[str, list[int]] = {}
    for row in sql.ask(current, f"{begun} ORDER BY plan_id, batch", "actions"):
        batches.setdefault(row["plan_id"], []).append(row["batch"])
    return batches


def interrupted_plans(results: Results) -> Collection[str]:
    """Return plans of killed runs whose records are not in the table yet. Raises SourceError."""
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
    """Return the row of an action that reversed a step at once; `undo` is the id of that step."""
    of = row["action_id"]
    return {
        **row,
        "action_id": digest(of, PUT_BACK),
        "action": PUT_BACK,
        "status": APPLIED,
        "undo": of,
        "done_at": at,
    }
