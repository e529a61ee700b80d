"""Finds and verifies the data files of an inventory report, in tasks.

A file is what its manifest says only with the same size and MD5. Where the store's ETag is that MD5
nothing is read; elsewhere (multipart or encrypted files, local folders) the file streams through MD5
once.
"""

import hashlib
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from botocore.exceptions import BotoCoreError, ClientError

from lakeaudit.errors import SourceError
from lakeaudit.evidence.files import opened
from lakeaudit.evidence.protocol import Context
from lakeaudit.evidence.s3_responses import head_response
from lakeaudit.evidence.storage.inventory.report import DataFile, Report, candidates
from lakeaudit.keys import Location
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.connections.aws_failures import explain, is_missing

_CHUNK = 1 << 20
_MISSING = "is missing"


@dataclass(frozen=True)
class Located:
    """One data file of a manifest: where it lies, or why it cannot be used.

    `stamp` changes when the file is replaced, see `stamp_of`.
    """

    file: DataFile
    place: Location | None = None
    stamp: str | None = None
    fault: str | None = None


@dataclass(frozen=True)
class _Search:
    """One file to be sought; plain data that travels to the tasks."""

    size: int
    md5: str
    candidates: tuple[Location, ...]


_Answer = tuple[Location | None, str | None, str | None]
"""(place, stamp, None), or (None, None, what is wrong)."""


def locate(ctx: Context, report: Report) -> list[Located]:
    """Every data file of the report, verified, in the manifest's order."""
    files = report.manifest.files
    searches = [_Search(file.size, file.md5.lower(), tuple(candidates(report, file.key))) for file in files]
    if not searches:
        return []
    weight = sum(file.size for file in files)
    answers = ctx.engine.map(partial(_first_match, ctx.clients), searches, weight, unlocked=True)
    return [Located(file, *answer) for file, answer in zip(files, answers, strict=True)]


def _first_match(clients: Clients, search: _Search) -> _Answer:
    """The first candidate that is the file."""
    fault = _MISSING
    for place in search.candidates:
        try:
            stamp, mismatch = _compared(clients, place, search)
        except FileNotFoundError:
            mismatch = _MISSING
        except ClientError as error:
            mismatch = _MISSING if is_missing(error) else explain(error).what
        except (BotoCoreError, OSError) as error:
            mismatch = explain(error).what
        if mismatch is None:
            return place, stamp, None
        fault = mismatch if fault == _MISSING else fault
    return None, None, fault


def _compared(clients: Clients, place: Location, search: _Search) -> tuple[str, str | None]:
    """(stamp of the file at `place`, None if it has size and MD5 and may be read, else what is wrong)."""
    size, stamp = _size_and_stamp(clients, place)
    if size not in (None, search.size):
        return stamp, f"has {size} bytes and not {search.size}"
    if stamp != search.md5:
        read = _md5(clients, place)
        if read != search.md5:
            return stamp, f"has MD5 {read} and not {search.md5}"
    return stamp, _unreadable(place)


def stamp_of(clients: Clients, place: Location) -> str | None:
    """What changes when the file is replaced: its ETag, else its time; None: it does not exist.

    Raises:
        SourceError: the store refuses to say.
    """
    try:
        return _size_and_stamp(clients, place)[1]
    except FileNotFoundError:
        return None
    except ClientError as error:
        if is_missing(error):
            return None
        raise SourceError(place.uri, *explain(error)) from error
    except (BotoCoreError, OSError) as error:
        raise SourceError(place.uri, *explain(error)) from error


def _size_and_stamp(clients: Clients, place: Location) -> tuple[int | None, str]:
    """(bytes, None where the store does not say; what `stamp_of` gives)."""
    if not place.is_local:
        head = head_response(clients.s3(*place).head_object(Bucket=place.bucket, Key=place.key))
        return head.size, head.etag or f"{head.size} bytes of {head.modified_at}"
    path = Path(place.spark_path)
    if not path.is_file():
        raise FileNotFoundError(place.spark_path)
    return path.stat().st_size, str(path.stat().st_mtime_ns)


def _md5(clients: Clients, place: Location) -> str:
    digest = hashlib.md5(usedforsecurity=False)
    with closing(opened(clients, place)) as content:
        while chunk := content.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _unreadable(place: Location) -> str | None:
    """Return why a data file is not read: Spark treats its name as hidden, or its path leads elsewhere."""
    parts = place.key.split("/")
    if parts[-1].startswith(("_", ".")):
        return "has a name that Spark takes for hidden"
    return "has a key that leads out of its folder" if {".", ".."} & {*parts} else None
