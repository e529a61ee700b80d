"""What the configuration of an inventory says that its reports do not: prefix filter, fields, schedule, versions.

`ListBucketInventoryConfigurations` of the source bucket (S3 API reference, InventoryConfiguration); right
`s3:GetInventoryConfiguration`.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from lakeaudit.evidence.s3_pages import pages
from lakeaudit.evidence.storage.inventory.report import Report
from lakeaudit.keys import Location
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.connections.aws_failures import explain

WANTED = (
    *("Size", "LastModifiedDate", "ETag", "StorageClass", "IsMultipartUploaded"),
    *("EncryptionStatus", "IntelligentTieringAccessTier"),
)


def configuration_notes(clients: Clients, report: Report, covers: Sequence[Location]) -> tuple[str, ...]:
    """What people should know of the configuration that a report was made by; of a report in a local folder nothing."""
    if report.place.is_local:
        return ()
    bucket = report.manifest.source_bucket
    try:
        found = [each for each in configurations(clients, bucket) if _delivers(each, report)]
    except (ClientError, BotoCoreError) as error:
        why = explain(error).what
        return (f"its configuration cannot be read ({why}): nobody knows whether it is filtered by a prefix",)
    if not found:
        return (f"no inventory configuration of {bucket} delivers here",)
    return tuple(line for each in found for line in lacks(each, bucket, covers))


def configurations(clients: Clients, bucket: str) -> Iterator[Mapping[str, Any]]:
    """Every inventory configuration of a bucket, as the API gives it.

    Raises:
        ClientError, BotoCoreError: they may not be read.
    """
    call = clients.s3(bucket).list_bucket_inventory_configurations
    for page in pages(call, {"Bucket": bucket}, {"ContinuationToken": "NextContinuationToken"}):
        yield from page.get("InventoryConfigurationList") or ()


def destination(configuration: Mapping[str, Any]) -> Location:
    """The folder that the reports of a configuration are delivered below: bucket, and prefix if there is one."""
    place = configuration["Destination"]["S3BucketDestination"]
    return Location(place["Bucket"].rpartition(":")[2], place.get("Prefix", "").strip("/"))


def _delivers(configuration: Mapping[str, Any], report: Report) -> bool:
    try:
        place = destination(configuration)
    except (KeyError, TypeError, AttributeError):
        return False
    below = report.place.key.split("/")
    return place.holds(*report.place) and configuration.get("Id") in below


def lacks(configuration: Mapping[str, Any], bucket: str, covers: Sequence[Location]) -> Iterator[str]:
    """One line for each thing that an audit would miss."""
    name = f"its configuration {configuration.get('Id')}"
    if not configuration.get("IsEnabled", True):
        yield f"{name} is disabled: no newer report will come"
    prefix = (configuration.get("Filter") or {}).get("Prefix", "")
    if prefix and any(not place.prefix.startswith(prefix) for place in covers):
        yield (
            f"{name} reports only s3://{bucket}/{prefix}: name this prefix in `covers`; otherwise other files seem lost"
        )
    lacking = [field for field in WANTED if field not in configuration.get("OptionalFields", ())]
    if lacking:
        yield f"{name} lacks the fields {', '.join(lacking)}"
    if (configuration.get("Schedule") or {}).get("Frequency") == "Weekly":
        yield f"{name} is made weekly: what happens is seen up to ten days later; a daily one costs little more"
    if configuration.get("IncludedObjectVersions") == "Current":
        yield f"{name} names only current versions: storage is queried file by file for files that can be restored"
