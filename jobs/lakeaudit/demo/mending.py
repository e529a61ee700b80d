"""The demo's second half: plan what mends the lake, do it, audit again; then take it back, and audit once more."""

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
from lakeaudit.demo.inventory import lay_inventory, next_second
from lakeaudit.engine.local import InProcessEngine
from lakeaudit.formatting import number
from lakeaudit.reconcile.plan_file import opened
from lakeaudit.reconcile.run import Bounds
from lakeaudit.reconcile.steps import NEEDS_PERSON
from lakeaudit.results.read import ALL, Results, Row
from lakeaudit.runtime.aws import Clients
from lakeaudit.runtime.progress import Progress

PLAN = "plan.jsonl"
ALLOWED = ("restore", "older_than_onboarding")
"""Somebody broke the lake, and everything in it is older than its first audit: the owner of a demo allows both."""


@dataclass(frozen=True)
class Mended:
    """What became of the findings.

    Attributes:
        actions: how many steps of each were planned; `applied` were done, and what became of the `others`.
        resolved: of the discrepancies of applied steps, by the next audit.
        for_person: discrepancies that no program mends.
        odd: what should not be: discrepancies still open although their step was applied, and new ones.
        differs: whether the lake, once all was taken back, has other findings than before.
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
        """Whether mending mended, and taking back took back."""
        return not self.odd and not self.differs

    @property
    def steps(self) -> int:
        """How many were planned."""
        return sum(self.actions.values())

    @property
    def words(self) -> str:
        """The line that sums it up."""
        actions = ", ".join(f"{n} {action.replace('_', ' ')}" for action, n in sorted(self.actions.items()))
        told = [
            f"Mended by a plan of {number(self.steps, 'step')} ({actions or 'none'}): {self.applied} applied"
        ]
        told += [f"{self.resolved} findings resolved by the next audit"]
        told += [f"{n} {status.replace('_', ' ')}" for status, n in sorted(self.others.items())]
        told += [f"{self.for_person} left to a person"]
        back = "Taken back, the findings differ" if self.differs else "Taken back: all is as it was found"
        return ". ".join([", ".join(told), back, *self.odd])


def mend(lake: Lake, file: Path, clients: Clients, rng: random.Random, progress: Progress) -> Mended:
    """Plan, apply, audit, undo, audit; the lake is broken as before in the end."""
    results = Results(lake.results, clients, lake.name)
    before, plan = _found(results), str(file.parent / PLAN)
    made = reconcile.plan(
        lake,
        str(file),
        results,
        io.StringIO(),
        to=plan,
        wanted=ALL,
        allow=ALLOWED,
        now=_now(),
        progress=progress,
    )
    with opened(plan, clients) as of_file:
        again: Any = {"bounds": Bounds(), "clock": _now, "progress": progress}
        reconcile.apply(of_file, lake, str(file), results, **again)
        done = {row["discrepancy_id"]: row["status"] for row in _actions(results)}
        _audited(lake, clients, rng, progress)
        after = {row["discrepancy_id"]: row for row in _ledger(results)}
        reconcile.undo(of_file, lake, str(file), results, **again)
    _audited(lake, clients, rng, progress)
    applied = [of for of, status in done.items() if status == "applied"]
    open_still = [
        f"{after[of]['kind']} {after[of]['subject']}" for of in applied if after[of]["state"] == "open"
    ]
    mended = {(row["bucket"], row["key"]) for row in _actions(results) if row["discrepancy_id"] in applied}
    new = [
        f"new {row['kind']} {row['subject']}"
        for of, row in after.items()
        if row["state"] == "open" and of not in before and not _follows(row, mended)
    ]
    resolved = len(applied) - len(open_still)
    planned = {action: n for action, n in made.more["actions"].items() if action != NEEDS_PERSON}
    others = Counter(status for status in done.values() if status != "applied")
    return Mended(
        planned, others, len(applied), resolved, made.more["for_person"], (*open_still, *new),
        differs=_found(results).keys() != before.keys(),
    )  # fmt: skip


def _follows(row: Row, mended: Collection[tuple[str, str]]) -> bool:
    """What is back can be lost again, and a tombstone of it in the metadata store is wrong only now."""
    return row["axis"] == "hazard" or (row["axis"] == "metastore" and (row["bucket"], row["key"]) in mended)


def _now() -> datetime:
    return datetime.now(UTC)


def _audited(lake: Lake, clients: Clients, rng: random.Random, progress: Progress) -> None:
    """The audit of the next night."""
    with progress.stage("lay the next report"):
        lay_inventory(clients, rng, next_second())
    with closing(InProcessEngine()) as engine:
        audit(lake, Options(), engine=engine, clients=clients, clock=_now, progress=progress)


def _ledger(results: Results) -> Iterator[Row]:
    for batch in results.again().discrepancies():
        yield from batch.to_pylist()


def _found(results: Results) -> dict[str, Any]:
    return {row["discrepancy_id"]: row for row in _ledger(results) if row["state"] == "open"}


def _actions(results: Results) -> Iterator[Row]:
    import pyarrow.compute as pc

    for batch in results.again().batches("actions", pc.scalar(True)):
        yield from batch.to_pylist()
