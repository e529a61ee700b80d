"""How many files tables have, by the last audit that looked at each."""

from lakeaudit.results.read import PUBLISHED, Results
from lakeaudit.results.sql import ask, texts


def table_files(results: Results) -> dict[str, int]:
    """By table the most files that an axis of its last audit counted. Tables that were never audited are not named.

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
