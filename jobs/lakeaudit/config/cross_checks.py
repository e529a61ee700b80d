"""Check the blocks of a lake file against each other on the plain data, so that all problems are reported at once.

Each check takes the data as written, valid or not, and skips invalid values, which the models report.
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from typing import Any

from lakeaudit.config.parsers import parse_origin
from lakeaudit.config.problems import ConfigProblem, Path, quoted, suggest
from lakeaudit.config.sources.base import location_of
from lakeaudit.evidence import registry
from lakeaudit.keys import Location

Data = dict[str, object]


def check(data: Data) -> list[ConfigProblem]:
    """Return every problem between the blocks of a file."""
    return list(chain.from_iterable(each(data) for each in CHECKS))


def _listed(block: object) -> list[object]:
    return block if isinstance(block, list) else []


def _entries(data: Data, key: str, path: Path = ()) -> Iterator[tuple[Path, Data]]:
    """Yield the mappings of a list, each with its path."""
    for index, entry in enumerate(_listed(data.get(key))):
        if isinstance(entry, dict):
            yield (*path, key, index), entry


def _origin(entry: Data) -> Location | None:
    value = entry.get("from")
    try:
        return parse_origin(value) if isinstance(value, str) else None
    except ValueError:
        return None


def _kinded(data: Data) -> Iterator[tuple[Path, str, object]]:
    """Yield path, block and entry of every entry that needs a kind."""
    for block in ("inventories", "metastores", "events", "alerts"):
        for index, entry in enumerate(_listed(data.get(block))):
            yield (block, index), block, entry
    for path, table in _entries(data, "tables"):
        for index, entry in enumerate(_listed(table.get("manifests"))):
            yield (*path, "manifests", index), "manifests", entry


ALERTS = ("apprise", "alertmanager", "sns", "webhook")


def _kind_names(block: str) -> tuple[str, ...]:
    """Return the kinds of a block that this installation has."""
    return tuple(registry.ROLES[block]) if block in registry.ROLES else ALERTS


def kinds(data: Data) -> Iterator[ConfigProblem]:
    """Find entries without a kind or of an unknown kind."""
    for path, block, entry in _kinded(data):
        if not isinstance(entry, dict):
            first = _kind_names(block)[0]
            yield ConfigProblem(path, "must be a mapping with a kind", f"write {{kind: {first}, ...}}")
        elif "kind" not in entry:
            yield ConfigProblem(path, "'kind' is missing", suggest("", _kind_names(block)))
        elif (kind := entry["kind"]) not in _kind_names(block):
            yield ConfigProblem(path, f"unknown kind {quoted(kind)}", suggest(kind, _kind_names(block)))


def of_kinds(data: Data) -> Iterator[ConfigProblem]:
    """Find the problems that the kinds themselves report for their entries."""
    for path, block, entry in _kinded(data):
        kinds: Mapping[str, Any] = registry.ROLES.get(block, {})
        if isinstance(entry, dict) and (kind := entry.get("kind")) in tuple(kinds):
            for below, what, hint in kinds[str(kind)].model.problems(entry):
                yield ConfigProblem((*path, *below), what, hint)


def discover(data: Data) -> Iterator[ConfigProblem]:
    """Find a `discover` of tables in inventories without an inventory."""
    kinds = [entry.get("kind") for _, entry in _entries(data, "inventories")]
    for path, table in _entries(data, "tables"):
        found = table.get("discover")
        source = str(found.get("from")) if isinstance(found, dict) else ""
        if isinstance(found, dict) and source in registry.METASTORES:
            yield from _catalogs_of(data, (*path, "discover"), found)
            continue
        if "discover" in table and not {*registry.report_kinds()} & {*map(str, kinds)}:
            what = f"tables are discovered in inventories ({', '.join(registry.report_kinds())}), and none is named"
            yield ConfigProblem((*path, "discover"), what, "add one to inventories, or name each table")


def _catalogs_of(data: Data, path: Path, found: Data) -> Iterator[ConfigProblem]:
    """Find a `discover` of tables in a catalog that is not named."""
    kind, word = found.get("from"), found.get("catalog")
    words = [_word(entry) for _, entry in _entries(data, "metastores") if entry.get("kind") == kind]
    if not words:
        yield ConfigProblem((*path, "from"), f"no metastore of kind {kind} is named", "add one to metastores")
    elif word is not None:
        yield from _unclear((*path, "catalog"), word, words)


def profiles(data: Data) -> Iterator[ConfigProblem]:
    """Find references to profiles that do not exist."""
    described = data.get("profiles")
    known = [str(name) for name in described] if isinstance(described, dict) else []
    for path, table in _entries(data, "tables"):
        found = table.get("discover")
        for here, entry in ((path, table), ((*path, "discover"), found)):
            name = entry.get("profile") if isinstance(entry, dict) else None
            if isinstance(name, str) and name and name not in known:
                hint = suggest(name, known) if known else "describe it in profiles"
                yield ConfigProblem((*here, "profile"), f"no profile is called {quoted(name)}", hint)


def names(data: Data) -> Iterator[ConfigProblem]:
    """Find tables that share a name."""
    first: dict[str, Path] = {}
    for path, table in _entries(data, "tables"):
        name = table.get("name")
        if isinstance(name, str) and name and first.setdefault(name, path) != path:
            yield ConfigProblem(
                (*path, "name"), f"a second table {quoted(name)}", "each table needs a name of its own"
            )


def locations(data: Data) -> Iterator[ConfigProblem]:
    """Find tables of one format at one location that are not declared to be the same table."""
    known: dict[Location, list[Data]] = {}
    for path, table in _entries(data, "tables"):
        place = location_of(table)
        if place is None:
            continue
        before = known.setdefault(place, [])
        for other in before:
            if _are_one(other, table) and not all(
                each.get("same_location") == "alias" for each in (other, table)
            ):
                what = f"the table {quoted(other.get('name'))} has this location already"
                hint = (
                    "a location belongs to one table of each format (delta, iceberg, hudi ...), or all of its tables"
                    " say same_location: alias"
                )
                yield ConfigProblem((*path, "location"), what, hint)
                break
        before.append(table)


def _are_one(table: Data, other: Data) -> bool:
    """Return whether two entries of one location are the same table: unless both have formats that differ."""
    one, another = _formats(table), _formats(other)
    return not (one and another) or bool(one & another)


def _formats(table: Data) -> set[str]:
    """Return the kinds of manifests that define a table's state."""
    kinds = [entry.get("kind") for _, entry in _entries(table, "manifests")]
    return {kind for kind in registry.state_kinds() if kind in kinds}


def results(data: Data) -> Iterator[ConfigProblem]:
    """Find results inside an audited place, or around a table."""
    place = location_of(_with_location(data.get("results")))
    if place is None:
        return
    if place.is_azure:
        yield ConfigProblem(
            ("results",), "lakeaudit does not write to Azure", "write s3://bucket/prefix or a local path"
        )
    for path, table in _entries(data, "tables"):
        own = location_of(table)
        if own and (own == place or own.holds(*place)):
            what = f"the results lie inside the table {quoted(table.get('name'))}"
            yield ConfigProblem(("results",), what, "write them to a place of their own")
        elif own and place.holds(*own):
            yield ConfigProblem(
                (*path, "location"), "the table lies inside results", "write results elsewhere"
            )
    for index, watched in enumerate(_listed(data.get("watch"))):
        own = location_of({"location": watched})
        if own and (own == place or own.holds(*place)):
            yield ConfigProblem(
                ("watch", index), "the results lie inside this place", "write results elsewhere"
            )


def quarantine(data: Data) -> Iterator[ConfigProblem]:
    """Find a quarantine inside a place that is read, or around one: its files must not be part of the lake."""
    written = data.get("quarantine")
    path: Path = ("quarantine", "location") if isinstance(written, dict) else ("quarantine",)
    place = location_of(_with_location(written))
    if place is None:
        return
    if not place.is_in_s3:
        yield ConfigProblem(path, "is not a place in a bucket of S3", "write s3://bucket/prefix")
    for what, own in _watched(data):
        if own.contains(place) or place.contains(own):
            problem = f"lies inside {what}" if own.contains(place) else f"holds {what}"
            yield ConfigProblem(path, problem, "name a place that nothing else uses")
            return


def _with_location(written: object) -> Data:
    """Return the block of a place that may be written in its short form."""
    return written if isinstance(written, dict) else {"location": written}


def _watched(data: Data) -> Iterator[tuple[str, Location]]:
    """Yield (description, place) of all places that an audit reads or writes; a metadata store has no place itself."""
    written = data.get("results")
    named = [("the results", _with_location(written))]
    for _, table in _entries(data, "tables"):
        found = table.get("discover")
        under = found.get("under") if isinstance(found, dict) else None
        named += [(f"the table {quoted(table.get('name'))}", table)] if "location" in table else []
        named += [("a place of discover", {"location": each}) for each in _listed(under)]
        named += [("a source's place", entry) for _, entry in _entries(table, "manifests")]
    for block in ("inventories", "metastores", "events"):
        for _, entry in _entries(data, block):
            keys = ("export",) if block == "metastores" else ("location", "export")
            named += [("a source's place", {"location": entry.get(key)}) for key in keys]
            named += [("what a source covers", {"location": each}) for each in _listed(entry.get("covers"))]
    for _, entry in _entries(data, "replicas"):
        named += [("a replica", {"location": entry.get("at")})]
    named += [("a watched place", {"location": each}) for each in _listed(data.get("watch"))]
    yield from ((what, own) for what, entry in named if (own := location_of(entry)) is not None)


def states(data: Data) -> Iterator[ConfigProblem]:
    """Find tables with several kinds of manifests that each define the table's state."""
    for path, table in _entries(data, "tables"):
        named = _formats(table)
        kinds = [kind for kind in registry.MANIFESTS if kind in named]
        if len(kinds) > 1:
            what = f"has {' and '.join(kinds)}, and each of them defines the table's state"
            hint = "name each as a table of its own with this location"
            yield ConfigProblem((*path, "manifests"), what, hint)


def shares(data: Data) -> Iterator[ConfigProblem]:
    """Find `shares` with a table that does not exist."""
    names = (table.get("name") for _, table in _entries(data, "tables"))
    known = list(dict.fromkeys(name for name in names if isinstance(name, str)))
    for path, table in _entries(data, "tables"):
        for index, other in enumerate(_listed(table.get("shares"))):
            here = (*path, "shares", index)
            if isinstance(other, str) and other and other == table.get("name"):
                yield ConfigProblem(here, "the table itself", "name another table")
            elif isinstance(other, str) and other and other not in known:
                yield ConfigProblem(here, f"no table is called {quoted(other)}", suggest(other, known))


def ignore(data: Data) -> Iterator[ConfigProblem]:
    """Find entries that would ignore everything."""
    for path, entry in _entries(data, "ignore"):
        if not {"paths", "tables", "kinds"} & entry.keys():
            yield ConfigProblem(
                path, "selects nothing to ignore", "give at least one of paths, tables, kinds"
            )


def catalogs(data: Data) -> Iterator[ConfigProblem]:
    """Find Iceberg tables whose catalog is not named, or not unique."""
    words = [_word(entry) for _, entry in _entries(data, "metastores") if _is_catalog(entry)]
    named = registry.kinds_named_by_catalogs()
    for path, table in _entries(data, "tables"):
        for here, entry in _entries(table, "manifests", path):
            if entry.get("kind") not in named:
                continue
            if "catalog" in entry:
                yield from _unclear((*here, "catalog"), entry["catalog"], words)
                if "metadata" in entry:
                    what = "the catalog already names the current metadata"
                    yield ConfigProblem((*here, "metadata"), what, "leave one of the two out")
            elif "table" in entry:
                yield ConfigProblem(
                    (*here, "table"), "no catalog is named for this table", "name its `catalog`"
                )


def _is_catalog(entry: Data) -> bool:
    return str(entry.get("kind")) in registry.catalog_kinds()


def _word(entry: Data) -> str:
    """Return the name of a catalog in tables and discoveries."""
    return str(entry.get("name") or entry.get("kind"))


def _unclear(path: Path, word: object, words: list[str]) -> Iterator[ConfigProblem]:
    if not isinstance(word, str) or words.count(word) == 1:
        return
    if words.count(word) > 1:
        yield ConfigProblem(
            path, f"several catalogs are called {quoted(word)}", "give each a `name` of its own"
        )
    else:
        hint = suggest(word, words) if words else "add it to metastores"
        yield ConfigProblem(path, f"no catalog is called {quoted(word)}", hint)


def previous(data: Data) -> Iterator[ConfigProblem]:
    """Find tables with the last storage snapshot next to other manifests."""
    for path, table in _entries(data, "tables"):
        entries = list(_entries(table, "manifests", path))
        for here, entry in entries:
            if entry.get("kind") in registry.snapshot_kinds() and len(entries) > 1:
                what = f"{entry['kind']} is for tables without any other manifest"
                yield ConfigProblem(here, what, "leave it out: the other is more precise")


def maps(data: Data) -> Iterator[ConfigProblem]:
    """Find places that are mapped twice, into themselves, or although a table of the file lies there."""
    first: set[Location] = set()
    for path, entry in _entries(data, "maps"):
        source, target = _origin(entry), location_of(entry, "to")
        if source is None or target is None:
            continue
        if source in first:
            yield ConfigProblem((*path, "from"), "a second map of this place", "keep one")
        first.add(source)
        if source.contains(target):
            yield ConfigProblem(
                (*path, "to"), "lies inside the place it is moved from", "map the folders one by one"
            )
        for at, table in _entries(data, "tables"):
            own = location_of(table)
            if own is not None and source.contains(own):
                what = f"maps move all claims about this place to {target.uri}"
                yield ConfigProblem((*at, "location"), what, "audit this table by a lake file of its own")


def originals(data: Data) -> Iterator[ConfigProblem]:
    """Find replica sources as manifests next to others, or without a map that leads to the table."""
    targets = [place for _, entry in _entries(data, "maps") if (place := location_of(entry, "to"))]
    for path, table in _entries(data, "tables"):
        entries = list(_entries(table, "manifests", path))
        of_another = [here for here, entry in entries if entry.get("kind") in registry.original_kinds()]
        own = location_of(table)
        if of_another and len(of_another) < len(entries):
            what = "another place is a manifest for tables without any other"
            yield ConfigProblem(of_another[0], what, "audit the copy by a lake file of its own")
        elif of_another and own and not any(to.contains(own) or own.contains(to) for to in targets):
            what = f"no entry of maps leads to {own.uri}"
            yield ConfigProblem(of_another[0], what, f'add maps: [{{from: "s3://...", to: "{own.uri}"}}]')


_IDENTITY = ("table", "export", "uri", "warehouse", "catalog_id", "region", "endpoint", "databases")
"""The keys in which sources of one kind and place may differ."""


def repeats(data: Data) -> Iterator[ConfigProblem]:
    """Find sources that are named twice in a block."""
    tables = (_entries(table, "manifests", path) for path, table in _entries(data, "tables"))
    sources = (_entries(data, name) for name in ("inventories", "metastores", "events"))
    for block in (*sources, *tables):
        first: set[tuple[object, ...]] = set()
        for path, entry in block:
            kind, names = entry.get("kind"), [entry.get(name) for name in _IDENTITY]
            same = (str(kind), location_of(entry), *map(str, names))
            if same in first:
                yield ConfigProblem(path, "the same source a second time", "keep one of them")
            first.add(same)


CHECKS: tuple[Callable[[Data], Iterator[ConfigProblem]], ...] = (
    *(
        kinds,
        of_kinds,
        discover,
        profiles,
        names,
        locations,
        states,
        results,
        quarantine,
        shares,
        ignore,
        catalogs,
        previous,
        maps,
        originals,
        repeats,
    ),
)
