"""Read the writes of Spark jobs from the event logs that Spark stores (`spark.eventLog.enabled`): an event manifest.

`log_files` finds the logs and unpacks their lines, `write_jobs` turns events into writes, `names` finds the files of
their splits among the objects in storage, and `reader` makes claims of them, which fold as those of `file_list` do.
"""

from typing import Literal

from lakeaudit.config.field_types import Duration, Flag, Place
from lakeaudit.config.sources import ManifestSource
from lakeaudit.evidence.kind import BY_BASE, ManifestKind, RowKind, deferred
from lakeaudit.evidence.manifest.file_list import FOLDED_ROWS
from lakeaudit.keys import Location


class SparkEventLogManifest(ManifestSource):
    """Declares the event logs of the Spark applications that write the table: a folder of logs, or one log."""

    kind: Literal["spark_event_log"]
    location: Place
    complete: Flag = False
    keep: Duration | None = None
    """Age at which written files may be removed; None: never."""

    @property
    def places(self) -> tuple[Location, ...]:
        return (self.location,)


KIND = ManifestKind(
    name="spark_event_log",
    title="Spark's event logs",
    model=SparkEventLogManifest,
    read=deferred("lakeaudit.evidence.manifest.spark_event_log.reader:read"),
    changes=deferred("lakeaudit.evidence.manifest.spark_event_log.reader:changes"),
    look_up=deferred("lakeaudit.evidence.manifest.spark_event_log.point_lookup:read"),
    by_storage=True,
    rows={
        **FOLDED_ROWS,
        "writes": RowKind(BY_BASE),
        "splits": RowKind(BY_BASE),
        "parts": RowKind(BY_BASE),
    },
)
