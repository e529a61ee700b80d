"""Writers that work on a table during a repair: between any two requests of ours one of them may act.

Everything follows from a seed: requests are made one after the other, and the writers choose by one generator.
"""

import json
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from botocore.client import BaseClient

from lakeaudit.reconcile.execution import run as reconcile_run
from lakeaudit.reconcile.registry import ACTIONS
from tests.builders.backdate import backdate
from tests.builders.delta_lake import add, metadata, protocol, remove
from tests.builders.shop import Shop

FOLDER = "warehouse/orders"
WRITES = ("PutObject", "CopyObject", "DeleteObject")
OLD = timedelta(days=2)
SCHEMA = '{"type":"struct","fields":[{"name":"a","type":"long","nullable":true,"metadata":{}}]}'


@dataclass
class Writers:
    """A table as its writers know it.

    Attributes:
        live: by file the bytes that the newest state lists.
        kept: files whose object somebody but us may rely on: current bytes by file.
        removed: files that a writer deleted, vacuumed or abandoned, and at which tick.
        touched: files that a writer did anything about while we were at work.
    """

    shop: Shop
    chance: random.Random
    live: dict[str, bytes] = field(default_factory=dict)
    stored: dict[str, bytes] = field(default_factory=dict)
    removed: dict[str, int] = field(default_factory=dict)
    touched: set[str] = field(default_factory=set)
    done: Counter[str] = field(default_factory=Counter)
    tick: int = 0
    acted_at: int = 0
    acts: Counter[str] = field(default_factory=Counter)
    _version: int = 0
    _busy: bool = False

    def key(self, file: str) -> str:
        return f"{FOLDER}/{file}"

    # --- before we come -------------------------------------------------------------------------------------

    def create(self, files: int) -> None:
        """A table of so many files in a bucket that keeps versions, two days old."""
        names = [f"part-{number:03}.parquet" for number in range(files)]
        for name in names:
            self._put(name, self._body())
        self.live = dict(self.stored)
        self._commit(protocol(), metadata(schema=SCHEMA), *(self._add(name) for name in names))
        then = datetime.now(UTC) - OLD
        backdate(self.shop.bucket, f"{FOLDER}/_delta_log/{0:020}.json", then + timedelta(minutes=1))
        for name in names:
            backdate(self.shop.bucket, self.key(name), then)

    def lose(self, file: str, *, markers: int) -> None:
        """Nobody's doing, as far as anybody knows: the table lists it, storage has it not."""
        for _ in range(markers):
            self.shop.s3.delete_object(Bucket=self.shop.bucket, Key=self.key(file))
        del self.stored[file]

    def leave(self, file: str) -> None:
        """A file of a job that died: no table lists it."""
        self._put(file, self._body())
        backdate(self.shop.bucket, self.key(file), datetime.now(UTC) - OLD)

    # --- while we are at work -------------------------------------------------------------------------------

    @contextmanager
    def at_work(self, how_often: float) -> Iterator[None]:
        """Between any two requests, with this probability; before every request that changes something, more often."""
        call: Any = vars(BaseClient)["_make_api_call"]

        def watched(client: Any, operation: str, given: dict[str, Any]) -> Any:
            if not self._busy:
                self._interrupt(operation, given, how_often)
            return call(client, operation, given)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(BaseClient, "_make_api_call", watched)
            patch.setattr(reconcile_run, "THREADS", 1)
            for action in {type(each) for each in ACTIONS.values()}:
                patch.setattr(action, "act", self._with_count(action.act))
            yield

    def _with_count(self, act: Any) -> Any:
        def act_and_count(action: Any, step: Any, target: Any) -> Any:
            self.acts[step.action_id] += 1
            try:
                return act(action, step, target)
            finally:
                self.acted_at = self.tick

        return act_and_count

    def _interrupt(self, operation: str, given: dict[str, Any], how_often: float) -> None:
        self._busy = True
        self.tick += 1
        try:
            file = str(given.get("Key", "")).removeprefix(f"{FOLDER}/")
            if operation in WRITES and "/" not in file and self.chance.random() < 4 * how_often:
                self._do(self.chance.choice((self.give_up, self.overwrite, self.commit_late)), file)
            elif self.chance.random() < how_often:
                acts = (
                    self.append,
                    self.compact,
                    self.vacuum,
                    self.give_up,
                    self.overwrite,
                    self.delete,
                    self.commit_late,
                )
                known = sorted({*self.live, *self.stored, *self.removed})
                self._do(self.chance.choice(acts), self.chance.choice(known))
        finally:
            self._busy = False

    def _do(self, act: Any, file: str) -> None:
        if act(file):
            self.done[act.__name__] += 1

    def append(self, _file: str) -> bool:
        """A job that writes a file and commits it."""
        name = f"new-{self.tick:04}.parquet"
        self._put(name, self._body())
        self.live[name] = self.stored[name]
        self._commit(self._add(name))
        return True

    def compact(self, _file: str) -> bool:
        """Two files become one."""
        old = [name for name in sorted(self.live) if name in self.stored][:2]
        if len(old) < 2:
            return False
        name = f"compact-{self.tick:04}.parquet"
        self._put(name, b"".join(self.stored[each] for each in old))
        self.live[name] = self.stored[name]
        self._commit(self._add(name), *(self._removed(each) for each in old))
        return True

    def vacuum(self, _file: str) -> bool:
        """Delete removed files that still exist, as a vacuum does."""
        left = [name for name in self.removed if name in self.stored and name not in self.live]
        for name in left:
            self._delete(name)
        return bool(left)

    def give_up(self, file: str) -> bool:
        """A commit that removes a file, lost or not."""
        if file not in self.live:
            return False
        self._commit(self._removed(file))
        return True

    def overwrite(self, file: str) -> bool:
        """Act as a job that runs again: write the same name and commit it again."""
        if file not in self.live and file not in self.removed:
            return False
        self._put(file, self._body())
        self.live[file] = self.stored[file]
        self.removed.pop(file, None)
        self._commit(self._add(file))
        return True

    def delete(self, file: str) -> bool:
        """By hand, of a file that the table lists: a loss of their own."""
        if file not in self.stored or file not in self.live:
            return False
        self._delete(file)
        return True

    def commit_late(self, file: str) -> bool:
        """Act as a job that resumes after days and commits its old files."""
        if file in self.live or file in self.removed or file not in self.stored:
            return False
        if not self._is_there(file):
            return False
        self.live[file] = self.stored[file]
        self.touched.add(file)
        self._commit(self._add(file))
        return True

    # --- afterwards -----------------------------------------------------------------------------------------

    def lost_files(self) -> list[str]:
        """Return live files that a writer stored and that only our requests can have removed or changed."""
        return [name for name in self.live if name in self.stored and self._now(name) != self.stored[name]]

    def came_back(self) -> list[str]:
        """Return files that the table removed before our last act and that exist although no writer stored them."""
        return [
            name
            for name, tick in self.removed.items()
            if tick <= self.acted_at
            and name not in self.live
            and name not in self.stored
            and self._is_there(name)
        ]

    def _is_there(self, file: str) -> bool:
        return self._now(file) is not None

    def _now(self, file: str) -> bytes | None:
        listed = self.shop.s3.list_objects_v2(Bucket=self.shop.bucket, Prefix=self.key(file)).get(
            "Contents", []
        )
        if not listed:
            return None
        return self.shop.s3.get_object(Bucket=self.shop.bucket, Key=self.key(file))["Body"].read()

    def _body(self) -> bytes:
        """Return equal bytes each time: all versions of a file have one ETag and differ only in their version id."""
        return b"the rows of a job that runs again"

    def _put(self, file: str, body: bytes) -> None:
        self.shop.s3.put_object(Bucket=self.shop.bucket, Key=self.key(file), Body=body)
        self.stored[file] = body
        self.touched.add(file)

    def _delete(self, file: str) -> None:
        self.shop.s3.delete_object(Bucket=self.shop.bucket, Key=self.key(file))
        self.stored.pop(file, None)
        self.touched.add(file)

    def _add(self, file: str) -> dict[str, Any]:
        return add(file, size=len(self.live[file]))

    def _removed(self, file: str) -> dict[str, Any]:
        del self.live[file]
        self.removed[file] = self.tick
        self.touched.add(file)
        return remove(file, removed=datetime.now(UTC))

    def _commit(self, *actions: dict[str, Any]) -> None:
        key = f"{FOLDER}/_delta_log/{self._version:020}.json"
        body = "".join(json.dumps(action) + "\n" for action in actions)
        self.shop.s3.put_object(Bucket=self.shop.bucket, Key=key, Body=body.encode(), IfNoneMatch="*")
        self._version += 1
