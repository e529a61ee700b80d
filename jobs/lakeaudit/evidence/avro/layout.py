"""Describe the records of an Avro file for a reader that returns columns. Pure.

Libraries differ in which schemas they accept: invalid names, records without fields, logical types, types that are
referred to by name. A layout has a schema of the same encoding without any of them, and the place of each field in it.

Format: "Schema Declaration" and "Binary Encoding" of the Avro specification.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from lakeaudit.evidence.avro.blocks import Torn, varint

MOST_TYPES = 10_000
"""Most types in a schema, counted as often as they are used; a manifest has about fifty."""
DEEPEST = 40
"""Most types inside each other: libraries refuse, or fail at, much deeper ones."""
LONGEST = 1 << 20
"""Most bytes of a schema; that of a manifest has some thousands."""
_PLAIN: Mapping[str, bytes] = {
    "boolean": b"\0", "int": b"\0", "long": b"\0", "string": b"\0", "bytes": b"\0", "float": bytes(4),
    "double": bytes(8),
}  # fmt: skip
"""The shortest encoding of a value by its type."""
_NUMBERS = ("int", "long")


@dataclass(frozen=True)
class Node:
    """Describes the values of one type.

    Attributes:
        kind: its type in Avro; `null` if its values take no bytes, and then it is in no column.
        schema: the type without names and logical types of its writer.
        shortest: the shortest encoding of a value.
        fields: of a record: by name, its index among the columns and its type; of an optional one those of the record.
        declared: the attributes of the type as its writer declared them.
        values: of an array or a map: the type of its values; of an optional one the same.
    """

    kind: str
    schema: Any
    shortest: bytes
    fields: Mapping[str, tuple[int, "Node"]] = field(default_factory=dict)
    declared: Mapping[str, Any] = field(default_factory=dict)
    values: "Node | None" = None


_NOTHING = Node("null", "null", b"")


@dataclass(frozen=True)
class Layout:
    """Describes the records of a file; `marker` is the column of a number, in which a reader can mark a record."""

    root: Node
    marker: int

    @property
    def schema(self) -> bytes:
        """The schema in JSON."""
        return json.dumps(self.root.schema).encode()

    def marked(self, number: int) -> bytes:
        """Return the shortest record with this number (0 or more) in its column `marker`."""
        fields = sorted(each for each in self.root.fields.values() if each[0] >= 0)
        return b"".join(_with(node, number) if at == self.marker else node.shortest for at, node in fields)


@lru_cache(64)
def layout_of(schema: bytes) -> Layout:
    """Return the layout of the files with this schema.

    Raises:
        Torn: it is not the schema of records, has too many types, or contains itself.
    """
    if len(schema) > LONGEST:
        raise Torn(f"its schema has {len(schema)} bytes, which no such schema has")
    try:
        root = _Types().node(json.loads(schema))
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise Torn("its schema cannot be understood") from error
    if root.kind != "record":
        raise Torn("its entries are not records")
    marker = next((at for at, node in root.fields.values() if at >= 0 and _marks(node)), None)
    if marker is None:
        raise Torn("its entries have no number")
    return Layout(root, marker)


class _Types:
    """Builds nodes; each use of a named type becomes a type of its own."""

    def __init__(self) -> None:
        self._named: dict[str, Any] = {}
        self._open: set[str] = set()
        self._count = self._depth = 0

    def node(self, kind: Any, space: str = "") -> Node:
        self._count += 1
        self._depth += 1
        if self._count > MOST_TYPES or self._depth > DEEPEST:
            raise ValueError("too many types")
        node = self._node(kind, space)
        self._depth -= 1
        return node

    def _node(self, kind: Any, space: str) -> Node:
        if isinstance(kind, list):
            return self._union([self.node(each, space) for each in kind])
        if isinstance(kind, str):
            return self._by_name(kind, space)
        name = kind["type"]
        if isinstance(name, dict | list):
            return self.node(name, space)
        if name in _PLAIN or name == "null":
            return Node(name, name, _PLAIN.get(name, b""), declared=kind)
        if name in ("array", "map"):
            return self._values(name, self.node(kind["items" if name == "array" else "values"], space))
        if name in ("record", "error", "fixed", "enum"):
            return self._define(kind, space)
        return self._by_name(name, space)

    def _by_name(self, name: str, space: str) -> Node:
        if name in _PLAIN or name == "null":
            return Node(name, name, _PLAIN.get(name, b""))
        full = name if "." in name or f"{space}.{name}" not in self._named else f"{space}.{name}"
        kind, inside = self._named[full]
        return self._use(full, kind, inside)

    def _define(self, kind: Mapping[str, Any], space: str) -> Node:
        name, space = str(kind.get("name", "")), kind.get("namespace", space)
        full = name if "." in name or not space else f"{space}.{name}"
        inside = full.rpartition(".")[0]
        self._named[full] = (kind, inside)
        return self._use(full, kind, inside)

    def _use(self, full: str, kind: Mapping[str, Any], space: str) -> Node:
        if full in self._open:
            raise ValueError("a type contains itself")
        self._open.add(full)
        node = self._fixed(kind) if kind["type"] in ("fixed", "enum") else self._record(kind, space)
        self._open.discard(full)
        return node

    def _fixed(self, kind: Mapping[str, Any]) -> Node:
        named = {"name": f"t{self._count}", "type": kind["type"]}
        if kind["type"] == "enum":
            return Node("enum", named | {"symbols": kind["symbols"]}, b"\0", declared=kind)
        size = kind["size"]
        if type(size) is not int or not 0 <= size < 1 << 16:
            raise ValueError("no size")
        return Node("fixed", named | {"size": size}, bytes(size), declared=kind) if size else _NOTHING

    def _record(self, kind: Mapping[str, Any], space: str) -> Node:
        name, shortest = f"t{self._count}", b""
        fields: list[Any] = []
        known: dict[str, tuple[int, Node]] = {}
        for each in kind["fields"]:
            node = self.node(each["type"], space)
            there = node.kind != "null"
            known.setdefault(str(each["name"]), (len(fields) if there else -1, node))
            if there:
                fields.append({"name": f"f{len(fields)}", "type": node.schema})
                shortest += node.shortest
        if not fields:
            return Node("null", "null", b"", known)
        return Node("record", {"type": "record", "name": name, "fields": fields}, shortest, known, kind)

    def _union(self, branches: Sequence[Node]) -> Node:
        """Return a union; an optional value has the kind of the value."""
        kinds = [each.kind for each in branches]
        value = next((each for each in branches if each.kind != "null"), None)
        encodings = [varint(number) + each.shortest for number, each in enumerate(branches)]
        schema, shortest = [each.schema for each in branches], min(encodings, key=len)
        if value is None or len(branches) != 2 or kinds.count("null") != 1:
            return Node("union", schema, shortest)
        return Node(value.kind, schema, shortest, value.fields, value.declared, value.values)

    def _values(self, name: str, value: Node) -> Node:
        if not value.shortest:
            raise ValueError("values without a size")
        schema = {"type": name, "items" if name == "array" else "values": value.schema}
        return Node(name, schema, b"\0", values=value)


def _marks(node: Node) -> bool:
    return node.kind in _NUMBERS


def _with(node: Node, number: int) -> bytes:
    """Return the encoding of a number, which may be optional."""
    branch = varint(node.schema.index(node.kind)) if isinstance(node.schema, list) else b""
    return branch + varint(number)
