"""Rows of plain writer manifests, without Spark: formats, identity, values, and faults of broken ones."""

import csv
import gzip
import io
import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeaudit.evidence.manifest.file_list.fold import EVENT
from lakeaudit.evidence.manifest.file_list.parse_rows import event
from lakeaudit.evidence.manifest.file_list.read_lines import LONGEST_LINE, UNREAD_REST, Line, ListFile, lines
from lakeaudit.keys import Location
from lakeaudit.runtime.connections.aws import Clients

LISTED = datetime(2026, 11, 21, 12, tzinfo=UTC)
HOME = Location("lake", "wh/events")
Event = dict[str, Any]


def list_file(place: Path, home: Location = HOME, *, whole: bool = True) -> ListFile:
    return ListFile("raw.events", home, Location.parse(str(place)), 3, LISTED, None, whole)


def read(place: Path, body: bytes, home: Location = HOME, *, whole: bool = True) -> list[Event]:
    place.write_bytes(body)
    listed = list_file(place, home, whole=whole)
    return [dict(zip(EVENT, event(line, listed), strict=True)) for line in lines(listed, Clients())]


def one(row: dict[str, Any], home: Location = HOME) -> Event:
    return dict(zip(EVENT, event(Line(1, row), list_file(Path("/l.jsonl"), home)), strict=True))


def jsonl(*rows: dict[str, Any], end: bool = True) -> bytes:
    told = [*rows, {"end": True, "lines": len(rows)}] if end else [*rows]
    return b"".join(json.dumps(row).encode() + b"\n" for row in told)


COMMITTED = datetime(2026, 11, 20, 8, 30, tzinfo=UTC)
ROW = {
    "path": "wh/events/dt=1/a b%20+.parquet",
    "size": 12,
    "etag": '"AbC"',
    "version_id": "v1",
    "checksum": "SHA256:AB01",
    "committed_at": "2026-11-20T09:30:00+01:00",
    "job_id": "job-1",
    "records": 3,
    "action": "add",
    "unknown": "column",
}
UNDERSTOOD = {
    "table_name": "raw.events",
    "list_no": 3,
    "line": 1,
    "at": COMMITTED,
    "action": "add",
    "bucket": "lake",
    "key": "wh/events/dt=1/a b%20+.parquet",
    "scope_bucket": None,
    "scope_key": None,
    "partition_path": "dt=1",
    "own_root": True,
    "size": 12,
    "etag": "AbC",
    "version_id": "v1",
    "checksum": "sha256:ab01",
    "records": 3,
    "commit_id": "job-1",
    "fault": None,
    "unread": False,
}


def as_csv(*rows: dict[str, Any]) -> bytes:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


def as_parquet(*rows: dict[str, Any]) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(list(rows)), sink)
    return sink.getvalue()


TIMED = ROW | {"committed_at": COMMITTED}
FORMS: list[tuple[str, bytes, int]] = [
    # name, content, line of its one row
    ("l.jsonl", jsonl(ROW), 1),
    ("l.json", jsonl(ROW), 1),
    ("l.JSONL.gz", gzip.compress(jsonl(ROW)), 1),
    ("l.csv", as_csv(ROW), 2),
    ("l.csv.gz", gzip.compress(b"\xef\xbb\xbf" + as_csv(ROW)), 2),
    ("l.parquet", as_parquet(ROW), 1),
    ("l.parquet", as_parquet(TIMED), 1),
    ("l.parquet.gz", gzip.compress(as_parquet(TIMED)), 1),
    ("l.parquet", as_parquet(ROW | {"size": 12.0, "records": 3.0}), 1),
]


@pytest.mark.parametrize(("name", "body", "line"), FORMS, ids=[form[0] for form in FORMS])
def test_every_format_says_the_same(tmp_path: Path, name: str, body: bytes, line: int) -> None:
    assert read(tmp_path / name, body) == [UNDERSTOOD | {"line": line}]


LOCAL = Location("", "data/events")
ROOT = Location("lake", "")
PATHS: list[tuple[str, Location, tuple[str, str, bool] | None]] = [
    # written path, table's location, (bucket, key, own root), or refused
    ("wh/events/f", HOME, ("lake", "wh/events/f", True)),
    ("wh/events//f", HOME, ("lake", "wh/events//f", True)),
    ("wh/events/%2F%", HOME, ("lake", "wh/events/%2F%", True)),
    ("s3://lake/wh/events/f", HOME, ("lake", "wh/events/f", True)),
    ("s3a://lake/wh/events/f", HOME, ("lake", "wh/events/f", True)),
    ("s3://other/x", HOME, ("other", "x", False)),
    ("wh/events/sub/../f", HOME, ("lake", "wh/events/f", True)),
    ("wh/events/./dt=1/.f", HOME, ("lake", "wh/events/dt=1/.f", True)),
    ("s3a://lake/wh/events/sub/../../events//f..", HOME, ("lake", "wh/events/f..", True)),
    ("s3://other/a/../../x", HOME, ("other", "../x", False)),
    ("wh/events/../f", HOME, None),
    ("s3://lake/wh/..", HOME, None),
    ("abfss://wh@acme.dfs.core.windows.net/x", HOME, ("wh@acme", "x", False)),
    ("file:///data/x", HOME, ("", "data/x", False)),
    ("wh/events_2/f", HOME, None),
    ("wh/events", HOME, None),
    ("wh/events/", HOME, None),
    ("dt=1/f", HOME, None),
    ("/wh/events/f", HOME, None),
    ("hdfs://name/wh/events/f", HOME, None),
    ("s3://lake", HOME, None),
    ("s3://", HOME, None),
    ("any", ROOT, ("lake", "any", True)),
    ("/any", ROOT, ("lake", "/any", True)),
    ("hdfs://x/y", ROOT, None),
    ("data/events/f", LOCAL, ("", "data/events/f", True)),
    ("/data/events/f", LOCAL, ("", "data/events/f", True)),
    ("/data/other/f", LOCAL, ("", "data/other/f", False)),
    ("data/events_2/f", LOCAL, None),
]


@pytest.mark.parametrize(("path", "home", "named"), PATHS)
def test_which_file_a_path_names(path: str, home: Location, named: tuple[str, str, bool] | None) -> None:
    row = one({"path": path}, home)
    if named is None:
        assert row["key"] is None
        assert row["fault"].startswith("has the path ")
    else:
        assert (row["bucket"], row["key"], row["own_root"], row["fault"]) == (*named, None)


SCOPES: list[tuple[str | None, Location, tuple[str, str] | None]] = [
    (None, HOME, ("lake", "wh/events")),
    ("wh/events", HOME, ("lake", "wh/events")),
    ("wh/events/", HOME, ("lake", "wh/events")),
    ("wh/events/dt=1/", HOME, ("lake", "wh/events/dt=1")),
    ("s3a://lake/wh/events/dt=1", HOME, ("lake", "wh/events/dt=1")),
    ("s3://other/", HOME, ("other", "")),
    ("wh/events/dt=1/../dt=2", HOME, ("lake", "wh/events/dt=2")),
    ("wh/events/../other", HOME, None),
    ("wh", HOME, None),
    ("wh/events_2", HOME, None),
    ("hdfs://x/y", HOME, None),
    ("/data/events/dt=1", LOCAL, ("", "data/events/dt=1")),
    ("data/events/dt=1", LOCAL, ("", "data/events/dt=1")),
]


@pytest.mark.parametrize(("scope", "home", "place"), SCOPES)
def test_which_place_a_scope_empties(
    scope: str | None, home: Location, place: tuple[str, str] | None
) -> None:
    row = one({"action": "replace", "scope": scope}, home)
    assert (row["scope_bucket"], row["scope_key"]) == (place or (None, None))
    assert (row["fault"] is None) is (place is not None)


PARTITIONS = [
    ("wh/events/f", ""),
    ("wh/events/dt=2026-11-01/f", "dt=2026-11-01"),
    ("wh/events/a=1/b=x%2Fy%25z/f", "a=1/b=x/y%z"),
    ("wh/events/a=%3D%zz%/f", "a==%zz%"),
    ("wh/events/a=/f", "a="),
    ("wh/events/2026%2F11/f", "2026%2F11"),
    ("wh/events/a=1/plain%20/f", "a=1/plain%20"),
    ("wh/events/=1/f", "=1"),
    ("s3://other/deep/dt=1/f", "deep/dt=1"),
]


@pytest.mark.parametrize(("path", "partition"), PARTITIONS)
def test_the_partition_is_the_folder_below_the_table(path: str, partition: str) -> None:
    assert one({"path": path})["partition_path"] == partition


KNOWN = ("lake", "wh/events/f")
BROKEN: list[tuple[dict[str, Any], str, tuple[str, str] | tuple[None, None]]] = [
    # change of a good row, fault, the path it is sure to be about alone
    ({"path": None}, "has no path", (None, None)),
    ({"path": ""}, "has no path", (None, None)),
    ({"path": 7}, "has no text as path", (None, None)),
    ({"path": "wh/events/\ud800"}, "has no text as path", (None, None)),
    ({"action": "append"}, "has the unknown action 'append'", (None, None)),
    ({"action": ["add"]}, "has no text as action", (None, None)),
    ({"size": "12k"}, "has no number as size", KNOWN),
    ({"size": -1}, "has no number as size", KNOWN),
    ({"size": 1.5}, "has no number as size", KNOWN),
    ({"size": float("nan")}, "has no number as size", KNOWN),
    ({"size": True}, "has no number as size", KNOWN),
    ({"size": 1 << 63}, "has no number as size", KNOWN),
    ({"records": "9" * 20}, "has no number as records", KNOWN),
    ({"checksum": "d41d8cd98f00b204e9800998ecf8427e"}, "has a checksum that is not algorithm:hex", KNOWN),
    ({"checksum": "md5:xyz"}, "has a checksum that is not algorithm:hex", KNOWN),
    ({"committed_at": "yesterday"}, "has no ISO 8601 time as committed_at", KNOWN),
    ({"committed_at": 1795255200000}, "has no ISO 8601 time as committed_at", KNOWN),
    ({"committed_at": "0001-01-01T00:00:00+14:00"}, "has no ISO 8601 time as committed_at", KNOWN),
    ({"etag": {"a": 1}}, "has no text as etag", KNOWN),
    ({"action": "replace", "size": "x"}, "has no number as size", (None, None)),
]


@pytest.mark.parametrize(("change", "fault", "key"), BROKEN, ids=[str(case[0])[:40] for case in BROKEN])
def test_a_broken_row_is_reported(
    change: dict[str, Any], fault: str, key: tuple[str | None, str | None]
) -> None:
    row = one({"path": "wh/events/f", "size": 1} | change)
    assert (row["fault"], row["action"], row["at"]) == (fault, None, LISTED)
    assert (row["bucket"], row["key"]) == key


VALUES: list[tuple[str, Any, str, Any]] = [
    ("size", "", "size", None),
    ("size", "007", "size", 7),
    ("size", 0, "size", 0),
    ("size", (1 << 63) - 1, "size", (1 << 63) - 1),
    ("etag", '""', "etag", None),
    ("version_id", "null", "version_id", None),
    ("action", "", "action", "add"),
    ("job_id", None, "commit_id", None),
    ("committed_at", None, "at", LISTED),
    ("committed_at", "2026-11-20T08:30:00Z", "at", COMMITTED),
    ("committed_at", "2026-11-20 08:30", "at", COMMITTED),
    ("committed_at", COMMITTED.replace(tzinfo=None), "at", COMMITTED),
]


@pytest.mark.parametrize(("name", "value", "column", "told"), VALUES)
def test_values_are_read_once(name: str, value: Any, column: str, told: Any) -> None:
    row = one({"path": "wh/events/f", name: value})
    assert (row[column], row["fault"]) == (told, None)


A, B = {"path": "wh/events/a"}, {"path": "wh/events/b"}
END = b'{"end": true, "lines": 1}\n'
Told = Sequence[tuple[int, str]]
LISTS: list[tuple[str, str, bytes, bool, list[str], Told]] = [
    # what, name, content, must have an end line, files named, faults by line
    ("whole", "l.jsonl", jsonl(A, B), True, ["a", "b"], []),
    ("blank lines do not count", "l.jsonl", b"\n" + jsonl(A, B) + b"\n \n", True, ["a", "b"], []),
    ("no rows", "l.jsonl", jsonl(), True, [], []),
    (
        "no end",
        "l.jsonl",
        jsonl(A, B, end=False),
        True,
        ["a", "b"],
        [(3, "no end line: the list may be cut off")],
    ),
    ("no end, none asked", "l.jsonl", jsonl(A, B, end=False), False, ["a", "b"], []),
    ("nothing", "l.jsonl", b"", True, [], [(1, "no end line: the list may be cut off")]),
    (
        "wrong count",
        "l.jsonl",
        jsonl(A, B, end=False) + END,
        False,
        ["a", "b"],
        [(3, "the end line counts 1 rows, there are 2")],
    ),
    (
        "no count",
        "l.jsonl",
        jsonl(A, end=False) + b'{"end": true}\n',
        True,
        ["a"],
        [(2, "the end line counts None rows, there are 1")],
    ),
    (
        "goes on",
        "l.jsonl",
        jsonl(A) + jsonl(B, end=False),
        False,
        ["a", "b"],
        [(3, "is after the end line")],
    ),
    ("torn line", "l.jsonl", jsonl(A, B, end=False)[:-4], False, ["a"], [(2, "is not JSON")]),
    (
        "broken line",
        "l.jsonl",
        b'{"path"\n' + jsonl(A),
        False,
        ["a"],
        [(1, "is not JSON"), (3, "the end line counts 1 rows, there are 2")],
    ),
    (
        "broken line, counted",
        "l.jsonl",
        jsonl(A, end=False) + b'oops\n{"end": true, "lines": 2}\n',
        True,
        ["a"],
        [(2, "is not JSON")],
    ),
    (
        "other JSON",
        "l.jsonl",
        b'[{"path": "wh/events/a"}]\n7\n',
        False,
        [],
        [(1, "is not a JSON object"), (2, "is not a JSON object")],
    ),
    (
        "other encoding",
        "l.jsonl",
        '{"path": "wh/events/é"}'.encode("latin-1"),
        False,
        [],
        [(1, "is not JSON")],
    ),
    ("deep", "l.jsonl", b"[" * 100_000, False, [], [(1, "is not JSON")]),
    (
        "long",
        "l.jsonl",
        b" " * (LONGEST_LINE * 2 + 5) + b"{}\n" + jsonl(A, end=False),
        False,
        ["a"],
        [(1, "is not JSON")],
    ),
    (
        "cells",
        "l.csv",
        b"path,size\nwh/events/a,1,2\nwh/events/b,2\n\n",
        True,
        ["b"],
        [(2, "has 3 cells, not 2")],
    ),
    (
        "no header",
        "l.csv",
        b"wh/events/a,1\n",
        True,
        [],
        [(0, "cannot be read: its first row names no column `path`")],
    ),
    ("empty CSV", "l.csv", b"", True, [], [(0, "cannot be read: its first row names no column `path`")]),
    ("quotes", "l.csv", b'path\n"wh/events/x\ny"\nwh/events/a\n', True, ["x\ny", "a"], []),
    (
        "open quote",
        "l.csv",
        b'path\nwh/events/a\n"wh/events/b',
        True,
        ["a"],
        [(UNREAD_REST, "cannot be read after line 2: unexpected end of data")],
    ),
    (
        "CSV encoding",
        "l.csv",
        b"path\nwh/events/\xe9\nwh/events/a\n",
        True,
        ["a"],
        [(2, "has no text as path")],
    ),
    ("no gzip", "l.jsonl.gz", jsonl(A), True, [], [(0, "cannot be read: Not a gzipped file (b'{\"')")]),
    ("no Parquet", "l.parquet", jsonl(A), True, [], [(0, "cannot be read: ")]),
    (
        "other Parquet",
        "l.parquet",
        as_parquet({"file": "x"}),
        True,
        [],
        [(0, "cannot be read: it has no column `path`")],
    ),
    ("odd Parquet", "l.parquet", as_parquet({"path": 7}), True, [], [(1, "has no text as path")]),
]


@pytest.mark.parametrize(
    ("name", "body", "whole", "named", "told"), [case[1:] for case in LISTS], ids=[case[0] for case in LISTS]
)
def test_what_is_read_of_a_list(
    tmp_path: Path, name: str, body: bytes, whole: bool, named: list[str], told: Told
) -> None:
    rows = read(tmp_path / name, body, whole=whole)
    assert [row["key"].removeprefix("wh/events/") for row in rows if row["fault"] is None] == named
    faults = [(row["line"], row["fault"]) for row in rows if row["fault"] is not None]
    assert [line for line, _ in faults] == [line for line, _ in told]
    assert all(fault.startswith(start) for (_, fault), (_, start) in zip(faults, told, strict=True))
    assert [row["unread"] for row in rows] == [row["line"] == 0 for row in rows]


def test_a_list_cut_off_in_its_gzip_keeps_what_was_read(tmp_path: Path) -> None:
    rows = [{"path": f"wh/events/{n:05d}", "etag": f"{n * 7919:x}"} for n in range(20_000)]
    found = read(tmp_path / "l.jsonl.gz", gzip.compress(jsonl(*rows))[:-20_000])
    assert 0 < len(found) < 20_000
    assert {row["fault"] for row in found[:-1]} == {None}
    assert found[-1]["line"] == UNREAD_REST
    assert found[-1]["fault"].startswith(f"cannot be read after line {len(found) - 1}: ")


def test_a_list_that_was_deleted_is_reported(tmp_path: Path) -> None:
    listed = list_file(tmp_path / "gone.jsonl")
    ((number, fault),) = lines(listed, Clients())
    assert number == 0
    assert "cannot be read" in str(fault)


def test_only_the_very_object_that_was_listed_is_read(clients: Clients, bucket: str) -> None:
    client = clients.s3(bucket)
    etag = client.put_object(Bucket=bucket, Key="l.jsonl", Body=jsonl(A))["ETag"].strip('"')
    listed = ListFile("t", HOME, Location(bucket, "l.jsonl"), 0, LISTED, etag, whole=True)
    assert [line.row for line in lines(listed, clients)] == [A]
    client.put_object(Bucket=bucket, Key="l.jsonl", Body=jsonl(B))
    ((number, fault),) = lines(listed, clients)
    assert (number, str(fault)) == (0, "cannot be read: the store answered PreconditionFailed")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
HOSTILE = st.dictionaries(
    st.sampled_from(
        [
            "path",
            "size",
            "etag",
            "version_id",
            "checksum",
            "committed_at",
            "job_id",
            "records",
            "action",
            "scope",
            "end",
        ]
    ),
    JSON
    | st.sampled_from(["wh/events/x", "replace", "remove", "s3://b/k", "2026-01-01"])
    | st.datetimes(timezones=st.just(UTC)),
    max_size=6,
)


@given(HOSTILE)
def test_no_row_breaks_the_reader(row: dict[str, Any]) -> None:
    """Every row is an event that Arrow can hold, or a fault."""
    read_row = one(row)
    assert (read_row["fault"] is None) is (read_row["action"] is not None)
    pa.RecordBatch.from_pylist([read_row])
    assert read_row["at"].tzinfo is not None


@given(st.binary(max_size=300), st.sampled_from(["l.jsonl", "l.csv", "l.parquet", "l.jsonl.gz", "l.csv.gz"]))
def test_no_bytes_break_the_reader(tmp_path: Path, body: bytes, name: str) -> None:
    rows = read(tmp_path / name, body)
    assert all(row["table_name"] == "raw.events" for row in rows)


def test_a_job_may_run_in_any_zone() -> None:
    row = one({"path": "wh/events/f", "committed_at": "2026-11-20T08:30:00.123456-05:00"})
    assert row["at"] == datetime(2026, 11, 20, 13, 30, 0, 123456, tzinfo=UTC)
    assert row["at"].utcoffset() == timedelta(0)
