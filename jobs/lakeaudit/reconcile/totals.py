"""What a plan holds, counted while its steps pass: by tasks for their shares, and added up in the plan's order."""

from collections import Counter
from dataclasses import dataclass, field

from lakeaudit.reconcile.actions.hide_leftover import HideLeftover
from lakeaudit.reconcile.actions.quarantine import Quarantine
from lakeaudit.reconcile.steps import NEEDS_PERSON, Step

SHOWN = 20
"""Steps that a summary names, and as many reasons why others need a person."""
_REASONS = 1000
"""Reasons that are told apart: some name a file."""
_OTHER = "for reasons of their own, see the plan"


@dataclass
class Totals:
    """What steps add up to, and the first of them."""

    counts: Counter[str] = field(default_factory=Counter)
    by_table: Counter[str] = field(default_factory=Counter)
    """Steps to do."""
    bytes: int = 0
    rows: int = 0
    why: Counter[tuple[str, str]] = field(default_factory=Counter)
    first: list[Step] = field(default_factory=list)
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
            self._count_reason((step.kind, step.evidence["why"]), 1)
            return
        self.hidden_in |= {step.bucket or ""} if step.action == HideLeftover.name else set()
        self.by_table[step.table_name or ""] += 1
        self.bytes += step.bytes_at_stake or 0
        self.rows += step.rows_at_stake or 0
        self.first += [step] if len(self.first) < SHOWN else []

    def include(self, later: "Totals") -> None:
        """Count the steps that come after these."""
        self.counts += later.counts
        self.by_table += later.by_table
        self.bytes, self.rows = self.bytes + later.bytes, self.rows + later.rows
        for reason, n in later.why.items():
            self._count_reason(reason, n)
        self.first += later.first[: SHOWN - len(self.first)]
        self.hidden_in |= later.hidden_in

    def _count_reason(self, reason: tuple[str, str], n: int) -> None:
        known = reason in self.why or len(self.why) < _REASONS
        self.why[reason if known else (reason[0], _OTHER)] += n
