"""Read the `_last_checkpoint` file of a Delta log: the checkpoint at which readers begin.

It is written after its checkpoint, and names a version that existed ("Last Checkpoint File" of the Delta protocol).
"""

import json
from dataclasses import dataclass

from lakeaudit.errors import SourceError
from lakeaudit.evidence.files import ensure_whole, read_bytes
from lakeaudit.evidence.manifest.delta.log.layout import HINT
from lakeaudit.keys import Location
from lakeaudit.runtime.connections.aws import Clients

LARGEST = 1 << 20
"""Most bytes that are read; the file may carry a schema, and no writer makes it larger."""


@dataclass(frozen=True)
class Hint:
    """Holds the content of the hint; `problem` says why it has no version, and `files` are empty then.

    `files` are the names of the checkpoint's own files, in the log's folder.
    """

    place: Location
    version: int | None = None
    files: tuple[str, ...] = ()
    problem: str = ""
    adds: int | None = None
    """File entries of the checkpoint, as its writer counted them; None if the hint has no count."""
    actions: int | None = None
    """All actions of the checkpoint, as its writer counted them; old versions of delta-rs record its bytes instead."""


def read_hint(folder: Location, clients: Clients) -> Hint | None:
    """Read the hint of a log; None if it is missing, or if the store sends an error."""
    place = folder.join(HINT)
    try:
        content = read_bytes(clients, place)
        hint = None if content is None else parse_hint(place, content)
        if content is not None and hint is not None and hint.problem:
            ensure_whole(clients, place, content)
    except SourceError:
        return None
    return hint


def parse_hint(place: Location, content: bytes) -> Hint:
    """Parse the content of the file."""
    if not content.strip():
        return Hint(place, problem="is empty")
    try:
        hint = json.loads(content[:LARGEST])
        version = hint["version"]
        parts = hint.get("parts") or 0
        named = (hint.get("v2Checkpoint") or {}).get("path")
        adds, actions = _count(hint.get("numOfAddFiles")), _count(hint.get("size"))
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return Hint(place, problem="cannot be understood")
    if not isinstance(version, int) or isinstance(version, bool) or not 0 <= version < 1 << 63:
        return Hint(place, problem="names no version")
    if isinstance(named, str):
        files: tuple[str, ...] = (named.rpartition("/")[2],)
    elif isinstance(parts, int) and 1 < parts <= _MOST_PARTS:
        of_part = f"{version:020}.checkpoint.{{:010}}.{parts:010}.parquet"
        files = tuple(of_part.format(number) for number in range(1, parts + 1))
    else:
        files = (f"{version:020}.checkpoint.parquet",)
    return Hint(place, version, files, adds=adds, actions=actions)


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


_MOST_PARTS = 10_000
