"""What writers say of a table."""

from datetime import timedelta
from typing import ClassVar, Literal

from pydantic import Field, SerializeAsAny

from lakeaudit.config.field_types import (
    Duration,
    Flag,
    Place,
    Text,
)
from lakeaudit.config.sources.base import Block, Source
from lakeaudit.config.sources.metastores import CatalogSource
from lakeaudit.keys import Location


class ManifestSource(Source):
    """What writers say of a table's files; `complete`: they say it of every one."""

    is_state: ClassVar[bool] = False
    """Whether it says what the table is, rather than what was written once."""
    folder: ClassVar[str | None] = None
    """Where it lies below the table's location, where it has no place of its own."""

    is_original: ClassVar[bool] = False
    """Whether it is another place that the table should be a copy of."""

    complete: Flag = False


class DeltaManifest(ManifestSource):
    """The table's own Delta log: what the table is."""

    is_state = True
    folder = "_delta_log"

    kind: Literal["delta"]
    complete: Flag = True


class IcebergManifest(ManifestSource):
    """The table's own Iceberg metadata: what the table is.

    `metadata`: one metadata.json, or the folder that has them; `catalog`: what points at one. Neither: the newest
    one in `metadata` below the table's location.
    """

    is_state = True
    folder: ClassVar[str | None] = "metadata"

    kind: Literal["iceberg"]
    metadata: Place | None = None
    """One metadata.json, or a folder of them; None: the folder `metadata` below the table's location."""
    catalog: Text | None = None
    """The metastore that says which metadata.json is current, by its name; None: the newest one is."""
    table: Text | None = None
    """What the catalog calls it, `namespace.table`; None: the same as here."""
    complete: Flag = True

    @property
    def places(self) -> tuple[Location, ...]:
        return (self.metadata,) if self.metadata else ()


class Pointer(Block):
    """What says which state a table is in: the table `name` of a catalog."""

    store: SerializeAsAny[CatalogSource]
    source_id: str
    name: str


class PointedIceberg(IcebergManifest):
    """An Iceberg table whose state catalogs say, as it stands in a `Lake`: several must say the same."""

    folder = None

    pointers: tuple[Pointer, ...]


class HudiManifest(ManifestSource):
    """The table's own Hudi timeline: what the table is."""

    is_state = True
    folder = ".hoodie"

    kind: Literal["hudi"]
    complete: Flag = True


class FileListManifest(ManifestSource):
    """Lists of files written once, in a folder or one file."""

    kind: Literal["file_list"]
    location: Place
    complete: Flag = False

    @property
    def places(self) -> tuple[Location, ...]:
        return (self.location,)


class SparkEventLogManifest(ManifestSource):
    """The event logs of the Spark applications that write the table: a folder of them, or the log of one."""

    kind: Literal["spark_event_log"]
    location: Place
    complete: Flag = False
    keep: Duration | None = None
    """What was written that long ago may be removed; None: never."""

    @property
    def places(self) -> tuple[Location, ...]:
        return (self.location,)


class PreviousManifest(ManifestSource):
    """What the last audited picture of storage held and declares to stay, for tables without any writer's record.

    What stays is everything where the table says `append_only`, else files that were `settled` for so long.
    """

    kind: Literal["previous"]
    complete: Literal[False] = False
    settled: Duration = Field(default=timedelta(days=7), json_schema_extra={"default": "7d"})
    """A file that was written that long before a picture stays."""
    keep: Duration | None = None
    """From that age on a partition, by the day in its folders' names, may be removed; None: never."""


class ElsewhereManifest(ManifestSource):
    """Another place, of whose objects the table should have a copy each; `maps` say which of them.

    `complete`: it should have nothing else.
    """

    is_original = True

    location: Place
    complete: Flag = False
    keep: Duration | None = None
    """From that age on a copy may be gone, by the day in its folders' names, else the original's age; None: never."""

    @property
    def places(self) -> tuple[Location, ...]:
        return (self.location,)


class ListingManifest(ElsewhereManifest):
    """All that lies at another place while the audit runs."""

    kind: Literal["listing"]


class InventoryManifest(ElsewhereManifest):
    """All that an S3 Inventory report names of another place; it may be of any age."""

    kind: Literal["s3_inventory"]
    covers: tuple[Place, ...] | None = Field(default=None, min_length=1)
    """None: the whole source bucket that the report names."""


class CommitterManifest(ManifestSource):
    """What a committer of Hadoop leaves of its jobs in the folders that they write.

    `reports`: the folder of the reports of all jobs, for tables that jobs only add files to.
    """

    reports: Place | None = None

    @property
    def places(self) -> tuple[Location, ...]:
        return (self.reports,) if self.reports else ()


class S3ACommitterManifest(CommitterManifest):
    """Jobs of the S3A committers: magic, directory, partitioned."""

    kind: Literal["s3a_committer"]
    reports: Place | None = None
    """fs.s3a.committer.summary.report.directory; None: only what lies beside the files."""
    complete: Flag = False


class ManifestCommitterManifest(CommitterManifest):
    """Jobs of the manifest committer."""

    kind: Literal["manifest_committer"]
    reports: Place | None = None
    """mapreduce.manifest.committer.summary.report.directory; None: only what lies beside the files."""
    complete: Flag = False


class SparkSinkManifest(ManifestSource):
    """The log of Spark's streaming file sink: what the table is to Spark."""

    is_state = True
    folder = "_spark_metadata"

    kind: Literal["spark_sink"]
    complete: Flag = True


class SymlinkManifest(ManifestSource):
    """Manifests for readers by `SymlinkTextInputFormat`: what the table is to them."""

    is_state = True
    folder = "_symlink_format_manifest"

    kind: Literal["symlink"]
    complete: Flag = False
    """Files that they do not list may be older states of a table that they were made from."""


class RedshiftUnloadManifest(ManifestSource):
    """Manifests that UNLOAD writes: one of them, or a folder that has them."""

    kind: Literal["redshift_unload"]
    location: Place
    complete: Flag = False

    @property
    def places(self) -> tuple[Location, ...]:
        return (self.location,)


class DatabricksCommitsManifest(ManifestSource):
    """The marks of Databricks' transactional writes in the table's folders."""

    kind: Literal["databricks_commits"]
    complete: Flag = False
