"""`lakeaudit policy --for follow`: the role's policy, the queue, its policy, and the notifications of the buckets."""

import json
import os
import subprocess
import sys
import uuid
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from lakeaudit import cli
from lakeaudit.config import Lake, load_lake
from lakeaudit.follow.queue import EventQueue
from lakeaudit.permissions.event_places import event_places
from lakeaudit.permissions.event_setup import MERGE
from lakeaudit.runtime.connections.aws import Clients, Endpoint
from lakeaudit.runtime.connections.endpoints import clients_of
from tests.builders.aws_shim import write_aws
from tests.builders.event_queue import ACCOUNT, following, sqs_client
from tests.conftest import Aws

ARN = f"arn:aws:sqs:eu-west-1:{ACCOUNT}:lake-events"
HEAD = f"version: 1\nlake: shop\nresults: s3://results/shop\nfollow: {{queue: '{ARN}'}}\n"


def tables(*places: str) -> str:
    rows = [
        f"  - {{name: t{at}, location: '{place}', manifests: [{{kind: delta}}]}}"
        for at, place in enumerate(places)
    ]
    return "\n".join(["tables:", *rows, ""])


def lake_of(tmp_path: Path, text: str) -> Lake:
    (tmp_path / "lake.yaml").write_text(text)
    return load_lake(tmp_path / "lake.yaml", {})


@pytest.mark.parametrize(
    ("places", "expected"),
    [
        (["s3://lake/wh/orders"], ["s3://lake/wh"]),
        (["s3://lake/orders"], ["s3://lake/"]),
        (["s3://lake/wh/sales/a", "s3://lake/wh/raw/b"], ["s3://lake/wh"]),
        (["s3://lake/wh/a", "s3://lake/wh2/b"], ["s3://lake/"]),
        (["s3://lake/wh/a", "s3://other/x/y/b", "/data/local"], ["s3://lake/wh", "s3://other/x/y"]),
        (["s3://lake/wh/a", "s3://lake/wh/a/nested/b"], ["s3://lake/wh"]),
    ],
)
def test_one_folder_for_each_bucket(tmp_path: Path, places: list[str], expected: list[str]) -> None:
    lake = lake_of(tmp_path, HEAD + tables(*places))
    assert [place.uri for place in event_places(lake)] == expected


def printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, *options: str
) -> tuple[int, str, str]:
    lake_of(tmp_path, text)
    code = cli.main(["policy", str(tmp_path / "lake.yaml"), "--for", "follow", *options])
    output = capsys.readouterr()
    return code, output.out, output.err


def test_the_policy_of_the_role(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = printed(tmp_path, capsys, HEAD + tables("s3://lake/wh/orders"))
    statements = {each["Sid"]: each for each in json.loads(out)["Statement"]}
    assert code == 0
    assert statements["FollowQueue"]["Resource"] == [ARN]
    assert statements["WriteCanary"]["Resource"] == [
        "arn:aws:s3:::lake/wh/_lakeaudit_canary",
        "arn:aws:s3:::lake/wh/_lakeaudit_canary/*",
    ]
    assert statements["ReadNotificationsBucket"]["Action"] == ["s3:GetBucketNotification"]
    assert {"ReadTables", "KeepResults"} <= statements.keys()
    assert "--format commands" in err


JOURNAL = "follow: {journal: 's3://b_meta/journal'}\n"


def test_the_policy_of_a_role_that_reads_a_journal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = f"version: 1\nlake: shop\nresults: s3://r/x\n{JOURNAL}{tables('s3://lake/wh/orders')}"
    code, out, _ = printed(tmp_path, capsys, text)
    statements = {each["Sid"]: each for each in json.loads(out)["Statement"]}
    assert code == 0
    assert "arn:aws:s3:::b_meta/journal/*" in statements["ReadS3Metadata"]["Resource"]
    assert not {"FollowQueue", "WriteCanary"} & statements.keys()


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("", ["--for", "follow"], "the lake file has no key `follow`"),
        (
            "follow: {queue: 'http://127.0.0.1:1/123456789012/q'}\n",
            ["--for", "follow"],
            "its URL names no region",
        ),
        ("", ["--format", "commands"], "only `follow` needs commands"),
        (JOURNAL, ["--for", "follow", "--format", "commands"], "a journal needs no queue"),
    ],
)
def test_lake_files_without_a_set_up(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, options: list[str], message: str
) -> None:
    lake_of(tmp_path, f"version: 1\nlake: shop\nresults: s3://r/x\n{text}{tables('s3://lake/wh/orders')}")
    assert cli.main(["policy", str(tmp_path / "lake.yaml"), *options]) == 2
    assert message in capsys.readouterr().err


def test_a_bucket_of_another_region_is_not_covered(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = HEAD + "buckets: [{match: us, region: us-east-1}]\n" + tables("s3://us/wh/a", "s3://eu/wh/a")
    code, _, err = printed(tmp_path, capsys, text)
    assert code == 3
    assert (
        "not covered: events of the bucket us in us-east-1: S3 sends only to a queue in the same region"
        in err
    )


def test_the_queue_accepts_only_these_buckets_and_accounts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = HEAD + "buckets: [{match: eu, role_arn: 'arn:aws:iam::999999999999:role/x'}]\n"
    _, out, _ = printed(
        tmp_path, capsys, text + tables("s3://lake/wh/a", "s3://eu/b/c"), "--format", "cloudformation"
    )
    template = json.loads(out)
    policy = template["Resources"]["EventsPolicy"]["Properties"]["PolicyDocument"]
    conditions = {each["Principal"]["Service"]: each["Condition"] for each in policy["Statement"]}
    assert conditions["s3.amazonaws.com"] == {
        "ArnLike": {"aws:SourceArn": ["arn:aws:s3:::eu", "arn:aws:s3:::lake"]},
        "StringEquals": {"aws:SourceAccount": [ACCOUNT, "999999999999"]},
    }
    assert conditions["events.amazonaws.com"]["StringEquals"] == {"aws:SourceAccount": [ACCOUNT]}
    assert {"Role", "Events", "DeadLetters", "EventBridgeRule"} <= template["Resources"].keys()
    assert [step["What"] for step in template["Metadata"]["Steps"]] == [
        f"have s3://{place} send its events to the queue, and keep the bucket's other notifications"
        for place in ("eu/b", "lake/wh")
    ]


def test_a_fifo_queue_gets_its_events_by_eventbridge(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, out, _ = printed(
        tmp_path,
        capsys,
        HEAD.replace("lake-events", "q.fifo") + tables("s3://lake/wh/a"),
        "--format",
        "commands",
    )
    assert "\naws events put-targets" in out
    assert 'QueueConfigurations": [{' not in out


OTHER = {"Id": "thumbnails", "QueueArn": "arn:aws:sqs:us-east-1:1:other", "Events": ["s3:ObjectCreated:Put"]}
OURS = {"Id": "lakeaudit-follow", "QueueArn": ARN, "Events": ["s3:ObjectRemoved:*"]}
LAMBDA = {
    "LambdaFunctionConfigurations": [
        {"Id": "f", "LambdaFunctionArn": "arn", "Events": ["s3:ObjectCreated:*"]}
    ]
}


@pytest.mark.parametrize(
    ("present", "merged"),
    [
        (None, {"QueueConfigurations": [OURS]}),
        ({}, {"QueueConfigurations": [OURS]}),
        ({"QueueConfigurations": [OTHER]}, {"QueueConfigurations": [OTHER, OURS]}),
        ({"QueueConfigurations": [OURS | {"Events": []}, OTHER]}, {"QueueConfigurations": [OTHER, OURS]}),
        (
            LAMBDA | {"EventBridgeConfiguration": {}},
            LAMBDA | {"EventBridgeConfiguration": {}, "QueueConfigurations": [OURS]},
        ),
    ],
)
def test_other_notifications_of_a_bucket_stay(tmp_path: Path, present: Any, merged: Any) -> None:
    (tmp_path / "present.json").write_text("" if present is None else json.dumps(present))
    (tmp_path / "added.json").write_text(json.dumps({"QueueConfigurations": [OURS]}))
    command = [sys.executable, "-c", MERGE, "present.json", "added.json"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert json.loads(result.stdout) == merged


def run_commands(tmp_path: Path, s3: Endpoint, script: str) -> subprocess.CompletedProcess[str]:
    path = f"{write_aws(tmp_path / 'bin', str(s3.endpoint))}:{os.environ['PATH']}"
    (tmp_path / "setup.sh").write_text(script)
    return subprocess.run(
        ["bash", "setup.sh"],
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_commands_make_deletes_arrive(
    tmp_path: Path, s3: Endpoint, aws: Aws, bucket: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The script runs twice: the second run changes nothing, and the other notification of the bucket stays."""
    name = f"events-{uuid.uuid4().hex[:8]}"
    other = sqs_client(s3).create_queue(QueueName=f"{name}-other")["QueueUrl"]
    thumbnails = {
        "Id": "other",
        "QueueArn": f"arn:aws:sqs:us-east-1:{ACCOUNT}:{name}-other",
        "Events": ["s3:ObjectTagging:*"],
    }
    aws.s3.put_bucket_notification_configuration(
        Bucket=bucket,
        NotificationConfiguration={"QueueConfigurations": [thumbnails]},  # type: ignore[list-item]
    )
    text = HEAD.replace(ARN, f"arn:aws:sqs:us-east-1:{ACCOUNT}:{name}") + tables(f"s3://{bucket}/wh/orders")
    code, script, _ = printed(tmp_path, capsys, text, "--format", "commands")
    for _ in range(2):
        result = run_commands(tmp_path, s3, script)
        assert (code, result.returncode, result.stderr) == (0, 0, "")
    present = aws.s3.get_bucket_notification_configuration(Bucket=bucket)["QueueConfigurations"]
    assert sorted(each["Id"] for each in present) == ["lakeaudit-follow", "other"]
    aws.s3.put_object(Bucket=bucket, Key="wh/orders/a b+c.parquet", Body=b"x")
    aws.s3.put_object(Bucket=bucket, Key="elsewhere/x", Body=b"x")
    aws.s3.delete_object(Bucket=bucket, Key="wh/orders/a b+c.parquet")
    with EventQueue.open(
        following(f"arn:aws:sqs:us-east-1:{ACCOUNT}:{name}", endpoint=s3.endpoint), Clients()
    ) as events:
        batch = events.collect(timedelta(seconds=1), timedelta(seconds=2))
        assert sorted((event.change, event.key) for event in batch.events) == [
            ("created", "wh/orders/a b+c.parquet"),
            ("removed", "wh/orders/a b+c.parquet"),
        ]
        assert not batch.foreign
        attributes = events.state().attributes
    assert (attributes.most_receives, attributes.visibility, attributes.retention) == (20, 120, 1_209_600)
    assert sqs_client(s3).receive_message(QueueUrl=other).get("Messages")  # its own test event


def test_the_clients_of_a_lake_reach_the_queue(tmp_path: Path) -> None:
    lake = lake_of(tmp_path, HEAD + tables("s3://lake/wh/a"))
    assert lake.follow is not None
    assert (
        clients_of(lake).sqs(Endpoint(region=lake.follow.region)).meta.endpoint_url
        == "https://sqs.eu-west-1.amazonaws.com"
    )
