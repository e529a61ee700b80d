"""Keep the lines of a long list on disk with the hashes of the objects that they name, and select lines by hashes."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa

from lakeaudit.guard.named_keys import key_hashes
from lakeaudit.keys import Aliases
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation
from lakeaudit.runtime.scratch import scratch_root
from lakeaudit.schemas import LISTED

LONG = 100_000
"""Lines of a list that is compared with tables by hashes first."""
Hashes = np.ndarray[Any, np.dtype[np.uint64]]
_HASHED = LISTED.append(pa.field("h", pa.uint64()))


@dataclass(frozen=True)
class LongList:
    """The lines of a long list.

    Attributes:
        path: file of Arrow with LISTED rows and `h`, see `named_keys.key_hashes`.
        once: the hashes that exactly one line has, sorted.
        repeated: the other hashes, sorted.
    """

    path: Path
    once: Hashes
    repeated: Hashes

    def first(self, hashes: Hashes, most: int) -> Hashes:
        """Return those of the sorted hashes that the first lines have, at most so many."""
        found: list[Hashes] = []
        for batch in self._batches():
            known = _hashes_of(batch)
            found.append(known[is_among(known, hashes)])
            if sum(map(len, found)) >= most:
                break
        return np.sort(np.concatenate([_NONE, *found])[:most])

    def lines_without(self, con: Connection, hashes: Hashes) -> Relation:
        """Return the LISTED rows of all lines except those with one of these hashes."""
        left = np.concatenate([self.repeated, self.once[~is_among(self.once, hashes)]])
        sql = f"""SELECT {", ".join(LISTED.names)} FROM rows WHERE h IS NULL OR h IN (SELECT h FROM chosen)"""
        rows = pa.RecordBatchReader.from_batches(_HASHED, self._batches())
        return duck.hold(con, duck.query(con, sql, rows=rows, chosen=pa.table({"h": left})))

    def _batches(self) -> Iterator[pa.RecordBatch]:
        with pa.OSFile(str(self.path)) as content, pa.ipc.open_stream(content) as stream:
            yield from stream


_NONE = np.empty(0, np.uint64)


@contextmanager
def held_list(
    con: Connection, batches: Iterable[pa.RecordBatch], aliases: Aliases, *, singly: bool = False
) -> Iterator[Relation | LongList]:
    """Read LISTED batches to their end; yield a LongList if there are many, else a relation of the connection.

    `singly`: each line needs an answer of its own, so the lines of a long list are held in the connection, too.
    """
    rest = iter(batches)
    head: list[pa.RecordBatch] = []
    while not singly and sum(map(len, head)) < LONG and (batch := next(rest, None)) is not None:
        head.append(batch)
    if sum(map(len, head)) < LONG:
        yield duck.hold_batches(con, LISTED, chain(head, rest))
        return
    with TemporaryDirectory(prefix="lakeaudit-", dir=scratch_root()) as folder:
        path = Path(folder) / "list.arrows"
        hashes = _write(con, chain(head, rest), aliases, path)
        hashes.sort()
        same = hashes[1:] == hashes[:-1]
        repeated = np.unique(hashes[1:][same])
        once = hashes[~(np.append(same, False) | np.append(False, same))]
        del head, hashes
        yield LongList(path, once, repeated)


def _write(con: Connection, batches: Iterable[pa.RecordBatch], aliases: Aliases, path: Path) -> Hashes:
    """Write the rows with their hashes; return all hashes."""
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    found = [_NONE]
    with pa.ipc.new_stream(str(path), _HASHED, options=options) as stream:
        for batch in batches:
            for hashed in duck.table(key_hashes(con, batch, aliases)).cast(_HASHED).to_batches():
                stream.write_batch(hashed)
                found.append(_hashes_of(hashed))
    return np.concatenate(found)


def _hashes_of(batch: pa.RecordBatch) -> Hashes:
    """Return a copy of the hashes of a batch: a column of DuckDB's result keeps its whole batch in memory."""
    return np.array(batch.column("h").drop_null(), np.uint64)


def is_among(values: Hashes, hashes: Hashes) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Return for each value whether it is one of the sorted hashes."""
    found = np.zeros(len(values), np.bool_)
    for start in range(0, len(values) if len(hashes) else 0, _AT_ONCE):
        few = values[start : start + _AT_ONCE]
        at = np.minimum(np.searchsorted(hashes, few), len(hashes) - 1)
        found[start : start + _AT_ONCE] = hashes[at] == few
    return found


_AT_ONCE = 1 << 20
"""Number of hashes that are looked up at once, which bounds the memory for their places."""
