"""Write the partition of a file as `column=value/column=value`, by the spec that its manifest carries. Pure.

Format: "Partition Transforms" and "Partition Values" of the Iceberg specification.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY_ONE = date(1970, 1, 1)

PathWriter = Callable[[Mapping[str, Any]], str]
"""Writes the path of a data_file's `partition`."""


def path_writer(header: Mapping[str, str]) -> PathWriter:
    """Return the function for a manifest with this header; it writes plain values if the header has no spec."""
    try:
        spec = json.loads(header.get("partition-spec", "[]"))
        fields = spec.get("fields", []) if isinstance(spec, dict) else spec
        types = {field["id"]: field["type"] for field in json.loads(header["schema"])["fields"]}
        named = [(str(field["name"]), field["transform"], types.get(field["source-id"])) for field in fields]
    except (ValueError, LookupError, TypeError, AttributeError):
        named = []
    if not named:
        return _plainly
    known: dict[tuple[Any, ...], str] = {}

    def path_of(partition: Mapping[str, Any]) -> str:
        values = tuple(partition.values())
        try:
            return known[values]
        except (KeyError, TypeError):
            path = _path(named, values)
        if len(known) < _MOST_KNOWN:
            known[values] = path
        return path

    return path_of


_MOST_KNOWN = 10_000


def _plainly(partition: Mapping[str, Any]) -> str:
    return "/".join(f"{name}={_word(value, None, None)}" for name, value in partition.items())


def _path(fields: Sequence[tuple[str, object, object]], values: Sequence[object]) -> str:
    return "/".join(
        f"{name}={_word(value, transform, kind)}"
        for (name, transform, kind), value in zip(fields, values, strict=False)
        if transform != "void"
    )


def _word(value: object, transform: object, kind: object) -> str:
    if value is None:
        return "null"
    try:
        if isinstance(value, bool) or not isinstance(value, int):
            return _of_type(value)
        return _of_number(value, str(transform), str(kind))
    except (OverflowError, ValueError):
        return str(value)


def _of_type(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    return str(value)


def _of_number(value: int, transform: str, kind: str) -> str:
    """Write a number; writers may store dates and times as numbers, and always do so for years, months and hours."""
    if transform == "year":
        return f"{1970 + value}"
    if transform == "month":
        return f"{1970 + value // 12}-{value % 12 + 1:02}"
    if transform == "hour":
        return f"{_EPOCH + timedelta(hours=value):%Y-%m-%d-%H}"
    if transform == "day" or (transform == "identity" and kind == "date"):
        return (_DAY_ONE + timedelta(days=value)).isoformat()
    return str(value)
