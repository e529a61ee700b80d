"""Measures `lakeaudit guard` with a list of all data files of a lake's inventory, in another spelling."""

import json
import sys
from pathlib import Path

import duckdb

from tests.bench.spec import FAULTS

UNLISTED = ("uncommitted", "unreferenced")
"""Faults of objects that no table lists."""


def write_list(lake: Path, path: Path) -> int:
    """Write the data files of a lake's inventory as `s3a://` URIs, one in each line; return their number."""
    path.parent.mkdir(parents=True, exist_ok=True)
    files = f"""SELECT 's3a://' || bucket || '/' || key FROM '{lake}/inventory/data/*.parquet'
        WHERE NOT contains(key, '/_delta_log/')"""
    options = "FORMAT csv, HEADER false, DELIMITER '\t', QUOTE '', ESCAPE ''"
    ((count,),) = duckdb.execute(f"COPY ({files}) TO '{path}' ({options})").fetchall()
    return int(count)


def command(lake_file: Path, delete_list: Path) -> list[str]:
    """Return the command that checks the list."""
    return [sys.executable, "-m", "lakeaudit", "guard", str(lake_file), str(delete_list), "--format", "json"]


def differences(out: str, listed: int) -> list[str]:
    """Return how the answers differ: tables need all files except those that no table lists."""
    counts = json.loads(out)["counts"]
    live = listed - sum(FAULTS[kind] for kind in UNLISTED)
    return [] if counts["live"] == live else [f"{counts['live']} of {listed} files live, not {live}"]
