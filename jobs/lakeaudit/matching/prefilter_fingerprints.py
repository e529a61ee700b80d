"""Fingerprints of rows for the prefilter: hashes of keys, sizes and times; whether the row alone is plain."""

from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from lakeaudit.keys import TIERED_CLASSES
from lakeaudit.matching import metastore_tree, tree_sums
from lakeaudit.matching.duplicates import content_etag
from lakeaudit.matching.leftovers import LOG_OF_KEY
from lakeaudit.matching.prefilter import CLAIM, ENTRY, OBJECT, OTHER, Prefilter, is_keyed
from lakeaudit.matching.prefix_match import attach_label
from lakeaudit.rules.file_facts import LEAST_READABLE
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation, Rows

ODD = (
    "key = ''",
    "contains(key, ':')",
    "contains(key, '//')",
    "contains(key, '/.')",
    "starts_with(key, '/')",
    "starts_with(key, '.')",
    "ends_with(key, '/')",
    "ends_with(key, '_$folder$')",
)
"""Conditions for a key that a Hadoop path may not contain, see `keys.NOT_HADOOP`, or for a folder's placeholder."""

OBJECT_PLAIN = (
    "is_latest",
    "NOT is_delete_marker",
    f"size >= {LEAST_READABLE}",
    "NOT coalesce(archived, false)",
    f"(archived IS NOT NULL OR storage_class IN ({duck.literals(TIERED_CLASSES)}))",
    "NOT ({odd})",
)
"""Conditions, all of which hold for a current object that can be read. `odd` is any of ODD."""

ENTRY_PLAIN = (
    "answers",
    "NOT tombstone",
    "NOT is_dir",
    "(bare OR size IS NOT NULL)",
    "(bare OR etag IS NOT NULL)",
    "(opaque IS NOT TRUE OR last_updated IS NOT NULL)",
    "(mod_time IS NOT NULL OR last_updated IS NOT NULL)",
    "(bare OR last_updated_given)",
    "coalesce(greatest(last_updated, mod_time), TIMESTAMP '1970-01-01') <= {limit}",
)
"""Conditions, all of which hold for a complete entry of a file, in the responsible store (`answers`).

`limit` is the latest time of change up to which entries of its store can be judged.
"""


def fingerprints(prefilter: Prefilter, con: Connection, kind: str, rows: Rows) -> Iterator[tuple[str, Rows]]:
    """Make fingerprints of a part's rows; for objects also hashes of contents, and the folders of Delta logs.

    Notes are passed on: they report parts that could not be read.
    """
    if kind == "versions":
        held = duck.table(_objects(prefilter, con, rows))
        logs = "SELECT DISTINCT log_bucket AS bucket, log AS key FROM input WHERE log IS NOT NULL"
        yield "logs_seen", duck.query(con, logs, input=held)
        yield "contents", pa.concat_tables([_contents(held, name) for name in ("content", "alike")])
        if prefilter.entry_limits:
            yield from _with_folders(con, held)
        yield "traces", held.drop_columns(["content", "alike", "bucket", "folder", "log_bucket", "log"])
    elif kind == "entries":
        held = duck.table(_entries(prefilter, con, rows))
        folders = duck.table(_plain_by_folder(prefilter, con, held))
        yield from tree_sums.answers(tree_sums.of_entries(con, folders, prefilter.sources))
        yield "traces", _folders(con, folders, "parent")
        yield "traces", held.drop_columns(["source", "bucket", "parent", "expired", "bare"])
    elif kind in prefilter.traces:
        yield "traces", _claims(prefilter, con, prefilter.traces[kind](con, rows))
    elif is_keyed(kind):
        yield "traces", duck.query(con, f"SELECT {_fingerprint(OTHER, 'false')} FROM input", input=rows)
    elif kind == "notes":
        yield kind, rows


def _with_folders(con: Connection, objects: pa.Table) -> Iterator[tuple[str, Rows]]:
    """Yield the folders of plain objects, and fingerprints of all folders."""
    plain = f"SELECT bucket, folder, bool_or(side = {OBJECT}) AS plain FROM input GROUP BY bucket, folder"
    folders = duck.table(duck.query(con, plain, input=objects))
    yield from tree_sums.answers(tree_sums.of_objects(con, folders))
    yield "traces", _folders(con, folders, "folder")


def plain_entries(prefilter: Prefilter, con: Connection, entries: Rows) -> Relation:
    """Return the plain ones of these entries as sums by folder, see `tree_sums.plain_by_folder`."""
    return _plain_by_folder(prefilter, con, _entries(prefilter, con, entries))


def _plain_by_folder(prefilter: Prefilter, con: Connection, fingerprinted: Rows) -> Relation:
    return tree_sums.plain_by_folder(con, fingerprinted, prefilter.sources, f"side = {ENTRY}")


def _contents(objects: pa.Table, name: str) -> pa.Table:
    """Return the contents of one column that are known, with the hash of the object: content, h."""
    known = pc.is_valid(objects.column(name))
    return objects.select([name, "h"]).filter(known).rename_columns(["content", "h"])


def _fingerprint(side: int, plain: str, **given: str) -> str:
    """Return SQL for the columns of a fingerprint; only a plain one (`plain`: SQL, better a column) has attributes."""
    columns = {
        "owner": "INTEGER",
        "size": "BIGINT",
        "etag": "BIGINT",
        "version": "BIGINT",
        "time": "TIMESTAMP",
    }
    named = ", ".join(
        f"CASE WHEN {plain} THEN CAST({given[name]} AS {kind}) END AS {name}"
        if name in given
        else f"CAST(NULL AS {kind}) AS {name}"
        for name, kind in columns.items()
    )
    code = f"CASE WHEN {plain} THEN {side} ELSE {OTHER} END"
    return f"hash(bucket, key) AS h, CAST({code} AS TINYINT) AS side, {named}"


def _hash(column: str) -> str:
    return f"CASE WHEN {column} IS NOT NULL THEN CAST(hash({column}) >> 1 AS BIGINT) END"


def _objects(prefilter: Prefilter, con: Connection, rows: Rows) -> Relation:
    """Make fingerprints of the deciding source's objects, with `content`, and with `bucket` and `folder` if needed."""
    content = "CASE WHEN is_latest AND tells THEN hash(etag, size) WHEN summed THEN hash(checksum, size) END"
    # a content that cannot be compared with all others also gets a hash of name and size: an equal one is undecided
    unsure = """is_latest AND NOT is_delete_marker AND size IS NOT NULL
        AND NOT ((tells AND NOT contains(etag, '-')) OR summed)"""
    alike = f"CASE WHEN {unsure} THEN hash(parse_filename(key, false, 'forward_slash'), size, 'name') END"
    bucket, folder = ("bucket", metastore_tree.FOLDER) if prefilter.entry_limits else ("NULL", "NULL")
    attributes = _fingerprint(
        OBJECT,
        "plain",
        owner="owner",
        size="size",
        time="modified_at",
        etag=_hash("etag"),
        version=_hash("version_id"),
    )
    read = duck.query(con, "SELECT * FROM input WHERE reject IS NULL", input=rows)
    placed = attach_label(con, deciding_rows(prefilter, con, read), prefilter.numbers, "owner")
    sql = f"""
        SELECT {attributes}, {content} AS content, {alike} AS alike, {bucket} AS bucket, {folder} AS folder,
            {LOG_OF_KEY} AS log, CASE WHEN log IS NOT NULL THEN input.bucket END AS log_bucket
        FROM input
    """
    return duck.query(con, sql, input=_with_conditions(con, placed))


def _with_conditions(con: Connection, objects: Rows) -> Relation:
    """Add what several columns of a fingerprint ask: in a column of its own DuckDB evaluates it once."""
    plain = _all(OBJECT_PLAIN).format(odd=" OR ".join(ODD))
    tells = f"etag IS NOT NULL AND {content_etag('etag', 'multipart', 'encryption')}"
    summed = "is_latest AND checksum IS NOT NULL AND NOT starts_with(checksum, 'crc32')"
    sql = f"""
        SELECT *, coalesce({plain}, false) AS plain, coalesce({tells}, false) AS tells,
            coalesce({summed}, false) AS summed
        FROM input
    """
    return duck.query(con, sql, input=objects)


def _entries(prefilter: Prefilter, con: Connection, rows: Rows) -> Relation:
    """Make fingerprints of entries, with the columns of `tree_sums.plain_by_folder`."""
    limits = " ".join(
        f"WHEN {duck.literal(s)} THEN {duck.literal(at)}" for s, at in prefilter.entry_limits.items()
    )
    plain = _all(ENTRY_PLAIN).format(limit=f"CASE source {limits} END" if limits else "NULL")
    # an opaque entry counts only if it is younger than the object
    since = "CASE WHEN opaque THEN last_updated END"
    attributes = _fingerprint(
        ENTRY, "plain", size="size", etag=_hash("etag"), version=_hash("version_id"), time=since
    )
    read = duck.query(con, "SELECT * FROM input WHERE reject IS NULL", input=rows)
    placed = attach_label(con, read, prefilter.sources.scopes, "scope")
    everywhere = duck.literal(prefilter.sources.everywhere)
    # entries of another store do not count on the metastore axis, but their tree is judged
    answering = f"SELECT *, coalesce(coalesce(scope, {everywhere}) = source, false) AS answers FROM input"
    judged = duck.query(
        con,
        f"SELECT *, coalesce({plain}, false) AS plain FROM input",
        input=duck.query(con, answering, input=placed),
    )
    # these rows are valid, so `size` and `etag` of their fingerprints are those of plain entries
    sql = f"SELECT {attributes}, source, bucket, parent, expired, bare FROM input"
    return duck.query(con, sql, input=judged)


def _folders(con: Connection, rows: Rows, folder: str) -> Relation:
    """Make fingerprints of the folders of these rows and of all folders above, so that such keys are not cleared."""
    folders = metastore_tree.folders_of(con, rows, folder)
    return duck.query(con, f"SELECT {_fingerprint(OTHER, 'false')} FROM input", input=folders)


def _claims(prefilter: Prefilter, con: Connection, claims: Rows) -> Relation:
    etag = {"etag": _hash("etag")} if "etag" in duck.relation(con, claims).columns else {}
    attributes = _fingerprint(CLAIM, "plain", owner="number", size="input.size", time="claimed_at", **etag)
    tables = prefilter.tables.select(["name", "number"])
    return duck.query(
        con, f"SELECT {attributes} FROM input JOIN tables ON table_name = name", input=claims, tables=tables
    )


def _all(conditions: Iterable[str]) -> str:
    return f"({' AND '.join(conditions)})"


def deciding_rows(prefilter: Prefilter, con: Connection, versions: Rows) -> Relation:
    """Return the rows of the source that decides presence."""
    labelled = attach_label(con, versions, prefilter.sources.deciding, "decides")
    return duck.query(con, "SELECT * FROM input WHERE decides = source", input=labelled)
