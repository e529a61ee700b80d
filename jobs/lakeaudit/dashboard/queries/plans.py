"""Reads the plans of reconcile with the outcome of their steps, and the notices."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lakeaudit.formatting import number
from lakeaudit.results.read import Results, Row
from lakeaudit.results.sql import ask, text

PLANS = 50
"""Number of newest plans that are shown; the others are counted."""
STEPS = 200
"""Number of steps of one plan that are shown."""
NOTICES = 100
_WORST_FIRST = """CASE status WHEN 'failed' THEN 0 WHEN 'started' THEN 1 WHEN 'undone' THEN 3
    WHEN 'applied' THEN 4 ELSE 2 END"""
PLAN_STATES = {
    "planned": "planned",
    "applying": "being applied",
    "applied": "applied",
    "undoing": "being undone",
    "undone": "applied and undone again",
}
"""Words for the status of a plan."""


@dataclass(frozen=True)
class Plans:
    """The newest plans as rows of `plans`, their steps counted by status, and how many are older."""

    shown: Sequence[Row]
    steps: Mapping[str, Mapping[str, int]]
    rest: int


@dataclass(frozen=True)
class PlanSteps:
    """One plan: its row, numbers by (action, table, status), and its steps, failed ones first."""

    plan: Row
    summed: Sequence[Row]
    steps: Sequence[Row]


def newest_plans(results: Results) -> Plans:
    """Return the newest plans, newest first."""
    plans = ask(results, "SELECT * FROM plans ORDER BY created_at DESC, plan_id DESC", "plans")
    sql = "SELECT plan_id, status, count(*) AS number FROM actions GROUP BY plan_id, status ORDER BY status"
    steps: dict[str, dict[str, int]] = {}
    for row in ask(results, sql, "actions"):
        steps.setdefault(row["plan_id"], {})[row["status"]] = row["number"]
    return Plans(plans[:PLANS], steps, max(len(plans) - PLANS, 0))


def plan_steps(results: Results, plan_id: str) -> PlanSteps | None:
    """Return one plan; None if there is no plan with this id."""
    of = f"WHERE plan_id = {text(plan_id)}"
    plans = ask(results, f"SELECT * FROM plans {of}", "plans")
    if not plans:
        return None
    sql = f"""SELECT action, table_name, status, reversibility, count(*) AS number, max(done_at) AS last
        FROM actions {of} GROUP BY action, table_name, status, reversibility
        ORDER BY {_WORST_FIRST}, number DESC, action, table_name"""
    summed = ask(results, sql, "actions")
    sql = f"""SELECT * FROM actions {of} ORDER BY {_WORST_FIRST}, batch, action_id LIMIT {STEPS}"""
    return PlanSteps(plans[0], summed, ask(results, sql, "actions"))


def undelivered(results: Results) -> list[str]:
    """Return a sentence for each receiver whose newest notices did not arrive."""
    sql = """SELECT receiver, status, count(*) AS number, max(made_at) AS last, max(error) AS error
        FROM notices WHERE status IN ('failed', 'sent') GROUP BY receiver, status ORDER BY receiver"""
    rows = ask(results, sql, "notices")
    sent = {row["receiver"]: row["last"] for row in rows if row["status"] == "sent"}
    return [
        f"{number(row['number'], 'notice')} did not arrive: {row['receiver']}: {row['error']}"
        for row in rows
        if row["status"] == "failed" and not sent.get(row["receiver"], row["last"]) > row["last"]
    ]


def newest_notices(results: Results) -> Sequence[Row]:
    """Return the newest notices, sent or not, without rows that have no receiver."""
    sql = f"""SELECT * FROM notices WHERE coalesce(receiver, 'unknown') <> ''
        ORDER BY made_at DESC, notice_id LIMIT {NOTICES}"""
    return ask(results, sql, "notices")
