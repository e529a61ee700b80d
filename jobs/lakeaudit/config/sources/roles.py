"""The keys of a source in the lake file by its role; a kind of evidence adds its own keys in its package."""

from datetime import timedelta
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Discriminator, Field, SerializeAsAny, Tag

from lakeaudit.config.field_types import Duration, Flag, Place, Text
from lakeaudit.config.sources.base import Block, DynamoOptions, S3Options, Source
from lakeaudit.keys import Location


class StorageSource(Source):
    """A source that lists the objects in storage."""

    is_listing: ClassVar[bool] = False
    """Whether the audit lists the place itself; otherwise the location holds reports about other places."""

    location: Place
    margin: Duration | None = None

    @property
    def places(self) -> tuple[Location, ...]:
        return (self.location,)

    @property
    def expands(self) -> bool:
        """Whether it describes all sources below its place."""
        return False


class EventsSource(Source):
    """A record of requests: who changed or read which key, and when. The `window` before the audit is read."""

    location: Place
    window: Duration = Field(default=timedelta(days=7), json_schema_extra={"default": "7d"})

    @property
    def places(self) -> tuple[Location, ...]:
        return (self.location,)


def _word_or_prefixes(value: object) -> str:
    return "prefixes" if isinstance(value, list | tuple) else "word"


Authoritative = Annotated[
    Annotated[Literal["none", "all"], Tag("word")] | Annotated[tuple[Place, ...], Tag("prefixes")],
    Discriminator(_word_or_prefixes),
]


class MetastoreSource(Source):
    """A metadata store; `location` None: in every bucket that it knows."""

    knows_files: ClassVar[bool] = True
    """Whether it has entries of files; if not, it has entries of tables or of their logs."""

    knows_tables: ClassVar[bool] = False
    """Whether it is a catalog, with the locations and partitions of tables."""

    commits_of: ClassVar[str | None] = None
    """The kind of manifest whose commits writers serialise by it."""

    has_tree: ClassVar[bool] = True
    """Whether its entries need those of the folders above them; a store without folders has no tree."""

    location: Place | None = None
    margin: Duration | None = None

    @property
    def trusted(self) -> Authoritative:
        """The places where readers trust only this store."""
        return "none"

    @property
    def name(self) -> str:
        """The name of this metastore in messages."""
        raise NotImplementedError

    @property
    def has_point_reads(self) -> bool:
        """Whether single keys can be looked up in it."""
        return True

    @property
    def live_table(self) -> DynamoOptions | None:
        """The connection options of its live table of DynamoDB; None: it has no such table."""
        return None

    def reached_by(self, dynamodb: DynamoOptions, s3: S3Options) -> Self:  # noqa: ARG002 - for tables of DynamoDB
        """Return the source with its connection options: `s3` merged, and the lake's own of DynamoDB."""
        return self.model_copy(update={"s3": s3})


class CatalogSource(MetastoreSource):
    """A catalog of tables. `location` limits it to tables that lie there."""

    knows_files = False
    knows_tables = True
    has_tree = False
    knows_partitions: ClassVar[bool] = False
    """Whether it has the locations of plain tables and their partitions, which are compared with storage."""

    called: Text | None = Field(default=None, alias="name")
    """Its name in tables and discoveries; None: its kind."""

    @property
    def word(self) -> str:
        """Its name in tables and discoveries."""
        return self.called or self.kind

    @property
    def has_point_reads(self) -> bool:
        """Whether single keys can be looked up: not without a table."""
        return False


class Pointer(Block):
    """The catalog entry that names the current state of a table: the table `name` of a catalog."""

    store: SerializeAsAny[CatalogSource]
    source_id: str
    name: str


class ManifestSource(Source):
    """A record that writers keep of a table's files; `complete`: it has every file.

    A manifest is either the state of a table or a record of single writes.
    """

    is_state: ClassVar[bool] = False
    """Whether it defines the table's current state, rather than the files that were written once."""
    folder: ClassVar[str | None] = None
    """Its folder below the table's location, if it has no place of its own."""

    is_original: ClassVar[bool] = False
    """Whether it is another place, of which the table should be a copy."""

    is_snapshot: ClassVar[bool] = False
    """Whether it is the storage snapshot of the last audit, which each audit replaces."""

    is_named_by_catalogs: ClassVar[bool] = False
    """Whether catalogs name its newest state, so that a folder alone does not identify a table."""

    has_own_cleaner: ClassVar[bool] = False
    """Whether only the format's own cleaner may remove files of its tables."""

    complete: Flag = False

    @property
    def catalog_entry(self) -> tuple[str, str | None] | None:
        """The catalog that names the table's state, and the table's name there (None: its name in the lake)."""
        return None

    @property
    def catalog_pointers(self) -> tuple[Pointer, ...]:
        """The catalog entries that name its state, in a `Lake`."""
        return ()

    def pointed(self, pointers: tuple[Pointer, ...]) -> "ManifestSource":  # noqa: ARG002 - for formats of catalogs
        """Return the manifest of a table whose state these catalog entries name."""
        return self
