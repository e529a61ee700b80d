"""The lake file: one config file, read whole into frozen models, or refused with every problem named."""

from lakeaudit.config.buckets import BucketRule
from lakeaudit.config.field_types import Severity, SeverityOrOff
from lakeaudit.config.file import (
    Alert,
    AlertmanagerAlert,
    AnyAlert,
    AppriseAlert,
    ConfirmMode,
    Expected,
    Ignore,
    Owner,
    Quarantine,
    SnsAlert,
    WebhookAlert,
)
from lakeaudit.config.follow import Follow, Queue
from lakeaudit.config.globs import glob_to_regex
from lakeaudit.config.lake import CatalogDiscovery, Confirm, Discovery, Lake, Settings, Table, metastore_id
from lakeaudit.config.load import data_of_lake, lake_of_data, load_lake, read_local
from lakeaudit.config.parsers import format_duration, format_size, parse_duration, parse_size
from lakeaudit.config.problems import Problem
from lakeaudit.config.schema import lake_schema
from lakeaudit.config.sources import (
    CatalogSource,
    DynamoOptions,
    EventsSource,
    ManifestSource,
    MetastoreSource,
    Pointer,
    S3Options,
    StorageSource,
)

__all__ = [
    "Alert",
    "AlertmanagerAlert",
    "AnyAlert",
    "AppriseAlert",
    "BucketRule",
    "CatalogDiscovery",
    "CatalogSource",
    "Confirm",
    "ConfirmMode",
    "Discovery",
    "DynamoOptions",
    "EventsSource",
    "Expected",
    "Follow",
    "Ignore",
    "Lake",
    "ManifestSource",
    "MetastoreSource",
    "Owner",
    "Pointer",
    "Problem",
    "Quarantine",
    "Queue",
    "S3Options",
    "Settings",
    "Severity",
    "SeverityOrOff",
    "SnsAlert",
    "StorageSource",
    "Table",
    "WebhookAlert",
    "data_of_lake",
    "format_duration",
    "format_size",
    "glob_to_regex",
    "lake_of_data",
    "lake_schema",
    "load_lake",
    "metastore_id",
    "parse_duration",
    "parse_size",
    "read_local",
]
