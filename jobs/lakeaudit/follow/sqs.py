"""Send the requests of SQS for one queue, and word its refusals."""

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from botocore.exceptions import BotoCoreError, ClientError

from lakeaudit.config import Follow
from lakeaudit.errors import CannotAudit
from lakeaudit.runtime.connections.aws import Clients, Endpoint
from lakeaudit.runtime.connections.aws_failures import code_of, explain, is_denied
from lakeaudit.runtime.connections.aws_responses import response_time

AT_ONCE = 10
"""The most messages of one request."""
LONGEST_POLL = 20
"""The most seconds for which SQS waits for a message."""
_ABSENT = ("AWS.SimpleQueueService.NonExistentQueue", "QueueDoesNotExist", "NonExistentQueue")
_KMS_DENIED = ("KMS.AccessDeniedException", "KmsAccessDenied")
_CREATE = (
    "correct `follow.queue` and its region, or create it as `lakeaudit policy LAKE --for follow` describes"
)
_GRANT = "grant the statements of `lakeaudit policy LAKE --for follow` to the role that follows"


class Attributes(NamedTuple):
    """The properties of a queue, and its approximate numbers of messages.

    Attributes:
        visibility: seconds for which a received message is hidden by default.
        retention: seconds after which SQS drops a message.
        most_receives: the deliveries after which SQS moves a message to the dead-letter queue; None: there is none.
    """

    arn: str
    waiting: int
    in_flight: int
    delayed: int
    visibility: int
    retention: int
    most_receives: int | None
    policy: str = ""
    """JSON; empty: only the owner of the queue may send."""

    @property
    def messages(self) -> int:
        return self.waiting + self.in_flight + self.delayed


class Received(NamedTuple):
    """A delivery of a message; `age` is since it was sent, by the clock of SQS alone."""

    id: str
    receipt: str
    body: str
    age: timedelta | None


class SqsQueue:
    """One queue; every request that fails raises CannotAudit with the reason."""

    def __init__(self, client: Any, url: str) -> None:
        self._client = client
        self.url = url

    def attributes(self) -> Attributes:
        """Return the properties of the queue."""
        answer = self._send("get_queue_attributes", AttributeNames=["All"])
        return _attributes(answer.get("Attributes") or {})

    def receive(self, wait: int, visibility: int) -> list[Received]:
        """Return up to ten messages, hidden from now on for `visibility` seconds; wait up to `wait` seconds for one."""
        answer = self._send(
            "receive_message",
            MaxNumberOfMessages=AT_ONCE,
            WaitTimeSeconds=wait,
            VisibilityTimeout=visibility,
            MessageSystemAttributeNames=["SentTimestamp"],
        )
        now = response_time(answer)
        return [_received(each, now) for each in answer.get("Messages") or []]

    def hide(self, receipts: Sequence[str], seconds: int) -> None:
        """Hide messages from now on for some seconds, 0: show them; deleted messages are left out."""
        for group in groups(receipts):
            entries = [{**entry, "VisibilityTimeout": seconds} for entry in _entries(group)]
            self._send("change_message_visibility_batch", Entries=entries)

    def delete(self, receipts: Sequence[str]) -> int:
        """Delete messages; return how many SQS did not delete, and will deliver again."""
        failures = 0
        for group in groups(receipts):
            answer = self._send("delete_message_batch", Entries=_entries(group))
            failures += len(answer.get("Failed") or [])
        return failures

    def _send(self, operation: str, **request: Any) -> Mapping[str, Any]:
        try:
            answer = getattr(self._client, operation)(QueueUrl=self.url, **request)
        except (ClientError, BotoCoreError) as error:
            raise queue_error(self.url, error) from error
        return answer if isinstance(answer, dict) else {}


def open_queue(follow: Follow, clients: Clients) -> SqsQueue:
    """Return the queue of a lake file.

    Raises:
        CannotAudit: it does not exist, or access is denied.
    """
    at = Endpoint(follow.endpoint, follow.region, role_arn=follow.role_arn, external_id=follow.external_id)
    queue = follow.queue
    assert queue is not None  # noqa: S101 - callers with a journal do not come here
    try:
        client = clients.sqs(at)
        url = (
            queue.url
            or client.get_queue_url(QueueName=queue.name, QueueOwnerAWSAccountId=queue.account)["QueueUrl"]
        )
    except (ClientError, BotoCoreError) as error:
        raise queue_error(queue.text, error) from error
    return SqsQueue(client, str(url))


def queue_error(where: str, error: Exception) -> CannotAudit:
    """Return the error of a request that failed."""
    code = code_of(error) if isinstance(error, ClientError) else ""
    if code in _ABSENT:
        return CannotAudit(where, "the queue does not exist, or another account may not see it", _CREATE)
    if code in _KMS_DENIED:
        return CannotAudit(where, "the key that encrypts the queue denies access", "grant kms:Decrypt on it")
    if isinstance(error, ClientError) and is_denied(error):
        return CannotAudit(where, "access to the queue is denied", _GRANT)
    failure = explain(error)
    return CannotAudit(where, failure.what, failure.hint.replace("s3.", "follow."), failure.retryable)


def groups(receipts: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield the receipts in groups for one request each."""
    for start in range(0, len(receipts), AT_ONCE):
        yield receipts[start : start + AT_ONCE]


def _entries(group: Sequence[str]) -> list[dict[str, Any]]:
    return [{"Id": str(at), "ReceiptHandle": receipt} for at, receipt in enumerate(group)]


def _received(message: Mapping[str, Any], now: datetime | None) -> Received:
    sent = _number(message.get("Attributes", {}).get("SentTimestamp"))
    age = None
    if now is not None and sent is not None:
        age = max(now - datetime.fromtimestamp(sent / 1000, UTC), timedelta(0))
    return Received(
        str(message.get("MessageId")), str(message["ReceiptHandle"]), str(message.get("Body", "")), age
    )


def _attributes(written: Mapping[str, str]) -> Attributes:
    try:
        redrive = json.loads(written.get("RedrivePolicy") or "{}")
    except ValueError:
        redrive = {}
    return Attributes(
        arn=written.get("QueueArn", ""),
        waiting=_number(written.get("ApproximateNumberOfMessages")) or 0,
        in_flight=_number(written.get("ApproximateNumberOfMessagesNotVisible")) or 0,
        delayed=_number(written.get("ApproximateNumberOfMessagesDelayed")) or 0,
        visibility=_number(written.get("VisibilityTimeout")) or 0,
        retention=_number(written.get("MessageRetentionPeriod")) or 0,
        policy=written.get("Policy", ""),
        most_receives=_number(redrive.get("maxReceiveCount")) if isinstance(redrive, dict) else None,
    )


def _number(value: object) -> int | None:
    text = str(value)
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else None
