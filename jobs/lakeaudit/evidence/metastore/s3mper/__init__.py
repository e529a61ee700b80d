"""Netflix's s3mper: the DynamoDB table of the files that Hadoop has opened for writing."""

from datetime import timedelta
from typing import Literal

from pydantic import Field

from lakeaudit.config.field_types import Ttl
from lakeaudit.evidence.kind import MetastoreKind, deferred
from lakeaudit.evidence.metastore.dynamodb import TABLE_OR_EXPORT, NameStore


class S3mper(NameStore, json_schema_extra=TABLE_OR_EXPORT):
    """The table of Netflix's s3mper."""

    has_tree = False

    kind: Literal["s3mper"]
    keep: Ttl = Field(default=timedelta(0), json_schema_extra={"default": "0s"})
    """The least time for which rows are kept (`s3mper meta delete_ts`); None (written `none`): for ever."""


KIND = MetastoreKind(
    name="s3mper",
    title="Netflix's s3mper",
    model=S3mper,
    read=deferred("lakeaudit.evidence.metastore.s3mper.layout:LAYOUT.read"),
    probe=deferred("lakeaudit.evidence.metastore.s3mper.layout:LAYOUT.probe"),
    get=deferred("lakeaudit.evidence.metastore.s3mper.layout:LAYOUT.get_entry"),
    permissions=deferred("lakeaudit.evidence.metastore.dynamodb.permissions:permissions"),
    is_deleted=deferred("lakeaudit.evidence.metastore.s3mper.layout:is_deleted"),
)
