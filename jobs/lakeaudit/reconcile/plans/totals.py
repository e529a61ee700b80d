"""Count the steps of a plan while they are written; totals of several tasks are added in the plan's order."""

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from lakeaudit.kinds import rank
from lakeaudit.reconcile.actions.files.hide_leftover import HideLeftover
from lakeaudit.reconcile.actions.files.quarantine import Quarantine
from lakeaudit.reconcile.steps import NEEDS_PERSON, Step

SHOWN = 20
"""Steps that a summary prints, and as many reasons why others need a person."""
_REASONS = 1000
"""Most distinct reasons that are counted separately: some name a file."""
_OTHER = "various reasons, see the plan"


class Reason(NamedTuple):
    """The reason why findings of one kind need a person."""

    severity: str
    kind: str
    table: str | None
    why: str


@dataclass
class Totals:
    """The totals of some steps, and the worst of them, each severity in the plan's order."""

    counts: Counter[str] = field(default_factory=Counter)
    by_table: Counter[str] = field(default_factory=Counter)
    """Number of steps by table."""
    bytes: int = 0
    rows: int = 0
    why: Counter[Reason] = field(default_factory=Counter)
    worst: list[Step] = field(default_factory=list)
    hidden_in: set[str] = field(default_factory=set)
    """Buckets in which unused files are hidden by delete markers."""

    @property
    def for_person(self) -> int:
        """Return how many findings need a person."""
        return self.counts[NEEDS_PERSON]

    @property
    def steps(self) -> int:
        """Return the number of steps of the program."""
        return self.counts.total() - self.for_person

    @property
    def copied(self) -> bool:
        """Return whether a step copies into the quarantine."""
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
        """Add the totals of later steps."""
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
    """Return the severity of the step's finding; empty: unknown."""
    return step.evidence.get("severity") or ""
