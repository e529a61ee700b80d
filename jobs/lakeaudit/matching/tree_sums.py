"""Sums what trees of metadata stores need of plain objects and entries, so that cleared rows are not read again.

The projection pass sums all plain rows by folder. The full read subtracts the plain entries that it reads again,
because the rules judge each of them. Folders are not subtracted: storage has their objects whatever other
sources state.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import pyarrow as pa

from lakeaudit.matching import metastore_tree
from lakeaudit.matching.pairs import SourceFacts
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation, Rows

TreeSums = Mapping[str, pa.Table]
"""Rows of the kinds `folders`, `siblings` and `etag_habits`, see `metastore_tree`."""

KINDS = {"plain_folders": "folders", "plain_siblings": "siblings", "plain_habits": "etag_habits"}
"""By kind of an answer of the projection pass the kind of its rows, which are routed only in the full read."""

_TOTALS = {
    "folders": "SELECT DISTINCT * FROM input",
    "siblings": """
        SELECT source, bucket, parent, owner, CAST(sum(files) AS BIGINT) AS files, CAST(sum(bytes) AS BIGINT) AS bytes
        FROM input GROUP BY ALL
    """,
    "etag_habits": """
        SELECT source, CAST(sum(live_files) AS BIGINT) AS live_files, CAST(sum(with_etag) AS BIGINT) AS with_etag
        FROM input GROUP BY ALL
    """,
}


def plain_by_folder(con: Connection, entries: Rows, sources: SourceFacts, plain: str) -> Relation:
    """Sum the plain entries (`plain`: SQL) of stores with trees by folder.

    Columns: source, bucket, parent, files, bytes, live_files, with_etag. Folders without a plain entry have zeros.
    """
    counted = f"{plain} AND {metastore_tree.in_tree(sources)}"
    live = f"{counted} AND NOT expired"
    sql = f"""
        SELECT source, bucket, parent, count(*) FILTER ({counted}) AS files,
            CAST(coalesce(sum(size) FILTER ({counted}), 0) AS BIGINT) AS bytes,
            count(*) FILTER ({live}) AS live_files, count(etag) FILTER ({live}) AS with_etag
        FROM input GROUP BY source, bucket, parent
    """
    return duck.query(con, sql, input=entries)


def of_objects(con: Connection, folders: Rows) -> Iterator[tuple[str, Rows]]:
    """Return `folders` of rows (bucket, folder, plain): folders with or without plain objects of their own."""
    with_plain = duck.query(con, "SELECT * FROM input WHERE plain", input=folders)
    yield "folders", metastore_tree.folders_of(con, with_plain, "folder")


def of_entries(con: Connection, by_folder: Rows, sources: SourceFacts) -> Iterator[tuple[str, Rows]]:
    """Return `siblings` and `etag_habits` of rows of `plain_by_folder`."""
    yield "siblings", metastore_tree.siblings(con, by_folder, sources)
    yield "etag_habits", duck.query(con, _TOTALS["etag_habits"], input=by_folder)


def subtracted(con: Connection, by_folder: Rows, sources: SourceFacts) -> Iterator[tuple[str, Rows]]:
    """Return the same rows with negative numbers."""
    names = ("files", "bytes", "live_files", "with_etag")
    negative = ", ".join(f"-{name} AS {name}" for name in names)
    sql = f"SELECT * REPLACE ({negative}) FROM input"
    yield from of_entries(con, duck.query(con, sql, input=by_folder), sources)


def answers(sums: Iterable[tuple[str, Rows]]) -> Iterator[tuple[str, Rows]]:
    """Return sums as answers of the projection pass."""
    kinds = {kind: answer for answer, kind in KINDS.items()}
    yield from ((kinds[kind], rows) for kind, rows in sums)


def total(con: Connection, batches: Mapping[str, Sequence[pa.RecordBatch]]) -> TreeSums:
    """Return the sums of all answers: one row per folder, or per store."""
    return {
        kind: duck.table(duck.query(con, _TOTALS[kind], input=pa.Table.from_batches(batches[answer])))
        for answer, kind in KINDS.items()
        if batches.get(answer)
    }
