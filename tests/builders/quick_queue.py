"""A server of SQS for tests under load: the requests of `follow` and of senders, in the JSON protocol of 2023.

It answers some thousand requests a second, where moto answers sixty. As in SQS, a received message is hidden until its
visibility timeout ends, messages come in any order, and some come twice although they are hidden.
"""

import argparse
import json
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import md5
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from typing import Any
from uuid import uuid4

Answer = dict[str, Any]
ACCOUNT = "123456789012"
_WAKE = 0.2
"""Seconds after which a waiting request looks for messages whose visibility timeout has ended."""


@dataclass
class Message:
    """A message in a queue; `receipt` is that of its last delivery."""

    id: str
    body: str
    sent: float
    shown_at: float = 0.0
    receives: int = 0
    receipt: str = ""


@dataclass
class Queue:
    """The messages of a queue; every method needs its lock.

    Attributes:
        twice: the share of deliveries that leave the message visible, so that it comes again at once.
    """

    url: str
    attributes: dict[str, str]
    twice: float
    random: random.Random
    arrived: threading.Condition = field(default_factory=threading.Condition)
    visible: dict[str, Message] = field(default_factory=dict)
    hidden: dict[str, Message] = field(default_factory=dict)
    receipts: Iterator[int] = field(default_factory=count)

    def add(self, body: str) -> Answer:
        message = Message(str(uuid4()), body, time.time())
        self.visible[message.id] = message
        return {"MessageId": message.id, "MD5OfMessageBody": _md5(body)}

    def take(self, most: int, visibility: float) -> list[Answer]:
        """Return some messages, in any order."""
        now = time.monotonic()
        for message in [each for each in self.hidden.values() if each.shown_at <= now]:
            self.visible[message.id] = self.hidden.pop(message.id)
        taken = self._some(most)
        return [self._delivered(message, now + visibility) for message in taken]

    def _some(self, most: int) -> list[Message]:
        """Choose among the first messages: SQS asks some of its hosts, and each has the older ones first."""
        first = [message for message, _ in zip(self.visible.values(), range(most * 4), strict=False)]
        return self.random.sample(first, min(most, len(first)))

    def _delivered(self, message: Message, until: float) -> Answer:
        message.receives += 1
        message.receipt, message.shown_at = f"{message.id}#{next(self.receipts)}", until
        if self.random.random() >= self.twice:
            self.hidden[message.id] = self.visible.pop(message.id)
        attributes = {
            "SentTimestamp": str(int(message.sent * 1000)), "ApproximateReceiveCount": str(message.receives),
        }  # fmt: skip
        return {
            "MessageId": message.id, "ReceiptHandle": message.receipt, "MD5OfBody": _md5(message.body),
            "Body": message.body, "Attributes": attributes,
        }  # fmt: skip

    def delete(self, receipt: str) -> None:
        """Delete a message; as in SQS, the receipt of an earlier delivery deletes it, too."""
        name = receipt.partition("#")[0]
        self.visible.pop(name, None)
        self.hidden.pop(name, None)

    def hide(self, receipt: str, seconds: float) -> str:
        """Change the visibility of a message; return the code of the refusal, or an empty text."""
        message = self.hidden.get(receipt.partition("#")[0])
        if message is None or message.receipt != receipt:
            return "MessageNotInflight"
        message.shown_at = time.monotonic() + seconds
        return ""

    def state(self) -> dict[str, str]:
        numbers = {
            "ApproximateNumberOfMessages": len(self.visible), "ApproximateNumberOfMessagesNotVisible": len(self.hidden),
            "ApproximateNumberOfMessagesDelayed": 0,
        }  # fmt: skip
        return self.attributes | {name: str(number) for name, number in numbers.items()}


class RefusedError(Exception):
    """A request fails with this code of SQS."""


class Server:
    """The queues, and their requests by name."""

    def __init__(self, address: str, twice: float, seed: int) -> None:
        self.address, self.twice, self.random = address, twice, random.Random(seed)
        self.queues: dict[str, Queue] = {}
        self.requests: dict[str, Callable[[Answer], Answer]] = {
            "CreateQueue": self.create_queue,
            "GetQueueUrl": self.get_queue_url,
            "GetQueueAttributes": self.get_queue_attributes,
            "PurgeQueue": self.purge_queue,
            "SendMessage": self.send_message,
            "SendMessageBatch": self.send_message_batch,
            "ReceiveMessage": self.receive_message,
            "DeleteMessage": self.delete_message,
            "DeleteMessageBatch": self.delete_message_batch,
            "ChangeMessageVisibilityBatch": self.change_message_visibility_batch,
        }

    def queue(self, request: Answer) -> Queue:
        try:
            return self.queues[request["QueueUrl"].rpartition("/")[2]]
        except KeyError:
            raise RefusedError("QueueDoesNotExist") from None

    def create_queue(self, request: Answer) -> Answer:
        name = request["QueueName"]
        own = {
            "QueueArn": f"arn:aws:sqs:us-east-1:{ACCOUNT}:{name}", "VisibilityTimeout": "30",
            "MessageRetentionPeriod": "345600",
        }  # fmt: skip
        url, attributes = f"{self.address}/{ACCOUNT}/{name}", own | request.get("Attributes", {})
        self.queues.setdefault(name, Queue(url, attributes, self.twice, random.Random(self.random.random())))
        return {"QueueUrl": url}

    def get_queue_url(self, request: Answer) -> Answer:
        return {"QueueUrl": self.queue({"QueueUrl": request["QueueName"]}).url}

    def get_queue_attributes(self, request: Answer) -> Answer:
        queue = self.queue(request)
        with queue.arrived:
            return {"Attributes": queue.state()}

    def purge_queue(self, request: Answer) -> Answer:
        queue = self.queue(request)
        with queue.arrived:
            queue.visible.clear()
            queue.hidden.clear()
        return {}

    def send_message(self, request: Answer) -> Answer:
        queue = self.queue(request)
        with queue.arrived:
            added = queue.add(request["MessageBody"])
            queue.arrived.notify_all()
        return added

    def send_message_batch(self, request: Answer) -> Answer:
        queue = self.queue(request)
        with queue.arrived:
            added = [{"Id": each["Id"], **queue.add(each["MessageBody"])} for each in request["Entries"]]
            queue.arrived.notify_all()
        return {"Successful": added, "Failed": []}

    def receive_message(self, request: Answer) -> Answer:
        queue, end = self.queue(request), time.monotonic() + request.get("WaitTimeSeconds", 0)
        most, visibility = request.get("MaxNumberOfMessages", 1), request.get("VisibilityTimeout", 30)
        with queue.arrived:
            while not (messages := queue.take(most, visibility)) and time.monotonic() < end:
                queue.arrived.wait(_WAKE)
        return {"Messages": messages} if messages else {}

    def delete_message(self, request: Answer) -> Answer:
        queue = self.queue(request)
        with queue.arrived:
            queue.delete(request["ReceiptHandle"])
        return {}

    def delete_message_batch(self, request: Answer) -> Answer:
        queue = self.queue(request)
        with queue.arrived:
            for each in request["Entries"]:
                queue.delete(each["ReceiptHandle"])
        return {"Successful": [{"Id": each["Id"]} for each in request["Entries"]], "Failed": []}

    def change_message_visibility_batch(self, request: Answer) -> Answer:
        queue = self.queue(request)
        done: list[Answer] = []
        failed: list[Answer] = []
        with queue.arrived:
            for each in request["Entries"]:
                code = queue.hide(each["ReceiptHandle"], each["VisibilityTimeout"])
                entry = {"Id": each["Id"]}
                (failed if code else done).append(
                    entry | ({"Code": code, "SenderFault": True} if code else {})
                )
            queue.arrived.notify_all()
        return {"Successful": done, "Failed": failed}


def _md5(text: str) -> str:
    return md5(text.encode(), usedforsecurity=False).hexdigest()


class _Handler(BaseHTTPRequestHandler):
    """Answers the requests of a connection."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1
    disable_nagle_algorithm = True
    server: "_HttpServer"

    def do_POST(self) -> None:
        name = self.headers.get("X-Amz-Target", "").partition(".")[2]
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        try:
            answer = self.server.sqs.requests[name](json.loads(body))
        except KeyError:
            self._send(400, {"__type": "com.amazonaws.sqs#UnsupportedOperation", "message": name})
        except RefusedError as error:
            self._send(400, {"__type": f"com.amazonaws.sqs#{error}", "message": str(error)})
        else:
            self._send(200, answer)

    def _send(self, status: int, answer: Mapping[str, Any]) -> None:
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/x-amz-json-1.0")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class names it
        """Print nothing."""


class _HttpServer(ThreadingHTTPServer):
    daemon_threads = True
    sqs: Server


@contextmanager
def quick_queues(port: int = 0, twice: float = 0.0, seed: int = 1) -> Iterator[str]:
    """Serve in threads of this process; yield the address."""
    with _HttpServer(("127.0.0.1", port), _Handler) as http:
        address = f"http://127.0.0.1:{http.server_address[1]}"
        http.sqs = Server(address, twice, seed)
        thread = threading.Thread(target=http.serve_forever, name="queues", daemon=True)
        thread.start()
        try:
            yield address
        finally:
            http.shutdown()
            thread.join()


def main() -> None:
    """Serve in a process of its own until it is killed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("port", type=int)
    parser.add_argument("--twice", type=float, default=0.0)
    options = parser.parse_args()
    with quick_queues(options.port, options.twice):
        threading.Event().wait()


if __name__ == "__main__":
    main()
