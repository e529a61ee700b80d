"""The evidence a lake file names: inventories, metastores and manifests, each with a way to its store."""

from datetime import timedelta
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag

from lakeaudit.config.field_types import (
    Duration,
    DynamoName,
    Endpoint,
    Flag,
    Place,
    Region,
    RoleArn,
    Text,
    Ttl,
)


class Block(BaseModel):
    """Base of every model of the lake file: frozen, and no key that it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class S3Options(Block):
    """How a store is reached; a key left out is the lake's, then the AWS chain's. Holds no credential."""

    endpoint: Endpoint | None = None
    region: Region | None = None
    path_style: Flag | None = None
    role_arn: RoleArn | None = None
    external_id: Text | None = None
    requester_pays: Flag | None = None

    def over(self, base: "S3Options") -> "S3Options":
        """These options where they are written, the base's elsewhere."""
        return base.model_copy(update=self.model_dump(exclude_none=True))


class Source(Block):
    """A configured piece of evidence. In a `Lake`, `s3` is already merged over the lake's own."""

    s3: S3Options = S3Options()


class S3Inventory(Source):
    """A folder of dated S3 Inventory reports, or one manifest.json."""

    kind: Literal["s3_inventory"]
    location: Place
    covers: tuple[Place, ...] | None = Field(default=None, min_length=1)
    """None: the whole source bucket that the report names."""
    max_age: Duration = Field(default=timedelta(days=3), json_schema_extra={"default": "3d"})
    margin: Duration | None = None
    """None: the time rule's own margin."""


class Listing(Source):
    """A place that is listed while the audit runs."""

    kind: Literal["listing"]
    location: Place
    margin: Duration | None = None
    """None: no margin, since the time of a listing is known."""


def _word_or_prefixes(value: object) -> str:
    return "prefixes" if isinstance(value, list | tuple) else "word"


Authoritative = Annotated[
    Annotated[Literal["none", "all"], Tag("word")] | Annotated[tuple[Place, ...], Tag("prefixes")],
    Discriminator(_word_or_prefixes),
]


class S3Guard(Source, json_schema_extra={"anyOf": [{"required": ["table"]}, {"required": ["export"]}]}):
    """An S3Guard table: scanned live, or read from `export` if given (`table` then only names it)."""

    kind: Literal["s3guard"]
    table: DynamoName | None = None
    export: Place | None = None
    """An `AWSDynamoDB/<id>/` folder, or one above it."""
    location: Place | None = None
    """None: every bucket in the table."""
    authoritative: Authoritative = "none"
    ttl: Ttl = Field(default=timedelta(minutes=15), json_schema_extra={"default": "15m"})
    """None (written `none`): entries do not expire, as with Hadoop 3.0 to 3.2."""
    margin: Duration | None = None
    """None: no margin for a scan, one minute for an export."""

    @property
    def name(self) -> str:
        """What people know this metastore by: its table, else its export."""
        return self.table or (self.export.uri if self.export else "")


class DeltaManifest(Source):
    """The table's own Delta log: what the table is."""

    kind: Literal["delta"]
    complete: Flag = True


class FileListManifest(Source):
    """Lists of files written once, in a folder or one file."""

    kind: Literal["file_list"]
    location: Place
    complete: Flag = False


STATE_KINDS = ("delta",)
"""Manifests that say what a table is; the others say what was written once."""


def kind_of(entry: object) -> object:
    """The tag of an entry, written or already built."""
    return entry.get("kind") if isinstance(entry, dict) else getattr(entry, "kind", None)


Inventory = Annotated[
    Annotated[S3Inventory, Tag("s3_inventory")] | Annotated[Listing, Tag("listing")],
    Discriminator(kind_of),
]
Metastore = S3Guard
Manifest = Annotated[
    Annotated[DeltaManifest, Tag("delta")] | Annotated[FileListManifest, Tag("file_list")],
    Discriminator(kind_of),
]
