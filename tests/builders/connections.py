"""DuckDB connections for tests: each has tables of its own, all of a process share one database."""

from functools import cache

from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection


@cache
def _database() -> Connection:
    return duck.connect()


def connection() -> Connection:
    """To open a database takes 30 ms, which thousands of tests would feel; closing this one leaves the database."""
    con = _database().cursor()
    con.execute("SET enable_progress_bar = false")
    return con
