"""Read Unity Catalog, the open one or that of a Databricks workspace: tables, their places and formats.

Format: the open API of Unity Catalog (`api/all.yaml`, version 2.1): catalogs, schemas and tables are listed page by
page, and the list of a schema's tables has the location of each. Views are left out, and so are, with a warning, tables
without a location. Without `max_results` a server may refuse to list, and 50 is its maximum for lists of tables.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime
from functools import partial

from lakeaudit.config import glob_to_regex
from lakeaudit.errors import SourceError
from lakeaudit.evidence.catalog import reading
from lakeaudit.evidence.catalog.http import (
    LACKS,
    NO_RIGHT,
    THREADS,
    CatalogClient,
    Json,
    all_items,
    not_understood,
)
from lakeaudit.evidence.catalog.names import name_of
from lakeaudit.evidence.catalog.protocol import CatalogTable, PartitionFilter, Pointers, folder_of, scheme_of
from lakeaudit.evidence.catalog.snapshot import (
    Names,
    any_name,
    no_partitions,
    or_gap,
    pointers_of,
    text_of,
    time_of,
)
from lakeaudit.evidence.catalog.unity import Unity
from lakeaudit.evidence.protocol import Clock, EvidenceGap, Probed, utc_now
from lakeaudit.formatting import number
from lakeaudit.keys import Aliases
from lakeaudit.runtime.connections.aws import Clients

BASE = "api/2.1/unity-catalog"
_PAGES = ("page_token", "next_page_token")
_AT_ONCE = "50"
_VIEWS = ("VIEW", "METRIC_VIEW")
"""Types that never have files."""
_WITH_FILES = ("MANAGED", "EXTERNAL", "MANAGED_SHALLOW_CLONE", "EXTERNAL_SHALLOW_CLONE", "")
"""Types that always have files, perhaps some outside their own place; other types have files if they have a place."""
_FORMATS = {"DELTA": "delta", "ICEBERG": "iceberg", "HUDI": "hudi"}
_PLAIN = ("PARQUET", "CSV", "JSON", "AVRO", "ORC", "TEXT", "HIVE", "HIVE_SERDE")


def list_tables(
    source: Unity,
    clients: Clients,
    source_id: str,
    wanted: PartitionFilter = no_partitions,  # noqa: ARG001 - it has no partitions
    clock: Clock = utc_now,
    names: Names = any_name,
) -> Pointers:
    """Return the tables of the selected catalogs whose names (catalog.schema.table) pass `names`.

    Raises:
        SourceError: the catalogs cannot be listed.
    """
    begun = clock()
    read = _Reading(source, source_id, clients.aliases)
    with ThreadPoolExecutor(THREADS) as pool:
        schemas = [each for found in pool.map(read.schemas, read.catalogs()) for each in found]
        tables = [each for found in pool.map(read.tables, schemas) for each in found]
    selected = [each for each in tables if names(each.name)]
    pointers = pointers_of(source, source_id, source.uri, (begun, clock()), selected, read.holes)
    return replace(pointers, warnings=tuple(_left_out(read.without_place, names)))


def _left_out(without_place: Mapping[str, list[str]], names: Names) -> Iterator[str]:
    """Yield one warning for each type of table that has no place in a store."""
    for type_, tables in sorted(without_place.items()):
        some = sorted(filter(names, tables))
        more = f" and {len(some) - NAMED} more" if len(some) > NAMED else ""
        if some:
            yield f"{type_} without a storage_location is left out: {', '.join(some[:NAMED])}{more}"


NAMED = 5
"""The most tables that a warning names."""


def probe(source: Unity, clients: Clients, now: datetime) -> Probed:  # noqa: ARG001 - one shape for all kinds
    """Check that the catalogs and the schemas of the first of them can be listed. Raises SourceError: they cannot."""
    read = _Reading(source, "", clients.aliases)
    found = read.catalogs()
    if not found:
        return Probed("names none of the selected catalogs", hint="grant USE CATALOG, or correct `catalogs`")
    read.schemas(found[0])
    if read.holes:
        reason = read.holes[0].reason
        hint = NO_RIGHT if LACKS in reason else "grant USE SCHEMA and BROWSE or SELECT"
        raise SourceError(source.name, reason, hint)
    return Probed(f"answers; {number(len(found), 'catalog')} can be listed")


class _Reading:
    """Reads a catalog once; `holes` collects its gaps."""

    def __init__(self, source: Unity, source_id: str, aliases: Aliases) -> None:
        self.source, self.id, self.aliases = source, source_id, aliases
        self.client = CatalogClient(source.access, f"{source.uri}/{BASE}")
        self.holes: list[EvidenceGap] = []
        self.without_place: dict[str, list[str]] = defaultdict(list)

    def catalogs(self) -> list[str]:
        """Return the names of the selected catalogs."""
        patterns = [glob_to_regex(glob) for glob in self.source.catalogs]
        names = self._names("catalogs")
        return [name for name in names if not patterns or any(re.fullmatch(p, name) for p in patterns)]

    def schemas(self, catalog: str) -> list[tuple[str, str]]:
        """Return (catalog, schema) of one catalog; the schema that describes the others has no files."""
        read = partial(self._names, "schemas", catalog_name=catalog)
        names = or_gap(self.holes, self.id, [catalog], read)
        return [(catalog, name) for name in names if name != "information_schema"]

    def tables(self, schema: tuple[str, str]) -> list[CatalogTable]:
        """Return the tables of one schema that have files."""
        return or_gap(self.holes, self.id, schema, lambda: list(self._tables(*schema)))

    def _tables(self, catalog: str, schema: str) -> Iterator[CatalogTable]:
        for each in self._items("tables", catalog_name=catalog, schema_name=schema, omit_columns="true"):
            type_, name = text_of(each.get("table_type")), name_of((catalog, schema, each["name"]))
            if type_ in _WITH_FILES or (type_ not in _VIEWS and text_of(each.get("storage_location"))):
                yield self._table(name, each)
            elif type_ not in _VIEWS:
                self.without_place[type_].append(name)

    def _table(self, name: str, entry: Json) -> CatalogTable:
        uri = text_of(entry.get("storage_location"))
        bucket, key = folder_of(uri, self.aliases)
        format_ = text_of(entry.get("data_source_format")).upper()
        known = _FORMATS.get(format_, "hive" if format_ in _PLAIN else "unknown")
        at = time_of(entry.get("updated_at"))
        return CatalogTable(self.id, name, bucket, key, known, updated_at=at, scheme=scheme_of(uri))

    def _names(self, what: str, **params: str) -> list[str]:
        return list(dict.fromkeys(each["name"] for each in self._items(what, **params)))

    def _items(self, what: str, **params: str) -> Iterator[Json]:
        """Yield the items of a list. Raises SourceError: an item has no name."""
        for each in all_items(self.client, what, _PAGES, what, max_results=_AT_ONCE, **params):
            if not isinstance(each, dict) or not text_of(each.get("name")):
                raise not_understood(self.client, what)
            yield each


def named_tables(source: Unity, clients: Clients, source_id: str, names: Names) -> Pointers:
    """Return the tables whose names pass, without partitions."""
    return list_tables(source, clients, source_id, names=names)


read = partial(reading.read, list_tables)
