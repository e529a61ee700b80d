"""Links a task of a lake to the dashboard, in the pages of Airflow.

Airflow shows the links of an operator if its class names them: the task computes them at its end and stores them as
XComs, so the web server needs neither this module nor lakeaudit.
"""

from typing import Any

from airflow.sdk import BaseOperatorLink

from lake_files import LakeFile
from lake_pages import PAGE, TABLE


class DashboardLink(BaseOperatorLink):
    """The link to the page of the run, the plan or the lake."""

    name = PAGE

    def get_link(self, operator: Any, *, ti_key: Any) -> str:  # noqa: ARG002 - Airflow's signature
        """Return the address; empty if the task does not know it."""
        return str(getattr(operator, "pages", {}).get(self.name, ""))


class TableLink(DashboardLink):
    """The link to the page of the table that an audit of one table has judged."""

    name = TABLE


def links(lake: LakeFile | None, *, of_audit: bool) -> tuple[BaseOperatorLink, ...]:
    """Return the links of a task; none without `dashboard_url`."""
    if lake is None or lake.dashboard is None:
        return ()
    return (DashboardLink(), TableLink()) if of_audit else (DashboardLink(),)
