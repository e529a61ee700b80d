"""`lakeaudit explain`: what each source says of one file. A real S3 and DynamoDB server, no JVM."""

import io
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from botocore.exceptions import NoCredentialsError

from lakeaudit import cli
from lakeaudit.keys import Location
from lakeaudit.runtime.connections.aws import Endpoint
from tests.builders.results import (
    NOON,
    covered,
    discrepancy,
    finding,
    group,
    lake_file,
    leftover,
    publish,
    run,
    transition,
)
from tests.conftest import Aws

Captured = pytest.CaptureFixture[str]
STORE = "guard-explain"
BEFORE = NOON - timedelta(days=1)


@pytest.fixture
def store(aws: Aws) -> str:
    """An S3Guard table."""
    if STORE not in aws.dynamodb.list_tables()["TableNames"]:
        aws.dynamodb.create_table(
            TableName=STORE,
            KeySchema=[
                {"AttributeName": "parent", "KeyType": "HASH"},
                {"AttributeName": "child", "KeyType": "RANGE"},
            ],
            AttributeDefinitions=[
                {"AttributeName": name, "AttributeType": "S"} for name in ("parent", "child")
            ],
            BillingMode="PAY_PER_REQUEST",
        )
    return STORE


@pytest.fixture
def lake(tmp_path: Path, place: Location, s3: Endpoint, bucket: str, store: str) -> str:
    return lake_file(
        tmp_path,
        place,
        s3={"endpoint": s3.endpoint, "region": s3.region, "path_style": True},
        tables=[{"name": "orders", "location": f"s3://{bucket}/orders", "manifests": [{"kind": "delta"}]}],
        metastores=[
            {"kind": "s3guard", "table": store, "location": f"s3://{bucket}/orders"},
            {"kind": "s3guard", "export": "s3://exports/x", "location": f"s3://{bucket}/orders"},
        ],
    )


def explain_json(capsys: Captured, lake: str, uri: str, *options: str) -> Any:
    capsys.readouterr()
    assert cli.main(["explain", lake, uri, "--format", "json", *options]) == 0
    printed = capsys.readouterr()
    return json.loads(printed.out) | {"verdict": printed.err.strip()}


def answers(said: Any) -> dict[str, str]:
    return {each["source"]: each["answer"] for each in said["sources"]}


def entry(bucket: str, name: str, **given: Any) -> dict[str, Any]:
    return {"parent": {"S": f"/{bucket}/orders"}, "child": {"S": name}, **given}


def test_a_dropped_file_from_every_side(
    capsys: Captured, lake: str, place: Location, bucket: str, aws: Aws, store: str
) -> None:
    aws.s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    aws.s3.put_object(Bucket=bucket, Key="orders/a", Body=b"12345")
    aws.s3.delete_object(Bucket=bucket, Key="orders/a")
    deleted = entry(bucket, "a", is_deleted={"BOOL": True}, last_updated={"N": "1700000000000"})
    aws.dynamodb.put_item(TableName=store, Item=deleted)
    lost = finding(
        "dropped", "orders/a", bucket=bucket, recoverable="yes", recovery="delete_marker", manifest_size=5
    )
    publish(
        place,
        runs=[run()],
        coverage=[covered()],
        findings=[lost, finding("dropped", "orders/ab", bucket=bucket)],
    )
    said = explain_json(capsys, lake, f"s3a://{bucket}/orders/a")
    assert said["table"] == "orders"
    assert answers(said) == {
        "manifest delta of orders": "not_asked",
        f"storage s3://{bucket}": "absent",
        "storage versions": "present",
        f"metastore s3guard {store}": "deleted",
        "metastore s3guard s3://exports/x": "not_asked",
    }
    marker, version = said["sources"][2]["facts"]["newest_first"]
    assert (marker["delete_marker"], version["delete_marker"], version["size"]) == (True, False, 5)
    assert said["sources"][3]["facts"]["last_updated"] == "2023-11-14T22:13:20Z"
    assert [row["kind"] for row in said["findings"]] == ["dropped"]
    assert [row["axis"] for row in said["coverage"]] == ["content"]
    assert said["verdict"] == f"CRITICAL: dropped: s3://{bucket}/orders/a"
    assert cli.main(["explain", lake, f"s3://{bucket}/orders/a"]) == 0
    text = capsys.readouterr().out
    for words in (
        "no such file",
        "recoverable: yes, by removing a delete marker",
        "manifest: size 5",
        "100 % of files judged",
    ):
        assert words in text
    assert " more: lakeaudit findings" not in text


def test_a_server_that_has_stopped_is_named(
    capsys: Captured, tmp_path: Path, place: Location, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The credentials are missing too, but they are not the reason."""
    monkeypatch.setattr("lakeaudit.explain.source_answers.head_object", _without_credentials)
    lake = lake_file(
        tmp_path, place, s3={"endpoint": "http://127.0.0.1:9", "region": "us-east-1", "path_style": True},
        tables=[{"name": "orders", "location": f"s3://{bucket}/orders", "manifests": [{"kind": "delta"}]}],
    )  # fmt: skip
    publish(place, runs=[run()], coverage=[covered()])
    storage = explain_json(capsys, lake, f"s3://{bucket}/orders/a")["sources"][1]
    assert storage["answer"] == "unknown"
    assert storage["reason"] == "the endpoint http://127.0.0.1:9 cannot be reached"


def _without_credentials(*_: object) -> None:
    raise NoCredentialsError


def test_what_is_remembered_of_a_file(
    capsys: Captured, lake: str, place: Location, bucket: str, aws: Aws
) -> None:
    aws.s3.put_object(Bucket=bucket, Key="orders/a", Body=b"1")
    lost = finding("dropped", "orders/a", bucket=bucket)
    held = discrepancy(lost, "resolved", resolution="restored", resolved_at=NOON)
    changes = [
        transition(lost, "resolved", at=NOON, from_kind="dropped"),
        transition(lost, "opened", at=BEFORE),
    ]
    publish(place, runs=[run()], coverage=[covered()], discrepancies=[held], transitions=changes)
    said = explain_json(capsys, lake, f"s3://{bucket}/orders/a")
    assert [row["state"] for row in said["discrepancies"]] == ["resolved"]
    assert [row["transition"] for row in said["history"]] == ["opened", "resolved"]
    assert cli.main(["explain", lake, f"s3://{bucket}/orders/a"]) == 0
    text = capsys.readouterr().out
    assert "resolved · first seen at 2026-11-21 12:00:00Z · restored at 2026-11-21 12:00:00Z" in text
    assert "2026-11-20 12:00:00Z opened (dropped): why" in text


def test_a_finding_of_a_run_that_failed(
    capsys: Captured, lake: str, place: Location, bucket: str, aws: Aws
) -> None:
    """The ledger holds it though no run is published; beside a published run that did not judge it, it is named."""
    lost = discrepancy(finding("dropped", "orders/a", bucket=bucket), last_run_id="r0")
    uri = f"s3://{bucket}/orders/a"
    for published, verdict, sentence in (
        (
            [],
            "no audit could be published yet",
            "No audit could be published yet; a finding of run r0 is still open",
        ),
        (
            [run()],
            "the last audit did not judge it",
            "not judged by this run; a finding of run r0 is still open",
        ),
    ):
        publish(place, runs=[run("r0", status="failed"), *published], discrepancies=[lost])
        assert verdict in explain_json(capsys, lake, uri)["verdict"]
        assert cli.main(["explain", lake, uri]) == 0
        text = capsys.readouterr().out
        assert sentence in text
        assert text.count("is still open") == 1
        assert "No audit has finished yet" not in text


def test_a_file_of_a_group(capsys: Captured, lake: str, place: Location, bucket: str, aws: Aws) -> None:
    aws.s3.put_object(Bucket=bucket, Key="orders/day=1/x", Body=b"12345")
    held, other = (group("uncommitted", f"day={day}", files=1, bucket=bucket) for day in (1, 2))
    file = leftover(held, "orders/day=1/x", bucket=bucket)
    publish(place, runs=[run()], coverage=[covered()], findings=[held, other], leftover_files=[file])
    said = explain_json(capsys, lake, f"s3://{bucket}/orders/day=1/x")
    assert [row["subject"] for row in said["groups"]] == ["day=1#uncommitted"]
    assert said["verdict"].startswith("WARNING: uncommitted")


def test_a_prefix_and_a_table_hold_their_files(
    capsys: Captured, lake: str, place: Location, bucket: str
) -> None:
    prefix = {"subject_type": "prefix", "bucket": bucket}
    rows = [
        finding("metastore_broken", "orders/a/", **prefix),
        finding("metastore_broken", "orders/b/", **prefix),
        finding("overwritten", "", subject_type="table", subject="orders") | {"key": None, "bucket": None},
    ]
    publish(place, runs=[run()], coverage=[covered()], findings=rows)
    said = explain_json(capsys, lake, f"s3://{bucket}/orders/a/x")
    assert sorted(row["kind"] for row in said["groups"]) == ["metastore_broken", "overwritten"]


def test_a_healthy_file(capsys: Captured, lake: str, place: Location, bucket: str, aws: Aws) -> None:
    aws.s3.put_object(Bucket=bucket, Key="orders/a", Body=b"1")
    publish(place, runs=[run()], coverage=[covered()])
    assert explain_json(capsys, lake, f"s3://{bucket}/orders/a")["verdict"].startswith(
        "OK: no finding of run r1"
    )


@pytest.mark.parametrize(
    ("coverage", "verdict"),
    [
        ([covered(status="off")], "UNDECIDED: no finding, but the last audit did not cover orders"),
        ([covered(status="overtaken")], "UNDECIDED: no finding, but files of the table only partly judged"),
        (
            [covered(status="partial", decided_share=None)],
            "UNDECIDED: no finding, but files of the table only partly judged",
        ),
        ([], "UNDECIDED: no finding, but the last audit did not cover orders"),
    ],
)
def test_what_could_not_be_judged_is_not_fine(
    capsys: Captured, lake: str, place: Location, bucket: str, coverage: list[Any], verdict: str
) -> None:
    publish(place, runs=[run()], coverage=[covered("other"), *coverage])
    assert explain_json(capsys, lake, f"s3://{bucket}/orders/a")["verdict"].startswith(verdict)


def test_what_the_last_audit_did_not_look_at_is_still_open(
    capsys: Captured, lake: str, place: Location, bucket: str
) -> None:
    lost = finding("dropped", "orders/a", subject=f"s3://{bucket}/orders/a", bucket=bucket)
    publish(place, runs=[run()], coverage=[covered("other")], discrepancies=[discrepancy(lost)])
    said = explain_json(capsys, lake, f"s3://{bucket}/orders/a")["verdict"]
    assert said.startswith(
        "CRITICAL: dropped, open since 2026-11-21 12:00:00Z; the last audit did not judge it"
    )


def test_a_file_nobody_knows(capsys: Captured, lake: str, place: Location, bucket: str) -> None:
    publish(place, runs=[run()], coverage=[covered()])
    said = explain_json(capsys, lake, f"s3://{bucket}/orders_2/a")
    assert said["unknown"]
    assert said["verdict"] == f"UNKNOWN: no source, table or finding knows s3://{bucket}/orders_2/a"


def test_before_the_first_audit(capsys: Captured, lake: str, bucket: str) -> None:
    said = explain_json(capsys, lake, f"s3://{bucket}/orders/a")
    assert said["run"] is None
    assert said["verdict"].startswith("UNDECIDED: no audit has finished yet")


COMMITS = [
    [
        {"commitInfo": {"operation": "WRITE", "engineInfo": "Apache-Spark/4.1"}},
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {"metaData": {"id": "x", "partitionColumns": ["d"], "configuration": {}}},
        {"add": {"path": "d=1%2502/a", "size": 5, "dataChange": True}},
    ],
    [{"commitInfo": {"operation": "DELETE"}}, {"remove": {"path": "d=1%2502/a", "dataChange": True}}],
]


def test_deep_names_the_commits_that_added_and_removed_it(
    capsys: Captured, tmp_path: Path, place: Location, s3: Endpoint, bucket: str, aws: Aws
) -> None:
    lists = {"kind": "file_list", "location": f"s3://{bucket}/lists", "complete": False}
    lake = lake_file(
        tmp_path, place, s3={"endpoint": s3.endpoint, "region": s3.region, "path_style": True},
        tables=[{"name": "orders", "location": f"s3://{bucket}/orders", "manifests": [{"kind": "delta"}, lists]}],
    )  # fmt: skip
    for version, actions in enumerate(COMMITS):
        body = "\n".join(map(json.dumps, actions)).encode()
        aws.s3.put_object(Bucket=bucket, Key=f"orders/_delta_log/{version:020}.json", Body=body)
    said = '{"path": "orders/d=1%02/a", "size": 5, "job_id": "j7", "committed_at": "2026-11-20T03:00:00Z"}\n'
    aws.s3.put_object(Bucket=bucket, Key="lists/one.jsonl", Body=said.encode())
    uri = f"s3://{bucket}/orders/d=1%02/a"
    log, listed = explain_json(capsys, lake, uri, "--deep")["sources"][:2]
    assert (log["source"], log["answer"]) == ("manifest delta of orders", "deleted")
    assert [(act["version"], act["operation"], act["file"]) for act in log["facts"]["history"]] == [
        (0, "WRITE", "added"), (1, "DELETE", "removed"),
    ]  # fmt: skip
    assert (listed["source"], listed["answer"]) == ("manifest file_list of orders", "present")
    (act,) = listed["facts"]["history"]
    assert (act["commit_id"], act["at"], act["list"]) == (
        "j7", "2026-11-20T03:00:00Z", f"s3://{bucket}/lists/one.jsonl",
    )  # fmt: skip
    assert cli.main(["explain", lake, uri, "--deep"]) == 0
    shown = capsys.readouterr().out
    assert " manifest delta of orders: deleted\n   version 0, at " in shown
    assert ", operation WRITE, by Apache-Spark/4.1, file added, size 5, data_change yes\n" in shown


@pytest.mark.parametrize(
    ("key", "body", "reason"),
    [
        ("_delta_log/none", b"", "no state can be rebuilt"),
        (f"_delta_log/{0:020}.json", b'{"add": {"path": "a"', "is missing or incomplete"),
        (f"_delta_log/{3:020}.checkpoint.parquet", b"PAR1", "is missing or damaged"),
        (
            f"_delta_log/{3:020}.checkpoint.6a3.json",
            b'{"checkpointMetadata": {}}',
            "no protocol and metaData",
        ),
        (f"_delta_log/{3:020}.checkpoint.6a3.json", b'{"sidecar": 7}', "no protocol and metaData"),
        (f"_delta_log/{0:020}.json", b"[" * 200_000, "is missing or incomplete"),
        (
            f"_delta_log/{3:020}.checkpoint.6a3.json",
            b'{"sidecar": {"path": "far%20away.parquet"}}',
            "_sidecars/far away.parquet is missing or damaged",
        ),
    ],
)
def test_deep_does_not_know_what_a_damaged_log_does_not_tell(
    capsys: Captured, lake: str, bucket: str, aws: Aws, key: str, body: bytes, reason: str
) -> None:
    aws.s3.put_object(Bucket=bucket, Key=f"orders/{key}", Body=body)
    log = explain_json(capsys, lake, f"s3://{bucket}/orders/a", "--deep")["sources"][0]
    assert log["answer"] == ("unknown" if reason else "absent")
    assert reason in log["reason"]


HERE = [
    {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
    {"metaData": {"id": "x", "configuration": {}}},
]
THERE = {"add": {"path": "a", "size": 5}}


@pytest.mark.parametrize(
    ("actions", "answer", "reason"),
    [
        ([*HERE, THERE], "present", ""),
        ([THERE], "unknown", "no protocol and metaData"),
        ([*HERE, THERE, {"protocol": {"minReaderVersion": 3, "readerFeatures": ["someday"]}}], "unknown", "someday"),
        ([*HERE, THERE, {"protocol": {"minReaderVersion": 3, "readerFeatures": ["catalogManaged"]}}],
         "unknown", "managed by a catalog"),
        ([*HERE, THERE, {"metaData": {"configuration": "x"}}], "unknown", "cannot be understood"),
        ([*HERE, THERE, {"add": {"path": "b", "deletionVector": "x"}}], "present", ""),
        ([*HERE, THERE, {"add": {"path": "b", "deletionVector": {"offset": [1], "storageType": {}}}}], "present", ""),
        ([{"commitInfo": {"inCommitTimestamp": 10**18}}, *HERE, THERE], "present", ""),
        ([{"commitInfo": {"inCommitTimestamp": 1e999}}, *HERE, THERE], "present", ""),
        ([{"commitInfo": ["x"]}, *HERE, THERE, {"add": [1]}, {"remove": {"path": 7}}], "present", ""),
        ([*HERE, {"add": {"path": "s3://%BUCKET%/orders/a"}}], "present", ""),
        ([*HERE, {"add": {"path": "S3A://%BUCKET%/orders/%61"}}], "present", ""),
        ([*HERE, {"add": {"path": "hdfs://%BUCKET%/orders/a"}}], "absent", ""),
    ],
)  # fmt: skip
def test_deep_answers_where_the_audit_would_and_breaks_at_nothing(
    capsys: Captured, lake: str, bucket: str, aws: Aws, actions: list[Any], answer: str, reason: str
) -> None:
    body = "\n".join(map(json.dumps, actions)).replace("%BUCKET%", bucket)
    aws.s3.put_object(Bucket=bucket, Key=f"orders/_delta_log/{0:020}.json", Body=body.encode())
    log = explain_json(capsys, lake, f"s3://{bucket}/orders/a", "--deep")["sources"][0]
    assert log["answer"] == answer
    assert reason in log["reason"]


def test_deep_ends_where_a_sidecar_names_itself(capsys: Captured, lake: str, bucket: str, aws: Aws) -> None:
    names = pa.table({"sidecar": [{"path": "s.parquet"}], "add": [{"path": "a"}]})
    body = io.BytesIO()
    pq.write_table(names, body)
    top = "\n".join(map(json.dumps, [*HERE, {"sidecar": {"path": "s.parquet"}}]))
    aws.s3.put_object(Bucket=bucket, Key=f"orders/_delta_log/{3:020}.checkpoint.6a3.json", Body=top.encode())
    aws.s3.put_object(Bucket=bucket, Key="orders/_delta_log/_sidecars/s.parquet", Body=body.getvalue())
    log = explain_json(capsys, lake, f"s3://{bucket}/orders/a", "--deep")["sources"][0]
    assert (log["answer"], len(log["facts"]["history"])) == ("present", 1)


def test_a_refusal_is_never_an_absence(
    capsys: Captured, lake: str, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = explain_json(capsys, lake, "s3://no-such-bucket-here/a")
    assert answers(said)["storage s3://no-such-bucket-here"] == "unknown"
    assert said["sources"][0]["reason"] == "the bucket does not exist"
    assert not said["unknown"]


def test_a_local_path_in_a_lake_on_object_storage_does_not_name_a_file_of_this_host(
    capsys: Captured, lake: str, tmp_path: Path
) -> None:
    (tmp_path / "a").write_text("123")
    (storage,) = [
        each
        for each in explain_json(capsys, lake, str(tmp_path / "a"))["sources"]
        if "storage" in each["source"]
    ]
    assert (storage["answer"], storage["facts"]) == ("unknown", {})
    assert storage["reason"] == "a local path in a table on object storage"


def test_a_local_file_of_a_lake_on_a_local_disk(capsys: Captured, tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    (tmp_path / "t/a").write_text("123")
    path = tmp_path / "local.yaml"
    path.write_text(
        f"version: 1\nlake: near\nresults: {tmp_path / 'local-results'}\n"
        f"inventories: [{{kind: listing, location: {tmp_path}/}}]\n"
        f"tables: [{{name: t, location: {tmp_path}/t, manifests: [{{kind: previous}}]}}]\n"
    )
    sources = explain_json(capsys, str(path), str(tmp_path / "t/a"))["sources"]
    (storage,) = [each for each in sources if each["source"] == "storage"]
    assert (storage["answer"], storage["facts"]["size"]) == ("present", 3)


HEX = "0123456789abcdef"
NAMED = [
    (f"aaaaaa1{HEX}", "day=1#unreferenced"), ("aaaaaa", "day=1#unreferenced"),
    ("day=1#unreferenced", "day=1#unreferenced"), ("bbbbbb2", "BUCKET/orders/day=2/x"),
    ("day=2/x", "BUCKET/orders/day=2/x"), ("./only", "BUCKET/orders/only"),
    ("BUCKET/orders/day=1/x", "BUCKET/orders/day=1/x"), ("other/file", "BUCKET/orders/other/file"),
    ("orders/day=2/x", "BUCKET/orders/day=2/x"), ("NAME/orders/day=2/x", "BUCKET/orders/day=2/x"),
    ("orders/day=1/old-1", "BUCKET/orders/day=1/old-1"), ("old-2", "BUCKET/orders/day=1/old-2"),
    ("orders/never/heard", "BUCKET/orders/never/heard"), ("NAME/orders/never", "BUCKET/orders/never"),
    ("BUCKET/orders/day=1", "BUCKET/orders/day=1/"), ("BUCKET/orders", "BUCKET/orders/"),
    ("orders/day=1/", "BUCKET/orders/day=1/"), ("day=1", "BUCKET/orders/day=1/"), ("day=1/", "BUCKET/orders/day=1/"),
    ("NAME/orders/day=2", "BUCKET/orders/day=2/"), ("orders", "BUCKET/orders/"), ("BUCKET", "BUCKET/"),
    ("BUCKET/orders/day=9/", "BUCKET/orders/day=9/"),
]  # fmt: skip


def publish_open_files(place: Location, bucket: str) -> None:
    """Publish a group of two files, and three single files."""
    many = group("unreferenced", "day=1", 2, bucket=bucket, discrepancy_id=f"aaaaaa1{HEX}")
    kinds = {
        "bbbbbb1": ("dropped", "day=1/x"),
        "bbbbbb2": ("dropped", "day=2/x"),
        "cccccc1": ("overwritten", "only"),
    }
    files = [
        finding(
            kind,
            f"orders/{name}",
            bucket=bucket,
            subject=f"s3://{bucket}/orders/{name}",
            discrepancy_id=id_ + HEX,
        )
        for id_, (kind, name) in kinds.items()
    ]
    publish(
        place,
        runs=[run()],
        coverage=[covered()],
        findings=[many, *files],
        discrepancies=[discrepancy(row) for row in (many, *files)],
        leftover_files=[leftover(many, f"orders/day=1/{name}", bucket=bucket) for name in ("old-1", "old-2")],
    )


@pytest.mark.parametrize(("typed", "uri"), NAMED)
def test_what_may_be_named(
    capsys: Captured, lake: str, place: Location, bucket: str, typed: str, uri: str
) -> None:
    publish_open_files(place, bucket)
    said = explain_json(capsys, lake, typed.replace("BUCKET", f"s3://{bucket}").replace("NAME", bucket))
    assert said["uri"] == uri.replace("BUCKET", f"s3://{bucket}")
    assert bool(said["files"]) == uri.endswith("#unreferenced")


FOLDERS = [
    ("orders/day=1/", ["dropped"], ["day=1#unreferenced"], "CRITICAL: 1 file dropped in"),
    ("orders/day=2", ["dropped"], [], "CRITICAL: 1 file dropped in"),
    ("orders", ["dropped", "dropped", "overwritten"], ["day=1#unreferenced"],
     "CRITICAL: 2 files dropped, 1 file overwritten"),
    ("orders/day=9/", [], [], "OK: no finding of run r1"),
    ("elsewhere/", [], [], "UNKNOWN: no source, table or finding knows"),
]  # fmt: skip


@pytest.mark.parametrize(("folder", "kinds", "groups", "verdict"), FOLDERS)
def test_a_folder_shows_what_was_found_in_it(
    capsys: Captured,
    lake: str,
    place: Location,
    bucket: str,
    folder: str,
    kinds: list[str],
    groups: list[str],
    verdict: str,
) -> None:
    publish_open_files(place, bucket)
    said = explain_json(capsys, lake, f"s3://{bucket}/{folder}")
    assert [row["kind"] for row in said["findings"]] == kinds
    assert [row["subject"] for row in said["groups"]] == groups
    assert len(said["discrepancies"]) == len(kinds)
    assert said["verdict"].startswith(verdict)


def test_a_folder_names_how_many_findings_are_not_shown(
    capsys: Captured, lake: str, place: Location, bucket: str
) -> None:
    rows = [finding("dropped", f"orders/{n}", bucket=bucket) for n in range(25)]
    publish(place, runs=[run()], coverage=[covered()], findings=rows)
    assert cli.main(["explain", lake, "orders/"]) == 0
    printed = capsys.readouterr()
    assert f"and 5 more findings: lakeaudit findings {lake} --table orders" in printed.out
    assert printed.err.strip() == f"CRITICAL: 25 files dropped in s3://{bucket}/orders/"


@pytest.mark.parametrize(
    ("typed", "hint"), [("bbbbbb", "write the id of one: bbbbbb1"), ("x", "write one of them")]
)
def test_what_names_several_is_refused_with_their_names(
    capsys: Captured, lake: str, place: Location, bucket: str, typed: str, hint: str
) -> None:
    publish_open_files(place, bucket)
    assert cli.main(["explain", lake, typed]) == 2
    assert hint in capsys.readouterr().err


def test_a_commit_and_its_file_are_explained_together(
    capsys: Captured, lake: str, place: Location, bucket: str
) -> None:
    key = "orders/_delta_log/00000000000000000001.json"
    rows = [
        finding(
            kind,
            key,
            bucket=bucket,
            subject_type=of,
            subject=f"s3://{bucket}/{key}",
            discrepancy_id=id_ + HEX,
        )
        for kind, of, id_ in (("overwritten", "file", "d1"), ("overwritten_commit", "commit", "d2"))
    ]
    ledger = [discrepancy(row) for row in rows]
    publish(place, runs=[run()], coverage=[covered()], findings=rows, discrepancies=ledger)
    said = explain_json(capsys, lake, f"s3://{bucket}/{key}")
    assert [row["kind"] for row in said["findings"]] == ["overwritten_commit", "overwritten"]


def test_a_group_shows_its_files_and_what_to_do(
    capsys: Captured, lake: str, place: Location, bucket: str
) -> None:
    publish_open_files(place, bucket)
    assert cli.main(["explain", lake, "aaaaaa"]) == 0
    printed = capsys.readouterr()
    for words in (f"s3://{bucket}/orders/day=1/old-1", "do: Run the format's own clean-up", "id aaaaaa1"):
        assert words in printed.out
    assert "What each source answers now" not in printed.out
    assert printed.err.strip() == "INFO: unreferenced, with 2 files: day=1#unreferenced"


@pytest.mark.parametrize("command", ["explain", "findings"])
def test_commands_in_advice_name_the_lake_file_and_the_table(
    capsys: Captured, lake: str, place: Location, bucket: str, command: str
) -> None:
    lost = finding(
        "coverage_lost", "", severity="error", axis="coverage", subject_type="coverage", subject="orders"
    )
    publish(place, runs=[run()], coverage=[covered()], findings=[lost], discrepancies=[discrepancy(lost)])
    assert cli.main([command, lake, *([lost["discrepancy_id"]] if command == "explain" else [])]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert f"lakeaudit doctor {lake} checks all sources" in printed
    assert f"lakeaudit audit {lake} --live --table orders." in printed


BACK = [("orders/a", 5, True), ("orders/a", 7, False)]


@pytest.mark.parametrize(("key", "size", "back"), BACK)
def test_a_file_that_is_there_again(
    capsys: Captured, lake: str, place: Location, bucket: str, aws: Aws, key: str, size: int, back: bool
) -> None:
    aws.s3.put_object(Bucket=bucket, Key=key, Body=b"12345")
    publish(
        place,
        runs=[run()],
        coverage=[covered()],
        findings=[finding("dropped", key, bucket=bucket, manifest_size=size)],
    )
    assert cli.main(["explain", lake, f"s3://{bucket}/{key}"]) == 0
    printed = capsys.readouterr()
    assert ("Storage has the file again. This audit resolves the discrepancy:" in printed.out) == back
    assert (f"lakeaudit audit {lake} --live --table orders" in printed.out) == back
    assert printed.err.startswith("RESTORED: " if back else "CRITICAL: ")


def test_the_command_names_the_marker_that_is_there_now(
    capsys: Captured, lake: str, place: Location, bucket: str, aws: Aws
) -> None:
    aws.s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    version = aws.s3.put_object(Bucket=bucket, Key="orders/m", Body=b"1")["VersionId"]
    marker = aws.s3.delete_object(Bucket=bucket, Key="orders/m")["VersionId"]
    way = {"recoverable": "yes", "recovery": "delete_marker", "recovery_version_id": version}
    publish(
        place,
        runs=[run()],
        coverage=[covered()],
        findings=[finding("dropped", "orders/m", bucket=bucket, **way)],
    )
    assert cli.main(["explain", lake, f"s3://{bucket}/orders/m"]) == 0
    out = capsys.readouterr().out
    command = (
        f"aws s3api delete-object --bucket {bucket} --key orders/m --version-id {marker} --endpoint-url http"
    )
    assert command in out


@pytest.mark.parametrize("uri", ["elsewhere/a", "./", "https://x/y"])
def test_no_file_is_named(capsys: Captured, lake: str, uri: str) -> None:
    assert cli.main(["explain", lake, uri]) == 2
    assert "names no file" in capsys.readouterr().err
