"""An engine for which every lake is too large for memory."""

from collections.abc import Sequence

from lakeaudit.engine.chunks import WHOLE, Reading
from lakeaudit.engine.local import Answers, InProcessEngine
from lakeaudit.engine.spilled import SpillingEngine
from lakeaudit.evidence.protocol import BufferedRows, Part, Project, Stage


class SharingEngine(InProcessEngine):
    """An engine that routes keys to at least `shares` shares, whose rows wait in files."""

    def __init__(self, shares: int = 5) -> None:
        super().__init__(2)
        self.shares = shares
        self._spilling = SpillingEngine(shares)

    def keep(self, parts: Sequence[Part]) -> BufferedRows:  # type: ignore[override]
        """See `evidence.protocol.Engine`."""
        return self._spilling.keep(parts)

    def meet(self, rows: Sequence[Part | BufferedRows], project: Project, stage: Stage) -> BufferedRows:  # type: ignore[override]
        """See `evidence.protocol.Engine`."""
        return self._spilling.meet(rows, project, stage)

    def run(
        self, rows: Sequence[Part | BufferedRows], stages: Sequence[Stage], reading: Reading = WHOLE
    ) -> Answers:
        """See `engine.AuditEngine`."""
        return self._spilling.run(rows, stages, reading)

    def close(self) -> None:
        """See `engine.AuditEngine`."""
        self._spilling.close()
