"""A queue of SQS on the tests' server, with events of S3 in it."""

import uuid
from collections.abc import Iterable
from typing import Any

from lakeaudit.config import Follow, S3Options
from lakeaudit.runtime.connections.aws import Clients, Endpoint

ACCOUNT = "123456789012"


def sqs_client(server: Endpoint) -> Any:
    """A client of SQS."""
    return Clients().sqs(server)


def create_queue(server: Endpoint, **attributes: str) -> str:
    """Create a queue with attributes; return its URL."""
    name = f"events-{uuid.uuid4().hex[:12]}"
    return str(sqs_client(server).create_queue(QueueName=name, Attributes=attributes)["QueueUrl"])


def arn_of(server: Endpoint, url: str) -> str:
    attributes = sqs_client(server).get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])
    return str(attributes["Attributes"]["QueueArn"])


def send(server: Endpoint, url: str, bodies: Iterable[str]) -> None:
    """Send messages, ten by a request."""
    client, waiting = sqs_client(server), [*bodies]
    for start in range(0, len(waiting), 10):
        group = waiting[start : start + 10]
        entries = [{"Id": str(at), "MessageBody": body} for at, body in enumerate(group)]
        client.send_message_batch(QueueUrl=url, Entries=entries)


def following(queue: str, **options: Any) -> Follow:
    """The block `follow` of a lake file, on the tests' server."""
    return Follow(**({"queue": queue, "region": "us-east-1"} | options)).beside(S3Options())
