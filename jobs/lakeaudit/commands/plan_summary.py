"""What a plan holds, for people: what is to be done, then what needs a person and why."""

from typing import TextIO

from rich.console import Console

from lakeaudit.formatting import count, size, visible
from lakeaudit.keys import uri_of
from lakeaudit.reconcile.steps import Step
from lakeaudit.reconcile.totals import SHOWN, Totals


def write(totals: Totals, out: TextIO) -> None:
    """For people: what is to be done, then what needs a person and why."""
    console = Console(file=out, highlight=False, markup=False, soft_wrap=True)
    for step in totals.first:
        console.print(f"{step.action}  {visible(uri_of(step.bucket or '', step.key or ''))}")
        proof = step.evidence["matched_by"]
        told = f"{step.kind} of {step.table_name}, {size(step.bytes_at_stake)}; proved by {proof}"
        console.print(f"  {visible(told)}")
        console.print(f"  cause: {visible(_cause(step))}; {step.reversibility}: {step.undo}")
    if totals.steps > len(totals.first):
        console.print(f"... and {count(totals.steps - len(totals.first))} more, see the plan")
    for (kind, why), n in totals.why.most_common(SHOWN):
        console.print(f"needs a person: {count(n)} {kind}: {visible(why)}")


def _cause(step: Step) -> str:
    cause, by = step.evidence.get("cause"), step.evidence.get("cause_principal")
    return "not known" if cause is None else f"{cause} by {by}" if by else str(cause)
