"""Rows of plain writer manifests that are read as columns are those that are read one by one, whatever the bytes."""

import gzip
import io
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lakeaudit.evidence.manifest.file_list import columns, read_lines
from lakeaudit.evidence.manifest.file_list.columns import Columns
from lakeaudit.evidence.manifest.file_list.fold import EVENT
from lakeaudit.evidence.manifest.file_list.list_part import event_tables
from lakeaudit.evidence.manifest.file_list.parse_rows import event
from lakeaudit.evidence.manifest.file_list.read_lines import ListFile, lines, pieces
from lakeaudit.keys import Location
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.duck import Connection
from tests.builders.connections import connection

LISTED = datetime(2026, 11, 21, 12, tzinfo=UTC)
HOMES = [
    Location("lake", "wh/events"),
    Location("lake", ""),
    Location("", "data/events"),
    Location("l", "é/b"),
]


@pytest.fixture(scope="module")
def con() -> Iterator[Connection]:
    con = connection()
    yield con
    con.close()


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "FEWEST_BYTES", 1)
    monkeypatch.setattr(read_lines, "BLOCK", 200)
    monkeypatch.setattr(read_lines, "LONGEST_LINE", 300)


def list_of(place: Path, body: bytes, home: Location = HOMES[0]) -> ListFile:
    place.write_bytes(body)
    return ListFile("raw.events", home, Location.parse(str(place)), 3, LISTED, None, whole=True)


def one_by_one(listed: ListFile) -> Counter[tuple[Any, ...]]:
    rows = [event(line, listed) for line in lines(listed, Clients())]
    arrays = [pa.array([row[n] for row in rows], kind) for n, kind in enumerate(EVENT.values())]
    return Counter(tuple(row.values()) for row in pa.table(arrays, list(EVENT)).to_pylist())


def as_read(con: Connection, listed: ListFile) -> Counter[tuple[Any, ...]]:
    tables = list(event_tables(con, [listed], Clients()))
    assert all(table.schema == pa.schema(EVENT.items()) for table in tables)
    return Counter(tuple(row.values()) for table in tables for row in table.to_pylist())


def columnar_rows(listed: ListFile) -> int:
    return sum(piece.rows.num_rows for piece in pieces(listed, Clients()) if isinstance(piece, Columns))


PLAIN: dict[str, Any] = {
    "path": "wh/events/dt=2026-11-01/a b%2F.parquet",
    "size": 12,
    "etag": '"AbC"',
    "version_id": "null",
    "checksum": "MD5:AB01",
    "committed_at": "2026-11-20T09:30:00.5+01:00",
    "job_id": "job-1",
    "records": 3,
    "action": "remove",
}
ODD: list[Mapping[str, Any]] = [
    {"path": "s3a://other/x/a=%3D/y"},
    {"path": "s3://other/"},
    {"path": "abfss://wh@acme.dfs.core.windows.net/x/a b@c"},
    {"path": "wasbs://wh@acme.blob.core.windows.net/"},
    {"path": "s3://wh@acme/x"},
    {"path": "abfss://wh:x@acme.dfs.core.windows.net/x"},
    {"path": "S3://lake/x"},
    {"path": "file:///data/events/x"},
    {"path": "/data/events/x"},
    {"path": "wh/events/"},
    {"path": "wh/events"},
    {"path": "wh/events//x"},
    {"path": "wh/events/a/../x"},
    {"path": "s3a://lake/wh/events/./a/.."},
    {"path": "wh/events/x/."},
    {"path": "é/b/a=1/b=%zz/f\n\0x"},
    {"path": "wh/events/[a]{b}"},
    {"path": "s3n://o/a\nb/c"},
    {"size": -1},
    {"size": 1 << 63},
    {"size": 1.0},
    {"size": "7"},
    {
        "size": None,
        "checksum": "",
        "etag": '""',
        "version_id": "",
        "job_id": "",
        "action": "",
        "committed_at": "",
    },
    {"checksum": "MD5:\u212a"},
    {"checksum": "\u212a:ab\n"},
    {"checksum": "md5:ab\n"},
    {"committed_at": "yesterday"},
    {"committed_at": "0001-01-01T00:00:00+14:00"},
    {"action": "replace", "scope": "wh/events/dt=1"},
    {"action": "replace", "path": None},
    {"action": "append"},
    {"etag": {"a": [1]}},
    {"end": True},
    {"end": False},
    {"end": 1},
    {"other": [[[1]]]},
    {"other": 1e400},
    {"other": float("nan")},
    {"path": "wh/events/\ud800"},
]


@pytest.mark.parametrize("home", HOMES, ids=str)
def test_odd_json_rows_among_plain_ones(con: Connection, tmp_path: Path, home: Location) -> None:
    """Where a table lies tells what a path is; all else is the same anywhere, and asked of the first one alone.

    A block has one row. The first table has a plain row after each odd one; the others have one at each end.
    """
    asked = [odd for odd in ODD if home == HOMES[0] or odd.keys() & {"path", "scope"}]
    between: list[Mapping[str, Any]] = [{}] if home == HOMES[0] else []
    changes = [{}, *(change for odd in asked for change in (odd, *between)), {}]
    rows = [{**PLAIN, **change} for change in changes]
    listed = list_of(tmp_path / "l.jsonl", b"".join(json.dumps(row).encode() + b"\n" for row in rows), home)
    assert as_read(con, listed) == one_by_one(listed)
    assert columnar_rows(listed) > len(asked) / 2


def test_plain_lists_are_read_as_columns_but_for_their_end(con: Connection, tmp_path: Path) -> None:
    body = b"".join(json.dumps(PLAIN | {"size": n}).encode() + b"\n" for n in range(40))
    listed = list_of(tmp_path / "l.jsonl.gz", gzip.compress(body + b'{"end": true, "lines": 40}\n'))
    assert columnar_rows(listed) == 40
    assert as_read(con, listed) == one_by_one(listed)


TEXTS = st.sampled_from(
    [
        "wh/events/x",
        "wh/events/dt=%31/y",
        "s3://b/k",
        "",
        "replace",
        "remove",
        "add",
        "2026-01-01",
        "md5:ab",
        '"e"',
    ]
)
PIECES = st.one_of(
    st.builds(
        lambda row: json.dumps(row).encode(),
        st.dictionaries(
            st.sampled_from([*columns.COLUMNS, "end", "lines", "x"]),
            TEXTS | st.none() | st.booleans() | st.integers(-1, 1 << 64) | st.floats() | st.text(max_size=5),
            max_size=6,
        ),
    ),
    st.builds(lambda n: json.dumps(PLAIN | {"size": n}).encode(), st.integers(0, 9)),
    st.sampled_from(
        [
            *(
                b"{",
                b"}",
                b"{}",
                b'{"path":',
                b" ",
                b"[",
                b"]",
                b"\0",
                b",",
                b"\r",
                b"\xef\xbb\xbf",
                b"\xff",
                b"7",
            ),
            *(
                b'{"path": "wh/events/a"} {',
                b'{"path": "wh/events/a", "path": "wh/events/b"}',
                b'"end"',
                b"//c",
            ),
            *(
                b'{"path": "wh/events/\\u0000"}',
                b'{"size": 007}',
                b'{"size": -0}',
                b'{"size": 1e2}',
                b'{"x": NaN}',
            ),
            b'{"x": "' + b"y" * 300 + b'"}',
        ]
    ),
    st.binary(max_size=20),
)


@given(st.lists(st.tuples(PIECES, st.sampled_from([b"\n", b"\n", b"\n", b""])), max_size=12))
@example([(b'{"path":', b"\n"), (b'{"path": "wh/events/a"}}', b"\n")])
@example([(b'{"path": "wh/events/a"} {}', b"\n"), (b'{"x":', b"\n"), (b"1}", b"\n")])
def test_any_json_bytes(con: Connection, tmp_path: Path, drawn: list[tuple[bytes, bytes]]) -> None:
    listed = list_of(tmp_path / "l.jsonl", b"".join(text + end for text, end in drawn))
    assert as_read(con, listed) == one_by_one(listed)


def parquet(**arrays: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table(arrays), sink)
    return sink.getvalue()


PATHS = ["wh/events/a", None, "", "s3://o/x", "hdfs://x/y"]
INSTANTS = [LISTED, None, LISTED, LISTED, LISTED]
PARQUETS: list[tuple[dict[str, Any], bool]] = [
    # columns beside the path, whether they are read as such
    ({"size": pa.array([1, None, 3, -4, 5])}, True),
    ({"size": pa.array([1, None, 3, 4, 5], pa.uint8())}, True),
    ({"size": pa.array([1, 2, 3, 4, (1 << 64) - 1], pa.uint64())}, False),
    ({"size": pa.array([1.0, None, 3.0, 1.5, float("nan")])}, False),
    ({"size": pa.array([Decimal(1)] * 5)}, False),
    ({"size": pa.nulls(5), "etag": pa.nulls(5)}, True),
    ({"etag": pa.array(["a", '"b"', None, "", "c"]).dictionary_encode()}, True),
    ({"etag": pa.array(["a", '"b"', None, "", "c"], pa.large_string())}, True),
    ({"etag": pa.array([b"a", b"b", None, b"", b"c"])}, False),
    ({"committed_at": pa.array(INSTANTS, pa.timestamp("ms"))}, True),
    ({"committed_at": pa.array(INSTANTS, pa.timestamp("us", "UTC"))}, True),
    ({"committed_at": pa.array(INSTANTS, pa.timestamp("us", "+01:00"))}, False),
    ({"committed_at": pa.array([1 << 60, None, 0, 0, 0], pa.int64()).cast(pa.timestamp("us"))}, False),
    ({"committed_at": pa.array([1001, None, 0, 0, 0], pa.int64()).cast(pa.timestamp("ns"))}, False),
    ({"committed_at": pa.array(["2026-01-01", None, "", "x", "2026-01-01T00:00:00+01:00"])}, True),
    ({"committed_at": pa.array([LISTED.date()] * 5)}, False),
    ({"action": pa.array(["remove", None, "add", "replace", "x"])}, True),
]


@pytest.mark.parametrize(("more", "columnar"), PARQUETS, ids=[str(n) for n in range(len(PARQUETS))])
def test_parquet_columns_of_any_type(
    con: Connection, tmp_path: Path, more: dict[str, Any], columnar: bool
) -> None:
    listed = list_of(tmp_path / "l.parquet", parquet(path=pa.array(PATHS), **more))
    assert as_read(con, listed) == one_by_one(listed)
    assert columnar_rows(listed) == (5 if columnar else 0)
