"""`lakeaudit hazards`: what will cause losses, before it does. No Spark: logs are read only where a rule threatens."""

from collections.abc import Sequence
from contextlib import closing
from datetime import datetime
from typing import TextIO

from lakeaudit.config import Lake
from lakeaudit.evidence.protocol import Context
from lakeaudit.formatting import number, visible
from lakeaudit.pipeline.engine import InProcessEngine
from lakeaudit.pipeline.hazards import Finding, Hazards, hazards, lifecycles_of, needs_logs
from lakeaudit.pipeline.lifecycles import Lifecycles
from lakeaudit.pipeline.read_sources import read_manifests
from lakeaudit.runtime.aws import Clients


def find(lake: Lake, clients: Clients, now: datetime) -> Hazards:
    """The hazards of all tables of a lake. Of tables whose log cannot be read it is said."""
    lifecycles = lifecycles_of(lake.tables, Lifecycles(clients))
    with closing(InProcessEngine()) as engine:
        if not needs_logs(lake.tables, lifecycles):
            return hazards(engine, lake.tables, (), lifecycles)
        claims, holes = read_manifests(lake, Context(engine, clients, now, now, live=True))
        found = hazards(engine, lake.tables, claims, lifecycles)
    refused = [
        f"{name}: {state.refused}"
        for read in claims
        for name, state in sorted(read.states.items())
        if state.refused
    ]
    return Hazards(found.rows, (*found.untold, *refused, *(f"{h.source}: {h.reason}" for h in holes)))


def write(found: Hazards, out: TextIO) -> str:
    """Print them, the worst first as tables are named; the verdict's line."""
    for table, rows in _by_table(found.rows):
        out.write(f"{visible(table)}\n")
        out.writelines(f"  {_place(row)}{visible(str(row['explanation']))}\n" for row in rows)
    out.writelines(f"cannot tell: {visible(words)}\n" for words in found.untold)
    if not found.rows:
        return "no lifecycle rule is known to delete or archive a live file"
    files = sum(row["files"] for row in found.rows)
    tables = len({row["table_name"] for row in found.rows})
    return f"ERROR: lifecycle rules will delete or archive {number(files, 'live file')} of {number(tables, 'table')}"


def _by_table(rows: Sequence[Finding]) -> list[tuple[str, list[Finding]]]:
    names = dict.fromkeys(str(row["table_name"]) for row in rows)
    return [(name, [row for row in rows if row["table_name"] == name]) for name in names]


def _place(row: Finding) -> str:
    return f"{visible(str(row['partition_path']))}: " if row["partition_path"] else ""
