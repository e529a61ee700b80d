"""Since when a table is watched: the first complete audit of its leftovers that the result tables remember."""

from datetime import datetime

from lakeaudit.results.read import PUBLISHED, Results
from lakeaudit.results.sql import ask, texts


def first_audits(results: Results) -> dict[str, datetime]:
    """By table when that audit looked at storage. Tables that were never audited so are not named.

    `results.keep` forgets runs: then it is the first that is remembered, and fewer files count as younger than it.

    Raises:
        CannotAudit: the results cannot be read.
    """
    published = texts(PUBLISHED)
    sql = f"""SELECT c.table_name, min(c.storage_cut_from) AS first FROM coverage c JOIN runs r ON c.run_id = r.run_id
        WHERE c.axis = 'leftover' AND c.status = 'complete' AND c.storage_cut_from IS NOT NULL
            AND r.status IN ({published}) GROUP BY c.table_name"""
    return {row["table_name"]: row["first"] for row in ask(results, sql, "coverage", "runs")}
