"""The Glue Data Catalog of an account and region."""

from typing import Literal

from lakeaudit.config.field_types import CatalogId, Endpoint, Glob, Region, RoleArn, Text
from lakeaudit.config.sources import CatalogSource, DynamoOptions
from lakeaudit.evidence.kind import CatalogKind, deferred


class Glue(CatalogSource):
    """The Glue Data Catalog of an account and region.

    Options that are left out come from the lake's `s3` block, then from the AWS chain.
    """

    knows_partitions = True

    kind: Literal["glue"]
    catalog_id: CatalogId | None = None
    """The account whose catalog it is; None: that of the credentials."""
    databases: tuple[Glob, ...] = ()
    """Names or patterns of the databases that are read; empty: all."""
    endpoint: Endpoint | None = None
    region: Region | None = None
    role_arn: RoleArn | None = None
    external_id: Text | None = None

    @property
    def name(self) -> str:
        """Its `name`, else its account and region, as far as they are set."""
        return self.called or "/".join(filter(None, (self.catalog_id, self.region))) or "default"

    @property
    def has_point_reads(self) -> bool:
        """Whether the table of a key can be looked up: always."""
        return True

    @property
    def way(self) -> DynamoOptions:
        """Its connection options, like those of DynamoDB: S3's endpoint counts only if it is not that of AWS."""
        own = DynamoOptions(
            endpoint=self.endpoint, region=self.region, role_arn=self.role_arn, external_id=self.external_id
        )
        return own.beside(self.s3)


KIND = CatalogKind(
    name="glue",
    title="Glue's Data Catalog",
    model=Glue,
    read=deferred("lakeaudit.evidence.catalog.glue.reader:read"),
    probe=deferred("lakeaudit.evidence.catalog.glue.reader:probe"),
    get=deferred("lakeaudit.evidence.catalog.glue.reader:get_entry"),
    permissions=deferred("lakeaudit.evidence.catalog.glue.permissions:permissions"),
    list_tables=deferred("lakeaudit.evidence.catalog.glue.reader:named_tables"),
    current=deferred("lakeaudit.evidence.catalog.glue.reader:current"),
)
