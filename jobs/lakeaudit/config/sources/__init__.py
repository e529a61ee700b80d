"""The evidence a lake file names: inventories, metastores, manifests and events, each with a way to its store."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from lakeaudit.config.sources.base import Block, DynamoOptions, S3Options, Source
from lakeaudit.config.sources.catalogs import Hive, HttpCatalog, IcebergRest, Unity
from lakeaudit.config.sources.events import CloudTrail, EventsSource, S3AccessLog, S3Journal
from lakeaudit.config.sources.manifests import (
    CommitterManifest,
    DatabricksCommitsManifest,
    DeltaManifest,
    ElsewhereManifest,
    FileListManifest,
    HudiManifest,
    IcebergManifest,
    InventoryManifest,
    ListingManifest,
    ManifestCommitterManifest,
    ManifestSource,
    PointedIceberg,
    Pointer,
    PreviousManifest,
    RedshiftUnloadManifest,
    S3ACommitterManifest,
    SparkEventLogManifest,
    SparkSinkManifest,
    SymlinkManifest,
)
from lakeaudit.config.sources.metastores import (
    CatalogSource,
    DeltaLogStore,
    DynamoTable,
    Emrfs,
    Glue,
    MetastoreSource,
    S3Guard,
    S3mper,
)
from lakeaudit.config.sources.storage import (
    AzureInventory,
    GcsInventory,
    Listing,
    S3Inventory,
    S3Metadata,
    StorageSource,
)

__all__ = [
    "EVENTS",
    "INVENTORIES",
    "MANIFESTS",
    "METASTORES",
    "AzureInventory",
    "Block",
    "CatalogSource",
    "CloudTrail",
    "CommitterManifest",
    "DatabricksCommitsManifest",
    "DeltaLogStore",
    "DeltaManifest",
    "DynamoOptions",
    "DynamoTable",
    "ElsewhereManifest",
    "Emrfs",
    "EventsSource",
    "FileListManifest",
    "GcsInventory",
    "Glue",
    "Hive",
    "HttpCatalog",
    "HudiManifest",
    "IcebergManifest",
    "IcebergRest",
    "Inventory",
    "InventoryManifest",
    "Listing",
    "ListingManifest",
    "Manifest",
    "ManifestCommitterManifest",
    "ManifestSource",
    "Metastore",
    "MetastoreSource",
    "OneOf",
    "PointedIceberg",
    "Pointer",
    "PreviousManifest",
    "RedshiftUnloadManifest",
    "Requests",
    "S3ACommitterManifest",
    "S3AccessLog",
    "S3Guard",
    "S3Inventory",
    "S3Journal",
    "S3Metadata",
    "S3Options",
    "S3mper",
    "Source",
    "SparkEventLogManifest",
    "SparkSinkManifest",
    "StorageSource",
    "SymlinkManifest",
    "Unity",
    "format_rank",
    "kind_of",
    "original_kinds",
    "state_kinds",
]

INVENTORIES: dict[str, type[StorageSource]] = {
    "s3_inventory": S3Inventory,
    "gcs_inventory": GcsInventory,
    "azure_inventory": AzureInventory,
    "s3_metadata": S3Metadata,
    "listing": Listing,
}
METASTORES: dict[str, type[MetastoreSource]] = {
    "s3guard": S3Guard,
    "delta_log_store": DeltaLogStore,
    "emrfs": Emrfs,
    "s3mper": S3mper,
    "iceberg_rest": IcebergRest,
    "glue": Glue,
    "hive": Hive,
    "unity": Unity,
}
EVENTS: dict[str, type[EventsSource]] = {
    "s3_access_log": S3AccessLog,
    "cloudtrail": CloudTrail,
    "s3_journal": S3Journal,
}
MANIFESTS: dict[str, type[ManifestSource]] = {
    "delta": DeltaManifest,
    "iceberg": IcebergManifest,
    "hudi": HudiManifest,
    "file_list": FileListManifest,
    "spark_event_log": SparkEventLogManifest,
    "previous": PreviousManifest,
    "s3a_committer": S3ACommitterManifest,
    "manifest_committer": ManifestCommitterManifest,
    "spark_sink": SparkSinkManifest,
    "symlink": SymlinkManifest,
    "redshift_unload": RedshiftUnloadManifest,
    "databricks_commits": DatabricksCommitsManifest,
    "listing": ListingManifest,
    "s3_inventory": InventoryManifest,
}
"""By role the kinds of evidence there are, and what the lake file says of each; `evidence.registry` has the rest."""


def state_kinds() -> tuple[str, ...]:
    """Manifests that say what a table is; the others say what was written once."""
    return tuple(kind for kind, model in MANIFESTS.items() if model.is_state)


_BY_RANK = ("hudi", "delta", "iceberg")


def format_rank(kind: str) -> tuple[int, str]:
    """Of several formats at one location the least ranks first: it owns the files that none of them lists.

    Hudi's readers also take files for data that no state lists, so its rules say most of them.
    """
    return (_BY_RANK.index(kind) if kind in _BY_RANK else len(_BY_RANK)), kind


def original_kinds() -> tuple[str, ...]:
    """Manifests that are other places, of which a table should be a copy."""
    return tuple(kind for kind, model in MANIFESTS.items() if model.is_original)


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
