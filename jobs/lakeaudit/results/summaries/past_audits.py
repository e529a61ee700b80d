"""Reads what past audits recorded about tables: the number of files, and when unused files were first audited."""

from datetime import datetime

from lakeaudit.results.read import PUBLISHED, Results
from lakeaudit.results.sql import ask, texts


def table_files(results: Results) -> dict[str, int]:
    """Return by table the most files that an axis of its last audit counted; tables without an audit are left out.

    Raises:
        CannotAudit: the results cannot be read.
    """
    published = texts(PUBLISHED)
    audited = f"""SELECT c.table_name, c.files,
            rank() OVER (PARTITION BY c.table_name ORDER BY r.finished_at DESC) AS age
        FROM coverage c JOIN runs r ON c.run_id = r.run_id
        WHERE c.files IS NOT NULL AND r.status IN ({published})"""
    sql = f"SELECT table_name, max(files) AS files FROM ({audited}) WHERE age = 1 GROUP BY table_name"
    return {row["table_name"]: row["files"] for row in ask(results, sql, "coverage", "runs")}


def first_audits(results: Results) -> dict[str, datetime]:
    """Return by table the storage time of its first complete audit of unused files; tables without one are left out.

    `results.keep` deletes runs: then it is the first that is left, and fewer files count as younger than it.

    Raises:
        CannotAudit: the results cannot be read.
    """
    published = texts(PUBLISHED)
    sql = f"""SELECT c.table_name, min(c.storage_cut_from) AS first FROM coverage c JOIN runs r ON c.run_id = r.run_id
        WHERE c.axis = 'leftover' AND c.status = 'complete' AND c.storage_cut_from IS NOT NULL
            AND r.status IN ({published}) GROUP BY c.table_name"""
    return {row["table_name"]: row["first"] for row in ask(results, sql, "coverage", "runs")}
