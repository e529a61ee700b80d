"""Published results as an audit leaves them, written by delta-rs: no JVM is needed to read or show them."""

import json
from collections.abc import Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import write_deltalake

from lakeaudit.keys import Location, uri_of
from lakeaudit.kinds import KINDS
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.connections.resolve import delta_rs_options
from lakeaudit.schemas import RECONCILE_RESULTS, RESULTS

Row = dict[str, Any]

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
LAKE = "shop"


def publish(place: Location, clients: Clients | None = None, **tables: Sequence[Row]) -> None:
    """Append rows to result tables; columns that are not given are null."""
    options = (
        delta_rs_options((clients or Clients()).endpoint(place.bucket), place.bucket) if place.bucket else {}
    )
    for name, rows in tables.items():
        schema = (RESULTS | RECONCILE_RESULTS)[name]
        whole = [{column: row.get(column) for column in schema.names} for row in rows]
        at = place.join(name)
        uri = at.spark_path if at.is_local else at.uri
        write_deltalake(uri, pa.Table.from_pylist(whole, schema), mode="append", storage_options=options)


def run(run_id: str = "r1", status: str = "complete", **given: Any) -> Row:
    source = {"role": "storage", "kind": "listing", "location": "s3://lake/wh/", "identity": "x", "rows": 7}
    times = {"as_of": NOON, "started_at": NOON, "finished_at": NOON if status != "running" else None}
    return {"run_id": run_id, "lake": LAKE, "status": status, **times, "sources": [source],
            "tables_expected": 1, "tables_audited": 1, **given}  # fmt: skip


def covered(table: str = "orders", axis: str = "content", run_id: str = "r1", **given: Any) -> Row:
    outcome = {"files": 10, "consistent": 10, "decided_share": 1.0, "status": "complete"}
    return {"run_id": run_id, "lake": LAKE, "table_name": table, "axis": axis, **outcome, **given}


def finding(kind: str, key: str, run_id: str = "r1", **given: Any) -> Row:
    known = KINDS[kind]
    about = {"subject_type": "file", "subject": uri_of("lake", key), "bucket": "lake", "key": key}
    return {
        "run_id": run_id, "lake": LAKE, "as_of_date": date(2026, 11, 21), "table_name": "orders", "axis": known.axis,
        "kind": kind, "severity": known.severity, **about, "discrepancy_id": f"d-{key}", "confirmation": "live",
        "explanation": known.words, "files": 1, **given,
    }  # fmt: skip


def group(kind: str, path: str, files: int, run_id: str = "r1", **given: Any) -> Row:
    about = {"subject_type": "partition", "subject": f"{path}#{kind}", "partition_path": path, "files": files}
    return finding(kind, path, run_id, **about, **given) | {"key": None}


def discrepancy(of: Row, state: str = "open", **given: Any) -> Row:
    """The ledger's row of a finding."""
    held = {
        "first_seen_at": NOON,
        "last_evidence_at": NOON,
        "opened_at": NOON,
        "first_run_id": "r1",
        "last_run_id": "r1",
    }
    return of | held | {"state": state, "reopened": 0} | given


def transition(of: Row, word: str, **given: Any) -> Row:
    about = {"discrepancy_id": of["discrepancy_id"], "lake": of["lake"], "run_id": of["run_id"], "at": NOON}
    return (
        about
        | {"transition_id": f"t-{word}", "transition": word, "to_kind": of["kind"], "reason": "why"}
        | given
    )


def leftover(of: Row, key: str, **given: Any) -> Row:
    shared = ("run_id", "lake", "table_name", "kind", "partition_path", "discrepancy_id")
    about = {"bucket": "lake", "key": key, "size": 5, "etag": "e", "modified_at": NOON, "category": "data"}
    return {name: of[name] for name in shared} | about | given


def logged(version: int, at: datetime, run_id: str = "r1", **given: Any) -> Row:
    """A commit of a table's log, as `commits` has it."""
    did = {"operation": "WRITE", "files_added": 1, "files_removed": 0, "manifest_kind": "delta"}
    about = {"run_id": run_id, "lake": LAKE, "table_name": "orders", "version": version}
    return about | {"commit_id": str(version), "committed_at": at} | did | given


def lake_file(folder: Path, place: Location, **changes: Any) -> str:
    """A lake file with one Delta table; its path."""
    table = {"name": "orders", "location": "s3://lake/orders", "manifests": [{"kind": "delta"}]}
    file = folder / "lake.yaml"
    file.write_text(
        json.dumps({"version": 1, "lake": LAKE, "results": place.uri, "tables": [table], **changes})
    )
    return str(file)
