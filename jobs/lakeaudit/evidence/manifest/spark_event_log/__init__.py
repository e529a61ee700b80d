"""What Spark jobs wrote, by the event logs that Spark keeps of them (`spark.eventLog.enabled`): an event manifest.

`log_files` finds the logs and unpacks their lines, `write_jobs` makes writes of events, `names` finds the files of
their splits among the objects that storage holds, and `reader` makes claims of it all, which fold as those of
`file_list` do.
"""

from lakeaudit.evidence.manifest.spark_event_log.reader import KIND, changes, read

__all__ = ["KIND", "changes", "read"]
