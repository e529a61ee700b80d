"""The Glue Data Catalog of an account and region."""

from typing import Literal

from lakeaudit.config.field_types import CatalogId, Endpoint, Glob, Region, RoleArn, Text
from lakeaudit.config.sources import CatalogSource, DynamoOptions
from lakeaudit.evidence.kind import CatalogKind, deferred


class Glue(CatalogSource):
    """The Glue Data Catalog of an account and region.

    A key left out is the lake's `s3` block's, then the AWS chain's.
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
        """What it is called, else its account and region, as far as they are written."""
        return self.called or "/".join(filter(None, (self.catalog_id, self.region))) or "default"

    @property
    def has_point_reads(self) -> bool:
        """It can be asked for the table of a key."""
        return True

    @property
    def way(self) -> DynamoOptions:
        """How it is reached: as DynamoDB is, it is no part of S3's endpoint unless that is not AWS's own."""
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
    list_tables=deferred("lakeaudit.evidence.catalog.glue.reader:named_tables"),
    current=deferred("lakeaudit.evidence.catalog.glue.reader:current"),
)
