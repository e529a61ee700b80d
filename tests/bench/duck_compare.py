"""Compares the same files with DuckDB alone, in one process, and prints the number of findings by kind.

usage: python -m tests.bench.duck_compare FORMAT [--two] FOLDER...

Folders are those of `lake.lake_folder`; the newest inventory and export count. With `--two` the export is left out. It
runs two full outer joins of three sources and compares sizes and ETags. It ignores gaps and tables, and almost ignores
snapshot windows. DuckDB does not read Avro: the audit's decoder first decodes the files of the newest states of
Iceberg and Hudi tables into Arrow. So it measures the cost of the comparison itself on this machine.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import duckdb

from tests.bench.listed import LISTED
from tests.bench.rows import seen_as
from tests.bench.spec import BUCKET, CHECKPOINT_AT, SCAN

_ACTION = "STRUCT(path VARCHAR, size BIGINT)"
_TEXT, _NUMBER, _FLAG = "STRUCT(S VARCHAR)", "STRUCT(N VARCHAR)", "STRUCT(BOOL BOOLEAN)"
_ITEM = (
    f"STRUCT(parent {_TEXT}, child {_TEXT}, etag {_TEXT}, is_dir {_FLAG}, is_deleted {_FLAG}, file_length {_NUMBER}, "
    f"table_version {_NUMBER})"
)
_ROOT = "regexp_extract(filename, '(warehouse/[^/]+)/_delta_log', 1) || '/'"
_EDGE = f"TIMESTAMP '{SCAN:%Y-%m-%d %H:%M:%S}' - INTERVAL 48 HOUR"
_HORIZON = f"TIMESTAMP '{CHECKPOINT_AT:%Y-%m-%d %H:%M:%S}'"
_KINDS = f"""CASE
    WHEN c.live AND s.key IS NULL AND NOT c.young THEN 'dropped'
    WHEN c.live AND s.size <> c.size THEN 'size_mismatch'
    WHEN c.live AND s.key IS NOT NULL AND e.key IS NULL THEN 'hidden'
    WHEN e.key IS NOT NULL AND s.key IS NULL AND c.key IS NULL THEN 'phantom'
    WHEN e.key IS NOT NULL AND s.key IS NOT NULL AND (e.size <> s.size OR e.etag <> s.etag) THEN 'metastore_stale'
    WHEN s.key IS NOT NULL AND c.key IS NOT NULL AND NOT c.live THEN 'unvacuumed'
    WHEN regexp_matches(s.key, '/(_delta_log|metadata|\\.hoodie)/') THEN NULL
    WHEN s.key IS NOT NULL AND c.key IS NULL AND s.modified < {_EDGE} - INTERVAL 72 HOUR
        THEN CASE WHEN s.modified > {_HORIZON} THEN 'uncommitted' ELSE 'unreferenced' END
    END"""

_KINDS_OF_TWO = "\n".join(line for line in _KINDS.splitlines() if " e." not in line)
_LISTED = f"SELECT substr(path, {len(BUCKET) + 7}) AS key, size, true AS live, false AS young FROM listed"


def compare(kind: str, folders: Sequence[Path], *, store: bool = True) -> dict[str, int]:
    """Return the number of findings of each kind.

    Args:
        kind: the format of the tables.
        folders: of the first audit and of the second, if there is one.
        store: whether the export of the metadata store is compared too.
    """
    con = duckdb.connect()
    if kind in LISTED:
        con.register("listed", LISTED[kind](folders[0] / "logs"))
    entries = f"FULL JOIN ({_entries(folders[-1])}) e ON coalesce(c.key, s.key) = e.key" if store else ""
    sql = f"""SELECT kind, count(*) FROM (SELECT {seen_as(f"({_KINDS if store else _KINDS_OF_TWO})", kind)} AS kind
        FROM ({_LISTED if kind in LISTED else _claims(folders)}) c
        FULL JOIN ({_stored(folders[-1])}) s ON c.key = s.key
        {entries})
        WHERE kind IS NOT NULL GROUP BY kind ORDER BY kind"""
    return dict(con.sql(sql).fetchall())


def _claims(folders: Sequence[Path]) -> str:
    """Return SQL for the newest action of each file; `young`: its commit cannot be judged yet."""
    young = f"epoch_ms(add.modificationTime) > {_EDGE} - INTERVAL 1 HOUR"
    action = (
        f"{_ROOT} || coalesce(add.path, remove.path) AS key, add.path IS NOT NULL AS live, add.size AS size"
    )
    points = f"""SELECT {action}, false AS young
        FROM read_parquet('{folders[0]}/logs/warehouse/*/_delta_log/*.parquet', filename = true)
        WHERE add.path IS NOT NULL OR remove.path IS NOT NULL"""
    files = [str(path) for folder in folders for path in folder.glob("logs/warehouse/*/_delta_log/0*.json")]
    line = (
        "{add: 'STRUCT(path VARCHAR, size BIGINT, modificationTime BIGINT)', remove: 'STRUCT(path VARCHAR)'}"
    )
    commits = f"""SELECT {action}, {young} AS young
        FROM read_json({files}, format = 'newline_delimited', columns = {line}, filename = true)
        WHERE add.path IS NOT NULL OR remove.path IS NOT NULL"""
    if len(folders) == 1:
        return f"{points} UNION ALL {commits}"
    newest = f"WITH c AS ({commits}) FROM c UNION ALL SELECT p.* FROM ({points}) p ANTI JOIN c USING (key)"
    return f"SELECT * FROM ({newest})"


def _stored(folder: Path) -> str:
    data = folder / "inventory" / "data"
    current = "SELECT key, size, e_tag AS etag, last_modified_date AS modified FROM {} {}"
    if any(data.glob("*.csv.gz")):
        names = json.loads(next(folder.glob("inventory/2*/manifest.json")).read_text())["fileSchema"].split(
            ", "
        )
        source = f"read_csv('{data}/*.csv.gz', header = false, names = {names}, all_varchar = true)"
        latest = "WHERE IsLatest = 'true' AND IsDeleteMarker = 'false'" if "IsLatest" in names else ""
        return f"""SELECT replace(Key, '%3D', '=') AS key, CAST(Size AS BIGINT) AS size, ETag AS etag,
            CAST(LastModifiedDate AS TIMESTAMP) AS modified FROM {source} {latest}"""
    source = f"read_parquet('{data}/*.parquet')"
    versioned = "is_latest" in [name for name, *_ in duckdb.execute(f"DESCRIBE FROM {source}").fetchall()]
    return current.format(source, "WHERE is_latest AND NOT is_delete_marker" if versioned else "")


def _entries(folder: Path) -> str:
    source = f"""read_json('{folder}/export/AWSDynamoDB/*/data/*.gz', format = 'newline_delimited',
        columns = {{Item: '{_ITEM}'}})"""
    return f"""SELECT substr(Item.parent.S, {len(BUCKET) + 3}) || '/' || Item.child.S AS key,
            CAST(Item.file_length.N AS BIGINT) AS size, Item.etag.S AS etag FROM {source}
        WHERE Item.is_dir IS NULL AND Item.table_version IS NULL AND NOT Item.is_deleted.BOOL"""


if __name__ == "__main__":
    _folders = [Path(name) for name in sys.argv[2:] if name != "--two"]
    sys.stdout.write(json.dumps(compare(sys.argv[1], _folders, store="--two" not in sys.argv)) + "\n")
