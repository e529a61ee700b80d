"""Judge writes of which storage has less than their writers declared, from DECLARED rows.

Missing files with known names are findings of their own; these findings count the missing part without names.
"""

from collections import Counter, defaultdict
from collections.abc import Collection

from lakeaudit.findings.finding_rows import RunStamp, because, finished, uri
from lakeaudit.matching.pairs import SourceFacts
from lakeaudit.matching.prefix_match import attach_label
from lakeaudit.matching.verdicts import FindingPolicy, group_verdicts
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation, Rows
from lakeaudit.schemas import WRITE

TABLE = "writes"


def judged_writes(
    con: Connection,
    short: Rows,
    sources: SourceFacts,
    doubted: Collection[str],
    gaps: Collection[str],
    policy: FindingPolicy,
) -> Relation:
    """Return WRITE rows with axis, rule, outcome, kind and severity, from DECLARED rows.

    Args:
        con: where the query runs.
        short: writes that lack something or cannot be counted.
        sources: which storage source decides at a place, and the settings of tables.
        doubted: tables whose writers' records could not be read whole.
        gaps: sources that could not be read whole.
        policy: the policy of the lake file for findings.
    """
    keyed = "SELECT *, CASE path WHEN '' THEN '' ELSE path || '/' END AS key FROM input"
    placed = attach_label(con, duck.query(con, keyed, input=short), sources.deciding, "decides")
    sql = f"""
        SELECT w.*, table_name AS judged_table, substring(key, CAST(root_length AS INTEGER) + 1) AS relative,
            start - margin AS edge, start AS cut, grace, stateful AS logged,
            coalesce(table_name IN ({duck.literals([*doubted])}), false)
                OR coalesce(decides IN ({duck.literals([*gaps])}), false) AS holed
        FROM placed w JOIN tables ON table_name = name LEFT JOIN cuts ON decides = cuts.source
    """
    rows = duck.query(con, sql, placed=placed, tables=sources.tables, cuts=sources.storage_cuts)
    return group_verdicts(con, duck.conform(con, rows, WRITE), TABLE, policy)


def outcomes(con: Connection, judged: Rows) -> dict[str, Counter[str]]:
    """Count writes by table and outcome."""
    sql = "SELECT judged_table, outcome, count(*) AS writes FROM input GROUP BY ALL"
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for row in duck.rows_of(duck.query(con, sql, input=judged)):
        counts[row["judged_table"]][row["outcome"]] += row["writes"]
    return counts


def undecided_reasons(con: Connection, judged: Rows, doubts: dict[str, str]) -> dict[str, str]:
    """Return by table why some writes are undecided."""
    sql = """
        SELECT judged_table, count(*) AS writes, min(commit_id) AS sample,
            mode(CASE WHEN rule = 'commit.write_partly_replaced'
                    THEN 'later writes replaced a part of their files, and it is unknown which part'
                WHEN rule = 'commit.write_untold' THEN coalesce(untold, 'their files cannot be counted') END) AS why
        FROM input WHERE outcome = 'undecided' GROUP BY judged_table
    """
    return {
        row[
            "judged_table"
        ]: f"{row['writes']:,} writes, such as {row['sample']}, are not complete in storage and cannot be judged: "
        f"{row['why'] or doubts.get(row['judged_table'], 'storage was not read completely')}"
        for row in duck.rows_of(duck.query(con, sql, input=judged))
    }


def findings(con: Connection, judged: Rows, stamp: RunStamp) -> Relation:
    """Return FINDINGS rows of writes whose outcome is a finding: the subject is the write at its path."""
    sql = f"""
        SELECT *, {", ".join(f"{_missing_amount(what)} AS missing_{what}" for what in ("files", "rows", "bytes"))}
        FROM input WHERE outcome = 'finding'
    """
    columns = {
        "subject_type": "'commit'",
        "subject": f"{uri('bucket', 'key')} || '#' || commit_id",
        "category": "'data'",
        "files": "missing_files",
        "rows_at_stake": "missing_rows",
        "bytes_at_stake": "missing_bytes",
        "manifest_size": "bytes",
        "storage_size": "bytes_there",
        "manifest_time": "ended_at",
        "confirmation": "'none'",
        "recoverable": "'unknown'",
        "explanation": _EXPLANATION,
    }
    return finished(con, duck.query(con, sql, input=judged), columns, stamp)


def _missing_amount(what: str) -> str:
    """Return SQL of the missing amount that has no name; null if it is not known."""
    return f"greatest({what} - {what}_there - coalesce({what}_named, 0), 0)"


def _amounts(prefix: str, suffix: str = "") -> str:
    """Return SQL of a text with the known amounts of files, rows and bytes."""
    parts = ", ".join(
        f"CASE WHEN {prefix}{what}{suffix} IS NOT NULL THEN format('{{:,}} {what}', {prefix}{what}{suffix}) END"
        for what in ("files", "rows", "bytes")
    )
    return f"concat_ws(', ', {parts})"


_TIME = "strftime({}, '%Y-%m-%dT%H:%M:%SZ')"
_EXPLANATION = f"""concat_ws('; ',
    'write ' || commit_id || coalesce(' of ' || {_TIME.format("ended_at")}, '') || ' committed '
        || {_amounts("")} || ', but storage lacks ' || {_amounts("missing_")} || ' of this write',
    detail, {because()},
    CASE WHEN marker IS NOT NULL
        THEN 'the marker ' || {uri("bucket", "marker")} || ' wrongly says that the write is complete' END,
    'storage as of ' || {_TIME.format("cut")})"""
"""SQL of the explanation: the committed amounts, the missing ones, and the evidence."""
