"""Build FINDINGS rows from verdict rows of the tables of `pointer_rules`."""

from lakeaudit.findings.finding_rows import RunStamp, because, finished, uri
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation, Rows

_PLACE = uri("bucket", "key")
_SAYS = "catalog || ' has ' || table_name"


def _time(name: str) -> str:
    return f"strftime({name}, '%Y-%m-%dT%H:%M:%SZ')"


_NOW = """CASE WHEN look = 'live' THEN 'confirmed by a live check'
    WHEN look IS NOT NULL THEN 'not checked live: ' || look END"""
_COLUMNS = {
    "partitions": {
        "subject_type": "'partition'",
        "subject": "partition_path || '#' || catalog || ':' || table_name",
        "key": "NULL",
        "metastore_time": "registered_at",
        "files": "removed",
        "rows_at_stake": "rows_said",
        "bytes_at_stake": "0",
        "explanation": f"""concat_ws('; ', {_SAYS} || ', partition ' || partition_path || ' at '
            || coalesce({_PLACE}, 'a place outside the stores'), {because()},
            CASE WHEN rows_said > 0 THEN 'the catalog counts ' || rows_said || ' rows' END,
            CASE WHEN visible > 0 AND with_content = 0
                THEN 'all visible files there (' || visible || ') have 0 bytes' END,
            CASE WHEN removed > 0 THEN 'files there that a delete marker hides: ' || removed END,
            'registered at ' || {_time("registered_at")},
            'storage as of ' || {_time("cut")}, {_NOW})""",
    },
    "partition_folders": {
        "subject_type": "'prefix'",
        "subject": f"{_PLACE} || '#' || catalog || ':' || table_name",
        "bytes_at_stake": "bytes",
        "storage_time": "newest",
        "explanation": f"""concat_ws('; ', 'files: ' || files, {because()},
            CASE WHEN registered THEN 'the partition is registered at another location, which has no visible files'
                ELSE {_SAYS} || ' without it' END,
            'written from ' || {_time("oldest")} || ' to ' || {_time("newest")},
            'storage as of ' || {_time("cut")}, {_NOW})""",
    },
    "table_pointers": {
        "subject_type": "'table'",
        "subject": "table_name || '#' || catalog",
        "key": "NULL",
        "metastore_time": "changed_at",
        "files": "NULL",
        "explanation": f"""concat_ws('; ',
            {_SAYS} || ' at ' || coalesce({_PLACE}, 'a place outside the stores'), {because()},
            'the newer version is ' || left_behind, 'storage as of ' || {_time("cut")}, {_NOW})""",
    },
}


def findings(con: Connection, judged: Rows, table: str, stamp: RunStamp) -> Relation:
    """Return FINDINGS rows of pointers whose outcome is a finding; `table` names the table of rules."""
    rows = duck.query(con, "SELECT * FROM input WHERE outcome = 'finding'", input=judged)
    shared = {
        "confirmation": "coalesce(look, 'none')",
        "recoverable": "'unknown'",
        "manifest_kind": "NULL",
        "partition_path": "nullif(partition_path, '')",
    }
    return finished(con, rows, shared | _COLUMNS[table], stamp)
