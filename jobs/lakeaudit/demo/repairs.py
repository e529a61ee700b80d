"""Runs the demo's second half: plan repairs, apply them and audit; then undo them and audit again."""

import io
import random
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lakeaudit.advice.next_steps import LOSS_KINDS
from lakeaudit.audit.plan import Options
from lakeaudit.audit.run import audit
from lakeaudit.commands.repair import reconcile
from lakeaudit.config import Lake
from lakeaudit.demo.inventory import next_second, write_inventory
from lakeaudit.engine.local import InProcessEngine
from lakeaudit.formatting import count, number
from lakeaudit.reconcile.actions.files.remove_delete_marker import RemoveDeleteMarker
from lakeaudit.reconcile.execution.journal import PUT_BACK
from lakeaudit.reconcile.execution.run import Bounds
from lakeaudit.reconcile.plans.plan_file import open_plan
from lakeaudit.reconcile.registry import REMOVING
from lakeaudit.reconcile.steps import NEEDS_PERSON, Step
from lakeaudit.results.read import ALL, Results, Row
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.progress import Progress

PLAN = "plan.jsonl"
ALLOWED = ("restore", "older_than_onboarding")
"""Allowed actions: the damage was intended, and all files are older than the first audit, which is fine for a demo."""


@dataclass(frozen=True)
class RepairOutcome:
    """The outcome of the repairs.

    Attributes:
        actions: number of planned steps by action.
        results: by status the number of steps by reason.
        restorable: number of findings whose file can be restored; `unplanned` has, by reason, the tables of those
            without a planned step.
        hiding: whether all steps without a decision hide a file or remove an entry.
        tables: names of the lake's tables.
        before: number of open findings before the repairs.
        planned: number of findings with a step.
        for_person: number of the other findings that need a person; `for_both` need a person and have a step,
            and the steps of other findings repaired `person_repaired` of those without one.
        applied: number of findings with an applied step.
        resolved: number of findings that the next audit resolved.
        follows: new findings that a repair is expected to cause.
        odd: errors: findings that are open although their step was applied, and other new findings.
        differs: whether the findings after the undo differ from those before the repairs.
        new_markers: whether the undo gave delete markers new version ids.
    """

    actions: Mapping[str, int]
    results: Mapping[str, Mapping[str, int]]
    before: int
    planned: int
    for_person: int
    applied: int
    resolved: int
    follows: tuple[str, ...]
    odd: tuple[str, ...]
    differs: bool
    new_markers: bool
    for_both: int = 0
    person_repaired: int = 0
    restorable: int = 0
    unplanned: Mapping[str, Sequence[str]] = field(default_factory=dict)
    hiding: bool = False
    tables: Collection[str] = ()

    @property
    def well(self) -> bool:
        """Return whether all repairs and the undo worked."""
        return not self.odd and not self.differs

    @property
    def steps(self) -> int:
        """Return the number of planned steps."""
        return sum(self.actions.values())

    @property
    def lines(self) -> Iterator[str]:
        """Yield the outcome as sentences, one line each."""
        actions = ", ".join(f"{action} {n}" for action, n in sorted(self.actions.items()))
        yield (
            f"The plan has {number(self.steps, 'step')} for {count(self.planned)} of {number(self.before, 'finding')}"
            + (f": {actions} (docs/reconcile-actions.md explains each)." if actions else ".")
        )
        yield f"{self._without_plan}{self._both}."
        yield from self._unplanned_lines
        for status, reasons in sorted(self.results.items()):
            hidden = _not_hidden(reasons, self.tables) if status == "unknown" and self.hiding else ()
            yield from hidden or [_result(status, reasons)]
        noun = "discrepancy" if self.resolved == 1 else "discrepancies"
        yield f"The next audit resolved {count(self.resolved)} {noun}."
        yield from (f"This new finding follows from a repair: {each}." for each in self.follows)
        yield from (f"Error: {each}." for each in self.odd)
        yield (
            "Error: after the undo, the findings differ from the findings before the repair."
            if self.differs
            else f"After the undo, an audit reported the same {number(self.before, 'finding')} as before the repair."
        )

    @property
    def _both(self) -> str:
        """Return how many findings have a step for one of their files, and need a person for another."""
        if not self.for_both:
            return ""
        have = "has" if self.for_both == 1 else "have"
        return f", and about a part of {number(self.for_both, 'finding')} that {have} a step"

    @property
    def _without_plan(self) -> str:
        """Return how many findings have no step, and who repairs them."""
        rest = number(self.for_person, "other finding")
        if not self.person_repaired:
            return f"A person has to decide about {rest}"
        return (
            f"The {rest} had no step of their own: the steps of other findings repaired {count(self.person_repaired)}, "
            f"and a person has to decide about {count(self.for_person - self.person_repaired)}"
        )

    @property
    def _unplanned_lines(self) -> Iterator[str]:
        """Yield why the plan does not restore every file that can be restored, a line for each table."""
        if not self.unplanned:
            return
        left = sum(map(len, self.unplanned.values()))
        whole = number(self.restorable, "lost or changed file")
        yield (
            f"The plan restores {count(self.restorable - left)} of the {whole} that can be restored. "
            f"A person has to decide about the other {number(left, 'file')}:"
        )
        for reason, tables in sorted(self.unplanned.items()):
            yield from (f"- {table}: {reason}" for table in tables)

    @property
    def summary(self) -> str:
        """Return the outcome as one text."""
        return " ".join(self.lines)


def _result(status: str, reasons: Mapping[str, int]) -> str:
    """Return the number of steps with a status, its meaning, and the first reasons."""
    known = list(dict.fromkeys(each for reason in reasons if reason for each in reason.split("; ")))
    more = f"; and {number(len(known) - REASONS, 'more reason')}" if len(known) > REASONS else ""
    why = f": {'; '.join(known[:REASONS])}{more}" if known else ""
    n = sum(reasons.values())
    return f"{number(n, 'step')} {'was' if n == 1 else 'were'} {_MEANINGS.get(status, status)}{why}."


def _not_hidden(reasons: Mapping[str, int], tables: Collection[str]) -> Sequence[str]:
    """Return why files were not hidden, if every reason is a table that was not read completely; else nothing."""
    named = dict(part for reason in reasons for part in _by_table(reason, tables))
    if "" in named:
        return ()
    n = sum(reasons.values())
    steps, what = (
        ("step was", "It would hide a file or remove an entry")
        if n == 1
        else ("steps were", "They would hide files or remove entries")
    )
    listing = "a table" if len(named) == 1 else f"{count(len(named))} tables"
    files = "the file" if n == 1 else "such a file"
    unread = f"{listing} that may list {files} could not be read completely before the repairs"
    return (
        f"{count(n)} {steps} not applied (status `unknown`). {what}, but {unread}:",
        *(f"- {table}: {why}" for table, why in sorted(named.items())),
    )


def _by_table(reason: str, tables: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield each table that a reason names, with its own reason, which may contain "; "; the name may be empty."""
    table, why = "", ""
    for part in reason.split("; "):
        name, colon, rest = part.partition(": ")
        if colon and name in tables:
            if why:
                yield table, why
            table, why = name, rest
        else:
            why = f"{why}; {part}" if why else part
    yield table, why


REASONS = 3
"""Reasons that the line of a status names."""
_MEANINGS = {
    "applied": "applied",
    "moved_on": "no longer needed (status `moved_on`)",
    "unknown": "not applied, because a check could not be completed (status `unknown`)",
    "changed": "not applied, because the file or entry changed since the plan was made (status `changed`)",
    "needs_person": "left to a person, because the store supports no safe request (status `needs_person`)",
    "failed": "refused by the store (status `failed`)",
    "waiting": "not started (status `waiting`)",
    "started": "started, but its result is not known (status `started`)",
}
"""The meaning of the status of a step after `reconcile apply`."""


def repair(lake: Lake, file: Path, clients: Clients, rng: random.Random, progress: Progress) -> RepairOutcome:
    """Plan, apply, audit, undo, audit; at the end the lake is broken as before."""
    results = Results(lake.results, clients, lake.name)
    tables = tuple(table.name for table in lake.tables)
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
        steps = list(_steps(results))
        planned = list(of_file.rows())
        _audit(lake, clients, rng, progress)
        after = {row["discrepancy_id"]: row for row in _ledger(results)}
        reconcile.undo(of_file, lake, str(file), results, **again)
    _audit(lake, clients, rng, progress)
    differs = _open_rows(results).keys() != before.keys()
    return _outcome(before, steps, after, made.more, planned, tables, differs=differs)


def _outcome(
    before: Mapping[str, Row],
    steps: Sequence[Row],
    after: Mapping[str, Row],
    plan: Mapping[str, Any],
    planned: Sequence[Step],
    tables: Collection[str],
    *,
    differs: bool,
) -> RepairOutcome:
    """Count the findings before and after the repairs, and the steps; a finding may have several steps."""
    reasons: dict[str, Counter[str]] = {}
    for step in steps:
        reasons.setdefault(step["status"], Counter())[step["error"] or ""] += 1
    done = [step for step in steps if step["status"] == "applied"]
    applied = {step["discrepancy_id"] for step in done}
    restorable = {
        of for of, row in before.items() if row["kind"] in LOSS_KINDS and row["recoverable"] == "yes"
    }
    unplanned: dict[str, list[str]] = {}
    for each in planned:
        if each.needs_person and each.discrepancy_id in restorable:
            unplanned.setdefault(each.evidence["why"].partition("; ")[0], []).append(each.table_name or "")
    stepped = {step["discrepancy_id"] for step in steps}
    people = {each.discrepancy_id for each in planned if each.needs_person}
    undecided = {step["action"] for step in steps if step["status"] == "unknown"}
    resolved = {of for of, row in after.items() if of in before and row["state"] == "resolved"}
    repaired = {(step["bucket"], step["key"]) for step in done}
    new = [row for of, row in after.items() if row["state"] == "open" and of not in before]
    odd = [f"the finding {_label(after[of])} is still open although its step was applied"
           for of in sorted(applied) if after[of]["state"] == "open"]  # fmt: skip
    odd += [f"the finding {_label(row)} is new" for row in new if not _follows(row, repaired)]
    return RepairOutcome(
        actions={action: n for action, n in plan["actions"].items() if action != NEEDS_PERSON},
        results=reasons,
        before=len(before),
        planned=len(stepped),
        for_person=len(people - stepped),
        for_both=len(people & stepped),
        person_repaired=len((resolved & people) - stepped),
        applied=len(applied),
        resolved=len(resolved),
        follows=tuple(_label(row) for row in new if _follows(row, repaired)),
        odd=tuple(odd),
        differs=differs,
        restorable=len(restorable),
        unplanned=unplanned,
        hiding=undecided <= {*REMOVING, *_REMOVE_ENTRY},
        tables=tables,
        new_markers=any(step["action"] == RemoveDeleteMarker.name for step in done),
    )


_REMOVE_ENTRY = ("remove_entry", "remove_name")
"""Actions that remove an entry of a metadata store."""


def _label(row: Row) -> str:
    return f"{row['kind']} {row['subject']}"


def _follows(row: Row, repaired: Collection[tuple[str, str]]) -> bool:
    """Return whether a repair causes this finding: a restored file can be lost again, or contradicts a tombstone."""
    return row["axis"] == "hazard" or (row["axis"] == "metastore" and (row["bucket"], row["key"]) in repaired)


def _now() -> datetime:
    return datetime.now(UTC)


def _audit(lake: Lake, clients: Clients, rng: random.Random, progress: Progress) -> None:
    """Run the audit of the next night."""
    with progress.stage("write the next S3 Inventory report"):
        write_inventory(clients, rng, next_second())
    with closing(InProcessEngine()) as engine:
        audit(lake, Options(), engine=engine, clients=clients, clock=_now, progress=progress)


def _ledger(results: Results) -> Iterator[Row]:
    for batch in results.again().discrepancies():
        yield from batch.to_pylist()


def _open_rows(results: Results) -> dict[str, Any]:
    return {row["discrepancy_id"]: row for row in _ledger(results) if row["state"] == "open"}


def _steps(results: Results) -> Iterator[Row]:
    """Yield the recorded steps; a record that apply itself reversed a step is not a step."""
    import pyarrow.compute as pc

    for batch in results.again().batches("actions", pc.field("action") != PUT_BACK):
        yield from batch.to_pylist()
