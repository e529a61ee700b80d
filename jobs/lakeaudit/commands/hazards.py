"""`lakeaudit hazards`: what will cause losses, before it does. No Spark: logs are read only where a rule threatens."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from typing import TextIO

from lakeaudit.compare.table_facts import table_facts
from lakeaudit.compare.verdicts import words
from lakeaudit.config import Lake
from lakeaudit.evidence.protocol import Claims, Context, Hole
from lakeaudit.formatting import number, visible
from lakeaudit.pipeline.engine import InProcessEngine
from lakeaudit.pipeline.expiring_files import Finding
from lakeaudit.pipeline.hazards import hazards, lifecycles_of, needs_logs
from lakeaudit.pipeline.lifecycles import Lifecycles
from lakeaudit.pipeline.read_sources import read_manifests
from lakeaudit.runtime.aws import Clients
from lakeaudit.runtime.duck import task_connection


@dataclass(frozen=True)
class Found:
    """Rows of FINDINGS, and what could not be told."""

    rows: tuple[Finding, ...]
    untold: tuple[str, ...]


def find(lake: Lake, clients: Clients, now: datetime) -> Found:
    """The hazards of all tables of a lake. Of tables whose log cannot be read it is said."""
    lifecycles = lifecycles_of(lake.tables, Lifecycles(clients))
    spoken = words(lake.tables, lake.ignores, now.date())
    any_files = {table.name: 1 for table in lake.tables}
    claims: list[Claims] = []
    holes: list[Hole] = []
    with closing(InProcessEngine()) as engine, task_connection() as con:
        if needs_logs(table_facts(lake.tables, claims), lifecycles):
            claims, holes = read_manifests(lake, Context(engine, clients, now, now, live=True))
        facts = table_facts(lake.tables, claims)
        found = hazards(engine, con, facts, claims, lifecycles, spoken, any_files)
    refused = [
        f"{name}: {state.refused}"
        for read in claims
        for name, state in sorted(read.states.items())
        if state.refused
    ]
    return Found(found.rows, (*found.untold, *refused, *(f"{h.source}: {h.reason}" for h in holes)))


def write(found: Found, out: TextIO) -> str:
    """Print them, the worst first as tables are named; the verdict's line."""
    for table, rows in _by_table(found.rows):
        out.write(f"{visible(table)}\n")
        out.writelines(f"  {_place(row)}{visible(str(row['explanation']))}\n" for row in rows)
    out.writelines(f"cannot tell: {visible(told)}\n" for told in found.untold)
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
