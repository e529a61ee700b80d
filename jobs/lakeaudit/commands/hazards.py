"""Find lifecycle rules and access patterns that will cause losses, for `lakeaudit hazards`. Needs no Spark.

A table's log is read only if a lifecycle rule may affect it, request records only if the lake file names some.
"""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from typing import TextIO

from lakeaudit.checks.hazards.access_hazards import access_hazards, watched_tables
from lakeaudit.checks.hazards.expiring_files import Finding
from lakeaudit.checks.hazards.lifecycle_hazards import hazards, lifecycles_of, needs_logs
from lakeaudit.checks.hazards.request_causes import read_requests
from lakeaudit.collect.lifecycles import Lifecycles
from lakeaudit.collect.read_sources import read_events, read_manifests
from lakeaudit.config import Lake
from lakeaudit.engine.local import InProcessEngine
from lakeaudit.evidence.protocol import Claims, Context, EvidenceGap
from lakeaudit.formatting import number, visible
from lakeaudit.kinds import WILL_EXPIRE
from lakeaudit.matching.table_facts import table_facts
from lakeaudit.matching.verdicts import finding_policy
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.duck import task_connection
from lakeaudit.schemas import EFFECT


@dataclass(frozen=True)
class Hazards:
    """Rows of FINDINGS, and reasons why hazards may be missing."""

    rows: tuple[Finding, ...]
    gaps: tuple[str, ...]

    @property
    def exit_code(self) -> int:
        """Return 1 if files will be lost, 3 if evidence is missing, else 0: access patterns are information."""
        if any(row["severity"] != "info" for row in self.rows):
            return 1
        return 3 if self.gaps else 0


def find_hazards(lake: Lake, clients: Clients, now: datetime) -> Hazards:
    """Find the hazards of all tables of a lake; `gaps` names logs and request records that cannot be read."""
    lifecycles = lifecycles_of(lake.tables, Lifecycles(clients))
    spoken = finding_policy(lake.tables, lake.ignores, now.date())
    any_files = {table.name: 1 for table in lake.tables}
    claims: list[Claims] = []
    holes: list[EvidenceGap] = []
    with closing(InProcessEngine()) as engine, task_connection() as con:
        context = Context(engine, clients, now, now, live=True)
        if needs_logs(table_facts(lake.tables, claims), lifecycles):
            claims, holes = read_manifests(lake, context)
        facts = table_facts(lake.tables, claims)
        found = hazards(engine, con, facts, claims, lifecycles, spoken, any_files)
        events, unread = read_events(lake, context)
        seen = read_requests(
            engine, events, EFFECT.empty_table(), watched_tables(lake, lake.tables) if events else None
        )
        accesses = access_hazards(con, seen.patterns, lake.tables, spoken)
    refused = [
        f"{name}: {state.refused}"
        for read in claims
        for name, state in sorted(read.states.items())
        if state.refused
    ]
    holes = [*holes, *unread, *(hole for each in events for hole in each.holes), *seen.holes]
    reasons = dict.fromkeys(f"{hole.subject or hole.table or hole.source}: {hole.reason}" for hole in holes)
    return Hazards((*found.rows, *accesses), (*found.all_reasons, *refused, *reasons))


def write(found: Hazards, out: TextIO) -> str:
    """Print the hazards by table and the gaps; return the verdict."""
    for table, rows in _by_table(found.rows):
        out.write(f"{visible(table)}\n")
        out.writelines(f"  {_place(row)}{visible(str(row['explanation']))}\n" for row in rows)
    out.writelines(f"could not be checked: {visible(reason)}\n" for reason in found.gaps)
    rules = [row for row in found.rows if row["kind"] == WILL_EXPIRE]
    patterns = len(found.rows) - len(rules)
    more = f"{number(patterns, 'access pattern')} may lose data"
    if rules:
        files = sum(row["files"] for row in rules)
        of = number(len({row["table_name"] for row in rules}), "table")
        will = f"ERROR: lifecycle rules will delete or archive {number(files, 'live file')} of {of}"
        return "; ".join([will, *([more] if patterns else []), *([UNCHECKED] if found.gaps else [])])
    if found.gaps:
        return "; ".join([f"UNDECIDED: {UNCHECKED}", *([more] if patterns else [])])
    return f"INFO: {more}" if patterns else "OK: no lifecycle rule will delete or archive a live file"


UNCHECKED = "some upcoming losses could not be checked"


def _by_table(rows: Sequence[Finding]) -> list[tuple[str, list[Finding]]]:
    names = dict.fromkeys(str(row["table_name"]) for row in rows)
    return [(name, [row for row in rows if row["table_name"] == name]) for name in names]


def _place(row: Finding) -> str:
    return f"{visible(str(row['partition_path']))}: " if row["partition_path"] else ""
