"""The AWS permissions of the tables of S3 Metadata, and the command that makes S3 keep them."""

import json
from collections.abc import Iterator

from lakeaudit.advice.command_lines import option
from lakeaudit.config import EventsSource, Lake, StorageSource
from lakeaudit.evidence.table_grants import buckets_of_tables
from lakeaudit.grants import Grant, SetupStep, read_below
from lakeaudit.keys import Location

CONFIGURATION = {
    "JournalTableConfiguration": {"RecordExpiration": {"Expiration": "DISABLED"}},
    "InventoryTableConfiguration": {"ConfigurationState": "ENABLED"},
}


def permissions(source: StorageSource | EventsSource, lake: Lake) -> Iterator[Grant]:  # noqa: ARG001 - the signature of all kinds
    """See `kind.Kind`."""
    yield from table_grants(source.location)


def table_grants(place: Location) -> Iterator[Grant]:
    """Yield the grants to read a table. A metadata.json names files in the folder that contains its own folder."""
    if place.key.endswith(".metadata.json"):
        place = Location(place.bucket, "/".join(place.key.split("/")[:-2]))
    yield from read_below("ReadS3Metadata", (place,))


def setup(source: StorageSource | EventsSource, lake: Lake) -> Iterator[SetupStep]:  # noqa: ARG001 - the signature of all kinds
    """See `kind.Kind`: the tables of S3 Metadata for each bucket of tables."""
    for place in buckets_of_tables(lake):
        words = [
            "aws s3api create-bucket-metadata-configuration",
            option("--bucket", place.bucket),
            option("--metadata-configuration", json.dumps(CONFIGURATION)),
        ]
        yield SetupStep(f"have S3 keep the metadata tables of s3://{place.bucket}", " ".join(words))
