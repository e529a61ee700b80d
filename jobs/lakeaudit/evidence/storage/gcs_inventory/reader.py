"""Google Cloud Storage as an inventory report of Storage Insights names it: a picture of one instant.

Below the destination lie, of each run, `<configuration>_<time>_manifest.json` and the shards
`<configuration>_<time>_<n>.csv` or `.parquet` that it lists, the manifest last (Cloud Storage documentation, "Inventory
reports"). The manifest says when the snapshot was taken and how many records there are; it has no checksums, so the
shards' rows are counted first. Names are raw. An object that was replaced or deleted has a timeDeleted. Content is
known by md5Hash, or by crc32c where an object was composed or uploaded in parts; the report's ETag is that of the JSON
API, which no reader of the S3 API sees, and is not used. timeCreated is when the content was written; `updated` follows
metadata too.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from lakeaudit.config import format_duration
from lakeaudit.errors import SourceError
from lakeaudit.evidence.files import list_files, read_bytes, stat
from lakeaudit.evidence.protocol import (
    DAILY_MAX_AGE,
    Context,
    EvidenceGap,
    Part,
    Probed,
    SnapshotWindow,
    SourceInfo,
    Stored,
)
from lakeaudit.evidence.storage.gcs_inventory import GcsInventory
from lakeaudit.evidence.storage.inventory.columns import ReportColumn
from lakeaudit.evidence.storage.report_rows import CsvWay, ReportFile, ReportForm
from lakeaudit.formatting import age, count
from lakeaudit.keys import Location
from lakeaudit.runtime.connections.aws import Clients

KIND = "gcs_inventory"
_MANIFEST = re.compile(r"(?P<of>.*)_(?P<at>\d{4}-\d\d-\d\dT\d\d.\d\d(.\d\d)?Z?)_manifest\.json$")
_WAY_OUT = "name the manifest of a Storage Insights inventory report, or the folder of its reports"

_MD5 = "CASE WHEN {md5hash} IS NOT NULL THEN lower(hex(TRY(from_base64({md5hash})))) END"
_CRC = "CASE WHEN {crc32c} IS NOT NULL THEN lower(hex(TRY(from_base64({crc32c})))) END"


def _column(name: str, holds: str) -> ReportColumn:
    return ReportColumn(name, name.lower(), holds)


KNOWN = (
    _column("bucket", "text"),
    _column("name", "text"),
    _column("size", "number"),
    _column("timeCreated", "time"),
    _column("timeDeleted", "time"),
    _column("storageClass", "text"),
    _column("md5Hash", "text"),
    _column("crc32c", "text"),
    _column("generation", "number"),
)
QUESTIONS = {
    "size": "whether a file has the recorded size",
    "timeCreated": "whether a file was written again, is left over, or is a copy",
    "md5Hash": "whether a file has the recorded content, or another's",
    "timeDeleted": "which of several generations is the current one",
    "storageClass": "the cost of reading a file",
}
"""Columns that a report may lack, and the fact that is unknown then."""


def _values(sql: str) -> str:
    return sql.format(md5hash="v_md5hash", crc32c="v_crc32c")


FORM = ReportForm(
    known=KNOWN,
    required=("bucket", "name"),
    given={
        "bucket": "v_bucket",
        "key": "v_name",
        "version_id": "CAST(v_generation AS VARCHAR)",
        "is_latest": "v_timedeleted IS NULL",
        "is_delete_marker": "false",
        "size": "v_size",
        "modified_at": "v_timecreated",
        "storage_class": "v_storageclass",
        # every class is read at once, those that are called archive too
        "archived": "false",
        "checksum": f"coalesce('md5:' || {_values(_MD5)}, 'crc32c:' || {_values(_CRC)})",
    },
    faults=(
        f"CASE WHEN {{md5hash}} IS NOT NULL AND length({_MD5}) IS DISTINCT FROM 32 THEN 'md5Hash is not an MD5' END",
        f"CASE WHEN {{crc32c}} IS NOT NULL AND length({_CRC}) IS DISTINCT FROM 8 THEN 'crc32c is not a CRC32C' END",
    ),
)


@dataclass(frozen=True)
class Report:
    """One complete report: its manifest, and what that says. `bucket` None: it does not say of which one it is."""

    place: Location
    md5: str
    snapshot: datetime
    records: int
    shards: tuple[str, ...]
    bucket: str | None
    way: CsvWay

    @property
    def identity(self) -> str:
        return f"{self.place.key.rpartition('/')[2]} md5:{self.md5}"


def find_report(clients: Clients, location: Location, as_of: datetime) -> Report:
    """The newest report at `location`, a folder or one manifest, whose snapshot was taken at or before `as_of`.

    Raises:
        SourceError: there is none, it cannot be understood, or the folder has those of several configurations.
    """
    if location.key.endswith(".json"):
        named = [location]
    else:
        found = [
            (m, file.place)
            for file in list_files(clients, location, flat=True)
            if (m := _MANIFEST.fullmatch(file.name))
        ]
        if len(configurations := {m["of"] for m, _ in found}) > 1:
            what = f"holds reports of {len(configurations)} configurations"
            raise SourceError(location.uri, what, "name a folder of one, or one manifest")
        named = [place for m, place in sorted(found, key=lambda each: each[0]["at"], reverse=True)]
    for place in named:
        report = _parsed(place, read_bytes(clients, place))
        if report.snapshot <= as_of:
            return report
    # without later reports each night has the same message
    made_by = f" made by {as_of:%Y-%m-%dT%H:%MZ}" if named else ""
    raise SourceError(location.uri, f"no inventory report{made_by}", _WAY_OUT)


def _parsed(place: Location, content: bytes | None) -> Report:
    try:
        told = json.loads(content or b"")
        taken = datetime.fromisoformat(told["snapshot_time"])
        shards = _shards(told["report_shards_file_names"])
        records, number = int(told["records_processed"]), int(told.get("shard_count", len(shards)))
        asked = told.get("report_config") or {}
        bucket, way = _bucket(asked), _way(asked)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise SourceError(
            place.uri, f"is not a manifest of an inventory report ({type(error).__name__})", _WAY_OUT
        ) from error
    if taken.tzinfo is None or records < 0 or number != len(shards) or not all(shards):
        raise SourceError(
            place.uri, "contradicts itself: snapshot_time, shard_count or names of shards", _WAY_OUT
        )
    md5 = hashlib.md5(content or b"", usedforsecurity=False).hexdigest()
    return Report(place, md5, taken.astimezone(UTC), records, shards, bucket, way)


def _shards(names: Any) -> tuple[str, ...]:
    """The shards' own names; some reports name them by their whole place."""
    if not isinstance(names, list):
        raise TypeError("report_shards_file_names")
    return tuple(str(name).rpartition("/")[2] for name in names)


def _option(options: Any, *names: str) -> Any:
    """The first option that is there, of names in both spellings of Google's APIs."""
    return next((options[name] for name in names if isinstance(options, Mapping) and name in options), None)


def _bucket(asked: Any) -> str | None:
    report = _option(asked, "objectMetadataReportOptions", "object_metadata_report_options")
    bucket = _option(_option(report, "storageFilters", "storage_filters"), "bucket")
    return str(bucket) if bucket else None


def _way(asked: Any) -> CsvWay:
    report = _option(asked, "objectMetadataReportOptions", "object_metadata_report_options")
    options = _option(asked, "csvOptions", "csv_options")
    names = tuple(map(str, _option(report, "metadataFields", "metadata_fields") or ()))
    delimiter = str(_option(options, "delimiter") or ",")
    if len(delimiter) != 1 or delimiter in '\r\n"':
        raise ValueError("delimiter")
    return CsvWay(delimiter, names)


def read(source: GcsInventory, ctx: Context, source_id: str) -> Stored:
    """The newest report whose snapshot was taken at or before `ctx.as_of`: a part for each shard.

    Raises:
        SourceError: see `find_report`; or nobody says of which bucket the report is.
    """
    report = find_report(ctx.clients, source.location, ctx.as_of)
    bucket, covers = _covers(source, report)
    folder = Location(report.place.bucket, report.place.key.rpartition("/")[0])
    files = [
        ReportFile(ctx.clients, folder.join(name) if folder.key else Location(folder.bucket, name), source_id, bucket,
                   FORM, report.way)
        for name in report.shards
    ]  # fmt: skip
    holes = [*_stale(source, ctx, report, source_id), *_incomplete(ctx, report, files, source_id)]
    return Stored(
        info=SourceInfo(
            source_id,
            "storage",
            KIND,
            source.location.uri,
            report.identity,
            _window(source, report),
            max_age=_max_age(source),
        ),
        rows=tuple(Part(source_id, file, weight=_size(file)) for file in files),
        covers=covers,
        older_alone=True,
        assumed_covers=not source.covers,
        holes=tuple(holes),
        warnings=_warnings(report),
    )


def _size(file: ReportFile) -> int:
    found = stat(file.clients, file.place)
    return found.size if found else 0


def _covers(source: GcsInventory, report: Report) -> tuple[str, tuple[Location, ...]]:
    """(bucket of the report, places whose objects it names all)."""
    written = {place.bucket for place in source.covers or ()}
    bucket = report.bucket or next(iter(written), None)
    if bucket is None:
        raise SourceError(report.place.uri, "does not say of which bucket it is", "write `covers`")
    if written - {bucket}:
        others = ", ".join(sorted(written - {bucket}))
        what = f"the report is about bucket {bucket} and cannot cover {others}"
        raise SourceError(source.location.uri, what, "correct `covers` or the location")
    return bucket, tuple(source.covers or (Location(bucket, ""),))


def _max_age(source: GcsInventory) -> timedelta:
    return DAILY_MAX_AGE if source.max_age is None else source.max_age


def _window(source: GcsInventory, report: Report) -> SnapshotWindow:
    """All of a report is of one instant, and listings of the store are strongly consistent: no margin."""
    return SnapshotWindow(report.snapshot, report.snapshot, source.margin or timedelta(0))


def _stale(source: GcsInventory, ctx: Context, report: Report, source_id: str) -> Iterator[EvidenceGap]:
    if ctx.as_of - report.snapshot > _max_age(source):
        reason = f"stale: taken at {report.snapshot:%Y-%m-%dT%H:%MZ}, older than max_age allows"
        yield EvidenceGap(source_id, reason, subject=report.place.uri, hides="files written or removed since")


def _incomplete(
    ctx: Context, report: Report, files: Sequence[ReportFile], source_id: str
) -> Iterator[EvidenceGap]:
    """What proves that shards, which have no checksums, are not all of the report."""
    rows = ctx.engine.map(ReportFile.count, files) if files else []
    unread = [file for file, found in zip(files, rows, strict=True) if found is None]
    for file in unread:
        yield EvidenceGap(
            source_id, "data file is missing, or cannot be read", file.place.uri, hides="the objects it lists"
        )
    total = sum(found or 0 for found in rows)
    if not unread and total != report.records:
        reason = f"its shards have {count(total)} records, its manifest says {count(report.records)}"
        yield EvidenceGap(source_id, reason, report.place.uri, hides="the objects that are missing")


def _warnings(report: Report) -> tuple[str, ...]:
    """What of the columns is worth knowing, where the manifest names them."""
    names = {name.lower() for name in report.way.names}
    return tuple(
        f"the report has no column {name}: it cannot tell {question}"
        for name, question in QUESTIONS.items()
        if names and name.lower() not in names
    )


def probe(source: GcsInventory, clients: Clients, now: datetime) -> Probed:
    """See `registry.StorageKind`."""
    report = find_report(clients, source.location, now)
    bucket, covers = _covers(source, report)
    if now - report.snapshot > _max_age(source):
        limit = format_duration(_max_age(source))
        what = f"the newest report is {age(report.snapshot, now)} old, max_age is {limit}"
        raise SourceError(report.place.uri, what, "see why no newer one is delivered, or raise max_age")
    size = f"{count(report.records)} records in {count(len(report.shards))} shards"
    return Probed(
        f"report of {bucket}, {age(report.snapshot, now)} old, {size}", _warnings(report), covers=covers
    )
