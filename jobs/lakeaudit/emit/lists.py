"""Write a plain writer manifest from Python: the files of a job, as one list that an audit reads as `file_list`."""

import hashlib
import json
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from lakeaudit.keys import NULL_VERSION, Location, identify

if TYPE_CHECKING:
    from lakeaudit.runtime.connections.aws import Clients

ACTIONS = ("add", "remove", "replace")
IN_MEMORY = 8 << 20


@dataclass(frozen=True)
class WrittenFile:
    """One file that a job wrote or removed: `path` is its key or full URI, raw; `size` in bytes.

    `checksum` is `algorithm:hex`, `etag` with or without quotes, `records` the number of its rows.
    """

    path: str
    size: int | None = None
    etag: str | None = None
    version_id: str | None = None
    checksum: str | None = None
    records: int | None = None


def emit(
    location: str,
    files: Iterable[Mapping[str, Any] | WrittenFile],
    *,
    job_id: str,
    committed_at: datetime | None = None,
    action: str = "add",
    scope: str | None = None,
    clients: "Clients | None" = None,
    s3: Mapping[str, Any] | None = None,
    look: bool = False,
) -> str:
    """Write one list into the folder `location` (S3 or local), whole or not at all, and return its URI.

    The name begins with the commit time, so that lists sort in order, and ends with a digest of the content: the same
    list emitted again replaces itself. With `replace` all earlier files under `scope` (default: the table's location)
    are retired, and `files` replace them; without files the scope becomes empty.

    Args:
        location: the folder that the table's file_list manifest names.
        files: the written files; mappings have the fields of WrittenFile.
        job_id: the id of the job's run, which must be unique.
        committed_at: when they became visible, with its time zone; None: now, so that a list emitted again is another.
        action: `add`, `remove` or `replace`.
        scope: only with `replace`: a key below the table's location, or a full URI.
        clients: how to reach S3.
        s3: endpoint, region, path_style ... as in a lake file's `s3`, where `clients` are not given.
        look: look up files that are named by a full URI or local path, and fill in missing fields: for S3 objects size,
            ETag, version id and checksum (a HEAD each, one after the other), for local files size and MD5. Fields that
            cannot be read stay unknown.

    Raises:
        ValueError: an argument or a file that no reader would understand.
    """
    if action not in ACTIONS or (scope is not None and action != "replace"):
        raise ValueError(f"action {action!r} with scope {scope!r}: use add, remove, or replace with a scope")
    at = committed_at or datetime.now(UTC)
    if not job_id or at.tzinfo is None:
        raise ValueError("a job_id and a committed_at with its time zone are needed")
    common: dict[str, Any] = {
        "action": action,
        "job_id": job_id,
        "committed_at": at.astimezone(UTC).isoformat(),
    }
    reach = reach_of(clients, s3 or {})
    rows = _rows(files, common, scope, partial(_completed, reach=reach) if look else lambda file: file)
    with tempfile.SpooledTemporaryFile(max_size=IN_MEMORY) as body:
        digest = _write(body, rows)
        name = f"{at.astimezone(UTC):%Y%m%dT%H%M%S.%fZ}-{_plain(job_id)}-{digest}.jsonl"
        place = Location.parse(location).join(name)
        body.seek(0)
        _publish(place, body, reach)
    return place.uri


def _rows(
    files: Iterable[Mapping[str, Any] | WrittenFile],
    common: Mapping[str, Any],
    scope: str | None,
    complete: Callable[[WrittenFile], WrittenFile],
) -> Iterator[dict[str, Any]]:
    """Yield the rows of a list; a replacement is one row of its own before its files."""
    if common["action"] == "replace":
        yield {**common, **({"scope": scope} if scope is not None else {})}
        common = {**common, "action": "add"}
    for file in files:
        written = file if isinstance(file, WrittenFile) else WrittenFile(**file)
        _check(written)
        if common["action"] == "add":
            written = complete(written)
        yield {**{name: value for name, value in vars(written).items() if value is not None}, **common}


Reach = Callable[[], "Clients"]


def reach_of(clients: "Clients | None", s3: Mapping[str, Any]) -> Reach:
    """Return a function that builds the clients on demand: a list of local files needs none."""

    def built() -> "Clients":
        from lakeaudit.runtime.connections.aws import Clients, Endpoint

        return clients or Clients(Endpoint(**s3))

    return built


def _completed(file: WrittenFile, reach: Reach) -> WrittenFile:
    """Return the file with its missing fields from storage."""
    if file.size is not None and file.checksum is not None:
        return file
    place = identify(file.path)
    if place is None or not place[1]:
        return file
    known = _of_local(Path(f"/{place[1]}")) if not place[0] else _of_object(reach(), *place)
    return replace(file, **{name: value for name, value in known.items() if getattr(file, name) is None})


def _of_local(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as read:
            digest = hashlib.file_digest(read, lambda: hashlib.md5(usedforsecurity=False))
            return {"size": read.tell(), "checksum": f"md5:{digest.hexdigest()}"}
    except (OSError, ValueError):  # ValueError: a name that no path can have
        return {}


def _of_object(clients: "Clients", bucket: str, key: str) -> dict[str, Any]:
    from botocore.exceptions import BotoCoreError, ClientError

    from lakeaudit.evidence.storage.head import head_object

    try:
        head = head_object(clients.s3(bucket, key), bucket, key)
    except (ClientError, BotoCoreError):
        return {}
    version = None if head.version_id in (None, NULL_VERSION) else head.version_id
    return {"size": head.size, "etag": head.etag, "version_id": version, "checksum": head.checksum}


def _check(file: WrittenFile) -> None:
    path: object = file.path
    if not isinstance(path, str) or not path or "\0" in path:
        raise ValueError(f"a file needs its path as text without NUL: {file!r}")
    file.path.encode()  # UnicodeEncodeError is a ValueError: no key of a store is written so
    for name in ("size", "records"):
        value = getattr(file, name)
        if value is not None and (
            not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 63
        ):
            raise ValueError(f"{name} of {file.path!r} is not a whole number: {value!r}")
    if file.checksum is not None and not re.fullmatch(r"[A-Za-z0-9-]+:[0-9A-Fa-f]+", file.checksum):
        raise ValueError(f"checksum of {file.path!r} is not algorithm:hex: {file.checksum!r}")


def _write(body: IO[bytes], rows: Iterable[Mapping[str, Any]]) -> str:
    digest = hashlib.sha256()
    count = 0
    for row in rows:
        count += 1
        line = json.dumps(row).encode() + b"\n"
        digest.update(line)
        body.write(line)
    body.write(json.dumps({"end": True, "lines": count}).encode() + b"\n")
    return digest.hexdigest()[:16]


def _plain(job_id: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]", "_", job_id)[:80]


def _publish(place: Location, body: IO[bytes], reach: Reach) -> None:
    if place.is_local:
        _rename_into(Path(place.spark_path), body)
        return
    reach().s3(place.bucket, place.key).put_object(Bucket=place.bucket, Key=place.key, Body=body)


def _rename_into(path: Path, body: IO[bytes]) -> None:
    """Write a hidden file and rename it: readers skip hidden names, so they never see half a list."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, hidden = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            while chunk := body.read(1 << 20):
                file.write(chunk)
            file.flush()
            os.fsync(file.fileno())
        Path(hidden).chmod(0o644)
        Path(hidden).replace(path)
    except BaseException:
        Path(hidden).unlink(missing_ok=True)
        raise
