"""Read the instants in an archive of a timeline, file by file.

Format: layout 1 stores them in files of Hudi's log format ("Log File Format" of Apache Hudi's specification, blocks of
kind Avro with `HoodieArchivedMetaEntry`), layout 2 in Parquet files (`HoodieLSMTimelineInstant`).
"""

import io
import struct
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from lakeaudit.evidence.avro.blocks import Torn, container
from lakeaudit.evidence.avro.records import open_avro
from lakeaudit.evidence.manifest.hudi.timeline.names import in_order
from lakeaudit.evidence.manifest.hudi.timeline.payload import ACTIONS, Record, record_of

_MAGIC = b"#HUDI#"
_VERSIONS = (1, 2, 3)
_AVRO_BLOCK, _SCHEMA = 3, 2
_FIELDS = {
    "commit": "hoodieCommitMetadata",
    "deltacommit": "hoodieCommitMetadata",
    "replacecommit": "hoodieReplaceCommitMetadata",
    "clean": "hoodieCleanMetadata",
    "rollback": "hoodieRollbackMetadata",
    "savepoint": "hoodieSavePointMetadata",
}
_COLUMNS = ["instantTime", "completionTime", "action", "metadata"]


@dataclass(frozen=True)
class ArchivedInstant:
    """Holds a completed instant; `completed` is empty in layout 1."""

    begin: str
    completed: str
    action: str
    record: Record


def archived_instants(content: bytes, layout: int) -> Iterator[ArchivedInstant]:
    """Yield the completed instants of a file of the archive.

    Raises:
        Torn: it cannot be understood, or not from some point on.
    """
    if layout == 1:
        yield from _of_log(content)
    else:
        yield from _of_parquet(content)


def _of_log(content: bytes) -> Iterator[ArchivedInstant]:
    for schema, records in _avro_blocks(content):
        for entry in open_avro(container(schema, records)).records:
            action, begin = entry.get("actionType"), entry.get("commitTime")
            record = entry.get(_FIELDS.get(str(action), ""))
            if entry.get("actionState") in (None, "COMPLETED") and isinstance(record, dict):
                yield ArchivedInstant(in_order(str(begin)), "", str(action), record)


def _avro_blocks(content: bytes) -> Iterator[tuple[bytes, list[bytes]]]:
    """Yield (schema, records) of the file's blocks."""
    at, number = 0, 0
    while at < len(content):
        try:
            begin, end, kind = _block(content, at)
            block = _avro_block(content, begin, end) if kind == _AVRO_BLOCK else None
        except (struct.error, ValueError, LookupError) as error:
            raise Torn(f"it is incomplete or damaged after {number} blocks") from error
        if block is not None:
            yield block
        at, number = end, number + 1


def _block(content: bytes, at: int) -> tuple[int, int, int]:
    """Return (where the header of a block begins, where the block ends, its kind)."""
    size, version, kind = struct.unpack_from(">qii", content, at + len(_MAGIC))
    begin = at + len(_MAGIC) + 8
    if content[at : at + len(_MAGIC)] != _MAGIC or size < 8 or version not in _VERSIONS:
        raise ValueError("no block")
    if begin + size > len(content):
        raise ValueError("no whole block")
    return begin + 8, begin + size, kind


def _avro_block(content: bytes, at: int, end: int) -> tuple[bytes, list[bytes]]:
    header: dict[int, bytes] = {}
    (count,) = struct.unpack_from(">i", content, at)
    at += 4
    for _ in range(count):
        name, size = struct.unpack_from(">ii", content, at)
        header[name] = _slice(content, at + 8, size, end)
        at += 8 + size
    _, _, records = struct.unpack_from(">qii", content, at)
    at += 16
    found = []
    for _ in range(records):
        (size,) = struct.unpack_from(">i", content, at)
        found.append(_slice(content, at + 4, size, end))
        at += 4 + size
    return header[_SCHEMA], found


def _slice(content: bytes, at: int, size: int, end: int) -> bytes:
    if size < 0 or at + size > end:
        raise ValueError("it ends before")
    return content[at : at + size]


def _of_parquet(content: bytes) -> Iterator[ArchivedInstant]:
    try:
        file = pq.ParquetFile(io.BytesIO(content))
        for batch in file.iter_batches(1000, columns=_COLUMNS):
            for row in batch.to_pylist():
                if row["metadata"] and row["action"] in ACTIONS:
                    done = in_order(row["completionTime"] or "")
                    yield ArchivedInstant(
                        in_order(row["instantTime"]), done, row["action"], record_of(row["metadata"])
                    )
    except (pa.ArrowException, OSError, ValueError, LookupError, TypeError) as error:
        raise Torn("it is incomplete or damaged") from error
