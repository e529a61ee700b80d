"""DynamoDB as a metadata store: the common base of all stores that are DynamoDB tables."""

from collections.abc import Iterator, Mapping
from typing import Any, Self

from lakeaudit.config.field_types import Duration, DynamoName, Place, Ttl
from lakeaudit.config.sources import DynamoOptions, MetastoreSource, S3Options
from lakeaudit.config.sources.base import EntryProblem
from lakeaudit.keys import Location


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

    @classmethod
    def problems(cls, entry: Mapping[str, object]) -> Iterator[EntryProblem]:
        if not {"table", "export"} & entry.keys():
            yield (), "neither table nor export", "table: its name in DynamoDB, or export: a folder"

    @property
    def live_table(self) -> DynamoOptions | None:
        return self.way if self.has_point_reads else None

    def reached_by(self, dynamodb: DynamoOptions, s3: S3Options) -> Self:
        """See `MetastoreSource.reached_by`."""
        shared = self.dynamodb.over(dynamodb).beside(s3)
        own = self.dynamodb.over(DynamoOptions().beside(self.s3))
        return self.model_copy(update={"s3": s3, "dynamodb": own.over(shared)})


class NameStore(DynamoTable):
    """A table that has only the names of files, without their sizes."""

    has_tree = False

    keep: Ttl = None
    """The least time for which its items are kept; None (written `none`): they are never purged."""


TABLE_OR_EXPORT: dict[str, Any] = {"anyOf": [{"required": ["table"]}, {"required": ["export"]}]}
"""JSON Schema: `table` or `export` is given."""
