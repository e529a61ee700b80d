"""The evidence a lake file names: inventories, metastores and manifests, each with a way to its store."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Any, ClassVar, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Discriminator, Field, GetCoreSchemaHandler, Tag
from pydantic_core import CoreSchema, core_schema

from lakeaudit.config.field_types import (
    Count,
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
from lakeaudit.keys import Location


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


class DynamoOptions(Block):
    """How DynamoDB is reached; a key left out is the AWS chain's.

    `read_capacity`: read units a second that a scan may consume, over all its tasks; None: as many as the table gives.
    """

    endpoint: Endpoint | None = None
    region: Region | None = None
    role_arn: RoleArn | None = None
    external_id: Text | None = None
    read_capacity: Count | None = None

    @property
    def says_where(self) -> bool:
        return self.endpoint is not None or self.region is not None

    def over(self, base: "DynamoOptions") -> "DynamoOptions":
        """These options where they are written, the base's elsewhere."""
        return base.model_copy(update=self.model_dump(exclude_none=True))

    def beside(self, s3: S3Options) -> "DynamoOptions":
        """With what `s3` says of the account; its endpoint is DynamoDB's only where it is not AWS's own."""
        shared = {"region": s3.region, "role_arn": s3.role_arn, "external_id": s3.external_id}
        endpoint = None if self.says_where or is_of_aws(s3.endpoint) else s3.endpoint
        return self.over(DynamoOptions(**shared, endpoint=endpoint))


def is_of_aws(endpoint: str | None) -> bool:
    """Whether an endpoint is one of Amazon's own, which serves a single service."""
    host = urlsplit(endpoint or "").hostname or ""
    return host.endswith((".amazonaws.com", ".amazonaws.com.cn", ".api.aws"))


class Source(Block):
    """A configured piece of evidence. In a `Lake`, `s3` is already merged over the lake's own."""

    kind: str
    s3: S3Options = S3Options()

    @property
    def places(self) -> tuple[Location, ...]:
        """Where it lies, if it has a place of its own in a store."""
        return ()


class StorageSource(Source):
    """What storage holds."""

    location: Place
    margin: Duration | None = None

    @property
    def places(self) -> tuple[Location, ...]:
        return (self.location,)


class S3Inventory(StorageSource):
    """A folder of dated S3 Inventory reports, or one manifest.json."""

    kind: Literal["s3_inventory"]
    location: Place
    covers: tuple[Place, ...] | None = Field(default=None, min_length=1)
    """None: the whole source bucket that the report names."""
    expand: Flag = False
    """Every folder `<source bucket>/<configuration>/` below the location is an inventory of its own."""
    max_age: Duration | None = None
    """None: 3d, and 10d where the folders of dated reports show that they are made weekly."""
    margin: Duration | None = None
    """None: the time rule's own margin."""


class Listing(StorageSource):
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


class MetastoreSource(Source):
    """What a metadata store says there is; `location` None: in every bucket that it knows."""

    knows_files: ClassVar[bool] = True
    """Whether it says of files that they are there; if not, it says something of tables' logs."""

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


class ManifestSource(Source):
    """What writers say of a table's files; `complete`: they say it of every one."""

    is_state: ClassVar[bool] = False
    """Whether it says what the table is, rather than what was written once."""
    folder: ClassVar[str | None] = None
    """Where it lies below the table's location, where it has no place of its own."""

    complete: Flag = False


class DeltaManifest(ManifestSource):
    """The table's own Delta log: what the table is."""

    is_state = True
    folder = "_delta_log"

    kind: Literal["delta"]
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


class EventsSource(Source):
    """Who did what to which key, and when: the requests of `window` before the audit are read."""

    location: Place
    window: Duration = Field(default=timedelta(days=7), json_schema_extra={"default": "7d"})

    @property
    def places(self) -> tuple[Location, ...]:
        return (self.location,)


class S3AccessLog(EventsSource):
    """Server access logs of S3: the folder that they are delivered to."""

    kind: Literal["s3_access_log"]
    location: Place
    window: Duration = Field(default=timedelta(days=7), json_schema_extra={"default": "7d"})


class CloudTrail(EventsSource):
    """Data events of S3 in CloudTrail: the folder that a trail delivers to."""

    kind: Literal["cloudtrail"]
    location: Place
    window: Duration = Field(default=timedelta(days=7), json_schema_extra={"default": "7d"})


class S3Journal(EventsSource):
    """Exports of the journal table of S3 Metadata: Parquet or JSON Lines files with its columns."""

    kind: Literal["s3_journal"]
    location: Place
    window: Duration = Field(default=timedelta(days=7), json_schema_extra={"default": "7d"})


INVENTORIES: dict[str, type[StorageSource]] = {"s3_inventory": S3Inventory, "listing": Listing}
METASTORES: dict[str, type[MetastoreSource]] = {"s3guard": S3Guard, "delta_log_store": DeltaLogStore}
EVENTS: dict[str, type[EventsSource]] = {
    "s3_access_log": S3AccessLog,
    "cloudtrail": CloudTrail,
    "s3_journal": S3Journal,
}
MANIFESTS: dict[str, type[ManifestSource]] = {
    "delta": DeltaManifest,
    "file_list": FileListManifest,
    "spark_event_log": SparkEventLogManifest,
    "previous": PreviousManifest,
    "s3a_committer": S3ACommitterManifest,
    "manifest_committer": ManifestCommitterManifest,
    "spark_sink": SparkSinkManifest,
    "symlink": SymlinkManifest,
    "redshift_unload": RedshiftUnloadManifest,
    "databricks_commits": DatabricksCommitsManifest,
}
"""By role the kinds of evidence there are, and what the lake file says of each; `evidence.registry` has the rest."""


def state_kinds() -> tuple[str, ...]:
    """Manifests that say what a table is; the others say what was written once."""
    return tuple(kind for kind, model in MANIFESTS.items() if model.is_state)


def kind_of(entry: object) -> object:
    """The tag of an entry, written or already built."""
    return entry.get("kind") if isinstance(entry, dict) else getattr(entry, "kind", None)


class OneOf:
    """A field that holds a source of any kind among some."""

    def __init__(self, models: Mapping[str, type[Source]]) -> None:
        self.models = models

    def __get_pydantic_core_schema__(self, _: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        choices = {kind: handler.generate_schema(model) for kind, model in self.models.items()}
        if len(choices) == 1:
            return next(iter(choices.values()))
        return core_schema.tagged_union_schema(choices, discriminator=kind_of)


Inventory = Annotated[StorageSource, OneOf(INVENTORIES)]
Metastore = Annotated[MetastoreSource, OneOf(METASTORES)]
Manifest = Annotated[ManifestSource, OneOf(MANIFESTS)]
Requests = Annotated[EventsSource, OneOf(EVENTS)]
