"""What the screen has not let go, read again: which rows of a part that takes, and what of the others others need."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from lakeaudit.matching import metastore_tree, prefilter
from lakeaudit.matching.prefilter import Prefilter, bucket_of, is_filtered, is_keyed
from lakeaudit.matching.prefilter_fingerprints import deciding_rows
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation, Rows


@dataclass(frozen=True)
class RowFilter:
    """Buckets that are read again: all of their keys (`again`), and those judged on their content alone (`twins`)."""

    again: bytes
    twins: bytes

    @property
    def count(self) -> int:
        """How many buckets."""
        return count_of(self.again) + count_of(self.twins)

    @cached_property
    def buckets(self) -> pa.Table:
        """The buckets of both, in a column `wanted`."""
        octets = np.frombuffer(self.again, np.uint8) | np.frombuffer(self.twins, np.uint8)
        at = np.flatnonzero(octets)  # nearly all are zero
        bits = np.unpackbits(octets[at], bitorder="little").reshape(-1, 8)
        return pa.table({"wanted": (at[:, None] * 8 + np.arange(8))[bits == 1].astype(np.uint32)})

    def has(self, numbers: Any) -> Any:
        """For each of these buckets, given as a NumPy array, whether it is read again."""
        return bits_at(self.again, numbers) | bits_at(self.twins, numbers)

    def filtered(self, con: Connection, rows: Rows) -> Relation:
        """Of rows (bucket, key, ...) those that are read again."""
        sql = f"SELECT * FROM input SEMI JOIN buckets ON {_bucket()} = wanted"
        return duck.query(con, sql, input=rows, buckets=self.buckets)


def _bucket() -> str:
    """The bucket of a row, in SQL."""
    return bucket_of("hash(bucket, key)")


def buckets_of(con: Connection, batch: pa.RecordBatch) -> Any:
    """The bucket of each row (bucket, key), as a NumPy array."""
    hashed = duck.query(con, f"SELECT {_bucket()} AS number FROM input", input=batch)
    return np.asarray(duck.table(hashed)["number"])


def bitmap(buckets: Iterable[Any]) -> bytes:
    """The buckets, given as NumPy arrays, as a map of bits."""
    flags = np.zeros(1 << prefilter.BITS, dtype=bool)
    for numbers in buckets:
        flags[numbers] = True
    return np.packbits(flags, bitorder="little").tobytes()


def count_of(bits: bytes) -> int:
    """How many buckets are in a map of bits."""
    return int.from_bytes(bits).bit_count()


def bits_at(bits: bytes, numbers: Any) -> Any:
    """For each of these buckets, given as a NumPy array, whether it is in a map of bits."""
    octets = np.frombuffer(bits, dtype=np.uint8)
    return (octets[numbers >> 3] >> (numbers & 7).astype(np.uint8)) & 1 == 1


def ask_again(wanted: RowFilter, con: Connection, kind: str, rows: Rows) -> Iterator[tuple[str, Rows]]:
    """Of rows that stand for nothing beside themselves only those that `read_again` would take: fewer are decoded."""
    if is_filtered(kind):
        rows = wanted.filtered(con, rows)
    yield kind, rows


def read_again(
    prefilter: Prefilter,
    wanted: RowFilter,
    metastores: bool,
    con: Connection,
    kind: str,
    batch: pa.RecordBatch,
) -> Iterator[tuple[str, Rows]]:
    """Of a batch of rows those that have to be read again, and what of the others has to meet other keys.

    Kinds beside the rows' own: `settled_keys` (bucket, key) are let go and judged on their content alone; `folders`,
    `siblings` and `etag_habits` stand for let-go objects and entries where metadata stores have a tree.
    """
    if not is_keyed(kind):
        yield kind, batch
        return
    numbers = buckets_of(con, batch)
    again, twins = bits_at(wanted.again, numbers), bits_at(wanted.twins, numbers)
    yield kind, batch.filter(pa.array(again | twins))
    twins_alone = batch.filter(pa.array(twins & ~again))
    if twins_alone.num_rows:
        yield "settled_keys", twins_alone.select(["bucket", "key"])
    if metastores and kind in REST:
        yield from of_the_rest(prefilter, con, kind, batch.filter(pa.array(~again)))


def of_the_rest(
    prefilter: Prefilter, con: Connection, kind: str, batch: pa.RecordBatch
) -> Iterator[tuple[str, Rows]]:
    """What of let-go objects and entries has to meet other keys."""
    rest = batch.select(REST[kind])
    if rest.num_rows and kind == "versions":
        yield "folders", metastore_tree.folders_of(con, deciding_rows(prefilter, con, rest))
    elif rest.num_rows:
        of_trees = duck.hold(con, metastore_tree.of_trees(con, rest))
        yield "siblings", metastore_tree.siblings(con, of_trees, prefilter.sources)
        yield "etag_habits", metastore_tree.etag_habits(con, of_trees)


def taken_off(
    prefilter: Prefilter, con: Connection, kind: str, batch: pa.RecordBatch
) -> Iterator[tuple[str, Rows]]:
    """What takes objects and entries off again the sums of `of_the_rest`."""
    for of_kind, rows in of_the_rest(prefilter, con, kind, batch):
        if counts := _COUNTS.get(of_kind):
            negative = ", ".join(f"-{name} AS {name}" for name in counts)
            yield of_kind, duck.query(con, f"SELECT * REPLACE ({negative}) FROM input", input=rows)


_COUNTS = {"siblings": ("files", "bytes"), "etag_habits": ("live_files", "with_etag")}
REST = {
    "versions": ["source", "bucket", "key"],
    "entries": [
        "source",
        "bucket",
        "key",
        "parent",
        "size",
        "etag",
        "tombstone",
        "is_dir",
        "expired",
        "bare",
    ],
}
"""By kind of row what folders, siblings and habits are made prefilter."""


def read_siblings(
    prefilter: Prefilter, wanted: RowFilter, lost: pa.Table, con: Connection, kind: str, batch: pa.RecordBatch
) -> Iterator[tuple[str, Rows]]:
    """Of a batch of entries those let go whose folders are `lost`, and all entries of these folders themselves."""
    if kind != "entries":
        return
    let_go = ~bits_at(wanted.again, buckets_of(con, batch))
    rest = metastore_tree.of_trees(con, batch.filter(pa.array(let_go)))
    yield "parents", metastore_tree.lost_folders(con, metastore_tree.of_trees(con, batch), lost)
    yield "children", metastore_tree.lost_siblings(con, rest, lost, prefilter.sources)
