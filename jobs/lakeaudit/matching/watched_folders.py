"""Sums files in watched places that belong to no table: by folder in tasks, and then by prefix.

Only a row per folder is exchanged. A folder includes partitions (`x=y`) and hidden folders (`_x`, `.x`) below it, so
that a table is mostly one folder, and its root is the folder that contains its log.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

import pyarrow as pa

from lakeaudit import keys
from lakeaudit.evidence.kind import TableRoot
from lakeaudit.evidence.registry import formats, roots
from lakeaudit.keys import Location
from lakeaudit.matching.prefix_match import Places, attach_label
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation, Rows
from lakeaudit.schemas import POINTED_OBJECT, UNOWNED_FOLDER, WATCHED_PREFIX

EXAMPLES = 3
MOST_PREFIXES = 1000
"""If more prefixes of a place have unowned files, one row represents the place."""

_HIDDEN = "(starts_with(part, '_') OR starts_with(part, '.'))"
_STOPS = f"({_HIDDEN} OR regexp_matches(part, '^[^=]+='))"
_DATA = rf"\.(parquet|orc|avro){keys.END}|^[0-9]{{6}}_[0-9]+"
"""Names of data files: columnar ones, and those that Hive gives (`000000_0`)."""


@dataclass(frozen=True)
class Watch:
    """Parameters of the sums of watched places: plain data that travels to the tasks.

    `places` have the names by which they are judged; `ignored` is a condition over kind, relative and judged_table.
    `objects` are rows (bucket, key) of catalog locations that may be a single object, which then belongs to a table.
    """

    places: Places
    leftover_age: timedelta
    ignored: str
    objects: pa.Table = field(default_factory=POINTED_OBJECT.empty_table)


def unowned_folders(con: Connection, matched: Rows, watch: Watch) -> Relation:
    """Sum current objects that no table owns and no manifest names, as UNOWNED_FOLDER rows."""
    free = """
        SELECT bucket, key, s_size, s_modified_at, s_from, s_margin, h_references FROM input
        WHERE owner IS NULL AND first AND s_presence = 'present' AND category <> 'marker'
            AND NOT (r_live OR r_history OR r_gone)
    """
    unnamed = "SELECT input.* FROM input ANTI JOIN objects USING (bucket, key)"
    unowned = duck.query(con, unnamed, input=duck.query(con, free, input=matched), objects=watch.objects)
    placed = attach_label(con, unowned, watch.places, "judged_table")
    lengths = " ".join(
        f"WHEN {duck.literal(name)} THEN {len(place.prefix)}" for place, name in watch.places.items()
    )
    cut = f"CASE judged_table {lengths} END"
    parts = f"""
        SELECT *, left(key, {cut}) AS place, substring(key, {cut} + 1) AS relative,
            string_split(substring(key, {cut} + 1), '/') AS parts
        FROM input WHERE judged_table IS NOT NULL
    """
    named = duck.query(con, _NAMED, input=duck.query(con, parts, input=placed))
    known = duck.query(con, _formatted(watch), input=named)
    for kind, column in (("unowned", "skip_unowned"), ("unregistered_table", "skip_table")):
        of_kind = duck.query(con, f"SELECT *, {duck.literal(kind)} AS kind FROM input", input=known)
        sql = f"SELECT * EXCLUDE (kind), coalesce({watch.ignored}, false) AS {column} FROM input"
        known = duck.query(con, sql, input=of_kind)
    return duck.conform(con, duck.query(con, _SUMS, input=known), UNOWNED_FOLDER)


_NAMED = f"""
    SELECT *, parts[len(parts)] AS file, parts[1:len(parts) - 1] AS folders,
        list_position(list_transform(parts[1:len(parts) - 1], lambda part: {_STOPS}), true) AS stop
    FROM input
"""


def _is_of_log(root: TableRoot) -> str:
    """Return SQL for whether a file belongs to a table's log in a folder that is not hidden."""
    shown = duck.pattern(f"^{root.below}{keys.END}")
    last = "folders[len(folders)]"
    return f"{last} = {duck.literal(root.folder)} AND regexp_matches({last} || '/' || file, {shown})"


def _formatted(watch: Watch) -> str:
    age = duck.literal(watch.leftover_age)
    unhidden = f"len(list_filter(folders[stop:], lambda part: {_HIDDEN})) = 0"
    seen = "NOT starts_with(file, '_') AND NOT starts_with(file, '.') AND s_size > 0"
    hidden = {name: root for name, root in roots().items() if root.is_hidden}
    visible = {name: root for name, root in roots().items() if not root.is_hidden}
    hidden_logs = " ".join(
        f"WHEN folders[stop] = {duck.literal(root.folder)} THEN {duck.literal(name)}"
        for name, root in hidden.items()
    )
    visible_logs = " ".join(
        f"WHEN stop IS NULL AND {_is_of_log(root)} THEN {duck.literal(name)}"
        for name, root in visible.items()
    )
    return f"""
        SELECT *, place || array_to_string(list_append(own, ''), '/') AS folder,
            s_modified_at + {age} <= s_from - s_margin AS old
        FROM (SELECT *,
            CASE WHEN stop IS NOT NULL THEN folders[1:stop - 1]
                WHEN format IN ({duck.literals([*visible])}) THEN folders[1:len(folders) - 1] ELSE folders END AS own
            FROM (SELECT *, CASE {hidden_logs}
                WHEN stop IS NOT NULL AND {unhidden} AND {seen} AND regexp_matches(file, {duck.pattern(_DATA)})
                    THEN 'hive'
                {visible_logs} END AS format
                FROM input))
    """


_BEST_FORMAT = "coalesce(max(format) FILTER (format <> 'hive'), max(format))"
_FOLDER = "judged_table, bucket, folder, skip_unowned, skip_table"
_UNSURE = "(h_references OR old IS NULL)"
_SUMS = f"""
    SELECT {_FOLDER}, {_BEST_FORMAT} AS format, coalesce(bool_or(old AND format IS NOT NULL), false) AS signed,
        count(*) FILTER (settled) AS files, coalesce(sum(s_size) FILTER (settled), 0) AS bytes,
        min(s_modified_at) FILTER (settled) AS oldest, max(s_modified_at) FILTER (settled) AS newest,
        min(key, {EXAMPLES}) FILTER (settled) AS examples,
        count(*) FILTER (NOT unsure AND NOT old) AS young, count(*) FILTER (unsure) AS unsure, min(s_from) AS cut
    FROM (SELECT *, {_UNSURE} AS unsure, coalesce(old, false) AND NOT {_UNSURE} AS settled FROM input)
    GROUP BY {_FOLDER}
"""


def sum_unowned_folders(con: Connection, rows: Rows) -> Relation:
    """Sum UNOWNED_FOLDER rows to one row a folder."""
    sql = f"SELECT {_FOLDER}, {_TOGETHER} FROM input GROUP BY {_FOLDER}"
    return duck.conform(con, duck.query(con, sql, input=rows), UNOWNED_FOLDER)


def _few(condition: str = "true") -> str:
    """Return SQL for the first examples of many lists."""
    return f"list_sort(flatten(list(examples) FILTER ({condition} AND examples IS NOT NULL)))[1:{EXAMPLES}]"


_TOGETHER = f"""
    {_BEST_FORMAT} AS format, bool_or(signed) AS signed, sum(files) AS files, sum(bytes) AS bytes,
    min(oldest) AS oldest, max(newest) AS newest, {_few()} AS examples,
    sum(young) AS young, sum(unsure) AS unsure, min(cut) AS cut
"""


def roots_of_tables(con: Connection, folders: Rows) -> tuple[list[Location], list[Location]]:
    """Return roots of tables among UNOWNED_FOLDER rows: those with a log, and those of Hive partitions."""
    found: tuple[list[Location], list[Location]] = ([], [])
    sql = "SELECT DISTINCT bucket, folder, format FROM input WHERE format IS NOT NULL ORDER BY ALL"
    for row in duck.rows_of(duck.query(con, sql, input=folders)):
        found[row["format"] not in formats()].append(Location(row["bucket"], row["folder"].removesuffix("/")))
    return found


@dataclass(frozen=True)
class NamedPlaces:
    """Places that the lake file or catalogs name, see `prefixes`.

    `tables` are the locations of the lake's tables, `named` those that catalogs name, `partitions` rows (bucket, key)
    of registered partitions; `untold`: not all catalogs could be read.
    """

    tables: Collection[Location]
    named: Collection[Location]
    partitions: Rows
    untold: bool


def prefixes(con: Connection, folders: Relation, places: Places, known: NamedPlaces) -> Relation:
    """Group UNOWNED_FOLDER rows into WATCHED_PREFIX rows with `skipped`, `young` and `unsure` files.

    A table's root is a prefix; the prefix of other folders is the highest folder around them that contains no table.
    """
    logged, partitioned = roots_of_tables(con, folders)
    rows = duck.query(con, "SELECT *, folder AS key FROM input", input=folders)
    for column, found in (("log_root", logged), ("folder_root", partitioned), ("named_root", known.named)):
        rows = attach_label(con, rows, {place: place.prefix for place in found}, column)
    marked = duck.hold(con, duck.query(con, _ROOTS, input=rows, registered=_registered(con, known)))
    trunk = [*known.tables, *known.named, *logged, *partitioned]
    grouped = duck.hold(con, _with_prefixes(con, marked, places, trunk))
    return _prefix_rows(con, grouped, untold=known.untold)


_ROOTS = """
    SELECT input.* EXCLUDE (key), coalesce(log_root, folder_root) AS root,
        named_root IS NOT NULL OR registered.folder IS NOT NULL AS named
    FROM input LEFT JOIN registered USING (bucket, folder)
"""


def _registered(con: Connection, known: NamedPlaces) -> Relation:
    """Return folders (bucket, folder) around registered partitions."""
    sql = """
        SELECT DISTINCT bucket, regexp_extract(rtrim(key, '/') || '/', '^((?:[^/=]+/)*)', 1) AS folder FROM input
        WHERE key IS NOT NULL
    """
    return duck.query(con, sql, input=known.partitions)


def _with_prefixes(con: Connection, rows: Relation, places: Places, trunk: Sequence[Location]) -> Relation:
    """Add `prefix`: the table's root, or the highest folder around that contains no table."""
    around = duck.small(_AROUND, sorted(set(_above(trunk))))
    starts = duck.small(_START, [(name, place.prefix, place.depth) for place, name in places.items()])
    sql = """
        WITH free AS (SELECT rows.*, start, depth FROM rows JOIN starts USING (judged_table)),
        above AS (
            SELECT judged_table, bucket, folder,
                unnest(list_transform(range(depth + 1, len(string_split(folder, '/'))),
                    lambda n: array_to_string(string_split(folder, '/')[1:n], '/') || '/')) AS prefix
            FROM free WHERE root IS NULL),
        highest AS (
            SELECT judged_table, bucket, folder, arg_min(prefix, length(prefix)) AS prefix
            FROM above ANTI JOIN around USING (bucket, prefix) GROUP BY ALL)
        SELECT free.* EXCLUDE (depth), coalesce(root, highest.prefix, folder) AS prefix
        FROM free LEFT JOIN highest USING (judged_table, bucket, folder)
    """
    return duck.query(con, sql, rows=rows, around=around, starts=starts)


_AROUND = pa.schema([("bucket", pa.string()), ("prefix", pa.string())])
_START = pa.schema([("judged_table", pa.string()), ("start", pa.string()), ("depth", pa.int64())])


def _above(places: Sequence[Location]) -> Iterator[tuple[str, str]]:
    """Yield (bucket, folder) of every folder that contains one of these places."""
    for place in places:
        parts = place.key.split("/")
        for depth in range(1, len(parts) + 1):
            yield place.bucket, "/".join(parts[:depth]) + "/"


def _prefix_rows(con: Connection, rows: Relation, *, untold: bool) -> Relation:
    sql = f"""
        WITH many AS (
            SELECT judged_table FROM rows WHERE root IS NULL AND NOT named
            GROUP BY judged_table HAVING count(DISTINCT prefix) > {MOST_PREFIXES}),
        gathered AS (
            SELECT rows.* REPLACE (CASE WHEN many.judged_table IS NOT NULL AND root IS NULL AND NOT named THEN start
                ELSE prefix END AS prefix, CASE WHEN root IS NOT NULL THEN format END AS format),
                CASE WHEN root IS NULL THEN skip_unowned ELSE skip_table END AS skip
            FROM rows LEFT JOIN many USING (judged_table))
        SELECT judged_table, bucket, prefix AS key, root IS NOT NULL AS is_table, named,
            substring(any_value(prefix), length(any_value(start)) + 1) AS relative, {duck.literal(untold)} AS untold,
            {_BEST_FORMAT} AS format, bool_or(signed) AS signed,
            coalesce(sum(files) FILTER (NOT skip), 0) AS files, coalesce(sum(bytes) FILTER (NOT skip), 0) AS bytes,
            min(oldest) FILTER (NOT skip) AS oldest, max(newest) FILTER (NOT skip) AS newest,
            {_few("NOT skip")} AS examples, min(cut) AS cut,
            coalesce(sum(files) FILTER (skip), 0) AS skipped, sum(young) AS young, sum(unsure) AS unsure
        FROM gathered GROUP BY judged_table, bucket, prefix, is_table, named
    """
    counted = duck.query(con, sql, rows=rows)
    extra = "skipped::BIGINT AS skipped, young::BIGINT AS young, unsure::BIGINT AS unsure"
    names = ", ".join(WATCHED_PREFIX.names)
    return duck.query(con, f"SELECT {names}, {extra} FROM input", input=counted)
