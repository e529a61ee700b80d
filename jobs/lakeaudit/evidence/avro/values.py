"""Convert plain values of Avro to what their logical types mean. Pure.

Format: "Logical Types" of the Avro specification.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

_DAY_ONE = date(1970, 1, 1)
_LOCAL = datetime(1970, 1, 1)  # noqa: DTZ001 - a local time has no zone
_EPOCH = _LOCAL.replace(tzinfo=UTC)


def logical_value(value: Any, kind: str, declared: Mapping[str, Any]) -> Any:
    """Return the value of a type with these attributes; the plain one if it has no meaning in the calendar."""
    convert = _CONVERT.get(f"{kind} {declared.get('logicalType')}")
    if value is None or convert is None:
        return value
    try:
        return convert(value, declared)
    except (OverflowError, ValueError, LookupError, TypeError, ArithmeticError):
        return value


def _time(unit: str) -> Callable[[Any, Any], time]:
    return lambda value, _: _in_day(timedelta(**{unit: value}))


def _in_day(since: timedelta) -> time:
    if not timedelta() <= since < timedelta(days=1):
        raise ValueError("not a time of a day")
    return (_LOCAL + since).time()


def _moment(since: datetime, unit: str) -> Callable[[Any, Any], datetime]:
    return lambda value, _: since + timedelta(**{unit: value})


def _decimal(value: bytes, declared: Mapping[str, Any]) -> Decimal:
    number = int.from_bytes(value, "big", signed=True)
    digits = tuple(map(int, str(abs(number))))
    return Decimal((number < 0, digits, -declared.get("scale", 0)))


_CONVERT: Mapping[str, Callable[[Any, Mapping[str, Any]], Any]] = {
    "int date": lambda value, _: _DAY_ONE + timedelta(days=value),
    "int time-millis": _time("milliseconds"),
    "long time-micros": _time("microseconds"),
    "long timestamp-millis": _moment(_EPOCH, "milliseconds"),
    "long timestamp-micros": _moment(_EPOCH, "microseconds"),
    "long local-timestamp-millis": _moment(_LOCAL, "milliseconds"),
    "long local-timestamp-micros": _moment(_LOCAL, "microseconds"),
    "bytes decimal": _decimal,
    "fixed decimal": _decimal,
    "string uuid": lambda value, _: UUID(value),
}
"""By the type and its logical type."""
