"""Hadoop's S3Guard: a DynamoDB table, scanned live or read from an export."""

from datetime import timedelta
from typing import Literal

from pydantic import Field

from lakeaudit.config.field_types import Ttl
from lakeaudit.config.sources.roles import Authoritative
from lakeaudit.evidence.kind import MetastoreKind, deferred
from lakeaudit.evidence.metastore.dynamodb import TABLE_OR_EXPORT, DynamoTable


class S3Guard(DynamoTable, json_schema_extra=TABLE_OR_EXPORT):
    """An S3Guard table."""

    kind: Literal["s3guard"]
    authoritative: Authoritative = "none"
    ttl: Ttl = Field(default=timedelta(minutes=15), json_schema_extra={"default": "15m"})
    """None (written `none`): entries do not expire, as with Hadoop 3.0 to 3.2."""

    @property
    def trusted(self) -> Authoritative:
        return self.authoritative


KIND = MetastoreKind(
    name="s3guard",
    title="S3Guard",
    model=S3Guard,
    read=deferred("lakeaudit.evidence.metastore.s3guard.reader:read"),
    probe=deferred("lakeaudit.evidence.metastore.s3guard.probe:probe"),
    get=deferred("lakeaudit.evidence.metastore.s3guard.reader:get_entry"),
    permissions=deferred("lakeaudit.evidence.metastore.dynamodb.permissions:permissions"),
)
