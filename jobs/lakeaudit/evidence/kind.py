"""A kind of evidence describes itself by one object at the end of its package.

The package itself imports little: it has the model of the lake file and the object. Readers, probes and look-ups are
named by `deferred` and are imported at their first call, so that a lake file can be read without them.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from lakeaudit.grants import Grant, SetupStep, no_setup, read_places

if TYPE_CHECKING:
    from lakeaudit.config.sources.roles import (
        CatalogSource,
        EventsSource,
        ManifestSource,
        MetastoreSource,
        StorageSource,
    )
    from lakeaudit.evidence.catalog.protocol import CatalogTable, Pointers
    from lakeaudit.evidence.protocol import Changes, Claims, Events, Probed, Stored

BY_KEY = "hash(bucket, key) >> 32"
BY_BASE = "hash(bucket, base) >> 32"
BY_TAG = "hash(bucket, tag) >> 32"
TO_ALL = ""
"""Routes of rows: SQL of the hash by which rows meet others in one task; `TO_ALL` sends them to every task."""

PLAIN = "plain"
"""The advice for tables that are plain folders, without a log of their own, see `ManifestKind.advice`."""


@dataclass(frozen=True)
class Deferred:
    """A function that is imported at its first call; `target` is "package.module:name"."""

    target: str

    @property
    def function(self) -> Callable[..., Any]:
        module, _, name = self.target.partition(":")
        return attrgetter(name)(import_module(module))  # type: ignore[no-any-return]

    def __call__(self, *args: Any, **named: Any) -> Any:
        return self.function(*args, **named)


def deferred(target: str) -> Callable[..., Any]:
    """Return a function by its name "package.module:name", as `Deferred`."""
    return Deferred(target)


@dataclass(frozen=True)
class RowKind:
    """A kind of row that a reader emits beside those of `lakeaudit.engine.chunks.ROUTES`.

    Attributes:
        route: SQL of the hash by which its rows meet others in one task.
        keyed: each row is about one key.
        filtered: rows of keys that the prefilter cleared are dropped before they are decoded.
    """

    route: str
    keyed: bool = False
    filtered: bool = False


KEY_ROWS = RowKind(BY_KEY, keyed=True, filtered=True)
"""Rows of a manifest that are about one key each."""


@dataclass(frozen=True)
class TableRoot:
    """How keys show that a folder is the root of a table.

    Attributes:
        folder: the folder below the root that only a table of this format has.
        pattern: a regular expression of a key that proves the table; its group is the root.
        below: a regular expression of the files below the root that show it, wherever they lie in another table.
        reserved: nothing below such a folder is a table of its own.
        proof: the name of a file directly in the folder -> whether it proves the table; None: the folder proves it.
    """

    folder: str
    pattern: str
    below: str
    reserved: bool = True
    proof: Callable[..., bool] | None = None

    @property
    def is_hidden(self) -> bool:
        """Whether readers of files skip the folder because of its name."""
        return self.folder.startswith(("_", "."))


@dataclass(frozen=True)
class StateFiles:
    """The files of a table's log that each hold a state, as a report of storage lists them.

    Attributes:
        pattern: a regular expression of their keys; its groups are the folder and the number of the state.
        likely: SQL that preselects keys cheaply.
        number: SQL of the number, of `found.number`.
        are_commits: each is a commit whose content `checks.commits` compares with an overwritten version of the file.
        may_lose_races: one state above the current one may be of a commit that lost its race or failed.
        may_be_rolled_back: a writer may remove a state again, and readers then get an older one.
        have_own_times: a state's time is that of its name, so that all files of a copied log are younger.
    """

    pattern: str
    likely: str
    number: str = "found.number"
    are_commits: bool = False
    may_lose_races: bool = False
    may_be_rolled_back: bool = False
    have_own_times: bool = False


@dataclass(frozen=True, kw_only=True)
class Kind:
    """The description that every kind has.

    Attributes:
        name: the `kind` of the lake file.
        title: its name in README and docs/evidence.md.
        rows: the kinds of row that its reader emits, by name.
        permissions: (source, lake) -> the AWS permissions of its requests (reader, probe and look-up), beyond those on
            the tables' own places; by default the right to list and read its `places`.
        setup: (source, lake) -> what a person sets up in AWS so that the source delivers what the reader reads.
    """

    name: str
    title: str
    rows: Mapping[str, RowKind] = field(default_factory=dict)
    permissions: Callable[..., Iterable[Grant]] = read_places
    setup: Callable[..., Iterable[SetupStep]] = no_setup


@dataclass(frozen=True, kw_only=True)
class StorageKind(Kind):
    """A kind of source that lists the objects in storage.

    Attributes:
        read: (source, context, source id) -> Stored.
        probe: (source, clients, now) -> Probed, by the smallest requests that an audit needs; raises `SourceError`, its
            subclasses, or an exception of boto3. The probes of all roles do so.
        finds_tables: tables are discovered among its keys (`discover: {from: inventory}`).
        expand: (source, clients) -> the sources below the place of one that `expands`.
    """

    model: "type[StorageSource]"
    read: "Callable[..., Stored]"
    probe: "Callable[..., Probed]"
    finds_tables: bool = False
    expand: "Callable[..., Iterable[StorageSource]] | None" = None


def _is_marked(entry: Mapping[str, Any]) -> bool:
    return bool(entry.get("is_deleted"))


@dataclass(frozen=True, kw_only=True)
class MetastoreKind(Kind):
    """A kind of metadata store, with entries of files or of the logs of tables.

    Attributes:
        read: (source, context, source id) -> Entries, LogEntries or Pointers.
        get: (source, clients, bucket, key) -> the store's current entry of one key as it is, or None. Raises
            `SourceError` where the store cannot look a key up.
        is_deleted: (such an entry) -> whether it marks a deletion; by default if its `is_deleted` is true.
    """

    model: "type[MetastoreSource]"
    read: "Callable[..., Any]"
    probe: "Callable[..., Probed]"
    get: Callable[..., dict[str, Any] | None]
    is_deleted: Callable[[Mapping[str, Any]], bool] = _is_marked


@dataclass(frozen=True, kw_only=True)
class CatalogKind(MetastoreKind):
    """A kind of catalog of tables.

    Attributes:
        list_tables: (source, clients, source id, names) -> Pointers of the tables whose names pass, or of more; no
            partition is read. None: tables are not discovered in it.
        current: (source, clients, name) -> a table as it is now, or None; None: single tables cannot be looked up.
        current_tables: (source, clients, source id, names) -> the same for many; None: `current`, or `list_tables`.
    """

    model: "type[CatalogSource]"
    list_tables: "Callable[..., Pointers] | None" = None
    current: "Callable[..., CatalogTable | None] | None" = None
    current_tables: Callable[..., Mapping[str, Any]] | None = None


@dataclass(frozen=True, kw_only=True)
class EventsKind(Kind):
    """A kind of record of requests (who changed or read which key, and when); `read` takes (source, context, id)."""

    model: "type[EventsSource]"
    read: "Callable[..., Events]"
    probe: "Callable[..., Probed]"


@dataclass(frozen=True, kw_only=True)
class ManifestKind(Kind):
    """A kind of manifest: the record that writers keep of a table's files.

    Attributes:
        read: (tables, context, source id) -> Claims, of all tables that have such a manifest.
        changes: (claims, tables, context) -> Changes since the claims were read.
        look_up: (table, clients, bucket, key) -> (answer, acts, reason) of one file, see `manifest.point`.
        probe: (table, clients), after the first file of the manifest was read; None: that file is enough.
        by_storage: claims need a storage snapshot; single files can be looked up without one.
        dates_claims: the `claimed_at` of a file is the time of the commit that added it.
        counts_rows: it records the rows of single files, which the live check compares.
        hides_rows: rows of a file may be deleted without a new file.
        root: how its tables are discovered among keys; None: they are not.
        state_files: which files of its log hold a state; None: no single file does.
        rank: if several formats share a location, the one with the least rank owns the files that none of them lists.
        advice: the format in whose terms findings advise, a key of `advice.format_advice.NAMES`; by default that of
            plain folders, without a log that could be repaired.
    """

    model: "type[ManifestSource]"
    read: "Callable[..., Claims]"
    changes: "Callable[..., Changes]"
    look_up: Callable[..., tuple[str, list[dict[str, Any]], str]]
    probe: Callable[..., None] | None = None
    by_storage: bool = False
    dates_claims: bool = False
    counts_rows: bool = False
    hides_rows: bool = False
    root: TableRoot | None = None
    state_files: StateFiles | None = None
    rank: int = 9
    advice: str = PLAIN
