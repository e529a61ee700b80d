"""A context manager that records the files that a block writes, as its writers report them, never by a listing.

Nothing is emitted when the block fails: its exception then names the number of written files that no list has.
"""

import hashlib
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Lock
from typing import IO, TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

from lakeaudit.emit.lists import Reach, WrittenFile, emit, reach_of
from lakeaudit.keys import NULL_VERSION, Location, identify, uri_of

if TYPE_CHECKING:
    from lakeaudit.runtime.connections.aws import Clients

Client = TypeVar("Client")
IN_MEMORY = 8 << 20
_WRITES = ("PutObject", "CompleteMultipartUpload", "CopyObject")
_DELETES = ("DeleteObject", "DeleteObjects")
_REQUEST = "lakeaudit"
"""The key of boto3's request context that keeps the parameters until the response arrives."""


@contextmanager
def recorded(
    location: str,
    *,
    job_id: str,
    action: str = "add",
    scope: str | None = None,
    under: str | None = None,
    clients: "Clients | None" = None,
    s3: Mapping[str, Any] | None = None,
) -> "Iterator[Recorder]":
    """Record the writes of the block, and emit them as one list into `location` when the block has succeeded.

    Args:
        location: the folder that the table's file_list manifest names.
        job_id: the id of the job's run, which must be unique.
        action: `add`, or `replace`: all earlier files under `scope` are retired.
        scope: only with `replace`, see `emit`.
        under: the table's location: files elsewhere are left out; None: no file is left out.
        clients: how to reach S3.
        s3: endpoint, region, path_style ... as in a lake file's `s3`, where `clients` are not given.
    """
    recorder = Recorder(reach_of(clients, s3 or {}), under)
    try:
        yield recorder
        recorder.place = emit(
            location, recorder.files, job_id=job_id, action=action, scope=scope, clients=clients, s3=s3
        )
    except BaseException as error:
        error.add_note(f"lakeaudit: job {job_id} is in no list: {recorder.summary()}")
        raise
    finally:
        recorder.stop()


class Recorder:
    """The files of one block. A file that is written twice counts once, as written last; a deleted one does not count.

    `place` is the URI of the list, once it is written.
    """

    def __init__(self, reach: Reach, under: str | None = None) -> None:
        self.place: str | None = None
        self._under = Location.parse(under) if under else None
        self._reach = reach
        self._files: dict[str, WrittenFile] = {}
        self._parts: dict[tuple[str, int], int | None] = {}
        self._lock = Lock()
        self._watched: list[Callable[[], None]] = []

    @property
    def files(self) -> list[WrittenFile]:
        """The files that were written so far."""
        return list(self._files.values())

    def summary(self) -> str:
        """Return the number of written files, and an example, as a sentence."""
        names = [*self._files]
        sample = f", such as {names[0]}" if names else ""
        return f"{len(names)} files of it were written{sample}"

    def add(self, path: str, **known: Any) -> None:
        """Add a file that was written by other means; `known` are fields of WrittenFile."""
        self._take(WrittenFile(_uri(path), **known))

    def count(self, path: str, records: int) -> None:
        """Set the number of rows of a recorded file."""
        name = _uri(path)
        with self._lock:
            if name not in self._files:
                raise ValueError(f"{path} was not recorded")
            self._files[name] = replace(self._files[name], records=records)

    def boto3(self, client: Client) -> Client:
        """Record every upload, copy and deletion of an S3 client until the block ends; return the client.

        The size is that of the sent body; ETag, checksum and version id are those of the store's response.
        """
        events = client.meta.events  # type: ignore[attr-defined]
        hooks: list[tuple[str, Callable[..., None]]] = []
        for name in (*_WRITES, "UploadPart", *_DELETES):
            hooks.append((f"before-parameter-build.s3.{name}", self._before_request))
            hooks.append(
                (f"after-call.s3.{name}", self._deleted if name in _DELETES else self._after_response)
            )
        for event, hook in hooks:
            events.register(event, hook)
            self._watched.append(partial(events.unregister, event, hook))
        return client

    def visitor(self, scheme: str = "") -> Callable[[Any], None]:
        """Return a `file_visitor` for `pyarrow.dataset.write_dataset`, which records each Parquet file as it closes.

        `scheme` is the prefix of paths in the target file system: "s3://" for pyarrow's own.
        """

        def visit(file: Any) -> None:
            rows = getattr(file.metadata, "num_rows", None)
            self._take(WrittenFile(_uri(f"{scheme}{file.path}"), file.size, records=rows))

        return visit

    @contextmanager
    def open(self, path: str, *, records: int | None = None) -> Iterator[IO[bytes]]:
        """Yield a file to write bytes to, for pandas, pyarrow and other libraries.

        The file exists, complete, once the block has succeeded, and not otherwise. Size and MD5 are those of the
        written bytes.
        """
        with tempfile.SpooledTemporaryFile(max_size=IN_MEMORY) as spool:
            body: Any = spool
            yield body
            body.seek(0)
            md5 = hashlib.file_digest(body, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
            written = WrittenFile(_uri(path), body.tell(), checksum=f"md5:{md5}", records=records)
            body.seek(0)
            self._take(replace(written, **self._put(written.path, body)))

    def stop(self) -> None:
        """Record nothing more."""
        while self._watched:
            self._watched.pop()()

    def _put(self, uri: str, body: IO[bytes]) -> dict[str, Any]:
        place = identify(uri)
        if place is None:
            raise ValueError(f"{uri} is neither an s3:// URI nor a local path")
        if place[0]:
            from lakeaudit.evidence.s3_responses import etag_of

            client = self._reach().s3(*place)
            answer = client.put_object(Bucket=place[0], Key=place[1], Body=body)
            return {"etag": etag_of(answer.get("ETag")), "version_id": _version(answer)}
        path = Path(f"/{place[1]}")
        path.parent.mkdir(parents=True, exist_ok=True)
        hidden = path.with_name(f".{path.name}.{uuid4().hex}.part")
        try:
            with hidden.open("wb") as file:
                while chunk := body.read(1 << 20):
                    file.write(chunk)
                file.flush()
                os.fsync(file.fileno())
            hidden.replace(path)
        finally:
            hidden.unlink(missing_ok=True)
        return {}

    def _take(self, file: WrittenFile) -> None:
        place = identify(file.path)
        if self._under is not None and not (place and self._under.holds(*place)):
            return
        with self._lock:
            self._files.pop(file.path, None)
            self._files[file.path] = file

    def _before_request(self, params: Mapping[str, Any], context: dict[str, Any], **_: Any) -> None:
        context[_REQUEST] = {**params, "size": _length(params.get("Body"))}

    def _after_response(
        self, http_response: Any, parsed: Mapping[str, Any], model: Any, context: Mapping[str, Any], **_: Any
    ) -> None:
        request = context.get(_REQUEST)
        if request is None or http_response.status_code >= 300:
            return
        if model.name == "UploadPart":
            self._parts[request["UploadId"], request["PartNumber"]] = request["size"]
            return
        from lakeaudit.evidence.s3_responses import checksum_of, etag_of

        result = parsed.get("CopyObjectResult", parsed)
        size = request["size"] if model.name == "PutObject" else self._size_of_parts(request)
        uri = uri_of(request["Bucket"], request["Key"])
        self._take(WrittenFile(uri, size, etag_of(result.get("ETag")), _version(parsed), checksum_of(result)))

    def _size_of_parts(self, request: Mapping[str, Any]) -> int | None:
        """Return the size of a completed upload; None if a part was copied, or was sent by another client."""
        numbers = [part["PartNumber"] for part in request.get("MultipartUpload", {}).get("Parts", [])]
        sizes = [self._parts.get((request.get("UploadId", ""), number)) for number in numbers]
        return sum(size or 0 for size in sizes) if sizes and None not in sizes else None

    def _deleted(self, http_response: Any, context: Mapping[str, Any], **_: Any) -> None:
        request = context.get(_REQUEST)
        if request is None or http_response.status_code >= 300:
            return
        named = request.get("Delete", {}).get("Objects", [{"Key": request.get("Key")}])
        with self._lock:
            for each in named:
                self._files.pop(uri_of(request["Bucket"], each["Key"]), None)


def _uri(path: str) -> str:
    """Return a full URI, or an absolute path, which does not depend on the table's location."""
    if identify(path) is None:
        return str(Path(path).absolute())
    return uri_of(*(identify(path) or ("", path)))


def _version(answer: Mapping[str, Any]) -> str | None:
    version = answer.get("VersionId")
    return None if version == NULL_VERSION else version


def _length(body: Any) -> int | None:
    """Return the bytes of a request's body; None if they are not known before it is read."""
    if body is None:
        return 0
    if isinstance(body, str):
        return len(body.encode())
    if isinstance(body, bytes | bytearray | memoryview):
        return memoryview(body).nbytes
    try:
        at = body.tell()
        end = body.seek(0, os.SEEK_END)
        end = body.tell() if end is None else end
        body.seek(at)
    except (AttributeError, OSError, ValueError):
        return None
    return int(end - at)
