"""Judge the files of repeated task attempts, of which one counts, from SAME_SPLIT rows of writers' own records."""

from lakeaudit.findings.finding_rows import RunStamp, because, finished, uri
from lakeaudit.matching.pairs import SourceFacts
from lakeaudit.matching.prefix_match import attach_label
from lakeaudit.matching.verdicts import FindingPolicy, group_verdicts
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation, Rows
from lakeaudit.schemas import ATTEMPT

TABLE = "attempts"


def judged_attempts(con: Connection, repeated: Rows, sources: SourceFacts, policy: FindingPolicy) -> Relation:
    """Return ATTEMPT rows with axis, rule, outcome, kind and severity, from SAME_SPLIT rows."""
    labelled = attach_label(con, repeated, sources.deciding, "decides")
    sql = """
        SELECT a.*, table_name AS judged_table, substring(key, CAST(root_length AS INTEGER) + 1) AS relative,
            start - margin AS edge, start AS cut, grace, by_folder
        FROM input a JOIN tables ON table_name = name LEFT JOIN cuts ON decides = cuts.source
    """
    rows = duck.made_of(con, sql, labelled, tables=sources.tables, cuts=sources.storage_cuts)
    return group_verdicts(con, duck.conform(con, rows, ATTEMPT), TABLE, policy)


def other_copies(con: Connection, copies: Rows, judged: Rows) -> Relation:
    """Return COPY rows without the pairs that `judged` already reports: a file has one verdict."""
    if duck.is_empty(judged):
        return duck.relation(con, copies)
    sql = """
        SELECT c.* FROM input c ANTI JOIN (
            SELECT judged_table, bucket, unnest([key, related_key]) AS key, unnest([related_key, key]) AS related_key
            FROM judged WHERE outcome IN ('finding', 'ignored')) j USING (judged_table, bucket, key, related_key)
    """
    return duck.made_of(con, sql, copies, judged=judged)


def tally_rows(con: Connection, judged: Rows, copies: Rows) -> Relation:
    """Return TALLY rows: they move files from consistent to their outcome; pairs among `copies` were moved before."""
    sql = """
        WITH paired AS (
            SELECT judged_table, bucket, unnest([key, related_key]) AS key, unnest([related_key, key]) AS related_key
            FROM copies),
        new AS (SELECT * FROM input ANTI JOIN paired USING (judged_table, bucket, key, related_key))
        SELECT judged_table, axis, unnest([outcome, 'consistent']) AS outcome, unnest([count(*), -count(*)]) AS files,
            CAST(0 AS BIGINT) AS bytes, CAST(0 AS BIGINT) AS unconfirmed, CAST(0 AS BIGINT) AS refuted
        FROM new GROUP BY judged_table, axis, outcome
    """
    return duck.made_of(con, sql, judged, copies=copies)


def findings(con: Connection, judged: Rows, stamp: RunStamp) -> Relation:
    """Return FINDINGS rows, one for each file that does not count; `related_key` is the file that does."""
    rows = duck.made_of(con, "SELECT * FROM input WHERE outcome = 'finding'", judged)
    columns = {
        "subject_type": "'file'",
        "subject": uri("bucket", "key"),
        "category": "'data'",
        "files": "1",
        "rows_at_stake": "rows",
        "bytes_at_stake": "size",
        "storage_size": "size",
        "storage_time": "modified_at",
        "manifest_time": "ended_at",
        "confirmation": "'not_needed'",
        "explanation": f"""concat_ws('; ', {because()}, why,
            'the valid file is ' || {uri("bucket", "related_key")},
            'storage as of ' || strftime(cut, '%Y-%m-%dT%H:%M:%SZ'))""",
    }
    return finished(con, rows, columns, stamp)
