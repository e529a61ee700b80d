"""Reads the coverage of every table from the last published run that checked it."""

from collections.abc import Sequence

from lakeaudit.results.read import Results, Row
from lakeaudit.results.sql import ask, text, texts
from lakeaudit.results.summaries.lake_standing import PUBLISHED_RUNS


def latest_coverage(results: Results) -> dict[str | None, list[Row]]:
    """Return by table the coverage rows of the last published run that has some; empty before a run was published.

    Coverage of earlier runs is queried only for tables that the last run did not check: a year of runs has millions of
    rows.

    Raises:
        CannotAudit: the results cannot be read.
    """
    last = results.last_published()
    if last is None:
        return {}
    earlier = _earlier(results, last["run_id"])
    by_table: dict[str | None, list[Row]] = {}
    for row in [*_covered(results, [last["run_id"]]), *_covered(results, sorted({*earlier.values()}))]:
        if row["run_id"] == earlier.get(row["table_name"] or "", last["run_id"]):
            by_table.setdefault(row["table_name"] or None, []).append(row)
    return by_table


def _covered(results: Results, run_ids: Sequence[str]) -> list[Row]:
    if not run_ids:
        return []
    return ask(results, f"SELECT * FROM coverage WHERE run_id IN ({texts(tuple(run_ids))})", "coverage")


def _earlier(results: Results, last: str) -> dict[str, str]:
    """Return, for tables without coverage in the last run, the id of the last published run that has it."""
    sql = f""", named AS (SELECT coalesce(table_name, '') AS table_name, run_id FROM coverage),
        seen AS (SELECT DISTINCT table_name FROM named WHERE run_id = {text(last)}),
        unseen AS (SELECT named.* FROM named LEFT ANTI JOIN seen ON named.table_name = seen.table_name),
        numbered AS (
            SELECT run_id, row_number() OVER (ORDER BY finished_at, run_id) AS number FROM runs WHERE {PUBLISHED_RUNS}),
        newest AS (
            SELECT table_name, max(number) AS number FROM unseen JOIN numbered ON unseen.run_id = numbered.run_id
            GROUP BY table_name)
        SELECT newest.table_name, numbered.run_id FROM newest JOIN numbered ON newest.number = numbered.number"""
    return {row["table_name"]: row["run_id"] for row in ask(results, sql, "coverage", "runs")}
