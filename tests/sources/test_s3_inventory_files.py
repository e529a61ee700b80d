"""Data files of S3 Inventory in their parts: types, columns that differ, and files that change or break on the way."""

import gzip
import io
import pickle
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet
import pytest

from lakeaudit.errors import SourceError
from lakeaudit.evidence.protocol import Stored
from lakeaudit.runtime import duck
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.duck import task_connection
from lakeaudit.schemas import NOTE, VERSION
from tests.builders.inventory import SCAN, WRITERS, Version, csv_line, into, lay
from tests.conftest import Aws
from tests.sources.test_s3_inventory import read


def batches_of(stored: Stored) -> dict[str, list[dict[str, Any]]]:
    """Rows of all parts by kind, as they come."""
    rows: dict[str, list[dict[str, Any]]] = {"versions": [], "notes": []}
    assert isinstance(stored.rows, tuple)
    with task_connection() as con:
        for part in stored.rows:
            for kind, batch in pickle.loads(pickle.dumps(part)).read(con):
                table = duck.table(duck.relation(con, batch))
                assert table.schema.equals({"versions": VERSION, "notes": NOTE}[kind])
                rows[kind] += table.to_pylist()
    return rows


def file_of(form: str, **columns: Any) -> bytes:
    out = io.BytesIO()
    table = pa.table(columns)
    if form == "ORC":
        pa.orc.write_table(table, out)
    else:
        pa.parquet.write_table(table, out)
    return out.getvalue()


def text_of(*values: bytes) -> pa.Array:
    """A column of text that may be no UTF-8."""
    binary = pa.array(values, pa.binary())
    return pa.Array.from_buffers(pa.string(), len(values), binary.buffers())


@pytest.mark.parametrize("form", ["ORC", "Parquet"])
def test_a_raw_key_that_is_not_utf8_is_rejected_and_the_rest_is_read(tmp_path: Path, form: str) -> None:
    keys = text_of(b"a%41+", b"a\xff", "\ufffd".encode(), b"x")
    content = file_of(form, bucket=["lake", "lake", "lake", "pond"], key=keys, e_tag=text_of(*[b"\xfe"] * 4))
    lay(into(tmp_path), [content], form=form)
    rows = batches_of(read(tmp_path / "inv"))
    assert rows["notes"] == []
    assert [row["key"] for row in rows["versions"]] == ["a%41+", None, "\ufffd", None]
    name = f"0701-0.{form.lower()}"
    rejects = [row["reject"] for row in rows["versions"]]
    bad = f"{name}: Key is not text: a\ufffd"
    assert rejects == [None, bad, None, f"{name}: row of another bucket: pond, not lake"]


@pytest.mark.parametrize("form", ["ORC", "Parquet"])
def test_columns_may_be_texts_or_of_other_case(tmp_path: Path, form: str) -> None:
    content = file_of(
        form,
        Bucket=["lake"] * 3,
        KEY=["a", "b", "c"],
        size=["5", "-5", ""],
        is_latest=["TRUE", "false", "maybe"],
        last_modified_date=["2024-05-06T12:00:00+02:00"] * 3,
    )
    lay(into(tmp_path), [content], form=form)
    sound, *wrong = batches_of(read(tmp_path / "inv"))["versions"]
    time = datetime(2024, 5, 6, 10)  # noqa: DTZ001 - UTC without a zone
    assert (sound["key"], sound["size"], sound["is_latest"], sound["modified_at"]) == ("a", 5, True, time)
    name = f"0701-0.{form.lower()}"
    assert [row["reject"] for row in wrong] == [
        f"{name}: Size is not a number: -5",
        f"{name}: IsLatest is not a flag: maybe",
    ]
    assert all(set(row.values()) == {"inventory 1", None, row["reject"]} for row in wrong)


WRONG_TYPES: list[tuple[str, dict[str, Any], str]] = [
    ("a number", {"size": [1.5]}, "column size is of type double, not a number"),
    ("text", {"e_tag": pa.array([1])}, "column e_tag is of type bigint, not text"),
    ("bytes", {"version_id": [b"x"]}, "column version_id is of type binary, not text"),
    ("a flag", {"is_latest": pa.array([1], pa.int32())}, "column is_latest is of type int, not a flag"),
    ("a time", {"last_modified_date": [True]}, "last_modified_date is of type boolean, not a time"),
    ("a column twice", {"KEY": ["k"]}, "names a column twice in its data files"),
]


@pytest.mark.parametrize(
    ("columns", "what"), [row[1:] for row in WRONG_TYPES], ids=[row[0] for row in WRONG_TYPES]
)
def test_columns_of_impossible_types_are_an_error(tmp_path: Path, columns: dict[str, Any], what: str) -> None:
    lay(into(tmp_path), [file_of("Parquet", bucket=["lake"], key=["k"], **columns)], form="Parquet")
    with pytest.raises(SourceError, match=what):
        read(tmp_path / "inv")


def test_what_a_file_lacks_is_null_and_what_the_first_lacks_is_left_out(tmp_path: Path) -> None:
    first = file_of("Parquet", bucket=["lake"], key=["a"], size=[1])
    second = file_of("Parquet", bucket=["lake"], key=["b"], e_tag=["x"])
    third = file_of("Parquet", bucket=["lake"], key=["c"], size=[1.5])
    laid = lay(into(tmp_path), [first, second, third], form="Parquet")
    rows = batches_of(read(tmp_path / "inv"))
    assert [(row["key"], row["size"], row["etag"]) for row in rows["versions"]] == [
        ("a", 1, None),
        ("b", None, None),
    ]
    what = "data file cannot be used: column size is of type double, not a number"
    assert [(note["subject"], note["reason"]) for note in rows["notes"]] == [(f"/{laid.data[2]}", what)] or [
        note["reason"] for note in rows["notes"]
    ] == [what]


def _alter(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)


AFTERWARDS: list[tuple[Callable[[Path], Any], str]] = [
    (lambda path: path.unlink(), "data file is missing"),
    (
        lambda path: path.write_bytes(path.read_bytes()[:50]),
        "data file was changed after it had been verified",
    ),
    (_alter, "data file was changed after it had been verified"),
]


@pytest.mark.parametrize("form", WRITERS)
def test_a_file_that_changes_after_it_was_verified_is_a_note(tmp_path: Path, form: str) -> None:
    contents = [WRITERS[form]([Version(f"k{i}")]) for i in range(len(AFTERWARDS) + 1)]
    laid = lay(into(tmp_path), contents, form=form)
    stored = read(tmp_path / "inv")
    for name, (change, _) in zip(laid.data, AFTERWARDS, strict=False):
        change(tmp_path / name)
    rows = batches_of(stored)
    assert stored.holes == ()
    assert [row["key"] for row in rows["versions"]] == [f"k{len(AFTERWARDS)}"]
    assert [note["reason"] for note in rows["notes"]] == [reason for _, reason in AFTERWARDS]
    uris = [str(tmp_path / name) for name in laid.data[:-1]]
    assert [(n["source"], n["subject"], n["count"]) for n in rows["notes"]] == [
        ("inventory 1", uri, 0) for uri in uris
    ]


@pytest.mark.parametrize("form", ["ORC", "Parquet"])
def test_a_file_that_was_delivered_broken_is_a_note(tmp_path: Path, form: str) -> None:
    lay(into(tmp_path), [b"garbage", WRITERS[form]([Version("k")])], form=form)
    rows = batches_of(read(tmp_path / "inv"))
    assert [row["key"] for row in rows["versions"]] == ["k"]
    assert [note["reason"] for note in rows["notes"]] == [f"data file cannot be read as {form}"]


@pytest.mark.parametrize("form", ["ORC", "Parquet"])
def test_a_report_of_broken_files_alone_is_an_error(tmp_path: Path, form: str) -> None:
    lay(into(tmp_path), [b"garbage", b""], form=form)
    with pytest.raises(SourceError, match=f"has no data file that can be read as {form}"):
        read(tmp_path / "inv")


def test_of_a_gzip_file_that_ends_early_the_note_comes_after_its_rows(tmp_path: Path) -> None:
    lines = b"".join(csv_line(Version(f"k{i}")) for i in range(1000))
    lay(into(tmp_path), [gzip.compress(lines)[:-200], b"\x1f\x8bgarbage"])
    notes = batches_of(read(tmp_path / "inv"))["notes"]
    assert [note["reason"] for note in notes] == ["data file cannot be read as CSV"] * 2


def test_an_altered_object_is_a_note(clients: Clients, aws: Aws, bucket: str) -> None:
    def put(key: str, content: bytes) -> None:
        aws.s3.put_object(Bucket=bucket, Key=key, Body=content)

    contents = [WRITERS["Parquet"]([Version(f"k{i}")]) for i in range(3)]
    laid = lay(put, contents, form="Parquet", destination=bucket)
    stored = read(f"s3://{bucket}/inv/", clients=clients)
    put(laid.data[0], contents[1])
    aws.s3.delete_object(Bucket=bucket, Key=laid.data[1])
    rows = batches_of(stored)
    assert [row["key"] for row in rows["versions"]] == ["k2"]
    assert {(note["subject"], note["reason"]) for note in rows["notes"]} == {
        (f"s3://{bucket}/{laid.data[0]}", "data file was changed after it had been verified"),
        (f"s3://{bucket}/{laid.data[1]}", "data file is missing"),
    }


@pytest.mark.usefixtures("own_clients")
@pytest.mark.parametrize("form", ["ORC", "Parquet"])
def test_on_s3_the_columns_are_known_without_reading_the_rows(
    clients: Clients, aws: Aws, bucket: str, form: str
) -> None:
    def put(key: str, content: bytes) -> None:
        aws.s3.put_object(Bucket=bucket, Key=key, Body=content)

    sizes: list[int] = []
    seen = clients.s3(bucket).meta.events
    seen.register("after-call.s3.GetObject", lambda parsed, **_: sizes.append(parsed["ContentLength"]))
    content = WRITERS[form]([Version(f"{i:0100}-{hash(i * i * 7919)}") for i in range(60_000)])
    lay(put, [content], form=form, destination=bucket)
    stored = read(f"s3://{bucket}/inv/", clients=clients)
    assert sum(sizes) < len(content) / 2
    assert len(batches_of(stored)["versions"]) == 60_000


def test_of_a_parquet_file_one_relation_is_given_that_reads_few_columns_for_few(tmp_path: Path) -> None:
    lay(into(tmp_path), [WRITERS["Parquet"]([Version("a"), Version("b")])], form="Parquet")
    (part,) = read(tmp_path / "inv", SCAN + timedelta(days=1)).rows  # type: ignore[misc]
    with task_connection() as con:
        for kind, rows in part.read(con):
            assert kind == "versions"
            assert isinstance(rows, duck.Relation)
            narrow = duck.query(con, "SELECT size FROM input", input=rows)
            scan = narrow.explain().partition("Read Parquet")[2]
            assert "size" in scan
            assert "e_tag" not in scan
            assert duck.rows_of(narrow) == [{"size": 5}, {"size": 5}]
