"""Describe what `follow` needs in AWS besides its role: the queue, its policy, and the notifications of buckets. Pure.

S3 replaces all notifications of a bucket by each request. So the commands read the present ones first and add to them.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lakeaudit.advice.command_lines import option
from lakeaudit.config import Lake, Queue
from lakeaudit.errors import BadInput
from lakeaudit.formatting import shell_word, visible
from lakeaudit.grants import SetupStep, literal, partition_of
from lakeaudit.keys import Location
from lakeaudit.permissions.event_places import event_places
from lakeaudit.runtime.connections.aws import Clients

EVENTS = ("s3:ObjectCreated:*", "s3:ObjectRemoved:*", "s3:LifecycleExpiration:*")
"""The events that a bucket sends: creations show overwrites, and keep the index of needed files current."""
ID = "lakeaudit-follow"
RULE = "lakeaudit-follow"
"""The name of the rule of EventBridge."""
_PLAIN = re.compile(r"[A-Za-z0-9_./-]+")
"""Prefixes that S3 takes as they are; for others the whole bucket sends its events."""
TITLES = ("Object Created", "Object Deleted")
"""The events of EventBridge that its rule selects."""
_RETENTION, _VISIBILITY, _DELIVERIES = 1_209_600, 120, 20
"""The queue keeps messages for 14 days, and a message of an unknown form is moved after 20 deliveries."""

MERGE = """\
import json, sys
present, added = (json.loads(open(name).read() or "{}") for name in sys.argv[1:])
present.pop("ResponseMetadata", None)
own = {each["Id"] for each in added.get("QueueConfigurations", [])}
others = [each for each in present.get("QueueConfigurations", []) if each.get("Id") not in own]
print(json.dumps({**present, **added, "QueueConfigurations": others + added.get("QueueConfigurations", [])}, indent=2))
"""
"""A program: it prints the present notifications with the added ones, and replaces only those with the same Id."""


@dataclass(frozen=True)
class EventSetup:
    """The parts of the set-up.

    Attributes:
        region: of the queue.
        accounts: the owners of the buckets, as far as the lake file names them.
        places: one folder of each bucket, see `event_places`.
    """

    queue: Queue
    region: str
    accounts: tuple[str, ...]
    places: tuple[Location, ...]

    @property
    def arn(self) -> str:
        return self.queue.arn(self.region)

    @property
    def dead_letters(self) -> str:
        """The name of the dead-letter queue, which is FIFO if the queue is."""
        name = self.queue.name
        return f"{name.removesuffix('.fifo')[:70]}-dead{'.fifo' if self.queue.is_fifo else ''}"


def event_setup(lake: Lake, clients: Clients) -> EventSetup | None:
    """Return the set-up of a lake; None: it follows a journal, which needs no queue.

    Raises:
        BadInput: the lake file has no `follow`, no region of the queue, or no table in S3.
    """
    follow = lake.follow
    if follow is None:
        raise BadInput(
            "follow",
            "the lake file has no key `follow`",
            "add follow: {queue: ARN}; the ARN may be of a new queue",
        )
    queue = follow.queue
    if queue is None:
        return None
    region = follow.region or queue.region
    if region is None:
        raise BadInput("follow.queue", "its URL names no region", "add `follow.region`")
    if not (places := event_places(lake)):
        raise BadInput(
            "follow", "the lake file names no bucket of S3 with tables", "S3 alone sends these events"
        )
    roles = [clients.endpoint(*place).role_arn for place in places]
    accounts = sorted({role.split(":")[4] if role else queue.account for role in roles})
    return EventSetup(queue, region, tuple(accounts), places)


def queue_policy(setup: EventSetup) -> dict[str, Any]:
    """Return the policy of the queue: S3 may send for these buckets, and EventBridge by its rule."""
    partition = partition_of(setup.region)
    buckets = [f"arn:{partition}:s3:::{literal(place.bucket)}" for place in setup.places]
    rules = [f"arn:{partition}:events:{setup.region}:{setup.queue.account}:rule/{RULE}*"]
    return {
        "Version": "2012-10-17",
        "Statement": [
            _may_send("S3MaySend", "s3.amazonaws.com", setup, buckets, setup.accounts),
            _may_send("EventBridgeMaySend", "events.amazonaws.com", setup, rules, [setup.queue.account]),
        ],
    }


def _may_send(
    sid: str, service: str, setup: EventSetup, sources: Sequence[str], accounts: Sequence[str]
) -> dict[str, Any]:
    return {
        "Sid": sid,
        "Effect": "Allow",
        "Principal": {"Service": service},
        "Action": "sqs:SendMessage",
        "Resource": setup.arn,
        "Condition": {
            "ArnLike": {"aws:SourceArn": [*sources]},
            "StringEquals": {"aws:SourceAccount": [*accounts]},
        },
    }


def queue_attributes(setup: EventSetup) -> dict[str, str]:
    """Return the attributes with which the queue is created, as SQS takes them."""
    dead = setup.arn.rpartition(":")[0] + f":{setup.dead_letters}"
    redrive = {"deadLetterTargetArn": dead, "maxReceiveCount": _DELIVERIES}
    return {
        "Policy": json.dumps(queue_policy(setup)),
        "RedrivePolicy": json.dumps(redrive),
        **_common(setup),
        "VisibilityTimeout": str(_VISIBILITY),
        "ReceiveMessageWaitTimeSeconds": "20",
    }


def _common(setup: EventSetup) -> dict[str, str]:
    fifo = {"FifoQueue": "true", "ContentBasedDeduplication": "true"} if setup.queue.is_fifo else {}
    return {"MessageRetentionPeriod": str(_RETENTION), "SqsManagedSseEnabled": "true", **fifo}


def notifications(setup: EventSetup, place: Location) -> dict[str, Any]:
    """Return the notifications of a bucket that are added to its present ones."""
    if setup.queue.is_fifo:  # S3 itself sends to none
        return {"EventBridgeConfiguration": {}}
    configuration: dict[str, Any] = {"Id": ID, "QueueArn": setup.arn, "Events": [*EVENTS]}
    if _PLAIN.fullmatch(place.prefix):
        rules = [{"Name": "prefix", "Value": place.prefix}]
        configuration |= {"Filter": {"Key": {"FilterRules": rules}}}
    return {"QueueConfigurations": [configuration]}


def event_pattern(setup: EventSetup) -> dict[str, Any]:
    """Return the pattern of the rule of EventBridge."""
    buckets = [place.bucket for place in setup.places]
    return {"source": ["aws.s3"], "detail-type": [*TITLES], "detail": {"bucket": {"name": buckets}}}


def notification_steps(setup: EventSetup, program: str | None = None) -> Iterator[SetupStep]:
    """Yield a step for each bucket that adds to its notifications and removes none.

    Args:
        setup: of the lake.
        program: the word of the shell that is `MERGE`; None: the program itself.
    """
    for place in setup.places:
        bucket = place.bucket
        names = [f"{bucket}.{part}.json" for part in ("present", "added", "merged")]
        read, merged = "aws s3api get-bucket-notification-configuration", shell_word(names[2])
        write = "aws s3api put-bucket-notification-configuration"
        bucket_option = option("--bucket", bucket)
        command = "\n".join(
            [
                f"{read} {bucket_option} > {shell_word(names[0])}",
                f"printf '%s' {shell_word(json.dumps(notifications(setup, place)))} > {shell_word(names[1])}",
                f"python3 -c {program or shell_word(MERGE)} {shell_word(names[0])} {shell_word(names[1])} > {merged}",
                f"{write} {bucket_option} --notification-configuration {shell_word(f'file://{names[2]}')}",
            ]
        )
        what = f"have {visible(place.uri)} send its events to the queue, and keep the bucket's other notifications"
        yield SetupStep(what, command)


def commands(setup: EventSetup) -> str:
    """Return a shell script that creates the queues and adds to the notifications of the buckets."""
    lines = [
        "#!/usr/bin/env bash",
        "# Have S3 send the events of the lake's buckets to a queue. Read the script before you run it; it stops at",
        "# the first failure. S3 replaces all notifications of a bucket at once, so the script adds to the present",
        "# ones, and leaves them in BUCKET.present.json. If S3 answers that the configurations overlap, another",
        "# receiver has these events: use EventBridge for that bucket (the last part, docs/follow-setup.md).",
        "set -eu",
        "",
        "# It prints the present notifications of a bucket with the added ones.",
        f"merge=$(cat <<'EOF'\n{MERGE}EOF\n)",
        "",
        "# The dead-letter queue gets messages that S3 did not send.",
        _create(setup, setup.dead_letters, _common(setup)),
        "",
        "# The queue, which S3 and EventBridge may send to. An existing queue with other properties is not changed.",
        _create(setup, setup.queue.name, queue_attributes(setup)),
    ]
    for step in notification_steps(setup, '"$merge"'):
        lines += ["", f"# {step.what[0].upper()}{step.what[1:]}.", step.command]
    return "\n".join([*lines, "", *_eventbridge(setup), ""])


def _create(setup: EventSetup, name: str, attributes: Mapping[str, str]) -> str:
    request = json.dumps({"QueueName": name, "Attributes": attributes})
    return f"aws sqs create-queue --region {shell_word(setup.region)} --cli-input-json {shell_word(request)}"


def _eventbridge(setup: EventSetup) -> Iterator[str]:
    """Yield the commands of EventBridge, as comments unless S3 cannot send to the queue itself."""
    region = f"--region {shell_word(setup.region)}"
    group = {"SqsParameters": {"MessageGroupId": "events"}} if setup.queue.is_fifo else {}
    rule = {"Name": RULE, "EventPattern": json.dumps(event_pattern(setup))}
    targets = {"Rule": RULE, "Targets": [{"Id": ID, "Arn": setup.arn, **group}]}
    mark = "" if setup.queue.is_fifo else "# "
    yield "# By EventBridge: a rule that sends the events to the queue. For a bucket whose notifications overlap, also"
    yield '# put {"EventBridgeConfiguration": {}} in place of the content of BUCKET.added.json above.'
    yield f"{mark}aws events put-rule {region} --cli-input-json {shell_word(json.dumps(rule))}"
    yield f"{mark}aws events put-targets {region} --cli-input-json {shell_word(json.dumps(targets))}"


def stack_resources(setup: EventSetup) -> dict[str, Any]:
    """Return the resources of a CloudFormation stack: the two queues, the policy, and the rule of EventBridge."""
    common = {"MessageRetentionPeriod": _RETENTION, "SqsManagedSseEnabled": True}
    fifo = {"FifoQueue": True, "ContentBasedDeduplication": True} if setup.queue.is_fifo else {}
    dead = {"QueueName": setup.dead_letters, **common, **fifo}
    queue = {
        "QueueName": setup.queue.name,
        **common,
        **fifo,
        "VisibilityTimeout": _VISIBILITY,
        "ReceiveMessageWaitTimeSeconds": 20,
        "RedrivePolicy": {
            "deadLetterTargetArn": {"Fn::GetAtt": ["DeadLetters", "Arn"]},
            "maxReceiveCount": _DELIVERIES,
        },
    }
    policy = {"Queues": [{"Ref": "Events"}], "PolicyDocument": queue_policy(setup)}
    target = {"Id": ID, "Arn": {"Fn::GetAtt": ["Events", "Arn"]}}
    target |= {"SqsParameters": {"MessageGroupId": "events"}} if setup.queue.is_fifo else {}
    rule = {"Name": RULE, "EventPattern": event_pattern(setup), "Targets": [target]}
    return {
        "DeadLetters": {"Type": "AWS::SQS::Queue", "Properties": dead},
        "Events": {"Type": "AWS::SQS::Queue", "Properties": queue},
        "EventsPolicy": {"Type": "AWS::SQS::QueuePolicy", "Properties": policy},
        "EventBridgeRule": {"Type": "AWS::Events::Rule", "Properties": rule},
    }
