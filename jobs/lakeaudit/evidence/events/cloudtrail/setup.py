"""The command that makes a trail record requests for the files of tables."""

import json
from collections.abc import Iterator

from lakeaudit.advice.command_lines import option
from lakeaudit.config import Lake
from lakeaudit.evidence.events.cloudtrail import CloudTrail
from lakeaudit.evidence.table_grants import buckets_of_tables
from lakeaudit.grants import SetupStep, partition_of


def setup(source: CloudTrail, lake: Lake) -> Iterator[SetupStep]:
    """See `kind.Kind`: data events of the buckets of tables, for the trail that delivers to the location."""
    partition = partition_of(source.s3.region)
    resources = [f"arn:{partition}:s3:::{place.bucket}/" for place in buckets_of_tables(lake)]
    fields = [
        {"Field": "eventCategory", "Equals": ["Data"]},
        {"Field": "resources.type", "Equals": ["AWS::S3::Object"]},
        {"Field": "resources.ARN", "StartsWith": resources},
    ]
    selectors = [{"Name": "Files of tables", "FieldSelectors": fields}]
    command = "aws cloudtrail put-event-selectors --trail-name TRAIL"
    events = option("--advanced-event-selectors", json.dumps(selectors))
    what = f"have the trail TRAIL, which delivers to {source.location.uri}, record data events"
    yield SetupStep(f"{what}; this replaces its other event selectors", f"{command} {events}")
