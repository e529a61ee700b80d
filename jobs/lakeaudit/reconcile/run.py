"""What apply and undo share: how they reach the lake, how they keep to a rate, and when they stop."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from threading import Lock

from botocore.exceptions import BotoCoreError, ClientError

from lakeaudit.config import Lake
from lakeaudit.errors import SourceError
from lakeaudit.evidence.references import Key, References
from lakeaudit.reconcile.canary import Forms
from lakeaudit.reconcile.journal import CHANGED, FAILED, NOT_SAFE, Done, Journal
from lakeaudit.reconcile.key_state import KeyReader, Unclear
from lakeaudit.reconcile.lost_content import NOTHING_LOST, LostContent
from lakeaudit.reconcile.protocol import MetSomebody, NotProved, Sight, State, Target
from lakeaudit.reconcile.registry import ACTIONS
from lakeaudit.reconcile.steps import Step
from lakeaudit.runtime.aws import Clients
from lakeaudit.runtime.aws_failures import explain, is_condition_refused
from lakeaudit.runtime.threads import Pacer

THREADS = 8


@dataclass(frozen=True)
class Bounds:
    """At most `limit` steps are begun, None for all; `failures` refusals end the run; `rate` is requests a second."""

    limit: int | None = None
    failures: int = 20
    rate: float = 500


@dataclass
class Tally:
    """What became of the steps that this run looked at; `begun` and `failed` are of those that it began itself."""

    bounds: Bounds
    counts: Counter[str] = field(default_factory=Counter)
    begun: int = 0
    failed: int = 0
    _counting: Lock = field(default_factory=Lock)

    def add(self, done: Mapping[str, Done]) -> None:
        """Count the steps of a batch."""
        self.counts.update(each.status for each in done.values())

    @property
    def left(self) -> int | None:
        """How many steps may still be begun; None: any number."""
        return None if self.bounds.limit is None else self.bounds.limit - self.begun

    @property
    def has_failed_too_often(self) -> bool:
        """Whether the store refused so many steps that no other is tried."""
        return self.failed >= self.bounds.failures

    @property
    def is_over(self) -> bool:
        """Whether nothing more is begun."""
        return self.has_failed_too_often or (self.left is not None and self.left <= 0)

    def counted(self, done: Done) -> Done:
        """The same, counted where the store refused. Safe to call from several threads."""
        if done.status == FAILED:
            with self._counting:
                self.failed += 1
        return done


@dataclass(frozen=True)
class Run:
    """One apply or undo.

    Attributes:
        references: makes, of files and of tables (None: of all), what says whenever it is asked which files they list.
        still_ours: raises when another may write to the results now; asked before every batch.
        clock: for `done_at`, and for times that an action writes.
        losing: by table why nothing of it is hidden, moved or removed: a state of it is lost or contradicts itself.
        lost_content: live files that are lost, whose bytes a leftover may hold.
    """

    plan_id: str
    lake: Lake
    clients: Clients
    journal: Journal
    forms: Forms
    references: Callable[[Collection[Key], Collection[str] | None], References]
    bounds: Bounds
    still_ours: Callable[[], None]
    clock: Callable[[], datetime]
    losing: Mapping[str, str] = field(default_factory=dict)
    lost_content: LostContent = NOTHING_LOST

    def sight(self) -> Sight:
        """For one batch."""
        return Sight(self.lake, self.clients, KeyReader(self.clients, Pacer(self.bounds.rate)), self.plan_id)

    def references_of(self, steps: Sequence[Step]) -> References:
        """What manifests say of the files of these steps: those of all tables where any of them might have a say."""
        asking = [step for step in steps if ACTIONS[step.action].need(step).asks_manifests]
        own = all(ACTIONS[step.action].need(step).own_table for step in asking)
        tables = {str(step.table_name) for step in asking} if own else None
        return self.references({place_of(step) for step in asking}, tables)

    def target(self, step: Step) -> Target:
        """Where a step acts."""
        return Target(self.lake, self.clients, *place_of(step), self.forms, self.clock(), self.still_ours)

    def each(self, steps: Sequence[Step], what: Callable[[Step], Done]) -> dict[str, Done]:
        """What became of some steps, by action_id, a few at a time.

        A failure is raised once those that were begun have ended: nothing acts after the lease was given back.
        """
        pool = ThreadPoolExecutor(THREADS)
        try:
            done = list(pool.map(what, steps))
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
        return {step.action_id: each for step, each in zip(steps, done, strict=True)}


def in_order(steps: Sequence[Step]) -> list[list[Step]]:
    """Steps that follow none, then those that follow one of them; none is empty but the first."""
    first = [step for step in steps if step.follows is None]
    then = [step for step in steps if step.follows is not None]
    return [first, then] if first and then else [first or then]


def place_of(step: Step) -> Key:
    """The bucket and key that a step is about."""
    return str(step.bucket), str(step.key)


@dataclass(frozen=True)
class NotSeen:
    """Nobody could look: `why`."""

    why: str


def state_of(sight: Sight, step: Step) -> State | NotSeen:
    """What a step's action looks at, as it is now."""
    try:
        return ACTIONS[step.action].look(sight, *place_of(step))
    except Unclear as error:
        return NotSeen(str(error))


def refusal(error: Exception) -> Done:
    """What a request's failure means, once it is known that it had no effect."""
    if isinstance(error, NotProved):
        return Done(NOT_SAFE, str(error))
    if isinstance(error, SourceError):
        return Done(FAILED, error.what)
    if isinstance(error, MetSomebody) or (isinstance(error, ClientError) and is_condition_refused(error)):
        return Done(CHANGED, "something else was written there at the same time")
    return Done(FAILED, explain(error).what)


REFUSALS = (NotProved, MetSomebody, SourceError, ClientError, BotoCoreError)
