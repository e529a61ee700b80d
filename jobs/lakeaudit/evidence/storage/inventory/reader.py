"""Storage as an S3 Inventory report names it: a picture taken over hours, days before it is read.

The report is the newest complete one; its manifest and every data file are checked against their MD5 before a row
counts. A data file that is missing or wrong is an evidence gap, and so is a report older than `max_age`.
"""

import re
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Protocol

from lakeaudit.errors import SourceError
from lakeaudit.evidence.files import folders, named_folders
from lakeaudit.evidence.protocol import (
    Context,
    EvidenceGap,
    Part,
    SnapshotWindow,
    SourceInfo,
    Stored,
    identity_of,
)
from lakeaudit.evidence.storage.inventory import S3Inventory
from lakeaudit.evidence.storage.inventory.data_files import Located, locate
from lakeaudit.evidence.storage.inventory.layout import layout_of
from lakeaudit.evidence.storage.inventory.read_file import DataFileReader
from lakeaudit.evidence.storage.inventory.report import Report, find_report
from lakeaudit.keys import Location
from lakeaudit.runtime.connections.aws import Clients

LEAST_MARGIN = timedelta(hours=24)
LOCAL_MARGIN = timedelta(hours=48)
"""For a report in a local folder, of which nobody knows when its scan ended."""


class Source(Protocol):
    """What the lake file says of an inventory."""

    @property
    def location(self) -> Location: ...
    @property
    def covers(self) -> Sequence[Location] | None: ...
    @property
    def max_age(self) -> timedelta | None: ...
    @property
    def margin(self) -> timedelta | None: ...


def read(source: Source, ctx: Context, source_id: str) -> Stored:
    """The newest complete report whose scan began at or before `ctx.as_of`: a part for each verified data file.

    Raises:
        SourceError: no such report, a manifest that is not what its checksum says, columns that cannot be
            read, `covers` outside the report's bucket.
    """
    report = find_report(ctx.clients, source.location, ctx.as_of)
    covers = _covers(source, report)
    files = locate(ctx, report)
    parts, warnings = _parts(ctx, report, files, source_id)
    return Stored(
        info=_info(source, report, source_id),
        rows=parts,
        covers=covers,
        assumed_covers=not source.covers,
        holes=(*_stale(source, ctx, report, source_id), *_unread(files, report, source_id)),
        warnings=warnings,
    )


def _parts(
    ctx: Context, report: Report, files: Sequence[Located], source_id: str
) -> tuple[tuple[Part, ...], tuple[str, ...]]:
    """(a part for each file that can be read, warnings about the report's columns)."""
    if all(located.place is None for located in files):
        return (), ()
    layout = layout_of(ctx.clients, report, files)
    bucket = report.manifest.source_bucket
    classes = ctx.clients.storage_classes(bucket).identity
    parts = [
        Part(
            source_id,
            DataFileReader(ctx.clients, located.place, located.stamp, source_id, bucket, layout),
            weight=located.file.size,
            # the MD5 is that of the content: `locate` has compared them
            identity=identity_of(
                "s3_inventory", located.file, located.place.key, source_id, bucket, layout, classes
            ),
            slow=layout.form == "CSV",
        )
        for located in files
        if located.place is not None
    ]
    return tuple(parts), layout.warnings


def _info(source: Source, report: Report, source_id: str) -> SourceInfo:
    return SourceInfo(
        id=source_id,
        role="storage",
        kind="s3_inventory",
        location=source.location.uri,
        identity=report.identity,
        cut=_window(source, report),
        max_age=report.max_age(source.max_age),
    )


def _window(source: Source, report: Report) -> SnapshotWindow:
    start, end = report.manifest.created_at, report.completed_at
    usual = LOCAL_MARGIN if end is None else max(LEAST_MARGIN, end - start)
    return SnapshotWindow(start, end, usual if source.margin is None else source.margin)


def _covers(source: Source, report: Report) -> tuple[Location, ...]:
    """The places whose objects the report names all; by default the bucket it was made of."""
    bucket = report.manifest.source_bucket
    covers = tuple(source.covers or (Location(bucket, ""),))
    for place in covers:
        if place.bucket != bucket:
            what = f"the report is about bucket {bucket} and cannot cover {place.uri}"
            raise SourceError(source.location.uri, what, "correct covers or the location")
    return covers


def _stale(source: Source, ctx: Context, report: Report, source_id: str) -> Iterator[EvidenceGap]:
    if ctx.as_of - report.manifest.created_at > report.max_age(source.max_age):
        reason = f"stale: begun at {report.manifest.created_at:%Y-%m-%dT%H:%MZ}, older than max_age allows"
        yield EvidenceGap(source_id, reason, subject=report.place.uri, hides="files written or removed since")


def _unread(files: Sequence[Located], report: Report, source_id: str) -> Iterator[EvidenceGap]:
    for located in files:
        if located.fault is not None:
            reason = f"data file {located.fault}"
            bucket = "" if report.place.is_local else report.manifest.destination_bucket
            uri = Location(bucket, located.file.key).uri
            yield EvidenceGap(source_id, reason, subject=uri, hides="the objects it lists")


def expand(source: S3Inventory, clients: Clients) -> Iterator[S3Inventory]:
    """The inventories `<source bucket>/<configuration>/` below a place: a request for the buckets, and one a bucket."""
    for home, bucket in named_folders(clients, source.location):
        for name in folders(clients, home.join(bucket)):
            place = home.join(bucket, name)
            if not _DATED.fullmatch(name):
                covers = tuple(each for each in source.covers or () if each.bucket == bucket) or None
                yield source.model_copy(update={"location": place, "covers": covers, "expand": False})


_DATED = re.compile(r"\d{4}-\d\d-\d\dT\d\d-\d\dZ")
