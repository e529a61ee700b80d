"""The DynamoDB table by which Delta writers keep their commits apart: `S3DynamoDBLogStore`, and delta-rs's lock.

An item is one commit of one table: tablePath, fileName (`N.json`), tempPath (below `_delta_log/`), complete ("true"
or "false") and, once it is complete, expireTime (epoch seconds; a day later unless `ddb.ttl` says another). A writer
puts the temporary file, then the item where none is, copies the file into the log, and completes the item (Delta
Lake, BaseExternalLogStore). `items` makes rows of items, `reader` reads the table or an export of it, `compared`
holds the rows against the logs.
"""

from lakeaudit.evidence.metastore.delta_log_store.reader import get_entry, probe, read

__all__ = ["get_entry", "probe", "read"]
