"""Discover the inventories below one place, and the tables in catalogs and inventories, that a lake file describes.

In an inventory a table is a folder with a commit or checkpoint of a Delta log, a metadata.json of Iceberg, or a
hoodie.properties of Hudi. The audit reads only the key columns of S3's inventories for this, and lists no bucket.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice

from lakeaudit.config import Discovery, Lake, StorageSource, Table, glob_to_regex
from lakeaudit.errors import SourceError
from lakeaudit.evidence import registry
from lakeaudit.evidence.catalog.find_tables import DiscoveredTables, find_tables, printable
from lakeaudit.evidence.files import folders, list_files
from lakeaudit.evidence.kind import TableRoot
from lakeaudit.evidence.protocol import Context, EvidenceGap, Part, SourceInfo, Stored, in_places
from lakeaudit.evidence.storage.inventory.read_file import DataFileReader
from lakeaudit.keys import Location
from lakeaudit.runtime import duck
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.duck import task_connection

Roots = Mapping[Location, Collection[str]]
"""Folders that are tables, with their formats."""
NAMED = 10


@dataclass(frozen=True)
class Described:
    """A lake whose inventories and tables are all known.

    `gaps` are reasons why tables may have been missed; without gaps, a table that was not found does not exist any
    more. `infos` and `holes` are those of the catalogs that were read; the audit reads inventories again. `left_out`
    are tables in inventories that `exclude` or `formats` of `discover` leave out, if they were requested.
    """

    lake: Lake
    warnings: tuple[str, ...] = ()
    gaps: tuple[str, ...] = ()
    infos: tuple[SourceInfo, ...] = ()
    holes: tuple[EvidenceGap, ...] = ()
    left_out: tuple[Table, ...] = ()


def described(lake: Lake, ctx: Context, *, everything: bool = False) -> Described:
    """Return the lake with every inventory that `expand` describes and every table that `discover` describes.

    `everything`: also return the tables that `discover` leaves out.
    """
    lake, warnings = expanded(lake, ctx.clients)
    in_catalogs = find_tables(lake, ctx.clients)
    lake = with_tables(lake, in_catalogs)
    warnings, gaps = (*warnings, *in_catalogs.warnings), tuple(in_catalogs.gaps)
    left_out: list[Table] = []
    if lake.discoveries:
        selecting = lake.discoveries
        lake, roots, missed = table_roots(selecting_all(lake) if everything else lake, ctx)
        every = tables_at(lake, roots)[0] if everything else []
        lake = _selecting_as(lake, selecting)
        tables, doubts = tables_at(lake, roots)
        left_out = [each for each in every if each.location not in {table.location for table in tables}]
        lake = lake.model_copy(update={"tables": (*lake.tables, *tables)})
        warnings, gaps = (*warnings, *doubts), (*gaps, *missed)
    told = (*warnings, *(f"tables may be missed: {gap}" for gap in gaps))
    infos, holes = tuple(in_catalogs.infos.values()), tuple(in_catalogs.holes)
    return Described(lake, told, gaps, infos, holes, tuple(left_out))


def selecting_all(lake: Lake) -> Lake:
    """Return the lake with discoveries that leave no table out."""
    everything = {"exclude": (), "formats": tuple(registry.formats())}
    wide = tuple(each.model_copy(update=everything) for each in lake.discoveries)
    return lake.model_copy(update={"discoveries": wide})


def _selecting_as(lake: Lake, discoveries: Sequence[Discovery]) -> Lake:
    """Return the lake with discoveries that select the tables that these select."""
    selected = tuple(
        each.model_copy(update={"exclude": by.exclude, "formats": by.formats})
        for each, by in zip(lake.discoveries, discoveries, strict=True)
    )
    return lake.model_copy(update={"discoveries": selected})


def with_tables(lake: Lake, found: DiscoveredTables) -> Lake:
    """Return the lake with the tables that catalogs name, and with the catalogs' names of its own tables."""
    if not found.tables and not found.declared:
        return lake
    named = (
        table.model_copy(update={"also": (*table.also, *found.declared[table.name]), "catalogued": True})
        if table.name in found.declared
        else table
        for table in lake.tables
    )
    return lake.model_copy(update={"tables": (*named, *found.tables)})


def expanded(lake: Lake, clients: Clients) -> tuple[Lake, tuple[str, ...]]:
    """Return the lake with one inventory for each `<bucket>/<configuration>/` below an inventory with `expand`."""
    sources: list[StorageSource] = []
    warnings: list[str] = []
    for source in lake.inventories:
        expand = registry.STORAGE[source.kind].expand
        if expand is None or not source.expands:
            sources.append(source)
            continue
        try:
            below = list(expand(source, clients))
        except SourceError:
            below = []  # the reader of the source meets the same failure and reports it
        if not below:
            warnings.append(
                f"{source.location.uri} has no folder <source bucket>/<configuration>/, so `expand` finds no report"
            )
        sources += below or [source]
    return lake.model_copy(update={"inventories": tuple(sources)}), tuple(warnings)


def table_roots(lake: Lake, ctx: Context) -> tuple[Lake, Roots, tuple[str, ...]]:
    """Return the lake, the folders that are tables, and the failures, of all inventories that may name such folders.

    In the returned lake every pattern of `under` is replaced by the buckets that match it.
    """
    read, gaps = _readable(lake, ctx)
    buckets = {cover.bucket for stored in read for cover in stored.covers}
    gaps += unmatched(lake, buckets)
    lake = lake.among(buckets)
    wanted = tuple(place for each in lake.discoveries for place in each.under)
    formats = [each for each in registry.formats() if any(each in by.formats for by in lake.discoveries)]
    roots: dict[Location, set[str]] = defaultdict(set)
    covers: list[Location] = []
    parts: list[Part] = []
    for stored in read:
        if any(cover.contains(place) or place.contains(cover) for cover in stored.covers for place in wanted):
            gaps += [f"{hole.subject or stored.info.location}: {hole.reason}" for hole in stored.holes]
            covers += stored.covers
            parts += stored.rows if isinstance(stored.rows, tuple) else ()
    gaps += [f"no inventory covers {each.uri}" for each in wanted if not _covered(each, covers)]
    for found, unread in ctx.engine.map(
        partial(_roots_in, wanted, formats), parts, sum(part.weight for part in parts)
    ):
        for bucket, key, format_ in found:
            roots[Location(bucket, key)].add(format_)
        gaps += unread
    return lake, roots, tuple(gaps)


def _readable(lake: Lake, ctx: Context) -> tuple[list[Stored], list[str]]:
    """Return the inventories that can be read, and why the others cannot."""
    read: list[Stored] = []
    gaps: list[str] = []
    for number, source in enumerate(lake.inventories):
        if registry.STORAGE[source.kind].finds_tables:
            try:
                read.append(registry.STORAGE[source.kind].read(source, ctx, f"storage:{number}"))
            except SourceError as error:
                gaps.append(str(error))
    return read, gaps


def unmatched(lake: Lake, buckets: Collection[str]) -> list[str]:
    """Return a message for each pattern that matches none of these buckets."""
    return [
        f"no inventory is of a bucket that {place.uri} matches"
        for each in lake.discoveries
        for place in each.patterns
        if not each.places_in(place, buckets)
    ]


def _covered(place: Location, covers: Sequence[Location]) -> bool:
    return any(cover.contains(place) for cover in covers)


def _roots_in(
    places: Sequence[Location], wanted: Sequence[str], part: Part
) -> tuple[list[tuple[str, str, str]], list[str]]:
    """Return (bucket, key, format) of the tables in one data file, and its read failures. It runs in tasks."""
    read = part.read
    if isinstance(read, DataFileReader):
        read = replace(read, layout=read.layout.names_only)
    found: set[tuple[str, str, str]] = set()
    roots = _roots_sql(wanted)
    unread: list[str] = []
    with task_connection() as con:
        for kind, rows in read(con):
            if kind == "notes":
                unread += [f"{n['subject']}: {n['reason']}" for n in duck.rows_of(rows) if n["reason"]]
            elif kind == "versions":
                found |= {
                    (row["bucket"], row["root"] or "", row["format"])
                    for row in duck.rows_of(duck.query(con, roots, rows=rows))
                }
    return [each for each in found if in_places(places, each[0], f"{each[1]}/")], unread


def _roots_sql(wanted: Sequence[str]) -> str:
    """Return SQL of the table roots to which current files belong, by format."""
    formats, roots = "", ""
    for format_ in wanted:
        folder, regex = _root_of(format_).folder, _root_of(format_).pattern
        matches = (
            f"contains(key, {duck.literal(f'{folder}/')}) AND regexp_matches(key, {duck.literal(regex)})"
        )
        formats += f" WHEN {matches} THEN {duck.literal(format_)}"
        roots += f" WHEN {duck.literal(format_)} THEN regexp_extract(key, {duck.literal(regex)}, 1)"
    named = (
        f"SELECT bucket, key, CASE{formats} END AS format FROM rows WHERE is_latest AND NOT is_delete_marker"
    )
    return f"SELECT DISTINCT bucket, format, CASE format{roots} END AS root FROM ({named}) WHERE format IS NOT NULL"


def tables_at(lake: Lake, roots: Roots) -> tuple[list[Table], list[str]]:
    """Return the tables at these roots that the lake file does not name, and warnings about their names."""
    lake = lake.among({root.bucket for root in roots})
    named = {table.location for table in lake.tables}
    found: dict[Location, tuple[str, str, Discovery]] = {}
    formats: dict[Location, str] = {}
    for root in sorted(set(roots) - named):
        if lake.results.contains(root) or registry.reserved_folders() & {*root.key.split("/")}:
            continue
        for by in lake.discoveries:
            under = max((p for p in by.under if p.contains(root)), key=lambda p: p.depth, default=None)
            format_ = _format(by, roots[root])
            if format_ and under is not None and not _excluded(by, under, root):
                formats[root] = format_
                found[root] = (_name(by.name, under, root), _name(None, under, root), by)
                break
    names, doubts = _distinct(found, {name for table in lake.tables for name in (table.name, *table.also)})
    return [
        lake.found_table(names[root], root, by, formats[root]) for root, (_, _, by) in found.items()
    ], doubts


def discovery_of(lake: Lake, root: Location) -> Discovery | None:
    """Return the discovery that would find a table at a folder."""
    for by in lake.discoveries:
        under = max((p for p in by.under if p.contains(root)), key=lambda p: p.depth, default=None)
        if under is not None and not _excluded(by, under, root):
            return by
    return None


def _format(by: Discovery, known: Collection[str]) -> str | None:
    """Return the format of a root: a Delta table with Iceberg metadata next to its log (UniForm) is a Delta table."""
    return next((each for each in registry.formats() if each in by.formats and each in known), None)


def _name(template: str | None, under: Location, root: Location) -> str:
    """Return a name from the folders below `under`: the whole path if the template counts more folders than exist."""
    parts = [part for part in root.key[len(under.prefix) :].split("/") if part]
    whole = ".".join(parts) or root.key.rpartition("/")[2] or root.bucket
    if template is None or not parts:
        return printable(whole)
    wanted = [int(number) for number in re.findall(r"\{([0-9]+)\}", template)]
    if max(wanted) > len(parts):
        return printable(whole)
    return printable(re.sub(r"\{([0-9]+)\}", lambda at: parts[int(at[1]) - 1], template))


def _excluded(by: Discovery, under: Location, root: Location) -> bool:
    below = root.key[len(under.prefix) :]
    texts = (below, f"{below}/", _name(by.name, under, root))
    return any(re.search(glob_to_regex(pattern), text) for pattern in by.exclude for text in texts)


def _distinct(
    found: dict[Location, tuple[str, str, Discovery]], taken: Collection[str]
) -> tuple[dict[Location, str], list[str]]:
    """Return a name for each root; roots that would share a name get their whole paths, or else their URIs."""
    names = {root: short for root, (short, _, _) in found.items()}
    shared = _shared(names, taken)
    names |= {root: found[root][1] for root, name in names.items() if name in shared}
    again = _shared(names, taken)
    names |= {root: root.uri.rstrip("/") for root, name in names.items() if name in again}
    few = ", ".join(sorted(shared)[:NAMED])
    doubts = [f"several tables would be called {few}: they go by their whole path"] if shared else []
    return names, doubts


def _shared(names: dict[Location, str], taken: Collection[str]) -> set[str]:
    counted = Counter(names.values())
    return {name for name, times in counted.items() if times > 1 or name in taken}


def root_around(lake: Lake, clients: Clients, bucket: str, key: str) -> Roots:
    """Return the nearest folder around a key that is a table now; it takes one or two requests for each folder.

    Only folders below the places of `discover` are checked.
    """
    place = Location(bucket, key.rpartition("/")[0])
    lake = lake.among([bucket])
    while any(under.contains(place) for each in lake.discoveries for under in each.under):
        if not registry.reserved_folders() & {*place.key.split("/")} and (
            formats := formats_of(clients, place)
        ):
            return {place: formats}
        if not place.key:
            return {}
        place = Location(bucket, place.key.rpartition("/")[0])
    return {}


def formats_of(clients: Clients, place: Location, names: Collection[str] | None = None) -> tuple[str, ...]:
    """Return the formats of which a folder is a table now; `names` are the folders in it, where they are known."""
    below = folders(clients, place) if names is None else names
    return tuple(each for each in registry.formats() if _is_root(clients, place, _root_of(each), below))


def _is_root(clients: Clients, place: Location, root: TableRoot, below: Collection[str]) -> bool:
    if root.folder not in below or root.proof is None:
        return root.folder in below
    files = list_files(clients, place.join(root.folder), flat=True)
    return any(root.proof(file.name) for file in islice(files, _MOST_NAMES))


def _root_of(format_: str) -> TableRoot:
    return registry.roots()[format_]


_MOST_NAMES = 10_000
"""The number of names that are checked in a folder whose own name does not prove a table."""
