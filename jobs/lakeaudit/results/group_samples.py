"""The first files of each group of leftovers, so that a group has a face."""

from collections.abc import Mapping, Sequence

from lakeaudit.keys import uri_of
from lakeaudit.results.read import Results
from lakeaudit.results.sql import ask, text

FIRST = 3
"""Files named of a group; the rest is a number."""


def group_samples(results: Results, run_id: str) -> Mapping[str, Sequence[str]]:
    """By discrepancy the first files behind it, by key: at most FIRST of each group of the run."""
    sql = f"""SELECT discrepancy_id, bucket, key FROM (
            SELECT discrepancy_id, bucket, key,
                row_number() OVER (PARTITION BY discrepancy_id ORDER BY bucket, key) AS at
            FROM leftover_files WHERE run_id = {text(run_id)}
        ) WHERE at <= {FIRST} ORDER BY discrepancy_id, at"""
    found: dict[str, list[str]] = {}
    for row in ask(results, sql, "leftover_files"):
        found.setdefault(row["discrepancy_id"], []).append(uri_of(row["bucket"], row["key"]))
    return found
