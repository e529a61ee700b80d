"""Half-moved folders: the same names, sizes and contents under two folders of one table, none listed by a state.

S3 has no rename: a folder is moved by copying every object and deleting the old ones, and whoever stops half way leaves
files under both (Hadoop documentation, "Object Stores vs. Filesystems"). Files that land under the same names again
look alike; they are told apart by names that no two writers give, by how the folders are called, and by their number.
"""

from collections.abc import Sequence

from lakeaudit import keys
from lakeaudit.compare.duplicates import CONTENT
from lakeaudit.compare.findings import Stamp, because, finished, uri
from lakeaudit.compare.match import SourceFacts
from lakeaudit.compare.verdicts import Words, with_outcome
from lakeaudit.config import state_kinds
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation, Rows

UNREPEATED = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[0-9a-f]{16}"
"""Part of a name that no two writers give a file: a UUID, or sixteen hexadecimal digits."""

FEWEST = 2
"""So many files of names that may repeat are no chance."""


def candidates(con: Connection, fired_rules: Rows, sources: SourceFacts, scope: Sequence[str]) -> Relation:
    """Of PAIR rows the files that no state lists and readers of the folder would see, with `name` and `content`."""
    sql = f"""
        SELECT * FROM (
            SELECT coalesce(table_name, owner) AS judged_table, bucket,
                regexp_replace(key, '/[^/]*$', '') AS folder, regexp_extract(key, '([^/]*)$', 1) AS name, relative,
                s_size AS size, {CONTENT} AS content, s_modified_at AS modified_at
            FROM input
            WHERE first AND s_presence = 'present' AND s_size > 0 AND s_modified_at <= s_from - s_margin
                AND coalesce(c_kind NOT IN ({duck.literals(state_kinds())}), true) AND contains(relative, '/')
                AND coalesce(category, 'data') = 'data'
                AND NOT regexp_matches(relative, {duck.pattern(keys.UNSEEN)})
        ) WHERE content IS NOT NULL AND judged_table IN ({duck.literals(scope)})
    """
    return duck.query(con, sql, input=fired_rules, tables=sources.tables)


def pairs_of_folders(con: Connection, rows: Rows, words: Words) -> Relation:
    """All candidates of some names -> by pair of folders and outcome: files, bytes, the newest time of either."""
    twice = """
        SELECT judged_table, bucket, name, size, min(folder) AS folder, max(folder) AS other_folder,
            arg_min(modified_at, folder) AS modified_at, arg_max(modified_at, folder) AS other_modified_at,
            arg_max(relative, modified_at) AS relative, 'duplicate' AS axis, 'duplicate.half_moved' AS rule
        FROM input GROUP BY judged_table, bucket, name, size, content
        HAVING count(*) = 2 AND count(DISTINCT folder) = 2
    """
    judged = with_outcome(con, duck.query(con, twice, input=rows), words)
    sums = f"""
        SELECT judged_table, axis, rule, outcome, kind, severity, bucket, folder, other_folder,
            count(*) AS files, CAST(sum(size) AS BIGINT) AS bytes, max(modified_at) AS modified_at,
            max(other_modified_at) AS other_modified_at,
            bool_or(regexp_matches(name, {duck.literal(UNREPEATED)})) AS unrepeated
        FROM input GROUP BY ALL
    """
    return duck.query(con, sums, input=judged)


def half_moved(con: Connection, pairs: Rows) -> Relation:
    """Pairs of all shares together, without those that land again: folder_from is the older one, folder_to the other.

    Folders that differ in numbers or partition values alone are dated deliveries, unless names say otherwise.
    """
    alike = "regexp_replace(regexp_replace({}, '=[^/]*', '=', 'g'), '[0-9]+', '0', 'g')"
    sql = f"""
        SELECT judged_table, axis, rule, outcome, kind, severity, bucket,
            CAST(sum(files) AS BIGINT) AS files, CAST(sum(bytes) AS BIGINT) AS bytes,
            CASE WHEN max(modified_at) <= max(other_modified_at) THEN folder ELSE other_folder END AS folder_from,
            CASE WHEN max(modified_at) <= max(other_modified_at) THEN other_folder ELSE folder END AS folder_to,
            greatest(max(modified_at), max(other_modified_at)) AS storage_time
        FROM input GROUP BY judged_table, axis, rule, outcome, kind, severity, bucket, folder, other_folder
        HAVING bool_or(unrepeated)
            OR (sum(files) >= {FEWEST} AND {alike.format("folder")} <> {alike.format("other_folder")})
    """
    return duck.query(con, sql, input=pairs)


def tally_rows(con: Connection, moved: Rows) -> Relation:
    """TALLY rows: the younger files, which were counted as consistent, each by itself."""
    sql = """
        SELECT judged_table, axis, unnest([outcome, 'consistent']) AS outcome,
            unnest([files, -files]) AS files, CAST(0 AS BIGINT) AS bytes,
            CAST(0 AS BIGINT) AS unconfirmed, CAST(0 AS BIGINT) AS refuted
        FROM input
    """
    return duck.query(con, sql, input=moved)


def findings(con: Connection, moved: Rows, stamp: Stamp) -> Relation:
    """FINDINGS, one per pair: the subject is the younger folder, `related_key` the older one."""
    told = f"""files || ' files; ' || {because()} || '; the younger folder is ' || {uri("bucket", "folder_to")}
        || ', the older one ' || {uri("bucket", "folder_from")}"""
    given = {
        "subject_type": "'prefix'",
        "key": "folder_to || '/'",
        "related_key": "folder_from || '/'",
        "subject": f"{uri('bucket', 'folder_to')} || '/#half_moved#' || folder_from",
        "bytes_at_stake": "bytes",
        "confirmation": "'not_needed'",
        "explanation": told,
    }
    found = duck.query(con, "SELECT * FROM input WHERE outcome = 'finding'", input=moved)
    return finished(con, found, given, stamp)
