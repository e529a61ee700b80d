"""Selects the rows of keys that the prefilter has not cleared, and the rows of cleared keys that other keys need."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from lakeaudit.evidence.protocol import Stage
from lakeaudit.matching import metastore_tree, prefilter, tree_sums
from lakeaudit.matching.prefilter import Prefilter, bucket_of, is_filtered, is_keyed
from lakeaudit.matching.prefilter_fingerprints import deciding_rows, plain_entries
from lakeaudit.matching.share import uncleared
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation, Rows


@dataclass(frozen=True)
class RowFilter:
    """Buckets that are read again: all of their keys (`again`), and those judged on their content alone (`twins`)."""

    again: bytes
    twins: bytes

    @cached_property
    def count(self) -> int:
        """Return the number of buckets."""
        return count_of(self.again) + count_of(self.twins)

    @cached_property
    def buckets(self) -> pa.Table:
        """Return the buckets of both, in a column `wanted`."""
        words = np.frombuffer(self.again, np.uint64) | np.frombuffer(self.twins, np.uint64)
        some = np.flatnonzero(words)  # nearly all are zero
        octets = words[some].view(np.uint8)
        part = np.flatnonzero(octets)
        at = some[part >> 3] * 8 + (part & 7)
        bits = np.unpackbits(octets[part], bitorder="little").reshape(-1, 8)
        return pa.table({"wanted": (at[:, None] * 8 + np.arange(8))[bits == 1].astype(np.uint32)})

    def has(self, numbers: Any) -> Any:
        """Return for each bucket of a NumPy array whether it is read again."""
        return bits_at(self.again, numbers) | bits_at(self.twins, numbers)

    def filtered(self, con: Connection, rows: Rows) -> Relation:
        """Return the rows (bucket, key, ...) of buckets that are read again."""
        if isinstance(rows, Relation) and rows.narrowed:
            return rows.narrowed(_among, {"buckets": self.buckets})
        return self.filtered_with(con, rows, "false")

    def filtered_with(self, con: Connection, rows: Rows, others: str) -> Relation:
        """Return the same rows, and those that meet the condition `others` (SQL)."""
        sql = f"SELECT * FROM input WHERE {_among('bucket', 'key')} OR {others}"
        return duck.query(con, sql, input=rows, buckets=self.buckets)


def _among(bucket: str, key: str) -> str:
    return f"{bucket_of(f'hash({bucket}, {key})')} IN (SELECT wanted FROM buckets)"


def _bucket() -> str:
    """Return SQL for the bucket of a row."""
    return bucket_of("hash(bucket, key)")


def buckets_of(con: Connection, batch: pa.RecordBatch) -> Any:
    """Return the bucket of each row (bucket, key), as a NumPy array."""
    hashed = duck.query(con, f"SELECT {_bucket()} AS number FROM input", input=batch)
    return np.asarray(duck.table(hashed)["number"])


def bitmap(buckets: Iterable[Any]) -> bytes:
    """Turn buckets (NumPy arrays) into a bitmap."""
    flags = np.zeros(1 << prefilter.BITS, dtype=bool)
    for numbers in buckets:
        flags[numbers] = True
    return np.packbits(flags, bitorder="little").tobytes()


def count_of(bits: bytes) -> int:
    """Count the buckets of a bitmap."""
    words = np.frombuffer(bits, np.uint64)
    return int.from_bytes(words[words != 0].tobytes()).bit_count()  # nearly all are zero


def bits_at(bits: bytes, numbers: Any) -> Any:
    """Return for each bucket of a NumPy array whether it is in a bitmap."""
    octets = np.frombuffer(bits, dtype=np.uint8)
    return (octets[numbers >> 3] >> (numbers & 7).astype(np.uint8)) & 1 == 1


def ask_again(
    wanted: RowFilter, alone: bool, con: Connection, kind: str, rows: Rows
) -> Iterator[tuple[str, Rows]]:
    """Filter rows that matter only for their own key, so that fewer rows are decoded.

    `alone`: so do nearly all objects and entries; those that are left out are counted.
    """
    if is_filtered(kind):
        yield kind, wanted.filtered(con, rows)
    elif alone and kind in _UNCLEAR and isinstance(rows, Relation):
        held = duck.table(wanted.filtered_with(con, rows, f"reject IS NOT NULL OR ({_UNCLEAR[kind]})"))
        yield "counted", duck.query(con, _LEFT_OUT, input=rows, held=held)
        yield kind, held
    else:
        yield kind, rows


_UNCLEAR = {"versions": "archived IS NULL AND storage_class IS NOT NULL", "entries": "false"}
"""By kind of row the other rows that are counted, see `engine.chunks.ReadCounts`."""
_LEFT_OUT = """
    SELECT source, CAST(sum(each) AS BIGINT) AS rows, CAST(0 AS BIGINT) AS rejected, CAST(NULL AS VARCHAR) AS sample,
        CAST([] AS VARCHAR[]) AS unknown_classes
    FROM (SELECT source, count(*) AS each FROM input GROUP BY source
        UNION ALL SELECT source, -count(*) FROM held GROUP BY source)
    GROUP BY source
"""


Trees = Literal["none", "summed", "unknown"]
"""Whether a metadata store has a tree, and whether the projection pass has summed all that it needs."""


def read_again(
    prefilter: Prefilter, wanted: RowFilter, trees: Trees, con: Connection, kind: str, batch: pa.RecordBatch
) -> Iterator[tuple[str, Rows]]:
    """Return the rows of a batch that are read again, and what other keys need of the other rows.

    Additional kinds: `settled_keys` (bucket, key) are cleared and judged on their content alone; `folders`, `siblings`
    and `etag_habits` represent cleared objects and entries, unless the projection pass has summed them.
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
    if trees == "unknown" and kind in ("versions", "entries"):
        yield from _tree_rows(prefilter, con, kind, batch.filter(pa.array(~again)))


def _tree_rows(
    prefilter: Prefilter, con: Connection, kind: str, cleared: pa.RecordBatch
) -> Iterator[tuple[str, Rows]]:
    """Return what trees need of cleared objects and entries."""
    if kind == "versions":
        yield "folders", metastore_tree.folders_of(con, deciding_rows(prefilter, con, cleared))
    elif cleared.num_rows:
        folders = duck.table(plain_entries(prefilter, con, cleared))
        yield from tree_sums.of_entries(con, folders, prefilter.sources)


def subtract_entries(
    prefilter: Prefilter, stage: Stage, con: Connection, rows: Mapping[str, Rows]
) -> Iterator[tuple[str, Rows]]:
    """Run the first stage of a full read; its entries are judged one by one, so they leave the sums of all entries."""
    if "entries" in rows:
        again = uncleared(con, duck.relation(con, rows["entries"]), rows)
        folders = duck.table(plain_entries(prefilter, con, again))
        yield from tree_sums.subtracted(con, folders, prefilter.sources)
    yield from stage(con, rows)


def read_siblings(
    prefilter: Prefilter, wanted: RowFilter, lost: pa.Table, con: Connection, kind: str, batch: pa.RecordBatch
) -> Iterator[tuple[str, Rows]]:
    """Return cleared entries in the folders `lost`, and the entries of these folders themselves."""
    if kind != "entries":
        return
    cleared = ~bits_at(wanted.again, buckets_of(con, batch))
    rest = metastore_tree.of_trees(con, batch.filter(pa.array(cleared)), prefilter.sources)
    of_trees = metastore_tree.of_trees(con, batch, prefilter.sources)
    yield "parents", metastore_tree.lost_folders(con, of_trees, lost)
    yield "children", metastore_tree.lost_siblings(con, rest, lost, prefilter.sources)
