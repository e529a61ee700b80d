"""Whether an inventory can be used: its newest report, how old that is, and whether its files can be reached."""

from datetime import datetime

from lakeaudit.config import format_duration
from lakeaudit.errors import SourceError
from lakeaudit.evidence.files import stat
from lakeaudit.evidence.protocol import Probed
from lakeaudit.evidence.storage.inventory import S3Inventory
from lakeaudit.evidence.storage.inventory.configuration import configuration_notes
from lakeaudit.evidence.storage.inventory.data_files import Located
from lakeaudit.evidence.storage.inventory.layout import layout_of
from lakeaudit.evidence.storage.inventory.report import Report, candidates, find_report
from lakeaudit.formatting import age, count
from lakeaudit.keys import Location
from lakeaudit.runtime.connections.aws import Clients


def probe(source: S3Inventory, clients: Clients, now: datetime) -> Probed:
    """See `registry.StorageKind`."""
    report = find_report(clients, source.location, now)
    bucket, made = report.manifest.source_bucket, report.manifest.created_at
    covers = source.covers or (Location(bucket, ""),)
    max_age = report.max_age(source.max_age)
    if now - made > max_age:
        what = f"the newest report is {age(made, now)} old, max_age is {format_duration(max_age)}"
        raise SourceError(report.place.uri, what, "see why no newer one is delivered, or raise max_age")
    for place in covers:
        if place.bucket != bucket:
            what = f"the report is about bucket {bucket} and cannot cover {place.uri}"
            raise SourceError(report.place.uri, what, "correct `covers` or the location")
    notes, hint = _columns(report, clients, _data_file(report, clients)), ""
    if notes:
        hint = "add the optional fields to the inventory's configuration"
    notes += configuration_notes(clients, report, covers)
    files = f"{count(len(report.manifest.files))} {report.manifest.file_format} files"
    return Probed(f"report of {bucket}, {age(made, now)} old, {files}", notes, hint, covers=covers)


def _data_file(report: Report, clients: Clients) -> Located | None:
    """The first data file stands for all: whether it can be reached. None: the report has none."""
    for named in report.manifest.files[:1]:
        for place in candidates(report, named.key):
            if stat(clients, place):
                return Located(named, place, None)
        raise SourceError(
            report.place.uri, f"its data file {named.key} is not there", "have it delivered again"
        )
    return None


def _columns(report: Report, clients: Clients, first: Located | None) -> tuple[str, ...]:
    """What its columns leave open."""
    return layout_of(clients, report, [first]).warnings if first else ()
