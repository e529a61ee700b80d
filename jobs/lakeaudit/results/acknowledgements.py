"""Writes what people change in the ledger through delta-rs, so that a command takes seconds and needs no JVM."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime

import pyarrow as pa

from lakeaudit.keys import digest
from lakeaudit.results import delta_writer
from lakeaudit.results.read import Results, Row

ACKNOWLEDGED = "acknowledged"
_TIME = pa.timestamp("us", "UTC")
_ACK = pa.schema(
    [
        *((name, pa.string()) for name in ("discrepancy_id", "lake", "ack_by", "ack_reason")),
        ("ack_until", _TIME),
    ]
)
_TEXTS = (
    *("transition_id", "run_id", "lake", "discrepancy_id", "transition"),
    *("from_kind", "to_kind", "from_severity", "to_severity", "reason", "owner"),
)
_TRANSITION = pa.schema([*((name, pa.string()) for name in _TEXTS), ("at", _TIME)])


@dataclass(frozen=True)
class Ack:
    """States who accepts discrepancies, why and until when; all None: they are no longer accepted."""

    ack_by: str | None = None
    ack_reason: str | None = None
    ack_until: datetime | None = None


def put_ack(results: Results, ids: Sequence[str], ack: Ack) -> None:
    """Set who accepts these discrepancies; their other columns do not change.

    Raises:
        CannotPublish: the ledger cannot be written.
    """
    rows = [{"discrepancy_id": each, "lake": results.lake} | asdict(ack) for each in ids]
    _merge(results, rows, "old.lake = new.lake AND old.discrepancy_id = new.discrepancy_id")


def put_ack_on_all(results: Results, ack: Ack) -> None:
    """Set who accepts every discrepancy that is pending or open. Raises as `put_ack`."""
    row = {"discrepancy_id": None, "lake": results.lake} | asdict(ack)
    _merge(results, [row], "old.lake = new.lake AND old.state IN ('pending', 'open')")


def append_transitions(results: Results, rows: Sequence[Row], ack: Ack, at: datetime) -> None:
    """Append a transition `acknowledged` for each of these rows of the ledger.

    They have discrepancy_id, kind, severity and owner.
    """
    transitions = _table([_transition(row, results.lake, ack, at) for row in rows], _TRANSITION)
    delta_writer.append(results, "transitions", transitions)


def _transition(row: Row, lake: str, ack: Ack, at: datetime) -> Row:
    parts = (str(ack.ack_by), at.isoformat(), row["discrepancy_id"], ACKNOWLEDGED)
    return {
        "transition_id": digest(*parts),
        "run_id": None,
        "lake": lake,
        "discrepancy_id": row["discrepancy_id"],
        "transition": ACKNOWLEDGED,
        "from_kind": row["kind"],
        "to_kind": row["kind"],
        "from_severity": row["severity"],
        "to_severity": row["severity"],
        "at": at,
        "reason": f"{ack.ack_by} accepts it: {ack.ack_reason}",
        "owner": row["owner"],
    }


def _merge(results: Results, rows: Sequence[Row], same: str) -> None:
    delta_writer.update(results, "discrepancies", _table(rows, _ACK), same, [*asdict(Ack())])


def _table(rows: Sequence[Row], schema: pa.Schema) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=schema)
