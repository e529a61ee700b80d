"""Read files of evidence (manifests, logs, checksums, data files) from S3, Azure and local folders."""

import hashlib
import io
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

from botocore.exceptions import BotoCoreError, ClientError

from lakeaudit.errors import AuditError, SourceError
from lakeaudit.evidence.s3_pages import object_pages
from lakeaudit.evidence.s3_responses import (
    HeadResponse,
    ListedObject,
    head_response,
    listed_folders,
    listed_objects,
    listed_versions,
)
from lakeaudit.evidence.storage.object_versions import history_of
from lakeaudit.keys import Location
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.connections.aws_failures import explain, is_missing, is_missing_bucket
from lakeaudit.runtime.connections.azure import folders_of, list_blobs, open_blob, stat_blob
from lakeaudit.runtime.connections.quick_reads import quick_read
from lakeaudit.runtime.failures import is_full_disk, no_room, scratch_place
from lakeaudit.runtime.scratch import scratch_root
from lakeaudit.runtime.whole_files import replace_file

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_CHUNK = 1 << 20
CLOCK_STEP = timedelta(seconds=2)
"""Stores give times in whole seconds; a file whose time differs by less was not written again."""


@dataclass(frozen=True)
class File:
    """One listed file; `etag` is None for local files and where the store names none, `modified_at` is UTC."""

    place: Location
    size: int
    modified_at: datetime
    etag: str | None = None

    @property
    def name(self) -> str:
        return self.place.key.rpartition("/")[2]


def pinned(files: Iterable[File], what: str) -> str:
    """Return an identity of the files that were read, which changes with any of them; `what` is a plural noun."""
    pins = sorted(
        f"{file.place.uri}\0{file.etag or file.size}\0{file.modified_at.isoformat()}" for file in files
    )
    text = "\n".join(pins).encode(errors="replace")
    noun = what.removesuffix("s") if len(pins) == 1 else what
    return f"{len(pins)} {noun}, sha256:{hashlib.sha256(text).hexdigest()}"


def holds_any_file(clients: Clients, folder: Location) -> bool:
    """Return whether a file is below `folder`.

    Raises:
        SourceError: the bucket is missing, or the listing is refused.
    """
    return any(True for _ in list_files(clients, folder))


def list_files(
    clients: Clients, folder: Location, *, start_after: str = "", flat: bool = False
) -> Iterator[File]:
    """Yield files below `folder` in key order, from the key after `folder/start_after`; `flat` leaves sub-folders out.

    An empty or missing folder yields no file; a missing bucket or a refusal raises SourceError.
    """
    if folder.is_local:
        yield from _list_local(folder, start_after, flat)
        return
    if folder.is_azure:
        first = folder.prefix + start_after
        named = (File(*each) for each in list_blobs(folder, clients.azure_endpoint(folder.bucket), flat=flat))
        yield from (file for file in named if file.place.key > first)
        return
    after = folder.prefix + start_after if start_after else ""
    try:
        s3 = clients.s3(*folder)
        for page in object_pages(s3, folder.bucket, folder.prefix, "/" if flat else "", after=after):
            for entry in listed_objects(page):
                yield _listed(clients, Location(folder.bucket, entry.key), entry)
    except (ClientError, BotoCoreError) as error:
        raise _source_error(clients, folder, error) from error


def folders(clients: Clients, folder: Location) -> list[str]:
    """Return the names of the folders directly below; one of them is empty where keys have `//` there."""
    if folder.is_local:
        return _local_folders(folder)
    if folder.is_azure:
        return folders_of(folder, clients.azure_endpoint(folder.bucket))
    try:
        pages = object_pages(clients.s3(*folder), folder.bucket, folder.prefix, "/")
        found = [name for page in pages for name in listed_folders(page)]
    except (ClientError, BotoCoreError) as error:
        raise _source_error(clients, folder, error) from error
    return [prefix[len(folder.prefix) :].removesuffix("/") for prefix in found]


def named_folders(clients: Clients, folder: Location) -> list[tuple[Location, str]]:
    """Return (parent, name) of the folders directly below, where `//` counts as one slash.

    AWS services add a slash of their own, so that files delivered to the prefix `x/` lie below `x//`.
    """
    found: list[tuple[Location, str]] = []
    for name in folders(clients, folder):
        if name:
            found.append((folder, name))
        elif (inner := folder.join("")) != folder:
            found += named_folders(clients, inner)
    return found


def read_bytes(
    clients: Clients, place: Location, version_id: str | None = None, *, size: int = 0
) -> bytes | None:
    """Return the whole content, of an older version where one is named; None where the file does not exist.

    A refusal raises SourceError and never counts as absence. If fewer bytes arrive than the `size` that storage
    records, which may look like a whole response behind a proxy, the content is requested once more. If it is short
    again although storage still records more, SourceError is raised.
    """
    content = _read_once(clients, place, version_id)
    if content is None or len(content) >= size:
        return content
    content = _read_once(clients, place, version_id)
    if content is not None and len(content) < size and version_id is None:
        ensure_whole(clients, place, content)
    return content


def ensure_whole(clients: Clients, place: Location, content: bytes) -> None:
    """Check with storage the size of a file whose content is short, or cannot be understood.

    Raises:
        SourceError: it has more bytes than were read, so its content is not known.
    """
    there = stat(clients, place)
    if there is not None and there.size > len(content):
        raise cut_off(place, len(content), there.size)


def cut_off(place: Location, arrived: int, size: int) -> SourceError:
    """Return the error for a file of which other than `size` bytes arrived, the number that storage records."""
    what = f"storage records {size} bytes, and {arrived} can be read"
    return SourceError(place.uri, what, "look for a proxy or cache that cuts responses")


def _read_once(clients: Clients, place: Location, version_id: str | None) -> bytes | None:
    if place.is_local:
        return _read_local(place)
    if place.is_azure:
        return _read_azure(clients, place)
    if version_id is None and (content := quick_read(clients, place)) is not None:
        return content
    asked = {"Bucket": place.bucket, "Key": place.key} | ({"VersionId": version_id} if version_id else {})
    try:
        return clients.s3(*place).get_object(**asked)["Body"].read()  # type: ignore[arg-type]
    except ClientError as error:
        if is_missing(error):
            return None
        raise _source_error(clients, place, error) from error
    except BotoCoreError as error:
        raise _source_error(clients, place, error) from error


@contextmanager
def fetched(clients: Clients, place: Location) -> Iterator[Path | None]:
    """Yield a local path of the file's content, for libraries that open paths; None where the file does not exist.

    The path is safe for any key: it is a link to a local file, or a temporary file with the object's content.
    """
    with tempfile.TemporaryDirectory(prefix="lakeaudit-", dir=scratch_root()) as folder:
        target = Path(folder, "file")
        if place.is_local:
            target.symlink_to(place.spark_path)
            yield target if target.is_file() else None
            return
        with copied(clients, place, target) as copy:
            yield None if copy is None else target


@contextmanager
def copied(clients: Clients, place: Location, target: Path | None = None) -> Iterator[IO[bytes] | None]:
    """Yield a local copy of a file of any size, readable from any position; None where the file does not exist.

    The copy is at `target` where that is given, else it has no name.
    """
    with tempfile.TemporaryFile(dir=scratch_root()) if target is None else target.open("w+b") as copy:
        try:
            if place.is_local:
                copy.write(Path(place.spark_path).read_bytes())
            elif place.is_azure:
                with open_blob(place, clients.azure_endpoint(place.bucket)) as blob:
                    shutil.copyfileobj(blob, copy, _CHUNK)
            else:
                body: Any = clients.s3(*place).get_object(Bucket=place.bucket, Key=place.key)["Body"]
                shutil.copyfileobj(body, copy, _CHUNK)
        except FileNotFoundError:
            yield None
            return
        except OSError as error:
            raise _copy_error(place, error) from error
        except ClientError as error:
            if not is_missing(error):
                raise _source_error(clients, place, error) from error
            yield None
            return
        except BotoCoreError as error:
            raise _source_error(clients, place, error) from error
        copy.flush()
        copy.seek(0)
        yield copy


def opened(clients: Clients, place: Location, *, small: bool = False, size: int = 0) -> IO[bytes]:
    """Return the content as a stream, which the caller closes. Exceptions of the store or the system pass unchanged.

    `small`: it may be held in memory; if fewer bytes arrive than its `size`, it is requested once more.
    """
    if place.is_local:
        return Path(place.spark_path).open("rb")
    if place.is_azure:
        try:
            return open_blob(place, clients.azure_endpoint(place.bucket))
        except SourceError as error:
            raise OSError(error.what) from error
    if small and (content := quick_read(clients, place)) is not None and len(content) >= size:
        return io.BytesIO(content)
    body = _body(clients, place)
    if not small:
        return body
    content = body.read()
    return io.BytesIO(content) if len(content) >= size else _body(clients, place)


def _body(clients: Clients, place: Location) -> IO[bytes]:
    body: Any = clients.s3(*place).get_object(Bucket=place.bucket, Key=place.key)["Body"]
    return cast("IO[bytes]", body)


class Ranged(io.RawIOBase):
    """An object of S3 as a file that is readable from any position; each read is a request, as footers need few."""

    def __init__(self, clients: Clients, place: Location, size: int) -> None:
        super().__init__()
        self._s3 = clients.s3(*place)
        self._place = place
        self._size = size
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def readinto(self, buffer: "WriteableBuffer") -> int:
        view = memoryview(buffer).cast("B")
        end = min(self._at + len(view), self._size)
        if end <= self._at:
            return 0
        asked = f"bytes={self._at}-{end - 1}"
        answer = self._s3.get_object(Bucket=self._place.bucket, Key=self._place.key, Range=asked)
        content = answer["Body"].read()
        view[: len(content)] = content
        self._at += len(content)
        return len(content)


def seekable(clients: Clients, place: Location, size: int) -> IO[bytes]:
    """Return an object as a file that is readable from any position, without a copy; raises as `opened`."""
    return opened(clients, place) if place.is_azure else cast("IO[bytes]", Ranged(clients, place, size))


def put_bytes(clients: Clients, place: Location, content: bytes) -> None:
    """Write a small file atomically. Raises OSError, ClientError, BotoCoreError."""
    if not place.is_local:
        clients.s3(*place).put_object(Bucket=place.bucket, Key=place.key, Body=content)
        return
    path = Path(place.spark_path)
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, content)


def remove_file(clients: Clients, place: Location) -> None:
    """Remove a file, if there is one. Raises as `put_bytes`."""
    if place.is_local:
        Path(place.spark_path).unlink(missing_ok=True)
    else:
        clients.s3(*place).delete_object(Bucket=place.bucket, Key=place.key)


def stat(clients: Clients, place: Location) -> File | None:
    """Return size, time and ETag of one file; None where it does not exist."""
    if place.is_local:
        return next(_stat_local(Path(place.spark_path)), None)
    if place.is_azure:
        blob = stat_blob(place, clients.azure_endpoint(place.bucket))
        return File(*blob) if blob else None
    try:
        head = _head(clients, place)
        if head is None or (head.size is not None and head.modified_at is not None):
            return _file(place, head) if head else None
        listed = _entry(clients, place)
        return _file(place, head, listed) if listed else _file(place, head)
    except (ClientError, BotoCoreError) as error:
        raise _source_error(clients, place, error) from error


def ensure_bucket(clients: Clients, place: Location) -> None:
    """Check that the bucket of a missing file exists: HEAD answers 404 for a missing file and for a missing bucket.

    Raises:
        SourceError: the endpoint has no such bucket, so nothing is known of the file.
    """
    if place.is_local or place.is_azure:
        return
    try:
        clients.s3(*place).list_objects_v2(Bucket=place.bucket, Prefix=place.key, MaxKeys=1)
    except (ClientError, BotoCoreError) as error:
        if is_missing_bucket(error):
            raise _source_error(clients, place, error) from error


def _listed(clients: Clients, place: Location, entry: ListedObject) -> File:
    """Return a listed file; attributes that the listing leaves out are requested by HEAD."""
    if entry.size is not None and entry.modified_at is not None:
        return File(place, entry.size, entry.modified_at, entry.etag)
    head = _head(clients, place)
    return _file(place, entry, head) if head else _file(place, entry)


def _head(clients: Clients, place: Location) -> HeadResponse | None:
    """Return the HEAD response of an object; None where it does not exist."""
    try:
        return head_response(clients.s3(*place).head_object(Bucket=place.bucket, Key=place.key))
    except ClientError as error:
        if is_missing(error):
            return None
        raise


def _entry(clients: Clients, place: Location) -> ListedObject | None:
    """Return the object as a listing names it."""
    page = clients.s3(*place).list_objects_v2(Bucket=place.bucket, Prefix=place.key, MaxKeys=1)
    return next((entry for entry in listed_objects(page) if entry.key == place.key), None)


def _file(place: Location, *known: ListedObject | HeadResponse) -> File:
    """Return a file, with each attribute from the first response that has it.

    Raises:
        SourceError: neither a listing nor HEAD has its size, or its time.
    """
    size, modified_at, etag = (
        next((value for each in known if (value := getattr(each, name)) is not None), None)
        for name in ("size", "modified_at", "etag")
    )
    if size is None or modified_at is None:
        unknown = "size" if size is None else "time"
        raise SourceError(place.uri, f"the store does not say its {unknown}", "see the store's own log")
    return File(place, size, modified_at, etag)


def older_version(clients: Clients, place: Location, etag: str | None = None) -> str | None:
    """Return the id of the newest noncurrent version of an object, with this ETag where one is given, or None."""
    if place.is_local or place.is_azure:
        return None
    try:
        page = clients.s3(*place).list_object_versions(Bucket=place.bucket, Prefix=place.key)
    except (ClientError, BotoCoreError) as error:
        raise _source_error(clients, place, error) from error
    older = [v for v in history_of(page, place.key).versions if v.is_latest is False and not v.is_marker]
    return next((each.version_id for each in older if etag in (None, each.etag)), None)


def older_files(clients: Clients, folder: Location, most: int) -> list[str]:
    """Return up to `most` names of files below a folder that have only noncurrent versions, from the first page."""
    try:
        page = clients.s3(*folder).list_object_versions(Bucket=folder.bucket, Prefix=folder.prefix)
    except (ClientError, BotoCoreError) as error:
        raise _source_error(clients, folder, error) from error
    versions = [each for each in listed_versions(page) if not each.is_marker]
    current = {each.key for each in versions if each.is_latest is not False}
    older = dict.fromkeys(each.key for each in versions if each.is_latest is False)
    return [key.removeprefix(folder.prefix) for key in older if key not in current][:most]


def _local_folders(folder: Location) -> list[str]:
    path = Path(folder.spark_path)
    try:
        return sorted(p.name for p in path.iterdir() if p.is_dir()) if path.is_dir() else []
    except OSError as error:
        raise _local_error(folder, error) from error


def _read_azure(clients: Clients, place: Location) -> bytes | None:
    try:
        with open_blob(place, clients.azure_endpoint(place.bucket)) as blob:
            return blob.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SourceError(place.uri, "cannot be read to its end", "run it again") from error


def _read_local(place: Location) -> bytes | None:
    path = Path(place.spark_path)
    try:
        return path.read_bytes() if path.is_file() else None
    except OSError as error:
        raise _local_error(place, error) from error


def _local_error(place: Location, error: OSError) -> SourceError:
    return SourceError(
        place.uri, error.strerror or type(error).__name__, "grant the audit's user the right to read"
    )


def _copy_error(place: Location, error: OSError) -> AuditError:
    """Return the error of a failed copy: the disk of the scratch folder is full, or the file cannot be read."""
    return no_room(scratch_place(), error) if is_full_disk(error) else _local_error(place, error)


def _list_local(folder: Location, start_after: str, flat: bool) -> Iterator[File]:
    root = Path(folder.spark_path)
    found = root.glob("*") if flat else root.rglob("*")
    for path in sorted(found, key=str):
        if str(path.relative_to(root)) > start_after:
            yield from _stat_local(path)


def _stat_local(path: Path) -> Iterator[File]:
    if path.is_file():
        info = path.stat()
        place = Location("", str(path)[1:])
        yield File(place, info.st_size, datetime.fromtimestamp(info.st_mtime, UTC))


def _source_error(clients: Clients, place: Location, error: Exception) -> SourceError:
    failure = explain(error)
    if is_missing_bucket(error):
        failure = failure._replace(what=f"{failure.what} at {clients.s3(*place).meta.endpoint_url}")
    return SourceError(place.uri, *failure)
