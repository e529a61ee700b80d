"""Finds duplicate content: visible files of one partition with the same bytes."""

from collections.abc import Sequence

from lakeaudit import keys
from lakeaudit.evidence.registry import state_kinds
from lakeaudit.matching.pairs import SourceFacts
from lakeaudit.rules import file_rules
from lakeaudit.rules.file_facts import PARTS_TEXT
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation, Rows


def same_content_candidates(
    con: Connection, fired_rules: Rows, sources: SourceFacts, scope: Sequence[str]
) -> Relation:
    """Return PAIR rows of files that are compared, with the `place`, `size` and `content` that they may share.

    A file is compared if it is live, or if no manifest lists it and readers read the folder. Its name must be visible
    to readers, and it must be large enough and older than the cutoff. A full checksum, an MD5 as ETag or the ETag of a
    multipart upload must identify its content.
    """
    members = _members(con, fired_rules, sources, scope)
    return duck.query(con, "SELECT * FROM input WHERE content IS NOT NULL", input=members)


def candidates_without_content(
    con: Connection, fired_rules: Rows, sources: SourceFacts, scope: Sequence[str]
) -> Relation:
    """Return the files whose content cannot be compared with all others: few columns, with their `name`.

    Equal ETags of multipart uploads prove equal content; different ones prove nothing.
    """
    sql = """
        SELECT judged_table, axis, place, size, regexp_extract(key, '[^/]*$') AS name, bucket, key, content
        FROM input WHERE (content IS NULL OR contains(s_etag, '-')) AND rule = 'duplicate.single'
    """
    return duck.query(con, sql, input=_members(con, fired_rules, sources, scope))


def undecided_copies(con: Connection, rows: Rows) -> Relation:
    """Return files of one partition with equal name and size whose content cannot be compared."""
    group = "judged_table, place, size, name"
    sql = f"""
        SELECT *, 'duplicate.alike' AS rule, 'undecided' AS outcome FROM input
        QUALIFY count(*) OVER (PARTITION BY {group}) > 1
            AND count(*) OVER (PARTITION BY {group}, coalesce(content, bucket || '/' || key)) = 1
    """
    return duck.query(con, sql, input=rows)


def _members(con: Connection, fired_rules: Rows, sources: SourceFacts, scope: Sequence[str]) -> Relation:
    """Return PAIR rows of all files that may be compared, with or without known content."""
    # a removed file may equal its replacement; readers of a log never read files that the log does not list
    sql = f"""
        SELECT input.* EXCLUDE ({", ".join(f"rule_{axis}" for axis in file_rules.PAIR_AXES)}), name AS judged_table,
            'duplicate' AS axis, rule_duplicate AS rule, {CONTENT} AS content, s_size AS size,
            CASE WHEN NOT o_logged AND coalesce(c_kind NOT IN ({duck.literals(state_kinds())}), true)
                THEN regexp_replace(relative, '/?[^/]*$', '') ELSE partition_path END AS place
        FROM input JOIN tables ON coalesce(table_name, owner) = name
        WHERE (c_state = 'live' OR (table_name IS NULL AND by_folder)) AND name IN ({duck.literals(scope)})
            AND s_presence = 'present' AND s_size >= min_duplicate_size
            AND s_modified_at <= s_from - s_margin AND coalesce(category, 'data') = 'data'
            AND NOT regexp_matches(relative, {duck.pattern(keys.HIDDEN)})
    """
    return duck.query(con, sql, input=fired_rules, tables=sources.tables)


def content_etag(etag: str, multipart: str, encryption: str) -> str:
    """Return SQL for whether equal ETags prove equal bytes: MD5s, or digests of the MD5s of as many parts.

    An ETag of parts ends in their number (S3 User Guide, "Checking object integrity"); equal ones have equal parts.
    """
    # this is MD5_TEXT: patterns cost most of a fingerprint, and one without a repetition half of one with it
    md5 = f"strlen({etag}) = 32 AND NOT regexp_matches({etag}, '[^0-9a-f]')"
    whole = f"{md5} AND NOT coalesce({multipart}, false)"
    parts = f"regexp_matches({etag}, {duck.pattern(PARTS_TEXT)})"
    told = f"CASE WHEN contains({etag}, '-') THEN {parts} ELSE {whole} END"
    return f"{told} AND coalesce({encryption} IN ('NONE', 'SSE-S3'), true)"


# a listing has no encryption; ETags that are not MD5s are never equal by chance
CONTENT = f"""
    coalesce(
        CASE WHEN {content_etag("s_etag", "s_multipart", "s_encryption")} THEN 'etag:' || s_etag END,
        CASE WHEN NOT starts_with(s_checksum, 'crc32') THEN s_checksum END)
"""
"""SQL for the identity of an object's bytes: its ETag if that may be an MD5, else its full checksum.

CRCs of 32 bits are excluded: they are equal by chance too often.
"""


def same_content(con: Connection, candidates: Rows) -> Relation:
    """Return the redundant candidates of each group, with related_key (the file that stays) and group_id.

    A file that a manifest claims is preferred: an unclaimed one is younger than the last snapshot, or was never
    committed. Among equals the oldest file stays, then the one with the smallest key.
    """
    sql = """
        SELECT * EXCLUDE (content, size, place, rule, ranked),
            'duplicate.same_content' AS rule
        FROM (
            SELECT *, row_number() OVER grouped AS ranked, first(key) OVER grouped AS related_key,
                sha256(judged_table || chr(10) || place || chr(10) || content)[1:32] AS group_id
            FROM input
            WINDOW grouped AS (
                PARTITION BY judged_table, place, size, content
                ORDER BY coalesce(c_state = 'live', false) DESC, s_modified_at, bucket, key
                ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
        ) WHERE ranked > 1 AND rule = 'duplicate.single'
    """  # a file has one verdict on the axis
    return duck.query(con, sql, input=candidates)
