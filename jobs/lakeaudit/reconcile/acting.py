"""One act with its check: act, look at the key by version id right after, and put back at once what lies wrong.

An ETag is not an identity: another job may write equal bytes between the look and the request, whose condition then
holds for the newer object. So the version that an act covered has to be the version that was looked at.
"""

from dataclasses import dataclass, replace
from datetime import datetime

from botocore.exceptions import ClientError

from lakeaudit.reconcile.journal import (
    APPLIED,
    CHANGED,
    FAILED,
    KEPT,
    NOT_SAFE,
    STARTED,
    UNDOING,
    UNDONE,
    Done,
)
from lakeaudit.reconcile.protocol import ChecksVersions, Sight, State, Trace, Undo
from lakeaudit.reconcile.registry import ACTIONS
from lakeaudit.reconcile.run import REFUSALS, NotSeen, Run, place_of, refusal, state_of
from lakeaudit.reconcile.steps import Step
from lakeaudit.runtime.aws_failures import is_condition_refused

_PUT_BACK = "something else was written there at the same time: what the step wrote was removed again"


@dataclass(frozen=True)
class Acted:
    """The response to an act: the version that it wrote, or the refusal; `at`: when it began."""

    at: datetime
    written: str | None = None
    error: Exception | None = None
    undoing: bool = False

    @property
    def trace(self) -> Trace | None:
        """What identifies that which the act wrote; None: the store wrote nothing."""
        if isinstance(self.error, ClientError) and is_condition_refused(self.error):
            sent_again = self.error.response.get("ResponseMetadata", {}).get("RetryAttempts") != 0
            return Trace(None, self.at, self.undoing) if sent_again else None
        return Trace(self.written, self.at, self.undoing)


def started(step: Step, at: datetime, written: str | None = None, error: str | None = None) -> Done:
    """The record of a step whose act begins now; a later run needs no plan file to finish it."""
    return Done(STARTED, error, {"kind": step.kind, "written": written}, at)


def act(run: Run, step: Step) -> Acted:
    """Act while the lease is held. Raises Busy: another run may hold it."""
    run.still_ours()
    at = run.clock()
    try:
        return Acted(at, ACTIONS[step.action].act(step, run.target(step)))
    except REFUSALS as error:
        return Acted(at, error=error)


def check(run: Run, sight: Sight, step: Step, acted: Acted) -> Done:
    """Look again: the key decides what was done, whatever the response was.

    A request that the client sent again after its answer was lost meets its own effect, and its condition fails.
    """
    failed = None if acted.error is None else refusal(acted.error)
    if failed is not None and failed.status == NOT_SAFE:
        return replace(failed, at=run.clock())
    state = state_of(sight, step)
    if isinstance(state, NotSeen):
        return started(step, acted.at, acted.written, state.why)
    undo = ACTIONS[step.action].outcome(step, state, acted.written)
    if undo is not None:
        return Done(APPLIED, undo=undo, at=run.clock(), is_ours=failed is None)
    if (version := misplaced(step, state, acted.trace)) is not None:
        return _removed(run, step, version, CHANGED, started(step, acted.at, acted.written))
    return replace(failed or Done(CHANGED, "something else was done to it"), at=run.clock())


def take_back(run: Run, sight: Sight, step: Step, undo: Undo) -> Done:
    """Take back what a step did, and look again: undone, kept, failed, or still `undoing`. Raises Busy."""
    run.still_ours()
    action, at = ACTIONS[step.action], run.clock()
    try:
        acted = Acted(at, action.take_back(undo, run.target(step)), undoing=True)
    except REFUSALS as error:
        acted = Acted(at, error=error, undoing=True)
    state = state_of(sight, step)
    if isinstance(state, NotSeen):
        return Done(UNDOING, state.why, undo, at)
    if action.is_undone(step, undo, state):
        return Done(UNDONE, undo=undo, at=run.clock())
    if (version := misplaced(step, state, acted.trace)) is not None:
        return _removed(run, step, version, KEPT, Done(UNDOING, undo=undo, at=at))
    failed = Done(FAILED, "the store did not do it") if acted.error is None else refusal(acted.error)
    failed = replace(failed, undo=undo)
    return failed if failed.status == FAILED else replace(failed, status=KEPT, at=run.clock())


def misplaced(step: Step, state: State, trace: Trace | None) -> str | None:
    """The version id that a step wrote over another version than it looked at."""
    action = ACTIONS[step.action]
    return action.misplaced(step, state, trace) if trace and isinstance(action, ChecksVersions) else None


def remove_misplaced(run: Run, step: Step, version_id: str, before: Done) -> Done:
    """Remove what a killed run left over another version than it looked at; `before` where the store refuses."""
    return _removed(run, step, version_id, KEPT if before.status == UNDOING else CHANGED, before)


def _removed(run: Run, step: Step, version_id: str, status: str, before: Done) -> Done:
    run.still_ours()
    target, (bucket, key) = run.target(step), place_of(step)
    try:
        target.s3.delete_object(Bucket=bucket, Key=key, VersionId=version_id)
    except REFUSALS as error:
        return replace(before, error=f"version {version_id} has to be removed: {refusal(error).error}")
    undo = before.undo if status == KEPT else None
    return Done(status, _PUT_BACK, undo, run.clock(), put_back=run.clock())
