"""Plans for single rows of a ledger that no audit wrote, for tests of planning, applying and undoing."""

from collections.abc import Sequence
from typing import Any

from lakeaudit import __version__
from lakeaudit.reconcile.execution import journal
from lakeaudit.reconcile.execution.journal import Journal
from lakeaudit.reconcile.key_state import KeyReader
from lakeaudit.reconcile.plans.plan_file import Lines, header_of, write_plan
from lakeaudit.reconcile.plans.planning import Planner
from lakeaudit.reconcile.protocol import StateReader
from lakeaudit.reconcile.steps import Step
from lakeaudit.runtime.connections.endpoints import clients_of
from lakeaudit.runtime.threads import Pacer
from lakeaudit.schemas import DISCREPANCIES
from tests.builders.audits import results_of
from tests.builders.repair_plans import RepairPlans

Row = dict[str, Any]


def ledger_row(kind: str, bucket: str, key: str, **given: Any) -> Row:
    """An open discrepancy of the table `orders`."""
    usual = {
        "discrepancy_id": f"{kind}-{key}", "state": "open", "kind": kind, "table_name": "orders", "bucket": bucket,
        "key": key,
    }  # fmt: skip
    return dict.fromkeys(DISCREPANCIES.names) | usual | given


def planned(mending: RepairPlans, rows: Sequence[Row], allow: Sequence[str] = ("restore",)) -> list[Step]:
    """Write a plan for these rows into the plans' file; return its steps."""
    clients, now = clients_of(mending.lake), mending.clock()
    plan_id = f"plan-{now:%H%M%S%f}"
    reader = StateReader(mending.lake, clients, KeyReader(clients, Pacer(10_000)), plan_id)
    planner = Planner(mending.lake, plan_id, allow, now, reader)
    steps = [step for row in rows for step in planner.steps_for(row)]
    header = header_of(
        mending.lake, str(mending.folder / "lake.yaml"), plan_id, allow, "ann", now, __version__
    )
    sealed, _ = write_plan(mending.file, header, [Lines.of(steps)])
    Journal(results_of(mending.lake), plan_id).put_plan(sealed, journal.PLANNED)
    return steps
