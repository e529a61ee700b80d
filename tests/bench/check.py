"""Checks that an audit found exactly the faults of a lake: every file by kind, table and key."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable

from tests.bench import live

SHOWN = 5


def differences(results: Path, run_id: str, truth: Path, kinds: Sequence[str] = ()) -> list[str]:
    """Return missing, additional and repeated findings: a line for each kind, with some keys.

    `kinds` are the kinds that the audit could find; empty: all.
    """
    rows = pc.field("kind").isin(kinds) if kinds else None
    return _compared(results, run_id, pq.read_table(truth, filters=rows))


def differences_live(results: Path, run_id: str, table: str) -> list[str]:
    """Return the differences of an audit of one table of the live lake."""
    rows = [{"kind": kind, "table_name": table, "key": key} for kind, key in live.expected(table)]
    return _compared(results, run_id, pa.Table.from_pylist(rows))


def _compared(results: Path, run_id: str, truth: pa.Table) -> list[str]:
    con = duckdb.connect()
    con.register("truth", truth)
    for name in ("findings", "leftover_files"):
        con.register(name, _rows(results / name, run_id))
    con.execute("""CREATE TABLE found AS SELECT kind, table_name, key FROM findings WHERE axis <> 'leftover'
        UNION ALL SELECT kind, table_name, key FROM leftover_files""")
    return [
        *_lacking(con, "missing", "truth", "found"),
        *_lacking(con, "too much", "found", "truth"),
        *_repeated(con),
    ]


def counts(truth: Path) -> dict[str, int]:
    """Return by kind the number of files that must be found."""
    return dict(
        duckdb.execute(f"SELECT kind, count(*) FROM '{truth}' GROUP BY kind ORDER BY kind").fetchall()
    )


def _rows(table: Path, run_id: str) -> pa.Table:
    dataset = DeltaTable(str(table)).to_pyarrow_dataset()
    return dataset.to_table(
        columns=[name for name in ("kind", "table_name", "key", "axis") if name in dataset.schema.names],
        filter=pc.field("run_id") == run_id,
    )


def _lacking(con: duckdb.DuckDBPyConnection, word: str, one: str, other: str) -> Iterable[str]:
    sql = f"""SELECT kind, count(*), list(coalesce(key, table_name, '?') ORDER BY key)[1:{SHOWN}] FROM {one}
        ANTI JOIN {other} USING (kind, table_name, key) GROUP BY kind ORDER BY kind"""
    for kind, count, keys in con.execute(sql).fetchall():
        yield f"{word}: {count} {kind}: {', '.join(keys)}"


def _repeated(con: duckdb.DuckDBPyConnection) -> Iterable[str]:
    sql = "SELECT kind, count(*) - count(DISTINCT key) FROM found GROUP BY kind HAVING count(*) <> count(DISTINCT key)"
    for kind, count in con.execute(sql).fetchall():
        yield f"twice: {count} {kind}"
