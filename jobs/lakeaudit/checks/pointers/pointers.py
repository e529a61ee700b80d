"""Compare the pointers of catalogs with the folders in storage: the subjects of the axis `pointer`.

A folder belongs to a partition if it is at or below the location of the partition; locations are compared exactly, as
keys are. Values are compared as Hive unescapes them (`%3A`); names of partition columns are case-insensitive.
"""

from collections.abc import Sequence

import pyarrow as pa

from lakeaudit.matching.pairs import SourceFacts
from lakeaudit.matching.pointer_folders import HIDDEN_FOLDER, folders_above
from lakeaudit.matching.prefix_match import attach_label
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation, Rows
from lakeaudit.schemas import PARTITION_FOLDER, PARTITION_POINTER, TABLE_POINTER

_HIDDEN = f"regexp_matches(rtrim({{}}, '/'), {duck.pattern(HIDDEN_FOLDER)})"
_OF_TABLE = ("judged_table", "catalog", "catalog_id", "table_name")


def below(con: Connection, folders: Rows) -> Relation:
    """Count files in folders and below them by (bucket, key): all objects, visible ones and removed ones.

    Readers see visible files; `with_content` counts the visible files that are not empty.
    """
    visible = f"NOT {_HIDDEN.format('substring(folder, length(above) + 1)')}"
    sql = f"""
        SELECT bucket, above AS key, CAST(sum(objects) AS BIGINT) AS objects,
            CAST(coalesce(sum(visible) FILTER ({visible}), 0) AS BIGINT) AS visible,
            CAST(coalesce(sum(files) FILTER ({visible}), 0) AS BIGINT) AS with_content,
            CAST(coalesce(sum(removed) FILTER ({visible}), 0) AS BIGINT) AS removed
        FROM input GROUP BY bucket, above
    """
    return duck.query(con, sql, input=folders_above(con, folders))


def partition_pointers(
    con: Connection, partitions: Rows, named: pa.Table, held: Rows, sources: SourceFacts, gaps: Sequence[str]
) -> Relation:
    """Return PARTITION_POINTER rows of registered partitions; `held` has rows of `below`."""
    sql = f"""
        SELECT {", ".join(f"n.{name}" for name in _OF_TABLE)}, p.bucket, p.key, registered_at, grace,
            {_partition_path("n.columns", "p.values")} AS partition_path,
            CASE WHEN p.bucket = root_bucket AND starts_with(p.key, root) THEN substring(p.key, length(root) + 1) END
                AS relative,
            coalesce(visible, 0) AS visible, coalesce(visible, 0) AS files, CAST(0 AS BIGINT) AS bytes,
            coalesce(removed, 0) AS removed, coalesce(p.filled_said, false) AS filled_said, p.rows_said,
            coalesce(p.content_said, false) AS content_said, coalesce(with_content, 0) AS with_content,
            p.filled_said IS NULL AND coalesce(n.filled_said, false) AS table_said, false AS all_empty
        FROM (SELECT DISTINCT * FROM partitions) p
        JOIN named n ON p.source = n.catalog_id AND p.table_name = n.table_name AND partitioned
        LEFT JOIN held h ON p.bucket = h.bucket AND p.key = h.key
    """
    rows = duck.query(con, sql, partitions=partitions, named=named, held=held)
    placed = _with_snapshot(con, rows, sources, gaps, PARTITION_POINTER)
    # a partition that is too new is not known to be empty
    old = "(registered_at IS NULL OR coalesce(registered_at + grace <= edge, true))"
    all_empty = f"""
        SELECT * REPLACE (coalesce(count(*) FILTER ({old}) OVER whole > 1
            AND bool_and(visible = 0 AND edge IS NOT NULL) FILTER ({old}) OVER whole, false) AS all_empty)
        FROM input WINDOW whole AS (PARTITION BY catalog_id, table_name)
    """
    return duck.hold(con, duck.query(con, all_empty, input=placed))


def _partition_path(columns: str, values: str) -> str:
    """Return SQL of `col=value/col=value`."""
    pair = f"coalesce({columns}[n], '?') || '=' || coalesce({values}[n], '')"
    pairs = f"list_transform(range(1, len({values}) + 1), lambda n: {pair})"
    return f"array_to_string({pairs}, '/')"


def partition_folders(
    con: Connection,
    folders: Rows,
    registered: Rows,
    named: pa.Table,
    sources: SourceFacts,
    gaps: Sequence[str],
) -> Relation:
    """Return PARTITION_FOLDER rows of folders with files that belong to no partition of a table.

    `registered` has rows of `partition_pointers`; a table that several catalogs name is judged for each catalog.
    """
    owned = duck.hold(con, attach_label(con, _keyed(con, folders), sources.roots, "owner"))
    known = [(sources.co_owners.get(name, name), name) for name in sources.homes]
    tables = duck.small(_TABLE_OF_PLACE, known)
    inside = f"""
        SELECT f.*, n.* EXCLUDE (bucket, key), string_split(substring(folder, length(root) + 1), '/') AS parts
        FROM owned f JOIN tables ON owner = first_owner
        JOIN named n ON name = judged_table AND partitioned AND f.bucket = root_bucket AND starts_with(folder, root)
        WHERE files > 0 AND NOT {_HIDDEN.format("substring(folder, length(root) + 1)")}
    """
    candidates = duck.hold(con, duck.query(con, inside, owned=owned, named=named, tables=tables))
    free = """
        SELECT c.* FROM candidates c ANTI JOIN (
            SELECT DISTINCT a.folder, p.catalog_id, p.table_name FROM above a
            JOIN registered p ON a.bucket = p.bucket AND a.above = p.key AND a.catalog_id = p.catalog_id
                AND a.table_name = p.table_name) h USING (folder, catalog_id, table_name)
    """
    above = folders_above(con, duck.query(con, "SELECT * EXCLUDE parts FROM input", input=candidates))
    unregistered = duck.query(con, free, candidates=candidates, above=above, registered=registered)
    rows = _with_partition_values(con, _by_partition(con, unregistered), registered)
    return _with_snapshot(con, rows, sources, gaps, PARTITION_FOLDER)


_TABLE_OF_PLACE = pa.schema([("first_owner", pa.string()), ("name", pa.string())])


def _keyed(con: Connection, folders: Rows) -> Relation:
    return duck.query(con, "SELECT *, folder AS key FROM input", input=folders)


def _by_partition(con: Connection, folders: Rows) -> Relation:
    """Return one row for each folder at the depth of partitions, with the files in and below it."""
    sql = f"""
        SELECT {", ".join(_OF_TABLE)}, bucket, columns, root, grace, leftover_age, catalog_edge, untold,
            array_to_string(parts[1:len(columns)], '/') || '/' AS relative, parts[1:len(columns)] AS parts,
            CAST(sum(files) AS BIGINT) AS files, CAST(sum(bytes) AS BIGINT) AS bytes,
            min(oldest) AS oldest, max(newest) AS newest
        FROM input WHERE len(parts) > len(columns) GROUP BY ALL
    """
    return duck.query(con, sql, input=folders)


_NAMES = "list_transform({}, lambda part: lower(string_split(part, '=')[1]))"
_VALUES = "list_transform(parts, lambda part: {})"
_ESCAPED = "substring(part, strpos(part, '=') + 1)"
_UNESCAPED = f"coalesce(TRY(url_decode(replace({_ESCAPED}, '+', '%2B'))), {_ESCAPED})"
_VALUE = f"CASE WHEN contains({_ESCAPED}, '%') THEN {_UNESCAPED} ELSE {_ESCAPED} END"
_SHAPE = "regexp_replace({}, '[0-9]+', '0', 'g')"


def _with_partition_values(con: Connection, folders: Rows, registered: Rows) -> Relation:
    """Return the rows with the partition values in their names, and whether these values are registered."""
    sql = f"""
        WITH parsed AS (
            SELECT *, root || relative AS key,
                len(list_filter(parts, lambda part: contains(part, '='))) = len(columns)
                    AND {_NAMES.format("parts")} = {_NAMES.format("columns")} AS named,
                {_VALUES.format(_VALUE)} AS values
            FROM folders),
        named AS (
            SELECT *, CASE WHEN named THEN {_partition_path("columns", "values")} ELSE '' END AS partition_path
            FROM parsed),
        known AS (
            SELECT catalog_id, table_name, partition_path, bool_or(visible > 0) AS filled FROM registered
            GROUP BY ALL),
        shapes AS (
            SELECT DISTINCT catalog_id, table_name, {_SHAPE.format("relative")} AS shape FROM registered
            WHERE relative IS NOT NULL AND NOT contains(relative, '='))
        SELECT n.*, known.partition_path IS NOT NULL AS registered, coalesce(filled, false) AS registered_filled,
            NOT named AND shape IS NOT NULL AS alike
        FROM named n LEFT JOIN known USING (catalog_id, table_name, partition_path)
        LEFT JOIN shapes s ON s.catalog_id = n.catalog_id AND s.table_name = n.table_name
            AND shape = {_SHAPE.format("n.relative")}
    """
    return duck.query(con, sql, folders=folders, registered=registered)


def table_pointers(
    con: Connection, named: pa.Table, registered: Rows, held: Rows, sources: SourceFacts, gaps: Sequence[str]
) -> Relation:
    """Return TABLE_POINTER rows of tables by their locations."""
    sql = f"""
        WITH filled AS (
            SELECT catalog_id, table_name, count(*) FILTER (visible > 0 OR edge IS NULL) AS partitions_filled,
                bool_or(filled_said) AS counted, CAST(sum(removed) AS BIGINT) AS removed
            FROM registered GROUP BY ALL)
        SELECT {", ".join(f"n.{name}" for name in _OF_TABLE)}, n.bucket, n.key, '' AS partition_path, '' AS relative,
            format, changed_at, grace, filled_said OR coalesce(counted, false) AS filled_said,
            coalesce(h.removed, 0) + coalesce(f.removed, 0) AS removed,
            coalesce(partitions_filled, 0) AS partitions_filled,
            coalesce(objects, 0) AS objects, coalesce(objects, 0) AS files, CAST(0 AS BIGINT) AS bytes,
            'location' AS aim, NULL AS left_behind
        FROM named n LEFT JOIN filled f USING (catalog_id, table_name)
        LEFT JOIN held h ON n.bucket = h.bucket AND n.key = h.key
        WHERE n.bucket IS NOT NULL
    """
    rows = duck.query(con, sql, named=named, registered=registered, held=held)
    return _with_snapshot(con, rows, sources, gaps, TABLE_POINTER)


def _with_snapshot(
    con: Connection, rows: Rows, sources: SourceFacts, gaps: Sequence[str], schema: pa.Schema
) -> Relation:
    """Return the rows with the storage snapshot that decides at their places."""
    decided = attach_label(con, rows, sources.deciding, "decides")
    sql = f"""
        SELECT r.*, start - margin AS edge, start AS cut, NULL AS look, NULL AS look_there,
            coalesce(decides IN ({duck.literals([*gaps])}), false) AS storage_holed
        FROM decided r LEFT JOIN cuts ON decides = cuts.source
    """
    known = duck.query(con, sql, decided=decided, cuts=sources.storage_cuts)
    return duck.hold(con, duck.conform(con, known, schema))
