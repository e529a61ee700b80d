"""The lake file as written: every block of the contract, before defaults and overrides are merged."""

from datetime import date, timedelta
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag

from lakeaudit.config.buckets import BucketRule
from lakeaudit.config.field_types import (
    Count,
    Day,
    Duration,
    EnvName,
    FailOn,
    FindingKind,
    Flag,
    Glob,
    LakeName,
    Limit,
    NameTemplate,
    Origin,
    PathGlob,
    Place,
    Places,
    Schedule,
    Severity,
    Share,
    Size,
    TableName,
    Text,
    Textfile,
    TopicArn,
    Url,
    WrittenSeverity,
)
from lakeaudit.config.follow import Follow
from lakeaudit.config.sources import (
    Block,
    DynamoOptions,
    Inventory,
    Manifest,
    Metastore,
    Requests,
    S3Options,
    kind_of,
)
from lakeaudit.config.sources.one_of import OneName
from lakeaudit.evidence import registry

ConfirmMode = Literal["head", "footer", "none"]
Readers = Literal["state", "folder", "metadata_table"]
"""How readers find a table's files: by its state manifest, or by listing its folders."""
TableFormat = Annotated[str, OneName(registry.formats)]
CatalogKind = Annotated[str, OneName(registry.listing_catalogs)]
CatalogFormat = Annotated[str, OneName(lambda: (*registry.formats(), "hive"))]
"""`hive`: plain files in folders."""
Severities = dict[FindingKind, WrittenSeverity]


class ConfirmOverrides(Block):
    """The keys of `confirm` in one block; missing ones come from the defaults."""

    mode: ConfirmMode | None = None
    limit: Limit | None = None
    rate: Count | None = None
    fresh: Limit | None = None


class ArchivedOverrides(Block):
    """Objects that are archived on purpose."""

    expected_after: Duration | None = None
    """Objects in archive classes that are older than this are correct; None: no archived object is."""


class Overrides(Block):
    """The keys that `defaults` and each table may have."""

    grace: Duration | None = None
    leftover_age: Duration | None = None
    max_upload: Duration | None = None
    retention: Duration | None = None
    min_duplicate_size: Size | None = None
    readers: Readers | None = None
    append_only: Flag | None = None
    archived: ArchivedOverrides = ArchivedOverrides()
    confirm: ConfirmOverrides = ConfirmOverrides()


class TableEntry(Overrides):
    """One table as written."""

    profile: Text | None = None
    """A set of keys in `profiles`, which override the defaults; the table's own keys override the profile."""
    same_location: Literal["alias"] | None = None
    """If all tables of one location have it, they are one table: the first one, with the others as further names."""

    name: TableName
    location: Place
    manifests: tuple[Manifest, ...] = ()
    owner: Text | None = None
    shares: tuple[TableName, ...] = ()
    severity: Severities = Field(default_factory=dict)


class Discover(Block):
    """Tables that are discovered in inventories: folders with a Delta log or Iceberg metadata."""

    source: Literal["inventory"] = Field(alias="from")
    under: Annotated[tuple[Places, ...], Field(min_length=1)]
    """A bucket may be a pattern, for every bucket of the inventories whose name matches."""
    formats: Annotated[tuple[TableFormat, ...], Field(min_length=1)] = ("delta",)
    """The formats of the discovered tables."""
    exclude: tuple[Glob, ...] = ()
    """Patterns of paths below `under`, or of names, that are left out."""
    name: NameTemplate | None = None
    """The template of their names: folders below `under`, counted from 1; None: all folders, joined by dots."""
    profile: Text | None = None
    owner: Text | None = None


class CatalogDiscover(Block):
    """Tables that catalogs name."""

    source: CatalogKind = Field(alias="from")
    catalog: Text | None = None
    """The name of one catalog of that kind; None: all of them."""
    include: tuple[Glob, ...] = ()
    """Patterns of the selected tables' names in the catalog; empty: all."""
    exclude: tuple[Glob, ...] = ()
    """Patterns of names that are left out."""
    formats: Annotated[tuple[CatalogFormat, ...], Field(min_length=1)] = ("delta", "iceberg", "hudi", "hive")
    """The formats of the audited tables."""
    name: NameTemplate | None = None
    """The template of their names: parts of the name in the catalog, counted from 1; None: that name."""
    profile: Text | None = None
    owner: Text | None = None


def _where_from(value: object) -> str:
    source = value.get("from") if isinstance(value, dict) else getattr(value, "source", None)
    return "catalog" if source in registry.listing_catalogs() else "inventory"


AnyDiscover = Annotated[
    Annotated[Discover, Tag("inventory")] | Annotated[CatalogDiscover, Tag("catalog")],
    Discriminator(_where_from),
]


class DiscoverEntry(Block):
    """An entry of `tables` for all tables that are discovered."""

    discover: AnyDiscover


def _table_or_discover(value: object) -> str:
    found = "discover" in value if isinstance(value, dict) else isinstance(value, DiscoverEntry)
    return "discover" if found else "table"


AnyTable = Annotated[
    Annotated[TableEntry, Tag("table")] | Annotated[DiscoverEntry, Tag("discover")],
    Discriminator(_table_or_discover),
]


class Owner(Block):
    """The owner of the tables whose names match: reports show the owner, who may receive the tables' findings."""

    match: Glob
    owner: Text
    url_env: EnvName | None = None
    """The variable with the address (an Apprise URL) to which the findings of these tables are sent."""


class Expected(Block):
    """Tables that are known to be unreadable, with the reason for coverage: runs are not partial because of them."""

    tables: Annotated[tuple[Glob, ...], Field(min_length=1)]
    refused: Glob
    """A pattern of the reason in the table's coverage, such as "*catalogManaged*"."""
    reason: Text
    until: Day | None = None

    def holds_on(self, day: date) -> bool:
        """Whether the entry is in force on a day (UTC)."""
        return self.until is None or day < self.until


class Ignore(
    Block,
    json_schema_extra={"anyOf": [{"required": ["paths"]}, {"required": ["tables"]}, {"required": ["kinds"]}]},
):
    """Findings that are counted and not written: those that match every list that is given.

    `paths` are globs over the key below the table's location (`glob_to_regex`), `tables` globs over table
    names, `kinds` kinds of finding; None means any. From the day `until` on the entry no longer holds.
    """

    paths: tuple[PathGlob, ...] | None = Field(default=None, min_length=1)
    tables: tuple[Glob, ...] | None = Field(default=None, min_length=1)
    kinds: tuple[FindingKind, ...] | None = Field(default=None, min_length=1)
    reason: Text
    until: Day | None = None

    def holds_on(self, day: date) -> bool:
        """Whether the entry is in force on a day (UTC)."""
        return self.until is None or day < self.until


class Renaming(Block):
    """A map of places: claims about `from` are about `to`."""

    source: Origin = Field(alias="from")
    target: Place = Field(alias="to")


class Replica(Block):
    """A copy of a place: files below `of` have the same names below `at`. Lost files are copied from it."""

    of: Place
    at: Place


class Ceiling(Block):
    """The share of unconfirmed absence claims that makes evidence suspect, and the sample that is then checked."""

    share: Share = 0.2
    sample: Count = 400


class LedgerRules(Block):
    """The changes of an accepted warning after which it stays accepted, and what stops the watermark of a table."""

    ack_growth: Share = 0.1
    """The share by which its files, rows and bytes may grow."""
    accepted_stop_verified: Flag = False
    """Whether accepted discrepancies stop the watermark, too."""


class Alert(Block):
    """A receiver of alerts, and the selection of findings that it receives."""

    min_severity: Severity | None = None
    """None: warning."""
    tables: tuple[Glob, ...] | None = Field(default=None, min_length=1)
    redact: Flag = False
    """Leave out keys and partition values."""
    repeat: Duration | None = None
    """Report a discrepancy again if it is still open so long after the last report; None: never."""

    @property
    def receiver(self) -> str:
        """The identity of the receiver, without any secret: routes with the same receiver share its messages."""
        raise NotImplementedError


class AddressAlert(Alert):
    """A receiver whose address is in an environment variable."""

    kind: str
    url_env: EnvName

    @property
    def receiver(self) -> str:
        return f"{self.kind}:{self.url_env}"


class AppriseAlert(AddressAlert):
    """Any of Apprise's channels."""

    kind: Literal["apprise"]


class WebhookAlert(AddressAlert):
    """An HTTP endpoint that gets one JSON document."""

    kind: Literal["webhook"]
    secret_env: EnvName | None = None
    """The secret of the signature; None: the message is not signed."""


class AlertmanagerAlert(AddressAlert):
    """An Alertmanager, which drops an alert that is not sent again within a week."""

    kind: Literal["alertmanager"]
    repeat: Duration | None = Field(default=timedelta(days=3), json_schema_extra={"default": "3d"})


class SnsAlert(Alert):
    """An SNS topic."""

    kind: Literal["sns"]
    topic_arn: TopicArn

    @property
    def receiver(self) -> str:
        return self.topic_arn


AnyAlert = Annotated[
    Annotated[AppriseAlert, Tag("apprise")]
    | Annotated[AlertmanagerAlert, Tag("alertmanager")]
    | Annotated[SnsAlert, Tag("sns")]
    | Annotated[WebhookAlert, Tag("webhook")],
    Discriminator(kind_of),
]


class ResultsBlock(Block):
    """The place of the result tables, and the retention of their rows."""

    location: Place
    keep: Duration | None = None
    """Rows of runs older than this are removed; None: never."""


class Quarantine(Block):
    """The place to which `reconcile` moves unused files, and their retention."""

    location: Place
    keep: Duration = Field(default=timedelta(days=30), json_schema_extra={"default": "30d"})
    """The time after which `reconcile purge` removes them for good."""


def _block_or_place(value: object) -> str:
    return "block" if isinstance(value, dict | Block) else "place"


AnyResults = Annotated[
    Annotated[Place, Tag("place")] | Annotated[ResultsBlock, Tag("block")], Discriminator(_block_or_place)
]
AnyQuarantine = Annotated[
    Annotated[Place, Tag("place")] | Annotated[Quarantine, Tag("block")], Discriminator(_block_or_place)
]


class RunOn(Block):
    """The platform on which the commands run; dags/lake_run_on.py describes their jobs."""

    kind: Literal["emr", "emr_serverless", "databricks", "dataproc", "kubernetes"]
    lake_file: Text = ""
    """Empty: each task uploads the lake file to `airflow.status`."""
    jobs: Text | None = None
    """None: the platform starts an image that has lakeaudit."""
    arguments: dict[Text, Any] = Field(default_factory=dict)


class Airflow(Block):
    """Settings of dags/lake_audit.py, which is the only reader of this block and expands no variables."""

    schedule: Schedule | None = None
    """A cron expression or preset, UTC; None: audits on demand only."""
    owner: Text = "lakeaudit"
    tags: tuple[Text, ...] = ()
    connection: Text = "spark_default"
    retries: Limit = 2
    retry_delay: Duration = Field(default=timedelta(minutes=5), json_schema_extra={"default": "5m"})
    status: Place | None = None
    """A folder that both Airflow and the driver can access; required if drivers run on a cluster."""
    spark_conf: dict[Text, Text] = Field(default_factory=dict)
    reconcile: Literal["manual", "on_discrepancies"] | None = None
    """Creates a DAG that plans repairs of the lake, waits for approval, and applies them; None: no such DAG."""
    assets: tuple[Glob, ...] = ("*",)
    """Tables whose audits are events of an asset of their own: names or patterns; an empty list means none."""
    fail_on: FailOn = ("critical", "coverage_lost", "failed")
    """Conditions on which the task `audit` fails after an audit."""
    pool: Text | None = None
    """The Airflow pool of the tasks; lakes with the same results need the same pool, with one slot."""
    run_on: RunOn | None = None
    """The platform on which the commands run; None: spark-submit."""


def _exactly_one(value: object) -> object:
    """Return an integer unchanged and other values as text: a literal 1 would accept true and 1.0 as well."""
    return value if type(value) is int else str(value)


class LakeFile(Block):
    """The whole file."""

    version: Annotated[Literal[1], BeforeValidator(_exactly_one)]
    lake: LakeName
    results: AnyResults
    quarantine: AnyQuarantine | None = None
    s3: S3Options = S3Options()
    buckets: tuple[BucketRule, ...] = ()
    dynamodb: DynamoOptions = DynamoOptions()
    inventories: tuple[Inventory, ...] = ()
    metastores: tuple[Metastore, ...] = ()
    events: tuple[Requests, ...] = ()
    tables: Annotated[tuple[AnyTable, ...], Field(min_length=1)]
    include: tuple[Text, ...] = ()
    """Files with lists of tables, read by `include.include_tables`."""
    defaults: Overrides = Overrides()
    profiles: dict[Text, Overrides] = Field(default_factory=dict)
    owners: tuple[Owner, ...] = ()
    expect: tuple[Expected, ...] = ()
    severity: Severities = Field(default_factory=dict)
    ignore: tuple[Ignore, ...] = ()
    watch: tuple[Place, ...] = ()
    maps: tuple[Renaming, ...] = ()
    replicas: tuple[Replica, ...] = ()
    ceiling: Ceiling | None = None
    ledger: LedgerRules | None = None
    alerts: tuple[AnyAlert, ...] = ()
    follow: Follow | None = None
    dashboard_url: Url | None = None
    heartbeat_url_env: EnvName | None = None
    openlineage_url_env: EnvName | None = None
    openlineage_tables: bool = False
    prometheus_textfile: Textfile | None = None
    airflow: Airflow | None = None
    gates: Literal["optional", "required"] = "optional"
    overdue: Duration = Field(default=timedelta(hours=36), json_schema_extra={"default": "36h"})
