"""The last screen of the same report and export, kept beside the results: most of it need not be made again.

A bucket of keys is let go, or not, by the traces of its rows alone (see `matching.prefilter`). Where parts that never
change are the same as in the audit that kept its screen, and traces are made and met in the same way, a bucket can only
differ if another row is in it: of commits, of the ledger, of anything that is read where it lies. Such rows are LOOSE.
So a bucket that had no loose row then, and has none now, is let go or not as it was then; any other is read again.

Kept are the buckets that were not let go, those with loose rows, and of each key that was let go its bucket, table and
size, to take it from the sums when its bucket is read again. Nothing that was judged is kept. Where anything does not
fit, or more than a twentieth of the keys would have to be read again, a screen is made anew; where files change with
each audit (listings, scans, lists) none is kept.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from types import FunctionType
from typing import Any, TypeGuard
from uuid import uuid4

import numpy as np
import pyarrow as pa

from lakeaudit.collect.evidence import Evidence
from lakeaudit.engine.cached_files import CachedFiles, code_of
from lakeaudit.engine.cached_rows import READERS
from lakeaudit.engine.chunks import Reading
from lakeaudit.engine.local import AuditEngine
from lakeaudit.evidence.protocol import BufferedRows, Part, Stage, pieces
from lakeaudit.keys import Location, digest
from lakeaudit.matching.prefilter import Prefilter, bucket_of, cleared_keys, is_keyed
from lakeaudit.matching.prefiltered_reads import RowFilter, bitmap, bits_at, count_of
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Rows

FOLDER = ".screen"
MOST = 20
"""One of so many keys may be read again because of loose rows."""

_SETTLED = pa.struct([("name", pa.string()), ("files", pa.int64()), ("bytes", pa.int64())])
_PLACE = pa.struct([("bucket", pa.string()), ("key", pa.string())])
_SCREEN = pa.schema(
    [
        ("again", pa.binary()),  # buckets, as bits
        ("twins", pa.binary()),
        ("loose", pa.binary()),
        ("settled", pa.list_(_SETTLED)),
        ("logs", pa.list_(_PLACE)),
        ("keys", pa.list_(pa.string())),  # names of files of keys that were let go
        ("rest", pa.string()),  # what files of the rest are named by, see `kept_rest`
    ]
)
"""What is kept of one screen: a row."""


@dataclass(frozen=True)
class Screened:
    """What a screen says: files and bytes let go by table, buckets to read again, tables whose logs storage has."""

    settled: Sequence[Mapping[str, Any]]
    wanted: RowFilter
    logs: frozenset[Location]
    keys: Sequence[str] = ()
    """Files of the keys that were let go."""
    more: bytes = bitmap(())
    """Of the buckets to read again those that the kept screen had let go."""
    rest: str = ""
    """What files of the rest are named by; empty: the screen is not kept."""
    faulted: bool = False
    """Whether a part could not be read."""

    @property
    def files(self) -> int:
        """How many were let go."""
        return sum(row["files"] for row in self.settled)


@dataclass(frozen=True)
class KeptScreen:
    """What there is to keep a screen by: its name, and the rows that are loose."""

    kept: CachedFiles
    named: str
    loose: Sequence[Part | BufferedRows]
    numbers: Mapping[int, str]
    """The tables, as traces number them."""

    def last(self, engine: AuditEngine) -> Screened | None:
        """What the kept screen says of the rows as they are now; None: it does not fit."""
        with self.kept.opened(self.named) as records:
            if records is None:
                return None
            ((_, batch),) = records
            (was,) = batch.to_pylist()
        more = _minus(_either(was["loose"], _touched(engine, self.loose)), was["again"])
        if count_of(more) * MOST > sum(row["files"] for row in was["settled"]):
            return None
        taken = self._taken(was["keys"], more)
        if taken is None:
            return None
        wanted = RowFilter(_either(was["again"], more), was["twins"])
        settled = [_less(row, *taken[row["name"]]) for row in was["settled"]]
        logs = frozenset(Location(p["bucket"], p["key"]) for p in was["logs"])
        return Screened(settled, wanted, logs, more=more, rest=was["rest"])

    def stage(self, screen: Prefilter) -> Stage:
        """The screen, which writes down the keys that it lets go; answers `kept` (name) of each file of them."""
        self.kept.tidy([self.named])
        return partial(_keeping, self.kept, self.named, screen)

    def keep(self, screened: Screened, engine: AuditEngine) -> Screened:
        """Put down what a screen said, if the next audit could be spared it."""
        wanted = screened.wanted
        loose = _touched(engine, self.loose)
        if screened.faulted or count_of(_minus(loose, wanted.again)) * MOST > screened.files:
            self.kept.tidy(())
            return screened
        rest = uuid4().hex
        logs = [{"bucket": place.bucket, "key": place.key} for place in sorted(screened.logs)]
        row = (wanted.again, wanted.twins, loose, [*screened.settled], logs, [*screened.keys], rest)
        self.kept.tidy([self.named, *screened.keys])
        with self.kept.writing(self.named) as out:
            out.add("screen", duck.small(_SCREEN, [row]).to_batches()[0])
            out.close()
        return replace(screened, rest=rest)

    def _taken(self, files: Iterable[str], buckets: bytes) -> dict[str, tuple[int, int]] | None:
        """By table (files, bytes) of the keys in these buckets; None: not all files are there."""
        counts, sizes = Counter[str](), Counter[str]()
        for named in files:
            with self.kept.opened(named) as records:
                if records is None:
                    return None
                for _, batch in records:
                    among = pa.array(bits_at(buckets, np.asarray(batch["bucket"])))
                    of_tables = pa.table(batch.filter(among)).group_by("number")
                    for row in of_tables.aggregate([("size", "count"), ("size", "sum")]).to_pylist():
                        counts[self.numbers[row["number"]]] += row["size_count"]
                        sizes[self.numbers[row["number"]]] += row["size_sum"]
        return {name: (counts[name], sizes[name]) for name in self.numbers.values()}


def kept_screen(
    evidence: Evidence, screen: Prefilter, rows: Sequence[Part | BufferedRows]
) -> KeptScreen | None:
    """How the screen of these rows is kept; None: the next one could hardly be spared."""
    sources = evidence.observed.sources
    stored = [*pieces(*(each.rows for side in (sources.storage, sources.metastores) for each in side))]
    firm = [each for each in rows if _is_firm(each)]
    loose = [each for each in rows if not _is_firm(each)]
    weight = sum(each.weight for each in loose if isinstance(each, Part))
    if (
        not all(map(_is_firm, stored))
        or len(firm) == len(stored)
        or weight * MOST > sum(part.weight for part in firm)
        or evidence.folder_count is not None
        or len(evidence.scope) < len(evidence.lake.tables)  # the whole lake's is worth more
    ):
        return None
    made_by = code_of_screens(), _told(_made_with(screen)), *sorted(part.identity for part in firm)
    folder = evidence.lake.results.join(FOLDER, digest(evidence.lake.name))
    numbers = {row["number"]: row["name"] for row in screen.tables.to_pylist()}
    return KeptScreen(CachedFiles(folder, evidence.context.clients), digest(*made_by), loose, numbers)


def _is_firm(rows: Part | BufferedRows) -> TypeGuard[Part]:
    return isinstance(rows, Part) and rows.identity != ""


@cache
def code_of_screens() -> str:
    """A digest of all code that traces, and what is let go by them, are made by."""
    audit = ("cached_prefilter.py", "cached_rest.py", "kernel.py", "projection_pass.py")
    rooms = ("rules", "matching", "findings", "checks", "engine")
    return code_of(*READERS, *rooms, *(f"audit/{name}" for name in audit))


def _made_with(screen: Prefilter) -> tuple[object, ...]:
    """All that traces and their meeting follow from, beside rows."""
    of = screen.sources
    sources = (of.roots, of.deciding, of.scopes, of.everywhere)
    return sources, screen.tables, screen.entry_limits, screen.traces


def _told(value: object) -> str:
    """A value in words, the same in every process."""
    if isinstance(value, partial):
        return _told((value.func, value.args, value.keywords))
    if isinstance(value, pa.Table):
        return _told(value.to_pylist())
    if isinstance(value, Mapping):
        return f"{{{', '.join(sorted(f'{_told(k)}: {_told(v)}' for k, v in value.items()))}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_told, value))}]"
    if isinstance(value, FunctionType):
        return f"{value.__module__}.{value.__qualname__}"
    return repr(value)


def _touched(engine: AuditEngine, rows: Sequence[Part | BufferedRows]) -> bytes:
    """The buckets of these rows."""
    answers = engine.run(rows, [], Reading(project=_buckets))
    return bitmap(batch.column("bucket").to_numpy() for kind, batch in answers if kind == "touched")


def _buckets(con: Connection, kind: str, rows: Rows) -> Iterator[tuple[str, Rows]]:
    if is_keyed(kind):
        sql = f"SELECT DISTINCT {bucket_of('hash(bucket, key)')} AS bucket FROM input"
        yield "touched", duck.query(con, sql, input=rows)


def _keeping(
    kept: CachedFiles, named: str, screen: Prefilter, con: Connection, rows: Mapping[str, Rows]
) -> Iterator[tuple[str, Rows]]:
    for kind, found in cleared_keys(screen, con, rows, singly=True):
        if kind != "keys":
            yield kind, found
            continue
        of_share = f"{named} {uuid4().hex}"
        with kept.writing(of_share) as out:
            for batch in duck.relation(con, found).to_arrow_reader(duck.BATCH_ROWS):
                out.add(kind, batch)
            out.close()
        yield "kept", pa.table({"name": [of_share]})


def _less(row: Mapping[str, Any], files: int, size: int) -> dict[str, Any]:
    return {"name": row["name"], "files": row["files"] - files, "bytes": row["bytes"] - size}


def _either(one: bytes, other: bytes) -> bytes:
    return (np.frombuffer(one, np.uint8) | np.frombuffer(other, np.uint8)).tobytes()


def _minus(one: bytes, other: bytes) -> bytes:
    return (np.frombuffer(one, np.uint8) & ~np.frombuffer(other, np.uint8)).tobytes()
