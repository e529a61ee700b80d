"""What reconcile's plans hold, who made and approved them, what was done and taken back; and who was told what."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lakeaudit.formatting import number
from lakeaudit.results.read import Results, Row
from lakeaudit.results.sql import ask, text

PLANS = 50
"""Plans shown, the newest; the rest is a number."""
STEPS = 200
"""Steps of one plan that are named."""
NOTICES = 100
_WORST_FIRST = """CASE status WHEN 'failed' THEN 0 WHEN 'started' THEN 1 WHEN 'undone' THEN 3
    WHEN 'applied' THEN 4 ELSE 2 END"""


@dataclass(frozen=True)
class Plans:
    """The newest plans as rows of `plans`, their steps counted by status, and how many are older."""

    shown: Sequence[Row]
    steps: Mapping[str, Mapping[str, int]]
    rest: int


@dataclass(frozen=True)
class PlanSteps:
    """One plan: its row, numbers by (action, table, status), and its steps, those that did not go well first."""

    plan: Row
    summed: Sequence[Row]
    steps: Sequence[Row]


def newest_plans(results: Results) -> Plans:
    """The newest first."""
    plans = ask(results, "SELECT * FROM plans ORDER BY created_at DESC, plan_id DESC", "plans")
    sql = "SELECT plan_id, status, count(*) AS number FROM actions GROUP BY plan_id, status ORDER BY status"
    steps: dict[str, dict[str, int]] = {}
    for row in ask(results, sql, "actions"):
        steps.setdefault(row["plan_id"], {})[row["status"]] = row["number"]
    return Plans(plans[:PLANS], steps, max(len(plans) - PLANS, 0))


def plan_steps(results: Results, plan_id: str) -> PlanSteps | None:
    """One plan; None where there is none of that id."""
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


def unheard(results: Results) -> list[str]:
    """Receivers whose newest notices did not arrive, in sentences."""
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
    """The newest messages that went out, or were to."""
    return ask(results, f"SELECT * FROM notices ORDER BY made_at DESC, notice_id LIMIT {NOTICES}", "notices")
