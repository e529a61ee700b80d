"""Find the tables around listed keys, and the tables in their folders that the lake file does not name."""

from collections.abc import Iterator
from functools import partial
from itertools import islice

from botocore.exceptions import BotoCoreError, ClientError

from lakeaudit.config import Lake, Table
from lakeaudit.errors import SourceError
from lakeaudit.evidence.files import holds_any_file, list_files
from lakeaudit.evidence.kind import TableRoot
from lakeaudit.evidence.registry import reserved_folders
from lakeaudit.evidence.registry import roots as roots_of_formats
from lakeaudit.formatting import number
from lakeaudit.guard.doubts import Doubt
from lakeaudit.keys import Location
from lakeaudit.matching.prefix_match import attach_label
from lakeaudit.matching.table_facts import roots
from lakeaudit.runtime import duck
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.connections.aws_failures import explain
from lakeaudit.runtime.duck import Connection, Relation
from lakeaudit.runtime.threads import beside

MOST_FOLDERS = 2000
"""The most folders inside of tables in which another table is searched."""
MOST_OF_PARTITIONS = 300
"""The most folders of partitions in which another table is searched: there are many, and another table is unlikely."""
THREADS = 16
MOST_NAMES = 10_000
"""The number of names that are checked in a folder whose own name does not prove a table."""


def listed_folders(con: Connection, keys: Relation) -> Relation:
    """Return bucket and key of the folders that directly contain LISTED_KEY rows; a key ends in a slash, or is empty.

    There are far fewer of them than keys, so only they are compared with tables.
    """
    sql = """SELECT bucket, CASE WHEN folder = '' THEN '' ELSE folder || '/' END AS key FROM (
        SELECT DISTINCT bucket, parse_dirpath(key, 'forward_slash') AS folder FROM keys)"""
    return duck.hold(con, duck.query(con, sql, keys=keys))


def tables_around(lake: Lake, con: Connection, folders: Relation) -> list[Table]:
    """Return the tables whose location contains one of the listed keys."""
    labelled = attach_label(con, folders, roots(lake.tables), "owner")
    owners = duck.made_of(con, "SELECT DISTINCT owner FROM input WHERE owner IS NOT NULL", labelled)
    places = {lake.table(row["owner"]).location for row in duck.rows_of(owners)}
    return [table for table in lake.tables if table.location in places]


def unnamed_tables(lake: Lake, con: Connection, folders: Relation, clients: Clients) -> Iterator[Doubt]:
    """Yield folders that are tables which the lake file does not name, and tables whose folders are too many.

    Folders between a table and listed keys are searched, fewer of those of partitions (`day=1`), and the folders around
    the table. To list the latter, the rights of an audit may not suffice, so that this raises no doubt.
    """
    names = {table.location: table.name for table in lake.tables}
    chosen = f"turn <= CASE WHEN is_partition THEN {MOST_OF_PARTITIONS} ELSE {MOST_FOLDERS} END"
    inside = _folders_inside(con, folders, {place: place.prefix for place in names})
    owners = {(place.bucket, place.prefix): (place, name) for place, name in names.items()}
    searched = [
        (Location(row["bucket"], row["folder"]), *owners[row["bucket"], row["root"]])
        for row in duck.rows_of(duck.query(con, f"FROM inside WHERE {chosen}", inside=inside))
    ]
    around = [*_folders_around(tables_around(lake, con, folders))]
    with beside(THREADS) as pool:
        formats = [*pool.map(partial(_format_of, clients), [place for place, *_ in (*searched, *around)])]
    for (place, owner, name), (found, is_table) in zip((*searched, *around), formats, strict=True):
        if found and place not in names and (is_table or owner.contains(place)):
            yield Doubt(name, f"{place.uri} is {found}, and the lake file does not name it", place)
    yield from _unsearched(con, inside, owners)


def _unsearched(
    con: Connection, inside: Relation, owners: dict[tuple[str, str], tuple[Location, str]]
) -> Iterator[Doubt]:
    """Yield the tables that have more folders than are searched; folders of partitions do not count."""
    sql = f"""SELECT bucket, root, count(*) AS folders FROM inside WHERE turn > {MOST_FOLDERS} AND NOT is_partition
        GROUP BY bucket, root ORDER BY bucket, root"""
    for row in duck.rows_of(duck.query(con, sql, inside=inside)):
        place, name = owners[row["bucket"], row["root"]]
        many = number(row["folders"], "folder")
        why = f"{many} of it not searched for tables that the lake file does not name; check a shorter list"
        yield Doubt(name, why, place)


def _folders_inside(con: Connection, folders: Relation, places: dict[Location, str]) -> Relation:
    """Return bucket, folder, root, is_partition and turn of the folders between tables and listed keys.

    `places` has the prefix of each table, which is the root of the folders below it.

    Folders of a format's own files are left out: no other table is below them.
    """
    reserved = duck.literals(sorted({root.folder for root in roots_of_formats().values()}))
    below = duck.literals(sorted(reserved_folders()))
    parents = f"""
        SELECT DISTINCT bucket, array_to_string(parts[:n], '/') || '/' AS key, parts[n] AS name FROM (
            SELECT bucket, string_split(key, '/') AS parts, unnest(range(1, len(string_split(key, '/')))) AS n
            FROM input)
        WHERE parts[n] <> '' AND parts[n] NOT IN ({reserved}) AND NOT list_has_any(parts[:n], [{below}])
    """
    labelled = attach_label(con, duck.made_of(con, parents, folders), places, "root")
    sql = """
        SELECT bucket, rtrim(key, '/') AS folder, root, contains(name, '=') AS is_partition,
            row_number() OVER (PARTITION BY contains(name, '=') ORDER BY bucket, key) AS turn
        FROM labelled WHERE key <> root
    """
    return duck.hold(con, duck.query(con, sql, labelled=labelled))


def _folders_around(tables: list[Table]) -> Iterator[tuple[Location, Location, str]]:
    """Yield each folder around tables once, with one of these tables."""
    found = {}
    for table in tables:
        parts = table.location.key.split("/")
        for n in range(1, len(parts)):
            found[Location(table.location.bucket, "/".join(parts[:n]))] = table
    yield from ((place, table.location, table.name) for place, table in found.items())


def _format_of(clients: Clients, place: Location) -> tuple[str, bool]:
    """Return in words which table a folder is, or why that is not known, and whether it is one; empty if it is not.

    It takes one request for each format, however many files the folder has.
    """
    try:
        for format_, root in roots_of_formats().items():
            if is_root(clients, place, root):
                return f"a table of format {format_}", True
    except SourceError as error:
        return f"a folder that cannot be listed ({error.what})", False
    except (ClientError, BotoCoreError) as error:
        return f"a folder that cannot be listed ({explain(error).what})", False
    return "", False


def is_root(clients: Clients, place: Location, root: TableRoot) -> bool:
    """Return whether a folder is the root of a table of a format."""
    folder = place.join(root.folder)
    if root.proof is None:
        return holds_any_file(clients, folder)
    names = (file.name for file in islice(list_files(clients, folder, flat=True), MOST_NAMES))
    return any(map(root.proof, names))
