"""The live inventory table of S3 Metadata."""

from typing import Literal

from pydantic import Field

from lakeaudit.config.field_types import Duration, Place
from lakeaudit.config.sources import StorageSource
from lakeaudit.evidence.kind import BY_KEY, RowKind, StorageKind, deferred


class S3Metadata(StorageSource):
    """The live inventory table of S3 Metadata: the metadata.json of its state, or the folder of the table."""

    kind: Literal["s3_metadata"]
    location: Place
    covers: tuple[Place, ...] = Field(min_length=1)
    """The bucket that the table is of, or places in it: the table itself has no word of it."""
    max_age: Duration | None = None
    """None: 3d."""
    margin: Duration | None = None
    """None: 1h, or 24h where the table does not say up to when it is whole."""


KIND = StorageKind(
    name="s3_metadata",
    title="S3 Metadata's inventory table",
    model=S3Metadata,
    read=deferred("lakeaudit.evidence.storage.s3_metadata.reader:read"),
    probe=deferred("lakeaudit.evidence.storage.s3_metadata.reader:probe"),
    permissions=deferred("lakeaudit.evidence.storage.s3_metadata.permissions:permissions"),
    setup=deferred("lakeaudit.evidence.storage.s3_metadata.permissions:setup"),
    rows={"inventoried": RowKind(BY_KEY)},
)
