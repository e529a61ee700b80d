"""The DynamoDB table by which Delta writers serialise their commits: `S3DynamoDBLogStore`, and delta-rs's lock.

An item is one commit of one table: tablePath, fileName (`N.json`), tempPath (below `_delta_log/`), complete ("true"
or "false") and, once it is complete, expireTime (epoch seconds; a day later unless `ddb.ttl` differs). A writer puts
the temporary file, then the item if there is none, copies the file into the log, and completes the item (Delta Lake,
BaseExternalLogStore). `items` converts items to rows, `reader` reads the table or an export of it, `compared` compares
the rows with the logs.
"""

from datetime import timedelta
from typing import Literal

from pydantic import Field

from lakeaudit.config.field_types import Duration
from lakeaudit.evidence.kind import BY_BASE, MetastoreKind, RowKind, deferred
from lakeaudit.evidence.metastore.dynamodb import TABLE_OR_EXPORT, DynamoTable


class DeltaLogStore(DynamoTable, json_schema_extra=TABLE_OR_EXPORT):
    """The table by which Delta writers serialise their commits (`S3DynamoDBLogStore`)."""

    knows_files = False
    commits_of = "delta"

    kind: Literal["delta_log_store"]
    ttl: Duration = Field(default=timedelta(days=1), json_schema_extra={"default": "1d"})
    """How long after its completion an entry expires: the writers' `ddb.ttl`."""


KIND = MetastoreKind(
    name="delta_log_store",
    title="the log store of Delta writers",
    model=DeltaLogStore,
    read=deferred("lakeaudit.evidence.metastore.delta_log_store.reader:read"),
    probe=deferred("lakeaudit.evidence.metastore.delta_log_store.reader:probe"),
    get=deferred("lakeaudit.evidence.metastore.delta_log_store.reader:get_entry"),
    permissions=deferred("lakeaudit.evidence.metastore.dynamodb.permissions:permissions"),
    rows={"entered": RowKind(BY_BASE)},
)
