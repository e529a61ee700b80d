"""What a plan holds, for people: what is to be done, then what needs a person and why."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import TextIO

from rich.console import Console

from lakeaudit.formatting import count, size, visible
from lakeaudit.keys import uri_of
from lakeaudit.kinds import rank
from lakeaudit.reconcile.steps import Step
from lakeaudit.reconcile.totals import SHOWN, Reason, Totals, severity_of

NAMED = 5
"""Kinds and tables that a line names."""


def write(totals: Totals, out: TextIO) -> None:
    """For people: what is to be done, then what needs a person and why; the worst first in both."""
    console = Console(file=out, highlight=False, markup=False, soft_wrap=True)
    for step in totals.worst:
        console.print(f"{step.action}  {visible(uri_of(step.bucket or '', step.key or ''))}")
        proof = step.evidence["matched_by"]
        told = f"{severity_of(step)} {step.kind} of {step.table_name}, {size(step.bytes_at_stake)}; proved by {proof}"
        console.print(f"  {visible(told.strip())}")
        console.print(f"  cause: {visible(_cause(step))}; {step.reversibility}: {step.undo}")
    if totals.steps > len(totals.worst):
        console.print(f"... and {count(totals.steps - len(totals.worst))} more, see the plan")
    for line in for_person(totals.why):
        console.print(visible(line))


def for_person(why: Mapping[Reason, int]) -> Iterator[str]:
    """A line a severity and reason, the worst first: which findings, and why the program leaves them."""
    by_reason: dict[tuple[str, str], list[str]] = defaultdict(list)
    for reason, n in sorted(why.items(), key=lambda item: (rank(item[0].severity), -item[1])):
        of_table = f" of {reason.table}" if reason.table else ""
        by_reason[reason.severity, reason.why].append(f"{count(n)} {reason.kind}{of_table}")
    for (severity, told), found in list(by_reason.items())[:SHOWN]:
        more = f" and {count(len(found) - NAMED)} more" if len(found) > NAMED else ""
        yield f"{severity} needs a person: {', '.join(found[:NAMED])}{more}: {told}".strip()
    if len(by_reason) > SHOWN:
        yield f"... and for {count(len(by_reason) - SHOWN)} more reasons, see the plan"


def _cause(step: Step) -> str:
    cause, by = step.evidence.get("cause"), step.evidence.get("cause_principal")
    return "not known" if cause is None else f"{cause} by {by}" if by else str(cause)
