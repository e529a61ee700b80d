"""Locate the timeline of a table: the files of its instants, and those of its archive. Only names are read."""

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property, partial

from lakeaudit.config import Table
from lakeaudit.errors import SourceError
from lakeaudit.evidence.files import File, list_files, pinned, read_bytes
from lakeaudit.evidence.lineage import ABSENT, ARCHIVED, TORN, MissingState
from lakeaudit.evidence.manifest.hudi.timeline.names import LENGTH, instant_named, time_of
from lakeaudit.evidence.manifest.hudi.timeline.payload import ACTIONS
from lakeaudit.evidence.manifest.hudi.timeline.properties import (
    NotReadable,
    TableConfig,
    is_of_hudi,
    parse_properties,
)
from lakeaudit.evidence.manifest.table_states import LocatedTable
from lakeaudit.evidence.protocol import Clock, CommittedNames, utc_now
from lakeaudit.keys import Location
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.connections.aws_failures import ARCHIVED as ARCHIVED_WORDS

FOLDER = ".hoodie"
PROPERTIES = ("hoodie.properties", "hoodie.properties.backup")
"""The second one exists while the first one is being replaced; Hudi reads it if the first one is not whole."""
METADATA_TABLE = (FOLDER, "metadata")
"""The place of the metadata table below the table's location."""
COMPLETED, PLANNED = "completed", "planned"
_PLANS = ("clean", "rollback")
"""Actions whose plans name files that may be gone before they are completed."""
_ARCHIVED = re.compile(r"\.commits_\.archive\.\d+(_.*)?")
_THREADS = 16
_ALL_ZONES = timedelta(hours=26)
"""The greatest difference of two local times; an instant is the local time of its writer."""


@dataclass(frozen=True)
class Instant:
    """Names an instant's file, or one of the archive, which holds many (its `action` is empty).

    `begin` and `completed` are written as in names; layout 1 does not record when an instant was completed. `at` is the
    time of completion.
    """

    file: File
    action: str
    state: str
    begin: str
    completed: str
    at: datetime


@dataclass(frozen=True)
class Index:
    """Holds the metadata table's own timeline; without a `config` no reader uses it."""

    config: TableConfig | None = None
    instants: tuple[Instant, ...] = ()

    @property
    def writes(self) -> tuple[Instant, ...]:
        """Return its completed writes of the table, without its own compactions and cleans."""
        done = (each for each in self.instants if each.action == "deltacommit" and each.state == COMPLETED)
        return tuple(each for each in done if len(each.begin) == LENGTH and not each.begin.startswith("0"))


@dataclass(frozen=True)
class LocatedTimeline(LocatedTable):
    """Holds one table's timeline as it was located at `read_at`; `config` is None if `refused` says why."""

    config: TableConfig | None = None
    instants: tuple[Instant, ...] = ()
    archive: tuple[Instant, ...] = ()
    lost: str | None = None
    """Why the files of the archive are unknown."""
    pending: frozenset[str] = frozenset()
    """Instants that are requested or inflight and not completed."""
    begun: frozenset[str] = frozenset()
    """Instants that have a requested or inflight file, completed or not."""
    index: Index | None = None
    """The metadata table's own timeline; None if there is none, or for an earlier time."""
    until: datetime | None = None
    """Later instants are left out; those of the archive are known after it is read."""

    @property
    def identity(self) -> str:
        """Identify the exact files of the timeline."""
        return pinned((each.file for each in (*self.instants, *self.archive)), "instants")

    @property
    def index_writes(self) -> tuple[Instant, ...]:
        """Return deltacommits that the metadata table's own timeline has completed."""
        return () if self.index is None else self.index.writes

    @property
    def newest(self) -> int | None:
        """Return the newest completed instant, as a number."""
        return max((int(each.begin) for each in self.instants if each.state == COMPLETED), default=None)

    @property
    def writes(self) -> list[Instant]:
        """Return the completed writes, by their instants."""
        done = [each for each in self.instants if each.state == COMPLETED and each.action.endswith("commit")]
        return sorted(done, key=lambda each: each.begin)

    @cached_property
    def double_completions(self) -> Mapping[str, tuple[Instant, ...]]:
        """Return by instant the files of writes that more than one file completes, in the order of their names."""
        files: dict[str, list[Instant]] = defaultdict(list)
        for each in sorted(self.writes, key=lambda each: each.file.name):
            files[each.begin].append(each)
        return {begin: tuple(named) for begin, named in files.items() if len(named) > 1}

    @property
    def committed_names(self) -> CommittedNames | None:
        """Return the names by which readers that list folders find files; None if no write is completed.

        A savepoint keeps its own write in the timeline while later ones are archived, so the timeline begins at the
        first write without a savepoint (`BaseHoodieTimeline.getFirstNonSavepointCommit`).
        """
        writes = [each.begin for each in self.writes]
        saved = {each.begin for each in self.instants if each.action == "savepoint"}
        if self.config is None or not writes:
            return None
        first = next((begin for begin in writes if begin not in saved), writes[0])
        return CommittedNames(tuple(writes), first, self.config.indexed)

    @property
    def began_at(self) -> datetime | None:
        """Return when the oldest file of the timeline and its archive was written, by the store's clock.

        None for a copy of a table, whose files are much younger than the instants in their names.
        """
        named = ((each.file.modified_at, time_of(each.begin, utc=True)) for each in self.instants)
        if any(at is not None and abs(written - at) > _ALL_ZONES for written, at in named):
            return None
        return min((each.file.modified_at for each in (*self.instants, *self.archive)), default=None)

    @property
    def oldest(self) -> datetime | None:
        return min((each.at for each in self.instants if each.state == COMPLETED), default=None)


def find(
    tables: Sequence[Table], clients: Clients, until: datetime | None, clock: Clock
) -> list[LocatedTimeline]:
    """Locate every table's timeline, as it was at `until` (None: as it is now); a refusal stops no other table."""
    with ThreadPoolExecutor(_THREADS) as pool:
        return list(pool.map(partial(_find, clients, until, clock), tables))


def probe(table: Table, clients: Clients) -> None:
    """Check that the table's timeline can be located and parsed.

    Raises:
        SourceError: it cannot.
    """
    found = _find(clients, None, utc_now, table)
    if found.refused:
        raise SourceError(table.name, found.refused, "check the table's location")


def _find(clients: Clients, until: datetime | None, clock: Clock, table: Table) -> LocatedTimeline:
    read_at = until or clock()
    home = table.location.join(FOLDER)
    try:
        config = _config(clients, home)
    except NotReadable as error:
        missing = _missing_state(clients, home) if until is None else None
        return LocatedTimeline(table, read_at, refused=str(error), missing=missing)
    except SourceError as error:
        archived = until is None and ARCHIVED_WORDS in str(error)
        missing = MissingState(ARCHIVED, home.join(PROPERTIES[0]).uri) if archived else None
        return LocatedTimeline(table, read_at, refused=str(error), missing=missing)
    try:
        index = _index(clients, home, config) if until is None else None  # before the timeline: see lineage
        names = list(list_files(clients, home.join(config.timeline) if config.timeline else home, flat=True))
        files = [file for file in names if until is None or file.modified_at <= until]
        archive, lost = _archive(clients, home, config)
        return LocatedTimeline(
            table,
            read_at,
            config,
            tuple(_instants(files, config)),
            archive,
            lost=lost,
            pending=_pending_instants(files),
            begun=_started_instants(files),
            index=index,
            until=until,
        )
    except SourceError as error:
        return LocatedTimeline(table, read_at, refused=str(error))


def _config(clients: Clients, home: Location) -> TableConfig:
    """Read the properties, or, if they are missing, empty or cut off, their backup.

    Raises:
        NotReadable: neither can be used; the reason is that of the first one that exists.
    """
    why = ""
    for name in PROPERTIES:
        content = read_bytes(clients, home.join(name))
        try:
            if content:
                return parse_properties(content)
        except NotReadable as error:
            why = why or str(error)
        if content is not None and not content:
            why = why or f"{home.join(name).uri} is empty, and there is no whole {PROPERTIES[1]}"
    raise NotReadable(why or f"not a Hudi table: no {PROPERTIES[0]} in {home.uri}")


def _missing_state(clients: Clients, home: Location) -> MissingState | None:
    """Return why nobody can open the table; None if its properties hold any value, or if storage refuses."""
    place = home.join(PROPERTIES[0])
    try:
        if any(is_of_hudi(read_bytes(clients, home.join(name))) for name in (*PROPERTIES, PROPERTIES[0])):
            return None
        held = next(iter(list_files(clients, home)), None)
    except SourceError:
        return None
    restore = (
        f"an older version of {PROPERTIES[0]}, or `repair overwrite-hoodie-props` of hudi-cli, brings it back"
    )
    return MissingState(ABSENT, place.uri) if held is None else MissingState(TORN, place.uri, restore)


def _index(clients: Clients, home: Location, config: TableConfig) -> Index | None:
    """Return the metadata table's timeline, as far as it can be read; None if writers keep none."""
    if not config.indexed:
        return None
    folder = home.join(*METADATA_TABLE[1:], FOLDER)
    own = _index_config(clients, folder)
    layout = (own or config).layout
    files = list(list_files(clients, folder.join("timeline") if layout == 2 else folder, flat=True))
    return Index(own, tuple(_instants(files, own or config, of_index=True)))


def _index_config(clients: Clients, folder: Location) -> TableConfig | None:
    """Return the properties of a metadata table; None if they cannot be read: its readers list folders then."""
    try:
        return _config(clients, folder)
    except (NotReadable, SourceError):
        return None


def _pending_instants(files: Sequence[File]) -> frozenset[str]:
    named = [name for file in files if (name := instant_named(file.name)) is not None]
    done = {name.begin for name in named if name.state == COMPLETED and name.action != "savepoint"}
    return frozenset(name.begin for name in named) - done


def _started_instants(files: Sequence[File]) -> frozenset[str]:
    named = (instant_named(file.name) for file in files)
    return frozenset(name.begin for name in named if name is not None and name.state != COMPLETED)


def _instants(files: Sequence[File], config: TableConfig, *, of_index: bool = False) -> Iterator[Instant]:
    """Yield completed instants, and plans of those that are under way."""
    parsed_names = [(file, instant_named(file.name, of_index=of_index)) for file in files]
    named = [(file, name) for file, name in parsed_names if name is not None]
    done = {(name.begin, name.action) for _, name in named if name.state == COMPLETED}
    begun = {(name.begin, name.action) for _, name in named if name.state == "inflight"}
    for file, name in named:
        if name.state == COMPLETED and name.action in ACTIONS:
            completed = time_of(name.completed, utc=True) if config.utc and name.completed else None
            # the writer's clock may be ahead of storage's
            at = min(completed or file.modified_at, file.modified_at)
            yield Instant(file, name.action, COMPLETED, name.begin, name.completed, at)
        elif name.state == "requested" and name.action in _PLANS and (name.begin, name.action) not in done:
            if not file.size and (name.begin, name.action) not in begun:
                continue  # nothing was removed by it yet: Hudi deletes empty plans, and makes others
            yield Instant(file, name.action, PLANNED, name.begin, "", file.modified_at)


def _archive(clients: Clients, home: Location, config: TableConfig) -> tuple[tuple[Instant, ...], str | None]:
    """Return the files of the archive, and why they are unknown."""
    folder = home.join(config.archive)
    files = {file.name: file for file in list_files(clients, folder, flat=True)}
    if config.layout == 1:
        names: Sequence[str] = [name for name in files if _ARCHIVED.fullmatch(name)]
    else:
        listed = _manifest(clients, folder, files)
        if isinstance(listed, str):
            return (), listed
        names = listed
    if missing := [name for name in names if name not in files]:
        return (), f"{folder.join(missing[0]).uri} is missing"
    some = [files[name] for name in names]
    return tuple(Instant(file, "", COMPLETED, "", "", file.modified_at) for file in some), None


def _manifest(clients: Clients, folder: Location, files: dict[str, File]) -> list[str] | str:
    """Return the names that the archive's newest manifest lists, or why it cannot be read."""
    if not any(name.startswith("manifest_") or name == "_version_" for name in files):
        return []
    version = (read_bytes(clients, folder.join("_version_")) or b"").decode("ascii", "replace").strip()
    if not re.fullmatch(r"\d{1,18}", version):
        return f"{folder.join('_version_').uri} names no version"
    place = folder.join(f"manifest_{version}")
    try:
        manifest = json.loads(read_bytes(clients, place) or b"")
        return [str(each["fileName"]) for each in manifest.get("files") or []]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return f"{place.uri} cannot be understood"
