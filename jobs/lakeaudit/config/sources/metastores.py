"""Metadata stores."""

from datetime import timedelta
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Discriminator, Field, Tag

from lakeaudit.config.field_types import (
    CatalogId,
    Duration,
    DynamoName,
    Endpoint,
    Glob,
    Place,
    Region,
    RoleArn,
    Text,
    Ttl,
)
from lakeaudit.config.sources.base import DynamoOptions, Source
from lakeaudit.keys import Location


def _word_or_prefixes(value: object) -> str:
    return "prefixes" if isinstance(value, list | tuple) else "word"


Authoritative = Annotated[
    Annotated[Literal["none", "all"], Tag("word")] | Annotated[tuple[Place, ...], Tag("prefixes")],
    Discriminator(_word_or_prefixes),
]


class MetastoreSource(Source):
    """What a metadata store says there is; `location` None: in every bucket that it knows."""

    knows_files: ClassVar[bool] = True
    """Whether it says of files that they are there; if not, it says something of tables or of their logs."""

    knows_tables: ClassVar[bool] = False
    """Whether it is a catalog: it says where tables are, and which partitions they have."""

    has_tree: ClassVar[bool] = True
    """Whether its entries need those of the folders above them; what knows names alone has no tree."""

    location: Place | None = None
    margin: Duration | None = None

    @property
    def trusted(self) -> Authoritative:
        """Where readers trust it alone."""
        return "none"

    @property
    def name(self) -> str:
        """What people know this metastore by."""
        raise NotImplementedError

    @property
    def has_point_reads(self) -> bool:
        """Whether it can be asked for one key now."""
        return True


class DynamoTable(MetastoreSource):
    """A table of DynamoDB: scanned live, or read from `export` if given (`table` then only names it)."""

    table: DynamoName | None = None
    export: Place | None = None
    """An `AWSDynamoDB/<id>/` folder, or one above it."""
    location: Place | None = None
    """None: every bucket in the table."""
    margin: Duration | None = None
    """None: no margin for a scan, one minute for an export."""
    dynamodb: DynamoOptions = DynamoOptions()
    """In a `Lake` merged over the lake's own; see `way`."""

    @property
    def name(self) -> str:
        """Its table, else its export."""
        return self.table or (self.export.uri if self.export else "")

    @property
    def way(self) -> DynamoOptions:
        """How its table is reached."""
        return self.dynamodb.beside(self.s3)

    @property
    def has_point_reads(self) -> bool:
        return self.export is None and self.table is not None

    @property
    def places(self) -> tuple[Location, ...]:
        return (self.export,) if self.export else ()


_TABLE_OR_EXPORT: dict[str, Any] = {"anyOf": [{"required": ["table"]}, {"required": ["export"]}]}


class S3Guard(DynamoTable, json_schema_extra=_TABLE_OR_EXPORT):
    """An S3Guard table."""

    kind: Literal["s3guard"]
    authoritative: Authoritative = "none"
    ttl: Ttl = Field(default=timedelta(minutes=15), json_schema_extra={"default": "15m"})
    """None (written `none`): entries do not expire, as with Hadoop 3.0 to 3.2."""

    @property
    def trusted(self) -> Authoritative:
        return self.authoritative


class DeltaLogStore(DynamoTable, json_schema_extra=_TABLE_OR_EXPORT):
    """The table by which Delta writers keep their commits apart (`S3DynamoDBLogStore`)."""

    knows_files = False

    kind: Literal["delta_log_store"]
    ttl: Duration = Field(default=timedelta(days=1), json_schema_extra={"default": "1d"})
    """How long after its completion an entry expires: the writers' `ddb.ttl`."""


class Emrfs(DynamoTable, json_schema_extra=_TABLE_OR_EXPORT):
    """The table of EMRFS's consistent view."""

    has_tree = False

    kind: Literal["emrfs"]
    keep: Ttl = Field(default=None, json_schema_extra={"default": "none"})
    """How long items are kept at least (`emrfs delete --time`); None (written `none`): none is ever purged."""


class S3mper(DynamoTable, json_schema_extra=_TABLE_OR_EXPORT):
    """The table of Netflix's s3mper."""

    has_tree = False

    kind: Literal["s3mper"]
    keep: Ttl = Field(default=timedelta(0), json_schema_extra={"default": "0s"})
    """How long rows are kept at least (`s3mper meta delete_ts`); None (written `none`): none is ever purged."""


class CatalogSource(MetastoreSource):
    """A catalog of tables. `location` limits it to tables that lie there."""

    knows_files = False
    knows_tables = True
    has_tree = False
    knows_partitions: ClassVar[bool] = False
    """Whether it says where plain tables and their partitions lie, which is held against storage."""

    called: Text | None = Field(default=None, alias="name")
    """What tables and discoveries call it; None: its kind."""

    @property
    def word(self) -> str:
        """By which tables and discoveries mean it."""
        return self.called or self.kind

    @property
    def has_point_reads(self) -> bool:
        """It knows no file."""
        return False


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
