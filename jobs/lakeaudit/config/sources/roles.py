"""What the lake file says of a source by its role; a kind of evidence adds keys of its own beside its reader."""

from datetime import timedelta
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Discriminator, Field, SerializeAsAny, Tag

from lakeaudit.config.field_types import Duration, Flag, Place, Text
from lakeaudit.config.sources.base import Block, DynamoOptions, S3Options, Source
from lakeaudit.keys import Location


class StorageSource(Source):
    """What storage holds."""

    is_listing: ClassVar[bool] = False
    """Whether the place itself is listed while the audit runs; else the location holds reports of other places."""

    location: Place
    margin: Duration | None = None

    @property
    def places(self) -> tuple[Location, ...]:
        return (self.location,)

    @property
    def expands(self) -> bool:
        """Whether it stands for all sources below its place."""
        return False


class EventsSource(Source):
    """Who did what to which key, and when: the requests of `window` before the audit are read."""

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
    """What a metadata store says there is; `location` None: in every bucket that it knows."""

    knows_files: ClassVar[bool] = True
    """Whether it says of files that they are there; if not, it says something of tables or of their logs."""

    knows_tables: ClassVar[bool] = False
    """Whether it is a catalog: it says where tables are, and which partitions they have."""

    commits_of: ClassVar[str | None] = None
    """The kind of manifest whose commits writers serialise by it."""

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
        """Whether one key can be looked up in it now."""
        return True

    @property
    def live_table(self) -> DynamoOptions | None:
        """How its live table of DynamoDB is reached; None: it is no such table."""
        return None

    def reached_by(self, dynamodb: DynamoOptions, s3: S3Options) -> Self:  # noqa: ARG002 - for tables of DynamoDB
        """The source with the options by which it is reached: `s3` merged, and the lake's own of DynamoDB."""
        return self.model_copy(update={"s3": s3})


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


class Pointer(Block):
    """What says which state a table is in: the table `name` of a catalog."""

    store: SerializeAsAny[CatalogSource]
    source_id: str
    name: str


class ManifestSource(Source):
    """What writers say of a table's files; `complete`: they say it of every one."""

    is_state: ClassVar[bool] = False
    """Whether it says what the table is, rather than what was written once."""
    folder: ClassVar[str | None] = None
    """Where it lies below the table's location, where it has no place of its own."""

    is_original: ClassVar[bool] = False
    """Whether it is another place that the table should be a copy of."""

    is_snapshot: ClassVar[bool] = False
    """Whether it is the storage snapshot of the last audit, which each audit replaces."""

    is_named_by_catalogs: ClassVar[bool] = False
    """Whether catalogs name its newest state, so that a folder alone does not identify a table."""

    has_own_cleaner: ClassVar[bool] = False
    """Whether only the format's own cleaner may remove files of its tables."""

    complete: Flag = False

    @property
    def catalog_entry(self) -> tuple[str, str | None] | None:
        """The catalog that names the table's state, and the table's name there (None: the same as here)."""
        return None

    @property
    def catalog_pointers(self) -> tuple[Pointer, ...]:
        """In a `Lake`: the tables of catalogs that name its state."""
        return ()

    def pointed(self, pointers: tuple[Pointer, ...]) -> "ManifestSource":  # noqa: ARG002 - for formats of catalogs
        """The manifest of a table whose state these name."""
        return self
