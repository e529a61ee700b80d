"""Writes the check file: the records of all tables as one small JSON object beside the result tables.

Programs without lakeaudit read it to decide whether a table may be used (dags/lake_gate.py). An audit replaces it at
its end, and so do the commands that accept discrepancies, while they hold the lease.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from lakeaudit.config import Lake
from lakeaudit.errors import one_line
from lakeaudit.evidence.files import put_bytes, read_bytes
from lakeaudit.formatting import iso
from lakeaudit.keys import Location
from lakeaudit.results.read import Results, Row
from lakeaudit.results.summaries.table_records import TableRecord, by_rank, read_audits, table_records
from lakeaudit.results.summaries.verified_tables import current_watermarks

FORMAT = 1
OLDEST = timedelta(days=7)
"""Age of audits that the file includes at least; tables without such an audit are unknown to its readers."""


def check_file(results: Results) -> Location:
    """Return the location of the check file of a lake."""
    return results.place.join(f"check/{results.lake}.json")


def write_check_file(results: Results, lake: Lake, now: datetime, *, all_tables: bool) -> tuple[str, ...]:
    """Replace the check file; return a warning if it cannot be written: everything else is published already.

    Args:
        results: the results, under the caller's lease.
        lake: the lake.
        now: the caller's clock reading.
        all_tables: whether `lake` contains its discovered tables; else those of the present file stay in it.
    """
    place = check_file(results)
    try:
        results.require_lease()
        present = {} if all_tables or not lake.finds_tables else _other_names(results, place)
        names = present | {table.name: table.also for table in lake.tables}
        put_bytes(results.clients, place, _content(results.again(), names, lake, now))
    except Exception as error:  # noqa: BLE001 - everything else is published already
        what = f"{place.uri} was not written ({one_line(str(error), 200) or type(error).__name__})"
        return (f"{what}: programs that read it do not see this change before the next audit",)
    return ()


def _other_names(results: Results, place: Location) -> dict[str, Sequence[str]]:
    """Return the tables of the present check file with their other names."""
    content = read_bytes(results.clients, place)
    rows = json.loads(content)["tables"] if content is not None else {}
    return {name: row["also"] for name, row in rows.items()}


def _content(results: Results, names: Mapping[str, Sequence[str]], lake: Lake, now: datetime) -> bytes:
    audits = read_audits(results, now - max(lake.overdue, OLDEST))
    records = table_records(results, audits, list(names), now)
    watermarks = current_watermarks(results, lake, now, names)
    content = {
        "format": FORMAT,
        "lake": lake.name,
        "written_at": now,
        "overdue_seconds": round(lake.overdue.total_seconds()),
        "tables": {
            record.table: _row(record, names[record.table]) | _verified(watermarks.get(record.table))
            for record in records
        },
    }
    return (json.dumps(content, default=iso) + "\n").encode()


def _verified(watermark: Row | None) -> dict[str, Any]:
    """Return the time up to which the commits of a table are verified; null: none is."""
    return {"verified_through": watermark["verified_through"] if watermark else None}


def _row(record: TableRecord, also: Sequence[str]) -> dict[str, Any]:
    columns = ("run_id", "as_of", "through", "judged_share", "remark", "doubts", "accepted_until")
    numbers = {"open": by_rank(record.open), "pending": by_rank(record.pending)}
    return {"also": also, **{name: getattr(record, name) for name in columns}, **numbers}
