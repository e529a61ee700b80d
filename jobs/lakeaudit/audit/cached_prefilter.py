"""Stores the result of the prefilter next to the results, for the next audit of the same report and export.

Whether a bucket of keys is cleared depends only on the fingerprints of its rows (see `matching.prefilter`). If the
unchangeable parts are the same as in the stored result, and fingerprints are made and joined by the same code, only
LOOSE rows can change a bucket: rows of commits, of the ledger, and of anything that is read where it is. So a bucket
without a loose row, then and now, is cleared if it was cleared then; the other buckets are read again.

The stored result lists the buckets that were not cleared and the buckets with loose rows. For each cleared key it has
bucket, table and size, to subtract the key from the sums if its bucket is read again. It contains no verdicts. The
prefilter runs completely if the stored result does not fit, or if more than a twentieth of the keys would be read
again. No result is stored if most files change with each audit (listings, scans, lists).
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
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
from lakeaudit.matching.tree_sums import TreeSums
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Rows

FOLDER = ".screen"
MOST = 20
"""At most one key of this many may be read again because of loose rows."""

_SUMS = pa.struct([("name", pa.string()), ("files", pa.int64()), ("bytes", pa.int64())])
_LOCATION = pa.struct([("bucket", pa.string()), ("key", pa.string())])
_STORED = pa.schema(
    [
        ("again", pa.binary()),  # buckets, as bits
        ("twins", pa.binary()),
        ("loose", pa.binary()),
        ("settled", pa.list_(_SUMS)),
        ("logs", pa.list_(_LOCATION)),
        ("keys", pa.list_(pa.string())),  # names of the files of cleared keys
    ]
)
"""One row: the stored result; `trees` are stored beside it, under their kinds."""
_RESULT = "prefilter"


@dataclass(frozen=True)
class PrefilterResult:
    """The cleared files and bytes by table, the buckets to read again, and the tables whose logs storage has.

    Attributes:
        keys: names of the files of cleared keys.
        trees: sums of all plain rows for the trees of metadata stores.
        has_fault: whether a part could not be read.
    """

    settled: Sequence[Mapping[str, Any]]
    row_filter: RowFilter
    logs: frozenset[Location]
    keys: Sequence[str] = ()
    trees: TreeSums = field(default_factory=dict)
    has_fault: bool = False

    @property
    def files(self) -> int:
        """Return the number of cleared files."""
        return sum(row["files"] for row in self.settled)


@dataclass(frozen=True)
class PrefilterCache:
    """Loads and stores the result under one name; `numbers` has the tables by their numbers in fingerprints."""

    files: CachedFiles
    name: str
    loose: Sequence[Part | BufferedRows]
    numbers: Mapping[int, str]

    def load(self, engine: AuditEngine) -> PrefilterResult | None:
        """Return the stored result for the current rows; None if it does not fit."""
        with self.files.opened(self.name) as records:
            if records is None:
                return None
            batches: dict[str, list[pa.RecordBatch]] = defaultdict(list)
            for kind, batch in records:
                batches[kind].append(batch)
        ((stored,),) = (batch.to_pylist() for batch in batches.pop(_RESULT))
        more = _minus(_either(stored["loose"], _loose_buckets(engine, self.loose)), stored["again"])
        if count_of(more) * MOST > sum(row["files"] for row in stored["settled"]):
            return None
        sums = self._sums_in(stored["keys"], more)
        if sums is None:
            return None
        row_filter = RowFilter(_either(stored["again"], more), stored["twins"])
        settled = [_less(row, *sums[row["name"]]) for row in stored["settled"]]
        logs = frozenset(Location(p["bucket"], p["key"]) for p in stored["logs"])
        trees = {kind: pa.Table.from_batches(rows) for kind, rows in batches.items()}
        return PrefilterResult(settled, row_filter, logs, trees=trees)

    def stage(self, prefilter: Prefilter) -> Stage:
        """Return a stage that clears keys and writes them to files; it answers `kept` (name), one row per file."""
        self.files.tidy([self.name])
        return partial(_clear_and_write, self.files, self.name, prefilter)

    def store(self, result: PrefilterResult, engine: AuditEngine) -> None:
        """Store a result if the next audit can probably use it."""
        row_filter = result.row_filter
        loose = _loose_buckets(engine, self.loose)
        if result.has_fault or count_of(_minus(loose, row_filter.again)) * MOST > result.files:
            self.files.tidy(())
            return
        logs = [{"bucket": place.bucket, "key": place.key} for place in sorted(result.logs)]
        row = (row_filter.again, row_filter.twins, loose, [*result.settled], logs, [*result.keys])
        self.files.tidy([self.name, *result.keys])
        with self.files.writing(self.name) as out:
            out.add(_RESULT, duck.small(_STORED, [row]).to_batches()[0])
            for kind, sums in result.trees.items():
                for batch in sums.to_batches():
                    out.add(kind, batch)
            out.close()

    def _sums_in(self, names: Iterable[str], buckets: bytes) -> dict[str, tuple[int, int]] | None:
        """Return by table (files, bytes) of the cleared keys in these buckets; None if a file is missing."""
        counts, sizes = Counter[str](), Counter[str]()
        for name in names:
            with self.files.opened(name) as records:
                if records is None:
                    return None
                for _, batch in records:
                    among = pa.array(bits_at(buckets, np.asarray(batch["bucket"])))
                    of_tables = pa.table(batch.filter(among)).group_by("number")
                    for row in of_tables.aggregate([("size", "count"), ("size", "sum")]).to_pylist():
                        counts[self.numbers[row["number"]]] += row["size_count"]
                        sizes[self.numbers[row["number"]]] += row["size_sum"]
        return {name: (counts[name], sizes[name]) for name in self.numbers.values()}


def prefilter_cache(
    evidence: Evidence, prefilter: Prefilter, rows: Sequence[Part | BufferedRows]
) -> PrefilterCache | None:
    """Return the cache of these rows; None if the next audit could hardly use the stored result."""
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
        or len(evidence.scope) < len(evidence.lake.tables)  # a result of the whole lake is more useful
    ):
        return None
    made_by = (
        code_of_prefilter(),
        _stable_text(_parameters(prefilter)),
        *sorted(part.identity for part in firm),
    )
    folder = evidence.lake.results.join(FOLDER, digest(evidence.lake.name))
    numbers = {row["number"]: row["name"] for row in prefilter.tables.to_pylist()}
    return PrefilterCache(CachedFiles(folder, evidence.context.clients), digest(*made_by), loose, numbers)


def _is_firm(rows: Part | BufferedRows) -> TypeGuard[Part]:
    return isinstance(rows, Part) and rows.identity != ""


@cache
def code_of_prefilter() -> str:
    """Return a digest of all code that makes fingerprints and clears keys by them."""
    audit = ("cached_prefilter.py", "kernel.py", "projection_pass.py")
    rooms = ("rules", "matching", "findings", "checks", "engine")
    return code_of(*READERS, *rooms, *(f"audit/{name}" for name in audit))


def _parameters(prefilter: Prefilter) -> tuple[object, ...]:
    """Return everything except rows that determines fingerprints and how they are joined."""
    facts = prefilter.sources
    sources = (facts.roots, facts.deciding, facts.scopes, facts.everywhere)
    return sources, prefilter.tables, prefilter.entry_limits, prefilter.traces


def _stable_text(value: object) -> str:
    """Return a value as text that is the same in every process."""
    if isinstance(value, partial):
        return _stable_text((value.func, value.args, value.keywords))
    if isinstance(value, pa.Table):
        return _stable_text(value.to_pylist())
    if isinstance(value, Mapping):
        return f"{{{', '.join(sorted(f'{_stable_text(k)}: {_stable_text(v)}' for k, v in value.items()))}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_stable_text, value))}]"
    if isinstance(value, FunctionType):
        return f"{value.__module__}.{value.__qualname__}"
    return repr(value)


def _loose_buckets(engine: AuditEngine, rows: Sequence[Part | BufferedRows]) -> bytes:
    """Return the buckets of these rows, as bits."""
    answers = engine.run(rows, [], Reading(project=_buckets))
    return bitmap(batch.column("bucket").to_numpy() for kind, batch in answers if kind == "touched")


def _buckets(con: Connection, kind: str, rows: Rows) -> Iterator[tuple[str, Rows]]:
    if is_keyed(kind):
        sql = f"SELECT DISTINCT {bucket_of('hash(bucket, key)')} AS bucket FROM input"
        yield "touched", duck.query(con, sql, input=rows)


def _clear_and_write(
    files: CachedFiles, name: str, prefilter: Prefilter, con: Connection, rows: Mapping[str, Rows]
) -> Iterator[tuple[str, Rows]]:
    for kind, answers in cleared_keys(prefilter, con, rows, singly=True):
        if kind != "keys":
            yield kind, answers
            continue
        of_share = f"{name} {uuid4().hex}"
        with files.writing(of_share) as out:
            for batch in duck.relation(con, answers).to_arrow_reader(duck.BATCH_ROWS):
                out.add(kind, batch)
            out.close()
        yield "kept", pa.table({"name": [of_share]})


def _less(row: Mapping[str, Any], files: int, size: int) -> dict[str, Any]:
    return {"name": row["name"], "files": row["files"] - files, "bytes": row["bytes"] - size}


def _either(one: bytes, other: bytes) -> bytes:
    return (np.frombuffer(one, np.uint8) | np.frombuffer(other, np.uint8)).tobytes()


def _minus(one: bytes, other: bytes) -> bytes:
    return (np.frombuffer(one, np.uint8) & ~np.frombuffer(other, np.uint8)).tobytes()
