"""Find out why no events of a bucket arrive in a queue: the bucket, the rule, or the queue's policy."""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any
from urllib.parse import unquote_plus

from botocore.exceptions import BotoCoreError, ClientError

from lakeaudit.errors import SourceError
from lakeaudit.follow.events import Change
from lakeaudit.follow.sqs import Attributes
from lakeaudit.keys import Location
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.connections.aws_failures import explain

_SET_UP = "run the script of `lakeaudit policy LAKE --for follow --format commands`"
_REMOVALS = ("s3:ObjectRemoved:*", "s3:ObjectRemoved:Delete", "s3:ObjectRemoved:DeleteMarkerCreated")
_CREATIONS = ("s3:ObjectCreated:*", "s3:ObjectCreated:Put")


def missing_link(
    place: Location,
    key: str,
    arrived: Collection[Change],
    queue: Attributes,
    clients: Clients,
    patience: timedelta,
) -> SourceError:
    """Return the error that names the missing link.

    Args:
        place: the folder whose events are expected.
        key: of the canary, below the place.
        arrived: the changes of the canary that arrived.
        queue: its properties.
        clients: to read the notifications of the bucket.
        patience: the time for which the queue was read.
    """
    absent = "deletion" if "created" in arrived else "write"
    which = f"the event of the {absent} did not arrive" if arrived else "no event arrived"
    what = f"{which} within {patience.total_seconds():.0f} s"
    try:
        present = clients.s3(*place).get_bucket_notification_configuration(Bucket=place.bucket)
    except (ClientError, BotoCoreError) as error:
        why = f"the notifications of the bucket cannot be read ({explain(error).what})"
        return SourceError(
            place.uri, f"{what}, and {why}", "grant s3:GetBucketNotification to find the cause"
        )
    why, hint = next(
        causes(present, key, queue), ("the cause is not known: S3 may be late", "run doctor again")
    )
    return SourceError(place.uri, f"{what}: {why}", hint, retryable=hint == "run doctor again")


def causes(present: Mapping[str, Any], key: str, queue: Attributes) -> Iterator[tuple[str, str]]:
    """Yield (cause, hint) of events that do not arrive, the most certain first.

    Args:
        present: the notifications of the bucket, as S3 returns them.
        key: whose events do not arrive.
        queue: its properties.
    """
    own = [each for each in present.get("QueueConfigurations", []) if each.get("QueueArn") == queue.arn]
    selecting = [each for each in own if _selects(each, key)]
    if not own:
        yield from _other_ways(present)
        yield "the bucket sends no events to this queue", _SET_UP
    elif not selecting:
        yield "the notification of the bucket selects objects of other folders only", _SET_UP
    else:
        events = [event for each in selecting for event in each.get("Events", [])]
        if not any(event in _REMOVALS for event in events):
            yield "the notification of the bucket does not select s3:ObjectRemoved:*", _SET_UP
        if not any(event in _CREATIONS for event in events):
            yield "the notification of the bucket does not select s3:ObjectCreated:*", _SET_UP
        if not _may_send(queue.policy, "s3.amazonaws.com"):
            yield "the policy of the queue does not let S3 send", f"{_SET_UP}, which has that policy"


def _other_ways(present: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if "EventBridgeConfiguration" in present:
        what = "the bucket sends its events to EventBridge, but no rule brings them to this queue"
        yield what, "check the rule, its target and the policy of the queue (docs/follow-setup.md)"
    if present.get("TopicConfigurations"):
        what = "the bucket sends events to a topic of SNS, but they do not reach this queue"
        yield what, "check the subscription, and the policy of the queue"


def _selects(configuration: Mapping[str, Any], key: str) -> bool:
    """Return whether the filter of a notification selects a key."""
    rules = configuration.get("Filter", {}).get("Key", {}).get("FilterRules", [])
    return all(
        key.startswith(value) if str(rule.get("Name")).lower() == "prefix" else key.endswith(value)
        for rule in rules
        for value in [unquote_plus(str(rule.get("Value", "")))]
    )


def _may_send(policy: str, service: str) -> bool:
    """Return whether some statement lets a service send; its conditions are not judged."""
    try:
        statements = json.loads(policy or "{}").get("Statement", [])
    except (ValueError, AttributeError):
        return True
    return any(_allows(each, service) for each in _listed(statements) if isinstance(each, dict))


def _allows(statement: Mapping[str, Any], service: str) -> bool:
    principal = statement.get("Principal")
    services = _listed(principal.get("Service", [])) if isinstance(principal, dict) else [principal]
    everybody = isinstance(principal, dict) and "*" in _listed(principal.get("AWS", []))
    return statement.get("Effect") == "Allow" and (service in services or "*" in services or everybody)


def _listed(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else [value]
