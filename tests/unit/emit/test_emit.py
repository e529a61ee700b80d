"""`lakeaudit.emit`: one list, whole or not at all, that the reader understands line by line."""

import hashlib
import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeaudit.emit import WrittenFile, emit
from lakeaudit.evidence.manifest.file_list.fold import EVENT
from lakeaudit.evidence.manifest.file_list.parse_rows import event
from lakeaudit.evidence.manifest.file_list.read_lines import ListFile, lines
from lakeaudit.keys import Location
from lakeaudit.runtime.connections.aws import Clients

AT = datetime(2026, 11, 21, 12, tzinfo=UTC)
HOME = Location("lake", "wh/events")


def read_back(place: str) -> list[dict[str, Any]]:
    listed = ListFile("raw.events", HOME, Location.parse(place), 0, AT + timedelta(hours=1), None, whole=True)
    return [dict(zip(EVENT, event(line, listed), strict=True)) for line in lines(listed, Clients())]


def test_writes_one_list_with_its_end(tmp_path: Path) -> None:
    files: list[Any] = [
        WrittenFile("wh/events/a", 5, etag='"x"', checksum="MD5:AB"),
        {"path": "wh/events/b", "size": 6},
    ]
    place = emit(str(tmp_path), files, job_id="job/1 é", committed_at=AT)
    assert Path(place).parent == tmp_path
    assert Path(place).name.startswith("20261121T120000.000000Z-job_1__-")
    told = {"action": "add", "job_id": "job/1 é", "committed_at": "2026-11-21T12:00:00+00:00"}
    assert [json.loads(line) for line in Path(place).read_text().splitlines()] == [
        {"path": "wh/events/a", "size": 5, "etag": '"x"', "checksum": "MD5:AB"} | told,
        {"path": "wh/events/b", "size": 6} | told,
        {"end": True, "lines": 2},
    ]
    assert [path.name for path in tmp_path.iterdir()] == [Path(place).name]


def test_lists_sort_in_the_order_of_their_commits_whatever_the_zone(tmp_path: Path) -> None:
    east = timezone(timedelta(hours=9))
    times = [AT, AT + timedelta(microseconds=1), (AT + timedelta(seconds=1)).astimezone(east)]
    places = [emit(str(tmp_path), [], job_id=f"job{9 - n}", committed_at=at) for n, at in enumerate(times)]
    assert places == sorted(places)


def test_the_same_list_again_replaces_itself_and_another_does_not(tmp_path: Path) -> None:
    one, again, other = (
        emit(str(tmp_path), [WrittenFile(path)], job_id="j", committed_at=AT) for path in ("a", "a", "b")
    )
    assert one == again != other
    assert len(list(tmp_path.iterdir())) == 2


def test_a_replacement_is_written_before_its_files(tmp_path: Path) -> None:
    place = emit(
        str(tmp_path),
        [WrittenFile("wh/events/d/n", 1)],
        job_id="j",
        committed_at=AT,
        action="replace",
        scope="wh/events/d",
    )
    rows = read_back(place)
    assert [(row["action"], row["key"], row["scope_key"], row["fault"]) for row in rows] == [
        ("replace", None, "wh/events/d", None),
        ("add", "wh/events/d/n", None, None),
    ]


def test_a_replacement_by_nothing_is_still_one(tmp_path: Path) -> None:
    rows = read_back(emit(str(tmp_path), iter([]), job_id="j", committed_at=AT, action="replace"))
    assert [(row["action"], row["scope_key"]) for row in rows] == [("replace", "wh/events")]


def test_a_failing_source_of_files_leaves_nothing(tmp_path: Path) -> None:
    def files() -> Any:
        yield WrittenFile("a", 1)
        raise RuntimeError("the job failed")

    with pytest.raises(RuntimeError):
        emit(str(tmp_path / "lists"), files(), job_id="j", committed_at=AT)
    assert list(tmp_path.rglob("*")) == []


BAD: list[dict[str, Any]] = [
    {"action": "append"},
    {"action": "add", "scope": "wh"},
    {"job_id": ""},
    {"committed_at": AT.replace(tzinfo=None)},
    {"files": [{"path": ""}]},
    {"files": [{"path": "\ud800"}]},
    {"files": [{"path": b"a"}]},
    {"files": [{"path": "a\0b"}]},
    {"files": [{"path": "a", "size": -1}]},
    {"files": [{"path": "a", "size": 1.5}]},
    {"files": [{"path": "a", "records": True}]},
    {"files": [{"path": "a", "checksum": "d41d8cd9"}]},
]


@pytest.mark.parametrize("bad", BAD, ids=str)
def test_a_file_that_no_reader_would_accept_is_refused(tmp_path: Path, bad: dict[str, Any]) -> None:
    good: dict[str, Any] = {"files": [], "job_id": "j", "committed_at": AT}
    with pytest.raises(ValueError, match=r"."):
        emit(str(tmp_path), **(good | bad))
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_field_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="sise"):
        emit(str(tmp_path), [{"path": "a", "sise": 1}], job_id="j", committed_at=AT)


UTF8 = st.characters(exclude_categories=["Cs"], exclude_characters="\0")


@given(
    names=st.lists(st.text(UTF8, min_size=1, max_size=40), max_size=8),
    sizes=st.lists(st.integers(0, 2**63 - 1), min_size=8, max_size=8),
)
def test_any_unicode_path_comes_back_as_it_was(tmp_path: Path, names: list[str], sizes: list[int]) -> None:
    files = [WrittenFile(HOME.prefix + name, size) for name, size in zip(names, sizes, strict=False)]
    rows = read_back(emit(str(tmp_path), files, job_id="j", committed_at=AT))
    assert [row["fault"] for row in rows] == [None] * len(files)
    assert [(row["bucket"], row["key"], row["size"]) for row in rows] == [
        ("lake", f.path, f.size) for f in files
    ]
    assert {row["at"] for row in rows} <= {AT}


@given(name=st.text(UTF8, min_size=1, max_size=40), scheme=st.sampled_from(["s3", "s3a", "s3n"]))
def test_any_uri_comes_back_as_bucket_and_key(tmp_path: Path, name: str, scheme: str) -> None:
    (row,) = read_back(
        emit(str(tmp_path), [WrittenFile(f"{scheme}://other/{name}")], job_id="j", committed_at=AT)
    )
    assert (row["bucket"], row["key"], row["own_root"]) == ("other", name, False)


def test_the_module_keeps_its_name_and_loads_neither_spark_nor_boto3() -> None:
    import lakeaudit.emit as module

    assert module.emit is emit
    program = (
        "import sys, lakeaudit.emit; print([m for m in ('pyspark', 'boto3', 'pandas') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_writes_to_s3_in_one_step(clients: Clients, bucket: str) -> None:
    client = clients.s3(bucket)
    place = emit(
        f"s3://{bucket}/lists", [WrittenFile("wh/events/a", 1)], job_id="j", committed_at=AT, clients=clients
    )
    own = {"endpoint": clients.default.endpoint, "region": "us-east-1", "path_style": True}
    again = emit(
        f"s3a://{bucket}/lists/", [WrittenFile("wh/events/a", 1)], job_id="j", committed_at=AT, s3=own
    )
    assert again == place
    (found,) = client.list_objects_v2(Bucket=bucket)["Contents"]
    assert f"s3://{bucket}/{found['Key']}" == place
    assert (
        client.get_object(Bucket=bucket, Key=found["Key"])["Body"]
        .read()
        .endswith(b'{"end": true, "lines": 1}\n')
    )


def test_what_can_be_read_is_filled_in(tmp_path: Path, clients: Clients, bucket: str) -> None:
    s3, rows = clients.s3(bucket), b"rows"
    md5 = hashlib.md5(rows).hexdigest()
    s3.put_object(Bucket=bucket, Key="orders/a", Body=rows, ChecksumAlgorithm="SHA256")
    (tmp_path / "b.parquet").write_bytes(rows)
    files = [
        f"s3://{bucket}/orders/a",
        f"s3://{bucket}/orders/gone",
        str(tmp_path / "b.parquet"),
        "orders/key-only",
    ]
    given = [{"path": path} for path in files] + [
        {"path": str(tmp_path / "b.parquet"), "size": 9, "checksum": "crc32:00"}
    ]
    place = emit(str(tmp_path / "lists"), given, job_id="j", committed_at=AT, clients=clients, look=True)
    told = [json.loads(line) for line in Path(place).read_text().splitlines()[:-1]]
    names = ("size", "etag", "checksum")
    stored, gone, local, key, own = [{name: row[name] for name in names if name in row} for row in told]
    assert stored == {"size": 4, "etag": md5, "checksum": f"sha256:{hashlib.sha256(rows).hexdigest()}"}
    assert local == {"size": 4, "checksum": f"md5:{md5}"}
    assert (gone, key) == ({}, {})
    assert own == {"size": 9, "checksum": "crc32:00"}
    plain = emit(str(tmp_path / "plain"), [{"path": files[2]}], job_id="j", committed_at=AT)
    assert "size" not in json.loads(Path(plain).read_text().splitlines()[0])
