"""Finds one S3 Inventory report and reads its manifest. Data files are not touched here.

A report is a folder `YYYY-MM-DDTHH-MMZ/` with `manifest.json` and `manifest.checksum`, the hex MD5 of the
manifest and a line break; the checksum is written last, so its presence is what says that the report is
complete (S3 User Guide, "Locating your inventory list"). Data files lie in a sibling folder that all
reports share, which may hold millions of keys and is therefore never listed.
"""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Annotated

from pydantic import AfterValidator, BaseModel, Field, ValidationError

from lakeaudit.errors import SourceError
from lakeaudit.evidence.files import named_folders, read_bytes, stat
from lakeaudit.evidence.protocol import DAILY_MAX_AGE, WEEKLY_MAX_AGE
from lakeaudit.keys import Location
from lakeaudit.runtime.connections.aws import Clients

_DATED = re.compile(r"\d{4}-\d\d-\d\dT\d\d-\d\dZ")
_YEAR_3000 = 32_503_680_000_000
_IN_SECONDS = 100_000_000_000
"""Below this a time is in seconds, as Alibaba's OSS writes it: in milliseconds it would be one before 1974."""
_WEEKLY = timedelta(days=4)
"""S3 makes daily or weekly reports (S3 User Guide, "Amazon S3 Inventory"): reports further apart are weekly ones."""
_RECENT = 4
"""The number of the last reports from which the schedule is derived."""
_MAX_FOLDERS = 200
"""Folders that are searched for dated reports below a location that has none itself."""


class DataFile(BaseModel, frozen=True):
    """One data file as the manifest names it: its key in the destination bucket, bytes, hex MD5."""

    key: Annotated[str, Field(min_length=1)]
    size: Annotated[int, Field(ge=0)]
    md5: Annotated[str, Field(alias="MD5checksum", pattern="^[0-9a-fA-F]{32}$")]


def _bucket_name(name: str) -> str:
    """The bucket of its ARN, or of its plain name."""
    return name.rpartition(":")[2]


def _distinct(files: tuple[DataFile, ...]) -> tuple[DataFile, ...]:
    """The files without those that are named once more with the same checksum."""
    return tuple({(file.key, file.md5.lower()): file for file in files}.values())


class Manifest(BaseModel):
    """manifest.json. `destination` is a bucket ARN, `created` the start of the scan, in epoch milliseconds.

    Other stores name the destination by its bucket and the source by its ARN, and their time may be in seconds. A data
    file that is named twice is one file.
    """

    source_bucket: Annotated[
        str, Field(alias="sourceBucket", pattern=r"^(arn:[^/]+:)?[^:/]+$"), AfterValidator(_bucket_name)
    ]
    destination: Annotated[str, Field(alias="destinationBucket", min_length=1)]
    created: Annotated[int, Field(alias="creationTimestamp", ge=0, le=_YEAR_3000)]
    file_format: Annotated[str, Field(alias="fileFormat")]
    file_schema: Annotated[str, Field(alias="fileSchema")]
    files: Annotated[tuple[DataFile, ...], AfterValidator(_distinct)]

    @property
    def created_at(self) -> datetime:
        millis = self.created * 1000 if self.created < _IN_SECONDS else self.created
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=millis)

    @property
    def destination_bucket(self) -> str:
        return _bucket_name(self.destination)


@dataclass(frozen=True)
class Report:
    """A complete report.

    `completed_at` is when its checksum was stored; None in a local folder, where times have no meaning. `searched` are
    the folders below which copies of the data files are searched for.
    """

    place: Location
    manifest: Manifest
    md5: str
    completed_at: datetime | None
    searched: tuple[Location, ...]
    interval: timedelta | None = None
    """How far apart the last reports were begun; None: there is one alone, or one was named."""

    def max_age(self, written: timedelta | None) -> timedelta:
        """What the lake file says, else by the schedule: 10 days for weekly reports, 3 days for others."""
        if written is not None:
            return written
        weekly = self.interval is not None and self.interval >= _WEEKLY
        return WEEKLY_MAX_AGE if weekly else DAILY_MAX_AGE

    @property
    def identity(self) -> str:
        """What pins the report: where it lies and the MD5 of its manifest."""
        return f"{'/'.join(self.place.key.split('/')[-2:])} md5:{self.md5}"


def find_report(clients: Clients, location: Location, as_of: datetime) -> Report:
    """The newest complete report at `location` whose scan began at or before `as_of`.

    `location` is one manifest (`*.json`), one dated folder, a folder of dated folders, or a folder above
    that.

    Raises:
        SourceError: no such report; its checksum does not match (it cannot be trusted, and an older report does not
            replace it); it is not a manifest; the place cannot be read.
    """
    named = named_manifest(location)
    report = _report(clients, named, _upwards(named)) if named else _newest(clients, location, as_of)
    if report is None:
        wanted = f"no complete inventory report{_made_by(clients, location, as_of)}"
        raise SourceError(location.uri, wanted, "wait for its manifest.checksum, or correct the location")
    if report.manifest.created_at > as_of:
        late = (
            f"the report was begun at {report.manifest.created_at:%Y-%m-%dT%H:%MZ}, after the time asked for"
        )
        raise SourceError(report.place.uri, late, "name the folder of dated reports instead")
    return report


def _made_by(clients: Clients, location: Location, as_of: datetime) -> str:
    """The time asked for where there are later reports; else nothing, so that each night has the same message."""
    if named_manifest(location):
        return ""
    is_later = any(_scan_minute(folder) > as_of for folder in _dated_folders(clients, location))
    return f" made by {as_of:%Y-%m-%dT%H:%MZ}" if is_later else ""


def candidates(report: Report, key: str) -> list[Location]:
    """Where a data file may lie, most likely first.

    Its own key in the destination bucket, then below each searched folder its key with leading parts removed one at
    a time. The files of a local report are only sought locally.
    """
    parts = key.split("/")
    own = [] if report.place.is_local else [Location(report.manifest.destination_bucket, key)]
    copies = [folder.join(*parts[first:]) for folder in report.searched for first in range(len(parts))]
    return list(dict.fromkeys(own + ([] if ".." in parts else copies)))


def named_manifest(location: Location) -> Location | None:
    """Return the manifest that a location names itself or by its dated folder; None: it names a folder of reports."""
    if location.key.endswith(".json"):
        return location
    return location.join("manifest.json") if _DATED.fullmatch(location.key.rpartition("/")[2]) else None


def _upwards(manifest: Location) -> tuple[Location, ...]:
    parts = manifest.key.split("/")[:-1]
    return tuple(Location(manifest.bucket, "/".join(parts[:end])) for end in range(len(parts), -1, -1))


def _newest(clients: Clients, location: Location, as_of: datetime) -> Report | None:
    dated = sorted(_dated_folders(clients, location), key=lambda place: place.key, reverse=True)
    until = [folder for folder in dated if _scan_minute(folder) <= as_of]
    for folder in until:
        place = folder.join("manifest.json")
        report = _report(clients, place, (location, *_upwards(place)[1:2]))
        if report is not None and report.manifest.created_at <= as_of:
            return replace(report, interval=_interval([_scan_minute(each) for each in until]))
    return None


def _interval(newest_first: Sequence[datetime]) -> timedelta | None:
    """The usual time from one of the last reports to the next: one that failed or came late changes nothing."""
    recent = newest_first[:_RECENT]
    gaps = sorted(later - earlier for later, earlier in pairwise(recent))
    return gaps[(len(gaps) - 1) // 2] if gaps else None


def _dated_folders(clients: Clients, location: Location) -> list[Location]:
    """The dated folders of the one inventory at a location or up to two levels below (SOURCE-BUCKET/CONFIG-ID)."""
    level = [location]
    for _ in range(3):
        below = [(parent, name) for folder in level for parent, name in named_folders(clients, folder)]
        dated = [parent.join(name) for parent, name in below if _DATED.fullmatch(name)]
        inventories = {place.key.rpartition("/")[0] for place in dated}
        if len(inventories) > 1:
            some = ", ".join(sorted(inventories)[:3])
            raise SourceError(
                location.uri, f"holds several inventories ({some})", "name the folder of one of them"
            )
        if dated or len(below) > _MAX_FOLDERS:
            return dated
        level = [parent.join(name) for parent, name in below if name not in ("data", "hive")]
    return []


def _scan_minute(folder: Location) -> datetime:
    """Return the time in a folder's name; a name without a time gives the far future."""
    try:
        return datetime.strptime(folder.key.rpartition("/")[2], "%Y-%m-%dT%H-%MZ").replace(tzinfo=UTC)
    except ValueError:
        return datetime.max.replace(tzinfo=UTC)


def _report(clients: Clients, place: Location, searched: tuple[Location, ...]) -> Report | None:
    """The report of one manifest; None while it has no checksum yet."""
    checksum = Location(place.bucket, place.key.removesuffix(".json") + ".checksum")
    promised = read_bytes(clients, checksum)
    if promised is None:
        return None
    content = read_bytes(clients, place)
    md5 = hashlib.md5(content or b"", usedforsecurity=False).hexdigest()
    if content is None or promised.strip().lower() != md5.encode():
        found = (
            "is missing"
            if content is None
            else f"has MD5 {md5}, not the one in {checksum.key.rpartition('/')[2]}"
        )
        raise SourceError(place.uri, f"the manifest {found}", "have the report delivered or copied again")
    stored = None if place.is_local else stat(clients, checksum)
    return Report(place, _parsed(place, content), md5, stored.modified_at if stored else None, searched)


def _parsed(place: Location, content: bytes) -> Manifest:
    try:
        return Manifest.model_validate_json(content)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "it"
        what = f"is not an S3 Inventory manifest ({where}: {first['msg']})"
        raise SourceError(place.uri, what, "name the manifest.json of an S3 Inventory report") from error
