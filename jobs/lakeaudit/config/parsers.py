"""Parse the written forms of durations, sizes, days, locations and endpoints; invalid text raises ValueError."""

import re
from datetime import date, timedelta
from urllib.parse import urlsplit

from lakeaudit.config.globs import glob_to_regex, is_pattern
from lakeaudit.keys import AZURE_BUCKET, Location, elsewhere

SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
BYTES = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
LONGEST = timedelta(days=36500)
"""A hundred years: longer ones overflow the times they are added to."""


def parse_duration(text: str) -> timedelta:
    """Parse a whole number and a unit, such as `0s`, `30m`, `24h` or `7d`, up to a hundred years."""
    form = re.fullmatch(r"([0-9]{1,10})([smhd])", text)
    seconds = int(form[1]) * SECONDS[form[2]] if form else None
    if seconds is None or seconds > LONGEST.total_seconds():
        raise ValueError("not a duration")
    return timedelta(seconds=seconds)


def format_duration(value: timedelta) -> str:
    """Return the shortest form that `parse_duration` reads; whole seconds only."""
    seconds = value // timedelta(seconds=1)
    unit = next((unit for unit in "dhm" if seconds and seconds % SECONDS[unit] == 0), "s")
    return f"{seconds // SECONDS[unit]}{unit}"


def parse_size(text: str) -> int:
    """Parse a size such as `1B`, `4KiB` or `8MiB`, also GiB and TiB, into bytes; up to a signed 64-bit number."""
    form = re.fullmatch(r"([0-9]{1,19})((?:[KMGT]i)?B)", text)
    value = int(form[1]) * BYTES[form[2]] if form else -1
    if not 0 <= value < 1 << 63:
        raise ValueError("not a size")
    return value


def format_size(value: int) -> str:
    """Return the shortest form that `parse_size` reads."""
    unit = next((unit for unit in ("TiB", "GiB", "MiB", "KiB") if value and value % BYTES[unit] == 0), "B")
    return f"{value // BYTES[unit]}{unit}"


def parse_day(text: str) -> date:
    """Parse a date such as `2027-06-01`."""
    if not re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text):
        raise ValueError("not a date")
    return date.fromisoformat(text)


def parse_location(text: str) -> Location:
    """Parse a location with a valid bucket name; keys are kept raw."""
    location = Location.parse(text)
    if location.bucket and not re.fullmatch(rf"[A-Za-z0-9][A-Za-z0-9._-]*|{AZURE_BUCKET}", location.bucket):
        raise ValueError("not a bucket name")
    return location


def is_location(text: str) -> bool:
    """Return whether a lake file can name the location; an IP address is not a name of a bucket."""
    try:
        return re.fullmatch(r"[0-9]+(\.[0-9]+){3}", parse_location(text).bucket) is None
    except ValueError:
        return False


def parse_origin(text: str) -> Location:
    """Parse a location that may lie in an unknown store: a lake may have been moved from anywhere."""
    other = elsewhere(text)
    if other is None:
        return parse_location(text)
    if not re.search(r"[^/:]", text.partition(":")[2]):
        raise ValueError("names no place")
    return Location(other[0], other[1].rstrip("/"))


def parse_places(text: str) -> Location:
    """Parse a location whose bucket may be a pattern of bucket names."""
    location = Location.parse(text)
    if not is_pattern(location.bucket):
        return parse_location(text)
    if not re.fullmatch(r"[A-Za-z0-9*?\[\]!._-]+", location.bucket):
        raise ValueError("not a pattern of bucket names")
    glob_to_regex(location.bucket)
    return location


def parse_endpoint(text: str) -> str:
    """Parse `http(s)://host[:port]` without a path."""
    parts = urlsplit(text)
    port = parts.port  # raises for a port out of range
    host = parts.netloc.removesuffix(f":{port}")
    if parts.scheme not in ("http", "https") or not re.fullmatch(r"[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]", host):
        raise ValueError("not an endpoint")
    if text.rstrip("/") != f"{parts.scheme}://{parts.netloc}":
        raise ValueError("not an endpoint")
    return text.rstrip("/")


def parse_url(text: str) -> str:
    """Parse `http(s)://host[:port][/path]`; a slash at its end is removed."""
    parts = urlsplit(text)
    parse_endpoint(f"{parts.scheme}://{parts.netloc}")
    if parts.query or parts.fragment or not re.fullmatch(r"(/[A-Za-z0-9._~%:@!+,=-]+)*/?", parts.path):
        raise ValueError("not a URL of a catalog")
    return text.rstrip("/")


def parse_thrift(text: str) -> str:
    """Parse one or more `thrift://host:port`, separated by commas as in `hive.metastore.uris`."""
    uris = [each.strip() for each in text.split(",")]
    for uri in uris:
        if not uri.startswith("thrift://") or urlsplit(uri).port is None:
            raise ValueError("not a Hive Metastore")
        parse_endpoint(uri.replace("thrift", "http", 1))
    return ",".join(uri.rstrip("/") for uri in uris)


def parse_matching(pattern: str, text: str) -> str:
    """Return text that matches a whole pattern."""
    if not re.fullmatch(pattern, text):
        raise ValueError("no match")
    return text
