"""Healthy histories of Hudi tables, written by hand as Hudi's writers leave them, in both layouts of the timeline."""

import io
import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.parquet as pq

from tests.builders.backdate import age_all, body_of, delete, present, put
from tests.builders.hudi import commit, instant_text, stat
from tests.builders.shop import Shop

PROPERTIES = "hoodie.table.version={version}\nhoodie.timeline.layout.version={layout}\n"
VERSIONS = {1: 6, 2: 8}
FOLDER = "d=1"


@dataclass
class Slice:
    """A base file of a file group."""

    group: str
    instant: str
    name: str
    size: int
    rows: tuple[int, ...]


@dataclass
class HudiHistory:
    """One copy-on-write table; `age` is how long ago its next instants begin."""

    shop: Shop
    name: str
    chance: random.Random
    numbers: Iterator[int]
    layout: int = 1
    age: timedelta = timedelta()
    slices: list[Slice] = field(default_factory=list)
    replaced: set[str] = field(default_factory=set)
    instants: dict[str, str] = field(default_factory=dict)
    last: str = ""
    doubted: bool = False
    dropped: bool = False
    done: list[str] = field(default_factory=list)

    @property
    def home(self) -> str:
        return f"warehouse/{self.name}"

    @property
    def timeline(self) -> str:
        return f"{self.home}/.hoodie" + ("" if self.layout == 1 else "/timeline")

    @property
    def entry(self) -> str:
        uri = f"s3://{self.shop.bucket}/{self.home}"
        return f"{{name: {self.name}, location: '{uri}', manifests: [{{kind: hudi}}]}}"

    @property
    def newest(self) -> dict[str, Slice]:
        """By file group the slice that readers read."""
        groups = {each.group: each for each in sorted(self.slices, key=lambda each: each.instant)}
        return {group: each for group, each in groups.items() if group not in self.replaced}

    @property
    def live(self) -> set[str]:
        return {self.key(each) for each in self.newest.values()}

    @property
    def acts(self) -> tuple[Callable[[], None], ...]:
        both = (
            *(self.insert, self.insert, self.upsert, self.upsert, self.upsert, self.fail, self.take_back),
            *(self.clean, self.overwrite, self.create_again, self.insert_nothing),
        )
        return (*both, self.archive) if self.layout == 2 else both

    def begin(self) -> None:
        """Create the table."""
        words = PROPERTIES.format(version=VERSIONS[self.layout], layout=self.layout)
        self.put(f"{self.home}/.hoodie/hoodie.properties", words)
        self.insert()

    def act(self) -> None:
        """One act, drawn at random."""
        chosen = self.chance.choice(self.acts)
        self.done.append(chosen.__name__)
        chosen()

    def rows(self) -> dict[str, list[int]]:
        """The rows of the newest slices, whose files are read."""
        found: list[int] = []
        for each in self.newest.values():
            body = self._read(self.key(each))
            found += pq.read_table(io.BytesIO(body))["amount"].to_pylist()
        return {"hudi": sorted(found)}

    def insert(self) -> None:
        """New file groups."""
        begin = self.start("commit")
        self.complete(begin, "commit", [self.write(f"g{next(self.numbers)}", begin)])

    def insert_nothing(self) -> None:
        begin = self.start("commit")
        self.complete(begin, "commit", [])

    def upsert(self) -> None:
        """A newer slice of one group."""
        groups = sorted(self.newest)
        if groups:
            begin = self.start("commit")
            self.complete(begin, "commit", [self.write(self.chance.choice(groups), begin)])

    def overwrite(self) -> None:
        """INSERT OVERWRITE replaces every group."""
        begin, before = self.start("replacecommit"), sorted(self.newest)
        written = self.write(f"g{next(self.numbers)}", begin)
        self.replaced |= set(before)
        self.complete(begin, "replacecommit", [written], replaced={FOLDER: before})

    def fail(self) -> None:
        """A write that fails, and is rolled back by the next writer."""
        begin = self.start("commit")
        written = self.write(f"g{next(self.numbers)}", begin)
        self.roll_back(begin, [written])

    def take_back(self) -> None:
        """The newest write is rolled back after it was completed."""
        if self.last not in self.instants or not self.instants[self.last].endswith(".commit"):
            return
        written = [each for each in self.slices if each.instant == self.last]
        self.slices = [each for each in self.slices if each.instant != self.last]
        self.remove(self.instants.pop(self.last))
        self.roll_back(self.last, written)

    def clean(self) -> None:
        """Slices that a newer one or a replacement stands for are removed, and the clean names them."""
        live = {each.name for each in self.newest.values()}
        old = [each for each in self.slices if each.name not in live]
        begin = self.start("clean")
        for each in old:
            self.remove(self.key(each))
        self.slices = [each for each in self.slices if each.name in live]
        folder = {
            "partitionPath": FOLDER,
            "successDeleteFiles": [each.name for each in old],
            "failedDeleteFiles": [],
        }
        self.finish(begin, "clean", json.dumps({"partitionMetadata": {FOLDER: folder}}))

    def archive(self) -> None:
        """All instants but the newest two move to the history of layout 2."""
        old = sorted(self.instants)[:-2]
        if not old:
            return
        history = f"{self.timeline}/history"
        listed = self._listed(f"{history}/manifest_")
        known = json.loads(self._read(listed[-1]))["files"] if listed else []
        rows = [
            {"instantTime": begin, "completionTime": self.instants[begin].rpartition("/")[2][18:35],
             "action": self.instants[begin].rpartition(".")[2], "metadata": self._read(self.instants[begin]),
             "plan": None, "version": 1}
            for begin in old
        ]  # fmt: skip
        out = io.BytesIO()
        pq.write_table(pa.Table.from_pylist(rows), out)
        name = f"{old[0]}_{old[-1]}_0.parquet"
        self.put(f"{history}/{name}", out.getvalue())
        files = [*known, {"fileName": name, "fileLen": len(out.getvalue())}]
        self.put(f"{history}/manifest_{len(listed) + 1}", json.dumps({"files": files}))
        self.put(f"{history}/_version_", str(len(listed) + 1))
        for begin in old:
            for key in self._listed(f"{self.timeline}/{begin}"):
                self.remove(key)
            del self.instants[begin]

    def create_again(self) -> None:
        """Drop the table with all its files, and create another one in its place.

        Hudi names instants by the local time of the writer. Before the first audit, the clock of the new writer is
        behind, so its instants are lower. After an audit that would be a doubt: a copy of another table looks alike.
        """
        age_all(self.shop.bucket, timedelta(seconds=2), f"{self.home}/")
        for key in self._listed(f"{self.home}/"):
            self.remove(key)
        self.slices, self.replaced, self.instants = [], set(), {}
        if self.age:
            self.age, self.last = self.age + timedelta(hours=1), ""
        self.begin()

    def write(self, group: str, begin: str) -> Slice:
        """A base file; the rows of an older slice of its group stay in it."""
        old = self.newest.get(group)
        rows = (*(old.rows if old else ()), next(self.numbers), next(self.numbers))
        out = io.BytesIO()
        pq.write_table(pa.table({"amount": pa.array(rows, pa.int64())}), out)
        name = f"{group}_0-1-2_{begin}.parquet"
        self.put(f"{self.home}/{FOLDER}/{name}", out.getvalue())
        return Slice(group, begin, name, len(out.getvalue()), rows)

    def start(self, action: str) -> str:
        """A new instant, which is requested and under way."""
        at = datetime.now(UTC) - self.age
        begin = str(max(int(instant_text(at)), int(self.last or 0) + 3))
        self.last = begin
        self.put(f"{self.timeline}/{begin}.{action}.requested")
        self.put(f"{self.timeline}/{self._under_way(begin, action)}")
        return begin

    def complete(
        self,
        begin: str,
        action: str,
        written: Sequence[Slice],
        replaced: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        """A write is completed."""
        before = {each.group: each.instant for each in sorted(self.slices, key=lambda each: each.instant)}
        stats = [
            stat(f"{FOLDER}/{each.name}", each.size, len(each.rows),
                 prevCommit=before.get(each.group, "null"), fileId=each.group)
            for each in written
        ]  # fmt: skip
        self.slices += written
        self.finish(begin, action, commit(*stats, replaced=replaced))

    def finish(self, begin: str, action: str, content: str) -> None:
        done = begin if self.layout == 1 else f"{begin}_{int(begin) + 1}"
        key = f"{self.timeline}/{done}.{action}"
        self.put(key, content)
        self.instants[begin] = key

    def roll_back(self, begin: str, written: Sequence[Slice]) -> None:
        """The files of a write go, then its instant, and the rollback names both."""
        action = "rollback"
        own = self.start(action)
        for each in written:
            self.remove(self.key(each))
        folder = {
            "partitionPath": FOLDER,
            "successDeleteFiles": [each.name for each in written],
            "failedDeleteFiles": [],
        }
        did = {"commitsRollback": [begin], "partitionMetadata": {FOLDER: folder}}
        for key in self._listed(f"{self.timeline}/{begin}"):
            self.remove(key)
        self.finish(own, action, json.dumps(did))

    def key(self, each: Slice) -> str:
        return f"{self.home}/{FOLDER}/{each.name}"

    def put(self, key: str, body: bytes | str = "") -> None:
        content = body.encode() if isinstance(body, str) else body
        put(self.shop.bucket, key, content)

    def remove(self, key: str) -> None:
        delete(self.shop.bucket, key)

    def _under_way(self, begin: str, action: str) -> str:
        return f"{begin}.inflight" if action == "commit" else f"{begin}.{action}.inflight"

    def _listed(self, prefix: str) -> list[str]:
        return present(self.shop.bucket, prefix)

    def _read(self, key: str) -> bytes:
        return body_of(self.shop.bucket, key)
