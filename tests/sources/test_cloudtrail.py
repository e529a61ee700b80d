"""Data events of CloudTrail: the events contract, records of every sort, and invalid files."""

import gzip
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeaudit.evidence.events.cloudtrail import CloudTrail
from lakeaudit.evidence.events.cloudtrail import reader as cloudtrail
from lakeaudit.evidence.protocol import Events
from lakeaudit.keys import Location
from lakeaudit.runtime.connections.aws import Clients
from tests.conftest import Aws
from tests.sources.events_contract import (
    NOW,
    REQUESTS,
    EventsContract,
    SentRequest,
    World,
    context,
    rejected,
    rows_of,
)

NAMES = {"put": "PutObject", "copy": "CopyObject", "delete": "DeleteObject", "get": "GetObject", "head": "HeadObject",
         "list": "ListObjects"}  # fmt: skip
BY: dict[str | None, str] = {
    "ann": "arn:aws:iam::123456789012:user/ann",
    "job": "arn:aws:sts::123456789012:assumed-role/etl/s1",
}


def read(clients: Clients, where: str | Path) -> Events:
    source = CloudTrail(kind="cloudtrail", location=Location.parse(str(where)))
    return cloudtrail.read(source, context(clients), "events:0")


def record(
    name: str, asked: Mapping[str, Any], made: SentRequest = REQUESTS[0], **given: Any
) -> dict[str, Any]:
    """Return a record as CloudTrail writes it, with fields that are not used."""
    return {
        "eventVersion": "1.11",
        "userIdentity": {"type": "IAMUser", "arn": BY[made.by or "ann"], "accountId": "123456789012"},
        "eventTime": f"{made.at:%Y-%m-%dT%H:%M:%SZ}",
        "eventSource": "s3.amazonaws.com",
        "eventName": name,
        "userAgent": '[aws-cli/2 "quoted" \\ agent]',
        "requestParameters": {"bucketName": "lake", "Host": "lake.s3.amazonaws.com", **asked},
        "responseElements": None,
        "additionalEventData": {"bytesTransferredIn": 1361},
        "requestID": "79104EXAMPLEB723",
        "eventID": "cdc4b7ed-e171-4cef-975a-ad829d4123e8",
        "readOnly": False,
        "resources": [{"type": "AWS::S3::Object", "ARN": "arn:aws:s3:::lake/x"}],
        "eventCategory": "Data",
    } | given


def record_of(number: int, made: SentRequest) -> dict[str, Any]:
    asked = {"prefix": made.key, "list-type": "2"} if made.action == "list" else {"key": made.key}
    failed = {"errorCode": "NoSuchKey" if made.action == "head" else "AccessDenied"} if made.failed else {}
    return record(NAMES[made.action], asked, made, requestID=f"R{number}", **failed)


RECORDS = [record_of(number, made) for number, made in enumerate(REQUESTS) if made.action in NAMES]
OTHERS = [
    record("AssumeRole", {}, eventSource="sts.amazonaws.com"),
    record("PutBucketLifecycle", {}),
    record("UploadPart", {"key": "t/part", "partNumber": 1}),
]


def name(unique: str = "abcDEF123", suffix: str = ".json.gz") -> str:
    return f"123456789012_CloudTrail_eu-west-1_{NOW:%Y%m%dT%H%M}Z_{unique}{suffix}"


def body(records: Sequence[object]) -> bytes:
    return json.dumps({"Records": records}, ensure_ascii=False).encode()


class TestContract(EventsContract):
    @pytest.fixture(scope="class", params=["trail", "local"])
    @classmethod
    def world(
        cls,
        request: pytest.FixtureRequest,
        clients: Clients,
        aws: Aws,
        tmp_path_factory: pytest.TempPathFactory,
    ) -> World:
        packed = gzip.compress(body([*OTHERS, *RECORDS]))
        if request.param == "local":
            folder = tmp_path_factory.mktemp("trail")
            (folder / name()).write_bytes(packed)
            events = read(Clients(), folder)
        else:
            aws.s3.create_bucket(Bucket="trails")
            home = "AWSLogs/123456789012"
            aws.s3.put_object(
                Bucket="trails", Key=f"{home}/CloudTrail/eu-west-1/{NOW:%Y/%m/%d}/{name()}", Body=packed
            )
            digest = f"{home}/CloudTrail-Digest/eu-west-1/{NOW:%Y/%m/%d}/x_CloudTrail-Digest_x.json.gz"
            aws.s3.put_object(Bucket="trails", Key=digest, Body=b"{}")
            events = read(clients, "s3://trails/AWSLogs/")
        return World(events, set(NAMES), BY, rows=rows_of(events.parts(events.since, True)))


def test_a_trail_with_a_prefix_that_ends_in_a_slash_lies_below_two(
    clients: Clients, aws: Aws, bucket: str
) -> None:
    key = f"x//AWSLogs/123456789012/CloudTrail/eu-west-1/{NOW:%Y/%m/%d}/{name()}"
    aws.s3.put_object(Bucket=bucket, Key=key, Body=gzip.compress(body(RECORDS)))
    events = read(clients, f"s3://{bucket}/x/")
    assert len(rows_of(events.parts(events.since, True))) == len(RECORDS)


def parsed(folder: Path, content: bytes) -> tuple[list[dict[str, Any]], int, list[str]]:
    """Rows of one file, how many records were rejected, and what is noted of it."""
    folder.mkdir(exist_ok=True)
    (folder / name(suffix=".json")).write_bytes(content)
    events = read(Clients(), folder)
    parts = events.parts(events.since, True)
    return rows_of(parts), rejected(parts), [note["reason"] for note in rows_of(parts, "notes")]


def test_deletes_of_many_keys_are_read_if_they_name_the_keys(tmp_path: Path) -> None:
    many = {"delete": {"object": [{"key": "t/a"}, {"key": "t/b", "versionId": "v1"}]}}
    one = {"delete": {"object": {"key": "t/c"}}}
    rows, rejects, _ = parsed(
        tmp_path, body([record("DeleteObjects", asked) for asked in (many, one, {"delete": ""}, {})])
    )
    assert {row["key"]: row.get("version_id") for row in rows} == {"t/a": None, "t/b": "v1", "t/c": None}
    assert rejects == 0


WHO: list[tuple[dict[str, Any], str | None]] = [
    ({"type": "AWSAccount", "accountId": "anonymous"}, "anonymous"),
    ({"type": "AWSService", "invokedBy": "replication.amazonaws.com"}, "replication.amazonaws.com"),
    ({"type": "AWSAccount", "principalId": "AIDA", "accountId": "1"}, "AIDA"),
    ({}, None),
]


@pytest.mark.parametrize(("who", "principal"), WHO)
def test_people_are_named_as_far_as_they_are_recorded(
    tmp_path: Path, who: dict[str, Any], principal: str | None
) -> None:
    ((row,), _, _) = parsed(tmp_path, body([record("DeleteObject", {"key": "t/a"}, userIdentity=who)]))
    assert row.get("principal") == principal


FAULTS: dict[str, object] = {
    "no object": "text",
    "no time": record("PutObject", {"key": "t/x"}, eventTime=None),
    "an invalid time": record("PutObject", {"key": "t/x"}, eventTime="yesterday"),
    "no key": record("PutObject", {}),
    "a key that is not text": record("PutObject", {"key": ["t/x"]}),
    "no bucket": record("PutObject", {"key": "t/x", "bucketName": None}),
    "invalid parameters": record("PutObject", {}, requestParameters="none"),
    "an invalid identity": record("PutObject", {"key": "t/x"}, userIdentity="ann"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_an_invalid_record_is_counted_and_the_others_read(tmp_path: Path, fault: str) -> None:
    rows, rejects, notes = parsed(tmp_path, body([RECORDS[0], FAULTS[fault], RECORDS[1]]))
    assert ([row["key"] for row in rows], rejects, notes) == ([REQUESTS[0].key, REQUESTS[1].key], 1, [])


NO_FILES = (b"", b"[]", b'{"Records": 5}', b'{"Records"', b"\xff\xfe", b"[" * 100_000, b'{"records": []}')


@pytest.mark.parametrize("content", NO_FILES, ids=range(len(NO_FILES)))
def test_an_invalid_file_is_noted(tmp_path: Path, content: bytes) -> None:
    assert parsed(tmp_path, content) == ([], 0, ["is not a file of CloudTrail: it has no list of records"])


def test_a_file_that_ends_early_is_noted(tmp_path: Path) -> None:
    packed = gzip.compress(body(RECORDS))
    (tmp_path / name()).write_bytes(packed[:-20])
    events = read(Clients(), tmp_path)
    (note,) = rows_of(events.parts(events.since, False), "notes")
    assert note["reason"] == "is damaged or cannot be read (EOFError)"


BENIGN: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "fields in another order": lambda each: dict(reversed(each.items())),
    "fields that are new": lambda each: each | {"tlsDetails": {"x": [1]}, "future": None},
    "fields that nobody needs are gone": lambda each: {
        k: v for k, v in each.items() if k not in ("eventID", "resources", "userAgent")
    },
}


@settings(max_examples=20)
@given(
    order=st.permutations(range(len(RECORDS))),
    mutations=st.lists(st.sampled_from(sorted(BENIGN)), max_size=3, unique=True),
    pieces=st.integers(1, 3),
    packed=st.booleans(),
    indent=st.sampled_from([None, 2]),
)
def test_benign_changes_change_no_row(
    tmp_path_factory: pytest.TempPathFactory,
    order: list[int],
    mutations: list[str],
    pieces: int,
    packed: bool,
    indent: int | None,
) -> None:
    folder = tmp_path_factory.mktemp("trail")
    for piece in range(pieces):
        records = [RECORDS[n] for n in order[piece::pieces]]
        for each in mutations:
            records = [BENIGN[each](one) for one in records]
        text = json.dumps({"Records": records}, indent=indent).replace("\n", "\r\n").encode()
        target = folder / name(f"F{piece}", ".json.gz" if packed else ".json")
        target.write_bytes(gzip.compress(text) if packed else text)
    events = read(Clients(), folder)
    plain, _, _ = parsed(tmp_path_factory.mktemp("plain"), body(RECORDS))
    by = lambda row: row["request_id"]  # noqa: E731
    assert sorted(rows_of(events.parts(events.since, True)), key=by) == sorted(plain, key=by)


def test_the_signature_of_a_url_is_left_out(tmp_path: Path) -> None:
    signed = record("PutObject", {"X-Amz-Signature": "secret"})
    (tmp_path / name(suffix=".json")).write_bytes(body([signed]))
    events = read(Clients(), tmp_path)
    (counted,) = rows_of(events.parts(events.since, True), "counted")
    assert (counted["rejected"], "secret" in counted["sample"], "PutObject" in counted["sample"]) == (
        1,
        False,
        True,
    )
