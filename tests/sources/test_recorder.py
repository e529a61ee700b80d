"""`lakeaudit.emit.recorded`: what boto3, pyarrow and pandas write is recorded as it was written, and audited so."""

import hashlib
import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import boto3
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.fs as fs
import pyarrow.parquet as pq
import pytest
from boto3.s3.transfer import TransferConfig
from hypothesis import given
from hypothesis import strategies as st

from lakeaudit.config import load_lake
from lakeaudit.emit import WrittenFile, recorded
from lakeaudit.emit.lists import reach_of
from lakeaudit.emit.recorder import Recorder
from lakeaudit.runtime.connections.aws import Clients, Endpoint
from tests.builders.audits import audited, results_of
from tests.conftest import Aws

DOCUMENT = (Path(__file__).parents[2] / "docs/emit.md").read_text(encoding="utf-8")
TABLE = pa.table({"id": [1, 2, 3], "day": ["mon", "mon", "tue"]})


@pytest.fixture
def way(s3: Endpoint) -> dict[str, Any]:
    return {"endpoint": s3.endpoint, "region": "us-east-1", "path_style": True}


@pytest.fixture
def client(s3: Endpoint) -> Any:
    return boto3.client(
        "s3",
        endpoint_url=s3.endpoint,
        region_name="us-east-1",
        aws_access_key_id="test",
        aws_secret_access_key="test",
    )


@pytest.fixture
def recorder(clients: Clients) -> Recorder:
    return Recorder(reach_of(clients, {}))


def md5(body: bytes) -> str:
    return hashlib.md5(body, usedforsecurity=False).hexdigest()


BODIES: dict[str, Callable[[Path], Any]] = {
    "bytes": lambda _: b"rows",
    "text": lambda _: "rows",
    "buffer": lambda _: io.BytesIO(b"rows"),
    "view": lambda _: memoryview(b"rows").tobytes(),
    "file": lambda path: path.open("rb"),
}


@pytest.mark.parametrize("kind", BODIES)
def test_what_is_put_is_recorded_with_the_answer(
    client: Any, bucket: str, recorder: Recorder, tmp_path: Path, kind: str
) -> None:
    (tmp_path / "f").write_bytes(b"rows")
    recorder.boto3(client).put_object(Bucket=bucket, Key="t/a b+é", Body=BODIES[kind](tmp_path / "f"))
    (file,) = recorder.files
    assert (file.path, file.size, file.etag) == (f"s3://{bucket}/t/a b+é", 4, md5(b"rows"))
    assert file.checksum is None or file.checksum.startswith("crc")


def test_uploads_in_parts_have_the_size_of_their_parts(
    client: Any, bucket: str, recorder: Recorder, tmp_path: Path
) -> None:
    (tmp_path / "f").write_bytes(b"x" * (11 << 20))
    parts = TransferConfig(multipart_threshold=5 << 20, multipart_chunksize=5 << 20)
    recorder.boto3(client).upload_file(str(tmp_path / "f"), bucket, "t/large", Config=parts)
    (file,) = recorder.files
    head = client.head_object(Bucket=bucket, Key="t/large")
    assert (file.size, file.etag) == (11 << 20, head["ETag"].strip('"'))
    assert (file.etag or "").endswith("-3")


def test_copies_deletions_and_refusals(client: Any, bucket: str, recorder: Recorder) -> None:
    watched = recorder.boto3(client)
    for key in ("a", "b", "c"):
        watched.put_object(Bucket=bucket, Key=key, Body=b"1")
    watched.copy_object(Bucket=bucket, Key="d", CopySource={"Bucket": bucket, "Key": "a"})
    watched.delete_object(Bucket=bucket, Key="a")
    watched.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": "b"}, {"Key": "never there"}]})
    watched.put_object(Bucket=bucket, Key="c", Body=b"22")
    with pytest.raises(client.exceptions.NoSuchBucket):
        watched.put_object(Bucket=f"{bucket}-none", Key="x", Body=b"1")
    assert [(file.path.rpartition("/")[2], file.size) for file in recorder.files] == [("d", None), ("c", 2)]
    recorder.stop()
    client.put_object(Bucket=bucket, Key="later", Body=b"1")
    assert len(recorder.files) == 2


def test_versions_are_recorded(client: Any, aws: Aws, bucket: str, recorder: Recorder) -> None:
    aws.s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    answer = recorder.boto3(client).put_object(Bucket=bucket, Key="a", Body=b"1")
    assert recorder.files[0].version_id == answer["VersionId"]


@pytest.mark.parametrize("local", [True, False])
def test_a_file_that_is_written_to_is_there_whole_or_not_at_all(
    recorder: Recorder, bucket: str, tmp_path: Path, client: Any, local: bool
) -> None:
    path = str(tmp_path / "deep/one.parquet") if local else f"s3://{bucket}/t/one.parquet"
    with recorder.open(path, records=3) as file:
        pq.write_table(TABLE, file)
    written = (
        Path(path).read_bytes()
        if local
        else client.get_object(Bucket=bucket, Key="t/one.parquet")["Body"].read()
    )
    (known,) = recorder.files
    assert (known.size, known.checksum, known.records) == (len(written), f"md5:{md5(written)}", 3)
    assert known.etag == (None if local else md5(written))
    with pytest.raises(TypeError), recorder.open(path + "2") as file:
        file.writelines([b"half", None])  # type: ignore[list-item]
    assert len(recorder.files) == 1
    assert not Path(path + "2").exists()
    assert client.list_objects_v2(Bucket=bucket, Prefix="t/one.parquet2")["KeyCount"] == 0


def test_a_data_set_of_pyarrow(recorder: Recorder, tmp_path: Path) -> None:
    ds.write_dataset(
        TABLE, tmp_path / "t", format="parquet", partitioning=["day"], file_visitor=recorder.visitor()
    )
    found = {(f.path, f.size, f.records) for f in recorder.files}
    assert found == {
        (str(path), path.stat().st_size, pq.read_metadata(path).num_rows)
        for path in (tmp_path / "t").rglob("*.parquet")
    }


def boom(path: str, written: Recorder) -> str:
    """A block that fails once it has written something."""
    written.add(path, size=1)
    raise RuntimeError("boom")


def test_a_failed_block_leaves_no_list_and_says_so(tmp_path: Path) -> None:
    lists, path = str(tmp_path / "lists"), str(tmp_path / "a")
    with pytest.raises(RuntimeError, match="boom") as failed, recorded(lists, job_id="j") as written:
        written.add(path, size=1, records=len(boom(path, written)))
    assert not (tmp_path / "lists").exists()
    (note,) = failed.value.__notes__
    assert note == f"lakeaudit: job j is in no list: 1 files of it were written, such as {path}"


def test_a_list_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    (tmp_path / "lists").write_bytes(b"no folder")
    with (
        pytest.raises(OSError, match=r".") as failed,
        recorded(str(tmp_path / "lists"), job_id="j") as written,
    ):
        written.add(str(tmp_path / "a"), size=1)
    assert "in no list" in failed.value.__notes__[0]


def test_what_lies_elsewhere_is_left_out_and_rows_may_be_counted_later(tmp_path: Path) -> None:
    with recorded(str(tmp_path / "lists"), job_id="j", under=str(tmp_path / "t")) as written:
        written.add(str(tmp_path / "t/a"), size=1)
        written.add(str(tmp_path / "u/a"), size=1)
        written.count(str(tmp_path / "t/a"), 7)
        with pytest.raises(ValueError, match="was not recorded"):
            written.count(str(tmp_path / "u/a"), 7)
    assert written.files == [WrittenFile(str(tmp_path / "t/a"), 1, records=7)]


@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.sampled_from(["put", "delete"]), st.binary(max_size=9)),
        max_size=9,
    )
)
def test_the_record_is_what_storage_holds(
    clients: Clients, client: Any, acts: list[tuple[str, str, bytes]]
) -> None:
    """Whatever is put and deleted in whatever order."""
    recorder, name = Recorder(reach_of(clients, {})), "recorded-by-hypothesis"
    client.create_bucket(Bucket=name)
    watched = recorder.boto3(client)
    for key, act, body in acts:
        (
            watched.put_object(Bucket=name, Key=key, Body=body)
            if act == "put"
            else watched.delete_object(Bucket=name, Key=key)
        )
    recorder.stop()
    there = client.list_objects_v2(Bucket=name).get("Contents", [])
    assert {(f.path, f.size, f.etag) for f in recorder.files} == {
        (f"s3://{name}/{each['Key']}", each["Size"], each["ETag"].strip('"')) for each in there
    }
    for each in there:
        client.delete_object(Bucket=name, Key=each["Key"])


def test_the_example_of_the_document_is_audited_by_its_records(
    aws: Aws, s3: Endpoint, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (script,) = [
        text
        for text in re.findall(r"^```python\n(.*?)^```", DOCUMENT, re.MULTILINE | re.DOTALL)
        if "recorded" in text
    ]
    for name, value in (("AWS_ACCESS_KEY_ID", "test"), ("AWS_SECRET_ACCESS_KEY", "test"), ("AWS_REGION", "us-east-1"),
                        ("AWS_DEFAULT_REGION", "us-east-1"), ("AWS_ENDPOINT_URL", str(s3.endpoint))):  # fmt: skip
        monkeypatch.setenv(name, value)
    remote = fs.S3FileSystem
    monkeypatch.setattr(fs, "S3FileSystem", lambda: remote(
        endpoint_override=str(s3.endpoint), region="us-east-1", access_key="test", secret_key="test",
        allow_bucket_creation=False))  # fmt: skip
    own = script.replace("s3://lake/", f"s3://{bucket}/").replace('"lake', f'"{bucket}')
    own = own.replace(
        'job_id="load-42"', f'job_id="load-42", s3={{"endpoint": "{s3.endpoint}", "path_style": True}}'
    )
    exec(compile(own, "docs/emit.md", "exec"), {"__name__": "example"})
    files = [each["Key"] for each in aws.s3.list_objects_v2(Bucket=bucket, Prefix="warehouse/")["Contents"]]
    assert len(files) == 5, files
    path = tmp_path / "lake.yaml"
    path.write_text(
        f"version: 1\nlake: plain\nresults: {tmp_path / 'results'}\ndefaults: {{grace: 0s}}\n"
        f"s3: {{endpoint: '{s3.endpoint}', region: us-east-1, path_style: true}}\n"
        f"inventories: [{{kind: listing, location: 's3://{bucket}/warehouse/'}}]\n"
        f"tables: [{{name: raw.events, location: 's3://{bucket}/warehouse/events', manifests: "
        f"[{{kind: file_list, location: 's3://{bucket}/manifests/events/', complete: true}}]}}]\n"
    )
    lake = load_lake(path, {})
    assert audited(lake, run_id="whole").summary["findings"] == {}
    aws.s3.delete_object(Bucket=bucket, Key="warehouse/events/two.parquet")
    aws.s3.put_object(Bucket=bucket, Key="warehouse/events/raw.csv", Body=b"id\n8\n")
    audited(lake, run_id="broken")
    rows = [row for batch in results_of(lake).findings("broken") for row in batch.to_pylist()]
    told = {(row["kind"], row["key"].rpartition("/")[2], row["rows_at_stake"]) for row in rows}
    assert ("dropped", "two.parquet", 2) in told
    assert {kind for kind, name, _ in told if name == "raw.csv"} == {"content_mismatch"}
