"""The only module that reads Azure Blob Storage: by Arrow's own client, which is part of pyarrow.

Credentials come from the same places as for Azure's tools: AZURE_STORAGE_KEY or AZURE_STORAGE_SAS_TOKEN, else the
default chain (environment, workload identity, managed identity, the Azure CLI). A lake file holds none.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import lru_cache
from typing import IO, Any
from urllib.parse import urlsplit

from pyarrow import ArrowException, fs

from lakeaudit.errors import SourceError
from lakeaudit.keys import Location

DENIED = "access denied"
Listed = tuple[Location, int, datetime]
"""A file's place, its bytes and when it was last modified."""


def list_blobs(folder: Location, endpoint: str | None, *, flat: bool) -> list[Listed]:
    """Return files below a folder in the order of their names, without directories of a hierarchical namespace.

    Raises:
        SourceError: the container does not exist, or may not be listed.
    """
    found = _below(folder, endpoint, recursive=not flat)
    return [_listed(folder, info) for info in found if info.type == fs.FileType.File]


def folders_of(folder: Location, endpoint: str | None) -> list[str]:
    """Return names of the folders directly below; raises as `list_blobs`."""
    found = _below(folder, endpoint, recursive=False)
    return [info.base_name for info in found if info.type == fs.FileType.Directory]


def _below(folder: Location, endpoint: str | None, *, recursive: bool) -> list[Any]:
    files, path = _files(folder, endpoint)
    selector = fs.FileSelector(path, allow_not_found=True, recursive=recursive)
    with _explained(folder):
        found = sorted(files.get_file_info(selector), key=lambda info: info.path)
    if not found:
        require_container(folder, endpoint)
    return found


def stat_blob(place: Location, endpoint: str | None) -> Listed | None:
    """Return a file; None if it does not exist, in an existing container; raises as `list_blobs`."""
    files, path = _files(place, endpoint)
    with _explained(place):
        (info,) = files.get_file_info([path])
        if info.type == fs.FileType.NotFound:
            require_container(place, endpoint)
    return _listed(place, info) if info.type == fs.FileType.File else None


def require_container(place: Location, endpoint: str | None) -> None:
    """Raise SourceError if the container does not exist: then nothing is known about its files."""
    files, _ = _files(place, endpoint)
    container = place.bucket.partition("@")[0]
    with _explained(place):
        (info,) = files.get_file_info([container])
    if info.type != fs.FileType.Directory:
        raise SourceError(place.uri, "the container does not exist", "check the name and the account")


def open_blob(place: Location, endpoint: str | None) -> IO[bytes]:
    """Return the content, readable from any position; `metadata()` has the headers of its properties.

    Raises:
        FileNotFoundError: it does not exist.
        SourceError: it may not be read.
    """
    files, path = _files(place, endpoint)
    try:
        return files.open_input_file(path)  # type: ignore[no-any-return]
    except FileNotFoundError:
        raise
    except (OSError, ArrowException) as error:
        raise SourceError(place.uri, *why_refused(error)) from error


@contextmanager
def _explained(place: Location) -> Iterator[None]:
    try:
        yield
    except (OSError, ArrowException) as error:
        raise SourceError(place.uri, *why_refused(error)) from error


def _listed(place: Location, info: Any) -> Listed:
    return Location(place.bucket, info.path.partition("/")[2]), info.size, info.mtime.astimezone(UTC)


def _files(place: Location, endpoint: str | None) -> tuple[fs.FileSystem, str]:
    """Return the account's file system and the path of a place in it; `endpoint`: of a store in Azure's place."""
    container, _, account = place.bucket.partition("@")
    path = f"{container}/{place.key}" if place.key else container
    return _of_account(account, endpoint, *_credential(account)), path


def _credential(account: str) -> tuple[str | None, str | None]:
    """Return (account key, SAS token) of the environment, if they belong to this account."""
    if os.environ.get("AZURE_STORAGE_ACCOUNT", account) != account:
        return None, None
    token = os.environ.get("AZURE_STORAGE_SAS_TOKEN")
    return (None, token) if token else (os.environ.get("AZURE_STORAGE_KEY"), None)


@lru_cache(maxsize=64)
def _of_account(account: str, endpoint: str | None, key: str | None, token: str | None) -> fs.FileSystem:
    """Return a cached client: it is safe to share between threads, and slow to build."""
    where = {}
    if endpoint is not None:
        parts = urlsplit(endpoint)
        where = {f"{api}_storage_authority": parts.netloc for api in ("blob", "dfs")}
        where |= {f"{api}_storage_scheme": parts.scheme for api in ("blob", "dfs")}
    return fs.AzureFileSystem(account, account_key=key, sas_token=token, **where)


def why_refused(error: Exception) -> tuple[str, str]:
    """Return the message and hint for an error of Arrow's client, whose own message is very long."""
    text = str(error)
    if "AuthenticationFailed" in text or "AuthorizationFailure" in text or "[HTTP Status] 403" in text:
        return DENIED, "grant the role Storage Blob Data Reader to the audit's identity"
    if "Credential" in text:
        return "no Azure credentials found", "sign in, or set AZURE_STORAGE_KEY or AZURE_STORAGE_SAS_TOKEN"
    if isinstance(error, FileNotFoundError) or "404" in text or "NotFound" in text:
        return "the container does not exist", "check the name and the account"
    return "Azure did not answer as it should", "check the account's name and the network"
