"""Runs the demo's second half: plan repairs, apply them and audit; then undo them and audit again."""

import io
import random
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lakeaudit.audit.plan import Options
from lakeaudit.audit.run import audit
from lakeaudit.commands import reconcile
from lakeaudit.config import Lake
from lakeaudit.demo.inventory import next_second, write_inventory
from lakeaudit.engine.local import InProcessEngine
from lakeaudit.formatting import number
from lakeaudit.reconcile.plan_file import open_plan
from lakeaudit.reconcile.run import Bounds
from lakeaudit.reconcile.steps import NEEDS_PERSON
from lakeaudit.results.read import ALL, Results, Row
from lakeaudit.runtime.aws import Clients
from lakeaudit.runtime.progress import Progress

PLAN = "plan.jsonl"
ALLOWED = ("restore", "older_than_onboarding")
"""Allowed actions: the damage was intended, and all files are older than the first audit, which is fine for a demo."""


@dataclass(frozen=True)
class RepairOutcome:
    """The outcome of the repairs.

    Attributes:
        actions: number of planned steps by action; `applied` were applied, `others` counts the rest by status.
        resolved: number of discrepancies with applied steps that the next audit resolved.
        for_person: number of discrepancies that need a person.
        odd: errors: discrepancies that are open although their step was applied, and new ones.
        differs: whether the findings after the undo differ from those before the repairs.
    """

    actions: Mapping[str, int]
    others: Mapping[str, int]
    applied: int
    resolved: int
    for_person: int
    odd: tuple[str, ...]
    differs: bool

    @property
    def well(self) -> bool:
        """Return whether all repairs and the undo worked."""
        return not self.odd and not self.differs

    @property
    def steps(self) -> int:
        """Return the number of planned steps."""
        return sum(self.actions.values())

    @property
    def summary(self) -> str:
        """Return the outcome in one line."""
        actions = ", ".join(f"{n} {action.replace('_', ' ')}" for action, n in sorted(self.actions.items()))
        parts = [
            f"RepairOutcome by a plan of {number(self.steps, 'step')} ({actions or 'none'}): {self.applied} applied"
        ]
        parts += [f"{self.resolved} findings resolved by the next audit"]
        parts += [f"{n} {status.replace('_', ' ')}" for status, n in sorted(self.others.items())]
        parts += [f"{self.for_person} left to a person"]
        back = (
            "After the undo the findings differ"
            if self.differs
            else "After the undo the findings are as before"
        )
        return ". ".join([", ".join(parts), back, *self.odd])


def repair(lake: Lake, file: Path, clients: Clients, rng: random.Random, progress: Progress) -> RepairOutcome:
    """Plan, apply, audit, undo, audit; at the end the lake is broken as before."""
    results = Results(lake.results, clients, lake.name)
    before, plan = _open_rows(results), str(file.parent / PLAN)
    made = reconcile.plan(
        lake,
        str(file),
        results,
        io.StringIO(),
        to=plan,
        row_filter=ALL,
        allow=ALLOWED,
        now=_now(),
        progress=progress,
    )
    with open_plan(plan, clients) as of_file:
        again: Any = {"bounds": Bounds(), "clock": _now, "progress": progress}
        reconcile.apply(of_file, lake, str(file), results, **again)
        statuses = {row["discrepancy_id"]: row["status"] for row in _actions(results)}
        _audit(lake, clients, rng, progress)
        after = {row["discrepancy_id"]: row for row in _ledger(results)}
        reconcile.undo(of_file, lake, str(file), results, **again)
    _audit(lake, clients, rng, progress)
    applied = [of for of, status in statuses.items() if status == "applied"]
    still_open = [
        f"{after[of]['kind']} {after[of]['subject']}" for of in applied if after[of]["state"] == "open"
    ]
    repaired = {(row["bucket"], row["key"]) for row in _actions(results) if row["discrepancy_id"] in applied}
    new = [
        f"new {row['kind']} {row['subject']}"
        for of, row in after.items()
        if row["state"] == "open" and of not in before and not _follows(row, repaired)
    ]
    resolved = len(applied) - len(still_open)
    planned = {action: n for action, n in made.more["actions"].items() if action != NEEDS_PERSON}
    others = Counter(status for status in statuses.values() if status != "applied")
    return RepairOutcome(
        planned, others, len(applied), resolved, made.more["for_person"], (*still_open, *new),
        differs=_open_rows(results).keys() != before.keys(),
    )  # fmt: skip


def _follows(row: Row, repaired: Collection[tuple[str, str]]) -> bool:
    """Return whether a repair causes this finding: a restored file can be lost again, or contradicts a tombstone."""
    return row["axis"] == "hazard" or (row["axis"] == "metastore" and (row["bucket"], row["key"]) in repaired)


def _now() -> datetime:
    return datetime.now(UTC)


def _audit(lake: Lake, clients: Clients, rng: random.Random, progress: Progress) -> None:
    """Run the audit of the next night."""
    with progress.stage("write the next report"):
        write_inventory(clients, rng, next_second())
    with closing(InProcessEngine()) as engine:
        audit(lake, Options(), engine=engine, clients=clients, clock=_now, progress=progress)


def _ledger(results: Results) -> Iterator[Row]:
    for batch in results.again().discrepancies():
        yield from batch.to_pylist()


def _open_rows(results: Results) -> dict[str, Any]:
    return {row["discrepancy_id"]: row for row in _ledger(results) if row["state"] == "open"}


def _actions(results: Results) -> Iterator[Row]:
    import pyarrow.compute as pc

    for batch in results.again().batches("actions", pc.scalar(True)):
        yield from batch.to_pylist()
