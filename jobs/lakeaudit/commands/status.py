"""The status file: what a command said of itself, for those who cannot see its exit code."""

import json
import mimetypes
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from lakeaudit.errors import INTERRUPTED, AuditError, CannotPublish
from lakeaudit.formatting import iso
from lakeaudit.keys import S3_SCHEMES, Location
from lakeaudit.runtime.aws import Clients
from lakeaudit.runtime.aws_failures import explain
from lakeaudit.runtime.failures import is_full_disk, named_place, no_room


class StatusFile:
    """Where a command's last word is kept: a local file or an S3 object, or nowhere.

    `ended` says that it holds an exit code.
    """

    def __init__(self, name: str | None, clients: Clients | None = None) -> None:
        self._name = name
        self.clients = clients or Clients()
        self.ended = False

    def write(self, said: Mapping[str, Any]) -> None:
        """Replace the whole file in one step.

        Raises:
            CannotPublish: it cannot be written.
        """
        if self._name is not None:
            content = (json.dumps(said, default=iso) + "\n").encode()
            write_whole(self._name, content, self.clients, f"--status-file {self._name}")
        self.ended = said.get("exit_code") is not None

    def end(self, command: str, exit_code: int, said: str, *, retry: bool = False) -> None:
        """The last word of a command that has no more to say than its verdict.

        Raises:
            CannotPublish: it cannot be written.
        """
        self.write({"command": command, "exit_code": exit_code, "verdict": said, "retry": retry})


@contextmanager
def kept(name: str | None, command: str) -> Iterator[StatusFile]:
    """The status file of a command; a failure that the command itself does not note is noted here."""
    status = StatusFile(name)
    try:
        yield status
    except BaseException as error:
        if not status.ended:
            with suppress(CannotPublish):  # the failure itself is told
                status.write({"command": command, "status": "failed"} | failure(error))
        raise


def failure(error: BaseException) -> dict[str, Any]:
    """What a status file says of a failure: the exit code, the line, and whether another try may do."""
    if not isinstance(error, AuditError) and is_full_disk(error):
        error = no_room(named_place(error), error)
    if isinstance(error, AuditError):
        return {"exit_code": error.exit_code, "error": str(error), "retry": error.retryable}
    code = INTERRUPTED if isinstance(error, KeyboardInterrupt) else 70
    return {"exit_code": code, "error": type(error).__name__, "retry": False}


def write_whole(name: str, content: bytes, clients: Clients, about: str) -> None:
    """Replace a local file or an S3 object in one step.

    Raises:
        CannotPublish: it cannot be written; `about` says whose file it is.
    """
    try:
        if name.startswith(S3_SCHEMES):
            place = Location.parse(name)
            kind = mimetypes.guess_type(place.key)[0] or "application/octet-stream"
            s3 = clients.s3(place.bucket)
            s3.put_object(Bucket=place.bucket, Key=place.key, Body=content, ContentType=kind)
        else:
            replace_file(Path(name), content)
    except OSError as error:
        what = f"cannot be written ({error.strerror})"
        raise CannotPublish(about, what, "name a file in a writable folder") from error
    except (ClientError, BotoCoreError) as error:
        raise CannotPublish(about, *explain(error)) from error


def replace_file(path: Path, content: bytes) -> None:
    """Write a file so that nobody ever sees a part of it."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
