"""A Delta log as plain JSON: which files are listed now, and which were and when they were removed."""

import base64
import json
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_B85 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_TO_B85 = str.maketrans(_Z85, _B85)


@dataclass
class DeltaLog:
    """`live`: key -> its add action. `removed`: key -> deletion time in ms. `vectors`: keys of live DV files."""

    live: dict[str, dict[str, Any]] = field(default_factory=dict)
    removed: dict[str, int] = field(default_factory=dict)
    version: int = -1

    @property
    def vectors(self) -> set[str]:
        """Files of deletion vectors that the newest state needs."""
        return {add["vector_key"] for add in self.live.values() if "vector_key" in add}


def replay(location: str, commits: Iterable[tuple[int, str]]) -> DeltaLog:
    """Fold commits, given as (version, JSON Lines) in order, into one state."""
    log = DeltaLog()
    for version, text in commits:
        log.version = version
        actions = [json.loads(line) for line in text.splitlines() if line.strip()]
        for action in (action["remove"] for action in actions if "remove" in action):
            key = key_of(location, action["path"])
            log.live.pop(key, None)
            log.removed[key] = action.get("deletionTimestamp", 0)
        for action in (action["add"] for action in actions if "add" in action):
            key = key_of(location, action["path"])
            log.live[key] = action | _vector(location, action.get("deletionVector"))
            log.removed.pop(key, None)
    return log


def key_of(location: str, path: str) -> str:
    """The object key of a path in a log: percent-encoded once, relative to the table or an absolute S3 address."""
    path = unquote(path)
    for scheme in ("s3a://", "s3://"):
        if path.startswith(scheme):
            return path[len(scheme) :].partition("/")[2]
    return f"{location}/{path}"


def _vector(location: str, vector: dict[str, Any] | None) -> dict[str, str]:
    """A vector file's name is its UUID, written in Z85 at the end of `pathOrInlineDv`, behind an optional folder."""
    if not vector or vector["storageType"] != "u":
        return {}
    text = vector["pathOrInlineDv"]
    name = uuid.UUID(bytes=base64.b85decode(text[-20:].translate(_TO_B85)))
    folder = f"{text[:-20]}/" if len(text) > 20 else ""
    return {"vector_key": f"{location}/{folder}deletion_vector_{name}.bin"}
