"""What stands for the keys that a screen let go, kept beside it: the next second reading need not make it once more.

The REST of a part are its rows in buckets that are not read again. Nothing is asked of them but their folders,
`siblings` and `etag_habits` (see `screen_again.of_the_rest`), and how many rows the part has: that is kept, as long as
the screen is. Where a bucket has to be read again that was not, its keys are taken off the sums; their folders stay,
since storage has these objects, whatever else is said of them.
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
"""Bytes of a part, as stored, from which on its rest is kept."""


@dataclass(frozen=True)
class KeptRest:
    """The kept rest of one screen: plain data that travels to the tasks."""

    files: CachedFiles
    named: str
    sources: frozenset[str]
    """Storage and metadata stores, by id."""
    screen: Prefilter
    wanted: RowFilter
    more: bytes
    """Buckets that are read again beside those that were, as bits."""
    whole: Callable[[Connection, Part], Batches]
    """All rows of a part."""

    def rows(self, con: Connection, part: Part) -> Batches:
        """A part's rows without its rest, and what stands for that; it is kept where it was not."""
        if part.source not in self.sources or not part.identity or part.weight < WORTH:
            yield from self.whole(con, part)
            return
        named = f"{self.named} {part.identity}"
        with self.files.opened(named) as records:
            is_kept = records is not None
            yield from records or ()
        if is_kept:
            yield from self._again(con, part)
            return
        with self.files.writing(named) as out:
            yield from self._divided(con, part, out)
            out.close()

    def _again(self, con: Connection, part: Part) -> Batches:
        """Rows that are read again."""
        aside = con.cursor()  # while a connection streams rows it takes no other query
        for kind, batch in drain(self.whole(con, part), con, self._asked):
            if kind in REST:
                late = self._late(buckets_of(aside, batch))
                yield from self._off(aside, kind, batch.filter(pa.array(late)))
            yield kind, batch

    def _asked(self, con: Connection, kind: str, rows: Rows) -> Iterator[tuple[str, Rows]]:
        if kind not in REST:
            yield kind, rows
        elif isinstance(rows, pa.RecordBatch):
            sound = rows.filter(rows.column("reject").is_null())
            yield kind, sound.filter(pa.array(self.wanted.has(buckets_of(con, sound))))
        else:
            sound = duck.query(con, "SELECT * FROM input WHERE reject IS NULL", input=rows)
            yield kind, self.wanted.filtered(con, sound)

    def _divided(self, con: Connection, part: Part, out: Writer) -> Batches:
        """Rows that are read again, and what stands for the rest: that is written too."""
        counted = ReadCounts()
        aside = con.cursor()
        for kind, batch in drain(self.whole(con, part), con):
            if kind == "notes" and has_fault(batch):
                out.discard()  # what was at fault may be mended without another content
            if kind not in REST:
                yield kind, batch
                continue
            sound = counted.sound(part.source, batch)
            numbers = buckets_of(aside, sound)
            again, late = self.wanted.has(numbers), self._late(numbers)
            for of_kind, rows in of_the_rest(self.screen, aside, kind, sound.filter(pa.array(~again | late))):
                yield from _written(of_kind, rows, out)
            yield from self._off(aside, kind, sound.filter(pa.array(late)))
            yield kind, sound.filter(pa.array(again))
        yield from _written("counted", counted.table(), out)

    def _late(self, numbers: Any) -> Any:
        """Which keys of these buckets the kept sums hold, though they are read again."""
        return np.logical_and(bits_at(self.more, numbers), ~bits_at(self.wanted.twins, numbers))

    def _off(self, con: Connection, kind: str, batch: pa.RecordBatch) -> Batches:
        if batch.num_rows:
            yield from taken_off(self.screen, con, kind, batch)


def _written(kind: str, rows: Rows, out: Writer) -> Batches:
    for batch in list(batches_of(rows)):
        out.add(kind, batch)
        yield kind, batch
