"""`lakeaudit init`: looks around a place and writes a lake file with comments, which `audit` takes as it is."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from botocore.exceptions import BotoCoreError, ClientError

from lakeaudit.config import load_lake
from lakeaudit.config.parsers import parse_location
from lakeaudit.errors import BadInput, SourceError
from lakeaudit.evidence.discovery import formats_of
from lakeaudit.evidence.files import folders
from lakeaudit.evidence.registry import formats
from lakeaudit.evidence.storage.inventory.configuration import configurations, destination, lacks
from lakeaudit.evidence.storage.inventory.report import find_report
from lakeaudit.formatting import age, count
from lakeaudit.keys import Location
from lakeaudit.runtime.aws import Clients
from lakeaudit.runtime.aws_failures import code_of, explain
from lakeaudit.runtime.aws_responses import required

DEEPEST = 5
"""Folders below the place that are looked into."""
MOST_LISTINGS = 2000
MOST_PLAIN = 20
"""Folders of plain files that are named."""
MOST_NAMED = 100
"""Tables that are named one by one; where an inventory knows of more, they are found by every audit."""


@dataclass(frozen=True)
class Surroundings:
    """What was found about a place.

    Attributes:
        roots: folders with a Delta log, Iceberg metadata or a Hudi timeline; `all_seen`: no folder was left out.
        plain: folders of files that belong to no such table; `looked`: how many folders were looked into.
        inventories: (where its reports lie, the key prefix that it is filtered by, what is to be said of it).
        notes: of the bucket, one line each: versioning, lifecycle, what could not be read.
    """

    place: Location
    roots: Mapping[Location, str]
    all_seen: bool
    inventories: tuple[tuple[Location, str, str], ...]
    notes: tuple[str, ...]
    plain: tuple[Location, ...] = ()
    looked: int = 0


def place_of(text: str) -> Location:
    """The place that was typed.

    Raises:
        BadInput: it is none.
    """
    try:
        return parse_location(str(Path(text).resolve()) if re.match(r"\.{0,2}/|\.{1,2}$", text) else text)
    except ValueError:
        raise BadInput(text, "is no place", "write s3://bucket/prefix, or a path such as ./data") from None


def look_around(place: Location, clients: Clients, now: datetime) -> Surroundings:
    """Table roots by listings with a delimiter, and what the bucket says of itself. Nothing is written.

    Raises:
        SourceError: the place cannot be listed.
        BadInput: it is no folder of this machine.
    """
    if place.is_local and not Path(place.spark_path).is_dir():
        raise BadInput(place.uri, "is no folder", "name one that is there")
    search = _Search(clients)
    search.run(place)
    about = (search.roots, search.all_seen)
    more = (tuple(sorted(search.plain)), search.looked)
    if place.is_local:
        return Surroundings(place, *about, (), (), *more)
    notes: list[str] = []
    inventories = tuple(_inventories(place, clients, now, notes))
    notes.append(_asked(lambda: _versioning(place, clients), "versioning"))
    notes.append(_asked(lambda: _lifecycle(place, clients), "lifecycle"))
    return Surroundings(place, *about, inventories, tuple(notes), *more)


@dataclass
class _Search:
    """A search for tables and plain folders, level by level. Partitions and hidden folders are not looked into."""

    clients: Clients
    roots: dict[Location, str] = field(default_factory=dict)
    plain: set[Location] = field(default_factory=set)
    looked: int = 0
    all_seen: bool = True

    def run(self, place: Location) -> None:
        """Tables may lie inside tables, so the search goes on below a table's root."""
        level = [(place, False)]
        for _ in range(DEEPEST + 1):
            level = [below for folder, inside in level for below in self._look_into(folder, inside=inside)]
        self.all_seen = self.all_seen and not level

    def _look_into(self, folder: Location, *, inside: bool) -> Iterator[tuple[Location, bool]]:
        """The folders below, and whether they lie inside a table."""
        if self.looked == MOST_LISTINGS:
            self.all_seen = False
            return
        self.looked += 1
        names = [name for name in folders(self.clients, folder) if name]
        if formats := formats_of(self.clients, folder, names):
            self.roots[folder] = formats[0]
        within = inside or bool(formats)
        below = [name for name in names if not re.match(r"[._]|.*=", name)]
        if not within and (not names or any(re.match(r"[^._].*=", name) for name in names)):
            self.plain.add(folder)
        own = {"metadata"} if formats else set()
        yield from ((folder.join(name), within) for name in below if name not in own)


def _inventories(
    place: Location, clients: Clients, now: datetime, notes: list[str]
) -> Iterator[tuple[Location, str, str]]:
    """Those that may know the place and have delivered a report; of the others a note."""
    try:
        known = list(configurations(clients, place.bucket))
    except (ClientError, BotoCoreError) as error:
        notes.append(f"inventory configurations cannot be read: {explain(error).what}")
        return
    for each in known:
        prefix = (each.get("Filter") or {}).get("Prefix", "")
        if not (place.prefix.startswith(prefix) or prefix.startswith(place.prefix)):
            continue
        try:
            reports = destination(each).join(place.bucket, str(each["Id"]))
            report = find_report(clients, reports, now)
        except (SourceError, KeyError, TypeError, AttributeError) as error:
            what = error.what if isinstance(error, SourceError) else "cannot be understood"
            notes.append(f"the inventory {each.get('Id')} is left out: {what}")
            continue
        lacking = lacks(each, place.bucket, [Location(place.bucket, prefix.rstrip("/"))])
        yield reports, prefix, "; ".join([f"{age(report.manifest.created_at, now)} old", *lacking])


def _asked(question: Callable[[], str], about: str) -> str:
    try:
        return question()
    except (ClientError, BotoCoreError) as error:
        return f"{about} cannot be read: {explain(error).what}"


def _versioning(place: Location, clients: Clients) -> str:
    status = clients.s3(*place).get_bucket_versioning(Bucket=place.bucket).get("Status", "Off")
    if status == "Enabled":
        return "versioning is on: deleted and overwritten files may be recoverable"
    return f"versioning is {status.lower()}: a file that is deleted now is not recoverable"


def _lifecycle(place: Location, clients: Clients) -> str:
    try:
        answer = clients.s3(*place).get_bucket_lifecycle_configuration(Bucket=place.bucket)
        rules = required(answer, "Rules")
    except ClientError as error:
        if code_of(error) == "NoSuchLifecycleConfiguration":
            return "no lifecycle rule"
        raise
    deleting = [
        str(rule.get("ID", "?")) for rule in rules if rule.get("Status") == "Enabled" and "Expiration" in rule
    ]
    more = (
        f"; {', '.join(deleting)} deletes current objects: see that no table lies there" if deleting else ""
    )
    return f"{count(len(rules))} lifecycle rules{more}"


def write_lake_file(found: Surroundings, file: str, results: str, s3: dict[str, str]) -> None:
    """Write the lake file, which has to be a new one.

    Raises:
        BadInput: the file is there, or cannot be written.
        LakeFileError: what was found makes no lake file that could be read.
    """
    try:
        with Path(file).open("x", encoding="utf-8") as out:
            out.write(lake_text(found, results, s3))
    except FileExistsError:
        raise BadInput(file, "is there already", "name another file with -o") from None
    except OSError as error:
        raise BadInput(file, error.strerror or "cannot be written", "name another file with -o") from None
    load_lake(file, {})


def lake_text(found: Surroundings, results: str, s3: dict[str, str]) -> str:
    """The lake file with a comment for everything that was found."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", found.place.key.rpartition("/")[2] or found.place.bucket).strip(
        "-"
    )
    lines = [
        f"# Written by `lakeaudit init {_comment(found.place.uri)}`. conf/example.yaml explains every key.",
        "version: 1",
        f"lake: {_text(name or 'lake')}",
        f"results: {_text(results)}   # a place of its own; s3://bucket/prefix for a nightly audit",
    ]
    if s3:
        lines.append(f"s3: {{{', '.join(f'{key}: {value}' for key, value in s3.items())}}}")
    lines += ["", "# What storage holds.", *(f"# {_comment(note)}" for note in found.notes), "inventories:"]
    lines += _inventory_lines(found)
    lines += [
        "",
        "# Folders with a log of their own."
        if found.roots
        else "# No Delta log, no Iceberg metadata and no Hudi timeline was found.",
    ]
    deep = f"{count(found.looked)} folders were looked into, {DEEPEST} levels deep, also inside tables"
    lines.append(f"# {deep}; partitions and hidden folders were left out.")
    if not found.all_seen:
        lines.append(
            f"# There may be more: no more than {DEEPEST} levels and {MOST_LISTINGS} folders are looked into."
        )
    return "\n".join([*lines, "tables:", *_table_lines(found), *_plain_lines(found), ""])


def _plain_lines(found: Surroundings) -> Iterator[str]:
    """Folders of plain files as comments, with the sources by which they can be audited."""
    if not found.plain or not found.roots:
        return
    yield ""
    yield f"# {count(len(found.plain))} folders hold files without a log of their own. Sources that can audit them:"
    yield "#   previous: what the last audit saw; spark_event_log, file_list, s3a_committer: what writers recorded;"
    yield "#   a glue or hive metastore: partitions that are registered, and those that are empty."
    for place in found.plain[:MOST_PLAIN]:
        name, location = _text(_name(found.place, place)), _text(_comment(place.uri))
        yield f"#  - {{name: {name}, location: {location}, manifests: [{{kind: previous}}]}}"
    if len(found.plain) > MOST_PLAIN:
        yield f"#  and {count(len(found.plain) - MOST_PLAIN)} more"


def _inventory_lines(found: Surroundings) -> Iterator[str]:
    for place, prefix, said in found.inventories:
        covers = f", covers: [{_text(Location(found.place.bucket, prefix).uri)}]" if prefix else ""
        yield f"  # {_comment(said)}"
        yield f"  - {{kind: s3_inventory, location: {_text(place.uri)}{covers}}}"
    if not found.inventories:
        yield "  # Every audit lists the place; an S3 Inventory is cheaper from some million objects on."
        yield f"  - {{kind: listing, location: {_text(found.place.uri)}}}"


def _table_lines(found: Surroundings) -> Iterator[str]:
    if len(found.roots) > MOST_NAMED and found.inventories:
        yield f"  # {count(len(found.roots))} tables were seen; each audit finds them anew."
        known = [each for each in formats() if each in found.roots.values()]
        named = "" if known == ["delta"] else f", formats: [{', '.join(known)}]"
        yield f"  - discover: {{from: inventory, under: [{_text(found.place.uri)}]{named}}}"
        return
    for root, kind in found.roots.items():
        name = _text(_name(found.place, root))
        yield f"  - {{name: {name}, location: {_text(root.uri)}, manifests: [{{kind: {kind}}}]}}"
    if not found.roots:
        yield f"  - {{name: {_text(_name(found.place, found.place))}, location: {_text(found.place.uri)}}}"
        yield "    # Without a list of what writers wrote nothing is called dropped:"
        yield "    # manifests: [{kind: file_list, location: s3://bucket/manifests/, complete: true}]"


def _name(place: Location, root: Location) -> str:
    below = ".".join(part for part in root.key[len(place.prefix) :].split("/") if part)
    name = below or root.key.rpartition("/")[2] or root.bucket
    return _comment(name).strip() or "table"


def _text(value: str) -> str:
    """Any text as YAML in double quotes; `$${` stands for `${`, of which the lake file makes a variable."""
    return json.dumps(value.replace("${", "$${"))


def _comment(text: str) -> str:
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def results_beside(place: Location, folder: Path) -> str:
    """A local folder for the results that lies outside of the place."""
    own = Location.parse(str(folder / "lakeaudit-results"))
    if not place.contains(own):
        return own.uri
    return Location.parse(f"/{place.key}-audit").uri


def said(found: Surroundings, file: str) -> str:
    """The verdict's line."""
    sources = f"{count(len(found.inventories))} inventories" if found.inventories else "a listing"
    return f"OK: {count(len(found.roots))} tables, {sources}: {file}; next: lakeaudit doctor {file}"
