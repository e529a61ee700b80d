"""One audit, as Python and notebooks use it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from lakeaudit.api.frame import Frame, frame_of_rows
from lakeaudit.api.printed import Printed, text_of
from lakeaudit.results.read import Results, RowFilter
from lakeaudit.schemas import COVERAGE, FINDINGS

if TYPE_CHECKING:
    from lakeaudit.report.page_data import PageData

FINDING_COLUMNS = ("severity", "kind", "table_name", "partition_path", "key", "rows_at_stake", "recoverable")
COVERAGE_COLUMNS = ("table_name", "axis", "status", "files", "decided_share", "reason")
WORST_SHOWN = 50
Names = str | Sequence[str]
"""One name, or several."""


@dataclass(frozen=True)
class AuditRun(Printed):
    """One finished audit. `print(run)` shows the text that `lakeaudit audit` prints.

    Attributes:
        run_id: id of the run in all result tables.
        row: its row of the table `runs`.
        exit_code: exit code of the command; None for a run that was read from the results.
        warnings: lines about sources and checks, and for a scan about everything that was not judged.
    """

    run_id: str
    row: dict[str, Any]
    results: Results = field(repr=False)
    lake_file: str = field(repr=False)
    tables: Sequence[str] = field(repr=False)
    at: datetime = field(repr=False)
    exit_code: int | None = None
    warnings: tuple[str, ...] = ()
    owner: object = field(default=None, repr=False, compare=False)

    @property
    def status(self) -> str:
        """Return `complete`, `partial`, `suspect` or `failed`."""
        return str(self.row["status"])

    @property
    def verdict(self) -> str:
        """Return the last line that the command prints, such as `CRITICAL: 12 files dropped in 1 table`."""
        from lakeaudit.explain.text_output import verdict_line

        return verdict_line(self._page)

    def findings(
        self, *, kinds: Names = (), tables: Names = (), severity: Names = (), partitions: Names = ()
    ) -> Frame:
        """Return the findings of the run, worst first; the arguments are those of `LakeHandle.findings`."""
        chosen = filter_of(kinds, tables, severity, partitions)
        return findings_of(self.results, self.run_id, chosen, self.owner)

    def coverage(self) -> Frame:
        """Return for each table and question how many files were judged, and why the others were not."""
        rows = partial(self.results.coverage, self.run_id)
        return frame_of_rows(COVERAGE, rows, COVERAGE_COLUMNS, self.owner)

    def __str__(self) -> str:
        from lakeaudit.explain import text_output

        text = text_of(lambda console: text_output.audit(console, self._page))
        return f"{text}\n{self.verdict}"

    @cached_property
    def _page(self) -> "PageData":
        from lakeaudit.report.gather import gather

        names = [*self.tables]
        return gather(self.results, self.row, self.lake_file, self.at, WORST_SHOWN, names, drawn=False)


def findings_of(results: Results, run_id: str, row_filter: RowFilter, owner: object) -> Frame:
    """Return the findings of a run as a frame, worst first."""
    return Frame(FINDINGS, partial(results.findings, run_id, row_filter), FINDING_COLUMNS, owner)


def names_of(given: Names) -> tuple[str, ...]:
    """Return one or several names as a tuple."""
    return (given,) if isinstance(given, str) else tuple(given)


def filter_of(kinds: Names, tables: Names, severity: Names = (), partitions: Names = ()) -> RowFilter:
    """Return the row filter of the arguments. Raises BadInput: there is no such kind or severity."""
    from lakeaudit.commands.findings import row_filter_of

    return row_filter_of(names_of(kinds), names_of(tables), names_of(severity), names_of(partitions))
