"""The kinds of evidence there are, and all that the program knows of each in one object.

A new kind is a package, a line here and a line with its model in `config.sources`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from lakeaudit.config import (
    AzureInventory,
    CloudTrail,
    DeltaLogStore,
    DeltaManifest,
    Emrfs,
    EventsSource,
    FileListManifest,
    GcsInventory,
    Glue,
    Hive,
    HudiManifest,
    IcebergManifest,
    IcebergRest,
    InventoryManifest,
    Listing,
    ListingManifest,
    ManifestSource,
    MetastoreSource,
    PreviousManifest,
    S3AccessLog,
    S3Guard,
    S3Inventory,
    S3Journal,
    S3Metadata,
    S3mper,
    SparkEventLogManifest,
    StorageSource,
    Table,
    Unity,
)
from lakeaudit.errors import SourceError
from lakeaudit.evidence.catalog import glue, hive, iceberg_rest, reading, unity
from lakeaudit.evidence.catalog.protocol import CatalogTable
from lakeaudit.evidence.events import access_log, cloudtrail, journal
from lakeaudit.evidence.manifest import (
    another_place,
    committers,
    delta,
    file_list,
    hudi,
    iceberg,
    previous,
    spark_event_log,
)
from lakeaudit.evidence.manifest.another_place import point_lookup as another_place_lookup
from lakeaudit.evidence.manifest.databricks_commits import DATABRICKS
from lakeaudit.evidence.manifest.delta import point_lookup as delta_lookup
from lakeaudit.evidence.manifest.file_list import point_lookup as file_list_lookup
from lakeaudit.evidence.manifest.hudi import point_lookup as hudi_lookup
from lakeaudit.evidence.manifest.iceberg import point_lookup as iceberg_lookup
from lakeaudit.evidence.manifest.previous import point_lookup as previous_lookup
from lakeaudit.evidence.manifest.records import reader as records
from lakeaudit.evidence.manifest.records.reader import RecordKind
from lakeaudit.evidence.manifest.redshift_unload import REDSHIFT
from lakeaudit.evidence.manifest.spark_event_log import point_lookup as spark_event_log_lookup
from lakeaudit.evidence.manifest.spark_sink import SPARK_SINK
from lakeaudit.evidence.manifest.symlink import SYMLINK
from lakeaudit.evidence.metastore import delta_log_store, emrfs, s3guard, s3mper
from lakeaudit.evidence.metastore.dynamodb import entries_of_names
from lakeaudit.evidence.metastore.dynamodb.entries_of_names import NameLayout
from lakeaudit.evidence.metastore.s3guard.probe import probe as probe_s3guard
from lakeaudit.evidence.protocol import Changes, Claims, Events, Probed, Stored
from lakeaudit.evidence.storage import azure_inventory, gcs_inventory, inventory, listing, s3_metadata
from lakeaudit.evidence.storage.inventory.probe import probe as probe_inventory
from lakeaudit.evidence.storage.listing.probe import probe as probe_listing
from lakeaudit.runtime.aws import Clients

LookUp = Callable[[Table, Clients, str, str], tuple[str, list[dict[str, Any]], str]]
"""(table, clients, bucket, key) -> what one manifest says of one file, see `manifest.point.Told`."""
Get = Callable[..., dict[str, Any] | None]
"""(source, clients, bucket, key) -> what a metadata store says of one key now; None: nothing."""


@dataclass(frozen=True)
class StorageKind:
    """What storage holds.

    Attributes:
        model: what the lake file says of it.
        read: (source, context, source id) -> Stored.
        probe: (source, clients, now) -> what the smallest requests that an audit needs have shown; raises `SourceError`
            and friends, or what boto3 raised.
    """

    model: type[StorageSource]
    read: Callable[..., Stored]
    probe: Callable[..., Probed]


@dataclass(frozen=True)
class MetastoreKind:
    """What a metadata store says there is, of files, of tables' logs or of tables.

    `read` gives Entries, LogEntries or Pointers. `get` looks one key up; SourceError where that cannot be asked.
    `current` gives a catalog's table as it is now, or None: (source, clients, name).
    """

    model: type[MetastoreSource]
    read: Callable[..., Any]
    probe: Callable[..., Probed]
    get: Get
    current: Callable[..., CatalogTable | None] | None = None


@dataclass(frozen=True)
class EventsKind:
    """Who did what to which key, and when: `read` takes (source, context, source id)."""

    model: type[EventsSource]
    read: Callable[..., Events]
    probe: Callable[..., Probed]


@dataclass(frozen=True)
class ManifestKind:
    """What writers say: `read` and `changes` take all tables that have such a manifest.

    `by_storage`: what it claims is known only beside a picture of storage; single files can be looked up without.
    """

    model: type[ManifestSource]
    read: Callable[..., Claims]
    changes: Callable[..., Changes]
    look_up: LookUp
    by_storage: bool = False


def _no_entry(source: MetastoreSource, *_: object) -> dict[str, Any] | None:
    """Of stores that know no file."""
    raise SourceError(source.name, "it knows tables alone", "ask for the table")


def _of_names(model: type[MetastoreSource], layout: NameLayout) -> MetastoreKind:
    """A store that knows names alone."""
    return MetastoreKind(
        model,
        partial(entries_of_names.read, layout),
        partial(entries_of_names.probe, layout),
        partial(entries_of_names.get_entry, layout),
    )


def _of_records(kind: RecordKind) -> ManifestKind:
    """A kind of which writers leave records in small files."""
    return ManifestKind(
        kind.model,
        partial(records.read, kind),
        partial(records.changes, kind),
        partial(records.look_up, kind),
        by_storage=kind.by_storage,
    )


def _of_another_place(kind: str, model: type[ManifestSource]) -> ManifestKind:
    """A picture of where a table was copied from."""
    return ManifestKind(
        model,
        partial(another_place.read, kind),
        another_place.changes,
        another_place_lookup.read,
        by_storage=True,
    )


RECORDS = (committers.S3A, committers.MANIFEST, SPARK_SINK, SYMLINK, REDSHIFT, DATABRICKS)
"""The kinds that `evidence.manifest.records` reads."""

STORAGE: dict[str, StorageKind] = {
    "s3_inventory": StorageKind(S3Inventory, inventory.read, probe_inventory),
    "gcs_inventory": StorageKind(GcsInventory, gcs_inventory.read, gcs_inventory.probe),
    "azure_inventory": StorageKind(AzureInventory, azure_inventory.read, azure_inventory.probe),
    "s3_metadata": StorageKind(S3Metadata, s3_metadata.read, s3_metadata.probe),
    "listing": StorageKind(Listing, listing.read, probe_listing),
}
METASTORES: dict[str, MetastoreKind] = {
    "s3guard": MetastoreKind(S3Guard, s3guard.read, probe_s3guard, s3guard.get_entry),
    "delta_log_store": MetastoreKind(
        DeltaLogStore, delta_log_store.read, delta_log_store.probe, delta_log_store.get_entry
    ),
    "emrfs": _of_names(Emrfs, emrfs.LAYOUT),
    "s3mper": _of_names(S3mper, s3mper.LAYOUT),
    "iceberg_rest": MetastoreKind(
        IcebergRest, partial(reading.read, iceberg_rest.list_tables), iceberg_rest.probe, _no_entry
    ),
    "glue": MetastoreKind(
        Glue,
        partial(reading.read, glue.list_tables),
        glue.probe,
        partial(reading.get_entry, glue.list_tables),
        glue.current,
    ),
    "hive": MetastoreKind(
        Hive,
        partial(reading.read, hive.list_tables),
        hive.probe,
        partial(reading.get_entry, hive.list_tables),
        hive.current,
    ),
    "unity": MetastoreKind(Unity, partial(reading.read, unity.list_tables), unity.probe, _no_entry),
}
EVENTS: dict[str, EventsKind] = {
    "s3_access_log": EventsKind(S3AccessLog, access_log.read, access_log.probe),
    "cloudtrail": EventsKind(CloudTrail, cloudtrail.read, cloudtrail.probe),
    "s3_journal": EventsKind(S3Journal, journal.read, journal.probe),
}
MANIFESTS: dict[str, ManifestKind] = {
    "delta": ManifestKind(DeltaManifest, delta.read, delta.changes, delta_lookup.read),
    "iceberg": ManifestKind(IcebergManifest, iceberg.read, iceberg.changes, iceberg_lookup.read),
    "hudi": ManifestKind(HudiManifest, hudi.read, hudi.changes, hudi_lookup.read),
    "file_list": ManifestKind(FileListManifest, file_list.read, file_list.changes, file_list_lookup.read),
    "spark_event_log": ManifestKind(
        SparkEventLogManifest,
        spark_event_log.read,
        spark_event_log.changes,
        spark_event_log_lookup.read,
        by_storage=True,
    ),
    "previous": ManifestKind(
        PreviousManifest, previous.read, previous.changes, previous_lookup.read, by_storage=True
    ),
    **{kind.kind: _of_records(kind) for kind in RECORDS},
    "listing": _of_another_place("listing", ListingManifest),
    "s3_inventory": _of_another_place("s3_inventory", InventoryManifest),
}
