"""A ledger written by hand, as a published run would leave it: for what starts from open discrepancies."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from lakeaudit.config import Lake
from lakeaudit.keys import digest
from lakeaudit.kinds import KINDS
from lakeaudit.results import delta_writer
from lakeaudit.results.write import open_results
from lakeaudit.schemas import DISCREPANCIES
from tests.builders.audits import results_of

RUN = "by-hand"


def opened(lake: Lake, found: Iterable[Mapping[str, Any]], now: datetime | None = None) -> None:
    """Every row is an open discrepancy of `lake`: kind, table_name, bucket, key, and what else is known of it."""
    at = now or datetime.now(UTC)
    rows = pa.Table.from_pylist([_row(lake, each, at) for each in found], DISCREPANCIES)
    writer = open_results(results_of(lake), lambda: None)
    run = {"run_id": RUN, "lake": lake.name, "as_of": at, "started_at": at}
    writer.put_run({**run, "status": "complete", "finished_at": at})
    delta_writer.append(writer.results, "discrepancies", rows)


def _row(lake: Lake, found: Mapping[str, Any], at: datetime) -> dict[str, Any]:
    kind = KINDS[found["kind"]]
    subject = f"s3://{found['bucket']}/{found['key']}"
    of_ledger = {"state": "open", "first_seen_at": at, "last_evidence_at": at, "opened_at": at, "reopened": 0}
    told = {
        "lake": lake.name,
        "axis": kind.axis,
        "severity": kind.severity,
        "subject": subject,
        "subject_type": "file",
    }
    runs = {"first_run_id": RUN, "last_run_id": RUN, "confirmation": "live", "explanation": kind.words}
    return {"discrepancy_id": digest(lake.name, kind.axis, subject)} | of_ledger | told | runs | dict(found)
