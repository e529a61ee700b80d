"""Caches rows of immutable parts next to the results, so that they are decoded once.

A data file of a report or an export is gzipped CSV or JSON, and most of an audit is spent on decoding it. The identity
of a part (`Part.identity`: the checksum of the content, and all parameters of its rows) names the cached file. The
confirm step of the same audit reads it, and so does the next audit of the same report. Only rows are cached, not
verdicts. Without an intact file the part is read. Files may be deleted at any time; an audit deletes unused files.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from functools import cache

import pyarrow as pa

from lakeaudit.engine.cached_files import CachedFiles, Writer, code_of
from lakeaudit.engine.chunks import drain, has_fault
from lakeaudit.evidence.protocol import Batches, Part
from lakeaudit.keys import Location, digest
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.duck import Connection

FOLDER = ".kept"
WORTH = 1 << 20
"""Parts of at least this size, in stored bytes, are cached."""
READERS = ("evidence", "keys.py", "schemas", "runtime/duck.py")
"""The code that makes rows."""


@dataclass(frozen=True)
class CachedRows:
    """The cached rows of one lake: plain data that travels to the tasks."""

    files: CachedFiles
    code: str
    """Rows of other code are not used, see `code_of_readers`."""

    def rows(self, con: Connection, part: Part) -> Batches:
        """Return a part's rows from the cache, or read the part."""
        if not _is_worth(part) or not (yield from self._from_cache(part)):
            yield from part.read(con)

    def rows_to_keep(self, con: Connection, part: Part) -> Batches:
        """Return a part's rows like `rows`, and cache them if the part is read without a fault."""
        if not _is_worth(part):
            yield from part.read(con)
        elif not (yield from self._from_cache(part)):
            with self.files.writing(self.file_name(part)) as out:
                for kind, batch in drain(part.read(con), con):
                    _add(out, kind, batch)
                    yield kind, batch
                out.close()

    def prepare(self, parts: Sequence[Part]) -> None:
        """Create the folder and delete files of other parts; called on the driver before parts are read."""
        self.files.tidy({self.file_name(part) for part in parts if _is_worth(part)})

    def file_name(self, part: Part) -> str:
        """Return the identity that names the file of a part's rows."""
        return "\n".join((self.code, part.identity))

    def _from_cache(self, part: Part) -> Generator[tuple[str, pa.RecordBatch], None, bool]:
        """Yield cached rows; return whether there were any."""
        with self.files.opened(self.file_name(part)) as records:
            yield from records or ()
            return records is not None


def cached_rows(results: Location, lake: str, clients: Clients) -> CachedRows:
    """Return the cached rows of a lake, next to its results."""
    return CachedRows(CachedFiles(results.join(FOLDER, digest(lake)), clients), code_of_readers())


@cache
def code_of_readers() -> str:
    """Return a digest of all code that makes rows: another version may make other rows of the same content."""
    return code_of(*READERS)


def _is_worth(part: Part) -> bool:
    return part.identity != "" and part.slow and part.weight >= WORTH


def _add(out: Writer, kind: str, batch: pa.RecordBatch) -> None:
    if kind == "notes" and has_fault(batch):
        out.discard()  # the cause of the fault may be repaired without a change of the content
    out.add(kind, batch)
