"""Whether an audit found exactly what is broken: every file by kind, table and key, and nothing else."""

from collections.abc import Collection, Iterable
from pathlib import Path

import duckdb
import pyarrow as pa
from deltalake import DeltaTable

SHOWN = 5


def differences(results: Path, run_id: str, truth: Path) -> list[str]:
    """What is missing and what is too much, a line for each kind, with some keys."""
    con = duckdb.connect()
    tables = {name: _rows(results / name, run_id) for name in ("findings", "leftover_files")}
    found = f"""SELECT kind, table_name, key, axis FROM findings WHERE axis <> 'leftover'
        UNION ALL SELECT kind, table_name, key, 'leftover' FROM leftover_files"""
    con.register("findings", tables["findings"])
    con.register("leftover_files", tables["leftover_files"])
    con.execute(f"CREATE TABLE found AS {found}")
    con.execute(f"CREATE TABLE truth AS FROM '{truth}'")
    return [
        *_lacking(con, "missing", "truth", "found"),
        *_lacking(con, "too much", "found", "truth"),
        *_repeated(con),
    ]


def differences_live(results: Path, expected: Collection[tuple[str, str]]) -> list[str]:
    """The same of the live audit's (kind, key)."""
    findings, leftovers = _rows(results / "findings", "live"), _rows(results / "leftover_files", "live")
    single = [row for row in findings.to_pylist() if row["axis"] != "leftover"]
    found = {(row["kind"], row["key"]) for row in [*single, *leftovers.to_pylist()]}
    lines = [f"missing: {kind} {key}" for kind, key in sorted({*expected} - found)]
    return lines + [f"too much: {kind} {key}" for kind, key in sorted(found - {*expected})]


def counts(truth: Path) -> dict[str, int]:
    """By kind how many files must be found."""
    return dict(duckdb.sql(f"SELECT kind, count(*) FROM '{truth}' GROUP BY kind ORDER BY kind").fetchall())


def _rows(table: Path, run_id: str) -> pa.Table:
    dataset = DeltaTable(str(table)).to_pyarrow_dataset()
    return dataset.to_table(
        columns=[name for name in ("kind", "table_name", "key", "axis") if name in dataset.schema.names],
        filter=pa.compute.field("run_id") == run_id,
    )


def _lacking(con: duckdb.DuckDBPyConnection, word: str, one: str, other: str) -> Iterable[str]:
    sql = f"""SELECT kind, count(*), list(coalesce(key, table_name, '?') ORDER BY key)[1:{SHOWN}] FROM {one}
        ANTI JOIN {other} USING (kind, table_name, key) GROUP BY kind ORDER BY kind"""
    for kind, count, keys in con.sql(sql).fetchall():
        yield f"{word}: {count} {kind}: {', '.join(keys)}"


def _repeated(con: duckdb.DuckDBPyConnection) -> Iterable[str]:
    sql = "SELECT kind, count(*) - count(DISTINCT key) FROM found GROUP BY kind HAVING count(*) <> count(DISTINCT key)"
    for kind, count in con.sql(sql).fetchall():
        yield f"twice: {count} {kind}"
