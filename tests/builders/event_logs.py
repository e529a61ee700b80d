"""Event logs as Spark 4.1 writes them: the events that an audit reads, and some that it ignores."""

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

SQL = "org.apache.spark.sql.execution.ui."
BEGUN = datetime(2026, 11, 20, 3, tzinfo=UTC)
UUIDS = ("0f14d0ab-9605-4a62-a9e4-5ed26688389b", "7d444840-9dc0-11d1-b245-5ffdce74fad2",
         "e902893a-9d22-3c7e-a7b8-d6e313b71d9f", "6ba7b810-9dad-11d1-80b4-00c04fd430c8")  # fmt: skip
"""The random ids that the jobs of a test take, in order."""


def millis(at: datetime) -> int:
    return round(at.timestamp() * 1000)


def part(
    split: int, uuid: str, number: int = 0, *, joint: str = "-c", suffix: str = ".snappy.parquet"
) -> str:
    """The name of a split's file."""
    return f"part-{split:05d}-{uuid}{joint}{number:03d}{suffix}"


@dataclass
class App:
    """One application's events so far. `at` is its clock: each write takes a minute, and a minute lies between two."""

    id: str = "app-20261120030000-0001"
    version: str = "4.1.4"
    at: datetime = BEGUN
    attempt: str = ""
    events: list[dict[str, Any]] = field(default_factory=list)
    _execution: int = 0
    _stage: int = 0
    _accumulator: int = 100

    def __post_init__(self) -> None:
        attempt = {"App Attempt ID": self.attempt} if self.attempt else {}
        self.say("SparkListenerLogStart", **{"Spark Version": self.version})
        self.say("SparkListenerApplicationStart", **{"App Name": "nightly", "App ID": self.id} | attempt)
        self.say("SparkListenerBlockManagerAdded", **{"Maximum Memory": 1})

    def say(self, event: str, **given: Any) -> None:
        self.events.append({"Event": event, **given})

    def end(self) -> "App":
        self.say("SparkListenerApplicationEnd", Timestamp=millis(self.at))
        return self

    def write(
        self,
        path: str,
        splits: Mapping[int, tuple[int, int]],
        mode: str = "Append",
        *,
        by: str = "",
        fixed: str = "",
        options: str = "",
        dynamic: bool | None = None,
        partitions: int = 0,
        error: str | None = "",
        totals: bool = True,
        ends: bool = True,
        attempts: Sequence[dict[str, Any]] = (),
    ) -> datetime:
        """A write whose tasks committed (records, bytes) by split; when it ended.

        `error` None: an end without a word of it, as before Spark 3.4. `attempts`: more task ends, as they are.
        """
        execution, stage = self._execution, self._stage
        self._execution, self._stage = execution + 1, stage + 2
        metrics = self._metrics()
        self._begin(execution, path, mode, by, fixed, options, dynamic, metrics)
        self.say("SparkListenerJobStart", **{"Job ID": execution, "Stage IDs": [stage, stage + 1],
                 "Properties": {"spark.sql.execution.id": str(execution)}})  # fmt: skip
        self.at += timedelta(minutes=1)
        self.task(stage, 0, 0, 0)  # of a shuffle before the write
        for split, (records, size) in splits.items():
            self.task(stage + 1, split, records, size)
        for each in attempts:
            self.task(stage + 1, **each)
        if ends:
            result = "JobSucceeded" if not error else "JobFailed"
            self.say("SparkListenerJobEnd", **{"Job ID": execution, "Job Result": {"Result": result}})
            counted = (
                len(splits),
                sum(s for _, s in splits.values()),
                sum(r for r, _ in splits.values()),
                partitions,
            )
            if totals and not error:
                updates = [[n, value] for n, value in zip(metrics.values(), counted, strict=True)]
                self.say(f"{SQL}SparkListenerDriverAccumUpdates", executionId=execution, accumUpdates=updates)
            message = {} if error is None else {"errorMessage": error}
            self.say(
                f"{SQL}SparkListenerSQLExecutionEnd", executionId=execution, time=millis(self.at), **message
            )
        end = self.at
        self.at += timedelta(minutes=1)
        return end

    def _metrics(self) -> dict[str, int]:
        names = (
            "number of written files",
            "written output",
            "number of output rows",
            "number of dynamic part",
        )
        self._accumulator += 10
        return {name: self._accumulator + n for n, name in enumerate(names)}

    def _begin(
        self, execution: int, path: str, mode: str, by: str, fixed: str, options: str, dynamic: bool | None,
        metrics: Mapping[str, int],
    ) -> None:  # fmt: skip
        given = [f"[{fixed}]"] if fixed else []
        given += [f"[{by}#1]"] if by else []
        said = ", ".join([path, "false", *given, "Parquet", f"[{options}path={path}]", mode, "[id, d]"])
        child = {
            "nodeName": "WriteFiles",
            "simpleString": "WriteFiles",
            "children": [],
            "metadata": {},
            "metrics": [],
        }
        plan = {
            "nodeName": "Execute InsertIntoHadoopFsRelationCommand",
            "simpleString": f"Execute InsertIntoHadoopFsRelationCommand {said}",
            "children": [child],
            "metadata": {},
            "metrics": [
                {"name": name, "accumulatorId": n, "metricType": "sum"} for name, n in metrics.items()
            ],
        }
        changed = {"spark.sql.sources.partitionOverwriteMode": "dynamic"} if dynamic else {}
        self.say(
            f"{SQL}SparkListenerSQLExecutionStart",
            executionId=execution,
            sparkPlanInfo=plan,
            time=millis(self.at),
            modifiedConfigs=changed,
        )

    def task(
        self, stage: int, split: int, records: int, size: int, *, attempt: int = 0, reason: str = "Success"
    ) -> None:
        """The end of a task."""
        info = {"Task ID": len(self.events), "Index": split, "Partition ID": split, "Attempt": attempt,
                "Speculative": attempt > 0, "Failed": reason != "Success", "Killed": False,
                "Finish Time": millis(self.at), "Accumulables": []}  # fmt: skip
        written = {"Bytes Written": size, "Records Written": records}
        self.say("SparkListenerTaskEnd", **{"Stage ID": stage, "Stage Attempt ID": 0, "Task Type": "ResultTask",
                 "Task End Reason": {"Reason": reason}, "Task Info": info,
                 "Task Metrics": {"Output Metrics": written}})  # fmt: skip

    @property
    def lines(self) -> list[bytes]:
        return [json.dumps(event, separators=(",", ":")).encode() for event in self.events]

    def save(self, folder: Path, codec: str = "zstd", *, rolled: int = 0, open_: bool = False) -> Path:
        """As one file, or rolled into so many."""
        lines = self.lines
        suffix = "" if codec == "plain" else f".{codec}"
        if not rolled:
            path = folder / f"{self.id}{suffix}{'.inprogress' if open_ else ''}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(packed(b"".join(line + b"\n" for line in lines), codec))
            return path
        home = folder / f"eventlog_v2_{self.id}"
        home.mkdir(parents=True, exist_ok=True)
        (home / f"appstatus_{self.id}{'.inprogress' if open_ else ''}").touch()
        for number in range(rolled):  # none is empty: nobody would miss it
            piece = lines[len(lines) * number // rolled : len(lines) * (number + 1) // rolled]
            path = home / f"events_{number + 1}_{self.id}{suffix}"
            path.write_bytes(packed(b"".join(line + b"\n" for line in piece), codec))
        return home


def packed(content: bytes, codec: str, block: int = 1000) -> bytes:
    """As Spark's codecs write it: frames of Zstandard, and the block formats of lz4-java and snappy-java."""
    pieces = [content[at : at + block] for at in range(0, len(content), block)]
    if codec == "lz4":
        raw = pa.Codec("lz4_raw")
        blocks = [(raw.compress(piece, asbytes=True), piece) for piece in pieces]
        heads = [
            b"LZ4Block" + struct.pack("<Biii", 0x26, len(small), len(piece), 0) + small
            for small, piece in blocks
        ]
        return b"".join(heads) + b"LZ4Block" + struct.pack("<Biii", 0x16, 0, 0, 0)
    if codec == "snappy":
        small = [pa.Codec("snappy").compress(piece, asbytes=True) for piece in pieces]
        return (
            b"\x82SNAPPY\x00"
            + struct.pack(">ii", 1, 1)
            + b"".join(struct.pack(">i", len(s)) + s for s in small)
        )
    if codec == "zstd":
        half = len(content) // 2  # frames may follow one another
        return b"".join(
            pa.Codec("zstd").compress(each, asbytes=True) for each in (content[:half], content[half:])
        )
    return content
