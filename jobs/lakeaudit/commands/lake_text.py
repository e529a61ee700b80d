"""Reads lake files, from this machine or from S3, and loads their lakes for commands."""

import os
from typing import Any

from lakeaudit.config import Lake, data_of_lake, load_lake, read_local
from lakeaudit.config.yaml_document import Unreadable
from lakeaudit.errors import CannotAudit, SourceError

ON_S3 = ("s3://", "s3a://", "s3n://")


def open_lake(lake_file: str) -> Lake:
    """Return the lake of a lake file, whose `${NAME}` are variables of the environment.

    Raises:
        LakeFileError: the lake file does not exist, or is not valid.
        CannotAudit: the store of the lake file does not answer.
    """
    return load_lake(lake_file, os.environ, read_lake_text)


def lake_data(lake_file: str) -> dict[str, Any]:
    """Return the blocks of a lake file that a plan keeps."""
    return data_of_lake(lake_file, os.environ, read_lake_text)


def read_lake_text(lake_file: str) -> bytes:
    """Return the content of a lake file; one on S3 is read with the credentials of the environment.

    Raises:
        Unreadable: it does not exist, or its address is wrong.
        CannotAudit: the store refused the request, or did not answer.
    """
    if not lake_file.startswith(ON_S3):
        return read_local(lake_file)
    from lakeaudit.evidence.files import read_bytes
    from lakeaudit.keys import Location
    from lakeaudit.runtime.connections.aws import Clients

    try:
        content = read_bytes(Clients(), Location.parse(lake_file))
    except SourceError as error:
        what = f"the lake file cannot be read: {error.what}"
        raise CannotAudit(lake_file, what, error.hint, error.retryable) from error
    except ValueError as error:
        raise Unreadable(None, f"cannot be read: {error}", "write s3://bucket/folder/lake.yaml") from None
    if content is None:
        raise Unreadable(None, "no such lake file", "upload it, or correct its address")
    return content


def whole_path(lake_file: str) -> str:
    """Return the path of a lake file from the root; an address on a store as it is."""
    return lake_file if "://" in lake_file else os.path.realpath(lake_file)
