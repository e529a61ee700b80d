"""Define `spark_sink`: the log of Spark's streaming file sink, which is the state of the table for Spark."""

from typing import Literal

from lakeaudit.config.field_types import Flag
from lakeaudit.config.sources import ManifestSource
from lakeaudit.evidence.kind import ManifestKind, deferred
from lakeaudit.evidence.manifest.records import RECORD_ROWS


class SparkSinkManifest(ManifestSource):
    """Declares that the log of Spark's streaming file sink defines the state of the table."""

    is_state = True
    folder = "_spark_metadata"

    kind: Literal["spark_sink"]
    complete: Flag = True


KIND = ManifestKind(
    name="spark_sink",
    advice="spark_sink",
    title="Spark's streaming sink",
    model=SparkSinkManifest,
    read=deferred("lakeaudit.evidence.manifest.spark_sink.reader:SPARK_SINK.read"),
    changes=deferred("lakeaudit.evidence.manifest.spark_sink.reader:SPARK_SINK.changes"),
    look_up=deferred("lakeaudit.evidence.manifest.spark_sink.reader:SPARK_SINK.look_up"),
    rows=RECORD_ROWS,
)
