"""The smallest requests that prove what an audit needs of each source, one function a source.

Each returns what was found, or raises: `SourceError` and friends in our words, or what boto3 raised.
"""

import tempfile
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from lakeaudit.config import FileListManifest, Inventory, S3Guard, S3Inventory, Table, format_duration
from lakeaudit.errors import CannotPublish, SourceError
from lakeaudit.evidence.files import list_files, stat
from lakeaudit.evidence.metastore.s3guard.dynamodb_export import find_export
from lakeaudit.evidence.metastore.s3guard.layout import LAYOUT, MARKER
from lakeaudit.evidence.storage.inventory.report import Report, candidates, find_report
from lakeaudit.evidence.storage.listing.s3_listing import rights
from lakeaudit.keys import Location
from lakeaudit.ledger.lease import probe_conditions
from lakeaudit.report.formatting import age, count
from lakeaudit.runtime.aws import Clients
from lakeaudit.runtime.endpoints import endpoint


@dataclass(frozen=True)
class Found:
    """A source that can be used, with what is worth knowing of it."""

    told: str
    notes: tuple[str, ...] = ()
    way_out: str = ""


def inventory(source: Inventory, clients: Clients, now: datetime, covered: list[Location]) -> Found:
    """A storage source; the places it covers are added to `covered` when it can be used."""
    if isinstance(source, S3Inventory):
        return _report(source, clients, now, covered)
    place = source.location
    if place.is_local:
        if not Path(place.spark_path).is_dir():
            raise SourceError(place.uri, "is no folder", "correct the location")
        covered.append(place)
        return Found("can be listed")
    allowed = rights(clients, place)
    first = next(list_files(clients, place), None)
    if first is not None:
        stat(clients, first.place)
    covered.append(place)
    way_out = "grant s3:ListBucketVersions and s3:ListBucketMultipartUploads" if allowed.warnings else ""
    return Found(
        "can be listed and read" if first else "can be listed; it is empty", allowed.warnings, way_out
    )


def metastore(source: S3Guard, clients: Clients, now: datetime) -> Found:
    """An S3Guard table or its export."""
    if source.export is not None:
        export, summary = find_export(clients, source.export, source.table, now)
        told = f"export {export.id} of {summary.table}, {count(summary.item_count)} items"
        return Found(f"{told}, {age(summary.export_time, now)} old")
    return _dynamodb(source, clients)


def table(table: Table, clients: Clients) -> str:
    """The table's own records can be listed and the first of them read."""
    for manifest in table.manifests:
        place = (
            manifest.location if isinstance(manifest, FileListManifest) else table.location.join("_delta_log")
        )
        _first(clients, place, manifest.kind)
    if not table.manifests:
        next(list_files(clients, table.location), None)
    return "can be read"


def results(place: Location, clients: Clients) -> Found:
    """An empty object can be written there and removed again, and the store would keep two audits apart.

    Raises:
        CannotPublish: it would not.
    """
    if place.is_local:
        _write_locally(place)
        return Found("can be written (`_probe` was put there and removed); a lock keeps two audits apart")
    client, key = clients.s3(place.bucket), place.join("_probe").key
    client.put_object(Bucket=place.bucket, Key=key, Body=b"")
    client.delete_object(Bucket=place.bucket, Key=key)
    probe_conditions(place, clients)
    return Found(
        "can be written, and conditional writes are honoured (tried on objects that were removed again)"
    )


def _report(source: S3Inventory, clients: Clients, now: datetime, covered: list[Location]) -> Found:
    report = find_report(clients, source.location, now)
    bucket, made = report.manifest.source_bucket, report.manifest.created_at
    covers = source.covers or (Location(bucket, ""),)
    if now - made > source.max_age:
        what = f"the newest report is {age(made, now)} old, max_age is {format_duration(source.max_age)}"
        raise SourceError(report.place.uri, what, "see why no newer one is delivered, or raise max_age")
    for place in covers:
        if place.bucket != bucket:
            what = f"the report is about bucket {bucket} and cannot cover {place.uri}"
            raise SourceError(report.place.uri, what, "correct `covers` or the location")
    _data_file(report, clients)
    covered.extend(covers)
    files = f"{count(len(report.manifest.files))} {report.manifest.file_format} files"
    return Found(f"report of {bucket}, {age(made, now)} old, {files}")


def _data_file(report: Report, clients: Clients) -> None:
    """The first data file stands for all: whether it can be reached."""
    for named in report.manifest.files[:1]:
        if not any(stat(clients, place) for place in candidates(report, named.key)):
            raise SourceError(
                report.place.uri, f"its data file {named.key} is not there", "have it delivered again"
            )


def _dynamodb(source: S3Guard, clients: Clients) -> Found:
    """Describe, read the marker of the layout, and scan one item: every right a Scan needs."""
    client, name = clients.dynamodb(endpoint(source.s3)), source.table or ""
    described = client.describe_table(TableName=name)["Table"]
    keys = [each["AttributeName"] for each in described.get("KeySchema", [])]
    if keys != ["parent", "child"]:
        raise SourceError(name, f"its keys are {', '.join(keys)}", "name a table that S3Guard wrote")
    marker = client.get_item(TableName=name, Key={"parent": {"S": MARKER}, "child": {"S": MARKER}}).get(
        "Item", {}
    )
    empty = not client.scan(TableName=name, Limit=1)["Items"]
    version = marker.get("table_version", {}).get("N")
    if version != LAYOUT and not empty:
        raise SourceError(
            name, f"its layout is {version or 'unmarked'}, not {LAYOUT}", "name a table of Hadoop 3"
        )
    return Found(f"can be scanned, some {count(described.get('ItemCount', 0))} items")


def _first(clients: Clients, place: Location, kind: str) -> None:
    if stat(clients, place):
        return
    first = next(list_files(clients, place), None)
    if first is None:
        raise SourceError(place.uri, f"no {kind} manifest there", "correct the location or the kind")
    stat(clients, first.place)


def _write_locally(place: Location) -> None:
    """In the nearest folder that is there: the results' own is only made by the first audit."""
    folder = Path(place.spark_path)
    while not folder.exists():
        folder = folder.parent
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix="_probe"):
            pass
    except OSError as error:
        raise CannotPublish(
            str(folder), error.strerror or "cannot be written", "correct `results`"
        ) from error
