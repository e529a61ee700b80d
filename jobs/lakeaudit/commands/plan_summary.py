"""What a plan holds, for people: what is to be done, then what needs a person and why."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TextIO

from rich.console import Console

from lakeaudit.formatting import count, size, visible
from lakeaudit.keys import uri_of
from lakeaudit.reconcile.actions.hide_leftover import HideLeftover
from lakeaudit.reconcile.actions.quarantine import Quarantine
from lakeaudit.reconcile.steps import NEEDS_PERSON, Step

SHOWN = 20
"""Steps that a summary names, and as many that need a person."""


@dataclass
class Summary:
    """What a plan holds, while its steps pass: counts, and the first of them."""

    counts: Counter[str] = field(default_factory=Counter)
    bytes: int = 0
    rows: int = 0
    why: Counter[tuple[str, str]] = field(default_factory=Counter)
    first: list[Step] = field(default_factory=list)
    hidden_in: set[str] = field(default_factory=set)
    """Buckets in which leftovers are hidden by delete markers."""

    def watch(self, steps: Iterable[Step]) -> Iterator[Step]:
        """The same steps."""
        for step in steps:
            self.counts[step.action] += 1
            if step.needs_person:
                self.why[step.kind, step.evidence["why"]] += 1
            else:
                self.hidden_in |= {step.bucket or ""} if step.action == HideLeftover.name else set()
                self.bytes += step.bytes_at_stake or 0
                self.rows += step.rows_at_stake or 0
                self.first += [step] if len(self.first) < SHOWN else []
            yield step

    @property
    def copied(self) -> bool:
        """Whether anything is copied into the quarantine."""
        return self.counts[Quarantine.name] > 0

    def write(self, out: TextIO) -> None:
        """For people: what is to be done, then what needs a person and why."""
        console = Console(file=out, highlight=False, markup=False, soft_wrap=True)
        for step in self.first:
            console.print(f"{step.action}  {visible(uri_of(step.bucket or '', step.key or ''))}")
            proof = step.evidence["matched_by"]
            told = f"{step.kind} of {step.table_name}, {size(step.bytes_at_stake)}; proved by {proof}"
            console.print(f"  {visible(told)}")
            console.print(f"  cause: {visible(_cause(step))}; {step.reversibility}: {step.undo}")
        planned = sum(n for action, n in self.counts.items() if action != NEEDS_PERSON)
        if planned > len(self.first):
            console.print(f"... and {count(planned - len(self.first))} more, see the plan")
        for (kind, why), n in self.why.most_common(SHOWN):
            console.print(f"needs a person: {count(n)} {kind}: {visible(why)}")


def _cause(step: Step) -> str:
    cause, by = step.evidence.get("cause"), step.evidence.get("cause_principal")
    return "not known" if cause is None else f"{cause} by {by}" if by else str(cause)
