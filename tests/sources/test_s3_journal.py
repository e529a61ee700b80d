"""Exports of S3 Metadata's journal: the events contract in Parquet and JSON, and invalid files."""

import gzip
import json
import os
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeaudit.errors import SourceError
from lakeaudit.evidence.events.journal import S3Journal
from lakeaudit.evidence.events.journal import reader as journal
from lakeaudit.evidence.protocol import Events
from lakeaudit.keys import Location
from lakeaudit.runtime.connections.aws import Clients
from tests.builders.backdate import backdate
from tests.builders.examples import examples
from tests.builders.s3_metadata import JOURNAL, dated, lay
from tests.conftest import Aws
from tests.sources.events_contract import (
    NOW,
    REQUESTS,
    EventsContract,
    SentRequest,
    World,
    context,
    rejected,
    rows_of,
)

BY = {"ann": "123456789012", "job": "210987654321", None: "s3.amazonaws.com"}
SAYS = ("put", "delete", "expire")


def read(clients: Clients, where: str | Path) -> Events:
    source = S3Journal(kind="s3_journal", location=Location.parse(str(where)), window=timedelta(days=7))
    return journal.read(source, context(clients), "events:0")


def change(made: SentRequest, number: int = 0, **given: Any) -> dict[str, Any]:
    """A row of a bucket that keeps versions."""
    created = made.action == "put"
    return {
        "bucket": "lake",
        "key": made.key,
        "sequence_number": f"0062F{number:04}",
        "record_type": "CREATE" if created else "DELETE",
        "record_timestamp": made.at.replace(tzinfo=None),
        "version_id": f"v{number}",
        "is_delete_marker": not created,
        "size": 1361 if created else None,
        "is_multipart": False,
        "requester": BY[made.by],
        "source_ip_address": "192.0.2.3",
        "request_id": f"R{number}",
    } | given


CHANGES = [
    change(made, number) for number, made in enumerate(REQUESTS) if made.action in SAYS and not made.failed
]
UPDATED = change(REQUESTS[0], 99, record_type="UPDATE_METADATA")


def as_parquet(rows: Sequence[Mapping[str, Any]], unit: str = "ms", zone: str | None = None) -> bytes:
    table = pa.Table.from_pylist([dict(row) for row in rows])
    at = table.schema.get_field_index("record_timestamp")
    if at >= 0:
        table = table.set_column(at, "record_timestamp", table.column(at).cast(pa.timestamp(unit, zone)))
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    return bytes(sink.getvalue())


def as_lines(rows: Sequence[Mapping[str, Any]], form: str = "%Y-%m-%dT%H:%M:%SZ") -> bytes:
    plain = [{k: v.strftime(form) if isinstance(v, datetime) else v for k, v in row.items()} for row in rows]
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in plain).encode()


def write_export(folder: Path, name: str, content: bytes) -> Events:
    """Write one file at NOW, and read the events."""
    path = folder / name
    path.write_bytes(content)
    os.utime(path, (NOW.timestamp(), NOW.timestamp()))
    return read(Clients(), folder)


class TestContract(EventsContract):
    @pytest.fixture(scope="class", params=["parquet", "jsonl", "s3", "table"])
    @classmethod
    def world(
        cls,
        request: pytest.FixtureRequest,
        clients: Clients,
        aws: Aws,
        tmp_path_factory: pytest.TempPathFactory,
    ) -> World:
        rows = [*CHANGES, UPDATED]
        if request.param == "table":
            folder = tmp_path_factory.mktemp("journal")
            halves = [pa.Table.from_pylist(half, JOURNAL) for half in (rows[::2], rows[1::2])]
            events = read(clients, dated(lay(folder, halves), NOW))
        elif request.param == "s3":
            aws.s3.create_bucket(Bucket="journals")
            aws.s3.put_object(Bucket="journals", Key="j/part-0.parquet", Body=as_parquet(rows))
            backdate("journals", "j/part-0.parquet", NOW)
            events = read(clients, "s3://journals/j/")
        else:
            content = as_parquet(rows) if request.param == "parquet" else as_lines(rows)
            events = write_export(tmp_path_factory.mktemp("journal"), f"part-0.{request.param}", content)
        return World(events, SAYS, BY, failures=False, rows=rows_of(events.parts(events.since, True)))


def test_versions_markers_and_parts_are_distinguished(tmp_path: Path) -> None:
    put, delete = REQUESTS[0], REQUESTS[6]
    rows = [
        change(put, 1, is_multipart=True),
        change(delete, 2),
        change(delete, 3, is_delete_marker=None, requester=None, request_id=None),
        change(delete, 4, version_id="", is_delete_marker=False),
    ]
    events = write_export(tmp_path, "a.parquet", as_parquet(rows))
    told = [
        (row["action"], row["operation"], row.get("version_id"), row.get("principal"))
        for row in rows_of(events.parts(events.since, False))
    ]
    assert told == [
        ("put", "CREATE in parts", None, "210987654321"),
        ("delete", "DELETE", None, "123456789012"),
        ("delete", "DELETE", "v3", None),
        ("delete", "DELETE", None, "123456789012"),
    ]


def test_of_the_table_itself_the_state_of_then_is_read(tmp_path: Path) -> None:
    table = lay(tmp_path, [pa.Table.from_pylist([change(made)], JOURNAL) for made in REQUESTS[:2]])
    dated(table, NOW)
    events = read(Clients(), tmp_path / "inventory")
    assert len(rows_of(events.parts(events.since, True))) == 2
    assert events.info.identity.endswith(f"snapshot {table.history()[-1].snapshot_id}")
    assert rows_of(events.parts(NOW - timedelta(hours=1), True)) == []
    dated(table, NOW + timedelta(hours=1))
    with pytest.raises(SourceError, match="has no state of"):
        read(Clients(), tmp_path / "inventory")


NO_EXPORTS: dict[str, tuple[str, bytes, str]] = {
    "no Parquet": ("a.parquet", b"hello", "is not an export of a journal: "),
    "cut short": ("a.parquet", as_parquet(CHANGES)[:-30], "is not an export of a journal: "),
    "other columns": (
        "a.parquet", as_parquet([{"bucket": "lake", "key": "t/a"}]),
        "is not an export of a journal: it has no column record_type, record_timestamp",
    ),
    "other lines": ("a.jsonl", b'{"a": 1}\n', "is not an export of a journal: it has no column bucket, "),
    "torn": ("a.jsonl.gz", gzip.compress(as_lines(CHANGES))[:-20], "is damaged or cannot be read (EOFError)"),
}  # fmt: skip


@pytest.mark.parametrize("fault", NO_EXPORTS)
def test_an_invalid_file_is_noted(tmp_path: Path, fault: str) -> None:
    name, content, reason = NO_EXPORTS[fault]
    events = write_export(tmp_path, name, content)
    (note,) = rows_of(events.parts(events.since, False), "notes")
    assert note["reason"].startswith(reason)


FAULTS: dict[str, bytes] = {
    "no JSON": b"hello\n",
    "no object": b"[1]\n",
    "cut short": as_lines(CHANGES[:1])[:40] + b"\n",
    "no time": as_lines([CHANGES[0] | {"record_timestamp": None}]),
    "an invalid time": as_lines([CHANGES[0] | {"record_timestamp": "yesterday"}]),
    "a type that nobody knows": as_lines([CHANGES[0] | {"record_type": "RENAME"}]),
    "no key": as_lines([CHANGES[0] | {"key": None}]),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_an_invalid_row_is_counted_and_the_others_read(tmp_path: Path, fault: str) -> None:
    events = write_export(tmp_path, "a.jsonl", as_lines(CHANGES[:1]) + FAULTS[fault] + as_lines(CHANGES[1:2]))
    parts = events.parts(events.since, False)
    assert ([row["request_id"] for row in rows_of(parts)], rejected(parts)) == (["R0", "R1"], 1)


@pytest.fixture(scope="module")
def plain_rows(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Those of one plain file of all changes, in order."""
    plain = write_export(tmp_path_factory.mktemp("plain"), "a.parquet", as_parquet(CHANGES))
    return _in_order(rows_of(plain.parts(plain.since, False)))


def _in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: row["request_id"])


FORMS = ["ms", "us", "ns", "zone", "jsonl", "json", "jsonl.gz", "spaces", "offset"]


@examples(6, 200)
@given(
    order=st.permutations(range(len(CHANGES))),
    columns=st.permutations(sorted(CHANGES[0])),
    forms=st.lists(st.sampled_from(FORMS), min_size=1, max_size=3),
    more=st.booleans(),
)
def test_benign_changes_change_no_row(
    tmp_path_factory: pytest.TempPathFactory,
    plain_rows: list[dict[str, Any]],
    order: list[int],
    columns: list[str],
    forms: list[str],
    more: bool,
) -> None:
    """Each file of an export has a form of its own."""
    folder = tmp_path_factory.mktemp("journal")
    for piece, form in enumerate(forms):
        rows = [{name: CHANGES[n][name] for name in columns} for n in order[piece :: len(forms)]]
        rows = [row | {"annotations": "x"} for row in rows] if more else rows
        if form in ("ms", "us", "ns", "zone"):
            given = ("us", "UTC") if form == "zone" else (form, None)
            events = write_export(folder, f"{piece}.parquet", as_parquet(rows, *given))
            continue
        times = {"spaces": "%Y-%m-%d %H:%M:%S.000 UTC", "offset": "%Y-%m-%dT%H:%M:%S+00:00"}
        lines = as_lines(rows, times.get(form, "%Y-%m-%dT%H:%M:%S.%fZ"))
        suffix = form if form.startswith("json") else "jsonl"
        events = write_export(
            folder, f"{piece}.{suffix}", gzip.compress(lines) if suffix.endswith("gz") else lines
        )
    parts = events.parts(events.since, False)
    assert _in_order(rows_of(parts)) == plain_rows
    assert rejected(parts) == 0
