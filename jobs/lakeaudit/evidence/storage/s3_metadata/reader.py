"""Storage as the live inventory table of S3 Metadata names it: every object and version of one bucket.

Amazon updates the table within an hour or so, and a table property says since when changes are not in it yet
(`aws.s3metadata.oldest-uncoalesced-record-timestamp`). A row has a sequence number, and of the versions of a key the
one with the largest, as text, is the latest (Amazon S3 User Guide, "S3 Metadata live inventory tables schema").
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta

import pyarrow as pa

from lakeaudit.config import format_duration
from lakeaudit.errors import SourceError
from lakeaudit.evidence.protocol import (
    DAILY_MAX_AGE,
    BufferedRows,
    Context,
    EvidenceGap,
    Part,
    Probed,
    SnapshotWindow,
    SourceInfo,
    Stored,
)
from lakeaudit.evidence.storage.inventory.columns import ReportColumn
from lakeaudit.evidence.storage.live_table import State, data_files, find_state
from lakeaudit.evidence.storage.report_rows import ReportFile, ReportForm
from lakeaudit.evidence.storage.s3_metadata import S3Metadata
from lakeaudit.formatting import age, count
from lakeaudit.keys import NULL_VERSION
from lakeaudit.runtime import duck
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.duck import Connection, Rows, literal
from lakeaudit.schemas import VERSION
from lakeaudit.storage_classes import KNOWN_CLASSES

KIND = "s3_metadata"
ROWS = "inventoried"
UNCOALESCED = "aws.s3metadata.oldest-uncoalesced-record-timestamp"
MARGIN, DEFAULT_MARGIN = timedelta(hours=1), timedelta(hours=24)
"""The margins that Amazon advises with the property, and without it: updates usually take an hour, not always."""

_HOLDS = {
    "bucket": "text",
    "key": "text",
    "sequence_number": "text",
    "version_id": "text",
    "is_delete_marker": "flag",
    "size": "number",
    "last_modified_date": "time",
    "e_tag": "text",
    "storage_class": "text",
    "is_multipart": "flag",
    "encryption_status": "text",
}
FORM = ReportForm(
    known=tuple(ReportColumn(name, name, holds) for name, holds in _HOLDS.items()),
    required=("bucket", "key", "sequence_number"),
    given={
        "bucket": "v_bucket",
        "key": "v_key",
        "sequence_number": "v_sequence_number",
        "version_id": f"nullif(v_version_id, {literal(NULL_VERSION)})",
        "is_delete_marker": "coalesce(v_is_delete_marker, false)",
        "size": "v_size",
        "etag": "trim(v_e_tag, '\"')",
        "modified_at": "v_last_modified_date",
        "storage_class": "v_storage_class",
        # the tier of an object that S3 moves by itself is not told
        "archived": KNOWN_CLASSES.sql("v_storage_class"),
        "multipart": "v_is_multipart",
        "encryption": "CASE WHEN v_encryption_status = 'NOT-SSE' THEN 'NONE' ELSE v_encryption_status END",
    },
    kind=ROWS,
    schema=VERSION.append(pa.field("sequence_number", pa.string())),
)


def read(source: S3Metadata, ctx: Context, source_id: str) -> Stored:
    """Read the newest state of the table up to `ctx.as_of`; the latest row of each key counts.

    Raises:
        SourceError: see `live_table`.
    """
    bucket, state = _bucket(source), find_state(ctx.clients, source.location, ctx.as_of)
    parts = [
        Part(source_id, ReportFile(ctx.clients, file.place, source_id, bucket, FORM), weight=file.size)
        for file in data_files(ctx.clients, state, ctx.engine)
    ]
    kept = ctx.engine.keep(parts)
    return Stored(
        info=SourceInfo(source_id, "storage", KIND, source.location.uri, state.identity, _window(source, state),
                        max_age=_max_age(source)),
        rows=ctx.engine.meet([kept], _as_they_are, _latest),
        covers=source.covers,
        holes=(*_stale(source, ctx, state, source_id), *_unread(kept, source_id)),
        warnings=() if UNCOALESCED in state.metadata.properties else (NOT_TOLD,),
    )  # fmt: skip


NOT_TOLD = "the table does not say up to when it is whole: what is younger than a day is not judged by it"


def _bucket(source: S3Metadata) -> str:
    buckets = sorted({place.bucket for place in source.covers})
    if len(buckets) > 1:
        what = f"a table is of one bucket, and `covers` names {', '.join(buckets)}"
        raise SourceError(source.location.uri, what, "name each bucket's own table")
    return buckets[0]


def _as_they_are(_: Connection, kind: str, rows: Rows) -> Iterator[tuple[str, Rows]]:
    if kind == ROWS:
        yield kind, rows


def _latest(con: Connection, rows: Mapping[str, Rows]) -> Iterator[tuple[str, Rows]]:
    """VERSION rows of some keys: of each key the one with the largest sequence number is the latest."""
    if ROWS in rows:
        largest = "max(sequence_number) OVER (PARTITION BY bucket, key)"
        ordered = duck.query(
            con, f"SELECT *, sequence_number = {largest} AS newest FROM input", input=rows[ROWS]
        )
        yield "versions", duck.table(duck.conform(con, ordered, VERSION, {"is_latest": "newest"}))


def _window(source: S3Metadata, state: State) -> SnapshotWindow:
    """From when on changes may be missing, to the commit of the state."""
    told = state.metadata.properties.get(UNCOALESCED)
    whole = _time(told, state.place.uri) if told is not None else state.snapshot.at
    usual = MARGIN if told is not None else DEFAULT_MARGIN
    return SnapshotWindow(
        min(whole, state.snapshot.at), state.snapshot.at, usual if source.margin is None else source.margin
    )


def _time(text: str, where: str) -> datetime:
    """A time in either form that tables have: epoch milliseconds, or ISO 8601, which is UTC where it has no zone."""
    try:
        if text.isdecimal():
            return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=int(text))
        at = datetime.fromisoformat(text)
        return at.astimezone(UTC) if at.tzinfo else at.replace(tzinfo=UTC)
    except (ValueError, OverflowError) as error:
        raise SourceError(
            where, f"{UNCOALESCED} is not a time: {text[:40]}", "see the S3 Metadata documentation"
        ) from error


def _max_age(source: S3Metadata) -> timedelta:
    return DAILY_MAX_AGE if source.max_age is None else source.max_age


def _stale(source: S3Metadata, ctx: Context, state: State, source_id: str) -> Iterator[EvidenceGap]:
    if ctx.as_of - _window(source, state).start > _max_age(source):
        reason = (
            f"stale: whole up to {_window(source, state).start:%Y-%m-%dT%H:%MZ}, older than max_age allows"
        )
        yield EvidenceGap(source_id, reason, subject=state.place.uri, hides="files written or removed since")


def _unread(kept: BufferedRows, source_id: str) -> Iterator[EvidenceGap]:
    """Data files and rows that cannot be understood."""
    for note in kept.notes:
        yield EvidenceGap(source_id, str(note["reason"]), str(note["subject"]), hides="the objects it lists")
    told: Sequence[dict[str, object]] = [
        row for batch in kept.batches("counted") for row in batch.to_pylist()
    ]
    rejected = [row for row in told if row["rejected"]]
    if rejected:
        number = sum(int(str(row["rejected"])) for row in rejected)
        reason = f"{count(number)} rows cannot be understood, such as {rejected[0]['sample']}"
        yield EvidenceGap(source_id, reason, hides="the objects they are about", count=number)


def probe(source: S3Metadata, clients: Clients, now: datetime) -> Probed:
    """See `registry.StorageKind`."""
    state = find_state(clients, source.location, now)
    cut = _window(source, state)
    if now - cut.start > _max_age(source):
        what = f"the table is whole up to {age(cut.start, now)} ago, max_age is {format_duration(_max_age(source))}"
        raise SourceError(state.place.uri, what, "name the metadata.json of now, or raise max_age")
    _bucket(source)
    notes = () if UNCOALESCED in state.metadata.properties else (NOT_TOLD,)
    told = f"inventory table of {source.covers[0].bucket}, whole up to {age(cut.start, now)} ago"
    return Probed(told, notes, covers=source.covers)
