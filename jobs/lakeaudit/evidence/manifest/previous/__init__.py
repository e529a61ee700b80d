"""Define `previous`: files of the last storage snapshot that should stay are claims of today.

This is for tables without any writer's record. `snapshot_store` keeps a storage snapshot with the results, `compared`
compares the last one with storage as it is now and makes the next one of both, and `reader` makes claims of it.
"""

from datetime import timedelta
from typing import Literal

from pydantic import Field

from lakeaudit.config.field_types import Duration
from lakeaudit.config.sources import ManifestSource
from lakeaudit.evidence.kind import BY_BASE, ManifestKind, RowKind, deferred


class PreviousManifest(ManifestSource):
    """Claims the files of the last storage snapshot that should stay, for tables without any writer's record.

    All files stay if the table says `append_only`, else files that were `settled` for so long.
    """

    is_snapshot = True

    kind: Literal["previous"]
    complete: Literal[False] = False
    settled: Duration = Field(default=timedelta(days=7), json_schema_extra={"default": "7d"})
    """How long before a storage snapshot a file must have been written to stay."""
    keep: Duration | None = None
    """Age at which a partition may be removed, by the day in its folders' names; None: never."""


KIND = ManifestKind(
    name="previous",
    title="the storage snapshot of the last audit",
    model=PreviousManifest,
    read=deferred("lakeaudit.evidence.manifest.previous.reader:read"),
    changes=deferred("lakeaudit.evidence.manifest.previous.reader:changes"),
    look_up=deferred("lakeaudit.evidence.manifest.previous.point_lookup:read"),
    probe=deferred("lakeaudit.evidence.manifest.previous.point_lookup:probe"),
    by_storage=True,
    rows={"pictured": RowKind(BY_BASE), "placed": RowKind(BY_BASE)},
)
