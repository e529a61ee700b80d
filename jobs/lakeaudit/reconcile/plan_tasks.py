"""A large plan, made by tasks: each plans its share with clients of its own, and writes its rows to a file.

The shares and the rows lie beside the results while the plan is made, so that tasks reach both wherever they run.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime

from botocore.exceptions import BotoCoreError, ClientError

from lakeaudit.config import Lake, Table
from lakeaudit.errors import SourceError
from lakeaudit.evidence.files import put_bytes, read_bytes, remove_file
from lakeaudit.evidence.protocol import Engine
from lakeaudit.keys import Location
from lakeaudit.reconcile.key_state import KeyReader
from lakeaudit.reconcile.lost_content import NOTHING_LOST, LostContent
from lakeaudit.reconcile.plan_file import Lines
from lakeaudit.reconcile.plan_shares import contents, shares_in
from lakeaudit.reconcile.planning import Planner
from lakeaudit.reconcile.protocol import Sight
from lakeaudit.reconcile.totals import Totals
from lakeaudit.results.read import Results, RowFilter
from lakeaudit.results.write_errors import refuse
from lakeaudit.runtime.aws import Clients
from lakeaudit.runtime.threads import Pacer

STEPS = 100_000
"""Open discrepancies from which on a plan is made by tasks: starting Spark costs what planning some thousands does."""
_WEIGHT = 4096
"""About how many bytes stand for a step, for an engine that asks how much there is to do."""


@dataclass(frozen=True)
class Desk:
    """Where shares and rows of one plan lie while it is made. Plain data, which travels to tasks."""

    place: Location
    clients: Clients

    def put(self, name: str, content: bytes) -> None:
        """Raises CannotPublish."""
        place = self.place.join(name)
        try:
            put_bytes(self.clients, place, content)
        except (OSError, ClientError, BotoCoreError) as error:
            refuse(place, [str(error)], error)

    def take(self, name: str) -> bytes:
        """Raises SourceError: it cannot be read, or is not there."""
        place = self.place.join(name)
        content = read_bytes(self.clients, place)
        if content is None:
            raise SourceError(
                place.uri, "is not there", "keep `results` where all tasks reach it, or plan again"
            )
        return content

    def clear(self, names: Sequence[str]) -> None:
        """What stays is in nobody's way."""
        with suppress(OSError, ClientError, BotoCoreError):
            for name in names:
                remove_file(self.clients, self.place.join(name))


def planned_by_tasks(
    planner: Planner, results: Results, wanted: RowFilter, engine: Engine
) -> Iterator[Lines]:
    """The rows that the planner's `steps` would be, in the same order; those of one share in memory at a time.

    Raises:
        CannotAudit: the ledger cannot be read.
        CannotPublish: nothing can be written beside the results.
    """
    place = results.place.join("_reconcile", "plans", f"{planner.plan_id}.shares")
    desk = Desk(place, results.clients)
    names: list[str] = []
    try:
        steps = 0
        for content, n in contents(planner.shares(results, wanted)):
            names.append(f"{len(names):06}")
            desk.put(_share(names[-1]), content)
            steps += n
        rate = planner.lake.settings.confirm.rate / engine.parallelism
        known = (planner.lake, planner.plan_id, tuple(planner.allow), planner.now)
        task = _Task(*known, dict(planner.first_audits), planner.sight.clients, desk, rate)
        task = replace(task, found=planner.found, losing=planner.losing, lost_files=planner.lost_files)
        task = replace(task, lost_content=planner.lost_content)
        totals = engine.map(task, names, steps * _WEIGHT)
        for name, each in zip(names, totals, strict=True):
            yield Lines(desk.take(_rows(name)), each)
    finally:
        desk.clear([file(name) for name in names for file in (_share, _rows)])


@dataclass(frozen=True)
class _Task:
    """Plans the share of a name, and tells what its steps add up to. Plain data, which travels to tasks."""

    lake: Lake
    plan_id: str
    allow: Collection[str]
    now: datetime
    first_audits: Mapping[str, datetime]
    clients: Clients
    desk: Desk
    rate: float
    found: Sequence[Table] = ()
    losing: Mapping[str, str] = field(default_factory=dict)
    lost_files: Mapping[str, Sequence[str]] = field(default_factory=dict)
    lost_content: LostContent = NOTHING_LOST

    def __call__(self, name: str) -> Totals:
        keys = KeyReader(self.clients, Pacer(self.rate))
        sight = Sight(self.lake, self.clients, keys, self.plan_id)
        planner = Planner(
            self.lake,
            self.plan_id,
            self.allow,
            self.now,
            sight,
            self.first_audits,
            self.found,
            self.losing,
            self.lost_files,
            self.lost_content,
        )
        lines = Lines.of(planner.steps_of(shares_in(self.desk.take(_share(name)))))
        self.desk.put(_rows(name), lines.text)
        return lines.totals


def _share(name: str) -> str:
    return f"{name}.arrow"


def _rows(name: str) -> str:
    return f"{name}.jsonl"
