"""Rows of immutable parts, kept beside the results, so that they are decoded once and not in every reading.

A report's data file, or an export's, is gzipped CSV or JSON, and to decode it is most of an audit. What a part says of
itself (`Part.identity`: the content's own checksum, and all that its rows are made with) names the file that keeps its
rows: the second reading of the same audit takes it, and so does the next audit of the same report. Nothing but the rows
is kept, nothing of what was judged. Where there is no sound file, the part is read. Files may be deleted at any time,
and what an audit does not use, it deletes.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from functools import cache

import pyarrow as pa

from lakeaudit.engine.cached_files import CachedFiles, Writer, code_of
from lakeaudit.engine.chunks import drain, has_fault
from lakeaudit.evidence.protocol import Batches, Part
from lakeaudit.keys import Location, digest
from lakeaudit.runtime.aws import Clients
from lakeaudit.runtime.duck import Connection

FOLDER = ".kept"
WORTH = 1 << 20
"""Bytes of a part, as stored, from which on its rows are kept."""
READERS = ("evidence", "keys.py", "schemas", "runtime/duck.py")
"""The code that rows are made by."""


@dataclass(frozen=True)
class CachedRows:
    """The kept rows of one lake: plain data that travels to the tasks."""

    files: CachedFiles
    code: str
    """What is kept by other code is not taken, see `code_of_readers`."""

    def rows(self, con: Connection, part: Part) -> Batches:
        """A part's rows, as kept where they are, else as the part reads them."""
        if not _is_worth(part) or not (yield from self._from_cache(part)):
            yield from part.read(con)

    def rows_to_keep(self, con: Connection, part: Part) -> Batches:
        """The same; rows that were not kept are, if the part was read without a fault."""
        if not _is_worth(part):
            yield from part.read(con)
        elif not (yield from self._from_cache(part)):
            with self.files.writing(self.file_name(part)) as out:
                for kind, batch in drain(part.read(con), con):
                    _add(out, kind, batch)
                    yield kind, batch
                out.close()

    def prepare(self, parts: Sequence[Part]) -> None:
        """On the driver, before parts are read: the folder, without the files of parts that are not among these."""
        self.files.tidy({self.file_name(part) for part in parts if _is_worth(part)})

    def file_name(self, part: Part) -> str:
        """What the file of a part's rows is named by."""
        return "\n".join((self.code, part.identity))

    def _from_cache(self, part: Part) -> Generator[tuple[str, pa.RecordBatch], None, bool]:
        """Whether rows are kept (returned), after the rows."""
        with self.files.opened(self.file_name(part)) as records:
            yield from records or ()
            return records is not None


def cached_rows(results: Location, lake: str, clients: Clients) -> CachedRows:
    """The kept rows of a lake beside its results."""
    return CachedRows(CachedFiles(results.join(FOLDER, digest(lake)), clients), code_of_readers())


@cache
def code_of_readers() -> str:
    """A digest of all code that rows are made by: another version of it may make others of the same content."""
    return code_of(*READERS)


def _is_worth(part: Part) -> bool:
    return part.identity != "" and part.slow and part.weight >= WORTH


def _add(out: Writer, kind: str, batch: pa.RecordBatch) -> None:
    if kind == "notes" and has_fault(batch):
        out.discard()  # what was at fault may be mended without another content
    out.add(kind, batch)
