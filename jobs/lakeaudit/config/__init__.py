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
    SnsAlert,
)
from lakeaudit.config.globs import glob_to_regex
from lakeaudit.config.lake import Confirm, Discovery, Lake, Settings, Table
from lakeaudit.config.load import load_lake
from lakeaudit.config.parsers import format_duration, format_size, parse_duration, parse_size
from lakeaudit.config.problems import Problem
from lakeaudit.config.schema import lake_schema
from lakeaudit.config.sources import (
    CommitterManifest,
    DeltaManifest,
    DynamoOptions,
    EventsSource,
    FileListManifest,
    Listing,
    ManifestCommitterManifest,
    ManifestSource,
    MetastoreSource,
    PreviousManifest,
    S3AccessLog,
    S3ACommitterManifest,
    S3Guard,
    S3Inventory,
    S3Options,
    SparkEventLogManifest,
    StorageSource,
    state_kinds,
)

__all__ = [
    "Alert",
    "AlertmanagerAlert",
    "AnyAlert",
    "AppriseAlert",
    "BucketRule",
    "CommitterManifest",
    "Confirm",
    "ConfirmMode",
    "DeltaManifest",
    "Discovery",
    "DynamoOptions",
    "EventsSource",
    "Expected",
    "FileListManifest",
    "Ignore",
    "Lake",
    "Listing",
    "ManifestCommitterManifest",
    "ManifestSource",
    "MetastoreSource",
    "Owner",
    "PreviousManifest",
    "Problem",
    "S3ACommitterManifest",
    "S3AccessLog",
    "S3Guard",
    "S3Inventory",
    "S3Options",
    "Settings",
    "Severity",
    "SeverityOrOff",
    "SnsAlert",
    "SparkEventLogManifest",
    "StorageSource",
    "Table",
    "format_duration",
    "format_size",
    "glob_to_regex",
    "lake_schema",
    "load_lake",
    "parse_duration",
    "parse_size",
    "state_kinds",
]
