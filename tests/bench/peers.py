"""Compares the faults that delta-rs' own checks and an audit find in the same broken Delta table.

usage: python -m tests.bench.peers [RCLONE]

RCLONE is the path of rclone; it compares with a copy of the healthy table, which the other tools do not need.
Prints a table of Markdown for docs/comparison.md. All tools run on a local folder, without a JVM.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

FILES = 12
NOTHING = "\u2013"
BEFORE = "before"
LONG_AGO = 40 * 86_400
"""Seconds; longer than the retention of tables."""

Found = Mapping[str, str]
"""By fault the name that a tool gives it; faults that the tool does not detect are missing."""


def table(folder: Path) -> Path:
    """Write a partitioned table with one commit per day, of which a delete removed one file long ago."""
    place = folder / "orders"
    for day in range(FILES):
        rows = pa.table({"id": [*range(day * 100, day * 100 + 100)], "day": [f"2026-01-{day + 1:02}"] * 100})
        write_deltalake(place, rows, mode="append", partition_by=["day"])
    DeltaTable(place).delete("day = '2026-01-12'")
    return place


def broken(place: Path) -> dict[str, Path]:
    """Break files, and return them by fault."""
    files = sorted(place.glob("day=*/*.parquet"))
    lost, short, other, twin_of = files[:4]
    lost.unlink()
    short.write_bytes(short.read_bytes()[:-7])
    other.write_bytes(bytes(len(other.read_bytes())))
    twin = twin_of.with_name(f"{twin_of.stem}-copy.parquet")
    shutil.copyfile(twin_of, twin)
    never = files[4].with_name("part-00009-never-committed.snappy.parquet")
    never.write_bytes(b"rows of a job that failed")
    return {
        "a file that the table lists is gone": lost,
        "a listed file is cut short": short,
        "a listed file holds other bytes of the same size": other,
        "a file lies there twice": twin,
        "a job that failed left a file": never,
        "a file that was deleted long ago is still there": files[-1],
    }


def torn(place: Path) -> dict[str, Path]:
    """Break the log itself, so that most tools cannot read the table at all."""
    log = place / "_delta_log" / f"{7:020}.json"
    log.unlink()
    return {"a commit of the log is gone": log}


def aged(place: Path) -> None:
    """Set the times in the log and the times of the files to long ago."""
    then = time.time() - LONG_AGO
    for path in place.rglob("*"):
        if path.is_file():
            os.utime(path, (then, then))
    for log in (place / "_delta_log").glob("*.json"):
        actions = [json.loads(line) for line in log.read_text().splitlines()]
        for action in actions:
            for name in ("timestamp", "deletionTimestamp", "modificationTime"):
                for body in action.values():
                    if isinstance(body, dict) and name in body:
                        body[name] -= LONG_AGO * 1000
        log.write_text("".join(f"{json.dumps(action)}\n" for action in actions))
        os.utime(log, (then, then))


def by_repair(place: Path) -> set[str]:
    """Return the paths that delta-rs' repair would remove from the table."""
    return set(DeltaTable(place).repair(dry_run=True)["files_removed"])


def by_vacuum(place: Path, *, full: bool) -> set[str]:
    """Return the paths that delta-rs' vacuum would delete."""
    return set(DeltaTable(place).vacuum(dry_run=True, full=full))


def by_rclone(rclone: str, before: Path, place: Path) -> set[str]:
    """Return the paths that `rclone check` reports as missing, additional or different, by size and MD5."""
    command = [rclone, "check", str(before), str(place), "--combined", "-", "--config", ""]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    lines = [line for line in done.stdout.splitlines() if not line.startswith("= ")]
    if not lines:
        raise RuntimeError(done.stderr)
    return {line[2:] for line in lines}


def by_audit(folder: Path, place: Path, kind: str = "delta") -> dict[str, str]:
    """Return by path the kinds that an audit of a table reports, with groups expanded."""
    lake = folder / "lake.yaml"
    defaults = "{grace: 0s, leftover_age: 1d, max_upload: 0s, min_duplicate_size: 1B}"
    lake.write_text(
        f"version: 1\nlake: peers\nresults: {folder / 'results'}\ndefaults: {defaults}\n"
        f"inventories: [{{kind: listing, location: {place}}}]\n"
        f"tables: [{{name: orders, location: {place}, manifests: [{{kind: {kind}}}]}}]\n"
    )
    _lakeaudit("audit", str(lake), "--live", "--table", "orders", "--fail-on", "never")
    said = _lakeaudit("findings", str(lake), "--files", "--format", "jsonl")
    rows = [json.loads(line) for line in said.splitlines()]
    found: dict[str, list[str]] = {}
    for row in rows:
        found.setdefault(f"/{row['key']}", []).append(row["kind"])
    return {path: ", ".join(sorted(kinds)) for path, kinds in found.items()}


def _lakeaudit(*line: str) -> str:
    return subprocess.run(
        [sys.executable, "-m", "lakeaudit", *line], check=False, capture_output=True, text=True
    ).stdout


def attempt(tool: Callable[[], set[str]], faults: Mapping[str, Path], place: Path) -> Found:
    """Return the paths that a tool of delta-rs names; none if the tool ends with an error."""
    try:
        named = {unquote(path) for path in tool()}
    except Exception as error:  # noqa: BLE001 - whatever it raises is its answer
        return {"": f"ends with {type(error).__name__}"}
    return {fault: "named" for fault, path in faults.items() if str(path.relative_to(place)) in named}


def results_by_tool(folder: Path, place: Path, faults: Mapping[str, Path], rclone: str) -> dict[str, Found]:
    """Return by tool the faults of one table that it detects; `rclone` is the path of rclone, or empty."""
    for path in faults.values():
        if path.exists():
            os.utime(
                path, (time.time() - LONG_AGO / 2,) * 2
            )  # after the commits, and old enough for a vacuum
    audited = by_audit(folder, place)
    with_copy: dict[str, Found] = {}
    if rclone:
        by_copy = attempt(lambda: by_rclone(rclone, folder / BEFORE, place), faults, place)
        with_copy["`rclone check` with a copy from before"] = by_copy
    return {
        "delta-rs `repair`": attempt(lambda: by_repair(place), faults, place),
        "delta-rs `vacuum`": attempt(lambda: by_vacuum(place, full=False), faults, place),
        "delta-rs `vacuum(full)`": attempt(lambda: by_vacuum(place, full=True), faults, place),
        **with_copy,
        "lakeaudit": {fault: audited[str(path)] for fault, path in faults.items() if str(path) in audited},
    }


def main(rclone: str = "") -> None:
    """Break two tables, run each tool, and print the faults that each tool detects."""
    lines: list[str] = []
    for breaker in (broken, torn):
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch)
            place = table(folder)
            aged(place)
            shutil.copytree(place, folder / BEFORE)
            faults = breaker(place)
            tools = results_by_tool(folder, place, faults, rclone)
        lines += lines_of(faults, tools, head=not lines)
    sys.stdout.write("\n".join(lines) + "\n")


def lines_of(faults: Iterable[str], tools: Mapping[str, Found], *, head: bool) -> list[str]:
    """Return the lines of the Markdown table, one for each fault; `head`: with its heading."""
    above = [f"| fault | {' | '.join(tools)} |", f"|---|{'---|' * len(tools)}"]
    return [*(above if head else []), *(_line(fault, tools) for fault in faults)]


def _line(fault: str, tools: Mapping[str, Found]) -> str:
    return f"| {fault} | {' | '.join(named.get('', named.get(fault, NOTHING)) for named in tools.values())} |"


if __name__ == "__main__":
    main(*sys.argv[1:])
