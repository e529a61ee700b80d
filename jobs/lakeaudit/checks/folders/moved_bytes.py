"""Find lost files whose bytes are under another key of their table, as after an unfinished or unrecorded rename.

Restoring such a file would double its rows for readers of the folder. Only the locations of damaged tables are listed,
and never more than MOST_LISTED keys of each.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import pyarrow as pa

from lakeaudit import keys
from lakeaudit.checks.folders.half_moved import UNREPEATED
from lakeaudit.collect.evidence import Evidence
from lakeaudit.config import Table
from lakeaudit.errors import SourceError
from lakeaudit.evidence.files import File, list_files
from lakeaudit.rules.file_facts import MD5_TEXT, PARTS_TEXT
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Relation

MOST_LISTED = 20_000
MOST_TABLES = 20
MOST_LOST = 1000
"""Lost files of a table that are searched for."""

Row = Mapping[str, Any]
_DIGEST = re.compile(f"{MD5_TEXT}|{PARTS_TEXT}")
_MOVED = pa.schema([(name, pa.string()) for name in ("table_name", "bucket", "key", "other")])


def with_other_places(evidence: Evidence, findings: Relation) -> Relation:
    """Return FINDINGS rows of files; a dropped file gets the file that has its bytes as `related_key`."""
    if duck.is_empty(findings):
        return findings
    tables = {
        table.name: table for table in evidence.scope if evidence.confirms(table) and table.location.is_in_s3
    }
    moved = [
        (name, lost["bucket"], lost["key"], other)
        for name, rows in list(_lost_files(evidence, findings, tables).items())[:MOST_TABLES]
        for lost, other in _same_bytes(evidence, tables[name], rows)
    ]
    if not moved:
        return findings
    sql = """
        SELECT findings.* REPLACE (
            CASE WHEN kind = 'dropped' AND other IS NOT NULL THEN other ELSE related_key END AS related_key,
            explanation || CASE WHEN kind = 'dropped' AND other IS NOT NULL THEN '; the same content is at s3://'
                || findings.bucket || '/' || other || ', as after a rename: move that file back or finish the rename; '
                || 'do not restore this file next to that copy' ELSE '' END AS explanation)
        FROM findings LEFT JOIN moved USING (table_name, bucket, key)
    """
    return duck.query(evidence.con, sql, findings=findings, moved=duck.small(_MOVED, moved))


def _lost_files(evidence: Evidence, findings: Relation, tables: Mapping[str, Table]) -> dict[str, list[Row]]:
    """Return dropped files by table that can be recognized: by their MD5, or by a name that no two writers give."""
    sql = f"""
        SELECT table_name, bucket, key, manifest_size, manifest_etag FROM input
        WHERE kind = 'dropped' AND table_name IN ({duck.literals([*tables])}) AND manifest_size > 0
        QUALIFY row_number() OVER (PARTITION BY table_name ORDER BY key) <= {MOST_LOST} ORDER BY table_name, key
    """
    lost: dict[str, list[Row]] = {}
    for row in duck.rows_of(duck.query(evidence.con, sql, input=findings)) if tables else ():
        if _by_bytes(row) or re.search(UNREPEATED, _name(row["key"])):
            lost.setdefault(row["table_name"], []).append(row)
    return lost


def _same_bytes(evidence: Evidence, table: Table, lost: Sequence[Row]) -> Iterator[tuple[Row, str]]:
    """Yield lost files, each with the key of a visible file that has the same bytes."""
    lost_keys = {row["key"] for row in lost}
    try:
        listed = list(islice(list_files(evidence.context.clients, table.location), MOST_LISTED))
    except SourceError:
        return
    there = [file for file in listed if file.place.key not in lost_keys and _is_visible(table, file)]
    by_bytes = {(file.size, file.etag): file.place.key for file in reversed(there)}
    by_name = {(file.size, file.name): file.place.key for file in reversed(there)}
    for row in lost:
        other = by_bytes.get((row["manifest_size"], row["manifest_etag"])) if _by_bytes(row) else None
        if other is None and row["manifest_etag"] is None and re.search(UNREPEATED, _name(row["key"])):
            other = by_name.get((row["manifest_size"], _name(row["key"])))
        if other is not None:
            yield row, other


def _by_bytes(row: Row) -> bool:
    return _DIGEST.fullmatch(row["manifest_etag"] or "") is not None


def _is_visible(table: Table, file: File) -> bool:
    return re.search(keys.HIDDEN, file.place.key.removeprefix(table.location.prefix)) is None


def _name(key: str) -> str:
    return key.rpartition("/")[2]
