"""Find other lists of files in a table's folder: another format's log at its root, and other tables of a catalog.

A second format (UniForm, XTable) has its own log over the same files, and may be some commits behind. Readers by
symlink manifests, or by the log of a streaming sink, use the files that these list. Two tables of a catalog may share
one location. Each is read as a table of its own, by the reader of its kind.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from lakeaudit.config import CatalogSource, Lake, ManifestSource, Pointer, Table, metastore_id
from lakeaudit.errors import SourceError
from lakeaudit.evidence.catalog.protocol import CatalogTable
from lakeaudit.evidence.catalog.reading import named_tables
from lakeaudit.evidence.catalog.snapshot import any_name
from lakeaudit.evidence.files import list_files
from lakeaudit.evidence.registry import MANIFESTS, list_folders, roots
from lakeaudit.keys import Location
from lakeaudit.runtime.connections.aws import Clients

PLAIN = "hive"
"""The format of tables of catalogs whose readers list folders, see `catalog.protocol.FORMATS`."""
OWN_CLEANER = (
    "files of a Hudi table are left to its own cleaner: an archived timeline may name less than there is"
)


@dataclass(frozen=True)
class OtherListers:
    """Tables that are read only for the files that they list.

    `of` maps the name of each to a table of the lake file; `unknown` has, by table of the lake file, the reason why
    some lists of its files are not known or cannot be read. `folders` are plain tables of catalogs, with the reason why
    their readers may use every file below their location.
    """

    tables: tuple[Table, ...] = ()
    of: Mapping[str, str] = field(default_factory=dict)
    unknown: Mapping[str, str] = field(default_factory=dict)
    folders: tuple[tuple[Location, str], ...] = ()


def declares(tables: Collection[Table], root: Location, kind: str) -> bool:
    """Return whether the lake file names the log of that format at a root, which several of its tables may share."""
    folder = root.join(_folder(kind))
    here = [manifest for table in tables if table.location == root for manifest in table.manifests]
    return any(each.kind == kind and all(folder.contains(place) for place in each.places) for each in here)


def _folder(kind: str) -> str:
    return list_folders().get(kind) or roots()[kind].folder


def by_log(table: Table, kind: str) -> Table:
    """Return the table as the log of another format at its root describes it."""
    name = f"{table.name} by its {_folder(kind)}"
    manifest = MANIFESTS[kind].model(kind=kind, complete=True)
    return table.model_copy(update={"name": name, "manifests": (manifest,), "also": ()})


def other_listers(lake: Lake, tables: Sequence[Table], clients: Clients) -> OtherListers:
    """Return all lists of files in these tables' folders that are not manifests of the lake file.

    It costs a request for each format that a table does not declare, and one listing of each catalog.
    """
    listers: dict[str, tuple[Table, str]] = {}
    unknown: dict[str, str] = {}
    for table in tables:
        try:
            for kind in _logs_at(table, lake.tables, clients):
                found = by_log(table, kind)
                listers[found.name] = found, table.name
                if MANIFESTS[kind].model.has_own_cleaner:
                    unknown[table.name] = f"{found.name}: {OWN_CLEANER}"
        except SourceError as error:
            unknown[table.name] = f"whether another format's log lies at its root is not known: {error.what}"
    folders: dict[Location, str] = {}
    for store, possible, named in _catalogs(lake, tables, clients, unknown):
        for table in possible:
            for found in by_tables(table, named, lake.tables, store):
                listers.setdefault(found.name, (found, table.name))
            folders |= _plain_folders(table, named, lake.tables, store)
    return OtherListers(
        tuple(found for found, _ in listers.values()),
        {name: owner for name, (_, owner) in listers.items()},
        unknown,
        tuple(folders.items()),
    )


def _logs_at(table: Table, known: Collection[Table], clients: Clients) -> Iterator[str]:
    """Yield formats whose log lies at the table's root, and that the lake file does not name there."""
    for kind, root in roots().items():
        if not declares(known, table.location, kind):
            files = list_files(clients, table.location.join(root.folder), flat=root.proof is not None)
            if any(root.proof is None or root.proof(file.name) for file in files):
                yield kind
    for kind, folder in list_folders().items():
        if not declares(known, table.location, kind):
            files = list_files(clients, table.location.join(folder))
            if any(not file.name.startswith((".", "_")) for file in files):
                yield kind


def _catalogs(
    lake: Lake, tables: Sequence[Table], clients: Clients, unknown: dict[str, str]
) -> Iterator[tuple[CatalogSource, list[Table], Sequence[CatalogTable]]]:
    """Yield every catalog with the tables of the lake file that it may name, and its own tables."""
    for number, store in enumerate(lake.metastores):
        possible = [t for t in tables if isinstance(store, CatalogSource) and _may_name(store, t)]
        if possible and isinstance(store, CatalogSource):
            named, why = _catalog_tables(store, clients, metastore_id(number))
            unknown |= {table.name: f"{store.name}: {why}" for table in possible if why}
            yield store, possible, named


def _plain_folders(
    table: Table, others: Sequence[CatalogTable], known: Collection[Table], store: CatalogSource
) -> Iterator[tuple[Location, str]]:
    """Yield the locations of plain tables of a catalog around files of a table, if the lake file does not name them."""
    by_folder = {each.location for each in known if each.read_by_folder}
    for other in others:
        place = other.location
        if (
            other.format != PLAIN
            or place is None
            or place in by_folder
            or not _overlap(place, table.location)
        ):
            continue
        yield place, f"readers of {other.name} of {store.word} use every file below {place.uri}"


def by_tables(
    table: Table, others: Sequence[CatalogTable], known: Collection[Table], store: CatalogSource
) -> list[Table]:
    """Return the tables of a catalog whose files may lie in a table's folder, and that the lake file does not name."""
    meeting = [each for each in others if _meets(table, each) and not is_known(known, each)]
    return [by_catalog(table, each, store) for each in meeting]


def _catalog_tables(
    store: CatalogSource, clients: Clients, source_id: str
) -> tuple[Sequence[CatalogTable], str]:
    """Return the tables of a catalog, and the reason why these may not be all."""
    try:
        pointers = named_tables(store, clients, source_id, any_name)
    except SourceError as error:
        return (), error.what
    return pointers.tables, pointers.holes[0].reason if pointers.holes else ""


def _may_name(store: CatalogSource, table: Table) -> bool:
    inside = store.location
    return inside is None or inside.contains(table.location) or table.location.contains(inside)


def _meets(table: Table, other: CatalogTable) -> bool:
    """Return whether another table's files may lie in the table's folder."""
    place = other.location
    return place is not None and other.format in roots() and _overlap(place, table.location)


def _overlap(one: Location, other: Location) -> bool:
    return one.contains(other) or other.contains(one)


def is_known(tables: Collection[Table], other: CatalogTable) -> bool:
    """Return whether a manifest of the lake file is read from the state that the catalog names."""
    if any(_points_at(each, other) for table in tables for each in table.manifests):
        return True
    place = other.location
    by_catalog = MANIFESTS[other.format].model.is_named_by_catalogs
    return not by_catalog and place is not None and declares(tables, place, other.format)


def _points_at(manifest: ManifestSource, other: CatalogTable) -> bool:
    return any(
        (pointer.source_id, pointer.name.lower()) == (other.catalog, other.name.lower())
        for pointer in manifest.catalog_pointers
    )


def by_catalog(table: Table, other: CatalogTable, store: CatalogSource) -> Table:
    """Return a table of a catalog with the settings of another table."""
    pointer = Pointer(store=store, source_id=other.catalog, name=other.name)
    manifest = MANIFESTS[other.format].model(kind=other.format).pointed((pointer,))
    name = f"{other.name} of {store.word}"
    place = other.location or Location(other.bucket, other.key)
    return table.model_copy(update={"name": name, "location": place, "manifests": (manifest,), "also": ()})
