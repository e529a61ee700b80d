"""Record the files that a job writes, so that audits can compare storage with them. It imports neither Spark nor boto3.

`emit` writes one list that is read as `file_list`; `recorded` records the writes of boto3, pyarrow and pandas and emits
them when the block has succeeded; `spark_writes` lets Spark log the committed writes of a session, which are read as
`spark_event_log`. docs/emit.md shows each.
"""

from lakeaudit.emit.lists import WrittenFile, emit
from lakeaudit.emit.recorder import Recorder, recorded
from lakeaudit.emit.spark import SparkWrite, SparkWrites, spark_writes

__all__ = ["Recorder", "SparkWrite", "SparkWrites", "WrittenFile", "emit", "recorded", "spark_writes"]
