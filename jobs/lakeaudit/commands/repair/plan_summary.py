"""Print the summary of a plan: its steps, then the findings that need a person and the reasons."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import TextIO

from lakeaudit.formatting import count, first_names, size, visible
from lakeaudit.keys import uri_of
from lakeaudit.kinds import rank
from lakeaudit.reconcile.plans.totals import SHOWN, Reason, Totals, severity_of
from lakeaudit.reconcile.steps import Step
from lakeaudit.runtime.console import console_on

NAMED = 5
"""Kinds and tables that one line lists."""


def write(totals: Totals, out: TextIO) -> None:
    """Print the steps, then the findings that need a person with the reason; the worst first in both."""
    console = console_on(out, markup=False, soft_wrap=True)
    for step in totals.worst:
        console.print(f"{step.action}  {visible(uri_of(step.bucket or '', step.key or ''))}")
        proof = step.evidence["matched_by"]
        line = f"{severity_of(step)} {step.kind} of {step.table_name}, {size(step.bytes_at_stake)}; proof: {proof}"
        console.print(f"  {visible(line.strip())}")
        console.print(f"  cause: {visible(_cause(step))}; undo ({step.reversibility}): {step.undo}")
    if totals.steps > len(totals.worst):
        console.print(f"... and {count(totals.steps - len(totals.worst))} more steps, see the plan")
    for line in for_person(totals.why):
        console.print(visible(line))


def for_person(why: Mapping[Reason, int]) -> Iterator[str]:
    """Yield a line per severity and reason, the worst first: the findings, and why there is no automatic repair."""
    by_reason: dict[tuple[str, str], list[str]] = defaultdict(list)
    for reason, n in sorted(why.items(), key=lambda item: (rank(item[0].severity), -item[1])):
        of_table = f" of {reason.table}" if reason.table else ""
        by_reason[reason.severity, reason.why].append(f"{count(n)} {reason.kind}{of_table}")
    for (severity, why_not), findings in list(by_reason.items())[:SHOWN]:
        yield f"{severity} needs a person: {first_names(findings, NAMED)}: {why_not}".strip()
    if len(by_reason) > SHOWN:
        yield f"... and {count(len(by_reason) - SHOWN)} more reasons, see the plan"


def _cause(step: Step) -> str:
    cause, by = step.evidence.get("cause"), step.evidence.get("cause_principal")
    return "not known" if cause is None else f"{cause} by {by}" if by else str(cause)
