"""Carry out one step: act, read the key by version id immediately after, and remove a version in the wrong place.

An ETag is not an identity: if another job writes equal bytes between the read and the request, the condition holds for
the newer object. So the version that an act covered has to be the version that was read.
"""

from dataclasses import dataclass, replace
from datetime import datetime

from botocore.exceptions import ClientError

from lakeaudit.errors import SourceError
from lakeaudit.keys import uri_of
from lakeaudit.reconcile.execution.journal import (
    APPLIED,
    CHANGED,
    FAILED,
    KEPT,
    NOT_SAFE,
    STARTED,
    UNDOING,
    UNDONE,
    StepResult,
)
from lakeaudit.reconcile.execution.run import REFUSALS, Run, Unreadable, place_of, refusal, state_of
from lakeaudit.reconcile.protocol import (
    CannotActSafely,
    ChecksVersions,
    State,
    StateReader,
    Undo,
    WriteIdentity,
)
from lakeaudit.reconcile.registry import ACTIONS
from lakeaudit.reconcile.steps import Step
from lakeaudit.runtime.connections.aws_failures import is_condition_refused

_PUT_BACK = "another job wrote there at the same time: the version that the step wrote was removed again"


@dataclass(frozen=True)
class ActResponse:
    """The response to an act: the version that it wrote, or the error; `at`: when it began."""

    at: datetime
    written: str | None = None
    error: Exception | None = None
    undoing: bool = False

    @property
    def identity(self) -> WriteIdentity | None:
        """Return the identity of the version that the act wrote; None: the store wrote nothing."""
        if isinstance(self.error, ClientError) and is_condition_refused(self.error):
            sent_again = self.error.response.get("ResponseMetadata", {}).get("RetryAttempts") != 0
            return WriteIdentity(None, self.at, self.undoing) if sent_again else None
        return WriteIdentity(self.written, self.at, self.undoing)


def started_record(
    step: Step, at: datetime, written: str | None = None, error: str | None = None
) -> StepResult:
    """Return the record of a step that begins now; with it a later run can finish the step without the plan file."""
    return StepResult(STARTED, error, {"kind": step.kind, "written": written}, at)


def act(run: Run, step: Step) -> ActResponse:
    """Act while the lease is held. Raises Busy if another run may hold it."""
    run.still_ours()
    at = run.clock()
    try:
        return ActResponse(at, ACTIONS[step.action].act(step, run.target(step)))
    except REFUSALS as error:
        return ActResponse(at, error=_with_denial(run, step, error))


def _with_denial(run: Run, step: Step, error: Exception) -> Exception:
    """Return the error; no step is unsafe because of conditions that could not be tested in its bucket."""
    denied = run.forms.denied(str(step.bucket)) if isinstance(error, CannotActSafely) else None
    if denied is None:
        return error
    what = f"{error}, as far as its conditions could be tested: {denied}"
    return SourceError(
        uri_of(str(step.bucket), ""), what, "grant the rights of reconcile, see docs/deploy.md"
    )


def check(run: Run, reader: StateReader, step: Step, acted: ActResponse) -> StepResult:
    """Read the key again: its state decides whether the step was done, whatever the response was.

    If a response is lost, the client repeats the request; the condition of the second request then fails because of
    the first.
    """
    failed = None if acted.error is None else refusal(acted.error)
    if failed is not None and failed.status == NOT_SAFE:
        return replace(failed, at=run.clock())
    state = state_of(reader, step)
    if isinstance(state, Unreadable):
        return started_record(step, acted.at, acted.written, state.why)
    undo = ACTIONS[step.action].outcome(step, state, acted.written)
    if undo is not None:
        return StepResult(APPLIED, undo=undo, at=run.clock(), is_ours=failed is None)
    if (version := misplaced(step, state, acted.identity)) is not None:
        return _removed(run, step, version, CHANGED, started_record(step, acted.at, acted.written))
    return replace(failed or StepResult(CHANGED, "another job changed it"), at=run.clock())


def take_back(run: Run, reader: StateReader, step: Step, undo: Undo) -> StepResult:
    """Reverse a step and read the key again: undone, kept, failed, or still `undoing`. Raises Busy."""
    run.still_ours()
    action, at = ACTIONS[step.action], run.clock()
    try:
        acted = ActResponse(at, action.take_back(undo, run.target(step)), undoing=True)
    except REFUSALS as error:
        acted = ActResponse(at, error=_with_denial(run, step, error), undoing=True)
    state = state_of(reader, step)
    if isinstance(state, Unreadable):
        return StepResult(UNDOING, state.why, undo, at)
    if action.is_undone(step, undo, state):
        return StepResult(UNDONE, undo=undo, at=run.clock())
    if (version := misplaced(step, state, acted.identity)) is not None:
        return _removed(run, step, version, KEPT, StepResult(UNDOING, undo=undo, at=at))
    failed = StepResult(FAILED, "the request had no effect") if acted.error is None else refusal(acted.error)
    failed = replace(failed, undo=undo)
    return failed if failed.status == FAILED else replace(failed, status=KEPT, at=run.clock())


def misplaced(step: Step, state: State, identity: WriteIdentity | None) -> str | None:
    """Return the id of the version that a step wrote over another version than the one that it read."""
    action = ACTIONS[step.action]
    return (
        action.misplaced(step, state, identity) if identity and isinstance(action, ChecksVersions) else None
    )


def remove_misplaced(run: Run, step: Step, version_id: str, before: StepResult) -> StepResult:
    """Remove a version that a killed run wrote over an unexpected one; return `before` if the store refuses."""
    return _removed(run, step, version_id, KEPT if before.status == UNDOING else CHANGED, before)


def _removed(run: Run, step: Step, version_id: str, status: str, before: StepResult) -> StepResult:
    run.still_ours()
    target, (bucket, key) = run.target(step), place_of(step)
    try:
        target.s3.delete_object(Bucket=bucket, Key=key, VersionId=version_id)
    except REFUSALS as error:
        return replace(before, error=f"version {version_id} must be removed: {refusal(error).error}")
    undo = before.undo if status == KEPT else None
    return StepResult(status, _PUT_BACK, undo, run.clock(), put_back=run.clock())
