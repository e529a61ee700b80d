"""Count files that are undecided because storage does not report a field that their rule needs.

A store may leave a size or a time out of its listings, and a report may have no column for the storage class. Such
files make the coverage of their table partial: more evidence would decide them.
"""

from lakeaudit.keys import TIERED_CLASSES
from lakeaudit.matching.verdicts import JUDGED_TABLE
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation, Rows

LATEST, CLASS, TIME, SIZE, ETAG, ENCRYPTION = (
    "IsLatest",
    "StorageClass",
    "LastModified",
    "Size",
    "ETag",
    "EncryptionStatus",
)
RULES = {
    "content": ("content.unclear", "content.same_untold", "content.untold"),
    "leftover": ("leftover.untold",),
    "duplicate": ("duplicate.untold",),
    "metastore": ("metastore.unclear", "metastore.untold"),
}
"""By axis the rules that leave a file undecided because storage does not report a field."""

_NO_CLASS = f"s_archived IS NULL AND coalesce(s_storage_class NOT IN ({duck.literals(TIERED_CLASSES)}), true)"
_CONDITIONS = {
    CLASS: f"axis = 'content' AND {_NO_CLASS}",
    TIME: "axis <> 'metastore' AND s_modified_at IS NULL",
    SIZE: "s_size IS NULL AND CASE axis WHEN 'content' THEN c_size WHEN 'metastore' THEN m_size END IS NOT NULL",
    ETAG: "axis = 'content' AND c_etag IS NOT NULL AND s_etag IS NULL",
    ENCRYPTION: "axis = 'content' AND starts_with(c_checksum, 'md5:') AND s_etag IS NOT NULL AND s_encryption IS NULL",
}
"""By field the condition under which a file's rule needs it, as SQL over verdict rows."""
_FIELDS = ", ".join(
    f"CASE WHEN NOT unclear AND {condition} THEN {duck.literal(name)} END"
    for name, condition in _CONDITIONS.items()
)
_COLUMNS = (
    "bucket, key, s_source, s_archived, s_storage_class, s_modified_at, s_size, s_etag, s_encryption, "
    "c_size, c_etag, c_checksum, m_size"
)
_OF_AXES = ", ".join(["table_name", "owner", "first", *(f"rule_{axis}" for axis in RULES)])


def of_pairs(con: Connection, fired_rules: Rows, known: Rows, scope: Rows) -> Relation:
    """Return UNNAMED_FIELDS rows of the files that the rules alone settle, see `verdicts.settled`.

    Args:
        con: where the query runs.
        fired_rules: PAIR rows with the rule that fired on every axis.
        known: open discrepancies of the ledger; their files are judged again later.
        scope: the tables to be judged.
    """
    each = " UNION ALL ".join(
        f"SELECT '{axis}' AS axis, {JUDGED_TABLE[axis]} AS judged_table, rule_{axis} AS rule, {_COLUMNS}"
        f" FROM input WHERE {_undecided(axis)}"
        for axis in RULES
    )
    sql = f"""
        SELECT * FROM ({each}) SEMI JOIN scope ON judged_table = scope_table
        ANTI JOIN (SELECT * FROM known WHERE known_as IS NOT NULL) k USING (axis, judged_table, bucket, key)
    """
    # materialized: most lakes have no such files, and planning the rest takes longer than checking that
    likely = f"SELECT {_COLUMNS}, {_OF_AXES} FROM input WHERE {' OR '.join(map(_undecided, RULES))}"
    undecided = duck.hold(con, duck.made_of(con, likely, fired_rules))
    return _count_files(con, duck.made_of(con, sql, undecided, known=known, scope=scope))


def _undecided(axis: str) -> str:
    return f"rule_{axis} IN ({duck.literals(RULES[axis])})"


def of_verdicts(con: Connection, verdicts: Rows) -> Relation:
    """Return UNNAMED_FIELDS rows of verdict rows after the live check."""
    named = duck.literals([rule for rules in RULES.values() for rule in rules])
    return _count_files(con, duck.made_of(con, f"SELECT * FROM input WHERE rule IN ({named})", verdicts))


def _count_files(con: Connection, rows: Relation) -> Relation:
    sql = f"""
        WITH marked AS (SELECT *, ends_with(rule, '.unclear') AS unclear FROM input),
        each AS (
            SELECT axis, judged_table, s_source AS source, bucket, s_storage_class,
                unnest([CASE WHEN unclear THEN '{LATEST}' END, {_FIELDS}]) AS field
            FROM marked)
        SELECT judged_table, axis, source, bucket, field,
            CASE WHEN field = '{CLASS}' THEN s_storage_class END AS storage_class, count(*) AS files
        FROM each WHERE field IS NOT NULL GROUP BY ALL
    """
    return duck.made_of(con, sql, rows)
