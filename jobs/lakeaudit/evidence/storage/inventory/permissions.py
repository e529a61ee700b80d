"""The AWS permissions of an inventory, and the commands that make S3 deliver one with the fields that are read."""

import json
from collections.abc import Iterator
from typing import Any

from lakeaudit.advice.command_lines import option
from lakeaudit.config import Lake
from lakeaudit.evidence.storage.inventory import S3Inventory
from lakeaudit.evidence.storage.inventory.configuration import WANTED
from lakeaudit.evidence.storage.inventory.report import named_manifest
from lakeaudit.evidence.table_grants import buckets_of_tables, on_tables
from lakeaudit.grants import (
    INVENTORY,
    Grant,
    S3Grant,
    SetupStep,
    let_deliver,
    literal,
    partition_of,
    read_below,
)
from lakeaudit.keys import Location

ID = "lakeaudit"
"""The id of a configuration, if the location does not name one."""


def permissions(source: S3Inventory, lake: Lake) -> Iterator[Grant]:
    """See `kind.Kind`. Only `doctor` and `scan` read configurations."""
    yield from read_below("ReadInventories", (folder_of(source.location),))
    if source.location.is_local:
        return
    if source.covers is None:
        yield from on_tables("ReadInventoryConfigurations", lake, (INVENTORY,))
        return
    for place in source.covers:
        yield S3Grant("ReadInventoryConfigurations", place, (INVENTORY,))


def folder_of(location: Location) -> Location:
    """Return the folder of a configuration's reports: the data files are beside the folders of the manifests."""
    manifest = named_manifest(location)
    return location if manifest is None else Location(location.bucket, "/".join(manifest.key.split("/")[:-2]))


def setup(source: S3Inventory, lake: Lake) -> Iterator[SetupStep]:
    """See `kind.Kind`: a configuration for each source bucket, and the statement that lets S3 deliver."""
    folder, region = folder_of(source.location), source.s3.region
    covers = source.covers or buckets_of_tables(lake)
    if not folder.is_in_s3 or not covers:
        return
    for bucket in sorted({place.bucket for place in covers}):
        within = [place.prefix for place in covers if place.bucket == bucket]
        configuration = _configuration(bucket, folder, within, partition_of(region, source.s3.role_arn))
        words = [
            "aws s3api put-bucket-inventory-configuration",
            option("--bucket", bucket),
            option("--id", configuration["Id"]),
            option("--inventory-configuration", json.dumps(configuration)),
        ]
        yield SetupStep(f"have S3 deliver the inventory of s3://{bucket}", " ".join(words))
    yield _let_deliver(folder, sorted({place.bucket for place in covers}), partition_of(region))


def _configuration(bucket: str, folder: Location, within: list[str], partition: str) -> dict[str, Any]:
    """Return the configuration whose reports arrive in the folder: S3 adds the names of bucket and configuration."""
    *above, name, id_ = ["", "", *folder.key.split("/")]
    prefix, id_ = ("/".join(above).lstrip("/"), id_) if name == bucket else (folder.key, ID)
    target: dict[str, str] = {"Bucket": f"arn:{partition}:s3:::{folder.bucket}", "Format": "Parquet"}
    return {
        "Id": id_,
        "IsEnabled": True,
        "IncludedObjectVersions": "All",
        "Schedule": {"Frequency": "Daily"},
        "OptionalFields": [*WANTED],
        **({"Filter": {"Prefix": within[0]}} if len(within) == 1 and within[0] else {}),
        "Destination": {"S3BucketDestination": target | ({"Prefix": prefix} if prefix else {})},
    }


def _let_deliver(folder: Location, buckets: list[str], partition: str) -> SetupStep:
    resource = f"arn:{partition}:s3:::{literal(folder.bucket)}/*"
    sources = [f"arn:{partition}:s3:::{literal(bucket)}" for bucket in buckets]
    condition = {"ArnLike": {"aws:SourceArn": sources}}
    return let_deliver(folder.bucket, "DeliverInventories", "s3.amazonaws.com", resource, Condition=condition)
