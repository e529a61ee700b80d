"""Stores what other keys need of cleared keys, next to the stored result of the prefilter.

The REST of a part are its rows in buckets that are not read again. Only its folders, `siblings`, `etag_habits` (see
`prefiltered_reads.of_the_rest`) and the number of rows of the part are needed; they are stored for as long as the
prefilter's result. If a cleared bucket has to be read again, its keys are subtracted from the sums. Their folders
remain, because storage has these objects whatever the other sources state about them.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from lakeaudit.engine.cached_files import CachedFiles, Writer
from lakeaudit.engine.chunks import ReadCounts, batches_of, drain, has_fault
from lakeaudit.evidence.protocol import Batches, Part
from lakeaudit.matching.prefilter import Prefilter
from lakeaudit.matching.prefiltered_reads import REST, RowFilter, bits_at, buckets_of, of_the_rest, taken_off
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Rows

WORTH = 1 << 20
"""The rest of a part is stored from this size (bytes in storage)."""


@dataclass(frozen=True)
class CachedRest:
    """The stored rest of one prefilter result: plain data that travels to the tasks.

    Attributes:
        sources: ids of storage sources and metadata stores.
        more: buckets that are read again although the stored result had cleared them, as bits.
        whole: reads all rows of a part.
    """

    files: CachedFiles
    name: str
    sources: frozenset[str]
    prefilter: Prefilter
    row_filter: RowFilter
    more: bytes
    whole: Callable[[Connection, Part], Batches]

    def rows(self, con: Connection, part: Part) -> Batches:
        """Yield a part's rows without its rest, and the sums of the rest; store the sums if they are not stored yet."""
        if part.source not in self.sources or not part.identity or part.weight < WORTH:
            yield from self.whole(con, part)
            return
        name = f"{self.name} {part.identity}"
        with self.files.opened(name) as records:
            is_stored = records is not None
            yield from records or ()
        if is_stored:
            yield from self._read_again(con, part)
            return
        with self.files.writing(name) as out:
            yield from self._divide(con, part, out)
            out.close()

    def _read_again(self, con: Connection, part: Part) -> Batches:
        """Yield the rows that are read again."""
        aside = con.cursor()  # while a connection streams rows it takes no other query
        for kind, batch in drain(self.whole(con, part), con, self._filtered):
            if kind in REST:
                late = self._late(buckets_of(aside, batch))
                yield from self._off(aside, kind, batch.filter(pa.array(late)))
            yield kind, batch

    def _filtered(self, con: Connection, kind: str, rows: Rows) -> Iterator[tuple[str, Rows]]:
        if kind not in REST:
            yield kind, rows
        elif isinstance(rows, pa.RecordBatch):
            sound = rows.filter(rows.column("reject").is_null())
            yield kind, sound.filter(pa.array(self.row_filter.has(buckets_of(con, sound))))
        else:
            sound = duck.query(con, "SELECT * FROM input WHERE reject IS NULL", input=rows)
            yield kind, self.row_filter.filtered(con, sound)

    def _divide(self, con: Connection, part: Part, out: Writer) -> Batches:
        """Yield the rows that are read again, and the sums of the rest, which are also written to `out`."""
        counted = ReadCounts()
        aside = con.cursor()
        for kind, batch in drain(self.whole(con, part), con):
            if kind == "notes" and has_fault(batch):
                out.discard()  # the fault may disappear without a change of the content
            if kind not in REST:
                yield kind, batch
                continue
            sound = counted.sound(part.source, batch)
            numbers = buckets_of(aside, sound)
            again, late = self.row_filter.has(numbers), self._late(numbers)
            for of_kind, rows in of_the_rest(
                self.prefilter, aside, kind, sound.filter(pa.array(~again | late))
            ):
                yield from _write(of_kind, rows, out)
            yield from self._off(aside, kind, sound.filter(pa.array(late)))
            yield kind, sound.filter(pa.array(again))
        yield from _write("counted", counted.table(), out)

    def _late(self, numbers: Any) -> Any:
        """Return for each bucket whether the stored sums contain its keys although it is read again."""
        return np.logical_and(bits_at(self.more, numbers), ~bits_at(self.row_filter.twins, numbers))

    def _off(self, con: Connection, kind: str, batch: pa.RecordBatch) -> Batches:
        if batch.num_rows:
            yield from taken_off(self.prefilter, con, kind, batch)


def _write(kind: str, rows: Rows, out: Writer) -> Batches:
    for batch in list(batches_of(rows)):
        out.add(kind, batch)
        yield kind, batch
