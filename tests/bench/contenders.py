"""Defines the commands that are measured, and the lake files of the audits."""

import json
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.bench.live import STORE, TABLES
from tests.bench.spec import BUCKET

AUDITED = (0, 1, 3)
"""Exit codes of an audit that was published."""


def module(name: str, *arguments: str) -> list[str]:
    """Return the command that runs a module of this package."""
    return [sys.executable, "-m", f"tests.bench.{name}", *arguments]


def audit(lake_file: Path, *options: str) -> list[str]:
    """Return the command of an audit, as users type it."""
    command = [
        sys.executable,
        "-m",
        "lakeaudit",
        "audit",
        str(lake_file),
        "--format",
        "json",
        "--fail-on",
        "never",
    ]
    return [*command, *options]


@dataclass(frozen=True)
class Audit:
    """The lake file and the results of an audit; a second audit of the same results has newer evidence."""

    lake_file: Path
    results: Path
    run_id: str = "first"

    @property
    def command(self) -> list[str]:
        return audit(self.lake_file, "--run-id", self.run_id)


def prepare(run: Path, folder: Path, endpoint: str, kind: str = "delta", *, store: bool = True) -> Audit:
    """Return the audit of a generated lake, with results below `run`; it does not confirm, since no file exists.

    `kind` is the format of its tables; `store`: whether it reads the metadata store.
    """
    tables = sorted(path.name for path in folder.glob("logs/warehouse/*"))
    names = [
        f"  - {{name: {name}, location: 's3://{BUCKET}/warehouse/{name}', manifests: [{{kind: {kind}}}]}}"
        for name in tables
    ]
    guard = f"{{kind: s3guard, export: {folder / 'export'}, location: 's3://{BUCKET}/warehouse/', ttl: none}}"
    inventory = f"{{kind: s3_inventory, location: {folder / 'inventory'}, max_age: 36500d}}"
    lines = [
        *_head("bench", run, endpoint),
        f"inventories: [{inventory}]",
        f"metastores: [{guard if store else ''}]",
        "defaults: {confirm: {mode: none}}",
        "tables:",
        *names,
    ]
    return Audit(_write(run / "lake.yaml", lines), run / "results")


def prepare_again(before: Audit, folder: Path, endpoint: str, run_id: str) -> Audit:
    """Return a later audit: with the logs, inventory and export of `folder`, and the same results."""
    text = before.lake_file.read_text()
    for place in ("inventory", "export"):
        text = text.replace(f"first/{place}", f"{folder.name}/{place}")
    text = re.sub(r"endpoint: '[^']*'", f"endpoint: '{endpoint}'", text)
    lake_file = _write(before.lake_file.with_name(f"{run_id}.yaml"), text.splitlines())
    return Audit(lake_file, before.results, run_id)


def prepare_live(run: Path, endpoint: str) -> list[str]:
    """Return the command that audits one table of the small live lake."""
    store = f"{{kind: s3guard, table: {STORE}, location: 's3://{BUCKET}/warehouse/', ttl: none}}"
    lines = [
        *_head("live", run, endpoint),
        f"inventories: [{{kind: listing, location: 's3://{BUCKET}/warehouse/'}}]",
        f"metastores: [{store}]",
        "tables:",
        *(
            f"  - {{name: {name}, location: 's3://{BUCKET}/warehouse/{name}', manifests: [{{kind: delta}}]}}"
            for name in TABLES
        ),
    ]
    return audit(_write(run / "lake.yaml", lines), "--live", "--table", TABLES[0], "--run-id", "live")


def _head(lake: str, run: Path, endpoint: str) -> list[str]:
    s3 = f"{{endpoint: '{endpoint}', region: us-east-1, path_style: true}}"
    return ["version: 1", f"lake: {lake}", f"results: {run / 'results'}", f"s3: {s3}"]


def _write(path: Path, lines: Sequence[str]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")
    return path


def stages(err: str) -> dict[str, float]:
    """Return the seconds by stage, from the JSON lines that an audit writes to standard error."""
    lines = [json.loads(line) for line in err.splitlines() if line.startswith('{"time"')]
    return {line["stage"]: line["seconds"] for line in lines}
