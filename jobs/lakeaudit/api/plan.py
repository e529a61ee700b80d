"""A plan of repairs, as Python and notebooks use it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any

from lakeaudit.api.printed import Printed
from lakeaudit.commands.status import CommandResult
from lakeaudit.config import Lake
from lakeaudit.reconcile.plans.plan_file import open_plan
from lakeaudit.results.read import Results
from lakeaudit.runtime.connections.endpoints import clients_of
from lakeaudit.runtime.progress import Progress


@dataclass(frozen=True)
class RepairPlan(Printed):
    """A plan of repairs: nothing has been changed. `print(plan)` shows the text that `reconcile plan` prints.

    Attributes:
        place: path or URI of the plan's file, which `lakeaudit reconcile apply` accepts, too.
        verdict: one line with the number of steps and of discrepancies that need a person.
        digest: identifies the content of the plan; an approval refers to it.
        actions: numbers of steps by action.
    """

    place: str
    verdict: str
    digest: str
    actions: dict[str, int]
    text: str = field(repr=False)
    lake: Lake = field(repr=False)
    lake_file: str = field(repr=False)
    clock: Callable[[], datetime] = field(repr=False)
    progress: Progress = field(repr=False)

    def steps(self) -> list[dict[str, Any]]:
        """Return the steps, and the discrepancies that need a person, in the order of the plan.

        Raises:
            BadInput: the file of the plan was removed or changed.
        """
        with open_plan(self.place, clients_of(self.lake)) as file:
            return [vars(step) for step in file.rows()]

    def apply(
        self, *, limit: int | None = None, max_share: float | None = None, approved_by: str | None = None
    ) -> CommandResult:
        """Carry out the steps that are left; a step whose file has changed since the plan is not carried out.

        Args:
            limit: most steps to begin.
            max_share: largest share of a table's files to change; None: the lake file's ceiling.
            approved_by: name for the record.

        Raises:
            BadInput: the plan expired, is complete, or changes too many files.
            Busy: another command writes to the results.
        """
        from lakeaudit.commands.repair import reconcile as command

        approved = partial(command.apply, digest=self.digest, approved_by=approved_by, max_share=max_share)
        return self._on_file(approved, limit)

    def undo(self) -> CommandResult:
        """Reverse the applied steps, the last one first, unless somebody has changed their files since.

        Raises:
            BadInput: the plan was not applied.
            Busy: another command writes to the results.
        """
        from lakeaudit.commands.repair import reconcile as command

        return self._on_file(command.undo, None)

    def __str__(self) -> str:
        return f"{self.text}{self.verdict}"

    def _on_file(self, run: Callable[..., CommandResult], limit: int | None) -> CommandResult:
        """Run a command on the file of the plan, with the results as they are now."""
        from lakeaudit.reconcile.execution.run import Bounds

        lake, clients = self.lake, clients_of(self.lake)
        bounds = Bounds(limit, rate=lake.settings.confirm.rate)
        results = Results(lake.results, clients, lake.name)
        with open_plan(self.place, clients) as file:
            return run(
                file, lake, self.lake_file, results, bounds=bounds, clock=self.clock, progress=self.progress
            )
