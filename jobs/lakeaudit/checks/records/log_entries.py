"""Judge commits on which a log store and the log do not plainly agree, from LOG_ENTRY rows."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from datetime import timedelta

import pyarrow as pa

from lakeaudit.findings.coverage import Tallies, Tally
from lakeaudit.findings.finding_rows import RunStamp, because, finished, uri
from lakeaudit.matching.verdicts import FindingPolicy, group_verdicts
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation, Rows
from lakeaudit.schemas import LOG_ENTRY

TABLES = ("log_entries", "lost_entries")
"""Tables of rules: whether a commit is whole, and whether content that a writer committed is lost."""

_GRACES = pa.schema([("judged_table", pa.string()), ("grace", pa.duration("us"))])


def judged_entries(
    con: Connection, batches: Sequence[pa.RecordBatch], graces: Mapping[str, timedelta], policy: FindingPolicy
) -> Relation:
    """Return LOG_ENTRY rows with axis, rule, outcome, kind and severity."""
    sql = "SELECT input.* REPLACE (graces.grace AS grace) FROM input JOIN graces USING (judged_table)"
    known = duck.query(
        con,
        sql,
        input=pa.Table.from_batches(batches, LOG_ENTRY),
        graces=duck.small(_GRACES, [*graces.items()]),
    )
    rows = duck.hold(con, duck.conform(con, known, LOG_ENTRY))
    return duck.hold(con, duck.union(con, [group_verdicts(con, rows, table, policy) for table in TABLES]))


def tallies(con: Connection, judged: Rows) -> Tallies:
    """Count commits by table, axis and outcome, except consistent ones: the commits of the log are counted as such."""
    sql = """
        SELECT judged_table, axis, outcome, count(*) AS commits FROM input WHERE outcome <> 'consistent' GROUP BY ALL
    """
    counts: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for row in duck.rows_of(duck.query(con, sql, input=judged)):
        counts[row["judged_table"], row["axis"]][row["outcome"]] += row["commits"]
    return {about: Tally(each) for about, each in counts.items()}


def findings(con: Connection, judged: Rows, stamp: RunStamp) -> Relation:
    """Return FINDINGS rows of commits whose outcome is a finding."""
    rows = duck.query(con, "SELECT * FROM input WHERE outcome = 'finding'", input=judged)
    columns = {
        # type file: after the entry has expired the finding ends as removed, not as restored
        "subject_type": "CASE axis WHEN 'content' THEN 'file' ELSE 'commit' END",
        "subject": f"{uri('bucket', 'key')} || '#store'",
        "table_version": "version",
        "commit_id": "CAST(version AS VARCHAR)",
        "manifest_kind": "'delta_log_store'",
        "files": "1",
        "manifest_time": "coalesce(entered_at, temp_at)",
        "storage_time": "written_at",
        "confirmation": "'not_needed'",
        "recoverable": "CASE WHEN temp_there THEN 'yes' ELSE 'unknown' END",
        "explanation": _EXPLANATION,
    }
    return finished(con, rows, columns, stamp)


def _time(name: str) -> str:
    return f"strftime({name}, '%Y-%m-%dT%H:%M:%SZ')"


_EXPLANATION = f"""concat_ws('; ',
    'commit ' || version || ': ' || {because()},
    'the log store completed it at ' || {_time("entered_at")},
    CASE WHEN temp_there
        THEN 'the committed content is in _delta_log/' || temp || ', written at ' || {_time("temp_at")} END,
    'the file of the log was written at ' || {_time("written_at")},
    'log store as of ' || {_time("edge")})"""
