"""Storage as a blob inventory report names it: what was there when the run began, listed over hours or days.

Azure is strongly consistent, so what was there at the beginning and was not removed meanwhile is listed: the cut has no
margin, and it is as long as the run. In rare cases a blob is listed twice.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from lakeaudit.config import format_duration
from lakeaudit.errors import SourceError
from lakeaudit.evidence.files import stat
from lakeaudit.evidence.protocol import Context, EvidenceGap, Part, Probed, SnapshotWindow, SourceInfo, Stored
from lakeaudit.evidence.storage.azure_inventory import AzureInventory
from lakeaudit.evidence.storage.azure_inventory.columns import FOLDERS, NO_FOLDERS, QUESTIONS, form_of
from lakeaudit.evidence.storage.azure_inventory.report import DataFile, Report, find_report
from lakeaudit.evidence.storage.report_rows import ReportFile
from lakeaudit.formatting import age, count
from lakeaudit.keys import Location
from lakeaudit.runtime.connections.aws import Clients

KIND = "azure_inventory"
AT_ONCE = 200
"""Data files whose sizes are requested by one task."""


@dataclass(frozen=True)
class _Fault:
    """Runs in a task: why each of some data files is not what its manifest says; None: it is."""

    clients: Clients

    def __call__(self, files: tuple[DataFile, ...]) -> list[str | None]:
        return [self._of(file) for file in files]

    def _of(self, file: DataFile) -> str | None:
        try:
            found = stat(self.clients, file.place)
        except SourceError as error:
            return f"cannot be read: {error.what}"
        if found is None:
            return "is missing"
        return None if found.size == file.size else f"has {found.size} bytes, its manifest says {file.size}"


def read(source: AzureInventory, ctx: Context, source_id: str) -> Stored:
    """The newest report of a run that succeeded and was begun at or before `ctx.as_of`: a part for each data file.

    Raises:
        SourceError: see `find_report`; or `covers` is not what the rule lists.
    """
    report = find_report(ctx.clients, source.location, source.rule, ctx.as_of)
    covers = _covers(source, report)
    groups = [report.files[at : at + AT_ONCE] for at in range(0, len(report.files), AT_ONCE)]
    faults = [fault for some in ctx.engine.map(_Fault(ctx.clients), groups) for fault in some]
    form = form_of(report.account, versions=report.rule.versions)
    sound = [file for file, fault in zip(report.files, faults, strict=True) if fault is None]
    return Stored(
        info=SourceInfo(
            source_id,
            "storage",
            KIND,
            source.location.uri,
            report.identity,
            SnapshotWindow(report.begun, report.ended, source.margin or timedelta(0)),
            max_age=report.max_age(source.max_age),
        ),
        rows=tuple(
            Part(source_id, ReportFile(ctx.clients, file.place, source_id, None, form), weight=file.size)
            for file in sound
        ),
        covers=covers,
        repeats=True,
        older_alone=True,
        assumed_covers=not source.covers,
        holes=(*_stale(source, ctx, report, source_id), *_unread(report, faults, source_id)),
        warnings=_warnings(report),
    )


def _covers(source: AzureInventory, report: Report) -> tuple[Location, ...]:
    """The places whose blobs the report names all: what is written, or whole containers and folders of its prefixes."""
    rule = report.rule
    written = source.covers or tuple(_named_by(report))
    if not written:
        what = "is of the whole account" if not rule.prefixes else "has prefixes that end inside a name"
        raise SourceError(
            report.place.uri, f"the report {what}", "write `covers`: the containers of the lake"
        )
    for place in written:
        container, _, account = place.bucket.partition("@")
        whole = f"{container}/{place.prefix}"
        if account != report.account:
            raise SourceError(source.location.uri, f"the report is of account {report.account}, and does not cover "
                              f"{place.uri}", "correct `covers` or the location")  # fmt: skip
        if rule.prefixes and not any(whole.startswith(prefix) for prefix in rule.prefixes):
            what = f"the rule lists {', '.join(rule.prefixes)}, and not all of {place.uri}"
            raise SourceError(report.place.uri, what, "correct `covers` or the rule")
        left_out = [each for each in rule.excluded if each.startswith(whole) or whole.startswith(each)]
        if left_out:
            raise SourceError(report.place.uri, f"the rule leaves out {left_out[0]}, which {place.uri} holds",
                              "let `covers` name only places that are listed whole")  # fmt: skip
    return tuple(written)


def _named_by(report: Report) -> Iterator[Location]:
    """A prefix without a slash names a container, and others that begin alike; of a key it names a folder."""
    for prefix in report.rule.prefixes:
        container, _, key = prefix.partition("/")
        if container:
            yield Location(f"{container}@{report.account}", key.rstrip("/"))


def _stale(source: AzureInventory, ctx: Context, report: Report, source_id: str) -> Iterator[EvidenceGap]:
    if ctx.as_of - report.begun > report.max_age(source.max_age):
        reason = f"stale: begun at {report.begun:%Y-%m-%dT%H:%MZ}, older than max_age allows"
        yield EvidenceGap(source_id, reason, subject=report.place.uri, hides="files written or removed since")


def _unread(report: Report, faults: list[str | None], source_id: str) -> Iterator[EvidenceGap]:
    for file, fault in zip(report.files, faults, strict=True):
        if fault is not None:
            yield EvidenceGap(source_id, f"data file {fault}", file.place.uri, hides="the blobs it lists")


def _warnings(report: Report) -> tuple[str, ...]:
    """What of the run and its columns is worth knowing, where the manifest names them."""
    columns, types = report.rule.columns, [name.lower() for name in report.rule.blob_types]
    lacking = [
        f"the report has no column {name}: it cannot tell {question}"
        for name, question in QUESTIONS.items()
        if columns and name.lower() not in columns
    ]
    folders = [NO_FOLDERS] if columns and not {*FOLDERS} & {*columns} else []
    types = ["the report leaves out append blobs"] if types and "appendblob" not in types else []
    return (*lacking, *folders, *types, *report.skipped)


def probe(source: AzureInventory, clients: Clients, now: datetime) -> Probed:
    """See `registry.StorageKind`."""
    report = find_report(clients, source.location, source.rule, now)
    covers, limit = _covers(source, report), report.max_age(source.max_age)
    if now - report.begun > limit:
        what = f"the newest report is {age(report.begun, now)} old, max_age is {format_duration(limit)}"
        raise SourceError(report.place.uri, what, "see why no newer one succeeded, or raise max_age")
    for file in report.files[:1]:
        if stat(clients, file.place) is None:
            raise SourceError(file.place.uri, "is missing", "have the report delivered or copied again")
    told = f"report of {report.account} by rule {report.rule.name}, {age(report.begun, now)} old, "
    return Probed(f"{told}{count(len(report.files))} data files", _warnings(report), covers=covers)
