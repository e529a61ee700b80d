"""What writers use to say what they wrote, so that audits can hold storage against it. Light: no Spark, no boto3.

`emit` writes one list that is read as `file_list`; `recorded` records what boto3, pyarrow and pandas write and emits it
when the block has ended well; `spark_writes` lets Spark log what the writes of a session commit, which is read as
`spark_event_log`. docs/emit.md shows each.
"""

from lakeaudit.emit.lists import WrittenFile, emit
from lakeaudit.emit.recorder import Recorder, recorded
from lakeaudit.emit.spark import SparkWrite, SparkWrites, spark_writes

__all__ = ["Recorder", "SparkWrite", "SparkWrites", "WrittenFile", "emit", "recorded", "spark_writes"]
