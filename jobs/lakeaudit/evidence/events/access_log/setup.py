"""The commands that make S3 deliver server access logs."""

import json
from collections.abc import Iterator

from lakeaudit.advice.command_lines import option
from lakeaudit.config import Lake
from lakeaudit.evidence.events.access_log import S3AccessLog
from lakeaudit.evidence.table_grants import buckets_of_tables
from lakeaudit.grants import SetupStep, let_deliver, literal, partition_of


def setup(source: S3AccessLog, lake: Lake) -> Iterator[SetupStep]:
    """See `kind.Kind`: logging for each bucket of tables, and the statement that lets S3 deliver."""
    place = source.location
    if not place.is_in_s3:
        return
    for each in buckets_of_tables(lake):
        target = {"LoggingEnabled": {"TargetBucket": place.bucket, "TargetPrefix": place.prefix}}
        words = [
            "aws s3api put-bucket-logging",
            option("--bucket", each.bucket),
            option("--bucket-logging-status", json.dumps(target)),
        ]
        yield SetupStep(f"have S3 deliver the access logs of s3://{each.bucket}", " ".join(words))
    below = f"{literal(place.bucket)}/{literal(place.prefix)}*"
    resource = f"arn:{partition_of(source.s3.region)}:s3:::{below}"
    yield let_deliver(place.bucket, "DeliverAccessLogs", "logging.s3.amazonaws.com", resource)
