"""Decode blocks of Avro files into columns; the one module that knows DataFusion.

DataFusion believes a file: it reads a truncated one as empty, compares no marks between blocks, and never returns from
a block with more bytes than records. Therefore it gets only blocks that `blocks` has unpacked within limits, as one
block, and behind the records of each file one more that carries a random number. If all of these arrive where they
belong, then every file has exactly the records that it counts.
"""

import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakeaudit.evidence.avro.blocks import Torn, file_head, header_of, plain_blocks, varint
from lakeaudit.evidence.avro.layout import Layout, Node, layout_of
from lakeaudit.runtime.failures import is_full_disk
from lakeaudit.runtime.scratch import scratch_root

AT_ONCE = 32 << 20
"""About the number of unpacked bytes that are decoded together."""
_DAMAGED = "it is incomplete or damaged"
_SYNC = b"lakeaudit's mark"


@dataclass(frozen=True)
class Piece:
    """Holds whole unpacked blocks of a file, how many records they count, and their bytes."""

    count: int
    blocks: tuple[bytes, ...]
    size: int


def pieces(blocks: Iterator[tuple[int, bytes]], size: int) -> Iterator[Piece]:
    """Yield the blocks of a file in pieces of about `size` bytes. An error of `blocks` comes after all before it.

    Raises:
        Torn: as `blocks` does.
    """
    held: list[tuple[int, bytes]] = []
    room = size
    try:
        for count, block in blocks:
            held.append((count, block))
            room -= len(block)
            if room <= 0:
                yield _piece(held)
                held, room = [], size
    except Torn:
        if held:
            yield _piece(held)
        raise
    if held:
        yield _piece(held)


def _piece(held: Sequence[tuple[int, bytes]]) -> Piece:
    blocks = tuple(block for _, block in held)
    return Piece(sum(count for count, _ in held), blocks, sum(map(len, blocks)))


def decode(layout: Layout, files: Sequence[Piece]) -> list[pa.StructArray | Torn]:
    """Return the records of each piece, or why they cannot be decoded; all pieces have this layout.

    The fields of records have the names f0, f1, ... `column` returns them.
    """
    if not files:
        return []
    try:
        return list(_decode_together(layout, files))
    except Torn as torn:
        if len(files) == 1:
            return [torn]
    return [decoded for each in files for decoded in decode(layout, [each])]


def column(layout: Layout, records: pa.StructArray, *names: str) -> tuple[pa.Array, Node | None]:
    """Return the values of a field, named by its path, and its type; nulls if the records have no such field."""
    node: Node | None = layout.root
    path: list[int] = []
    for name in names:
        index, node = node.fields.get(name, (-1, None)) if node is not None else (-1, None)
        path.append(index)
    if -1 in path:
        return pa.nulls(len(records)), node
    return pc.struct_field(records, path), node


def values(content: bytes, *fields: tuple[str, ...]) -> Iterator[tuple[Any, ...]]:
    """Yield the values of these fields, named by their paths, of each record of a file.

    Raises:
        Torn: the file cannot be read, or not from some point on.
    """
    header = header_of(content)
    layout = layout_of(header.values["avro.schema"])
    for piece in pieces(plain_blocks(content, header), AT_ONCE):
        (records,) = decode(layout, [piece])
        if isinstance(records, Torn):
            raise records
        yield from zip(*(column(layout, records, *field)[0].to_pylist() for field in fields), strict=True)


def _decode_together(layout: Layout, files: Sequence[Piece]) -> Iterator[pa.StructArray]:
    least = max(len(layout.root.shortest), 1)
    if any(each.count * least > each.size for each in files):
        raise Torn(_DAMAGED)
    number = 1 + secrets.randbelow((1 << 31) - 1)
    mark = layout.marked(number)
    ends = list(accumulate(each.count + 1 for each in files))
    records = _records(layout, [part for each in files for part in (*each.blocks, mark)], ends[-1])
    marks = records.field(layout.marker)
    if len(records) != ends[-1] or any(marks[end - 1].as_py() != number for end in ends):
        raise Torn(_DAMAGED)
    for end, each in zip(ends, files, strict=True):
        yield records.slice(end - 1 - each.count, each.count)


def _records(layout: Layout, block: Sequence[bytes], count: int) -> pa.StructArray:
    """Return the first `count` records of a block.

    A batch of exactly that many ends the reading before DataFusion looks for more of them.
    """
    import datafusion  # takes half a second, and most lakes have no Avro

    config = datafusion.SessionConfig().with_target_partitions(1).with_batch_size(count)
    with TemporaryDirectory(prefix="lakeaudit-", dir=scratch_root()) as folder:
        path = Path(folder, "block.avro")
        with path.open("wb") as file:
            file.writelines(_plain_file(layout, block, count))
        try:
            batches = datafusion.SessionContext(config).read_avro(path).limit(count).collect()
            records = pa.Table.from_batches(batches).combine_chunks().to_struct_array()
            records.validate(full=True)
        except BaseException as error:
            if not _is_of_content(error):
                raise
            raise Torn(_DAMAGED) from error
    return records.combine_chunks() if isinstance(records, pa.ChunkedArray) else records


def _plain_file(layout: Layout, block: Sequence[bytes], count: int) -> Iterator[bytes]:
    yield file_head({"avro.schema": layout.schema, "avro.codec": b"null"}, _SYNC)
    yield varint(count)
    yield varint(sum(map(len, block)))
    yield from block
    yield _SYNC


def _is_of_content(error: BaseException) -> bool:
    """Return whether the content causes an error. PyO3 raises a panic as a BaseException."""
    known = isinstance(error, Exception) or type(error).__name__ == "PanicException"
    return known and not is_full_disk(error)
