"""Look up one file in the manifests of a table: now, on this machine, without Spark.

For a whole table this is slower than the readers of claims; for one key the answer is the same.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lakeaudit.config import Table
from lakeaudit.evidence.registry import MANIFESTS
from lakeaudit.runtime.connections.aws import Clients


@dataclass(frozen=True)
class LookupResult:
    """Holds the answer of one manifest about a file.

    `answer` is present (claimed live), deleted (its claim ended), absent (never named in the retained records) or
    unknown; `history` are the acts that named it, oldest first; `reason` says why the answer is unknown.
    """

    kind: str
    answer: str
    history: tuple[Mapping[str, Any], ...] = ()
    reason: str = ""


def lookup_claims(table: Table, clients: Clients, bucket: str, key: str) -> Iterator[LookupResult]:
    """Yield the answer of each manifest of a table."""
    for kind in dict.fromkeys(manifest.kind for manifest in table.manifests):
        answer, history, reason = MANIFESTS[kind].look_up(table, clients, bucket, key)
        yield LookupResult(kind, answer, tuple(history), reason)
