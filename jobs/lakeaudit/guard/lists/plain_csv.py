"""Split blocks of CSV into cells at once, if all values are quoted or none is. Pure."""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from lakeaudit.guard.lists.protocol import split_text

MOST_OF_CELL = 1 << 20
"""Characters of the longest cell."""
_CELL, _ROW = b"\x1f", b"\x1e"


def plain_csv(block: bytes, cells: Sequence[int], delimiter: str) -> pa.RecordBatch | None:
    """Return the cells of a block of whole lines, a column for each; None: its lines need to be read one by one.

    Args:
        block: whole lines.
        cells: the numbers of cells that a row may have; the result has the least of them.
        delimiter: between cells.
    """
    text = _separated(block, delimiter.encode())
    rows = None if text is None else split_text(text, _ROW)
    if rows is None:
        return None
    split = pc.split_pattern(rows, _CELL.decode())
    lengths = pc.unique(pc.list_value_length(split)).to_pylist()
    if not {*lengths} <= {*cells} or pc.max(pc.binary_length(rows)).as_py() > MOST_OF_CELL:
        return None
    columns = [pc.list_element(split, at) for at in range(min(cells))]
    return pa.RecordBatch.from_arrays(columns, names=[str(at) for at in range(min(cells))])


def _separated(block: bytes, delimiter: bytes) -> bytes | None:
    """Return the block with separators that no value contains; None: it is not so simple."""
    if b"\0" in block or _CELL in block or _ROW in block:
        return None
    lines = block.count(b"\n")
    if b"\r" in block:
        if not block.count(b"\r") == block.count(b"\r\n") == lines:
            return None
        block = block.replace(b"\r\n", b"\n")
    block = block.removesuffix(b"\n")
    if not block or block.startswith(b"\n") or b"\n\n" in block or block.endswith(b"\n"):
        return None
    if b'"' not in block:
        return block.replace(delimiter, _CELL).replace(b"\n", _ROW)
    if len(block) < 2 or not (block.startswith(b'"') and block.endswith(b'"')):
        return None
    separated = block[1:-1].replace(b'"\n"', _ROW).replace(b'"' + delimiter + b'"', _CELL)
    return None if b'"' in separated or b"\n" in separated else separated
