"""Find one blob inventory report of Azure and read its manifest, but not its data files.

Each run of a rule writes `YYYY/MM/DD/HH-MM-SS/<rule>/<rule>-manifest.json` to the destination container, with the data
files in the same folder, and last `<rule>-manifest.checksum`, the MD5 of the manifest. The manifest exists from the
start of the run, with the status Pending (Azure documentation, "Azure Storage blob inventory").
"""

import base64
import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from lakeaudit.errors import SourceError
from lakeaudit.evidence.files import folders, read_bytes
from lakeaudit.evidence.protocol import DAILY_MAX_AGE, WEEKLY_MAX_AGE
from lakeaudit.keys import Location
from lakeaudit.runtime.connections.aws import Clients

_DATED = (r"\d{4}", r"\d\d", r"\d\d", r"\d\d-\d\d-\d\d")
_MANIFEST = "-manifest.json"
_ENDPOINT = re.compile(r"https://([a-z0-9]{3,24})\.blob\.core\.windows\.net/?")
_WAY_OUT = "name the manifest of a blob inventory report, or the folder of its reports"
SUCCEEDED = "Succeeded"


@dataclass(frozen=True)
class DataFile:
    """One data file: where it lies, and how many bytes the manifest says that it has."""

    place: Location
    size: int


@dataclass(frozen=True)
class Rule:
    """What a report is made of, as its rule says: prefixes are texts of `container/key`, not folders."""

    name: str
    prefixes: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    blob_types: tuple[str, ...] = ()
    versions: bool = False
    weekly: bool = False
    columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class Report:
    """One complete report: its manifest, and what that says. `skipped` are newer runs that did not succeed."""

    place: Location
    md5: str
    account: str
    begun: datetime
    ended: datetime
    rule: Rule
    files: tuple[DataFile, ...]
    skipped: tuple[str, ...] = field(default=())

    @property
    def identity(self) -> str:
        return f"{'/'.join(self.place.key.split('/')[-6:])} md5:{self.md5}"

    def max_age(self, written: timedelta | None) -> timedelta:
        """What the lake file says, else by the schedule."""
        return (WEEKLY_MAX_AGE if self.rule.weekly else DAILY_MAX_AGE) if written is None else written


def find_report(clients: Clients, location: Location, rule: str | None, as_of: datetime) -> Report:
    """The newest report at `location`, a folder or one manifest, of a run that succeeded and was begun by `as_of`.

    Raises:
        SourceError: there is none, it cannot be understood or is not what its checksum says, or reports of several
            rules lie there and `rule` is None.
    """
    skipped, is_later = list[str](), False
    for place in _manifests(clients, location, rule, as_of):
        content = _verified(clients, place)
        if content is None:
            continue
        told = _parse_manifest(place, content)
        if (status := told.get("status")) != SUCCEEDED:
            skipped.append(f"the run of {'/'.join(place.key.split('/')[-6:-2])} ended as {str(status)[:40]}")
            continue
        report = _parsed(place, content, told, tuple(skipped))
        if report.begun <= as_of:
            return report
        is_later = True
    # without later reports each night has the same message
    lacks = f"no blob inventory report that succeeded{f' by {as_of:%Y-%m-%dT%H:%MZ}' if is_later else ''}"
    raise SourceError(location.uri, "; ".join([lacks, *skipped[:1]]), _WAY_OUT)


def _manifests(clients: Clients, location: Location, rule: str | None, as_of: datetime) -> Iterator[Location]:
    """Where manifests may lie, the newest first; folders are listed only as far as they are looked into."""
    if location.key.endswith(_MANIFEST):
        yield location
        return
    until = as_of.strftime("%Y/%m/%d/%H-%M-%S")
    for day in _newest(clients, location, _DATED[:3]):
        times = [time for time in _newest(clients, day, _DATED[3:]) if _time_of(time) <= until]
        named = {time: folders(clients, time) for time in times}
        rules = sorted({name for names in named.values() for name in names})
        if rule is None and len(rules) > 1:
            raise SourceError(
                day.uri, f"holds reports of several rules ({', '.join(rules[:3])})", "write `rule`"
            )
        for time, names in named.items():
            yield from (time.join(name, f"{name}{_MANIFEST}") for name in names if rule in (None, name))


def _newest(clients: Clients, folder: Location, forms: tuple[str, ...]) -> Iterator[Location]:
    if not forms:
        yield folder
        return
    for name in sorted(folders(clients, folder), reverse=True):
        if re.fullmatch(forms[0], name):
            yield from _newest(clients, folder.join(name), forms[1:])


def _time_of(folder: Location) -> str:
    return "/".join(folder.key.split("/")[-4:])


def _verified(clients: Clients, place: Location) -> bytes | None:
    """The manifest; None while its run has not ended."""
    checksum = read_bytes(clients, Location(place.bucket, f"{place.key.removesuffix('.json')}.checksum"))
    if checksum is None:
        return None
    content = read_bytes(clients, place)
    md5 = hashlib.md5(content or b"", usedforsecurity=False)
    forms = (md5.hexdigest(), base64.b64encode(md5.digest()).decode())
    said = checksum.decode("utf-8-sig", "replace").strip()
    if content is None or (said not in forms and said.lower() != forms[0]):
        what = "is missing" if content is None else f"has MD5 {forms[0]}, not the one in its checksum"
        raise SourceError(place.uri, f"the manifest {what}", "have the report delivered or copied again")
    return content


def _parse_manifest(place: Location, content: bytes) -> Mapping[str, Any]:
    try:
        told = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise _no_manifest(place, error) from error
    if not isinstance(told, dict):
        raise _no_manifest(place, TypeError())
    return told


def _no_manifest(place: Location, error: Exception) -> SourceError:
    return SourceError(place.uri, f"is not a manifest of a blob inventory ({type(error).__name__})", _WAY_OUT)


def _parsed(place: Location, content: bytes, told: Mapping[str, Any], skipped: tuple[str, ...]) -> Report:
    try:
        account = _ENDPOINT.fullmatch(told["endpoint"])
        begun, ended = (_time(told[f"inventory{what}Time"]) for what in ("Start", "Completion"))
        rule = _rule(told["ruleName"], told["ruleDefinition"])
        files = tuple(_data_file(place, str(rule.name), each) for each in told["files"])
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise _no_manifest(place, error) from error
    if account is None:
        what = f"is of {str(told['endpoint'])[:100]}, which is not an account of Azure's public cloud"
        raise SourceError(place.uri, what, "only names that end in .core.windows.net are known")
    if ended < begun or (not files and (told.get("summary") or {}).get("objectCount")):
        raise SourceError(place.uri, "contradicts itself: times, or objects without a file", _WAY_OUT)
    md5 = hashlib.md5(content, usedforsecurity=False).hexdigest()
    return Report(
        place, md5, account[1], begun, ended, _usable(place, told["ruleDefinition"], rule), files, skipped
    )


def _time(text: str) -> datetime:
    at = datetime.fromisoformat(text)
    if at.tzinfo is None:
        raise ValueError("no zone")
    return at.astimezone(UTC)


def _data_file(manifest: Location, rule: str, entry: Mapping[str, Any]) -> DataFile:
    """Data files lie beside their manifest, wherever the report was copied to."""
    blob, size = entry["blob"], entry["size"]
    below = blob.partition(f"/{rule}/")[2] or blob.rpartition("/")[2]
    if not below or ".." in below.split("/") or type(size) is not int or size < 0:
        raise ValueError("files")
    return DataFile(Location(manifest.bucket, manifest.key.rpartition("/")[0]).join(below), size)


def _rule(name: object, written: Mapping[str, Any]) -> Rule:
    if not isinstance(name, str) or not name or "/" in name:
        raise ValueError("ruleName")
    filters = written.get("filters") or {}
    prefixes, excluded, types = (
        tuple(map(str, filters.get(key) or ())) for key in ("prefixMatch", "excludePrefix", "blobTypes")
    )
    columns = tuple(str(each).lower() for each in written.get("schemaFields") or ())
    weekly, versions = (
        str(written.get("schedule")).lower() == "weekly",
        filters.get("includeBlobVersions") is True,
    )
    return Rule(name, prefixes, excluded, types, versions, weekly, columns)


def _usable(place: Location, written: Mapping[str, Any], rule: Rule) -> Rule:
    """Refuse rules whose reports leave out files for other reasons than where they lie."""
    if str(written.get("objectType", "blob")).lower() != "blob":
        raise SourceError(place.uri, "lists containers, not blobs", "name a rule of objectType blob")
    if (written.get("filters") or {}).get("creationTime") is not None:
        raise SourceError(place.uri, "lists the blobs of some days alone", "name a rule without creationTime")
    if rule.blob_types and "blockblob" not in map(str.lower, rule.blob_types):
        raise SourceError(place.uri, "leaves out block blobs, which files are", "name a rule with blockBlob")
    return rule
