"""Read the instants in an archive of a timeline, file by file.

Format: layout 1 stores them in files of Hudi's log format (blocks with `HoodieArchivedMetaEntry`), layout 2 in Parquet
files (`HoodieLSMTimelineInstant`).
"""

import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lakeaudit.evidence.avro.blocks import Torn, container, header_of, plain_blocks
from lakeaudit.evidence.avro.columns import AT_ONCE, Piece, column, decode, pieces
from lakeaudit.evidence.avro.layout import Layout, layout_of
from lakeaudit.evidence.avro.records import open_avro
from lakeaudit.evidence.manifest.hudi.timeline.log_blocks import avro_blocks
from lakeaudit.evidence.manifest.hudi.timeline.names import in_order
from lakeaudit.evidence.manifest.hudi.timeline.payload import ACTIONS, WRITES, Record, record_of
from lakeaudit.evidence.manifest.hudi.timeline.write_columns import WriteColumns, write_columns

_FIELDS = {
    "commit": "hoodieCommitMetadata",
    "deltacommit": "hoodieCommitMetadata",
    "replacecommit": "hoodieReplaceCommitMetadata",
    "clean": "hoodieCleanMetadata",
    "rollback": "hoodieRollbackMetadata",
    "savepoint": "hoodieSavePointMetadata",
}
_NAMES = ("commitTime", "actionType", "actionState")
_WRITES = {_FIELDS[action] for action in WRITES}
_DONE = (None, "COMPLETED")
_ROWS = 100
"""Instants that are decoded together."""
_FEW = 1 << 16
"""Bytes that take longer to decode into columns than one by one."""
LARGEST_WRITE = 1 << 27
"""Bytes of an unpacked write; larger ones are read entry by entry."""
_COLUMNS = ["instantTime", "completionTime", "action", "metadata"]


@dataclass(frozen=True)
class ArchivedInstant:
    """Holds a completed instant; `completed` is empty in layout 1.

    `read` returns its record, or raises `Torn` if it cannot be understood.
    """

    begin: str
    completed: str
    action: str
    read: Callable[[], Record]


@dataclass(frozen=True)
class ArchivedInstants:
    """Holds instants that follow one another; `writes` have decoded ones, by their number among the instants."""

    instants: tuple[ArchivedInstant, ...]
    writes: tuple[WriteColumns, ...]


def archived_instants(content: bytes, layout: int) -> Iterator[ArchivedInstants]:
    """Yield the completed instants of a file of the archive.

    Raises:
        Torn: it cannot be understood, or not from some point on.
    """
    yield from _of_log(content) if layout == 1 else _of_parquet(content)


def _of_log(content: bytes) -> Iterator[ArchivedInstants]:
    for schema, blocks in _together(avro_blocks(content)):
        decoded = _decoded_entries(schema, [record for block in blocks for record in block])
        if decoded is not None:
            yield decoded
            continue
        for block in blocks:
            yield from _entries_one_by_one(schema, block)


def _together(blocks: Iterator[tuple[bytes, list[bytes]]]) -> Iterator[tuple[bytes, list[list[bytes]]]]:
    """Join blocks with the same schema: most have one entry. An error of `blocks` comes after all before it."""
    schema, held, room = b"", list[list[bytes]](), AT_ONCE
    try:
        for other, records in blocks:
            if held and (other != schema or room <= 0):
                yield schema, held
                held, room = [], AT_ONCE
            schema, room = other, room - sum(map(len, records))
            held.append(records)
    except Torn:
        if held:
            yield schema, held
        raise
    if held:
        yield schema, held


def _entries_one_by_one(schema: bytes, records: Sequence[bytes]) -> Iterator[ArchivedInstants]:
    for entry in open_avro(container(schema, records)).records:
        action, begin = entry.get("actionType"), entry.get("commitTime")
        record = entry.get(_FIELDS.get(str(action), ""))
        if entry.get("actionState") in _DONE and isinstance(record, dict):
            instant = ArchivedInstant(in_order(str(begin)), "", str(action), partial(dict, record))
            yield ArchivedInstants((instant,), ())


def _decoded_entries(schema: bytes, records: Sequence[bytes]) -> ArchivedInstants | None:
    """Return the instants of blocks; None if columns take longer, or if they cannot be decoded into columns."""
    size = sum(map(len, records))
    if size < _FEW:
        return None
    try:
        layout = layout_of(schema)
    except Torn:
        return None
    nodes = (layout.root.fields.get(field) for field in {*_FIELDS.values()})
    if any(found is not None and found[1].kind != "record" for found in nodes):
        return None
    (entries,) = decode(layout, [Piece(len(records), tuple(records), size)])
    return None if isinstance(entries, Torn) else _columns_of_entries(schema, layout, records, entries)


def _columns_of_entries(
    schema: bytes, layout: Layout, records: Sequence[bytes], entries: pa.StructArray
) -> ArchivedInstants:
    instants: list[ArchivedInstant] = []
    rows: dict[str, dict[int, int]] = {}
    named = (column(layout, entries, name)[0].to_pylist() for name in _NAMES)
    for row, (begin, action, state) in enumerate(zip(*named, strict=True)):
        field = _FIELDS.get(str(action), "")
        record, node = column(layout, entries, field)
        if state in _DONE and node is not None and node.kind == "record" and record[row].is_valid:
            rows.setdefault(field, {})[row] = len(instants)
            read = partial(_entry_record, schema, records[row], field, (begin, action, state))
            instants.append(ArchivedInstant(in_order(str(begin)), "", str(action), read))
    writes = (
        write_columns(layout, entries.take(list(each)), list(each.values()), field)
        for field, each in rows.items()
        if field in _WRITES
    )
    return ArchivedInstants(tuple(instants), tuple(each for each in writes if each is not None))


def _entry_record(schema: bytes, content: bytes, field: str, names: tuple[Any, ...]) -> Record:
    """Decode an entry alone; it has to be the one that the columns have at its place."""
    entry = next(open_avro(container(schema, [content])).records, {})
    record = entry.get(field)
    if not isinstance(record, dict) or tuple(entry.get(name) for name in _NAMES) != names:
        raise Torn("its entries are not where its block says")
    return record


def _of_parquet(content: bytes) -> Iterator[ArchivedInstants]:
    try:
        file = pq.ParquetFile(io.BytesIO(content))
        batches = file.iter_batches(_ROWS, columns=_COLUMNS)
        while (batch := next(batches, None)) is not None:
            held = [
                _instant_of(row) for row in batch.to_pylist() if row["metadata"] and row["action"] in ACTIONS
            ]
            yield _decoded_writes(held)
    except (pa.ArrowException, OSError, ValueError, LookupError, TypeError) as error:
        raise Torn("it is incomplete or damaged") from error


def _instant_of(row: dict[str, Any]) -> tuple[ArchivedInstant, bytes]:
    content = row["metadata"]
    if not isinstance(content, bytes):
        raise TypeError("no bytes")
    begin, done = in_order(row["instantTime"]), in_order(row["completionTime"] or "")
    return ArchivedInstant(begin, done, row["action"], partial(record_of, content)), content


def _decoded_writes(held: Sequence[tuple[ArchivedInstant, bytes]]) -> ArchivedInstants:
    """Decode the contents of writes together if they have the same schema, about `AT_ONCE` bytes at a time."""
    writes: list[WriteColumns] = []
    alike: dict[bytes, list[tuple[int, Piece]]] = {}
    room = AT_ONCE
    large = sum(len(content) for _, content in held) >= _FEW
    for number, (instant, content) in enumerate(held if large else ()):
        if instant.action in WRITES and (found := _only_record(content)) is not None:
            alike.setdefault(found[0], []).append((number, found[1]))
            room -= found[1].size
        if room <= 0:
            writes += _columns_of_all(alike)
            alike, room = {}, AT_ONCE
    writes += _columns_of_all(alike)
    return ArchivedInstants(tuple(instant for instant, _ in held), tuple(writes))


def _columns_of_all(alike: dict[bytes, list[tuple[int, Piece]]]) -> list[WriteColumns]:
    return [columns for schema, each in alike.items() for columns in _columns_of(layout_of(schema), each)]


def _only_record(content: bytes) -> tuple[bytes, Piece] | None:
    """Return the schema and the bytes of the one record of an Avro file; None for others, and for larger ones."""
    try:
        header = header_of(content)
        (piece,) = pieces(plain_blocks(content, header), LARGEST_WRITE)
        layout_of(schema := header.values["avro.schema"])
    except (Torn, ValueError):
        return None
    return (schema, piece) if piece.count == 1 and piece.size < LARGEST_WRITE else None


def _columns_of(layout: Layout, packed: Sequence[tuple[int, Piece]]) -> Iterator[WriteColumns]:
    decoded = zip(packed, decode(layout, [piece for _, piece in packed]), strict=True)
    found = [(number, records) for (number, _), records in decoded if not isinstance(records, Torn)]
    if found:
        records = pa.concat_arrays([records for _, records in found])
        if (columns := write_columns(layout, records, [number for number, _ in found])) is not None:
            yield columns
