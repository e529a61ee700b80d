"""Find the export of a DynamoDB table to S3, and check its files.

Format (developer guide, "DynamoDB table export output format", version 2020-06-30): below `AWSDynamoDB/<export id>/`
lie manifest-summary.json, manifest-files.json (one JSON object a data file), the .checksum of each, and the data
files, gzipped lines `{"Item": {name: {type: value}}}`. A data file's md5Checksum is base64; the guide shows no
.checksum, so base64 and hex are both taken. Export ids begin with the time of the request in milliseconds.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial

from pydantic import AwareDatetime, BaseModel, ConfigDict, NonNegativeInt, ValidationError
from pydantic.alias_generators import to_camel

from lakeaudit.errors import SourceError
from lakeaudit.evidence.files import File, list_files, named_folders, read_bytes, stat
from lakeaudit.evidence.metastore.dynamodb.export_files import (
    DataFile,
    check_digest,
    check_whole,
    head_tally,
    same_md5,
)
from lakeaudit.evidence.metastore.dynamodb.tally import ANY, ItemLayout, Tally
from lakeaudit.evidence.protocol import Context, EvidenceGap, SnapshotWindow
from lakeaudit.keys import Location
from lakeaudit.runtime.connections.aws import Clients

SUMMARY, FILES = "manifest-summary", "manifest-files"
MARGIN = timedelta(minutes=1)
"""An export's point in time is exact to about a minute (developer guide)."""
DEPTH = 3
"""The most levels between the configured folder and an export: prefix, AWSDynamoDB, id."""
SMALL = 200_000
"""A number of items; the files of a smaller export are unpacked and tallied before any row is read."""
HEAD_FILES = 4


class _Manifest(BaseModel):
    model_config = ConfigDict(frozen=True, alias_generator=to_camel)


class Summary(_Manifest):
    """The fields of manifest-summary.json that matter here."""

    table_arn: str
    export_time: AwareDatetime
    item_count: NonNegativeInt
    output_format: str
    export_type: str = "FULL_EXPORT"

    @property
    def table(self) -> str:
        return self.table_arn.rpartition("/")[2]


class _FilesLine(_Manifest):
    item_count: NonNegativeInt
    md5_checksum: str
    data_file_s3_key: str


@dataclass(frozen=True)
class Export:
    """A complete export: its folder, and its summary as written and as parsed (None: it is invalid)."""

    folder: Location
    text: bytes
    summary: Summary | None

    @property
    def id(self) -> str:
        return self.folder.key.rpartition("/")[2]

    @property
    def requested_at(self) -> datetime | None:
        digits = self.id.partition("-")[0]
        plain = digits.isascii() and digits.isdigit() and len(digits) <= 14
        return datetime.fromtimestamp(int(digits) / 1000, UTC) if plain else None


@dataclass(frozen=True)
class ExportedTable:
    """A DynamoDB table in an export: `files` are the valid ones.

    `tally` counts all their items if the export is small (`tallied_whole`), else the first lines of a few files.
    """

    files: tuple[DataFile, ...]
    cut: SnapshotWindow
    identity: str
    holes: tuple[EvidenceGap, ...]
    tally: Tally
    tallied_whole: bool


def read_export(
    place: Location,
    table: str | None,
    ctx: Context,
    source_id: str,
    margin: timedelta | None = None,
    layout: ItemLayout = ANY,
) -> ExportedTable:
    """Return the newest complete export of `table` at or below `place`, of a time not after the run's as_of.

    Raises:
        SourceError: there is none, it has another format, or no data file of it can be read.
    """
    export, summary = find_export(ctx.clients, place, table, ctx.as_of)
    files, holes = _data_files(ctx.clients, export, place, source_id)
    holes += _count_gaps(export, summary, files, source_id) if not holes else []
    holes += _checksum_gaps(ctx.clients, export, source_id)
    whole = sum(file.items for file in files) < SMALL
    good, faulty, tally = _checked(files, ctx, layout, whole=whole)
    holes += [EvidenceGap(source_id, faulty[f], f.uri, count=max(f.items, 1)) for f in files if f in faulty]
    if holes and not good:
        raise SourceError(
            holes[0].subject, holes[0].reason, "no data file is left to read: export the table again"
        )
    cut = SnapshotWindow(summary.export_time, summary.export_time, MARGIN if margin is None else margin)
    identity = f"{export.id} md5:{hashlib.md5(export.text, usedforsecurity=False).hexdigest()}"
    return ExportedTable(good, cut, identity, tuple(holes), tally, whole)


def _checked(
    files: Sequence[DataFile], ctx: Context, layout: ItemLayout, *, whole: bool
) -> tuple[tuple[DataFile, ...], Mapping[DataFile, str], Tally]:
    """Return the valid files, the faults of the others, and a tally of the valid files' items."""
    digest = partial(check_digest, clients=ctx.clients)
    check = partial(check_whole, clients=ctx.clients, layout=layout) if whole else digest
    weight = sum(file.size for file in files)
    answers = ctx.engine.map(check, files, weight, unlocked=not whole)
    checked = dict(zip(files, answers, strict=True))
    faulty = {file: each.fault for file, each in checked.items() if each.fault is not None}
    good = tuple(file for file in files if file not in faulty)
    tallies = [checked[file].tally for file in good] if whole else _head_tallies(good, ctx, layout)
    tally = Tally()
    for each in tallies:
        tally.add(each)
    return good, faulty, tally


def _head_tallies(files: Sequence[DataFile], ctx: Context, layout: ItemLayout) -> list[Tally]:
    first = [file for file in files if file.items][:HEAD_FILES]
    return ctx.engine.map(partial(head_tally, clients=ctx.clients, layout=layout), first)


def find_export(
    clients: Clients, place: Location, table: str | None, as_of: datetime
) -> tuple[Export, Summary]:
    """Return the newest complete export at or below `place`; no data file is read.

    Raises:
        SourceError: there is none, it is invalid, or it has another format.
    """
    return _newest(list(_complete(clients, place)), place, table, as_of)


def _complete(clients: Clients, at: Location, depth: int = DEPTH) -> Iterator[Export]:
    """Yield the complete exports at or below a folder; exports that are still being written are skipped."""
    text = read_bytes(clients, at.join(f"{SUMMARY}.json"))
    if text is not None:
        last = (at.join(f"{SUMMARY}.checksum"), at.join(f"{FILES}.json"), at.join(f"{FILES}.checksum"))
        if all(stat(clients, place) for place in last):
            yield Export(at, text, _parsed(text))
    elif depth:
        for parent, name in named_folders(clients, at):
            if name != "data":
                yield from _complete(clients, parent.join(name), depth - 1)


def _parsed(text: bytes) -> Summary | None:
    try:
        return Summary.model_validate_json(text)
    except ValidationError:
        return None


def _newest(
    exports: Sequence[Export], place: Location, table: str | None, as_of: datetime
) -> tuple[Export, Summary]:
    """Return the newest export; raises SourceError rather than use an older one than a damaged export."""
    known = [(e.summary.export_time, e.id, e, e.summary) for e in exports if e.summary]
    full = [k for k in known if k[3].export_type == "FULL_EXPORT" and table in (None, k[3].table)]
    if len(names := {k[3].table for k in full}) > 1:
        raise SourceError(
            place.uri, f"holds exports of {len(names)} tables", "name the one to read with `table`"
        )
    chosen = max((k for k in full if k[0] <= as_of), default=None, key=lambda k: k[:2])
    for export in exports:
        later = export.requested_at is None or export.requested_at <= as_of
        if export.summary is None and later and (chosen is None or export.id > chosen[1]):
            where = export.folder.join(f"{SUMMARY}.json").uri
            raise SourceError(where, "the export's summary cannot be understood", "export the table again")
    if chosen is None:
        until = f" up to {as_of:%Y-%m-%dT%H:%M:%SZ}" if full else ""
        what = f"no complete export{f' of {table}' if table else ''}{until}"
        raise SourceError(place.uri, what, "name a folder that holds AWSDynamoDB/<id>/manifest-summary.json")
    if chosen[3].output_format != "DYNAMODB_JSON":
        where = chosen[2].folder.uri
        what = f"the export's format is {chosen[3].output_format}"
        raise SourceError(where, what, "export the table as DYNAMODB_JSON")
    return chosen[2], chosen[3]


def _data_files(
    clients: Clients, export: Export, place: Location, source_id: str
) -> tuple[list[DataFile], list[EvidenceGap]]:
    """Return the export's existing data files, and a gap for each missing file and each invalid line."""
    manifest = export.folder.join(f"{FILES}.json")
    there = {file.place: file for file in list_files(clients, export.folder)}
    found: dict[Location, DataFile] = {}
    holes = []
    for number, text in enumerate((read_bytes(clients, manifest) or b"").splitlines(), 1):
        if not text.strip():
            continue
        try:
            line = _FilesLine.model_validate_json(text)
        except ValidationError:
            holes.append(EvidenceGap(source_id, f"line {number} cannot be understood", manifest.uri))
            continue
        at = _locate(clients, line.data_file_s3_key, (export.folder, place), there)
        if at is None:
            missing = f"s3 key {line.data_file_s3_key} of the export is not below {place.uri}"
            holes.append(EvidenceGap(source_id, missing, manifest.uri, count=max(line.item_count, 1)))
        else:
            size = max(at.size, 1)
            found[at.place] = DataFile(at.place, line.item_count, line.md5_checksum, size)
    return list(found.values()), holes


def _locate(
    clients: Clients, key: str, roots: Sequence[Location], there: Mapping[Location, File]
) -> File | None:
    """Locate a data file: by its key with leading parts removed one at a time, below each root."""
    parts = key.split("/")
    if {".", ".."} & set(parts):
        return None
    tails = [parts[i:] for i in range(len(parts)) if parts[i]]
    listed = (there[at] for root in roots for tail in tails if (at := root.join(*tail)) in there)
    elsewhere = (file for tail in tails if (file := stat(clients, roots[-1].join(*tail))))
    return next(listed, None) or next(elsewhere, None)


def _count_gaps(
    export: Export, summary: Summary, files: Sequence[DataFile], source_id: str
) -> list[EvidenceGap]:
    listed = sum(file.items for file in files)
    if listed == summary.item_count:
        return []
    reason = f"lists {listed} items, the summary {summary.item_count}"
    return [EvidenceGap(source_id, reason, export.folder.join(f"{FILES}.json").uri)]


def _checksum_gaps(clients: Clients, export: Export, source_id: str) -> list[EvidenceGap]:
    return [
        EvidenceGap(source_id, "does not match its .checksum", export.folder.join(f"{name}.json").uri)
        for name in (SUMMARY, FILES)
        if not same_md5(
            hashlib.md5(
                read_bytes(clients, export.folder.join(f"{name}.json")) or b"", usedforsecurity=False
            ).digest(),
            (read_bytes(clients, export.folder.join(f"{name}.checksum")) or b"").decode("ascii", "replace"),
        )
    ]
