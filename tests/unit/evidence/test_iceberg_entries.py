"""Entries of manifests as columns: places and partitions equal those of single entries."""

import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeaudit.evidence.avro.blocks import Torn, header_of, plain_blocks
from lakeaudit.evidence.avro.columns import decode, pieces
from lakeaudit.evidence.avro.layout import layout_of
from lakeaudit.evidence.avro.records import open_avro
from lakeaudit.evidence.manifest.iceberg.state.entries import entries
from lakeaudit.evidence.manifest.iceberg.state.partitions import path_writer
from lakeaudit.evidence.manifest.iceberg.state.places import with_places
from lakeaudit.keys import LOCAL_ELSEWHERE, Aliases, Location, outside_local, place_by_name
from lakeaudit.runtime import duck
from tests.builders.connections import connection
from tests.builders.iceberg_files import avro

ALIASES: dict[str, Aliases] = {
    "none": (),
    "a bucket": ((Location("old", ""), Location("new", "")),),
    "a folder": ((Location("old", "wh"), Location("new", "lake/wh")),),
    "HDFS": ((Location("hdfs://nn:8020", "wh"), Location("new", "wh")), (Location("hdfs:", ""), Location("new", ""))),
    "no local files": outside_local([Location("", "data")]),
    "a mount": ((Location("dbfs:", "mnt/prod"), Location("new", "")),),
}  # fmt: skip
HEADS = (
    *("s3://old", "s3a://old", "s3n://b", "gs://b", "S3://b", "s3://", "s3://a@b", "s3:", "file:", "file://"),
    *("file://host", "", "/", "//", "dbfs:", "dbfs:/", "dbfs://x", "hdfs:", "hdfs://nn:8020", "hdfs://", "gopher://x"),
    *("abfss://c@account.dfs.core.windows.net", "wasbs://c@account.blob.core.windows.net", "abfss://c@account.elsewhere"),
    *("relative", ".", "c:", "1x://y", "x\ny"),
)  # fmt: skip
RESTS = (
    *("", "/", "//", "/wh/a", "//wh/a", "/data/a", "/data", "/mnt/prod/x"),
    *("/wh/a b%20c+d", "/x\ny/z", "/é/ü", "a/b", "?x"),
)  # fmt: skip


def places_of(paths: list[str | None], aliases: Aliases) -> dict[str | None, tuple[str, str] | None]:
    rows = pa.table({"path": pa.array(paths, pa.string())})
    found = duck.rows_of(with_places(connection(), rows, aliases))
    return {row["path"]: None if row["bucket"] is None else (row["bucket"], row["key"]) for row in found}


@pytest.mark.parametrize("case", ALIASES)
def test_a_place_is_that_of_the_single_path(case: str) -> None:
    aliases = ALIASES[case]
    paths = [f"{head}{rest}" for head in HEADS for rest in RESTS]
    found = places_of([*paths, None], aliases)
    assert found.pop(None) is None
    expected = {path: place_by_name(aliases, path) for path in paths}
    assert {p: (found[p], place) for p, place in expected.items() if found[p] != place} == {}


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("case", ALIASES)
def test_a_place_among_paths_that_begin_alike_is_that_of_the_single_path(case: str, head: str) -> None:
    aliases = ALIASES[case]
    for rests in (RESTS, [rest for rest in RESTS if rest.startswith("/")], ["/wh/a", "/x"]):
        paths: list[str | None] = [f"{head}{rest}" for rest in rests]
        assert places_of(paths, aliases) == {path: place_by_name(aliases, str(path)) for path in paths}


@given(st.lists(st.text(max_size=30), max_size=20))
def test_a_place_of_any_text_is_that_of_the_single_path(texts: list[str]) -> None:
    paths: list[str | None] = [*texts, *(f"s3://b/{text}" for text in texts)]
    aliases = outside_local([])
    found = places_of(paths, aliases)
    assert found == {path: place_by_name(aliases, str(path)) for path in paths}
    assert all(place is None or place[0] != "" for place in found.values())
    assert LOCAL_ELSEWHERE not in {place for place in found.values() if place is None}


DATES = {"type": "int", "logicalType": "date"}
PARTITIONS: dict[str, tuple[list[tuple[str, str, str, Any]], list[dict[str, Any]]]] = {
    "none": ([], [{}, {}]),
    "text": ([("c", "identity", "string", ["null", "string"])], [{"c": v} for v in ("x", None, "x", "", "é")]),
    "numbers": (
        [("y", "year", "date", ["null", "int"]), ("m", "month", "date", ["null", "int"]),
         ("h", "hour", "timestamp", ["null", "int"]), ("b", "bucket[8]", "string", ["null", "int"])],
        [{"y": 56, "m": 680, "h": 498_000, "b": 3}, {"y": None, "m": -1, "h": 0, "b": 3},
         {"y": 56, "m": 680, "h": 0, "b": 4}],
    ),
    "dates": (
        [("d", "day", "timestamp", ["null", DATES]), ("e", "identity", "date", ["null", "int"])],
        [{"d": 20_000, "e": 20_000}, {"d": None, "e": None}, {"d": 20_000, "e": 1}],
    ),
    "other values": (
        [("f", "identity", "float", ["null", "float"]), ("t", "identity", "boolean", ["null", "boolean"]),
         ("x", "identity", "binary", ["null", "bytes"]), ("u", "void", "string", ["null", "string"]),
         ("dec", "identity", "decimal(9, 2)",
          ["null", {"type": "fixed", "name": "dec", "size": 4, "logicalType": "decimal", "precision": 9, "scale": 2}])],
        [{"f": 0.1, "t": True, "x": b"\x00\xff", "u": None, "dec": Decimal("-1.20")},
         {"f": None, "t": False, "x": None, "u": None, "dec": None}],
    ),
}  # fmt: skip


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("case", PARTITIONS)
def test_a_partition_is_written_as_for_the_single_entry(case: str, named: bool) -> None:
    fields, partitions = PARTITIONS[case]
    kind = record("r102", [(name, avro_type) for name, _, _, avro_type in fields])
    file = record("r2", [("file_path", "string"), ("partition", kind), ("record_count", "long")])
    header = {
        "schema": json.dumps({"fields": [{"id": n, "type": t} for n, (_, _, t, _) in enumerate(fields)]}),
        "partition-spec": json.dumps(
            [{"name": name, "transform": how, "source-id": n} for n, (name, how, _, _) in enumerate(fields)]
        ),
    }
    rows = [
        {"status": 1, "data_file": {"file_path": "/x", "partition": p, "record_count": 1}} for p in partitions
    ]
    content = avro(record("entry", [("status", "int"), ("data_file", file)]), rows, {})
    found = header_of(content)
    layout = layout_of(found.values["avro.schema"])
    (records,) = decode(layout, list(pieces(plain_blocks(content, found), 1 << 20)))
    assert not isinstance(records, Torn)
    text = header if named else {}
    table = entries(layout, text, records, pa.repeat(pa.scalar(0, pa.int32()), len(records)))
    path_of = path_writer(text)
    expected = [path_of(entry["data_file"]["partition"]) for entry in open_avro(content).records]
    assert table["partition_path"].to_pylist() == expected
    assert table["size"].to_pylist() == [None] * len(rows)


def record(name: str, fields: list[tuple[str, Any]]) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": n, "type": kind} for n, kind in fields]}
