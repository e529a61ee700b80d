"""The output of `reconcile plan`: the worst first, and the reason for each finding that needs a person."""

import io
from collections import Counter
from typing import Any

import pytest

from lakeaudit.commands.repair import plan_summary
from lakeaudit.reconcile.plans import totals
from lakeaudit.reconcile.plans.totals import Reason, Totals
from lakeaudit.reconcile.steps import NEEDS_PERSON, Step

NOTHING = "there is no automatic repair for this kind"
WHY: list[tuple[dict[Reason, int], list[str]]] = [
    ({}, []),
    (
        {Reason("warning", "phantom", "t", "no"): 9, Reason("critical", "dropped", "t", "no"): 1},
        ["critical needs a person: 1 dropped of t: no", "warning needs a person: 9 phantom of t: no"],
    ),
    (
        {Reason("error", "archived", "t", NOTHING): 2, Reason("error", "will_expire", None, NOTHING): 1},
        [f"error needs a person: 2 archived of t, 1 will_expire: {NOTHING}"],
    ),
    (
        {Reason("error", "archived", f"t{n}", NOTHING): 1 for n in range(7)},
        [f"error needs a person: {', '.join(f'1 archived of t{n}' for n in range(5))} and 2 more: {NOTHING}"],
    ),
]


@pytest.mark.parametrize(("why", "lines"), WHY)
def test_a_reason_is_printed_once(why: dict[Reason, int], lines: list[str]) -> None:
    assert list(plan_summary.for_person(why)) == lines


def step(
    severity: str, action: str = "restore_version", why: str = "", table: str = "t", **given: Any
) -> Step:
    evidence = {"severity": severity, "matched_by": "size and ETag", "why": why}
    return Step(
        plan_id="p", action_id="a", discrepancy_id="d", table_name=table, kind="dropped", action=action, bucket="b",
        key=f"{severity}-file", precondition={}, evidence=evidence, undo="", reversibility="reversible", risk="",
        rows_at_stake=1, bytes_at_stake=1, **given,
    )  # fmt: skip


def test_the_worst_steps_are_shown_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(totals, "SHOWN", 2)
    held, later = Totals(), Totals()
    for severity in ("warning", "info"):
        held.add(step(severity))
    later.add(step("critical"))
    held.include(later)
    out = io.StringIO()
    plan_summary.write(held, out)
    heads = [line for line in out.getvalue().splitlines() if not line.startswith(" ")]
    assert heads == [
        "restore_version  s3://b/critical-file", "restore_version  s3://b/warning-file",
        "... and 1 more steps, see the plan",
    ]  # fmt: skip


def test_reasons_are_bounded_by_their_tables_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(totals, "_REASONS", 2)
    held = Totals()
    for n in range(5):
        held.add(step("error", NEEDS_PERSON, why="no version", table=f"t{n}"))
    kept = {reason.table: many for reason, many in held.why.items()}
    assert (kept, Counter(r.why for r in held.why)) == ({"t0": 1, "t1": 1, None: 3}, {"no version": 3})
