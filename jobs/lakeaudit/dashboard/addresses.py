"""Builds the addresses of the dashboard's pages, for links in messages; docs/dashboard.md lists them.

The addresses are a contract: messages and bookmarks of earlier versions contain them. This module imports neither
Streamlit nor a page, so that every room may use it. The parameter `lake` names one of several lakes of a dashboard.
"""

from urllib.parse import quote, urlencode, urlsplit

from lakeaudit.formatting import table_label


def lake_address(base_url: str, owner: str | None = None, *, lake: str | None = None) -> str:
    """Return the address of the lake, or of the tables of one owner.

    Args:
        base_url: where people open the dashboard, with or without a path and a trailing slash. Its query and its
            fragment are left out, since the query may contain the dashboard's token.
        owner: the owner's name in the lake file; None: all tables.
        lake: the lake's name, for a dashboard that may serve several lakes.
    """
    return _join(base_url, "", {} if owner is None else {"owner": owner}, lake)


def table_address(base_url: str, table: str | None, *, lake: str | None = None) -> str:
    """Return the address of a table; None is the table of findings about a source, which have no table."""
    return _join(base_url, "table", {"table": table_label(table)}, lake)


def file_address(base_url: str, uri: str, *, lake: str | None = None) -> str:
    """Return the address of a file; `uri` is raw, for example `s3://bucket/key`, and not percent-encoded."""
    return _join(base_url, "file", {"uri": uri}, lake)


def discrepancy_address(base_url: str, discrepancy_id: str, *, lake: str | None = None) -> str:
    """Return the address of one discrepancy: of a file, a group of files, a partition, a commit or a table."""
    return _join(base_url, "file", {"id": discrepancy_id}, lake)


def run_address(base_url: str, run_id: str, *, lake: str | None = None) -> str:
    """Return the address of a run."""
    return _join(base_url, "runs", {"run": run_id}, lake)


def plan_address(base_url: str, plan_id: str, *, lake: str | None = None) -> str:
    """Return the address of a plan of `reconcile`."""
    return _join(base_url, "plans", {"plan": plan_id}, lake)


def relative_address(page: str, parameters: dict[str, str]) -> str:
    """Return the address of a page below the dashboard's address; every character that could act is escaped."""
    query = urlencode(parameters, quote_via=quote, safe="", errors="replace")
    return f"{page}?{query}" if query else page


def _join(base_url: str, page: str, parameters: dict[str, str], lake: str | None) -> str:
    base = urlsplit(base_url.strip())._replace(query="", fragment="").geturl()
    named = {} if lake is None else {"lake": lake}
    return f"{base.rstrip('/')}/{relative_address(page, named | parameters)}"
