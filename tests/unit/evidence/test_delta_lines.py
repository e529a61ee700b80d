"""The line reader on a store that refuses or has lost a file: it never reports an absence and never crashes."""

import io
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from botocore.stub import Stubber

from lakeaudit.evidence.manifest.delta.log import lines as lines_module
from lakeaudit.evidence.manifest.delta.log.actions import on_files, parse_lines
from lakeaudit.evidence.manifest.delta.log.lines import LINE, LineFile, Lines, in_commit_time, read_lines
from lakeaudit.keys import Location
from lakeaudit.runtime.connections.aws import Clients, Endpoint
from tests.builders.connections import connection


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        ("AccessDenied", "it cannot be read: access denied"),
        ("NoSuchKey", "it was removed after the log was listed"),
        ("PermanentRedirect", "it cannot be read: lies in another region"),
        ("SlowDown", "it cannot be read: the store answered SlowDown"),
    ],
)
@pytest.mark.parametrize("size", [10, 2 << 20])
def test_a_refusal_differs_from_an_absence(code: str, problem: str, size: int) -> None:
    client = Clients(Endpoint(endpoint="http://127.0.0.1:9", region="us-east-1")).s3("lake")
    with Stubber(client) as stub:
        stub.add_client_error("get_object", code)
        (read,) = read_lines(
            [LineFile(7, Location("lake", "t/_delta_log/x.json"), size)], _clients_of(client)
        )
    assert read.problems == [(7, problem)]
    assert _lines(read) == []


@pytest.mark.parametrize("small", [10, 2 << 20])
@pytest.mark.parametrize("block", [7, 8 << 20])
def test_a_local_file(small: int, block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small and large ones are read alike: whole lines in their order, with the commit's own time."""
    monkeypatch.setattr(lines_module, "_BLOCK", block)
    monkeypatch.setattr(lines_module, "_SMALL", small)
    path = tmp_path / "c.json"
    path.write_text('{"commitInfo":{"inCommitTimestamp":5}}\n\n{"add":{}}\n{"no":"newline"}')
    size = path.stat().st_size
    files = [LineFile(1, Location("", str(path)[1:]), size), LineFile(2, Location("", "no/such/file"), size)]
    blocks = list(read_lines(files, Clients()))
    assert [line for read in blocks for line in _lines(read) if line[1]] == [
        (1, '{"commitInfo":{"inCommitTimestamp":5}}'),
        (1, '{"add":{}}'),
        (1, '{"no":"newline"}'),
    ]
    assert all(read.in_commit_ms == ({1: 5} if _lines(read) else {}) for read in blocks if read.rows.num_rows)
    assert [problem for read in blocks for problem in read.problems] == [
        (2, "it was removed after the log was listed")
    ]


def test_lines_that_are_not_utf8_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    path.write_bytes(b"one\ntw\xffo\nthree\n")
    (read,) = read_lines([LineFile(3, Location("", str(path)[1:]), 10)], Clients())
    assert read.problems == [(3, "a line of it is not UTF-8")]
    assert [line for _, line in _lines(read) if line] == ["one", "three"]


def test_a_file_of_which_fewer_bytes_are_read_than_storage_records_has_a_problem(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    path.write_text('{"add":{}}\n')
    size = path.stat().st_size
    files = [LineFile(number, Location("", str(path)[1:]), size + number) for number in (0, 1)]
    assert [read.problems for read in read_lines(files, Clients())] == [[(1, lines_module.SHORT)]]


@pytest.mark.parametrize("block", [4, 8, 1000])
def test_a_line_that_is_too_long_is_left_out_and_told(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines_module, "_BLOCK", block)
    content = b"one\n" + b"x" * 100 + b"\ntwo\n" + b"y" * 90
    file = LineFile(1, Location("", "c"), len(content))
    bodies = list(lines_module._whole_lines(file, io.BytesIO(content), longest=20))
    kept = [line for body in bodies for line in body.content.split(b"\n") if line]
    assert [line for line in kept if len(line) <= 20] == [b"one", b"two"]
    assert max(map(len, kept)) <= max(block, 20)
    assert {body.problem for body in bodies} == {None, lines_module.TOO_LONG} if block < 1000 else {None}


@pytest.mark.parametrize(
    ("line", "stamp"),
    [
        ('{"commitInfo":{"inCommitTimestamp":1700000000000}}', 1_700_000_000_000),
        ('{"commitInfo":{"timestamp":1}}', None),
        ('{"commitInfo":{"note":"\\"inCommitTimestamp\\""}}', None),
        ('{"commitInfo":{"inCommitTimestamp":', None),
        ('{"commitInfo":{"inCommitTimestamp":"x"}}', None),
        ("", None),
    ],
)
def test_the_time_that_a_commit_carries(line: str, stamp: int | None) -> None:
    assert in_commit_time(line) == stamp


ADD = {"path": "a", "size": 5, "partitionValues": {"p": "x", "q": None}}
LINES: dict[str, str | None] = {
    '{"add":{"path":"a"}}': "add",
    ' \t{"remove":{"path":"a","size":null,"deletionVector":null}}\r': "remove",
    '{"cdc":{"path":"a","size":1}}': "cdc",
    '{"protocol":{"minReaderVersion":1}}': "protocol",
    '{"txn":{"appId":"x"}}': "other",
    '{"add":null,"remove":{"path":"a"}}': "remove",
    "{}": None,
    '{"add":{"size":1}}': "add",
    '{"add":{"path":"a","nested":{"size":"big"}}}': "add",
    '{"add":{"path":"a"': "torn",
    '{"add":{"path":"a"}}{"add":{"path":"b"}}': "torn",
    "[]": "torn",
    '[{"add":{"path":"a"}}]': "torn",
    "5": "torn",
    "null": "torn",
    '{"add":5}': "torn",
    '{"add":"a"}': "torn",
    '{"add":{"path":["a"],"partitionValues":{}}}': "torn",
    '{"add":{"path":"[a]{","partitionValues":{}}}': "add",
    '{"add":{"path":"a","size":"big"}}': "torn",
    '{"add":{"path":"a","size":1e30}}': "torn",
    '{"add":{"path":"a","size":99999999999999999999}}': "torn",
    '{"add":{"path":"a","partitionValues":["p"]}}': "torn",
    '{"add":{"path":"a","deletionVector":"x"}}': "torn",
    '{"remove":{"path":"a","deletionTimestamp":"soon"}}': "torn",
    "[" * 5000: "torn",
}


def test_what_a_line_is() -> None:
    parsed = _parsed(list(LINES))
    assert dict(zip(LINES, parsed.column("kind").to_pylist(), strict=True)) == LINES


def test_what_an_action_says() -> None:
    vector = {"storageType": "u", "pathOrInlineDv": "text", "offset": 3, "sizeInBytes": 1}
    add = ADD | {
        "stats": json.dumps({"minValues": {"numRecords": 1}, "numRecords": 10}),
        "deletionVector": vector,
    }
    remove = {"path": "b\0c", "deletionTimestamp": 7, "stats": 5}
    rows = _parsed([json.dumps({"add": add}), json.dumps({"remove": remove}), json.dumps({"txn": 1})])
    first, second = on_files(connection(), rows).to_pylist()
    assert first == {
        "file": 1, "action": "add", "path": "a", "size": 5, "records": 10, "partition": '{"p":"x","q":null}',
        "deleted_ms": None, "data_change": None, "has_vector": True, "vector_kind": "u",
        "vector_text": "text", "vector_offset": 3, "vector_size": 1, "vector_rows": None,
    }  # fmt: skip
    assert (second["path"], second["deleted_ms"], second["has_vector"], second["partition"]) == (
        "b\0c",
        7,
        False,
        None,
    )


@pytest.mark.parametrize("stats", ["", "{", "5", '{"numRecords":"x"}', '{"numRecords":null}', '"numRecords"'])
def test_statistics_that_cannot_be_understood_say_nothing(stats: str) -> None:
    (row,) = _parsed([json.dumps({"add": ADD | {"stats": stats}})]).to_pylist()
    assert (row["kind"], row["records"]) == ("add", None)


def _parsed(lines: list[str]) -> pa.Table:
    return parse_lines(connection(), pa.table([pa.array([1] * len(lines)), pa.array(lines)], schema=LINE))


def _lines(read: Lines) -> list[tuple[int, str]]:
    return [(row["file"], row["line"]) for row in read.rows.to_pylist() if row["line"]]


def _clients_of(client: Any) -> Any:
    return SimpleNamespace(s3=lambda *_: client, session=lambda *_: client, endpoint=lambda *_: Endpoint())
