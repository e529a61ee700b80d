"""Load the results of earlier runs that a run needs before it judges: open files, and tables of newer runs."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from lakeaudit.findings.finding_rows import RunStamp
from lakeaudit.judged import is_other_part
from lakeaudit.ledger.ledger_tables import LedgerTables
from lakeaudit.results.read import FOLLOWING, PUBLISHED, Results, Row

NO_PARTITIONS: Mapping[str, Collection[str]] = {}


@dataclass(frozen=True)
class OpenDiscrepancies:
    """Open files, which are checked again, and tables that a newer run has settled.

    `still_open` is that of `LedgerTables.still_open`; `overtaken` names the newer run by table; `refuted` is, by table
    and axis, the time when a live check last refuted the evidence.
    """

    still_open: pa.Table | None = None
    overtaken: Mapping[str, str] = field(default_factory=dict)
    refuted: Mapping[tuple[str, str], datetime] = field(default_factory=dict)


def load_open(
    ledger: LedgerTables, past: Results, tables: Collection[str], stamp: RunStamp
) -> OpenDiscrepancies:
    """Load the open discrepancies for a run's audit of these tables."""
    refuted = refutations(past, stamp.as_of)
    still_open = ledger.still_open(tables, stamp.run_id, refuted)
    return OpenDiscrepancies(still_open, newer_runs(past, stamp.as_of), refuted)


def refutations(past: Results, as_of: datetime) -> dict[tuple[str, str], datetime]:
    """Return by table and axis the time of the newest run before `as_of` whose live check refuted its evidence."""
    runs = {run["run_id"]: run["as_of"] for run in past.runs() if run["status"] in PUBLISHED}
    columns = ("run_id", "table_name", "axis")
    found: dict[tuple[str, str], datetime] = {}
    for batch in past.batches("coverage", pc.field("refuted") > 0, columns):
        for row in batch.to_pylist():
            at = runs.get(row["run_id"])
            place = (row["table_name"], row["axis"])
            if at is not None and at < as_of:
                found[place] = max(at, found.get(place, at))
    return found


def newer_runs(past: Results, as_of: datetime) -> dict[str, str]:
    """Return the newest published run that judged each table by evidence from after `as_of`."""
    newer = [run for run in past.runs() if run["status"] in PUBLISHED and run["as_of"] > as_of]
    return last_judged_by(past, [run["run_id"] for run in sorted(newer, key=lambda run: run["as_of"])])


def last_judged_by(
    past: Results, run_ids: Sequence[str], partitions: Mapping[str, Collection[str]] = NO_PARTITIONS
) -> dict[str, str]:
    """Return the last of these runs that judged each table, or of a table with partitions some of these partitions."""
    return {
        row["table_name"]: run_id
        for run_id in run_ids
        for row in past.coverage(run_id)
        if row["status"] in ("complete", "partial")
        and not is_other_part(row["reason"] or "", partitions.get(row["table_name"], ()))
    }


def abandoned_runs(past: Results) -> list[Row]:
    """Return the runs whose process was killed: the holder of both leases knows that none of them is alive."""
    return [*(run for run in past.runs() if run["status"] == "running"), *abandoned_reports(past)]


def abandoned_reports(past: Results) -> list[Row]:
    """Return the runs of `follow` whose process was killed: the holder of the ledger lease knows that none is alive."""
    return [run for run in past.followed() if run["status"] == FOLLOWING]
