"""Find half-moved folders: the same names, sizes and contents under two folders of one table, none listed by a state.

S3 has no rename: a job moves a folder by copying every object and deleting the old ones, and a job that fails half way
leaves files under both (Hadoop documentation, "Object Stores vs. Filesystems"). A job that writes the same file names
every day looks similar; unique file names, the names of the folders and the number of files distinguish the two.
"""

from collections.abc import Sequence

from lakeaudit import keys
from lakeaudit.evidence.registry import state_kinds
from lakeaudit.findings.finding_rows import RunStamp, because, finished, uri
from lakeaudit.matching.duplicates import CONTENT
from lakeaudit.matching.pairs import SourceFacts
from lakeaudit.matching.verdicts import FindingPolicy, group_verdicts
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation, Rows
from lakeaudit.schemas import FOLDER_PAIR, MOVES

UNREPEATED = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[0-9a-f]{16}"
"""Part of a name that no two writers give a file: a UUID, or sixteen hexadecimal digits."""

HALF_MOVED = "half_moved"


def candidates(con: Connection, fired_rules: Rows, sources: SourceFacts, scope: Sequence[str]) -> Relation:
    """Return the files of PAIR rows that no state lists and that readers see, with `name` and `content`."""
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
    return duck.made_of(con, sql, fired_rules, tables=sources.tables)


def pairs_of_folders(con: Connection, rows: Rows, policy: FindingPolicy) -> Relation:
    """Return MOVES rows from all candidates of some names: files, bytes and newest times by pair of folders."""
    twice = f"""
        SELECT judged_table, bucket, name, size, min(folder) AS folder, max(folder) AS other_folder,
            arg_min(modified_at, folder) AS modified_at, arg_max(modified_at, folder) AS other_modified_at,
            arg_max(relative, modified_at) AS relative, {duck.literal(HALF_MOVED)} AS kind
        FROM input GROUP BY judged_table, bucket, name, size, content
        HAVING count(*) = 2 AND count(DISTINCT folder) = 2
    """
    sums = f"""
        SELECT judged_table, bucket, folder, other_folder, count(*) AS files, CAST(sum(size) AS BIGINT) AS bytes,
            max(modified_at) AS modified_at, max(other_modified_at) AS other_modified_at,
            bool_or(regexp_matches(name, {duck.literal(UNREPEATED)})) AS unrepeated,
            coalesce({policy.ignored}, false) AS ignored
        FROM input GROUP BY judged_table, bucket, folder, other_folder, ignored
    """
    return duck.conform(con, duck.made_of(con, sums, duck.query(con, twice, input=rows)), MOVES)


def folder_pairs(con: Connection, moves: Rows) -> Relation:
    """Return FOLDER_PAIR rows of all shares; folders that differ only in numbers or partition values are `dated`."""
    pattern = "regexp_replace(regexp_replace({}, '=[^/]*', '=', 'g'), '[0-9]+', '0', 'g')"
    sql = f"""
        SELECT judged_table, bucket, CAST(sum(files) AS BIGINT) AS files, CAST(sum(bytes) AS BIGINT) AS bytes,
            CASE WHEN max(modified_at) <= max(other_modified_at) THEN folder ELSE other_folder END AS folder_from,
            CASE WHEN max(modified_at) <= max(other_modified_at) THEN other_folder ELSE folder END AS folder_to,
            greatest(max(modified_at), max(other_modified_at)) AS storage_time, bool_or(unrepeated) AS unrepeated,
            {pattern.format("folder")} = {pattern.format("other_folder")} AS dated, ignored
        FROM input GROUP BY judged_table, bucket, folder, other_folder, ignored
    """
    return duck.conform(con, duck.made_of(con, sql, moves), FOLDER_PAIR)


def half_moved(con: Connection, moves: Rows, policy: FindingPolicy) -> Relation:
    """Return FOLDER_PAIR rows that a rule reports, from all MOVES rows, with axis, rule, outcome, kind, severity."""
    with_path = "SELECT *, CAST(NULL AS VARCHAR) AS relative FROM input"
    judged = group_verdicts(con, duck.made_of(con, with_path, folder_pairs(con, moves)), "folders", policy)
    sql = """
        SELECT * REPLACE (CASE WHEN ignored THEN 'ignored' ELSE outcome END AS outcome)
        FROM input WHERE outcome IN ('finding', 'ignored')
    """
    return duck.made_of(con, sql, judged)


def tally_rows(con: Connection, moved: Rows) -> Relation:
    """Return TALLY rows: they move the younger files, each of which was counted as consistent, to their outcome."""
    sql = """
        SELECT judged_table, axis, unnest([outcome, 'consistent']) AS outcome,
            unnest([files, -files]) AS files, CAST(0 AS BIGINT) AS bytes,
            CAST(0 AS BIGINT) AS unconfirmed, CAST(0 AS BIGINT) AS refuted
        FROM input
    """
    return duck.made_of(con, sql, moved)


def findings(con: Connection, moved: Rows, stamp: RunStamp) -> Relation:
    """Return FINDINGS rows, one per pair: the subject is the younger folder, `related_key` the older one."""
    explanation = f"""files || ' files; ' || {because()} || '; younger folder: '
        || {uri("bucket", "folder_to")} || ', older folder: ' || {uri("bucket", "folder_from")}"""
    columns = {
        "subject_type": "'prefix'",
        "key": "folder_to || '/'",
        "related_key": "folder_from || '/'",
        "subject": f"{uri('bucket', 'folder_to')} || '/#half_moved#' || folder_from",
        "bytes_at_stake": "bytes",
        "confirmation": "'not_needed'",
        "explanation": explanation,
    }
    rows = duck.made_of(con, "SELECT * FROM input WHERE outcome = 'finding'", moved)
    return finished(con, rows, columns, stamp)
