"""doctor proves that events arrive, names the missing link, and leaves other messages in the queue."""

import io
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lakeaudit.commands import doctor
from lakeaudit.config import Lake, load_lake
from lakeaudit.errors import CannotAudit, SourceError
from lakeaudit.follow import canary as canary_module
from lakeaudit.follow import queue as queue_module
from lakeaudit.follow.canary import probe_events, probe_queue
from lakeaudit.follow.missing_link import causes
from lakeaudit.follow.queue import EventQueue
from lakeaudit.follow.sqs import Attributes, open_queue
from lakeaudit.runtime.connections.aws import Clients, Endpoint
from lakeaudit.runtime.connections.endpoints import clients_of
from tests.builders.event_queue import arn_of, create_queue, send
from tests.builders.object_events import notification, record
from tests.conftest import Aws

SHORT = timedelta(seconds=2)
ALL = ["s3:ObjectCreated:*", "s3:ObjectRemoved:*", "s3:LifecycleExpiration:*"]


def lake_of(tmp_path: Path, s3: Endpoint, bucket: str, url: str) -> Lake:
    (tmp_path / "lake.yaml").write_text(
        f"version: 1\nlake: shop\nresults: {tmp_path}/results\ns3: {{endpoint: '{s3.endpoint}', region: us-east-1}}\n"
        f"follow: {{queue: '{url}'}}\n"
        f"tables: [{{name: a, location: 's3://{bucket}/wh/a', manifests: [{{kind: delta}}]}}]\n"
    )
    return load_lake(tmp_path / "lake.yaml", {})


@pytest.fixture
def url(s3: Endpoint) -> str:
    return create_queue(s3)


@pytest.fixture
def lake(tmp_path: Path, s3: Endpoint, bucket: str, url: str) -> Lake:
    return lake_of(tmp_path, s3, bucket, url)


def notify(aws: Aws, bucket: str, arn: str, events: list[str], prefix: str = "wh/") -> None:
    rules = [{"Name": "prefix", "Value": prefix}]
    configuration: Any = {"QueueArn": arn, "Events": events, "Filter": {"Key": {"FilterRules": rules}}}
    aws.s3.put_bucket_notification_configuration(
        Bucket=bucket, NotificationConfiguration={"QueueConfigurations": [configuration]}
    )


def outcome(lake: Lake) -> str:
    ((_, probed),) = list(probe_events(lake, clients_of(lake), SHORT))
    try:
        return probed().message
    except SourceError as error:
        return f"{error.what}; {error.hint}"


def waiting(lake: Lake) -> int:
    assert lake.follow is not None
    return open_queue(lake.follow, clients_of(lake)).attributes().waiting


@pytest.mark.parametrize("versioned", [False, True])
def test_events_arrive_and_the_canary_leaves_nothing(
    aws: Aws, s3: Endpoint, bucket: str, url: str, lake: Lake, versioned: bool
) -> None:
    if versioned:
        aws.s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    notify(aws, bucket, arn_of(s3, url), ALL)
    assert outcome(lake).startswith("an object was written and removed, and both events arrived within")
    versions = aws.s3.list_object_versions(Bucket=bucket)
    assert not versions.get("Versions")
    assert not versions.get("DeleteMarkers")


def test_other_messages_stay_and_are_visible_again(
    aws: Aws, s3: Endpoint, bucket: str, url: str, lake: Lake
) -> None:
    send(s3, url, [notification(record("ObjectRemoved:Delete", bucket, f"wh/a/{at}")) for at in range(25)])
    send(s3, url, ["<xml/>"])
    notify(aws, bucket, arn_of(s3, url), ALL)
    assert "both events arrived" in outcome(lake)
    assert waiting(lake) == 27  # with the test event of S3


def test_a_long_queue_cannot_be_tested(
    s3: Endpoint, url: str, lake: Lake, patched: pytest.MonkeyPatch
) -> None:
    patched.setattr(canary_module, "MOST_OTHERS", 5)
    send(s3, url, ["<xml/>"] * 12)
    assert outcome(lake) == "could not be tested: at least 5 other messages wait in the queue"
    assert waiting(lake) == 12


def test_a_canary_that_may_not_be_written(tmp_path: Path, s3: Endpoint, url: str) -> None:
    message = outcome(lake_of(tmp_path, s3, "no-such-bucket-at-all", url))
    assert message.startswith(
        "the canary cannot be written or removed: the bucket does not exist; grant the statement"
    )


QUEUE = Attributes("arn:ours", 0, 0, 0, 120, 1, None)
S3_MAY = json.dumps({"Statement": [{"Effect": "Allow", "Principal": {"Service": "s3.amazonaws.com"}}]})


def own(events: list[str], prefix: str = "wh/") -> dict[str, Any]:
    rules = [{"Name": "Prefix", "Value": prefix}]
    configuration = {"QueueArn": "arn:ours", "Events": events, "Filter": {"Key": {"FilterRules": rules}}}
    return {"QueueConfigurations": [configuration]}


@pytest.mark.parametrize(
    ("present", "policy", "cause"),
    [
        ({}, S3_MAY, "the bucket sends no events to this queue"),
        ({"EventBridgeConfiguration": {}}, S3_MAY, "the bucket sends its events to EventBridge, but no rule"),
        ({"TopicConfigurations": [{}]}, S3_MAY, "the bucket sends events to a topic of SNS"),
        (
            own(ALL, "elsewhere/"),
            S3_MAY,
            "the notification of the bucket selects objects of other folders only",
        ),
        (own(ALL[:1]), S3_MAY, "the notification of the bucket does not select s3:ObjectRemoved:*"),
        (own(ALL[1:]), S3_MAY, "the notification of the bucket does not select s3:ObjectCreated:*"),
        (own(ALL), "", "the policy of the queue does not let S3 send"),
        (own(ALL), "[]", ""),
        (own(ALL), '{"Statement": {"Effect": "Allow", "Principal": "*"}}', ""),
        (own(ALL), S3_MAY, ""),
        (own(ALL, "w%68/"), S3_MAY, ""),
    ],
)
def test_causes_of_events_that_do_not_arrive(present: dict[str, Any], policy: str, cause: str) -> None:
    queue = QUEUE._replace(policy=policy)
    causes_of_key = [each for each, _ in causes(present, "wh/_lakeaudit_canary/x", queue)]
    assert causes_of_key[:1] == [] if not cause else causes_of_key[0].startswith(cause)


def test_deletions_that_the_bucket_does_not_send(
    aws: Aws, s3: Endpoint, bucket: str, url: str, lake: Lake
) -> None:
    notify(aws, bucket, arn_of(s3, url), ALL[:1])
    message = outcome(lake)
    assert message.startswith(
        "the event of the deletion did not arrive within 2 s: the notification of the bucket does not"
    )


def test_a_bucket_without_notifications_on_the_server(lake: Lake) -> None:
    assert "the bucket sends no events to this queue; run the script of `lakeaudit policy" in outcome(lake)


def test_properties_of_the_queue(s3: Endpoint, lake: Lake, tmp_path: Path, bucket: str) -> None:
    assert lake.follow is not None
    probed = probe_queue(lake.follow, clients_of(lake))
    assert probed.message == "can be read; 0 messages waiting, 0 received"
    assert [note.partition(":")[0] for note in probed.notes] == ["it has no dead-letter queue"]
    absent = lake_of(tmp_path, s3, bucket, f"{s3.endpoint}/123456789012/none").follow
    assert absent is not None
    with pytest.raises(CannotAudit, match="the queue does not exist"):
        probe_queue(absent, Clients())


@pytest.fixture
def impatient(patched: pytest.MonkeyPatch) -> None:
    defaults = (SHORT, *(canary_module.probe_events.__defaults__ or ())[1:])
    patched.setattr(canary_module.probe_events, "__defaults__", defaults)


@pytest.mark.usefixtures("impatient")
def test_doctor_prints_the_queue_and_each_bucket(
    aws: Aws, s3: Endpoint, bucket: str, url: str, lake: Lake
) -> None:
    about = f"events of s3://{bucket}/wh:"
    for line in (
        f"FAIL {about} s3://{bucket}/wh: no event arrived",
        f"ok {about} an object was written and removed",
    ):
        out = io.StringIO()
        doctor.run(lake, clients_of(lake), {}, datetime.now(UTC), out)
        text = " ".join(out.getvalue().split())
        assert line in text
        assert "note queue events-" in text
        notify(aws, bucket, arn_of(s3, url), ALL)


def test_follow_leaves_recent_canaries_to_doctor(
    s3: Endpoint, url: str, lake: Lake, patched: pytest.MonkeyPatch
) -> None:
    assert lake.follow is not None
    send(s3, url, [notification(record("ObjectRemoved:Delete", "lake", "wh/_lakeaudit_canary/x"))])
    patched.setattr(queue_module, "YIELDED", 0)
    with EventQueue.open(lake.follow, clients_of(lake)) as events:
        assert not events.collect(timedelta(seconds=1), timedelta(seconds=1)).messages
        patched.setattr(queue_module, "CANARY_AGE", timedelta(0))
        assert len(events.collect(timedelta(seconds=1), timedelta(seconds=1)).messages) == 1
