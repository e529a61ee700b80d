"""Parse a line of a plain writer manifest to an event of fold.EVENT. Runs in tasks.

Paths are raw: nothing here unescapes them, except the percent-escapes that Hive writes into partition folders. Only
`.` and `..` are followed, as Hadoop's Path does before it opens a file.
"""

import re
from datetime import UTC, datetime
from functools import lru_cache

from lakeaudit.evidence.manifest.file_list.read_lines import Fault, Line, ListFile, Row
from lakeaudit.keys import MOUNTS, NULL_VERSION, Aliases, Location, is_utf8, place_by_name, without_dots

ACTIONS = ("add", "remove", "replace")

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://|file:/|dbfs:/")
_PARTITION = re.compile(r"[^=]+=")
_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})")
_DIGITS = re.compile(r"[0-9]{1,19}\Z")
_CHECKSUM = re.compile(r"[a-z0-9-]+:[0-9a-f]+\Z")

Event = tuple[object, ...]


def event(line: Line, listed: ListFile) -> Event:
    """Return one line in the order of fold.EVENT, with an aware time; a faulty one has the list's own time."""
    try:
        if isinstance(line.row, Fault):
            raise line.row
        return _understood(line.row, line.number, listed)
    except Fault as fault:
        order = (listed.table, listed.number, line.number, listed.modified_at)
        return (*order, None, *(fault.key or (None, None)), *[None] * 10, fault.what, line.number == 0)


def _understood(row: Row, number: int, listed: ListFile) -> Event:
    action = _text(row, "action") or "add"
    if action not in ACTIONS:
        raise Fault(f"has the unknown action {_quoted(action)}")
    path = _text(row, "path")
    if path is None and action != "replace":
        raise Fault("has no path")
    named = None if path is None else _identity(path, listed.home, listed.aliases)
    scope = _scope(_text(row, "scope"), listed) if action == "replace" else (None, None)
    try:
        values = _values(row)
        at = min(_time(row.get("committed_at")) or listed.modified_at, listed.modified_at)
    except Fault as fault:
        fault.key = named if action != "replace" else None
        raise
    order = (listed.table, listed.number, number, at)
    return (
        *order,
        action,
        *(named or (None, None)),
        *scope,
        *_home(named, listed.home),
        *values,
        None,
        False,
    )


def _home(named: tuple[str, str] | None, home: Location) -> tuple[str | None, bool | None]:
    """Return partition_path and own_root."""
    if named is None:
        return None, None
    own = home.holds(*named)
    folder = named[1].rpartition("/")[0]
    return partition_path(folder[len(home.key) :].removeprefix("/") if own else folder), own


def _values(row: Row) -> Event:
    """Return size, etag, version_id, checksum, records, commit_id."""
    version = _text(row, "version_id")
    return (
        _count(row, "size"),
        (_text(row, "etag") or "").strip('"') or None,
        None if version == NULL_VERSION else version,
        _checksum(_text(row, "checksum")),
        _count(row, "records"),
        _text(row, "job_id"),
    )


def _identity(path: str, home: Location, aliases: Aliases) -> tuple[str, str]:
    """Return (bucket, key) of a written path: a URI as written, a bare key only below the table's own location."""
    if _is_uri(path, home):
        named = _place(path, aliases)
        if named is None or not named[1]:
            raise Fault(f"has the path {_quoted(path)}, which is not a file on S3 or a local disk")
        return named
    key = without_dots(path)
    if not home.holds(home.bucket, key) or key == home.prefix:
        raise Fault(
            f"has the path {_quoted(path)}, which is not under the table's location and has no scheme"
        )
    return home.bucket, key


def _place(uri: str, aliases: Aliases) -> tuple[str, str] | None:
    """Return (bucket, key) by the bucket's own name; None for a mount that is not configured."""
    place = place_by_name(aliases, uri)
    return None if place is None or place[0] == MOUNTS else (place[0], without_dots(place[1]))


def _scope(scope: str | None, listed: ListFile) -> tuple[str, str]:
    """Return the place that a replace row empties; by default the table's location."""
    home = listed.home
    if scope is None:
        return home
    named = _place(scope, listed.aliases) if _is_uri(scope, home) else (home.bucket, without_dots(scope))
    if named is None:
        raise Fault(f"has the scope {_quoted(scope)}, which is not a place on S3 or a local disk")
    place = Location(named[0], named[1].rstrip("/"))
    if not _is_uri(scope, home) and not home.contains(place):
        raise Fault(
            f"has the scope {_quoted(scope)}, which is not under the table's location and has no scheme"
        )
    return place


def _is_uri(text: str, home: Location) -> bool:
    return bool(_SCHEME.match(text)) or (home.is_local and text.startswith("/"))


@lru_cache(maxsize=4096)
def partition_path(below: str) -> str:
    """Return the folder below the table: `col=value/col=value` with Hive's escapes decoded once, else as it is."""
    if all(_PARTITION.match(part) for part in below.split("/")):
        return _ESCAPE.sub(lambda escape: chr(int(escape[1], 16)), below)
    return below


def _text(row: Row, name: str) -> str | None:
    value = row.get(name)
    if value is None or value == "":
        return None
    if not isinstance(value, str) or "\0" in value or not (value.isascii() or is_utf8(value)):
        raise Fault(f"has no text as {name}")
    return value


def _count(row: Row, name: str) -> int | None:
    """Return a whole number; CSV has it as text, and Parquet from pandas as a float."""
    value = row.get(name)
    if value is None or value == "":
        return None
    whole_float = isinstance(value, float) and value.is_integer()
    digits = isinstance(value, str) and _DIGITS.match(value)
    number = int(value) if whole_float or digits else value  # type: ignore[call-overload]
    if isinstance(number, int) and not isinstance(number, bool) and 0 <= number < 1 << 63:
        return number
    raise Fault(f"has no number as {name}")


def _checksum(text: str | None) -> str | None:
    lowered = text.lower() if text else None
    if lowered and not _CHECKSUM.match(lowered):
        raise Fault("has a checksum that is not algorithm:hex")
    return lowered


def _time(value: object) -> datetime | None:
    """Return a time with its zone, else in UTC; JSON and CSV write ISO 8601."""
    if value is None or value == "":
        return None
    if isinstance(value, datetime):
        return _in_utc(value)
    if isinstance(value, str):
        return parse_time(value)
    raise Fault("has no ISO 8601 time as committed_at")


@lru_cache(maxsize=4096)
def parse_time(text: str) -> datetime:
    """Parse an ISO 8601 time in UTC.

    Raises:
        Fault: the text is not such a time.
    """
    try:
        return _in_utc(datetime.fromisoformat(text))
    except (ValueError, OverflowError):
        raise Fault("has no ISO 8601 time as committed_at") from None


def _in_utc(time: datetime) -> datetime:
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)


def _quoted(text: str) -> str:
    return repr(text if len(text) <= 200 else f"{text[:200]}...")
