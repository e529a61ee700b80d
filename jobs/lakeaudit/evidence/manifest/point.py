"""What the manifests of a table say of one file: read now, on this machine, without Spark.

Slower for a whole table than the readers beside it, and the same answer for one key.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lakeaudit.config import Table
from lakeaudit.evidence.registry import MANIFESTS
from lakeaudit.runtime.aws import Clients


@dataclass(frozen=True)
class Told:
    """One manifest's word on a file.

    `answer` is present (claimed live), deleted (it was given up), absent (never named in what is kept) or unknown;
    `history` are the acts that named it, oldest first; `reason` says why the answer is unknown.
    """

    kind: str
    answer: str
    history: tuple[Mapping[str, Any], ...] = ()
    reason: str = ""


def told_of(table: Table, clients: Clients, bucket: str, key: str) -> Iterator[Told]:
    """The word of each manifest of a table."""
    for kind in dict.fromkeys(manifest.kind for manifest in table.manifests):
        answer, history, reason = MANIFESTS[kind].look_up(table, clients, bucket, key)
        yield Told(kind, answer, tuple(history), reason)
