"""Open a delete list: a file, the standard input, the objects below a prefix, or a lifecycle configuration."""

import gzip
import io
import json
import sys
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO, cast

import pyarrow as pa

from lakeaudit.errors import BadInput
from lakeaudit.evidence.files import File, list_files, read_bytes
from lakeaudit.evidence.storage.lifecycle import DELETES, Action, actions_of
from lakeaudit.guard.lists.json_lists import MOST
from lakeaudit.guard.lists.protocol import SAMPLE, Lines, Row, batches, file_row
from lakeaudit.guard.lists.registry import FORMS, form_of
from lakeaudit.keys import Location, identify
from lakeaudit.runtime.connections.aws import Clients

STDIN = "-"


def read_list(
    name: str, clients: Clients, *, form: str | None = None, bucket: str | None = None
) -> tuple[Iterator[pa.RecordBatch], Lines, str]:
    """Return LISTED batches of a list, what its reader notices, and the name of its form.

    Args:
        name: a path or s3:// URI of a file, `-`, or a location that ends in `/`: all objects below it.
        clients: clients of the lake's stores.
        form: name of the form; None: it is recognised by the content.
        bucket: bucket of a lifecycle rule.

    Raises:
        BadInput: there is no such list, or it cannot be understood.
        SourceError: a store does not answer.
    """
    lines = Lines()
    if name.endswith("/"):
        return _of_prefix(name, clients), lines, "prefix"
    content = _open(name, clients)
    with _as_bad_input():
        sample = content.peek(SAMPLE)[:SAMPLE]
    if form in (None, LIFECYCLE):
        rules, content = _lifecycle(content, sample)
        if rules is not None:
            return _of_rules(rules, bucket, clients), lines, LIFECYCLE
        if form is not None:
            hint = "write it as `aws s3api get-bucket-lifecycle-configuration` prints it"
            raise BadInput("LIST", "is not a complete lifecycle configuration", hint)
    chosen = FORMS[form] if form else form_of(sample)
    return _closing(chosen.read(cast("BinaryIO", content), lines), content), lines, chosen.name


LIFECYCLE = "lifecycle"


def _closing(rows: Iterator[pa.RecordBatch], content: io.BufferedReader) -> Iterator[pa.RecordBatch]:
    with content, _as_bad_input():
        yield from rows


@contextmanager
def _as_bad_input() -> Iterator[None]:
    """Report a damaged compression, which may end a list in its middle, as bad input."""
    try:
        yield
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise BadInput(
            "LIST", f"the compressed list is not complete: {error}", "copy the list again"
        ) from None


def _open(name: str, clients: Clients) -> io.BufferedReader:
    """Open a list, and decompress one that begins as gzip does."""
    if name == STDIN:
        raw: io.BufferedReader = cast("io.BufferedReader", sys.stdin.buffer)
    else:
        raw = _open_file(name, clients)
    if raw.peek(2)[:2] == b"\x1f\x8b":
        return io.BufferedReader(gzip.GzipFile(fileobj=raw), SAMPLE)
    return raw


def _open_file(name: str, clients: Clients) -> io.BufferedReader:
    place = identify(name)
    if place is not None and place[0]:
        content = read_bytes(clients, Location(*place))
        if content is None:
            raise BadInput(name, "does not exist", "name the list, or a location that ends in /")
        return io.BufferedReader(io.BytesIO(content), SAMPLE)
    path = Path(Location(*place).spark_path if place else name)
    try:
        return io.BufferedReader(path.open("rb", buffering=0), SAMPLE)
    except OSError as error:
        of_folder = "to check all files below a folder, write a / at its end"
        hint = of_folder if path.is_dir() else "name a file that exists"
        raise BadInput(name, f"cannot be read: {error.strerror}", hint) from None


def _of_prefix(name: str, clients: Clients) -> Iterator[pa.RecordBatch]:
    """Yield the objects below a prefix."""
    try:
        place = Location.parse(name)
    except ValueError:
        hint = "write s3://bucket/prefix/ or a local folder with / at its end"
        raise BadInput(name, "is not a location", hint) from None
    yield from batches(_rows(list_files(clients, place)))


def _rows(files: Iterator[File]) -> Iterator[Row]:
    for number, file in enumerate(files, 1):
        yield file_row(number, file.place.key, file.place.bucket)


def _lifecycle(
    content: io.BufferedReader, sample: bytes
) -> tuple[Mapping[str, Any] | None, io.BufferedReader]:
    """Return a lifecycle configuration as the AWS command line prints it, or None and the content to be read."""
    if not sample.lstrip().startswith(b"{") or b'"Rules"' not in sample:
        return None, content
    text = content.read(MOST + 1)
    try:
        rules = json.loads(text)
    except (ValueError, RecursionError):
        rules = None
    if isinstance(rules, dict) and isinstance(rules.get("Rules"), list):
        return rules, content
    return None, io.BufferedReader(io.BytesIO(text), SAMPLE)


def _of_rules(rules: Mapping[str, Any], bucket: str | None, clients: Clients) -> Iterator[pa.RecordBatch]:
    """Yield the current objects that a lifecycle configuration deletes, now or when they are older.

    Tags of objects are not read: a rule for objects with a tag counts for all objects below its prefix.
    """
    if bucket is None:
        raise BadInput("--bucket", "a lifecycle configuration does not name its bucket", "add --bucket NAME")
    actions = [each for each in _actions(rules, bucket, clients) if each.does == DELETES]
    yield from batches(_rows(_concerned(actions, bucket, clients)))


def _actions(rules: Mapping[str, Any], bucket: str, clients: Clients) -> tuple[Action, ...]:
    hint = "write it as `aws s3api get-bucket-lifecycle-configuration` prints it"
    try:
        actions = actions_of(_with_dates(rules), bucket, clients.storage_classes(bucket))
        if _are_odd(rules["Rules"], actions):
            raise BadInput(
                "LIST", "a rule of the lifecycle configuration has no valid status, action or size", hint
            )
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise BadInput("LIST", f"is not a lifecycle configuration: {error}", hint) from None
    return actions


def _are_odd(rules: Sequence[Any], actions: Sequence[Action]) -> bool:
    """Return whether a rule would be read differently than it was meant."""
    sizes = [bound for each in actions for bound in (each.larger_than, each.smaller_than)]
    prefixes = [each.below.key for each in actions]
    return (
        any(not isinstance(size, int | None) for size in sizes)
        or any(not isinstance(prefix, str) for prefix in prefixes)
        or any(
            rule["Status"] not in ("Enabled", "Disabled") or not isinstance(rule.get("Expiration", {}), dict)
            for rule in rules
        )
    )


def _with_dates(value: Any) -> Any:
    """Return JSON with the dates of rules as times."""
    if isinstance(value, list):
        return [_with_dates(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        name: datetime.fromisoformat(each) if name == "Date" and isinstance(each, str) else _with_dates(each)
        for name, each in value.items()
    }


def _concerned(actions: Sequence[Action], bucket: str, clients: Clients) -> Iterator[File]:
    """Yield each object that one of the actions concerns, once."""
    places = sorted({each.below.key for each in actions})
    outermost = [key for key in places if not any(other != key and key.startswith(other) for other in places)]
    for key in outermost:
        for file in list_files(clients, Location(bucket, key.rpartition("/")[0])):
            if any(
                each.concerns(file.place, file.size) for each in actions if each.below.key.startswith(key)
            ):
                yield file
