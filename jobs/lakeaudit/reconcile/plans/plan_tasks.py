"""Make a large plan with tasks: each plans a share with its own clients, and writes its rows to a file.

The shares and the rows are in the results location while the plan is made, so that tasks can reach both.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime

from botocore.exceptions import BotoCoreError, ClientError

from lakeaudit.advice.next_steps import LAKE_FILE
from lakeaudit.config import Lake, Table
from lakeaudit.errors import SourceError
from lakeaudit.evidence.files import put_bytes, read_bytes, remove_file
from lakeaudit.evidence.protocol import Engine
from lakeaudit.keys import Location
from lakeaudit.reconcile.key_state import KeyReader
from lakeaudit.reconcile.plans.lost_content import NOTHING_LOST, LostContent
from lakeaudit.reconcile.plans.plan_file import Lines
from lakeaudit.reconcile.plans.plan_shares import contents, shares_in
from lakeaudit.reconcile.plans.planning import Planner
from lakeaudit.reconcile.plans.totals import Totals
from lakeaudit.reconcile.protocol import StateReader
from lakeaudit.results.read import Results, RowFilter
from lakeaudit.results.write_errors import refuse
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.threads import Pacer

STEPS = 100_000
"""Open discrepancies from which a plan is made by tasks: starting Spark takes as long as planning some thousands."""
_WEIGHT = 4096
"""Bytes per step in the estimate of work for the engine."""


@dataclass(frozen=True)
class ShareStore:
    """Stores shares and rows of one plan while it is made. It is sent to tasks."""

    place: Location
    clients: Clients

    def put(self, name: str, content: bytes) -> None:
        """Write a file. Raises CannotPublish."""
        place = self.place.join(name)
        try:
            put_bytes(self.clients, place, content)
        except (OSError, ClientError, BotoCoreError) as error:
            refuse(place, [str(error)], error)

    def take(self, name: str) -> bytes:
        """Read a file. Raises SourceError: it cannot be read, or does not exist."""
        place = self.place.join(name)
        content = read_bytes(self.clients, place)
        if content is None:
            raise SourceError(
                place.uri, "does not exist", "place `results` where all tasks can reach it, or plan again"
            )
        return content

    def clear(self, names: Sequence[str]) -> None:
        """Remove files; a file that cannot be removed does no harm."""
        with suppress(OSError, ClientError, BotoCoreError):
            for name in names:
                remove_file(self.clients, self.place.join(name))


def plan_by_tasks(
    planner: Planner, results: Results, row_filter: RowFilter, engine: Engine
) -> Iterator[Lines]:
    """Yield the rows of the planner's `steps` in the same order; the rows of one share are in memory at a time.

    Raises:
        CannotAudit: the ledger cannot be read.
        CannotPublish: the results location cannot be written.
    """
    place = results.place.join("_reconcile", "plans", f"{planner.plan_id}.shares")
    store = ShareStore(place, results.clients)
    names: list[str] = []
    try:
        steps = 0
        for content, n in contents(planner.shares(results, row_filter)):
            names.append(f"{len(names):06}")
            store.put(_share(names[-1]), content)
            steps += n
        rate = planner.lake.settings.confirm.rate / engine.parallelism
        known = (planner.lake, planner.plan_id, tuple(planner.allow), planner.now)
        task = _Task(*known, dict(planner.first_audits), planner.reader.clients, store, rate)
        task = replace(
            task, discovered=planner.discovered, losing=planner.losing, lost_files=planner.lost_files
        )
        task = replace(task, lost_content=planner.lost_content, lake_file=planner.lake_file)
        totals = engine.map(task, names, steps * _WEIGHT)
        for name, each in zip(names, totals, strict=True):
            yield Lines(store.take(_rows(name)), each)
    finally:
        store.clear([file(name) for name in names for file in (_share, _rows)])


@dataclass(frozen=True)
class _Task:
    """Plans the share with a name, and returns the totals of its steps. It is sent to tasks."""

    lake: Lake
    plan_id: str
    allow: Collection[str]
    now: datetime
    first_audits: Mapping[str, datetime]
    clients: Clients
    store: ShareStore
    rate: float
    discovered: Sequence[Table] = ()
    losing: Mapping[str, str] = field(default_factory=dict)
    lost_files: Mapping[str, Sequence[str]] = field(default_factory=dict)
    lost_content: LostContent = NOTHING_LOST
    lake_file: str = LAKE_FILE

    def __call__(self, name: str) -> Totals:
        keys = KeyReader(self.clients, Pacer(self.rate))
        reader = StateReader(self.lake, self.clients, keys, self.plan_id)
        planner = Planner(
            self.lake,
            self.plan_id,
            self.allow,
            self.now,
            reader,
            self.first_audits,
            self.discovered,
            self.losing,
            self.lost_files,
            self.lost_content,
            self.lake_file,
        )
        lines = Lines.of(planner.steps_of(shares_in(self.store.take(_share(name)))))
        self.store.put(_rows(name), lines.text)
        return lines.totals


def _share(name: str) -> str:
    return f"{name}.arrow"


def _rows(name: str) -> str:
    return f"{name}.jsonl"
