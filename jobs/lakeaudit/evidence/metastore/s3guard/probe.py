"""Whether an S3Guard table can be scanned, or its export be found."""

from datetime import datetime

from lakeaudit.errors import SourceError
from lakeaudit.evidence.metastore.dynamodb.export import find_export
from lakeaudit.evidence.metastore.s3guard import S3Guard
from lakeaudit.evidence.metastore.s3guard.layout import LAYOUT, MARKER
from lakeaudit.evidence.protocol import Probed
from lakeaudit.formatting import age, count
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.connections.aws_responses import required
from lakeaudit.runtime.connections.endpoints import dynamodb_endpoint


def probe(source: S3Guard, clients: Clients, now: datetime) -> Probed:
    """See `registry.MetastoreKind`."""
    if source.export is not None:
        export, summary = find_export(clients, source.export, source.table, now)
        told = f"export {export.id} of {summary.table}, {count(summary.item_count)} items"
        return Probed(f"{told}, {age(summary.export_time, now)} old")
    return _scanned(source, clients)


def _scanned(source: S3Guard, clients: Clients) -> Probed:
    """Describe, read the marker of the layout, and scan one item: every right a Scan needs."""
    client, name = clients.dynamodb(dynamodb_endpoint(source.way)), source.table or ""
    described = required(client.describe_table(TableName=name), "Table")
    keys = [each["AttributeName"] for each in described.get("KeySchema", [])]
    if keys != ["parent", "child"]:
        raise SourceError(name, f"its keys are {', '.join(keys)}", "name a table that S3Guard wrote")
    marker_key = {"parent": {"S": MARKER}, "child": {"S": MARKER}}
    marker = client.get_item(TableName=name, Key=marker_key).get("Item", {})
    empty = not required(client.scan(TableName=name, Limit=1), "Items")
    version = marker.get("table_version", {}).get("N")
    if version != LAYOUT and not empty:
        what = f"its layout is {version or 'unmarked'}, not {LAYOUT}"
        raise SourceError(name, what, "name a table of Hadoop 3")
    return Probed(f"can be scanned, about {count(described.get('ItemCount', 0))} items")
