"""Judges the tree of a metadata store: parents, types and required fields of its entries, as TREE rows.

An entry is joined with folders of stored objects at its own key, and with its parent's entry at the parent's key: two
exchanges of narrow rows after the match, only if a metadata store is configured.
"""

import pyarrow as pa

from lakeaudit.keys import NOT_HADOOP
from lakeaudit.matching.pairs import SourceFacts
from lakeaudit.matching.prefix_match import attach_label
from lakeaudit.matching.verdicts import FindingPolicy, with_outcome
from lakeaudit.rules import file_rules
from lakeaudit.rules.classify import apply_rules
from lakeaudit.rules.file_facts import TREE_FACTS
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation, Rows
from lakeaudit.schemas import PAIR

FOLDERS = pa.schema(
    [("bucket", pa.string()), ("key", pa.string()), ("keys_below", pa.bool_()), ("unentered", pa.bool_())]
)
"""Folders of stored objects, see `folder_rows`."""

FOLDER = "parse_dirpath(key, 'forward_slash')"
"""SQL for the text before the last slash of a key; five times as fast as _PARENT, and wrong for a lone slash."""
_PARENT = "regexp_replace({}, '/?[^/]*$', '')"
# last_updated, 0 counts as long ago; absent: mod_time
_TOUCHED = "CASE WHEN last_updated_given THEN last_updated ELSE mod_time END"


def of_trees(con: Connection, entries: Rows, sources: SourceFacts) -> Relation:
    """Return entries of stores with a tree of folders, see `Entries.tree`."""
    return duck.made_of(con, f"SELECT * FROM input WHERE {in_tree(sources)}", entries)


def in_tree(sources: SourceFacts) -> str:
    """Return SQL for whether an entry belongs to a store with a tree of folders."""
    return f"(bare IS NOT TRUE AND NOT coalesce(source IN ({duck.literals(sources.flat_stores)}), false))"


def tree_rows(con: Connection, entries: Rows, pairs: Rows, sources: SourceFacts) -> Relation:
    """Join entries below a table's location with the PAIR rows of the same keys, for the object at each key."""
    owned = attach_label(con, entries, sources.roots, "owner")
    sql = f"""
        SELECT source, e.bucket, e.key, {_rooted(sources)} AS parent, is_dir, tombstone, expired, honoured,
            authoritative, size, etag, {_TOUCHED} AS touched_at, e.owner, coalesce(p.there, false) AS object_there,
            size IS NULL OR (mod_time IS NULL AND last_updated IS NULL)
                OR ({_timed(sources)} AND NOT last_updated_given) AS lacks_field
        FROM (SELECT * FROM owned WHERE owner IS NOT NULL) e
        LEFT JOIN (SELECT bucket, key, true AS there FROM pairs
            WHERE s_presence = 'present' AND first AND m_state = 'dir') p USING (bucket, key)
    """
    return duck.query(con, sql, owned=owned, pairs=pairs)


def parent_rows(con: Connection, entries: Rows) -> Relation:
    """Return each entry as a possible parent: tombstone, file, present, time."""
    sql = f"""
        SELECT source, bucket, key, tombstone AND NOT expired AS parent_is_tombstone,
            NOT tombstone AND NOT is_dir AS parent_is_file, NOT tombstone OR NOT expired AS parent_there,
            {_TOUCHED} AS parent_touched_at
        FROM input
    """
    return duck.made_of(con, sql, entries)


def folder_rows(con: Connection, pairs: Rows) -> Relation:
    """Return folders with a key below them, and those with a child that has no entry."""
    edge = "least(s_from - s_margin, m_from - m_margin)"
    lacking = f"""m_state = 'none' AND m_honoured AND NOT regexp_matches(key, {duck.pattern(NOT_HADOOP)})
        AND s_modified_at + o_grace <= {edge}"""
    stored = duck.made_of(con, "SELECT * FROM input WHERE s_presence = 'present' AND first", pairs)
    above = folders_of(con, stored, _PARENT.format("rtrim(key, '/')"))
    sql = f"""
        SELECT bucket, key, bool_or(keys_below) AS keys_below, bool_or(unentered) AS unentered FROM (
            SELECT bucket, key, keys_below, unentered FROM above
            UNION ALL SELECT DISTINCT bucket, {_PARENT.format("key")}, false, true FROM stored WHERE {lacking}
        ) GROUP BY bucket, key
    """
    return duck.query(con, sql, stored=stored, above=above)


def folders_of(con: Connection, rows: Rows, folder: str = FOLDER) -> Relation:
    """Return every folder that has one of these current objects below it, as rows of `folder_rows`.

    `folder` is the folder of a row, as SQL. Folders are far fewer than keys, so the direct ones are gathered before
    their ancestors are.
    """
    sql = f"""
        WITH direct AS (SELECT DISTINCT bucket, {folder} AS within FROM input),
        steps AS (
            SELECT bucket, parts, unnest(range(1, len(parts) + 1)) AS step
            FROM (SELECT bucket, string_split(within, '/') AS parts FROM direct)),
        above AS (SELECT DISTINCT bucket, array_to_string(parts[1:step], '/') AS key FROM steps)
        SELECT bucket, key, true AS keys_below, false AS unentered FROM above WHERE key <> ''
    """
    return duck.made_of(con, sql, rows)


def siblings(con: Connection, folders: Rows, sources: SourceFacts) -> Relation:
    """Return sums of sound file entries by folder (source, bucket, parent, files, bytes) with `owner`, their table."""
    # a table that holds one key of a folder holds all of its keys
    keyed = duck.query(con, "SELECT *, parent || '/' AS key FROM input WHERE files <> 0", input=folders)
    owned = attach_label(con, keyed, sources.roots, "owner")
    sql = f"""
        SELECT source, e.bucket, {_rooted(sources)} AS parent, owner, files, bytes FROM e WHERE owner IS NOT NULL
    """
    return duck.query(con, sql, e=owned)


def sibling_tallies(
    con: Connection, siblings: Rows, parents: Rows, sources: SourceFacts, policy: FindingPolicy
) -> Relation:
    """Tally siblings with their parent's entry; outcome is null if its state concerns each sibling.

    Columns: judged_table, axis, outcome (null: the siblings have to be judged one by one), files, bytes, source,
    bucket, parent.
    """
    sound = """parent_there AND NOT parent_is_tombstone AND NOT parent_is_file
        AND coalesce(parent_touched_at + grace <= cuts.start - cuts.margin, true)"""
    sql = f"""
        SELECT s.owner AS judged_table, 'metastore_tree' AS axis,
            CASE WHEN s.parent = '' OR coalesce({sound}, false) THEN 'consistent' END AS outcome,
            files, bytes, s.source, s.bucket, s.parent
        FROM siblings s
        LEFT JOIN parents p ON s.source = p.source AND s.bucket = p.bucket AND s.parent = p.key
        JOIN cuts ON cuts.source = s.source JOIN tables ON name = s.owner SEMI JOIN scope ON s.owner = scope_table
    """
    return duck.query(
        con,
        sql,
        siblings=siblings,
        parents=parents,
        cuts=sources.metastore_cuts,
        tables=sources.tables,
        scope=policy.scope_table,
    )


def lost_siblings(con: Connection, entries: Rows, lost: pa.Table, sources: SourceFacts) -> Relation:
    """Siblings of the folders `lost` (source, bucket, parent), to be judged one by one: rows of `with_folders`."""
    tree = tree_rows(con, entries, PAIR.empty_table(), sources)
    sql = "SELECT tree.* FROM tree SEMI JOIN lost USING (source, bucket, parent)"
    return with_folders(con, duck.query(con, sql, tree=tree, lost=lost), FOLDERS.empty_table())


def lost_folders(con: Connection, entries: Rows, lost: pa.Table) -> Relation:
    """Return the entries of the folders `lost` themselves: rows of `parent_rows`."""
    same = "e.source = lost.source AND e.bucket = lost.bucket AND e.key = lost.parent"
    return parent_rows(
        con, duck.query(con, f"SELECT e.* FROM e SEMI JOIN lost ON {same}", e=entries, lost=lost)
    )


def etag_habits(con: Connection, entries: Rows) -> Relation:
    """Count live file entries by source, and those with an ETag."""
    sql = """
        SELECT source, count(*) AS live_files, count(etag) AS with_etag FROM input
        WHERE NOT tombstone AND NOT is_dir AND NOT expired GROUP BY source
    """
    return duck.made_of(con, sql, entries)


def with_folders(con: Connection, tree: Rows, folders: Rows) -> Relation:
    """Join tree rows with the folders below their keys; every share of the keys may have a row of the same folder."""
    sql = """
        SELECT tree.* EXCLUDE (honoured, authoritative), coalesce(keys_below, false) AS keys_below,
            coalesce(unentered, false) AND authoritative AND honoured AS children_missing
        FROM tree LEFT JOIN (
            SELECT bucket, key, bool_or(keys_below) AS keys_below, bool_or(unentered) AS unentered
            FROM folders GROUP BY bucket, key) USING (bucket, key)
    """
    return duck.query(con, sql, tree=tree, folders=folders)


def tree_verdicts(
    con: Connection, children: Rows, parents: Rows, sources: SourceFacts, policy: FindingPolicy
) -> Relation:
    """Judge entries with their parents, once for each value of `mostly_etags`.

    An entry lacks its ETag if most live file entries of its store have one, which is known after all are read.
    """
    sql = """
        SELECT c.* EXCLUDE lacks_field,
            coalesce(parent_there, false) AS parent_found, coalesce(parent_is_tombstone, false) AS parent_is_tombstone,
            coalesce(parent_is_file, false) AS parent_is_file, parent_touched_at,
            mostly_etags, lacks_field OR (mostly_etags AND etag IS NULL) AS field_absent,
            grace, cuts.start - cuts.margin AS tree_edge, false AS h_metastore,
            substring(c.key, CAST(root_length AS INTEGER) + 1) AS relative, c.owner AS judged_table,
            'metastore_tree' AS axis
        FROM children c CROSS JOIN (VALUES (true), (false)) habits(mostly_etags)
        LEFT JOIN parents p ON c.source = p.source AND c.bucket = p.bucket AND c.parent = p.key
        JOIN cuts ON cuts.source = c.source
        JOIN tables ON name = c.owner
        SEMI JOIN scope ON c.owner = scope_table
    """
    rows = duck.query(
        con,
        sql,
        children=children,
        parents=parents,
        cuts=sources.metastore_cuts,
        tables=sources.tables,
        scope=policy.scope_table,
    )
    return judged_tree(con, rows, policy)


def judged_tree(con: Connection, rows: Rows, policy: FindingPolicy) -> Relation:
    """Judge TREE rows with axis and judged_table; also used to judge them again with evidence gaps."""
    fired = apply_rules(con, rows, TREE_FACTS, {"metastore_tree": file_rules.TREE})
    renamed = duck.made_of(con, "SELECT * RENAME (rule_metastore_tree AS rule) FROM input", fired)
    return with_outcome(con, renamed, policy)


def _rooted(sources: SourceFacts) -> str:
    """Return SQL for the parent; empty directly below the root of the store's scope, whose own item is not read."""
    tops = [f"{source}/{place.bucket}/{place.key}" for place, source in sources.scopes.items()]
    at_top = f"source || '/' || e.bucket || '/' || parent IN ({duck.literals(tops)})"
    return f"CASE WHEN {at_top} THEN '' ELSE parent END"


def _timed(sources: SourceFacts) -> str:
    return f"source IN ({duck.literals([*sources.ttls])})"
