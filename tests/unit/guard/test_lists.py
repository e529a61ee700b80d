"""Every form of delete list: how it is recognised, the files that it names, and the lines that name none."""

import gzip
import io
import json
from pathlib import Path

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeaudit.errors import BadInput
from lakeaudit.guard.lists import csv_lists, json_lists, protocol
from lakeaudit.guard.lists.open_list import read_list
from lakeaudit.runtime.connections.aws import Clients

PLAN = "filePathsToBeDeletedPerPartition"
SHOW = """+--------------------+
|                path|
+--------------------+
|s3a://b/t/part-0....|
|        s3a://b/t/x |
+--------------------+
"""
LISTS = {
    "one path in each line": (b"s3://b/t/x\n\r\ns3a://b/t/a b\r\n", "plain", ["s3://b/t/x", "s3a://b/t/a b"]),
    "a byte order mark": (b"\xef\xbb\xbfs3://b/t/x\n", "plain", ["s3://b/t/x"]),
    "no line end": (b"/t/x", "plain", ["/t/x"]),
    "the column of a dry run": (b'path\ns3://b/t/x\n"s3://b/t/a,b"\n', "csv", ["s3://b/t/x", "s3://b/t/a,b"]),
    "a printed table": (SHOW.encode(), "plain", ["s3a://b/t/x"]),
    "an empty list": (b"", "plain", []),
    "CSV with a known column": (b"size,path\n1,s3://b/t/x\n2,part-1\n", "csv", ["s3://b/t/x", "part-1"]),
    "CSV of Iceberg": (b"n;orphan_file_location\n1;s3://b/t/x\n", "csv", ["s3://b/t/x"]),
    "CSV with a header in another language": ("Größe;Pfad\n1;s3://b/t/x\n".encode(), "csv", ["s3://b/t/x"]),
    "CSV without a header": (b"1,s3://b/t/x\n2,s3://b/t/y\n", "csv", ["s3://b/t/x", "s3://b/t/y"]),
    "a path with a comma after others": (b"s3://b/t/x\ns3://b/t/a,b\n", "plain", ["s3://b/t/x", "s3://b/t/a,b"]),
    "CSV with bucket and key": (b"Bucket,Key\nb,t/x\n", "csv", ["b t/x"]),
    "CSV with quotes": (b'path,n\n"s3://b/t/a,b",1\n', "csv", ["s3://b/t/a,b"]),
    "the free files of a local lake": (b"bucket,key,uri,size\n,t/x,/t/x,1\n,t/y,/t/y,\n", "csv", ["/t/x", "/t/y"]),
    "CSV with other ends of lines": (b"n,path\r\n1,s3://b/t/x\r\n2,s3://b/t/y\r\n", "csv", ["s3://b/t/x", "s3://b/t/y"]),
    "S3 Batch Operations": (b"my-bucket,t/a%20b\nmy-bucket,t/y\n", "s3-batch", ["my-bucket t/a%20b", "my-bucket t/y"]),
    "S3 Batch Operations, versions": (b'"my-bucket","t/x","v1"\n', "s3-batch", ["my-bucket t/x"]),
    "JSON Lines of texts": (b'"s3://b/t/x"\n\n"s3://b/t/y"\n', "jsonl", ["s3://b/t/x", "s3://b/t/y"]),
    "JSON Lines of objects": (b'{"path": "s3://b/t/x", "n": 1}\n', "jsonl", ["s3://b/t/x"]),
    "JSON Lines of bucket and key": (b'{"bucket": "b", "key": "t/x"}\n', "jsonl", ["b t/x"]),
    "a JSON array": (b'["s3://b/t/x",\n {"file": "s3://b/t/y"}]', "json", ["s3://b/t/x", "s3://b/t/y"]),
    "a printed list of delta-rs": (b"['part-0.parquet', 'd=1/part-1.parquet']\n", "json",
                                   ["part-0.parquet", "d=1/part-1.parquet"]),
    "a clean plan as JSON": (json.dumps({PLAN: {"d=1": [{"filePath": "s3://b/t/x"}]}}).encode(), "json", ["s3://b/t/x"]),
    "a compressed list": (gzip.compress(b"s3://b/t/x\n"), "plain", ["s3://b/t/x"]),
}  # fmt: skip


def read(tmp_path: Path, content: bytes, form: str | None = None) -> tuple[list[dict[str, object]], str, str]:
    file = tmp_path / "list"
    file.write_bytes(content)
    batches, lines, name = read_list(str(file), Clients(), form=form)
    rows = [row for batch in batches for row in batch.to_pylist()]
    return rows, name, lines.cut_off


def files_of(rows: list[dict[str, object]]) -> list[str]:
    return [f"{row['bucket'] or ''} {row['text']}".strip() for row in rows if row["fault"] is None]


@pytest.mark.parametrize("name", LISTS)
def test_a_list_names_its_files(tmp_path: Path, name: str) -> None:
    content, form, files = LISTS[name]
    rows, recognised, _ = read(tmp_path, content)
    assert (recognised, files_of(rows)) == (form, files)


LONG = {
    "plain lines": b"s3://b/t/%d\n",
    "a line of a dry run after others": b"s3://b/t/%d\nFound 30 files and directories that are safe to delete.\n",
    "a printed table": b"+----+\n|path|\n+----+\n|s3://b/t/%d|\n",
    "empty lines and other ends of lines": b"s3://b/t/%d\r\n  \n\n",
    "headers": b"path\ns3://b/t/%d\n",
}


@pytest.mark.parametrize("name", LONG)
def test_a_list_is_read_in_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """A block of which each line is one path is not read line by line."""
    content = b"".join(LONG[name] % n if b"%d" in LONG[name] else LONG[name] for n in range(30))
    whole, _, cut_off = read(tmp_path, content, "plain")
    monkeypatch.setattr(protocol, "BLOCK", 40)
    rows, _, cut_off_again = read(tmp_path, content, "plain")
    assert rows == whole
    assert cut_off_again == cut_off
    assert files_of(rows) == [f"s3://b/t/{n}" for n in range(30)]


ODD_CSV = {
    "plain lines": b"n,path\n" + b"".join(b"%d,s3://b/t/%d\n" % (n, n) for n in range(30)),
    "quoted values": b'"n","path"\n' + b"".join(b'"%d","s3://b/t/%d"\n' % (n, n) for n in range(30)),
    "a quoted comma and line": b'n,path\n1,"s3://b/t/a,b"\n2,"s3://b/t/c\nd,""e"\n3,s3://b/t/f\n4,x"y"\n' * 3,
    "a value that never ends": b'n,path\n1,s3://b/t/x\n2,"s3://b/t/y\n3,s3://b/t/z\n',
    "other ends of lines": b"n,path\r1,s3://b/t/x\r\n\r\n2,s3://b/t/y\n3,\n",
    "other numbers of values": b"n,path\n1,s3://b/t/x\n2\n3,s3://b/t/z,4\n\n\n5,s3://b/t/5\n",
    "bytes that are not UTF-8": b"n,path\n1,s3://b/t/x\n2,s3://b/\xff\n3,s3://b/t/z\n4,\x1f\n5,a\x1eb\n6,\0\n",
    "a large value": b"n,path\n1,s3://b/t/x\n2," + b"y" * (1 << 21) + b"\n3,s3://b/t/z\n",
    "no header": b"s3://b/t/x,1\ns3://b/t/y,2\n",
}


@pytest.mark.parametrize("block", [1, 40, 1 << 30])
@pytest.mark.parametrize("name", ODD_CSV)
def test_csv_in_blocks_has_the_rows_of_a_reader_of_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, block: int
) -> None:
    monkeypatch.setattr(csv_lists, "plain_csv", lambda *_: None)
    wanted, *others = read(tmp_path, ODD_CSV[name], "csv")
    monkeypatch.undo()
    monkeypatch.setattr(protocol, "BLOCK", block)
    assert read(tmp_path, ODD_CSV[name], "csv") == (wanted, *others)


ODD_JSON = {
    "texts": b'"s3://b/t/x"\n"a b"\n""\n"t\\u00e9"\n',
    "objects of one form": b'{"path": "s3://b/t/x", "n": 1}\n{"path": "/t/y", "n": null}\n{"path": "z", "n": 0}\n',
    "bucket and key": b'{"bucket": "b", "key": "t/x"}\n{"bucket": null, "key": "t/y"}\n{"bucket": "", "key": "z"}\n',
    "a name twice": b'{"path": "s3://b/t/x", "path": "s3://b/t/y"}\n' * 2,
    "two locations": b'{"path": "s3://b/t/x", "to": "y"}\n{"path": "s3://b/t/x", "to": "/t/y"}\n',
    "values of other types": b'{"path": "s3://b/t/x"}\n{"path": 1}\n{"path": ["s3://b/t/y"]}\n{"path": null}\n',
    "what DuckDB accepts": b'{"path": "s3://b/t/x",}\n{"path": "s3://b/t/y" , }\n',
    "what Python accepts": b'{"path": "s3://b/t/x", "n": NaN}\n{"path": "s3://b/t/y", "n": Infinity}\n',
    "other lines": b'{"path": "s3://b/t/x"}\r\n\n{"path": "s3://b/\xff"}\n{"path"\n[1]\n{"path": "a\tb"}\n{}\n',
    "odd stores": b'{"path": "s3://"}\n{"path": "s3://b@c/x"}\n{"path": "hdfs://n/x"}\n{"path": "file:x"}\n',
}


@pytest.mark.parametrize("block", [1, 1 << 30])
@pytest.mark.parametrize("name", ODD_JSON)
def test_json_in_blocks_has_the_rows_of_a_reader_of_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, block: int
) -> None:
    monkeypatch.setattr(json_lists, "plain_json", lambda *_: None)
    wanted = read(tmp_path, ODD_JSON[name], "jsonl")
    monkeypatch.undo()
    monkeypatch.setattr(protocol, "BLOCK", block)
    assert read(tmp_path, ODD_JSON[name], "jsonl") == wanted


def avro(records: list[object]) -> bytes:
    schema = {
        "type": "record", "name": "HoodieCleanerPlan", "fields": [
            {"name": PLAN, "type": {"type": "map", "values": {"type": "array", "items": {
                "type": "record", "name": "info", "fields": [{"name": "filePath", "type": ["null", "string"]}]}}}}],
    }  # fmt: skip
    stream = io.BytesIO()
    fastavro.writer(stream, schema, records)
    return stream.getvalue()


def test_a_clean_plan_of_hudi_names_its_files(tmp_path: Path) -> None:
    plan = {
        PLAN: {"d=1": [{"filePath": "s3://b/t/x"}, {"filePath": None}], "d=2": [{"filePath": "s3://b/t/y"}]}
    }
    rows, form, _ = read(tmp_path, avro([plan]))
    assert (form, files_of(rows)) == ("hudi-clean", ["s3://b/t/x", "s3://b/t/y"])
    assert [row["fault"] for row in rows if row["fault"]] == ["the plan names no path"]


def test_a_parquet_list_names_its_files(tmp_path: Path) -> None:
    stream = io.BytesIO()
    pq.write_table(pa.table({"path": ["s3://b/t/x", None], "size": [1, 2]}), stream)
    rows, form, _ = read(tmp_path, stream.getvalue())
    assert (form, files_of(rows), rows[1]["fault"]) == ("parquet", ["s3://b/t/x"], "the row has no path")


OTHER_NUMBER = "the line has another number of values than the first line"
FAULTS = {
    "a line that is not UTF-8": (b"s3://b/\xff\n", "the line is not UTF-8"),
    "a shortened path": (
        SHOW.encode(),
        "the path was shortened when it was printed: print it with truncate=False",
    ),
    "a line without a value": (b"n,path\n1,s3://b/x\n2,\n", "the line names no file"),
    "a line without a bucket": (b"bucket,key\n,x\n", "the line names no file"),
    "a line with fewer values": (b"n,path\n1,s3://b/x\n2\n", OTHER_NUMBER),
    "a path with a comma": (b"path\ns3://b/a, b\n", OTHER_NUMBER),
    "CSV that is not UTF-8": (b"n,path\n1,s3://b/x\n1,s3://b/\xff\n", "the line is not UTF-8"),
    "a line that is not JSON": (b'{"path": "s3://b/x"}\n{"pa', "the line is not JSON"),
    "JSON without a path": (
        b'{"path": "s3://b/x"}\n{"n": 1}\n',
        "no field of the line names a file, or several may",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_line_that_names_no_file_is_a_row_with_its_fault(tmp_path: Path, name: str) -> None:
    content, fault = FAULTS[name]
    rows, _, _ = read(tmp_path, content)
    assert [row["fault"] for row in rows if row["fault"]] == [fault]


REFUSED = {
    "a comma in the first path": (
        b"s3://b/t/a,b\ns3://b/t/x\n",
        "one path with a comma, or CSV without a header",
    ),
    "no column names files": (b"a,b\n1,2\n", "no column of the list names files, or several may: a, b"),
    "two columns name files": (b"old_path,new_path\ns3://b/x,s3://b/y\n", "several may"),
    "two columns have known names": (b"path,file\na,b\n", "several may"),
    "a location beside the file": (b"table,location,file_path\nt,s3://b/t,s3://b/t/x\n", "several may"),
    "a URI as key": (b"bucket,key\nb,s3://b/x\n", "several may"),
    "JSON that ends in its middle": (b'["s3://b/x", "s3://b', "the list is not complete JSON"),
    "JSON of another form": (b'{"a":\n 1}', "neither an array nor a clean plan"),
    "Parquet that ends in its middle": (b"PAR1xxxx", "the list is not complete Parquet"),
    "Avro that ends in its middle": (avro([{PLAN: {}}])[:40], "the list is not complete Avro"),
    "gzip that ends in its middle": (
        gzip.compress(b"s3://b/t/x\n" * 1000)[:-12],
        "the compressed list is not complete",
    ),
    "a lifecycle configuration without a bucket": (b'{"Rules": []}', "does not name its bucket"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_list_that_may_miss_files_is_refused(tmp_path: Path, name: str) -> None:
    content, what = REFUSED[name]
    with pytest.raises(BadInput, match=what):
        read(tmp_path, content)


def test_a_list_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="cannot be read"):
        read_list(str(tmp_path / "missing"), Clients())
    with pytest.raises(BadInput, match="write a / at its end"):
        read_list(str(tmp_path), Clients())


MOST = "it has exactly 1,000 files, and VACUUM ... DRY RUN returns at most that number"
FOUND = "Found {} files (3 bytes) and directories in a total of 2 directories that are safe to delete.\n"
CUT = {
    "all files are listed": ("s3://b/x\ns3://b/y\n" + FOUND.format(2), ""),
    "a part of the output": (
        "s3://b/x\n" + FOUND.format("1,200"),
        "VACUUM found 1,200 files, and the list has 1",
    ),
    "the limit, without the last line": ("s3://b/x\n" * 1000, MOST),
    "the limit of a dry run": (
        "s3://b/x\n" * 1000 + FOUND.format(1000),
        MOST,
    ),
}


@pytest.mark.parametrize("name", CUT)
def test_the_output_of_a_dry_run_may_lack_files(tmp_path: Path, name: str) -> None:
    content, cut_off = CUT[name]
    assert read(tmp_path, content.encode())[2] == cut_off


def test_a_local_folder_stands_for_its_files(tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "x").touch()
    batches, _, form = read_list(f"{tmp_path}/t/", Clients())
    keys = [row["text"] for batch in batches for row in batch.to_pylist()]
    assert (form, keys) == ("prefix", [f"{str(tmp_path)[1:]}/t/x"])
