"""`previous`: what the last audited picture of storage held, and declares to stay, is a claim of today.

For tables without any writer's record. `kept_picture` keeps a picture beside the results, `compared` holds the last one
against storage as it is now and makes the next one of both, and `reader` makes claims of it.
"""

from datetime import timedelta
from typing import Literal

from pydantic import Field

from lakeaudit.config.field_types import Duration
from lakeaudit.config.sources import ManifestSource
from lakeaudit.evidence.kind import BY_BASE, ManifestKind, RowKind, deferred


class PreviousManifest(ManifestSource):
    """What the last audited picture of storage held and declares to stay, for tables without any writer's record.

    What stays is everything where the table says `append_only`, else files that were `settled` for so long.
    """

    is_snapshot = True

    kind: Literal["previous"]
    complete: Literal[False] = False
    settled: Duration = Field(default=timedelta(days=7), json_schema_extra={"default": "7d"})
    """A file that was written that long before a picture stays."""
    keep: Duration | None = None
    """From that age on a partition, by the day in its folders' names, may be removed; None: never."""


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
