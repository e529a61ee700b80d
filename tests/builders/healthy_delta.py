"""Healthy histories of Delta tables: what writers and clean-up do in any order, by delta-rs and by hand.

Each act leaves a table that every reader can read. What delta-rs does not write (commits without commitInfo, RESTORE
without Python's lock, checksum files) is written by hand as Spark writes it.
"""

import io
import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, write_deltalake

from tests.builders.shop import Shop

DAYS = ("2026-11-01", "2026-11-02")
NOW = "interval 0 seconds"
SETTINGS: tuple[dict[str, str], ...] = (
    {},
    {"delta.deletedFileRetentionDuration": NOW},
    {"delta.checkpointInterval": "3", "delta.logRetentionDuration": NOW},
    {"delta.checkpointInterval": "4", "delta.deletedFileRetentionDuration": NOW},
)
Action = dict[str, Any]


@dataclass
class DeltaHistory:
    """One table; `numbers` gives each row of the lake a number of its own."""

    shop: Shop
    name: str
    chance: random.Random
    numbers: Iterator[int]
    under: str = "warehouse"
    may_partition: bool = True
    states: dict[int, frozenset[str]] = field(default_factory=dict)
    adds: dict[str, Action] = field(default_factory=dict)
    metadata: Action = field(default_factory=dict)
    doubted: bool = False
    dropped: bool = False
    done: list[str] = field(default_factory=list)

    @property
    def home(self) -> str:
        return f"{self.under}/{self.name}"

    @property
    def uri(self) -> str:
        return f"s3://{self.shop.bucket}/{self.home}"

    @property
    def table(self) -> DeltaTable:
        return DeltaTable(self.uri, storage_options=self.shop.options)

    @property
    def entry(self) -> str:
        return f"{{name: {self.name}, location: '{self.uri}', manifests: [{{kind: delta}}]}}"

    @property
    def live(self) -> set[str]:
        """Keys that the newest version lists."""
        return {f"{self.home}/{path}" for path in self.states[max(self.states)]}

    @property
    def acts(self) -> tuple[Callable[[], None], ...]:
        return (
            *(self.append, self.append, self.overwrite, self.delete, self.update, self.compact, self.vacuum),
            *(self.checkpoint, self.clean_log, self.restore, self.replace, self.create_again),
            *(self.append_bare, self.commit_nothing, self.enter_checksum, self.set_property),
        )

    def begin(self) -> None:
        """Create the table."""
        self.append()

    def act(self) -> None:
        """One act, drawn at random."""
        chosen = self.chance.choice(self.acts)
        self.done.append(chosen.__name__)
        chosen()

    def rows(self) -> dict[str, list[int]]:
        """Return the files that real readers read."""
        return {} if self.dropped else {"delta": sorted(self.table.to_pyarrow_table()["amount"].to_pylist())}

    def some_rows(self) -> pa.Table:
        """Rows of two days that nobody has written before."""
        amounts = [next(self.numbers) for _ in range(self.chance.choice((2, 4, 6)))]
        days = [DAYS[number % 2] for number in range(len(amounts))]
        return pa.table({"day": days, "amount": pa.array(amounts, pa.int64())})

    def append(self) -> None:
        self._write("append")

    def overwrite(self) -> None:
        self._write("overwrite")

    def replace(self) -> None:
        """CREATE OR REPLACE TABLE: the same log goes on with another schema."""
        self._write("overwrite", schema_mode="overwrite")

    def delete(self) -> None:
        amounts = self.table.to_pyarrow_table()["amount"].to_pylist()
        if amounts:
            self.table.delete(f"amount <= {self.chance.choice(amounts)}")
        self._note()

    def update(self) -> None:
        amounts = self.table.to_pyarrow_table()["amount"].to_pylist()
        if amounts:
            self.table.update(
                {"amount": str(next(self.numbers))}, predicate=f"amount = {self.chance.choice(amounts)}"
            )
        self._note()

    def compact(self) -> None:
        self.table.optimize.compact()
        self._note()

    def vacuum(self) -> None:
        """All that no live version lists goes at once, and the log records it."""
        self.table.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)
        self._note()

    def checkpoint(self) -> None:
        self.table.create_checkpoint()

    def clean_log(self) -> None:
        """Remove log files before a checkpoint that are older than the retention."""
        self.table.create_checkpoint()
        self.table.cleanup_metadata()

    def set_property(self) -> None:
        """By hand, since delta-rs holds Python's lock."""
        settings = self.metadata["configuration"] | {"delta.appendOnly": "false"}
        self.metadata = self.metadata | {"configuration": settings}
        info = {"operation": "SET TBLPROPERTIES", "operationParameters": {}, "timestamp": self._millis()}
        self.commit({"commitInfo": info}, {"metaData": self.metadata})

    def restore(self) -> None:
        """RESTORE to an older version whose files are all there; by hand, since delta-rs holds Python's lock."""
        there = set(self.keys())
        newest = max(self.states)
        old = [v for v, paths in self.states.items() if {f"{self.home}/{p}" for p in paths} <= there]
        target = self.states[self.chance.choice([v for v in old if v != newest] or [newest])]
        added, removed = target - self.states[newest], self.states[newest] - target
        at = {"deletionTimestamp": self._millis(), "dataChange": True}
        self.commit(
            {"commitInfo": {"operation": "RESTORE", "operationParameters": {}, "timestamp": self._millis()}},
            *({"add": self.adds[path] | {"dataChange": True}} for path in sorted(added)),
            *({"remove": {"path": path, **at}} for path in sorted(removed)),
        )

    def append_bare(self) -> None:
        """A commit without commitInfo, as many writers leave."""
        values = {"day": DAYS[0]} if self.table.metadata().partition_columns else {}
        rows = self.some_rows().slice(0, 1)
        path = f"{'day=' + DAYS[0] + '/' if values else ''}part-{rows['amount'][0]}.parquet"
        out = io.BytesIO()
        pq.write_table(rows.drop_columns(["day"]) if values else rows, out)
        self.shop.s3.put_object(Bucket=self.shop.bucket, Key=f"{self.home}/{path}", Body=out.getvalue())
        fields = {
            "partitionValues": values,
            "size": len(out.getvalue()),
            "modificationTime": self._millis(),
            "dataChange": True,
        }
        self.commit({"add": {"path": path, **fields}})

    def commit_nothing(self) -> None:
        """A commit that holds commitInfo alone, as of a streaming batch without rows."""
        self.commit({"commitInfo": {"operation": "STREAMING UPDATE", "timestamp": self._millis()}})

    def enter_checksum(self) -> None:
        """The checksum file of the newest version, as Spark writes it after each commit."""
        live = self.states[max(self.states)]
        counts = {
            "tableSizeBytes": sum(self.adds[path]["size"] for path in live),
            "numFiles": len(live),
            "numMetadata": 1,
            "numProtocol": 1,
        }
        self._put(f"_delta_log/{max(self.states):020}.crc", json.dumps(counts).encode())

    def create_again(self) -> None:
        """Drop the table with all its files, and create another one in its place."""
        self.remove_all()
        self.states, self.adds = {}, {}
        self.begin()

    def drop(self) -> None:
        """Its owner drops the table with all its files."""
        self.remove_all()
        self.dropped = True

    def remove_all(self) -> None:
        for key in self.keys():
            self.shop.s3.delete_object(Bucket=self.shop.bucket, Key=key)

    def keys(self) -> list[str]:
        pages = self.shop.s3.get_paginator("list_objects_v2").paginate(
            Bucket=self.shop.bucket, Prefix=f"{self.home}/"
        )
        return [each["Key"] for page in pages for each in page.get("Contents", [])]

    def commit(self, *actions: Action) -> None:
        """The next version, by hand."""
        body = "".join(json.dumps(action) + "\n" for action in actions)
        self._put(f"_delta_log/{max(self.states) + 1:020}.json", body.encode())
        self._note()

    def _write(self, mode: Any, **more: Any) -> None:
        if not self.states:
            more |= {
                "partition_by": self.chance.choice((None, ["day"])) if self.may_partition else None,
                "configuration": self.chance.choice(SETTINGS),
            }
        write_deltalake(self.uri, self.some_rows(), mode=mode, storage_options=self.shop.options, **more)
        self._note()

    def _note(self) -> None:
        """Record the files that versions since the last call list."""
        table = self.table
        for version in range(max(self.states, default=-1) + 1, table.version() + 1):
            live = set(self.states.get(version - 1, ()))
            for action in self._actions(version):
                if "add" in action:
                    self.adds[action["add"]["path"]] = action["add"]
                    live.add(action["add"]["path"])
                elif "remove" in action:
                    live.discard(action["remove"]["path"])
                self.metadata = action.get("metaData", self.metadata)
            self.states[version] = frozenset(live)

    def _actions(self, version: int) -> list[Action]:
        """Those of a commit; none where VACUUM's own checkpoint has cleaned up the commit that begins it."""
        key = f"{self.home}/_delta_log/{version:020}.json"
        try:
            body = self.shop.s3.get_object(Bucket=self.shop.bucket, Key=key)["Body"].read()
        except self.shop.s3.exceptions.NoSuchKey:
            return []
        return [json.loads(line) for line in body.splitlines()]

    def _put(self, name: str, body: bytes) -> None:
        self.shop.s3.put_object(Bucket=self.shop.bucket, Key=f"{self.home}/{name}", Body=body)

    def _millis(self) -> int:
        return max((add["modificationTime"] for add in self.adds.values()), default=0) + 1
