"""The kinds of evidence there are: how each is read, looked up at one file, and followed after it was read."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from lakeaudit.config import Table
from lakeaudit.evidence.manifest import delta, file_list
from lakeaudit.evidence.manifest.delta import point_lookup as delta_lookup
from lakeaudit.evidence.manifest.file_list import point_lookup as file_list_lookup
from lakeaudit.evidence.metastore import s3guard
from lakeaudit.evidence.protocol import Changes, Claims, Entries, Stored
from lakeaudit.evidence.storage import inventory, listing
from lakeaudit.runtime.aws import Clients

LookUp = Callable[[Table, Clients, str, str], tuple[str, list[dict[str, Any]], str]]
"""(table, clients, bucket, key) -> what one manifest says of one file, see `manifest.point.Told`."""


@dataclass(frozen=True)
class ManifestKind:
    """What writers say: `read` and `changes` take all tables that have such a manifest."""

    read: Callable[..., Claims]
    changes: Callable[..., Changes]
    look_up: LookUp


STORAGE: Mapping[str, Callable[..., Stored]] = {
    "s3_inventory": inventory.read,
    "listing": listing.read,
}
METASTORES: Mapping[str, Callable[..., Entries]] = {
    "s3guard": s3guard.read,
}
MANIFESTS: Mapping[str, ManifestKind] = {
    "delta": ManifestKind(delta.read, delta.changes, delta_lookup.read),
    "file_list": ManifestKind(file_list.read, file_list.changes, file_list_lookup.read),
}
