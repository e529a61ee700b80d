"""The evidence that a lake file names: the keys of every source, and those of each role.

The kinds of each role come from `lakeaudit.evidence.registry`.
"""

from lakeaudit.config.sources.base import Block, DynamoOptions, S3Options, Source
from lakeaudit.config.sources.one_of import Inventory, Manifest, Metastore, Requests, kind_of
from lakeaudit.config.sources.roles import (
    CatalogSource,
    EventsSource,
    ManifestSource,
    MetastoreSource,
    Pointer,
    StorageSource,
)

__all__ = [
    "Block",
    "CatalogSource",
    "DynamoOptions",
    "EventsSource",
    "Inventory",
    "Manifest",
    "ManifestSource",
    "Metastore",
    "MetastoreSource",
    "Pointer",
    "Requests",
    "S3Options",
    "Source",
    "StorageSource",
    "kind_of",
]
