"""Leave fields out of Avro records before they are decoded: values are skipped by their length.

Iceberg manifests have several statistics for each column of each file, which take most of the decoding time and which
no audit uses. The result is a file of the same form with a schema of fewer fields.

Format: "Binary Encoding" of the Avro specification.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import partial
from typing import Any

End = Callable[[bytes, int], int]
"""(bytes, start of a value) -> its end, maybe after the bytes; IndexError or ValueError if the value is invalid."""

_MOST = 64
"""Most numbers that one pattern skips."""
_NUMBER = rb"[\x80-\xff]{0,9}[\x00-\x7f]"
_NUMBERS = [re.compile(b"(?:%s){%d}" % (_NUMBER, count)) for count in range(_MOST + 1)]
_VARINTS = ("int", "long")
_TEXTS = ("string", "bytes")
_OPTIONAL = _PAIR = 2


@dataclass(frozen=True)
class Projection:
    """Holds a schema of fewer fields, and the steps that turn records of the whole one into records of it.

    `runs` are neighbouring fields of a record that are kept, or left out, together: (end of the run, is kept).
    """

    schema: Any
    runs: tuple[tuple[End, bool], ...]

    def block(self, block: bytes, count: int) -> tuple[bytes, int, bool]:
        """Return the projected records of a block, the number of whole ones, and whether the block has nothing else."""
        kept: list[bytes] = []
        at = 0
        for whole in range(count):
            try:
                end, record = self._record(block, at)
            except (IndexError, ValueError):
                return b"".join(kept), whole, False
            kept += record
            at = end
        return b"".join(kept), count, at == len(block)

    def _record(self, block: bytes, at: int) -> tuple[int, list[bytes]]:
        kept = []
        for end_of, keep in self.runs:
            end = end_of(block, at)
            if keep:
                kept.append(block[at:end])
            at = end
        if at > len(block):
            raise ValueError("it ends before")
        return at, kept


def projection_of(schema: Any, excluded: AbstractSet[str]) -> Projection | None:
    """Return `schema` without `excluded` fields of its record and of records that are its fields; None if impossible.

    A schema that refers to a type by its name is unchanged: the type may be defined in a field that is left out.
    """
    try:
        kept, found = _record(schema, excluded)
        runs = tuple(_merge_runs(found))
    except (LookupError, TypeError, ValueError, RecursionError):
        return None
    return None if all(keep for _, keep in runs) else Projection(kept, runs)


def _record(schema: Mapping[str, Any], excluded: AbstractSet[str]) -> tuple[Any, list[tuple[Any, bool]]]:
    fields: list[Any] = []
    runs: list[tuple[Any, bool]] = []
    for field in schema["fields"]:
        kind = field["type"]
        if field["name"] in excluded:
            runs.append((kind, False))
        elif isinstance(kind, dict) and kind["type"] == "record" and not excluded.isdisjoint(_names(kind)):
            inner, more = _record(kind, excluded)
            fields.append({**field, "type": inner})
            runs += more
        else:
            fields.append(field)
            runs.append((kind, True))
    if not fields:
        raise ValueError("nothing is left")
    return {**schema, "fields": fields}, runs


def _names(record: Mapping[str, Any]) -> list[str]:
    return [field["name"] for field in record["fields"]]


def _merge_runs(runs: Sequence[tuple[Any, bool]]) -> list[tuple[End, bool]]:
    """Join neighbours that are both kept, or both left out, into one run."""
    found: list[tuple[list[Any], bool]] = []
    for kind, keep in runs:
        if not found or found[-1][1] != keep:
            found.append(([], keep))
        found[-1][0].append(kind)
    return [(_in_a_row(kinds), keep) for kinds, keep in found]


def _in_a_row(kinds: Sequence[Any]) -> End:
    """Return the end of consecutive values; consecutive numbers are skipped at once."""
    ends: list[End] = []
    numbers = 0
    for kind in kinds:
        if _is_number(kind):
            numbers += 1
            continue
        ends += [partial(_numbers, numbers)] if numbers else []
        ends.append(_end_of(kind))
        numbers = 0
    ends += [partial(_numbers, numbers)] if numbers else []
    return ends[0] if len(ends) == 1 else partial(_each, tuple(ends))


def _is_number(kind: Any) -> bool:
    name = kind["type"] if isinstance(kind, dict) else kind
    return name in _VARINTS or name == "enum"


def _size(size: object) -> int:
    if not isinstance(size, int) or size < 0:
        raise ValueError("no size")
    return size


def _array_end(kind: Any) -> End:
    """Return the end of an array; the shapes that fill manifests have functions of their own."""
    fields = [field["type"] for field in kind["fields"]] if _is_record(kind) else [kind]
    if fields and all(map(_is_number, fields)):
        return partial(_rows_of_numbers, len(fields))
    if len(fields) == _PAIR and _is_number(fields[0]) and fields[1] in _TEXTS:
        return _texts_by_number
    return partial(_items, _end_of(kind))


def _is_record(kind: Any) -> bool:
    return isinstance(kind, dict) and kind["type"] == "record"


def _each(ends: Sequence[End], content: bytes, at: int) -> int:
    for end_of in ends:
        at = end_of(content, at)
    return at


def _skip_bytes(size: int, content: bytes, at: int) -> int:  # noqa: ARG001 - as in every `End`
    return at + size


def _numbers(count: int, content: bytes, at: int) -> int:
    while count > _MOST:
        at, count = _numbers(_MOST, content, at), count - _MOST
    found = _NUMBERS[count].match(content, at)
    if found is None:
        raise ValueError("no number")
    return found.end()


def _text(content: bytes, at: int) -> int:
    size = content[at]
    at += 1
    if size > 127:
        size, at = _long_number(content, at - 1)
    if size & 1:
        raise ValueError("a size below nothing")
    return at + (size >> 1)


def _union(ends: Sequence[End], content: bytes, at: int) -> int:
    branch = content[at]
    if branch & 1 or branch > 127:
        raise ValueError("no branch")
    return ends[branch >> 1](content, at + 1)


def _optional(end_of: End, content: bytes, at: int) -> int:
    """Return the end of a union of null and one other type."""
    branch = content[at]
    if branch == 2:
        return end_of(content, at + 1)
    if branch:
        raise ValueError("no branch")
    return at + 1


def _long_number(content: bytes, at: int) -> tuple[int, int]:
    """Return a number in its own order (an odd one is negative), and its end."""
    value = shift = 0
    while shift <= 63:
        byte = content[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 128:
            return value, at
        shift += 7
    raise ValueError("no number")


def _items(end_of: End, content: bytes, at: int) -> int:
    count, at = _count(content, at)
    while count:
        for _ in range(count):
            at = end_of(content, at)
        count, at = _count(content, at)
    return at


def _rows_of_numbers(each: int, content: bytes, at: int) -> int:
    count, at = _count(content, at)
    while count:
        at = _numbers(count * each, content, at)
        count, at = _count(content, at)
    return at


def _texts_by_number(content: bytes, at: int) -> int:
    """Do the same as `_items` for a number and a text, without a call for each."""
    count, at = _count(content, at)
    while count:
        for _ in range(count):
            while content[at] > 127:
                at += 1
            size = content[at + 1]
            if size & 1 or size > 127:
                at = _text(content, at + 1)
            else:
                at += 2 + (size >> 1)
        count, at = _count(content, at)
    return at


def _count(content: bytes, at: int) -> tuple[int, int]:
    """Return the number of values that follow, at least a byte each; their size in bytes follows a negative number."""
    value = content[at]
    at += 1
    if value > 127:
        value, at = _long_number(content, at - 1)
    if value & 1:
        count = (value + 1) >> 1
        _, at = _long_number(content, at)
    else:
        count = value >> 1
    if count > len(content) - at:
        raise ValueError("more values than bytes")
    return count, at


def _end_of(kind: Any) -> End:
    if isinstance(kind, list):
        branches = tuple(map(_end_of, kind))
        nullable = len(kind) == _OPTIONAL and kind[0] == "null"
        return partial(_optional, branches[1]) if nullable else partial(_union, branches)
    name = kind["type"] if isinstance(kind, dict) else kind
    if isinstance(name, dict | list):
        return _end_of(name)
    if name in _PLAIN:
        return _PLAIN[name]
    return _NESTED[name](kind)


_PLAIN: Mapping[str, End] = {
    "null": partial(_skip_bytes, 0),
    "boolean": partial(_skip_bytes, 1),
    "float": partial(_skip_bytes, 4),
    "double": partial(_skip_bytes, 8),
    "string": _text,
    "bytes": _text,
    **dict.fromkeys(("int", "long", "enum"), partial(_numbers, 1)),
}
_NESTED: Mapping[str, Callable[[Any], End]] = {
    "fixed": lambda kind: partial(_skip_bytes, _size(kind["size"])),
    "record": lambda kind: _in_a_row([field["type"] for field in kind["fields"]]),
    "array": lambda kind: _array_end(kind["items"]),
    "map": lambda kind: partial(_items, _in_a_row(["string", kind["values"]])),
}
"""A type in neither mapping is referred to by its name."""
