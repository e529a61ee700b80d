"""Read catalogs that speak Iceberg's REST protocol: their tables, and the current metadata.json of each.

Format: the OpenAPI document of Iceberg's REST catalog (`open-api/rest-catalog-open-api.yaml`). Lists have only names,
so each selected table is loaded, if the catalog supports it without snapshots that no branch or tag refers to.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from urllib.parse import quote, unquote

from lakeaudit.errors import SourceError
from lakeaudit.evidence.catalog import reading
from lakeaudit.evidence.catalog.http import (
    THREADS,
    CatalogClient,
    Json,
    NotThere,
    Unsupported,
    all_items,
    not_understood,
)
from lakeaudit.evidence.catalog.iceberg_rest import IcebergRest
from lakeaudit.evidence.catalog.names import name_of, parts_of
from lakeaudit.evidence.catalog.protocol import CatalogTable, PartitionFilter, Pointers, folder_of
from lakeaudit.evidence.catalog.snapshot import (
    Names,
    any_name,
    listed,
    namespace_gap,
    no_partitions,
    or_gap,
    pointers_of,
    text_of,
    time_of,
)
from lakeaudit.evidence.protocol import Clock, EvidenceGap, Probed, utc_now
from lakeaudit.formatting import number
from lakeaudit.keys import Aliases
from lakeaudit.runtime.connections.aws import Clients

DEEPEST = 32
"""The most levels of namespaces that are read."""
_PAGES = ("pageToken", "next-page-token")
_AT_ONCE = "1000"
"""Names on a page, for catalogs that support a page size."""
_SEPARATOR = "%1F"
_PREFIX = re.compile(r"(?!.*(^|/)\.{0,2}(/|$))[A-Za-z0-9._~%:@!$&'()*+,;=|/-]+")

Namespace = tuple[str, ...]


def list_tables(
    source: IcebergRest,
    clients: Clients,
    source_id: str,
    wanted: PartitionFilter = no_partitions,  # noqa: ARG001 - Iceberg keeps its partitions itself
    clock: Clock = utc_now,
    names: Names = any_name,
) -> Pointers:
    """Return the tables of all namespaces that `names` selects: the others are not loaded.

    Raises:
        SourceError: the catalog cannot be read at all.
    """
    begun = clock()
    walk = _Walk(source, source_id)
    tables: list[CatalogTable] = []
    with ThreadPoolExecutor(THREADS) as pool:
        found_names = [each for found in pool.map(walk.tables, walk.namespaces(pool)) for each in found]
        chosen = [each for each in dict.fromkeys(found_names) if names(name_of(each))]
        tables += filter(None, pool.map(partial(walk.load_listed, clients.aliases), chosen))
    return pointers_of(source, source_id, source.uri, (begun, clock()), tables, walk.holes)


def current(
    source: IcebergRest, clients: Clients, source_id: str, names: Collection[str]
) -> Mapping[str, CatalogTable | SourceError]:
    """Return tables as the catalog has them now, by name, or why they cannot be read.

    Raises:
        SourceError: the catalog cannot be read at all.
    """
    walk = _Walk(source, source_id)
    load = partial(walk.load, clients.aliases)
    with ThreadPoolExecutor(THREADS) as pool:
        return dict(zip(names, pool.map(lambda name: _or_error(load, parts_of(name)), names), strict=True))


def probe(source: IcebergRest, clients: Clients, now: datetime) -> Probed:  # noqa: ARG001 - one shape for all kinds
    """Check that the catalog answers and lists its namespaces. Raises SourceError: it does not."""
    top = len(_Walk(source, "").children(()))
    return Probed(f"answers; {number(top, 'namespace')} at its top can be listed")


@dataclass(frozen=True)
class RestTable:
    """One table, for code that commits to it. Every method raises SourceError."""

    client: CatalogClient
    path: str

    @classmethod
    def opened(cls, source: IcebergRest, name: str) -> "RestTable":
        """Return the table of that name in the catalog."""
        walk = _Walk(source, "")
        return cls(walk.client, walk.path_of(parts_of(name)))

    def load(self) -> Json:
        """Return the whole `LoadTableResult`."""
        return self.client.get(self.path, snapshots="all")

    def commit(self, requirements: Sequence[Json], updates: Sequence[Json]) -> Json:
        """Commit, and return the `CommitTableResponse`. Raises Conflict: a requirement does not hold."""
        return self.client.post(self.path, {"requirements": list(requirements), "updates": list(updates)})


def _or_error(
    load: Callable[[Sequence[str]], CatalogTable], parts: Sequence[str]
) -> CatalogTable | SourceError:
    try:
        return load(parts)
    except SourceError as error:
        return error


class _Walk:
    """Reads a catalog once; `holes` collects its gaps."""

    def __init__(self, source: IcebergRest, source_id: str) -> None:
        self.source, self.id = source, source_id
        self.client = CatalogClient(source.access, source.uri)
        self.holes: list[EvidenceGap] = []
        config = self.client.get("v1/config", warehouse=source.warehouse)
        prefix = source.prefix or _setting(config, "prefix")
        if prefix and not _PREFIX.fullmatch(prefix):
            raise SourceError(source.name, "the catalog names a prefix that no path can have", "set `prefix`")
        self.root = f"v1/{prefix}/namespaces" if prefix else "v1/namespaces"
        self.separator = unquote(_setting(config, "namespace-separator") or _SEPARATOR)

    def namespaces(self, pool: ThreadPoolExecutor) -> list[Namespace]:
        """Return all namespaces, level by level."""
        found: list[Namespace] = []
        level = self.children(())
        while level:
            found += level
            if len(level[0]) == DEEPEST:
                reason = f"has namespaces more than {DEEPEST} levels deep"
                self.holes.append(namespace_gap(self.id, level[0], reason))
                break
            level = [each for below in pool.map(self._below, level) for each in below]
        return found

    def _below(self, namespace: Namespace) -> list[Namespace]:
        """Return the namespaces in one; none if the catalog does not nest them, or it was dropped since."""
        read = partial(self.children, namespace)
        return or_gap(self.holes, self.id, namespace, read, nothing=(NotThere, Unsupported))

    def children(self, parent: Namespace) -> list[Namespace]:
        """Return the namespaces directly below one, or at the top. A catalog may ignore `parent`, and name all."""
        named = self.separator.join(parent) if parent else None
        found: dict[Namespace, None] = {}
        for each in all_items(self.client, self.root, _PAGES, "namespaces", pageSize=_AT_ONCE, parent=named):
            child = _texts(each)
            if not child:
                raise not_understood(self.client, "namespaces")
            if child[:-1] == parent and self._speakable(child):
                found[child] = None
        return list(found)

    def tables(self, namespace: Namespace) -> list[Namespace]:
        """Return the names of the tables in a namespace."""
        return or_gap(self.holes, self.id, namespace, lambda: list(self._tables(namespace)))

    def _tables(self, namespace: Namespace) -> Iterator[Namespace]:
        path = f"{self.root}/{self._quoted(namespace)}/tables"
        for each in all_items(self.client, path, _PAGES, "identifiers", pageSize=_AT_ONCE):
            name = each.get("name") if isinstance(each, dict) else None
            if not isinstance(name, str):
                raise not_understood(self.client, "identifiers")
            if self._speakable((*namespace, name)):
                yield (*namespace, name)

    def load_listed(self, aliases: Aliases, parts: Namespace) -> CatalogTable | None:
        """Load a listed table; None if it was dropped since, or cannot be loaded, which adds an evidence gap."""
        try:
            return self.load(aliases, parts)
        except NotThere:
            return None
        except SourceError as error:
            self.holes.append(
                EvidenceGap(self.id, error.what, name_of(parts), hides="the table", retryable=error.retryable)
            )
            return None

    def load(self, aliases: Aliases, parts: Sequence[str]) -> CatalogTable:
        """Return one table as the catalog has it now.

        Raises:
            NotThere: there is no such table.
            SourceError: it cannot be loaded.
        """
        answer = self.client.get(self.path_of(parts), snapshots="refs")
        return _table(self.id, name_of(parts), answer, aliases)

    def path_of(self, parts: Sequence[str]) -> str:
        """Return the path of a table. Raises NotThere: no table can have this name."""
        *namespace, name = parts
        if not namespace or not _may_stand_in_a_path(parts):
            raise NotThere(
                self.source.name, "a table has a namespace and a name", "name it `namespace.table`"
            )
        return f"{self.root}/{self._quoted(namespace)}/tables/{quote(name, safe='')}"

    def _quoted(self, namespace: Sequence[str]) -> str:
        return quote(self.separator.join(namespace), safe="")

    def _speakable(self, parts: Sequence[str]) -> bool:
        if _may_stand_in_a_path(parts):
            return True
        self.holes.append(EvidenceGap(self.id, "no request can be made for such a name", name_of(parts)))
        return False


def _table(source_id: str, name: str, answer: Json, aliases: Aliases) -> CatalogTable:
    found = answer.get("metadata")
    metadata: Json = found if isinstance(found, dict) else {}
    bucket, key = folder_of(text_of(metadata.get("location")), aliases)
    return CatalogTable(
        source_id,
        name,
        bucket,
        key,
        "iceberg",
        metadata_location=text_of(answer.get("metadata-location")),
        partition_keys=tuple(_partition_keys(metadata)),
        updated_at=time_of(metadata.get("last-updated-ms")),
    )


def _partition_keys(metadata: Json) -> Iterator[str]:
    specs = [each for each in listed(metadata, "partition-specs") if isinstance(each, dict)]
    spec = next((each for each in specs if each.get("spec-id") == metadata.get("default-spec-id")), {})
    fields = (each for each in listed(spec, "fields") if isinstance(each, dict))
    yield from (text_of(each.get("name")) for each in fields)


def _setting(config: Json, name: str) -> str:
    """Return a setting of the catalog's configuration: its overrides count before its defaults."""
    blocks = (config.get(key) for key in ("overrides", "defaults"))
    values = (block.get(name) for block in blocks if isinstance(block, dict))
    return next((each for each in values if isinstance(each, str) and each), "")


def _may_stand_in_a_path(parts: Sequence[str]) -> bool:
    """Return whether a URL can have these parts: an empty part, `.` and `..` would name something else."""
    return all(part not in ("", ".", "..") and part.isprintable() for part in parts)


def _texts(value: object) -> Namespace:
    parts = value if isinstance(value, list) else []
    return tuple(parts) if all(isinstance(part, str) for part in parts) else ()


def named_tables(source: IcebergRest, clients: Clients, source_id: str, names: Names) -> Pointers:
    """Return the tables whose names pass, without partitions."""
    return list_tables(source, clients, source_id, names=names)


read = partial(reading.read, list_tables)
