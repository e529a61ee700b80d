"""What a plan holds, counted while its steps pass: by tasks for their shares, and added up in the plan's order."""

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from lakeaudit.kinds import rank
from lakeaudit.reconcile.actions.hide_leftover import HideLeftover
from lakeaudit.reconcile.actions.quarantine import Quarantine
from lakeaudit.reconcile.steps import NEEDS_PERSON, Step

SHOWN = 20
"""Steps that a summary names, and as many reasons why others need a person."""
_REASONS = 1000
"""Reasons that are told apart: some name a file."""
_OTHER = "for reasons of their own, see the plan"


class Reason(NamedTuple):
    """Why findings of one kind need a person."""

    severity: str
    kind: str
    table: str | None
    why: str


@dataclass
class Totals:
    """What steps add up to, and the worst of them, each severity in the plan's order."""

    counts: Counter[str] = field(default_factory=Counter)
    by_table: Counter[str] = field(default_factory=Counter)
    """Steps to do."""
    bytes: int = 0
    rows: int = 0
    why: Counter[Reason] = field(default_factory=Counter)
    worst: list[Step] = field(default_factory=list)
    hidden_in: set[str] = field(default_factory=set)
    """Buckets in which leftovers are hidden by delete markers."""

    @property
    def for_person(self) -> int:
        """How many need a person."""
        return self.counts[NEEDS_PERSON]

    @property
    def steps(self) -> int:
        """How many there are to do."""
        return self.counts.total() - self.for_person

    @property
    def copied(self) -> bool:
        """Whether anything is copied into the quarantine."""
        return self.counts[Quarantine.name] > 0

    def add(self, step: Step) -> None:
        """Count a step."""
        self.counts[step.action] += 1
        if step.needs_person:
            self._count_reason(Reason(severity_of(step), step.kind, step.table_name, step.evidence["why"]), 1)
            return
        self.hidden_in |= {step.bucket or ""} if step.action == HideLeftover.name else set()
        self.by_table[step.table_name or ""] += 1
        self.bytes += step.bytes_at_stake or 0
        self.rows += step.rows_at_stake or 0
        self._keep_worst([step])

    def include(self, later: "Totals") -> None:
        """Count the steps that come after these."""
        self.counts += later.counts
        self.by_table += later.by_table
        self.bytes, self.rows = self.bytes + later.bytes, self.rows + later.rows
        for reason, n in later.why.items():
            self._count_reason(reason, n)
        self._keep_worst(later.worst)
        self.hidden_in |= later.hidden_in

    def _keep_worst(self, steps: list[Step]) -> None:
        if len(self.worst) == SHOWN:
            last = _rank(self.worst[-1])
            steps = [step for step in steps if _rank(step) < last]
        if steps:
            self.worst = sorted([*self.worst, *steps], key=_rank)[:SHOWN]

    def _count_reason(self, reason: Reason, n: int) -> None:
        for most in (_REASONS, 2 * _REASONS):
            if reason in self.why or len(self.why) < most:
                self.why[reason] += n
                return
            reason = reason._replace(table=None)
        self.why[reason._replace(why=_OTHER)] += n


def _rank(step: Step) -> int:
    return rank(severity_of(step))


def severity_of(step: Step) -> str:
    """That of its finding; empty where no evidence says it."""
    return step.evidence.get("severity") or ""
