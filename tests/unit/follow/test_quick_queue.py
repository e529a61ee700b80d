"""The fast SQS server of the tests under load answers as moto does."""

from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from lakeaudit.runtime.connections.aws import Endpoint
from tests.builders.event_queue import create_queue, sqs_client
from tests.builders.quick_queue import quick_queues


@pytest.fixture(params=["moto", "quick"])
def server(request: pytest.FixtureRequest, s3: Endpoint) -> Iterator[Endpoint]:
    if request.param == "moto":
        yield s3
        return
    with quick_queues() as address:
        yield Endpoint(address, "us-east-1")


class Queue:
    """A queue with three messages."""

    def __init__(self, server: Endpoint) -> None:
        self.client, self.url = sqs_client(server), create_queue(server)
        entries = [{"Id": name, "MessageBody": name} for name in "abc"]
        sent = self.client.send_message_batch(QueueUrl=self.url, Entries=entries)
        assert sorted(each["Id"] for each in sent["Successful"]) == ["a", "b", "c"]

    def receive(self, visibility: int = 30) -> list[dict[str, Any]]:
        answer = self.client.receive_message(
            QueueUrl=self.url, MaxNumberOfMessages=10, VisibilityTimeout=visibility,
            MessageSystemAttributeNames=["SentTimestamp"],
        )  # fmt: skip
        return answer.get("Messages", [])  # type: ignore[no-any-return]

    def numbers(self) -> tuple[int, int]:
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        found = self.client.get_queue_attributes(QueueUrl=self.url, AttributeNames=names)["Attributes"]
        return int(found[names[0]]), int(found[names[1]])


def test_messages_are_hidden_shown_again_and_deleted(server: Endpoint) -> None:
    queue = Queue(server)
    first = queue.receive()
    assert sorted(each["Body"] for each in first) == ["a", "b", "c"]
    assert all(each["Attributes"]["SentTimestamp"].isdigit() for each in first)
    assert (queue.receive(), queue.numbers()) == ([], (0, 3))
    shown = [{"Id": "1", "ReceiptHandle": first[0]["ReceiptHandle"], "VisibilityTimeout": 0}]
    queue.client.change_message_visibility_batch(QueueUrl=queue.url, Entries=shown)
    (again,) = queue.receive()
    assert again["Body"] == first[0]["Body"]
    entries = [
        {"Id": str(n), "ReceiptHandle": each["ReceiptHandle"]} for n, each in enumerate([*first[1:], again])
    ]
    queue.client.delete_message_batch(QueueUrl=queue.url, Entries=entries)
    assert (queue.receive(), queue.numbers()) == ([], (0, 0))


def test_a_purged_queue_is_empty_and_an_unknown_one_is_refused(server: Endpoint) -> None:
    queue = Queue(server)
    queue.client.purge_queue(QueueUrl=queue.url)
    assert (queue.receive(), queue.numbers()) == ([], (0, 0))
    with pytest.raises(ClientError, match=r"(?i)queue"):
        queue.client.receive_message(QueueUrl=queue.url.replace("events-", "other-"))


def test_some_messages_are_delivered_twice() -> None:
    with quick_queues(twice=1.0) as address:
        queue = Queue(Endpoint(address, "us-east-1"))
        assert len(queue.receive()) == len(queue.receive()) == 3
