"""The status file: what an audit said of itself, for those who cannot see its exit code."""

import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from lakeaudit.aws import Clients, explain
from lakeaudit.errors import CannotPublish
from lakeaudit.keys import S3_SCHEMES, Location
from lakeaudit.rows import iso


class StatusFile:
    """Where the summary is kept for those who cannot see the exit code: a local file or an S3 object, or nowhere."""

    def __init__(self, name: str | None, clients: Clients) -> None:
        self._name = name
        self._clients = clients

    def write(self, summary: Mapping[str, Any]) -> None:
        """Replace the whole file in one step.

        Raises:
            CannotPublish: it cannot be written.
        """
        if self._name is None:
            return
        content = (json.dumps(summary, default=iso) + "\n").encode()
        try:
            if self._name.startswith(S3_SCHEMES):
                place = Location.parse(self._name)
                self._clients.s3(place.bucket).put_object(Bucket=place.bucket, Key=place.key, Body=content)
            else:
                replace_file(Path(self._name), content)
        except OSError as error:
            what = f"cannot be written ({error.strerror})"
            raise CannotPublish(
                f"--status-file {self._name}", what, "name a file in a writable folder"
            ) from error
        except (ClientError, BotoCoreError) as error:
            raise CannotPublish(f"--status-file {self._name}", *explain(error)) from error


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
