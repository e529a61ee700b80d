"""Counts the files of each folder that catalogs may name, in tasks, while rows of storage are read.

Only a row per folder is exchanged, and no source is read a second time for catalogs.
"""

from dataclasses import dataclass, field

import pyarrow as pa

from lakeaudit import keys
from lakeaudit.evidence.storage.versions import CURRENT, REMOVED
from lakeaudit.matching.prefix_match import Places, attach_label
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation, Rows
from lakeaudit.schemas import FOLDER_FILES, POINTED_OBJECT

FOLDER = "regexp_replace(key, '[^/]*$', '')"
_SEEN = rf"(^|/)[^/._][^/]*{keys.END}|(^|/)[._][^/]*=[^/]*{keys.END}"
_WORK = rf"(_\$folder\$|\._COPYING_){keys.END}"
SEEN = f"(regexp_matches(key, {duck.pattern(_SEEN)}) AND NOT regexp_matches(key, {duck.pattern(_WORK)}))"
"""SQL for whether readers of its folder see a key, by its last part alone, see `keys.UNSEEN`."""
HIDDEN_FOLDER = rf"{keys.HIDDEN}|{keys.TEMPORARY}"


NAMED_AS_FILE = r"(\.[^/=.]+|/[0-9]{6}_[0-9]+)/*$"
"""Keys whose last part may be a file name. Other locations of partitions, which are many, count as folders."""


@dataclass(frozen=True)
class FolderCount:
    """Parameters of the folder counts: plain data that travels to the tasks.

    Folders below `places` are counted; `deciding` maps places to the source that decides presence. `objects` are rows
    (bucket, key) of catalog locations that may be a single object, which counts as its own content.
    """

    places: Places
    deciding: Places
    objects: pa.Table = field(default_factory=POINTED_OBJECT.empty_table)


def folder_files(count: FolderCount, con: Connection, versions: Rows) -> Relation:
    """Count VERSION rows of the deciding source below the places, as FOLDER_FILES rows."""
    placed = attach_label(con, versions, count.places, "place")
    marked = f"""
        SELECT input.* REPLACE (CASE WHEN place IS NOT NULL OR single THEN true END AS place), coalesce(single, false)
            AS single, {REMOVED} AS hidden
        FROM input LEFT JOIN (SELECT DISTINCT bucket, key, true AS single FROM objects) USING (bucket, key)
        WHERE {CURRENT} OR {REMOVED}
    """
    named = duck.query(con, marked, input=placed, objects=count.objects)
    inside = duck.query(con, "SELECT * FROM input WHERE place", input=named)
    decided = attach_label(con, inside, count.deciding, "decides")
    sql = f"""
        SELECT source, bucket, CASE WHEN single THEN key || '/' ELSE {FOLDER} END AS folder,
            count(*) FILTER (NOT hidden) AS objects, count(*) FILTER (seen AND NOT hidden) AS visible,
            count(*) FILTER (data) AS files, count(*) FILTER (seen AND hidden) AS removed,
            CAST(coalesce(sum(size) FILTER (data), 0) AS BIGINT) AS bytes,
            min(modified_at) FILTER (data) AS oldest, max(modified_at) FILTER (data) AS newest
        FROM (SELECT *, {SEEN} AS seen, {SEEN} AND size > 0 AND NOT hidden AS data FROM input WHERE decides = source)
        GROUP BY ALL
    """
    return duck.conform(con, duck.query(con, sql, input=decided), FOLDER_FILES)


def sum_folder_files(con: Connection, rows: Rows) -> Relation:
    """Sum FOLDER_FILES rows to one row a folder."""
    sql = """
        SELECT source, bucket, folder, sum(objects) AS objects, sum(visible) AS visible, sum(files) AS files,
            sum(removed) AS removed, sum(bytes) AS bytes, min(oldest) AS oldest, max(newest) AS newest
        FROM input GROUP BY source, bucket, folder
    """
    return duck.conform(con, duck.query(con, sql, input=rows), FOLDER_FILES)


def folders_above(con: Connection, folders: Rows) -> Relation:
    """Repeat FOLDER_FILES rows for each folder `above` that contains them, and for the folder itself."""
    above = "list_transform(range(1, len(parts)), lambda n: array_to_string(parts[1:n], '/') || '/')"
    sql = f"""
        SELECT * EXCLUDE parts, unnest({above}) AS above
        FROM (SELECT *, string_split(folder, '/') AS parts FROM input)
    """
    return duck.query(con, sql, input=folders)
