"""Search a location for tables and inventories, and write a commented lake file, for `lakeaudit init`."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from botocore.exceptions import BotoCoreError, ClientError

from lakeaudit.config import load_lake
from lakeaudit.config.parsers import parse_location
from lakeaudit.errors import BadInput, LakeFileError, SourceError
from lakeaudit.evidence.discovery import formats_of
from lakeaudit.evidence.files import folders
from lakeaudit.evidence.registry import formats
from lakeaudit.evidence.storage.inventory.configuration import configurations, destination, lacks
from lakeaudit.evidence.storage.inventory.report import find_report
from lakeaudit.formatting import age, count, number
from lakeaudit.keys import Location, is_utf8
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.connections.aws_failures import code_of, explain
from lakeaudit.runtime.connections.aws_responses import required
from lakeaudit.runtime.threads import beside

DEEPEST = 5
"""Levels of folders below the location that are searched."""
MOST_LISTINGS = 2000
THREADS = 16
"""Folders that are listed in parallel."""
MOST_PLAIN = 20
"""Folders of plain files that the lake file lists."""
MOST_NAMED = 100
"""Tables that the lake file lists; if there are more and an inventory, each audit discovers them."""


@dataclass(frozen=True)
class Surroundings:
    """The result of a search.

    Attributes:
        roots: folders with a Delta log, Iceberg metadata or a Hudi timeline.
        is_complete: no folder was left out.
        inventories: (location of the reports, key prefix of its filter, remarks).
        notes: lines about the bucket: versioning, lifecycle rules, configurations that could not be read.
        plain: folders of files that belong to no such table.
        searched: number of folders that were listed.
        several: tables of more than one format, by location; `roots` has the first one.
        unreadable: folders that could not be listed, with the reason.
        skipped: number of partition folders and hidden folders that were not searched.
        links: symbolic links to local folders, which are not followed.
    """

    place: Location
    roots: Mapping[Location, str]
    is_complete: bool
    inventories: tuple[tuple[Location, str, str], ...]
    notes: tuple[str, ...]
    plain: tuple[Location, ...] = ()
    searched: int = 0
    several: Mapping[Location, tuple[str, ...]] = field(default_factory=dict)
    unreadable: Mapping[Location, str] = field(default_factory=dict)
    skipped: int = 0
    links: tuple[Location, ...] = ()


def place_of(text: str) -> Location:
    """Parse the argument PLACE.

    Raises:
        BadInput: the text is not a location.
    """
    try:
        return parse_location(str(Path(text).resolve()) if re.match(r"\.{0,2}/|\.{1,2}$", text) else text)
    except ValueError:
        raise BadInput(
            text, "is not a location", "write s3://bucket/prefix, or a path such as ./data"
        ) from None


def look_around(place: Location, clients: Clients, now: datetime) -> Surroundings:
    """Search for table roots with delimited listings, and read the bucket's configuration. Nothing is written.

    Raises:
        SourceError: the location cannot be listed.
        BadInput: the local folder does not exist.
    """
    if place.is_local and not Path(place.spark_path).is_dir():
        raise BadInput(place.uri, "is not a folder", "name a folder that exists")
    search = _Search(place, clients)
    search.run()
    found = Surroundings(
        place,
        search.roots,
        search.is_complete,
        (),
        (),
        tuple(sorted(search.plain)),
        search.searched,
        search.several,
        search.unreadable,
        search.skipped,
        tuple(search.links),
    )
    if place.is_local:
        return found
    notes: list[str] = []
    inventories = tuple(_inventories(place, clients, now, notes))
    notes.append(_note(lambda: _versioning(place, clients), "versioning"))
    notes.append(_note(lambda: _lifecycle(place, clients), "lifecycle"))
    return replace(found, inventories=inventories, notes=tuple(notes))


@dataclass
class _Search:
    """A search for tables and plain folders, level by level. Partitions and hidden folders are skipped."""

    place: Location
    clients: Clients
    roots: dict[Location, str] = field(default_factory=dict)
    plain: set[Location] = field(default_factory=set)
    searched: int = 0
    is_complete: bool = True
    several: dict[Location, tuple[str, ...]] = field(default_factory=dict)
    unreadable: dict[Location, str] = field(default_factory=dict)
    skipped: int = 0
    links: list[Location] = field(default_factory=list)

    def run(self) -> None:
        """Search all levels; also below table roots, since a table may contain other tables."""
        level = [(self.place, False)]
        with beside(THREADS) as pool:
            for _ in range(DEEPEST + 1):
                searched = level[: MOST_LISTINGS - self.searched]
                self.is_complete = self.is_complete and len(searched) == len(level)
                self.searched += len(searched)
                listed = pool.map(self._list, [folder for folder, _ in searched])
                level = [
                    below
                    for (folder, inside), found in zip(searched, listed, strict=True)
                    for below in self._subfolders(folder, found, inside=inside)
                ]
        self.is_complete = self.is_complete and not level

    def _list(self, folder: Location) -> "_Listed | SourceError":
        """List a folder, in a thread."""
        try:
            names = tuple(folders(self.clients, folder))
            readable = tuple(n for n in names if n and is_utf8(n) and not _is_link(folder, n))
            return _Listed(names, readable, formats_of(self.clients, folder, readable))
        except SourceError as error:
            return error

    def _subfolders(
        self, folder: Location, found: "_Listed | SourceError", *, inside: bool
    ) -> Iterator[tuple[Location, bool]]:
        """Yield the subfolders to search, and whether they are inside a table."""
        if isinstance(found, SourceError):
            if folder == self.place:
                raise found
            self.unreadable[folder] = found.what
            return
        self._leave_out(folder, found)
        names, formats = found.readable, found.formats
        if formats:
            self.roots[folder] = formats[0]
        if len(formats) > 1:
            self.several[folder] = formats
        within = inside or bool(formats)
        below = [name for name in names if not re.match(r"[._]|.*=", name)]
        if not within and (not names or any(re.match(r"[^._].*=", name) for name in names)):
            self.plain.add(folder)
        own = {"metadata"} if formats else set()
        self.skipped += 0 if within else len(names) - len(below)
        yield from ((folder.join(name), within) for name in below if name not in own)

    def _leave_out(self, folder: Location, found: "_Listed") -> None:
        """Note subfolders that cannot be searched; empty names, as in `a//b`, count as skipped."""
        for name in found.names:
            if not name:
                self.skipped += 1
            elif not is_utf8(name):
                self.unreadable[folder.join(name)] = "its name is not UTF-8"
            elif name not in found.readable:
                self.links.append(folder.join(name))


@dataclass(frozen=True)
class _Listed:
    """The names of the subfolders of a folder, those that can be searched, and the formats of its table."""

    names: tuple[str, ...]
    readable: tuple[str, ...]
    formats: tuple[str, ...]


def _is_link(folder: Location, name: str) -> bool:
    """Return whether a local folder is a symbolic link, which no listing follows."""
    return folder.is_local and Path(folder.spark_path, name).is_symlink()


def _inventories(
    place: Location, clients: Clients, now: datetime, notes: list[str]
) -> Iterator[tuple[Location, str, str]]:
    """Yield inventories that may cover the location and have delivered a report; add a note about each other."""
    try:
        configured = list(configurations(clients, place.bucket))
    except (ClientError, BotoCoreError) as error:
        notes.append(f"inventory configurations cannot be read: {explain(error).what}")
        return
    for each in configured:
        prefix = (each.get("Filter") or {}).get("Prefix", "")
        if not (place.prefix.startswith(prefix) or prefix.startswith(place.prefix)):
            continue
        try:
            reports = destination(each).join(place.bucket, str(each["Id"]))
            report = find_report(clients, reports, now)
        except (SourceError, KeyError, TypeError, AttributeError) as error:
            what = error.what if isinstance(error, SourceError) else "its configuration is not valid"
            notes.append(f"the inventory {each.get('Id')} is left out: {what}")
            continue
        lacking = lacks(each, place.bucket, [Location(place.bucket, prefix.rstrip("/"))])
        yield reports, prefix, "; ".join([f"{age(report.manifest.created_at, now)} old", *lacking])


def _note(read: Callable[[], str], about: str) -> str:
    try:
        return read()
    except (ClientError, BotoCoreError) as error:
        return f"{about} cannot be read: {explain(error).what}"


def _versioning(place: Location, clients: Clients) -> str:
    status = clients.s3(*place).get_bucket_versioning(Bucket=place.bucket).get("Status", "Off")
    if status == "Enabled":
        return "versioning is on: deleted and overwritten files may be recoverable"
    return f"versioning is {status.lower()}: a deleted file is not recoverable"


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
    verb = "deletes" if len(deleting) == 1 else "delete"
    more = (
        f"; {', '.join(deleting)} {verb} current objects: check that no table loses files" if deleting else ""
    )
    return f"{number(len(rules), 'lifecycle rule')}{more}"


def write_lake_file(
    found: Surroundings, file: str, results: str, endpoint: str | None, *, option: str = "-o"
) -> None:
    """Write a new lake file; `option` names the file on the command line.

    Raises:
        BadInput: the file exists already, or cannot be written.
        LakeFileError: the written lake file is not valid.
    """
    write_new_lake_file(file, lake_text(found, results, endpoint), option=option)


def write_new_lake_file(file: str, text: str, *, option: str) -> None:
    """Write the text of a new lake file. Raises as `write_lake_file`."""
    try:
        with Path(file).open("x", encoding="utf-8") as out:
            out.write(text)
    except FileExistsError:
        raise BadInput(file, "exists already", f"name another file with {option}") from None
    except OSError as error:
        raise BadInput(
            file, error.strerror or "cannot be written", f"name another file with {option}"
        ) from None
    try:
        load_lake(file, {})
    except LakeFileError:
        Path(file).unlink()
        raise


def lake_text(found: Surroundings, results: str, endpoint: str | None) -> str:
    """Return the text of the lake file, with comments about the search."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", found.place.key.rpartition("/")[2] or found.place.bucket).strip(
        "-"
    )
    lines = [
        f"# Written by `lakeaudit init {comment_text(found.place.uri)}`. conf/example.yaml explains every key.",
        "version: 1",
        f"lake: {yaml_text(name or 'lake')}",
        f"results: {yaml_text(results)}   # outside of the lake; s3://bucket/prefix for a nightly audit",
    ]
    if endpoint:
        lines.append(f"s3: {{endpoint: {yaml_text(endpoint)}, path_style: true}}")
    lines += [
        "",
        "# Lists of the objects in storage.",
        *(f"# {comment_text(note)}" for note in found.notes),
        "inventories:",
    ]
    lines += _inventory_lines(found)
    lines += [
        "",
        "# Folders with a Delta log, Iceberg metadata or a Hudi timeline."
        if found.roots
        else "# No Delta log, no Iceberg metadata and no Hudi timeline was found.",
    ]
    extent = f"Searched: {number(found.searched, 'folder')}, {DEEPEST} levels deep, also inside tables"
    lines.append(f"# {extent}; partitions and hidden folders were skipped.")
    if not found.is_complete:
        lines.append(
            f"# There may be more tables: at most {DEEPEST} levels and {MOST_LISTINGS} folders are searched."
        )
    lines += [
        f"# Not listed: {comment_text(place.uri)} ({comment_text(why)})"
        for place, why in found.unreadable.items()
    ]
    return "\n".join([*lines, "tables:", *_table_lines(found), *_plain_lines(found), ""])


def _plain_lines(found: Surroundings) -> Iterator[str]:
    """Yield comments about folders of plain files, with the sources that can audit them."""
    if not found.plain or not found.roots:
        return
    yield ""
    yield f"# Folders with files but without a table log: {count(len(found.plain))}. Sources that can audit them:"
    yield "#   previous: the files of the last audit; spark_event_log, file_list, s3a_committer: records of writers;"
    yield "#   a glue or hive metastore: registered partitions, and empty ones."
    for place in found.plain[:MOST_PLAIN]:
        name, location = yaml_text(_name(found.place, place)), yaml_text(comment_text(place.uri))
        yield f"#  - {{name: {name}, location: {location}, manifests: [{{kind: previous}}]}}"
    if len(found.plain) > MOST_PLAIN:
        yield f"#  and {count(len(found.plain) - MOST_PLAIN)} more"


def _inventory_lines(found: Surroundings) -> Iterator[str]:
    for place, prefix, remarks in found.inventories:
        covers = f", covers: [{yaml_text(Location(found.place.bucket, prefix).uri)}]" if prefix else ""
        yield f"  # {comment_text(remarks)}"
        yield f"  - {{kind: s3_inventory, location: {yaml_text(place.uri)}{covers}}}"
    if not found.inventories:
        yield "  # Every audit lists the location; above some million objects an S3 Inventory is cheaper."
        yield f"  - {{kind: listing, location: {yaml_text(found.place.uri)}}}"


def _table_lines(found: Surroundings) -> Iterator[str]:
    if len(found.roots) > MOST_NAMED and found.inventories:
        yield f"  # {count(len(found.roots))} tables were found; each audit discovers them again."
        known = [each for each in formats() if each in found.roots.values()]
        named = "" if known == ["delta"] else f", formats: [{', '.join(known)}]"
        yield f"  - discover: {{from: inventory, under: [{yaml_text(found.place.uri)}]{named}}}"
        return
    names = {root: _name(found.place, root) for root in found.roots}
    uses = Counter(names.values())
    for root, kind in found.roots.items():
        name = yaml_text(names[root] if uses[names[root]] == 1 else comment_text(root.uri))
        yield f"  - {{name: {name}, location: {yaml_text(root.uri)}, manifests: [{{kind: {kind}}}]}}"
    if not found.roots:
        yield f"  - {{name: {yaml_text(_name(found.place, found.place))}, location: {yaml_text(found.place.uri)}}}"
        yield "    # Without a list of the written files, no file is reported as dropped:"
        yield "    # manifests: [{kind: file_list, location: s3://bucket/manifests/, complete: true}]"


def _name(place: Location, root: Location) -> str:
    below = ".".join(part for part in root.key[len(place.prefix) :].split("/") if part)
    name = below or root.key.rpartition("/")[2] or root.bucket
    return comment_text(name).strip() or "table"


def yaml_text(value: str) -> str:
    """Quote any text for YAML; `${` would be a variable of the lake file, so it is escaped as `$${`."""
    return f'"{"".join(map(_escaped, value.replace("${", "$${")))}"'


def _escaped(char: str) -> str:
    if char in '"\\':
        return f"\\{char}"
    code = ord(char)
    return char if char.isprintable() else f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def comment_text(text: str) -> str:
    """Escape a text for a comment: it stays on its line."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def results_beside(place: Location | None, folder: Path) -> str:
    """Return a local folder for the results that is outside of the location, if there is one."""
    own = Location.parse(str(folder / "lakeaudit-results"))
    if place is None or not place.contains(own):
        return own.uri
    return Location.parse(f"/{place.key}-audit").uri


def verdict(found: Surroundings, file: str) -> str:
    """Return the last line of the command."""
    many = len(found.inventories)
    sources = (
        f"{count(many)} {'inventory' if many == 1 else 'inventories'}" if many else "a listing as source"
    )
    tables = number(len(found.roots), "table")
    return f"OK: wrote {file} with {tables} and {sources}; next: lakeaudit doctor {file}"
