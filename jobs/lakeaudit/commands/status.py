"""Write the status file of a command, for programs that cannot see its exit code."""

import json
import mimetypes
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from lakeaudit.errors import INTERRUPTED, AuditError, CannotPublish
from lakeaudit.formatting import iso
from lakeaudit.json_documents import CommandFailure, CommandOutcome, Failure, RepairFields
from lakeaudit.keys import S3_SCHEMES, Location
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.connections.aws_failures import explain
from lakeaudit.runtime.failures import is_full_disk, named_place, no_room
from lakeaudit.runtime.interrupt import was_interrupted, was_terminated
from lakeaudit.runtime.whole_files import replace_file


@dataclass(frozen=True)
class CommandResult:
    """The last line of a command, its exit code and warnings; in `more` further keys of its status file.

    `run_id` is the id of the run, if the command was an audit.
    """

    verdict: str
    exit_code: int
    more: RepairFields = field(default_factory=RepairFields)
    warnings: tuple[str, ...] = ()
    run_id: str | None = None


class StatusFile:
    """A local file or S3 object with the outcome of a command; without a name nothing is written.

    `ended` is true once the file contains an exit code.
    """

    def __init__(self, name: str | None, clients: Clients | None = None) -> None:
        self._name = name
        self.is_written = name is not None
        self.clients = clients or Clients()
        self.ended = False

    def write(self, summary: Mapping[str, Any]) -> None:
        """Replace the whole file in one step.

        Raises:
            CannotPublish: it cannot be written.
        """
        if self._name is not None:
            content = (json.dumps(summary, default=iso) + "\n").encode()
            write_whole(self._name, content, self.clients, f"--status-file {self._name}")
        self.ended = summary.get("exit_code") is not None

    def end(self, command: str, exit_code: int, verdict: str, *, retry: bool = False) -> None:
        """Write the outcome of a command that reports only its verdict.

        Raises:
            CannotPublish: it cannot be written.
        """
        outcome: CommandOutcome = {
            "command": command,
            "exit_code": exit_code,
            "verdict": verdict,
            "retry": retry,
        }
        self.write(outcome)


@contextmanager
def open_status(name: str | None, command: str) -> Iterator[StatusFile]:
    """Open the status file of a command, and write a failure that the command itself did not write."""
    status = StatusFile(name)
    try:
        yield status
    except BaseException as error:
        if not status.ended:
            with suppress(CannotPublish):  # the failure itself is raised
                failed: CommandFailure = {"command": command, "status": "failed", **failure(error)}
                status.write(failed)
        raise


def failure(error: BaseException) -> Failure:
    """Return a failure as the keys of a status file: exit code, message, and whether a retry may succeed."""
    if not isinstance(error, AuditError) and is_full_disk(error):
        error = no_room(named_place(error), error)
    if isinstance(error, AuditError):
        return {"exit_code": error.exit_code, "error": str(error), "retry": error.retryable}
    if isinstance(error, KeyboardInterrupt) or was_interrupted():
        return {"exit_code": INTERRUPTED, "error": KeyboardInterrupt.__name__, "retry": was_terminated()}
    return {"exit_code": 70, "error": type(error).__name__, "retry": False}


def write_whole(name: str, content: bytes, clients: Clients, about: str) -> None:
    """Replace a local file or an S3 object in one step.

    Raises:
        CannotPublish: it cannot be written; `about` names the file in the message.
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
