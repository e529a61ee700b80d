"""Footers of local files and of objects."""

import io
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from lakeaudit.evidence.storage.footers import VisibleRows, fault_of, rows_of
from lakeaudit.keys import Location
from lakeaudit.runtime.connections.aws import Clients
from tests.conftest import Aws

ROWS = pa.table({"n": list(range(10))})
WIDE = pa.table({f"column_{n:05}": [1] for n in range(900)})


def parquet(table: pa.Table) -> bytes:
    out = io.BytesIO()
    pq.write_table(table, out)
    return out.getvalue()


def in_orc() -> bytes:
    out = io.BytesIO()
    orc.write_table(ROWS, out)
    return out.getvalue()


WHOLE = parquet(ROWS)
TORN = "it does not end as a Parquet file does"
CASES = [
    ("a.parquet", WHOLE, VisibleRows(10), None),
    ("a.parquet", WHOLE, VisibleRows(), None),
    ("a.parquet", parquet(WIDE), VisibleRows(1), None),  # its footer is longer than one read
    ("a.parquet", WHOLE, VisibleRows(9), "its footer counts 10 rows, and the table recorded 9"),
    ("a.parquet", WHOLE, VisibleRows(9, hides_rows=True), None),
    (
        "a.parquet",
        WHOLE,
        VisibleRows(11, hides_rows=True),
        "its footer counts 10 rows, and the table recorded 11",
    ),
    ("a.parquet", WHOLE[:-4] + b"PARE", VisibleRows(9), None),
    ("a.parquet", WHOLE[:-1] + b"x", VisibleRows(10), TORN),
    ("a.parquet", b"x" * 7, VisibleRows(10), TORN),
    ("a.parquet", b"\xff\xff\0\0PAR1", VisibleRows(10), "its footer is longer than the file"),
    ("a.parquet", b"x" * 99 + b"\x20\0\0\0PAR1", VisibleRows(10), "its Parquet footer cannot be understood"),
    ("a.parquet", b"", VisibleRows(10), None),  # its size says enough
    ("a.orc", in_orc(), VisibleRows(9), None),
    ("a.orc", b"ORC" + b"x" * 50, VisibleRows(9), None),
    ("a.orc", b"x" * 50, VisibleRows(10), "it neither begins nor ends as an ORC file does"),
    ("a.avro", b"Obj\x01" + b"x" * 50, VisibleRows(9), None),
    ("a.avro", b"x" * 50, VisibleRows(9), "it does not begin as an Avro file does"),
    ("a.csv", b"x" * 50, VisibleRows(9), None),
]


@pytest.mark.parametrize(("name", "content", "counted", "fault"), CASES)
def test_what_the_ends_of_a_file_say(
    tmp_path: Path, name: str, content: bytes, counted: VisibleRows, fault: str | None
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    place = Location.parse(str(path))
    assert fault_of(Clients(), place, len(content), counted, lambda: None) == fault


def test_objects_are_read_by_their_ends(aws: Aws, clients: Clients, bucket: str) -> None:
    reads: list[None] = []
    content = parquet(WIDE)
    for name in ("a.parquet", "b.avro", "c.orc"):
        aws.s3.put_object(Bucket=bucket, Key=name, Body=content)
    told = [
        fault_of(clients, Location(bucket, name), len(content), VisibleRows(1), lambda: reads.append(None))
        for name in ("a.parquet", "b.avro", "c.orc", "gone.parquet")
    ]
    assert told == [
        None, "it does not begin as an Avro file does", "it neither begins nor ends as an ORC file does", None,
    ]  # fmt: skip
    assert len(reads) == 2 + 1 + 2 + 1
    assert rows_of(clients, bucket, "a.parquet", len(content)) == 1
    assert rows_of(clients, bucket, "gone.parquet", len(content)) is None
