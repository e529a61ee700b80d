"""Look up one file in a Hudi table: its timeline is read now, on this machine, without an engine."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from lakeaudit.config import Table
from lakeaudit.evidence.manifest.hudi.state.groups import COMPLETED, states
from lakeaudit.evidence.manifest.hudi.state.parts import read_items
from lakeaudit.evidence.manifest.hudi.state.readings import items_of
from lakeaudit.evidence.manifest.hudi.state.rows import FILES, STEP, STEPS
from lakeaudit.evidence.manifest.hudi.timeline.instants import LocatedTimeline, find
from lakeaudit.evidence.manifest.hudi.timeline.names import file_named
from lakeaudit.evidence.protocol import utc_now
from lakeaudit.runtime import duck
from lakeaudit.runtime.connections.aws import Clients

Row = dict[str, Any]
Answer = tuple[str, list[Row], str]
_DID = {"wrote": "written", "cleaned": "cleaned", "undone": "rolled back", "planned": "to be removed",
        "failed": "written in vain", "saved": "saved", "replaced": "replaced with its file group"}  # fmt: skip


def read(table: Table, clients: Clients, bucket: str, key: str) -> Answer:
    """Return (answer, history, reason) as `point.LookupResult` holds them."""
    (found,) = find([table], clients, None, utc_now)
    if found.refused is not None:
        return "unknown", [], found.refused
    if not table.location.holds(bucket, key):
        return "absent", [], ""
    folder, _, name = key[len(table.location.prefix) :].rpartition("/")
    named = file_named(name)
    group = f"{folder}/{named.file_id if named else name}"
    reasons = [found.lost] if found.lost else []
    steps = pa.concat_tables([STEP.empty_table(), *_of_group(found, clients, group, reasons)])
    state = _state(steps, bucket, key)
    history = [
        {
            "at": row["at"],
            "file": _DID[row["act"]],
            "size": row["size"] or row["least_size"],
            "instant": row["commit_id"],
        }
        for row in sorted(steps.to_pylist(), key=lambda row: (row["at"], row["act"]))
        if row["key"] in (key, None)
    ]
    if state == "live":
        return "present", history, ""
    if reasons:
        return "unknown", history, "; ".join(reasons[:3])
    return ("deleted" if state else "absent"), history, ""


def _of_group(found: LocatedTimeline, clients: Clients, group: str, reasons: list[str]) -> Iterator[pa.Table]:
    """Yield STEP rows of one file group; add to `reasons` why some may be missing."""
    with duck.task_connection() as con:
        for kind, rows in read_items(con, items_of(found, 0), "", clients):
            if kind == STEPS:
                of_it = f"FROM input WHERE file_group = {duck.literal(group)}"
                yield duck.conform(con, duck.query(con, of_it, input=rows), STEP).to_arrow_table()
            else:
                notes = duck.rows_of(duck.relation(con, rows))
                reasons += [f"{note['subject']} {note['reason']}" for note in notes if note["reason"]]


def _state(steps: pa.Table, bucket: str, key: str) -> str | None:
    """Return the state of the file in the timeline; None if it has none."""
    with duck.task_connection() as con:
        for kind, rows in states("", COMPLETED.empty_table(), con, {STEPS: steps}):
            for row in duck.rows_of(duck.relation(con, rows)) if kind == FILES else ():
                if (row["bucket"], row["key"]) == (bucket, key):
                    return str(row["state"])
    return None
