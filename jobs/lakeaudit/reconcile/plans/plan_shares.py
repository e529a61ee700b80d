"""Divide a plan's rows, in their order, into shares that tasks can plan: some rows of the ledger each, in Arrow.

The driver writes shares to small files in the results location, and joins the rows of the tasks one file at a time.
"""

import io
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

ROWS_A_FILE = 8192
"""Rows of the ledger that one task plans together."""
_LZ4 = pa.ipc.IpcWriteOptions(compression="lz4")
_ROWS, _GROUPS, _FILES, _LOST = b"rows", b"groups", b"files", b"lost"
_WHAT = b"share"


@dataclass(frozen=True)
class Share:
    """Some rows of the ledger. With `files` (of `leftover_files`) each file has a step, else each row.

    `lost`: rows about many files, none of which is in the results any more.
    """

    rows: pa.Table
    files: pa.Table | None = None
    lost: bool = False

    @property
    def steps(self) -> int:
        """Return the approximate number of steps."""
        return int((self.rows if self.files is None else self.files).num_rows)

    def write(self, out: io.BytesIO) -> None:
        """Append the share to a file."""
        _write(out, self.rows, _LOST if self.lost else _ROWS if self.files is None else _GROUPS)
        if self.files is not None:
            _write(out, self.files, _FILES)


def contents(shares: Iterator[Share]) -> Iterator[tuple[bytes, int]]:
    """Yield the content of each file of shares and its approximate number of steps; one in memory at a time."""
    out, steps = io.BytesIO(), 0
    for share in shares:
        share.write(out)
        steps += share.steps
        if steps >= ROWS_A_FILE:
            yield out.getvalue(), steps
            out, steps = io.BytesIO(), 0
    if steps:
        yield out.getvalue(), steps


def shares_in(content: bytes) -> Iterator[Share]:
    """Yield the shares of a file."""
    source = pa.BufferReader(content)
    while source.tell() < source.size():
        what, rows = _read(source)
        yield Share(rows, _read(source)[1] if what == _GROUPS else None, what == _LOST)


def _read(source: pa.BufferReader) -> tuple[bytes, pa.Table]:
    with pa.ipc.open_stream(source) as stream:
        return stream.schema.metadata[_WHAT], stream.read_all()


def _write(out: io.BytesIO, rows: pa.Table, what: bytes) -> None:
    whole = rows.combine_chunks()
    schema = whole.schema.with_metadata({_WHAT: what})
    with pa.ipc.new_stream(out, schema, options=_LZ4) as writer:
        writer.write_table(whole.cast(schema))
