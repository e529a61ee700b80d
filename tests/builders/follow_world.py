"""A lake under load for `follow`: servers in own processes, real writers, vacuums, cleans, chaos, and losses."""

import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from lakeaudit.config import load_lake
from lakeaudit.runtime.connections.aws import Clients, Endpoint
from lakeaudit.schemas import rows_of
from tests.builders.audits import results_of
from tests.builders.event_queue import create_queue, sqs_client
from tests.builders.event_sender import Chaos, Sender
from tests.builders.healthy_hudi import HudiHistory
from tests.builders.object_events import notification, record
from tests.builders.shop import Shop

BUCKET = "lake"
_S3 = (
    "from tests.builders.quick_server import quicken; quicken(); "
    "from moto.server import main; import sys; main(['-H', '127.0.0.1', '-p', sys.argv[1]])"
)
_COMMAND = "from lakeaudit.cli.process import program; import sys; program(sys.argv[1:])"
_ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Servers:
    """S3 (moto) and SQS (`quick_queue`), each in a process of its own."""

    s3: Endpoint
    sqs: Endpoint


@contextmanager
def server_processes(twice: float = 0.0) -> Iterator[Servers]:
    """Both servers while they run; `twice` is the share of messages that SQS delivers twice."""
    with _server("-c", _S3) as s3, _server("-m", "tests.builders.quick_queue", f"--twice={twice}") as sqs:
        yield Servers(s3, sqs)


@contextmanager
def _server(*command: str) -> Iterator[Endpoint]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, *command, str(port)], cwd=_ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        while not _accepts(port):
            assert process.poll() is None, command
            time.sleep(0.2)
        yield Endpoint(f"http://127.0.0.1:{port}", "us-east-1", path_style=True)
    finally:
        process.kill()
        process.wait()


def _accepts(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@dataclass(frozen=True)
class Loss:
    """A loss that `follow` must report.

    Attributes:
        at: the time of the request.
    """

    at: float
    kind: str
    cause: str


@dataclass
class CleanedTable(HudiHistory):
    """A Hudi table on a server in another process, which reports its removals to a sender."""

    sender: Sender | None = None

    def put(self, key: str, body: bytes | str = "") -> None:
        self.shop.s3.put_object(Bucket=BUCKET, Key=key, Body=body)

    def remove(self, key: str) -> None:
        self.shop.s3.delete_object(Bucket=BUCKET, Key=key)
        if self.sender is not None:
            self.sender.tell("ObjectRemoved:Delete", key)


@dataclass
class World:
    """A lake file, a queue, busy tables of Delta (`hot`) and Hudi (`trips`), and a table `cold` that loses files."""

    home: Path
    servers: Servers
    losses: int
    seed: int
    chaos: Chaos
    extra: str = ""
    stopped: Event = field(default_factory=Event)
    lost: dict[str, Loss] = field(default_factory=dict)
    """By key of a lost file its loss."""
    lines: list[dict[str, Any]] = field(default_factory=list)
    """The lines of the progress of `follow`."""
    usage: list[tuple[float, int]] = field(default_factory=list)
    """Seconds of CPU and peak of memory in KiB of each ended process."""
    kills: int = 0
    rounds: dict[str, int] = field(default_factory=dict)
    """How often each busy table was written and cleaned."""

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.s3 = Clients(self.servers.s3).s3(BUCKET)
        self.s3.create_bucket(Bucket=BUCKET)
        self.queue = create_queue(self.servers.sqs)
        self.sender = Sender(BUCKET, self.queue, self.chaos, self.random)
        self._write("cold", self.losses + 50)
        self._write("hot", 4)
        shop = Shop(self.s3, self.servers.s3, BUCKET)
        self.trips = CleanedTable(
            shop, "trips", random.Random(self.seed), iter(range(1 << 20)), sender=self.sender
        )
        self.trips.begin()
        self.lake_file = self.home / "lake.yaml"
        self.lake_file.write_text(self._lake())

    def _lake(self) -> str:
        places = {"cold": "cold, delta", "hot": "hot, delta", "trips": "warehouse/trips, hudi"}
        entries = ", ".join(
            f"{{name: {name}, location: 's3://{BUCKET}/{place}', manifests: [{{kind: {kind}}}]}}"
            for name, text in places.items() for place, kind in [text.split(", ")]
        )  # fmt: skip
        return (
            f"version: 1\nlake: soak\nresults: {self.home}/results\n"
            f"s3: {{endpoint: '{self.servers.s3.endpoint}', region: us-east-1, path_style: true}}\n"
            f"inventories: [{{kind: listing, location: 's3://{BUCKET}/'}}]\ntables: [{entries}]\n"
            f"follow: {{queue: '{self.queue}', region: us-east-1, state: {self.home}/state}}\n{self.extra}"
        )

    @property
    def options(self) -> dict[str, str]:
        return {
            "AWS_ENDPOINT_URL": str(self.servers.s3.endpoint), "AWS_ALLOW_HTTP": "true", "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_S3_ALLOW_UNSAFE_RENAME": "true",
        }  # fmt: skip

    def send(self) -> None:
        """Send events until the end."""
        self.sender.run(sqs_client(self.servers.sqs), self.stopped)

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
        """Overwrite the busy Delta table, and vacuum it now and then, until the end."""
        rounds = 0
        while not self.stopped.wait(2):
            rounds += 1
            with suppress(Exception):  # the server may be too slow
                before = {*self._live("hot")}
                self._write("hot", 4, "overwrite" if rounds % 2 else "append")
                for key in {*self._live("hot")} - before:
                    self.sender.tell("ObjectCreated:Put", key)
                self._count("hot")
                if rounds % 4 == 0:
                    self._vacuum("hot")

    def _vacuum(self, table: str) -> None:
        opened = DeltaTable(f"s3://{BUCKET}/{table}", storage_options=self.options)
        for path in opened.vacuum(0, dry_run=False, enforce_retention_duration=False):
            self.sender.tell("ObjectRemoved:Delete", f"{table}/{path}")
        self._count(f"vacuum of {table}")

    def write_and_clean(self) -> None:
        """Write slices of the Hudi table, and clean the older ones, until the end."""
        while not self.stopped.wait(3):
            for work in (self.trips.insert, self.trips.upsert, self.trips.upsert, self.trips.clean):
                work()
            self._count("trips")

    def _count(self, name: str) -> None:
        self.rounds[name] = self.rounds.get(name, 0) + 1

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
                    table = "hot" if number % 2 else "cold"
                    self.sender.tell(name, f"{table}/dead-{self.random.random()}.parquet")

    def send_many(self, events: int) -> None:
        """Send so many events of dead objects, as fast as `follow` receives them, 20 in a message."""
        client, at = sqs_client(self.servers.sqs), datetime.now(UTC).isoformat(timespec="milliseconds")
        for first in range(0, events, 200):
            if first % 10_000 == 0:
                while self.left() > 1000:
                    time.sleep(0.2)
            bodies = [
                notification(*(_dead(number, at) for number in range(start, start + 20)))
                for start in range(first, first + 200, 20)
            ]
            entries = [{"Id": str(n), "MessageBody": body} for n, body in enumerate(bodies)]
            client.send_message_batch(QueueUrl=self.queue, Entries=entries)

    def rss(self) -> list[tuple[int, int]]:
        """Return (events, MiB) of each line of progress."""
        return [
            (line["events"], line["memory"]) for line in self.lines if "events" in line and line["memory"]
        ]

    def _live(self, table: str) -> list[str]:
        found = DeltaTable(f"s3://{BUCKET}/{table}", storage_options=self.options)
        return sorted(path.removeprefix(f"s3://{BUCKET}/") for path in found.file_uris())

    def lose(self, seconds: float) -> None:
        """Delete or overwrite live files, one after the other, at random times within these seconds."""
        victims = self._live("cold")[: self.losses]
        self.random.shuffle(victims)
        for key in victims:
            if self.stopped.wait(self.random.random() * 2 * seconds / len(victims)):
                return
            self.lost[key] = self._lose(key)

    def _lose(self, key: str) -> Loss:
        change = self.random.choice(("deleted", "deleted", "expired", "overwritten"))
        at = time.time()
        if change == "overwritten":
            self.s3.put_object(Bucket=BUCKET, Key=key, Body=b"another content")
            self.sender.tell("ObjectCreated:Put", key)
            return Loss(at, "size_mismatch", "overwritten (ObjectCreated:Put)")
        self.s3.delete_object(Bucket=BUCKET, Key=key)
        if change == "expired":
            self.sender.tell("LifecycleExpiration:Delete", key)
            return Loss(at, "dropped", "expired by a lifecycle rule (LifecycleExpiration:Delete)")
        self.sender.tell("ObjectRemoved:Delete", key)
        return Loss(at, "dropped", "deleted (ObjectRemoved:Delete)")

    def follow(self, kill_after: float = float("inf")) -> None:
        """Run `follow` on one core until the end; kill and restart it at random times around `kill_after` seconds."""
        core = {max(os.sched_getaffinity(0))}
        while not self.stopped.is_set():
            process = subprocess.Popen(
                [sys.executable, "-c", _COMMAND, "follow", str(self.lake_file)], stderr=subprocess.PIPE, text=True,
                env=os.environ | {"LAKEAUDIT_CACHE": str(self.home / "cache")},
            )  # fmt: skip
            os.sched_setaffinity(process.pid, core)
            reader = Thread(target=self._read, args=(process,), daemon=True)
            reader.start()
            end = time.monotonic() + kill_after * (0.5 + self.random.random())
            while time.monotonic() < end and not self.stopped.wait(0.2) and not _has_ended(process.pid):
                pass
            by_itself, killed = _has_ended(process.pid), not self.stopped.is_set()
            process.send_signal(signal.SIGKILL if killed else signal.SIGTERM)
            self.kills += killed
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            reader.join(10)
            assert process.stderr is not None
            process.stderr.close()
            self.usage.append((used.ru_utime + used.ru_stime, used.ru_maxrss))
            assert not by_itself, self.lines[-3:]
            own = [line for line in self.lines if line["pid"] == process.pid]
            if not killed and any(line.get("stage") == "follow" for line in own):
                assert process.returncode == 0, own[-3:]

    def _read(self, process: "subprocess.Popen[str]") -> None:
        assert process.stderr is not None
        for text in process.stderr:
            try:
                line = json.loads(text)
            except ValueError:
                line = {"text": text.rstrip()}
            self.lines.append(line | {"at": time.time(), "pid": process.pid, "memory": _rss(process.pid)})

    def left(self) -> int:
        """Return the number of messages in the queue."""
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        client = sqs_client(self.servers.sqs)
        found = client.get_queue_attributes(QueueUrl=self.queue, AttributeNames=names)["Attributes"]
        return sum(int(found[name]) for name in names)

    def wait_until_empty(self, patience: float) -> bool:
        """Wait until the queue has no messages; return whether it has none."""
        end = time.monotonic() + patience
        while (left := self.left()) and time.monotonic() < end:
            time.sleep(1)
        return left == 0

    def latencies(self) -> list[float]:
        """Return the seconds between each loss and the end of the run that published it, sorted."""
        results = results_of(load_lake(self.lake_file, {}))
        ends = {
            run["run_id"]: run["finished_at"].timestamp() for run in results.followed() if run["finished_at"]
        }
        rows = [row for row in rows_of(results.discrepancies()) if row["first_run_id"] in ends]
        return sorted(
            ends[row["first_run_id"]] - self.lost[row["key"]].at for row in rows if row["key"] in self.lost
        )


def _dead(number: int, at: str) -> dict[str, Any]:
    """Return the event of the delete of an object that no table has listed."""
    key = f"{'hot' if number % 2 else 'cold'}/dead-{number}.parquet"
    return record("ObjectRemoved:Delete", BUCKET, key, at=at, sequencer=f"{number:016X}")


def _has_ended(pid: int) -> bool:
    """Return whether a child has ended; its exit code and usage remain for `os.wait4`."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _rss(pid: int) -> int:
    """Return the MiB that a process has in memory; 0: it has ended."""
    with suppress(OSError, IndexError, ValueError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096 >> 20
    return 0
