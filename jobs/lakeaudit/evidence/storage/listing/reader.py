"""Storage as it is now: a parallel listing of one place, on S3 or in a local folder.

The driver lists folders to split by; each split is a part, which a task lists once. The engine keeps the rows. Where
a bucket is versioned and its versions may be listed, older versions and delete markers are among them.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Protocol

import pyarrow as pa
from botocore.exceptions import BotoCoreError, ClientError

from lakeaudit.errors import SourceError
from lakeaudit.evidence.protocol import (
    Batches,
    BufferedRows,
    Clock,
    Context,
    EvidenceGap,
    Part,
    SnapshotWindow,
    SourceInfo,
    Stored,
    note_row,
    utc_now,
)
from lakeaudit.evidence.storage.listing.listing_partitions import Folders, Split, partition
from lakeaudit.evidence.storage.listing.local_folder import LocalLister
from lakeaudit.evidence.storage.listing.rows import Row
from lakeaudit.evidence.storage.listing.s3_listing import Rights, S3Lister, rights
from lakeaudit.keys import Location, uri_of
from lakeaudit.runtime.connections.aws_failures import explain
from lakeaudit.runtime.duck import BATCH_ROWS, Connection
from lakeaudit.schemas import UPLOAD, VERSION

VersionPages = Callable[[Split], Iterator[list[Row]]]
UploadPages = Callable[[str], Iterator[list[Row]]]
_FAILURES = (ClientError, BotoCoreError, OSError)
_SPLITS_A_TASK = 4
_UPLOADS = json.dumps({"kind": "uploads"})
"""`data` of the note of uploads that could not be listed."""


class Source(Protocol):
    """What the lake file gives of a listing."""

    @property
    def location(self) -> Location: ...
    @property
    def margin(self) -> timedelta | None: ...


def _as_it_is(part: Part) -> Part:
    return part


def read(source: Source, ctx: Context, source_id: str, *, clock: Clock = utc_now) -> Stored:
    """All objects at the source's location; see `read_place`."""
    margin = source.margin or timedelta(0)
    return read_place(source.location, ctx, source_id, margin=margin, clock=clock)


def read_place(
    place: Location,
    ctx: Context,
    source_id: str,
    *,
    margin: timedelta = timedelta(0),
    clock: Clock = utc_now,
    made_of: Callable[[Part], Part] = _as_it_is,
) -> Stored:
    """All objects below `place`, listed now; `made_of` gives a part that makes other rows of the rows of one.

    The listing is complete when this returns: the window is the time that it took, with the given margin. A split that
    failed is an evidence gap.

    Raises:
        SourceError: the audit is about a time in the past; the place cannot be listed at all.
    """
    if not ctx.live:
        what = f"a listing is live and cannot answer for {ctx.as_of:%Y-%m-%dT%H:%MZ}"
        raise SourceError(place.uri, what, "leave --as-of out, or read an inventory")
    start = clock()
    lister, permissions = _open(place, ctx)
    kept = ctx.engine.keep([made_of(part) for part in _parts(lister, permissions, place, ctx, source_id)])
    gaps = _upload_warnings(kept, place)
    return Stored(
        info=SourceInfo(
            id=source_id,
            role="storage",
            kind="listing",
            location=place.uri,
            identity=f"listed {start.isoformat()}",
            cut=SnapshotWindow(start, clock(), margin),
        ),
        rows=kept,
        covers=(place,),
        repeats=True,
        lists_uploads=permissions.uploads and not gaps,
        holes=tuple(_gap(note, place) for note in kept.notes if note["data"] != _UPLOADS),
        warnings=(*permissions.warnings, *gaps),
    )


def _gap(note: Mapping[str, object], place: Location) -> EvidenceGap:
    return EvidenceGap(
        str(note["source"]),
        f"could not be listed: {note['reason']}",
        subject=uri_of(place.bucket, str(note["subject"])),
        hides="the objects below it",
    )


def _upload_warnings(kept: BufferedRows, place: Location) -> tuple[str, ...]:
    failed = [note for note in kept.notes if note["data"] == _UPLOADS]
    return tuple(
        f"s3://{place.bucket}: open uploads could not be listed ({note['reason']})" for note in failed
    )


def _open(place: Location, ctx: Context) -> tuple[S3Lister | LocalLister, Rights]:
    if not place.is_local:
        permissions = rights(ctx.clients, place)
        interval = ctx.parallelism / ctx.rate
        return S3Lister(ctx.clients, place.bucket, permissions.versions, interval), permissions
    if not Path(place.spark_path).is_dir():
        raise SourceError(place.uri, "is not a folder", "correct the location")
    return LocalLister(), Rights(versions=False, uploads=False, warnings=())


def _parts(
    lister: S3Lister | LocalLister, permissions: Rights, place: Location, ctx: Context, source_id: str
) -> list[Part]:
    """One part a split, and one for all open uploads, since they are few. A small place is listed here and now."""
    try:
        few = lister.few(place.prefix) if isinstance(lister, S3Lister) else None
        splits = [] if few is not None else partition(place.prefix, _folders(lister, place), _part_count(ctx))
    except _FAILURES as error:
        raise SourceError(place.uri, _in_words(error), "see that it can be read") from error
    parts = [Part(source_id, partial(_read_versions, source_id, lister.rows, split)) for split in splits]
    if few is not None:
        parts.append(Part(source_id, partial(_listed, tuple(_batches(source_id, iter([few]), VERSION)))))
    if permissions.uploads and isinstance(lister, S3Lister):
        parts.append(Part(source_id, partial(_read_uploads, source_id, lister.uploads, place.prefix)))
    return parts


def _part_count(ctx: Context) -> int:
    return max(2, ctx.parallelism * _SPLITS_A_TASK)


def _folders(lister: S3Lister | LocalLister, place: Location) -> Folders:
    def folders(prefix: str) -> Iterator[list[str]]:
        try:
            yield from lister.folders(prefix)
        except _FAILURES:
            if prefix == place.prefix:
                raise
            # The task that gets this folder meets the failure again and reports it.

    return folders


def _listed(batches: Sequence[pa.RecordBatch], _: Connection) -> Batches:
    yield from (("versions", batch) for batch in batches)


def _read_versions(source: str, pages: VersionPages, split: Split, _: Connection) -> Batches:
    """VERSION rows of a split; a note where it could not be listed to its end, and then what was listed before."""
    failures: list[str] = []
    for batch in _batches(source, _until_failure(pages(split), failures), VERSION):
        yield "versions", batch
    yield from (("notes", _note(source, split.prefix, reason)) for reason in failures)


def _read_uploads(source: str, pages: UploadPages, prefix: str, _: Connection) -> Batches:
    """UPLOAD rows below a prefix; of a list with a gap nothing but a note."""
    failures: list[str] = []
    batches = list(_batches(source, _until_failure(pages(prefix), failures), UPLOAD))
    if failures:
        yield "notes", _note(source, prefix, failures[0], _UPLOADS)
        return
    yield from (("uploads", batch) for batch in batches)


def _until_failure(pages: Iterator[list[Row]], failures: list[str]) -> Iterator[list[Row]]:
    """The pages before a failure, which is added to `failures` in words."""
    try:
        yield from pages
    except _FAILURES as error:
        failures.append(_in_words(error))


def _batches(source: str, pages: Iterator[list[Row]], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Many pages a batch, since every batch is cut by shares."""
    waiting: list[pa.RecordBatch] = []
    for page in pages:
        waiting.append(pa.RecordBatch.from_pylist([{"source": source, **row} for row in page], schema))
        if sum(batch.num_rows for batch in waiting) >= BATCH_ROWS:
            yield from pa.Table.from_batches(waiting).combine_chunks().to_batches()
            waiting = []
    yield from pa.Table.from_batches(waiting, schema).combine_chunks().to_batches()


def _note(source: str, prefix: str, reason: str, data: str | None = None) -> pa.Table:
    subject = prefix.encode("utf-8", "backslashreplace").decode()
    return note_row(source, subject, reason, count=1, data=data)


def _in_words(error: Exception) -> str:
    """A failure of a listing on one line."""
    return error.strerror or "" if isinstance(error, OSError) else explain(error)[0]
