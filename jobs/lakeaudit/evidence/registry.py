"""The kinds of evidence that this installation has, by role and name.

A kind of lakeaudit is a line of `BUILT_IN`. A kind of another package is an entry point of the group `lakeaudit.kinds`,
whose value is the kind's object; a program may also `register` one. All are loaded when the first kind is looked up.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from threading import Event, RLock
from types import MappingProxyType
from typing import Any, Generic, TypeVar, get_args

from lakeaudit.errors import CannotAudit
from lakeaudit.evidence.kind import (
    CatalogKind,
    Deferred,
    EventsKind,
    Kind,
    ManifestKind,
    MetastoreKind,
    RowKind,
    StateFiles,
    StorageKind,
    TableRoot,
)

GROUP = "lakeaudit.kinds"
"""The group of entry points."""

BUILT_IN = (
    # storage
    "lakeaudit.evidence.storage.inventory:KIND",
    "lakeaudit.evidence.storage.gcs_inventory:KIND",
    "lakeaudit.evidence.storage.azure_inventory:KIND",
    "lakeaudit.evidence.storage.s3_metadata:KIND",
    "lakeaudit.evidence.storage.listing:KIND",
    # metadata stores and catalogs
    "lakeaudit.evidence.metastore.s3guard:KIND",
    "lakeaudit.evidence.metastore.delta_log_store:KIND",
    "lakeaudit.evidence.metastore.emrfs:KIND",
    "lakeaudit.evidence.metastore.s3mper:KIND",
    "lakeaudit.evidence.catalog.iceberg_rest:KIND",
    "lakeaudit.evidence.catalog.glue:KIND",
    "lakeaudit.evidence.catalog.hive:KIND",
    "lakeaudit.evidence.catalog.unity:KIND",
    # events
    "lakeaudit.evidence.events.access_log:KIND",
    "lakeaudit.evidence.events.cloudtrail:KIND",
    "lakeaudit.evidence.events.journal:KIND",
    # manifests
    "lakeaudit.evidence.manifest.delta:KIND",
    "lakeaudit.evidence.manifest.iceberg:KIND",
    "lakeaudit.evidence.manifest.hudi:KIND",
    "lakeaudit.evidence.manifest.file_list:KIND",
    "lakeaudit.evidence.manifest.spark_event_log:KIND",
    "lakeaudit.evidence.manifest.previous:KIND",
    "lakeaudit.evidence.manifest.committers:S3A",
    "lakeaudit.evidence.manifest.committers:MANIFEST",
    "lakeaudit.evidence.manifest.spark_sink:KIND",
    "lakeaudit.evidence.manifest.symlink:KIND",
    "lakeaudit.evidence.manifest.redshift_unload:KIND",
    "lakeaudit.evidence.manifest.databricks_commits:KIND",
    "lakeaudit.evidence.manifest.replica_source:LISTING",
    "lakeaudit.evidence.manifest.replica_source:INVENTORY",
)
"""The kinds of lakeaudit, in the order in which documents and commands list them."""

K = TypeVar("K", bound=Kind)


class Kinds(Mapping[str, K], Generic[K]):
    """The kinds of one role by name."""

    def __init__(self, role: type[K]) -> None:
        self.role = role
        self._by_name: dict[str, K] = {}

    def __getitem__(self, name: str) -> K:
        _load()
        return self._by_name[name]

    def __iter__(self) -> Iterator[str]:
        _load()
        return iter(self._by_name)

    def __len__(self) -> int:
        _load()
        return len(self._by_name)

    def add(self, kind: K) -> None:
        if self._by_name.setdefault(kind.name, kind) is not kind:
            raise CannotAudit(f"kind {kind.name}", "two packages register it", "uninstall one of them")

    def discard(self, kind: Kind) -> None:
        self._by_name.pop(kind.name, None)


STORAGE = Kinds(StorageKind)
METASTORES: Kinds[MetastoreKind] = Kinds(MetastoreKind)
EVENTS = Kinds(EventsKind)
MANIFESTS = Kinds(ManifestKind)
ROLES: Mapping[str, Kinds[StorageKind] | Kinds[MetastoreKind] | Kinds[EventsKind] | Kinds[ManifestKind]] = {
    "inventories": STORAGE,
    "metastores": METASTORES,
    "events": EVENTS,
    "manifests": MANIFESTS,
}
"""The kinds by the block of the lake file that names them."""


def register(*kinds: Kind) -> None:
    """Add kinds to those of this process.

    Raises:
        CannotAudit: one of them has no role, or its name is taken by another kind of its role.
    """
    _load()
    for kind in kinds:
        _add(kind)
    _forget()


def unregister(*kinds: Kind) -> None:
    """Remove kinds that were registered."""
    for kind in kinds:
        for role in ROLES.values():
            if isinstance(kind, role.role):
                role.discard(kind)
    _forget()


def _add(kind: Kind) -> None:
    if isinstance(kind, MetastoreKind) and kind.model.knows_tables and not isinstance(kind, CatalogKind):
        raise CannotAudit(f"kind {kind.name}", "its model is that of a catalog", "describe it by CatalogKind")
    for role in ROLES.values():
        if isinstance(kind, role.role):
            if get_args(kind.model.model_fields["kind"].annotation) != (kind.name,):
                what = f"the `kind` of its model is not Literal[{kind.name!r}]"
                raise CannotAudit(f"kind {kind.name}", what, "correct the annotation")
            role.add(kind)  # type: ignore[arg-type]
            return
    what = "is not a StorageKind, MetastoreKind, CatalogKind, EventsKind or ManifestKind"
    raise CannotAudit(f"kind {getattr(kind, 'name', kind)!r}", what, "see docs/add-a-kind.md")


_LOCK = RLock()
_BEGUN, _DONE = Event(), Event()


def _load() -> None:
    """Load all kinds once; while they load, the module of a kind sees only the kinds that were loaded before it."""
    if _DONE.is_set():
        return
    with _LOCK:
        if _BEGUN.is_set():
            return
        _BEGUN.set()
        try:
            _load_all()
        except BaseException:
            _BEGUN.clear()
            raise
        _DONE.set()


def _load_all() -> None:
    for target in BUILT_IN:
        module, _, name = target.partition(":")
        _add(getattr(import_module(module), name))
    for entry in entry_points(group=GROUP):
        _add(imported(entry))


def imported(entry: EntryPoint, noun: str = "kind") -> Any:
    """Return the object of an entry point. Raises CannotAudit, with the name of its package."""
    try:
        return entry.load()
    except Exception as error:
        package = entry.dist.name if entry.dist else entry.value
        what = f"its {noun} {entry.name} cannot be imported: {type(error).__name__}: {error}"
        raise CannotAudit(
            f"package {package}", what, "install another version of it, or uninstall it"
        ) from error


def import_readers() -> None:
    """Import every function of every kind, for a process from which workers are forked.

    A function that cannot be imported fails where it is called, and not here.
    """
    for role in ROLES.values():
        for kind in role.values():
            for each in vars(kind).values():
                with suppress(ImportError):
                    _ = each.function if isinstance(each, Deferred) else each


def _forget() -> None:
    for computed in (
        row_kinds,
        state_kinds,
        original_kinds,
        roots,
        list_folders,
        state_files,
        reserved_folders,
    ):
        computed.cache_clear()


@cache
def row_kinds() -> Mapping[str, RowKind]:
    """Return the kinds of row that readers emit in addition to those of their role, by name."""
    known: dict[str, RowKind] = {}
    for role in ROLES.values():
        for kind in role.values():
            for name, row in kind.rows.items():
                if known.setdefault(name, row) != row:
                    what = f"another kind routes rows {name!r} differently"
                    raise CannotAudit(f"kind {kind.name}", what, "give the rows a name of their own")
    return MappingProxyType(known)


@cache
def state_kinds() -> tuple[str, ...]:
    """Return the manifests that define a table's current state; the others list what was written once."""
    return tuple(name for name, kind in MANIFESTS.items() if kind.model.is_state)


@cache
def original_kinds() -> tuple[str, ...]:
    """Return the manifests that are other places, of which a table should be a copy."""
    return tuple(name for name, kind in MANIFESTS.items() if kind.model.is_original)


def kinds_named_by_catalogs() -> tuple[str, ...]:
    """Return the manifests whose newest state is named by catalogs."""
    return tuple(name for name, kind in MANIFESTS.items() if kind.model.is_named_by_catalogs)


def snapshot_kinds() -> tuple[str, ...]:
    """Return the manifests that are the storage snapshot of the last audit."""
    return tuple(name for name, kind in MANIFESTS.items() if kind.model.is_snapshot)


@cache
def roots() -> Mapping[str, TableRoot]:
    """Return by format how its tables are discovered among keys; the first format of a table counts."""
    return MappingProxyType({name: kind.root for name, kind in MANIFESTS.items() if kind.root is not None})


@cache
def list_folders() -> Mapping[str, str]:
    """Return by kind the folder below a table in which it lists files for readers, for kinds that show no root."""
    shown = {name: kind.model for name, kind in MANIFESTS.items() if kind.root is None}
    return MappingProxyType(
        {name: model.folder for name, model in shown.items() if model.is_state and model.folder is not None}
    )


@cache
def state_files() -> Mapping[str, StateFiles]:
    """Return by format which files of a log hold a state; the first format that matches a key counts."""
    ranked = sorted(MANIFESTS.values(), key=lambda kind: -kind.rank)
    return MappingProxyType({kind.name: kind.state_files for kind in ranked if kind.state_files is not None})


def commit_formats() -> tuple[str, ...]:
    """Return the formats whose state files are commits with a content that can be compared."""
    return tuple(name for name, files in state_files().items() if files.are_commits)


def dated_kinds() -> tuple[str, ...]:
    """Return the manifests that give each file the time of the commit that added it."""
    return tuple(name for name, kind in MANIFESTS.items() if kind.dates_claims)


def formats() -> tuple[str, ...]:
    """Return the formats whose tables are discovered."""
    return tuple(roots())


def format_rank(kind: str) -> tuple[int, str]:
    """Return the rank of a format: at a shared location the least owns the files that no format lists.

    Hudi's readers also read files that no state lists, so its rules cover most of these files.
    """
    return (MANIFESTS[kind].rank if kind in MANIFESTS else ManifestKind.rank), kind


def catalog_kinds() -> Mapping[str, CatalogKind]:
    """Return the metadata stores that are catalogs of tables."""
    return {name: kind for name, kind in METASTORES.items() if isinstance(kind, CatalogKind)}


def catalog(name: str) -> CatalogKind:
    """Return the catalog kind of that name; raises KeyError for an unknown name."""
    return catalog_kinds()[name]


def listing_catalogs() -> tuple[str, ...]:
    """Return the catalogs in which tables are discovered."""
    return tuple(name for name, kind in catalog_kinds().items() if kind.list_tables is not None)


def counting_kinds() -> tuple[str, ...]:
    """Return the manifests that record the rows of single files."""
    return tuple(name for name, kind in MANIFESTS.items() if kind.counts_rows)


def row_hiding_kinds() -> tuple[str, ...]:
    """Return the manifests that may delete rows of a file without replacing it."""
    return tuple(name for name, kind in MANIFESTS.items() if kind.hides_rows)


def report_kinds() -> tuple[str, ...]:
    """Return the kinds of storage among whose keys tables are discovered."""
    return tuple(name for name, kind in STORAGE.items() if kind.finds_tables)


@cache
def reserved_folders() -> frozenset[str]:
    """Return the folders of tables below which no other table is discovered."""
    return frozenset(root.folder for root in roots().values() if root.reserved)
