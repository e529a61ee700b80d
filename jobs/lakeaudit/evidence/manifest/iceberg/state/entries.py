"""Turn records of manifests into columns: one row for each entry, as it is written.

Format: "Manifests" of the Iceberg specification. Statistics of columns, sequence numbers, row ids and places of
deletion vectors inside their files are left out: no audit compares them.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakeaudit.evidence.avro.columns import column
from lakeaudit.evidence.avro.layout import Layout, Node
from lakeaudit.evidence.avro.values import logical_value
from lakeaudit.evidence.manifest.iceberg.state.partitions import PathWriter, path_writer

ENTRY = pa.schema(
    [
        ("batch_index", pa.int32()),  # index of its manifest among those that are read together
        ("status", pa.int64()),
        ("snapshot_id", pa.int64()),
        ("content", pa.int64()),
        ("path", pa.string()),
        ("size", pa.int64()),
        ("records", pa.int64()),
        ("partition_path", pa.dictionary(pa.int32(), pa.string())),
    ]
)
"""One entry of a manifest; a value of another type than the format defines is null."""

_FIELDS: Mapping[str, tuple[str, ...]] = {
    "status": ("status",),
    "snapshot_id": ("snapshot_id",),
    "content": ("data_file", "content"),
    "path": ("data_file", "file_path"),
    "size": ("data_file", "file_size_in_bytes"),
    "records": ("data_file", "record_count"),
}
_PARTITION = ("data_file", "partition")


def entries(layout: Layout, header: Mapping[str, str], records: pa.StructArray, index: pa.Array) -> pa.Table:
    """Return ENTRY rows of records that manifests with this header have; `index` are those of their manifests."""
    columns = {
        name: _typed(column(layout, records, *path)[0], ENTRY.field(name).type)
        for name, path in _FIELDS.items()
    }
    paths = _partition_paths(layout, records, path_writer(header))
    return pa.table({"batch_index": index, **columns, "partition_path": paths}, schema=ENTRY)


def _typed(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return values of this type; nulls if they have another one."""
    same = pa.types.is_integer if pa.types.is_integer(kind) else pa.types.is_string
    return values.cast(kind) if same(values.type) else pa.nulls(len(values), kind)


def _partition_paths(layout: Layout, records: pa.StructArray, path_of: PathWriter) -> pa.DictionaryArray:
    """Return the path of the partition of each record; it is written once for the records that share it."""
    _, partition = column(layout, records, *_PARTITION)
    names = list(partition.fields) if partition is not None else []
    found = [column(layout, records, *_PARTITION, name) for name in names]
    codes, firsts = _distinct([values for values, _ in found], len(records))
    rows = zip(*(_plain(values.take(firsts), node) for values, node in found), strict=True)
    texts = [path_of(dict(zip(names, row, strict=True))) for row in rows] if names else [path_of({})]
    return pa.DictionaryArray.from_arrays(codes, pa.array(texts, pa.string()))


def _plain(values: pa.Array, node: Node | None) -> list[Any]:
    convert = partial(logical_value, kind=node.kind, declared=node.declared) if node is not None else None
    return [convert(value) if convert else value for value in values.to_pylist()]


def _distinct(columns: Sequence[pa.Array], rows: int) -> tuple[pa.Array, pa.Array]:
    """Return for each row the number of its values, and for each number its first row."""
    codes = pa.repeat(pa.scalar(0, pa.int64()), rows)
    for values in columns:
        one = _codes(values)
        both = pc.add(pc.multiply(codes, pc.add(pc.max(one), 1)), one) if rows else codes
        codes = _codes(both)
    numbered = pa.table({"code": codes, "row": pa.array(range(rows), pa.int64())})
    firsts = numbered.group_by("code", use_threads=False).aggregate([("row", "min")]).sort_by("code")
    return codes.cast(pa.int32()), firsts["row_min"].combine_chunks()


def _codes(values: pa.Array) -> pa.Array:
    """Return the number of each value among the distinct ones; null is one of them."""
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    if pa.types.is_null(values.type):
        return pa.repeat(pa.scalar(0, pa.int64()), len(values))
    return values.dictionary_encode(null_encoding="encode").indices.cast(pa.int64())
