"""Take the files that archived writes list out of decoded Avro, as columns. Pure.

Format: `HoodieCommitMetadata`, `HoodieReplaceCommitMetadata` and `HoodieWriteStat` of Apache Hudi.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lakeaudit.evidence.avro.columns import column
from lakeaudit.evidence.avro.layout import Layout, Node

_TEXT, _NUMBER = ("string",), ("int", "long")
_FIELDS: Mapping[str, tuple[str, tuple[str, ...], pa.DataType]] = {
    "path": ("path", _TEXT, pa.string()),
    "before": ("prevCommit", _TEXT, pa.string()),
    "size": ("fileSizeInBytes", _NUMBER, pa.int64()),
    "errors": ("totalWriteErrors", _NUMBER, pa.int64()),
    "written": ("numWrites", _NUMBER, pa.int64()),
    "inserted": ("numInserts", _NUMBER, pa.int64()),
    "deleted": ("numDeletes", _NUMBER, pa.int64()),
}
"""By column: the field of a write statistic, its types in Avro, and the type of the column."""
LISTED = pa.schema([("write", pa.int64()), *((name, kind) for name, (_, _, kind) in _FIELDS.items())])
"""A file that a write lists; `write` is the number of the write among those that were decoded."""
REPLACED = pa.schema([("write", pa.int64()), ("folder", pa.string()), ("file_id", pa.string())])
"""A file group that a write replaces."""


@dataclass(frozen=True)
class WriteColumns:
    """Holds the numbers of writes, their LISTED and REPLACED rows, and the numbers of those that need a closer look."""

    numbers: frozenset[int]
    listed: pa.Table
    replaced: pa.Table
    odd: frozenset[int]


def write_columns(
    layout: Layout, records: pa.StructArray, numbers: Sequence[int], *inside: str
) -> WriteColumns | None:
    """Return what writes list; None if their schema is not the one of Hudi. Record i is the write `numbers[i]`.

    The fields of a write are those of the record, or of its field `inside`.
    """
    try:
        listed = _Nested(layout, records, numbers, *inside, "partitionToWriteStats")
        replaced = _Nested(layout, records, numbers, *inside, "partitionToReplaceFileIds")
        odd = listed.odd | replaced.odd | _with_changes(listed)
        return WriteColumns(frozenset(numbers), _listed(listed), _replaced(replaced), odd)
    except _OtherSchema:
        return None


class _OtherSchema(Exception):
    """A field has another type than Hudi gives it."""


class _Nested:
    """A field whose values are maps of lists, flattened: `writes`, `keys` and `values` have one item per value."""

    def __init__(self, layout: Layout, records: pa.StructArray, numbers: Sequence[int], *path: str) -> None:
        maps, node = column(layout, records, *path)
        self.node = _values(_values(node, "map"), "array")
        if node is None or self.node is None or pa.types.is_null(maps.type):
            maps = pa.nulls(len(records), pa.map_(pa.string(), pa.list_(pa.string())))
        entries = maps.cast(
            pa.list_(pa.struct([("key", maps.type.key_type), ("value", maps.type.item_type)]))
        )
        flat = pc.list_flatten(entries)
        writes = pc.take(pa.array(numbers, pa.int64()), pc.list_parent_indices(entries))
        keys, lists = pc.struct_field(flat, "key"), pc.struct_field(flat, "value")
        parents = pc.list_parent_indices(lists)
        self.writes, self.keys = pc.take(writes, parents), pc.take(keys, parents)
        self.values = pc.list_flatten(lists)
        self.odd = (
            _repeated(writes, keys) | _where_null(writes, lists) | _where_null(self.writes, self.values)
        )

    def field(self, name: str, kinds: Sequence[str], kind: pa.DataType) -> pa.Array:
        """Return a field of the values, which are records; nulls if they have none."""
        index, node = self.node.fields.get(name, (-1, None)) if self.node is not None else (-1, None)
        if node is None or index < 0:
            return pa.nulls(len(self.values), kind)
        if node.kind not in kinds or "logicalType" in node.declared:
            raise _OtherSchema
        return pc.struct_field(self.values, index).cast(kind)


def _values(node: Node | None, kind: str) -> Node | None:
    if node is not None and (node.kind != kind or node.values is None):
        raise _OtherSchema
    return node.values if node is not None else None


def _listed(nested: _Nested) -> pa.Table:
    if nested.node is None or "path" not in nested.node.fields:
        raise _OtherSchema
    columns = [nested.field(*named) for named in _FIELDS.values()]
    return pa.Table.from_arrays([nested.writes, *columns], schema=LISTED)


def _replaced(nested: _Nested) -> pa.Table:
    if nested.node is not None and (nested.node.kind not in _TEXT or "logicalType" in nested.node.declared):
        raise _OtherSchema
    return pa.Table.from_arrays([nested.writes, nested.keys, nested.values], schema=REPLACED)


def _with_changes(nested: _Nested) -> frozenset[int]:
    """Return the writes that list files of change data."""
    found = nested.node.fields.get("cdcStats") if nested.node is not None else None
    if found is None or found[0] < 0:
        return frozenset()
    return _where(nested.writes, pc.is_valid(pc.struct_field(nested.values, found[0])))


def _repeated(writes: pa.Array, keys: pa.Array) -> frozenset[int]:
    """Return the writes whose map has a key twice."""
    counted = (
        pa.table({"write": writes, "key": keys}).group_by(["write", "key"]).aggregate([([], "count_all")])
    )
    return _where(counted["write"], pc.greater(counted["count_all"], 1))


def _where_null(writes: pa.Array, values: pa.Array) -> frozenset[int]:
    return _where(writes, pc.is_null(values)) if values.null_count else frozenset()


def _where(writes: pa.Array, mask: pa.Array) -> frozenset[int]:
    return frozenset(pc.unique(pc.filter(writes, mask)).to_pylist())
