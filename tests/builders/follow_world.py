"""A lake under load for `follow`: a server in a process of its own, a real Delta writer, vacuums, chaos, and losses."""

import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from lakeaudit.runtime.connections.aws import Clients, Endpoint
from tests.builders.event_queue import create_queue, sqs_client
from tests.builders.object_events import notification, record

BUCKET = "lake"
_SERVER = "from moto.server import main; import sys; main(['-H', '127.0.0.1', '-p', sys.argv[1]])"
_COMMAND = "from lakeaudit.cli.process import program; import sys; program(sys.argv[1:])"


@contextmanager
def server_process() -> Iterator[Endpoint]:
    """moto in a process of its own."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-c", _SERVER, str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"
    try:
        while not _accepts(port):
            time.sleep(0.2)
        yield Endpoint(url, "us-east-1", path_style=True)
    finally:
        process.kill()
        process.wait()


def _accepts(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@dataclass(frozen=True)
class Chaos:
    """The faults of the delivery of events, as parts of all events, and the most seconds of a delay."""

    twice: float = 0.05
    late: float = 0.05
    delay: float = 20.0


@dataclass
class Sender:
    """Sends events to the queue, about `rate` of them a second, in a random order."""

    server: Endpoint
    queue: str
    chaos: Chaos
    random: random.Random
    sent: int = 0
    _due: deque[tuple[float, str]] = field(default_factory=deque)
    _lock: Lock = field(default_factory=Lock)

    def tell(self, name: str, key: str) -> None:
        """Send an event about an object now, or later, or twice."""
        at = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        sequencer = f"{time.time_ns():016X}"
        body = notification(record(name, BUCKET, key, at=at, sequencer=sequencer))
        now, late = time.monotonic(), self.random.random() < self.chaos.late
        with self._lock:
            self._due.append((now + (self.random.random() * self.chaos.delay if late else 0), body))
            if self.random.random() < self.chaos.twice:
                self._due.append((now + self.random.random() * self.chaos.delay, body))

    def run(self, stopped: Event) -> None:
        """Send what is due until the end; then all that is left."""
        client = sqs_client(self.server)
        while not stopped.wait(0.1):
            self._send(client, time.monotonic())
        self._send(client, float("inf"))

    def _send(self, client: Any, until: float) -> None:
        with self._lock:
            waiting, self._due = [*self._due], deque()
            bodies = [body for at, body in waiting if at <= until]
            self._due.extend(each for each in waiting if each[0] > until)
        self.random.shuffle(bodies)
        for start in range(0, len(bodies), 10):
            group = [{"Id": str(n), "MessageBody": body} for n, body in enumerate(bodies[start : start + 10])]
            client.send_message_batch(QueueUrl=self.queue, Entries=group)
            self.sent += len(group)


@dataclass
class World:
    """A lake file, a queue, a busy table `hot`, and a table `cold` whose files are lost one after the other."""

    home: Path
    server: Endpoint
    losses: int
    seed: int
    chaos: Chaos
    extra: str = ""
    stopped: Event = field(default_factory=Event)
    deleted: dict[str, float] = field(default_factory=dict)
    """By key of a lost file the time of its delete."""
    reported: dict[str, float] = field(default_factory=dict)
    """By key of a lost file the time at which `follow` said that it is published."""
    lines: list[dict[str, Any]] = field(default_factory=list)
    """The lines of the progress of `follow`."""
    usage: list[tuple[float, int]] = field(default_factory=list)
    """Seconds of CPU and peak of memory in KiB of each ended process."""
    kills: int = 0

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.s3 = Clients(self.server).s3(BUCKET)
        self.s3.create_bucket(Bucket=BUCKET)
        self.queue = create_queue(self.server)
        self.sender = Sender(self.server, self.queue, self.chaos, self.random)
        self._write("cold", self.losses + 50)
        self._write("hot", 4)
        self.lake_file = self.home / "lake.yaml"
        entries = ", ".join(
            f"{{name: {name}, location: 's3://{BUCKET}/{name}', manifests: [{{kind: delta}}]}}"
            for name in ("cold", "hot")
        )
        self.lake_file.write_text(
            f"version: 1\nlake: soak\nresults: {self.home}/results\n"
            f"s3: {{endpoint: '{self.server.endpoint}', region: us-east-1, path_style: true}}\n"
            f"inventories: [{{kind: listing, location: 's3://{BUCKET}/'}}]\ntables: [{entries}]\n"
            f"follow: {{queue: '{self.queue}', region: us-east-1, state: {self.home}/state}}\n{self.extra}"
        )

    @property
    def options(self) -> dict[str, str]:
        return {
            "AWS_ENDPOINT_URL": str(self.server.endpoint), "AWS_ALLOW_HTTP": "true", "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_S3_ALLOW_UNSAFE_RENAME": "true",
        }  # fmt: skip

    def _write(self, table: str, parts: int, mode: str = "append") -> None:
        rows = pa.table({"part": [str(n) for n in range(parts)], "amount": [self.random.random()] * parts})
        write_deltalake(
            f"s3://{BUCKET}/{table}",
            rows,
            mode=mode,
            partition_by=["part"],
            storage_options=self.options,  # type: ignore[call-overload]
        )

    def write_and_vacuum(self) -> None:
        """Overwrite the busy table, and vacuum it now and then, until the end."""
        rounds = 0
        while not self.stopped.wait(2):
            rounds += 1
            with suppress(Exception):  # the writer may be too slow at the end
                self._write("hot", 4, "overwrite" if rounds % 2 else "append")
                if rounds % 4 == 0:
                    table = DeltaTable(f"s3://{BUCKET}/hot", storage_options=self.options)
                    for path in table.vacuum(0, dry_run=False, enforce_retention_duration=False):
                        self.sender.tell("ObjectRemoved:Delete", f"hot/{path}")

    def make_noise(self, rate: float) -> None:
        """Send events of dead and of present objects, so many a second, until the end."""
        present = self._live("cold")[-20:]
        number, began = 0, time.monotonic()
        while not self.stopped.wait(0.1):
            while number < (time.monotonic() - began) * rate:
                number += 1
                if number % 100 == 0:
                    self.sender.tell("ObjectCreated:Put", self.random.choice(present))
                else:
                    name = "ObjectCreated:Put" if number % 3 == 0 else "ObjectRemoved:Delete"
                    self.sender.tell(
                        name, f"{'hot' if number % 2 else 'cold'}/dead-{self.random.random()}.parquet"
                    )

    def _live(self, table: str) -> list[str]:
        found = DeltaTable(f"s3://{BUCKET}/{table}", storage_options=self.options)
        return sorted(path.removeprefix(f"s3://{BUCKET}/") for path in found.file_uris())

    def lose(self, seconds: float) -> None:
        """Delete live files, one after the other, at random times within these seconds."""
        victims = self._live("cold")[: self.losses]
        self.random.shuffle(victims)
        for key in victims:
            if self.stopped.wait(self.random.random() * 2 * seconds / len(victims)):
                return
            self.s3.delete_object(Bucket=BUCKET, Key=key)
            self.deleted[key] = time.time()
            self.sender.tell("ObjectRemoved:Delete", key)

    def follow(self, kill_after: float = float("inf")) -> None:
        """Run `follow` until the end; kill and restart it at random times around `kill_after` seconds."""
        while not self.stopped.is_set():
            process = subprocess.Popen(
                [sys.executable, "-c", _COMMAND, "follow", str(self.lake_file)], stderr=subprocess.PIPE, text=True,
                env=os.environ | {"LAKEAUDIT_CACHE": str(self.home / "cache")},
            )  # fmt: skip
            reader = Thread(target=self._read, args=(process,), daemon=True)
            reader.start()
            end = time.monotonic() + kill_after * (0.5 + self.random.random())
            while time.monotonic() < end and not self.stopped.wait(0.2) and process.poll() is None:
                pass
            killed = not self.stopped.is_set()
            process.send_signal(signal.SIGKILL if killed else signal.SIGTERM)
            self.kills += killed
            _, status, used = os.wait4(process.pid, 0)
            reader.join(10)
            self.usage.append((used.ru_utime + used.ru_stime, used.ru_maxrss))
            started = any(line.get("stage") == "follow" for line in self.lines[-3:])
            if not killed and started:
                assert os.waitstatus_to_exitcode(status) == 0, self.lines[-3:]

    def _read(self, process: "subprocess.Popen[str]") -> None:
        assert process.stderr is not None
        for text in process.stderr:
            try:
                line = json.loads(text)
            except ValueError:
                line = {"text": text.rstrip()}
            self.lines.append(line)
            subject = line.get("text", "").partition(f"s3://{BUCKET}/")[2]
            if subject in self.deleted:
                self.reported.setdefault(subject, time.time())

    def wait_until_empty(self, patience: float) -> None:
        """Wait until the queue has no messages."""
        client, end = sqs_client(self.server), time.monotonic() + patience
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        while time.monotonic() < end:
            found = client.get_queue_attributes(QueueUrl=self.queue, AttributeNames=names)["Attributes"]
            if not any(int(found[name]) for name in names):
                return
            time.sleep(1)

    def latencies(self) -> list[float]:
        """Return the seconds between each delete and its report, sorted."""
        return sorted(at - self.deleted[key] for key, at in self.reported.items())
