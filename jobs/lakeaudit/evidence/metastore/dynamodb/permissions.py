"""The AWS permissions of stores that are DynamoDB tables."""

from collections.abc import Iterator

from lakeaudit.config import Lake
from lakeaudit.evidence.metastore.dynamodb import DynamoTable
from lakeaudit.grants import (
    GET,
    GET_VERSION,
    LIFECYCLE,
    LIST,
    LIST_VERSIONS,
    VERSIONING,
    Grant,
    NoGrant,
    S3Grant,
    ServiceGrant,
    arn,
    literal,
    read_below,
)

LOOKED_UP = (GET, GET_VERSION, LIST, LIST_VERSIONS, VERSIONING, LIFECYCLE)


def permissions(source: DynamoTable, lake: Lake) -> Iterator[Grant]:  # noqa: ARG001 - the signature of all kinds
    """See `kind.Kind`. The live check looks up files of entries that contradict storage, outside of tables, too."""
    yield from read_below("ReadExports", source.places)
    yield from on_table(source, "ReadMetadataStores", ("DescribeTable", "GetItem", "Scan"))
    if source.knows_files and source.location is not None:
        yield S3Grant("ReadFilesOfMetadataStores", source.location, LOOKED_UP)
    elif source.knows_files:
        why = "its files are in every bucket that it knows, and only those of tables can be looked up"
        yield NoGrant(f"metastore {source.name}", why, "give it a `location`")


def on_table(source: DynamoTable, purpose: str, operations: tuple[str, ...]) -> Iterator[Grant]:
    """Yield the grant of these operations of DynamoDB on the live table of a source, if it has one."""
    way = source.live_table
    if way is not None:
        table = arn("dynamodb", way.region, way.role_arn, f"table/{literal(source.table or '')}")
        yield ServiceGrant(purpose, (table,), tuple(f"dynamodb:{each}" for each in operations), way.role_arn)
