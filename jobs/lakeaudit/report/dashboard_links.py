"""Links the report to the pages of the dashboard, whose address is in the lake file. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lakeaudit import formatting
from lakeaudit.dashboard import addresses

Row = Mapping[str, Any]


@dataclass(frozen=True)
class DashboardLinks:
    """The addresses of pages about one run of a lake; `base` is where people open the dashboard."""

    base: str
    lake: str
    run_id: str

    @property
    def of_lake(self) -> str:
        """Return the address of the lake."""
        return addresses.lake_address(self.base, lake=self.lake)

    @property
    def of_run(self) -> str:
        """Return the address of the run."""
        return addresses.run_address(self.base, self.run_id, lake=self.lake)

    def of_table(self, table: str | None) -> str:
        """Return the address of a table; None, or the label of no table, is that of findings about a source."""
        return addresses.table_address(self.base, table, lake=self.lake)

    def of_finding(self, finding: Row) -> str | None:
        """Return the address of the discrepancy of a finding, else of its file; None if it has neither."""
        if finding["discrepancy_id"]:
            return addresses.discrepancy_address(self.base, finding["discrepancy_id"], lake=self.lake)
        uri = formatting.uri(finding)
        return addresses.file_address(self.base, uri, lake=self.lake) if uri else None


def dashboard_links(base: str | None, run: Row) -> DashboardLinks | None:
    """Return the links of a run; None without a dashboard."""
    return None if base is None else DashboardLinks(base, run["lake"], run["run_id"])
