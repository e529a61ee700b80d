"""Holds the breaker's view of the lake: one bucket, its tables, and the objects that acts have used."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from random import Random
from typing import TYPE_CHECKING, Any

from lakeaudit.demo.breaker.deltalog import DeltaLog, replay
from lakeaudit.demo.breaker.faults import Expected, NoVictim
from lakeaudit.demo.breaker.s3guard_rows import Guard, Row
from lakeaudit.demo.breaker.versioned_bucket import VersionedBucket

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_s3 import S3Client

DESCRIPTION = "demo/lake.json"
SACRIFICED = (
    *("broken_log", "broken_line", "broken_timeline", "checkpointed", "twin"),
    *("swept", "unreadable"),
)
"""Roles of tables for acts that destroy a whole table; other acts do not touch them."""
EXPIRES_AT_ONCE = ("vacuumed", "cleaned")
"""Roles of Delta tables without a retention for removed files."""


@dataclass(frozen=True)
class Table:
    """A table of the description: kind is delta, file_list or none; `guard` names its S3Guard table, if any.

    `role` describes its history, such as `clone` or `vacuumed`; `lists` is the folder of its file lists.
    """

    name: str
    location: str
    kind: str
    role: str
    guard: str | None = None
    lists: str | None = None


class Site(VersionedBucket):
    """The lake that acts break. Objects and rows that an act has used are taken: no other act touches them."""

    def __init__(self, s3: "S3Client", dynamodb: "DynamoDBClient", bucket: str, rng: Random) -> None:
        super().__init__(s3, bucket)
        self.rng = rng
        lake = json.loads(self.body(DESCRIPTION))
        self.tables = {table["name"]: Table(**table) for table in lake["tables"]}
        self.inventories: str = lake["inventories"]
        self.guards = {name: Guard(dynamodb, name, bucket) for name in lake["guards"]}
        self.taken: set[str] = set()
        self._logs: dict[str, DeltaLog] = {}
        self._lists: dict[str, dict[str, dict[str, Any]]] = {}
        for table in self.tables.values():  # read before the first act, since one of them destroys a log
            self.claims(table)

    # the current state

    def owner(self, key: str) -> Table:
        """Return the table whose location is the longest that contains the key."""
        holding = [table for table in self.tables.values() if key.startswith(f"{table.location}/")]
        return max(holding, key=lambda table: len(table.location))

    def log(self, table: Table) -> DeltaLog:
        """Return the table's newest state. If the log was cleaned up, every stored data file counts as live."""
        if table.name not in self._logs:
            self._logs[table.name] = self._replay(table)
        return self._logs[table.name]

    def claims(self, table: Table) -> dict[str, dict[str, Any]]:
        """Return by key the records of live files in the table's own manifest."""
        if table.kind == "delta":
            return self.log(table).live
        if table.lists and table.name not in self._lists:
            self._lists[table.name] = self._read_lists(table.lists)
        return self._lists.get(table.name, {})

    def below(self, table: Table, folder: str = "") -> list[str]:
        """Return the keys of the objects in a folder (with slash) of a table, by default in the whole table."""
        return sorted(key for key in self.objects if key.startswith(f"{table.location}/{folder}"))

    def commits(self, table: Table) -> list[str]:
        """Return the keys of the commits of a Delta log, oldest first."""
        keys = self.below(table, "_delta_log/")
        return [key for key in keys if key.rpartition("/")[2][20:] == ".json"]

    def table(self, role: str) -> Table:
        """Return the first table with a role."""
        return next(table for table in self.tables.values() if table.role == role)

    def live_in(self, key: str) -> list[str]:
        """Return the names of the tables whose current state lists the key."""
        return [table.name for table in self.tables.values() if key in self.claims(table)]

    def history_in(self, key: str) -> list[str]:
        """Return the names of Delta tables whose older states still list the key."""
        keeping = [t for t in self.tables.values() if t.kind == "delta" and t.role not in EXPIRES_AT_ONCE]
        return [table.name for table in keeping if key in self.log(table).removed]

    def guard_of(self, key: str) -> Guard | None:
        """Return the S3Guard table of the key."""
        guard = self.owner(key).guard
        return self.guards[guard] if guard else None

    def entry(self, key: str) -> Row | None:
        """Return the live S3Guard row of a file."""
        guard = self.guard_of(key)
        return guard.live_file(key) if guard else None

    @cached_property
    def vacuumed(self) -> dict[str, str]:
        """Return by key the version id of delete markers of data files."""
        pages = self.s3.get_paginator("list_object_versions").paginate(Bucket=self.bucket)
        markers = [marker for page in pages for marker in page.get("DeleteMarkers", [])]
        return {m["Key"]: m["VersionId"] for m in markers if m["IsLatest"] and m["Key"].endswith(".parquet")}

    # selection

    def live_files(self, *roles: str, kinds: tuple[str, ...] = ("delta", "file_list")) -> list[str]:
        """Return free data files that tables of these roles list now (no roles: any except SACRIFICED)."""
        tables = [
            table for table in self.tables.values() if table.kind in kinds and self._has_role(table, roles)
        ]
        return sorted({key for table in tables for key in self.claims(table) if self.is_free(key)})

    def plain_files(self, *roles: str) -> list[str]:
        """Return free objects of tables without a manifest."""
        places = [
            f"{t.location}/" for t in self.tables.values() if t.kind == "none" and self._has_role(t, roles)
        ]
        keys = (key for key in self.objects if key.startswith(tuple(places)) and not key.endswith("/"))
        return sorted(key for key in keys if self.is_free(key))

    def is_free(self, key: str) -> bool:
        """Return whether the object exists, and neither the key nor its folder is taken."""
        return key in self.objects and key not in self.taken and folder_of(key) not in self.taken

    def pick(self, candidates: list[str]) -> str:
        """Return one of the candidates, and mark it as taken."""
        if not candidates:
            raise NoVictim
        chosen = self.rng.choice(candidates)
        self.taken.add(chosen)
        return chosen

    def whole_table(self, role: str) -> Table:
        """Return a free table of a role, and mark it as taken."""
        tables = [table.name for table in self.tables.values() if table.role == role]
        return self.tables[self.pick([name for name in tables if name not in self.taken])]

    def pick_folder(self, files: list[str]) -> str:
        """Return a folder (with slash) of these files that no act has used, and mark it as taken."""
        used = {folder_of(key) for key in self.taken}
        return self.pick(sorted({folder_of(key) for key in files} - used))

    def new_key(self, folder: str, name: str = "part-{}-c000.snappy.parquet") -> str:
        """Return a new key in a folder (with slash), and mark it as taken."""
        key = folder + name.format(f"{self.rng.getrandbits(64):016x}")
        self.taken.add(key)
        return key

    # changes

    def put(self, key: str, body: bytes, **options: Any) -> None:
        """Write an object, new or not."""
        super().put(key, body, **options)
        self._lists.clear()

    def commit(self, table: Table, *actions: dict[str, Any], again: bool = False) -> str:
        """Append a commit to the table's log, or overwrite its last one (`again`); return its key."""
        version = self.log(table).version + (not again)
        text = "".join(json.dumps(action) + "\n" for action in actions)
        key = f"{table.location}/_delta_log/{version:020}.json"
        self.put(key, text.encode())
        self._logs.pop(table.name)
        return key

    def remove(self, table: Table, key: str) -> None:
        """Remove a file from the table by a commit, and leave it in storage, as every DELETE does."""
        add = self.log(table).live[key]
        now = int(datetime.now(UTC).timestamp() * 1000)
        remove = {
            "path": add["path"],
            "deletionTimestamp": now,
            "dataChange": True,
            "extendedFileMetadata": True,
        }
        copied = {"partitionValues": add["partitionValues"], "size": add["size"]}
        self.commit(table, {"remove": remove | copied})

    def report_all_but(self, table: Table) -> None:
        """Configure inventory reports with prefixes for all tables except this one."""
        parent = table.location.partition("/")[0] + "/"
        places = [each.location for each in self.tables.values() if each != table]
        folders = {place if place.startswith(parent) else place.partition("/")[0] for place in places}
        self.report_for(sorted(folders), self.inventories)

    # expectations

    def content(self, kind: str, key: str, recoverable: str | None = None) -> list[Expected]:
        """Return the finding for every table that lists the key."""
        return [Expected("content", kind, name, key, recoverable=recoverable) for name in self.live_in(key)]

    def entry_differs(self, key: str) -> list[Expected]:
        """Return the finding for an S3Guard row whose object was rewritten, if they differ."""
        row, now = self.entry(key), self.objects[key]
        if row is None:
            return []
        pairs = [
            ("file_length", "N", str(now["size"])),
            ("etag", "S", now["etag"]),
            ("version_id", "S", now["version"]),
        ]
        stale = any(name in row and row[name][kind] != value for name, kind, value in pairs)
        return [Expected("metastore", "metastore_stale", self.owner(key).name, key)] if stale else []

    def entry_unneeded(self, key: str) -> list[Expected]:
        """Return the finding for an S3Guard row whose object was deleted: a phantom, unless a table lists it now."""
        unneeded = self.entry(key) is not None and not self.live_in(key)
        return [Expected("metastore", "phantom", self.owner(key).name, key)] if unneeded else []

    def _replay(self, table: Table) -> DeltaLog:
        commits = [(int(key.rpartition("/")[2][:20]), self.body(key).decode()) for key in self.commits(table)]
        log = replay(table.location, commits)
        if table.role == "cleaned":
            log.live |= {
                key: {}
                for key in self.below(table, "month=")
                if key not in log.removed and key not in log.live
            }
        return log

    def _read_lists(self, prefix: str) -> dict[str, dict[str, Any]]:
        names = sorted(key for key in self.objects if key.startswith(prefix))
        lines = (json.loads(line) for name in names for line in self.body(name).decode().splitlines())
        return fold_lists(self.bucket, lines)

    def _has_role(self, table: Table, roles: tuple[str, ...]) -> bool:
        return table.role in roles if roles else table.role not in SACRIFICED


def fold_lists(bucket: str, lines: Iterable[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return by key the line that lists it, from a writer's lines in order; retired files are not listed."""
    live: dict[str, dict[str, Any]] = {}
    for line in lines:
        key = line.get("path", "").removeprefix(f"s3://{bucket}/")
        if line.get("action") == "replace":
            live = {each: other for each, other in live.items() if not each.startswith(line["scope"])}
        if line.get("action") == "remove":
            live.pop(key, None)
        elif key:
            live[key] = line
    return live


def folder_of(key: str) -> str:
    """Return the folder of a key, with its slash."""
    return key.rstrip("/").rpartition("/")[0] + "/"
