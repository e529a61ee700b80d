"""Define the run of apply and undo: its access to the lake, its limits, and its counts."""

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
from lakeaudit.reconcile.execution.journal import CHANGED, FAILED, NOT_SAFE, Journal, StepResult
from lakeaudit.reconcile.key_state import KeyReader, Unclear
from lakeaudit.reconcile.plans.lost_content import NOTHING_LOST, LostContent
from lakeaudit.reconcile.protocol import CannotActSafely, ConcurrentChange, State, StateReader, Target
from lakeaudit.reconcile.registry import ACTIONS
from lakeaudit.reconcile.steps import Step
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.connections.aws_failures import explain, is_condition_refused
from lakeaudit.runtime.threads import Pacer

THREADS = 8


@dataclass(frozen=True)
class Bounds:
    """`limit` is the most steps to begin, None: all; `failures` refusals end the run; `rate` is requests a second."""

    limit: int | None = None
    failures: int = 20
    rate: float = 500


@dataclass
class Tally:
    """Counts of steps by status; `begun` and `failed` count only steps that this run began itself."""

    bounds: Bounds
    counts: Counter[str] = field(default_factory=Counter)
    begun: int = 0
    failed: int = 0
    _counting: Lock = field(default_factory=Lock)

    def add(self, done: Mapping[str, StepResult]) -> None:
        """Count the steps of a batch."""
        self.counts.update(each.status for each in done.values())

    @property
    def left(self) -> int | None:
        """Return how many more steps may begin; None: any number."""
        return None if self.bounds.limit is None else self.bounds.limit - self.begun

    @property
    def has_failed_too_often(self) -> bool:
        """Return whether the store has refused so many steps that the run ends."""
        return self.failed >= self.bounds.failures

    @property
    def is_over(self) -> bool:
        """Return whether no further step may begin."""
        return self.has_failed_too_often or (self.left is not None and self.left <= 0)

    def count_failure(self, done: StepResult) -> StepResult:
        """Count a result that the store refused, and return it. Safe to call from several threads."""
        if done.status == FAILED:
            with self._counting:
                self.failed += 1
        return done


@dataclass(frozen=True)
class Run:
    """One apply or undo.

    Attributes:
        references: returns the reader of references for files and tables (None: all tables).
        still_ours: raises if another run may write to the results now; called before every batch.
        clock: time for `done_at`, and for times that an action writes.
        losing: by table the kind of a lost or contradictory state: no file of it is hidden, moved or removed.
        lost_content: lost live files, whose bytes an unused file may contain.
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

    def reader(self) -> StateReader:
        """Return a reader of states for one batch."""
        return StateReader(
            self.lake, self.clients, KeyReader(self.clients, Pacer(self.bounds.rate)), self.plan_id
        )

    def references_of(self, steps: Sequence[Step]) -> References:
        """Return the references to the files of these steps; from all tables if a step depends on all of them."""
        dependent = [
            step for step in steps if ACTIONS[step.action].manifest_precondition(step).needs_manifests
        ]
        own = all(ACTIONS[step.action].manifest_precondition(step).own_table for step in dependent)
        tables = {str(step.table_name) for step in dependent} if own else None
        return self.references({place_of(step) for step in dependent}, tables)

    def target(self, step: Step) -> Target:
        """Return the target of a step."""
        return Target(self.lake, self.clients, *place_of(step), self.forms, self.clock(), self.still_ours)

    def each(self, steps: Sequence[Step], what: Callable[[Step], StepResult]) -> dict[str, StepResult]:
        """Run a function for some steps, a few at a time; return the results by action_id.

        An exception is raised after all running steps have ended: no step acts after the lease is released.
        """
        pool = ThreadPoolExecutor(THREADS)
        try:
            done = list(pool.map(what, steps))
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
        return {step.action_id: each for step, each in zip(steps, done, strict=True)}


def in_order(steps: Sequence[Step]) -> list[list[Step]]:
    """Return the steps without a predecessor, then those that follow one of them; only the first list may be empty."""
    first = [step for step in steps if step.follows is None]
    then = [step for step in steps if step.follows is not None]
    return [first, then] if first and then else [first or then]


def place_of(step: Step) -> Key:
    """Return the bucket and key of a step."""
    return str(step.bucket), str(step.key)


@dataclass(frozen=True)
class Unreadable:
    """The state could not be read; `why` is the reason."""

    why: str


def state_of(reader: StateReader, step: Step) -> State | Unreadable:
    """Read the current state for a step's action."""
    try:
        return ACTIONS[step.action].look(reader, *place_of(step))
    except Unclear as error:
        return Unreadable(str(error))


def refusal(error: Exception) -> StepResult:
    """Return the result of a step whose request failed without an effect."""
    if isinstance(error, CannotActSafely):
        return StepResult(NOT_SAFE, str(error))
    if isinstance(error, SourceError):
        return StepResult(FAILED, error.what)
    if isinstance(error, ConcurrentChange) or (
        isinstance(error, ClientError) and is_condition_refused(error)
    ):
        return StepResult(CHANGED, "another job wrote there at the same time")
    return StepResult(FAILED, explain(error).what)


REFUSALS = (CannotActSafely, ConcurrentChange, SourceError, ClientError, BotoCoreError)
