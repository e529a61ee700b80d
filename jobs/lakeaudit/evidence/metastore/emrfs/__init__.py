"""EMRFS's consistent view: the DynamoDB table in which EMR recorded its writes to S3."""

from typing import Literal

from pydantic import Field

from lakeaudit.config.field_types import Ttl
from lakeaudit.evidence.kind import MetastoreKind, deferred
from lakeaudit.evidence.metastore.dynamodb import TABLE_OR_EXPORT, NameStore


class Emrfs(NameStore, json_schema_extra=TABLE_OR_EXPORT):
    """The table of EMRFS's consistent view."""

    has_tree = False

    kind: Literal["emrfs"]
    keep: Ttl = Field(default=None, json_schema_extra={"default": "none"})
    """The least time for which items are kept (`emrfs delete --time`); None (written `none`): they are never purged."""


KIND = MetastoreKind(
    name="emrfs",
    title="EMRFS's consistent view",
    model=Emrfs,
    read=deferred("lakeaudit.evidence.metastore.emrfs.layout:LAYOUT.read"),
    probe=deferred("lakeaudit.evidence.metastore.emrfs.layout:LAYOUT.probe"),
    get=deferred("lakeaudit.evidence.metastore.emrfs.layout:LAYOUT.get_entry"),
    permissions=deferred("lakeaudit.evidence.metastore.dynamodb.permissions:permissions"),
    is_deleted=deferred("lakeaudit.evidence.metastore.emrfs.layout:is_deleted"),
)
