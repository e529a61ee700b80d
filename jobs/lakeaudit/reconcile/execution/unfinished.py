"""Finish the steps that a killed run began, before the next run does anything else, even after the plan has expired.

The record names the steps that a run began; the state of the keys shows which were done. A version over an unexpected
one is removed, a removed file that a table lists now is restored, and steps that were not done are open again. No plan
file is needed.
"""

from collections.abc import Callable
from dataclasses import replace

from lakeaudit.reconcile.execution.acting import misplaced, remove_misplaced, take_back
from lakeaudit.reconcile.execution.apply import Batch
from lakeaudit.reconcile.execution.journal import (
    APPLIED,
    FAILED,
    KEPT,
    STARTED,
    UNDOING,
    UNDONE,
    WAITING,
    Journal,
    StepResult,
    interrupted_plans,
    unfinished_batches,
)
from lakeaudit.reconcile.execution.run import Run, Unreadable, state_of
from lakeaudit.reconcile.protocol import State, StateReader, WriteIdentity
from lakeaudit.reconcile.registry import ACTIONS
from lakeaudit.reconcile.steps import Step
from lakeaudit.results.read import Results


def has_unfinished(results: Results) -> bool:
    """Return whether a killed run left unfinished steps. Raises CannotAudit, SourceError."""
    return bool(interrupted_plans(results) or unfinished_batches(results))


def finish(results: Results, run_of: Callable[[Journal], Run]) -> None:
    """Finish the steps of killed runs; a step whose state cannot be read stays begun. The caller holds the lease.

    Raises:
        CannotPublish, CannotAudit, SourceError: the record cannot be written or read.
        Busy: another run may write to the results now.
    """
    for plan_id in interrupted_plans(results):
        with Journal(results, plan_id).recording():
            pass
    for plan_id, numbers in unfinished_batches(results).items():
        with Journal(results, plan_id).recording() as journal:
            run = run_of(journal)
            for number in numbers:
                _finish_batch(run, number)


def _finish_batch(run: Run, number: int) -> None:
    run.still_ours()
    steps, done, reader = run.journal.steps(number), run.journal.batch(number), run.reader()
    begun = [step for step in steps if done[step.action_id].status in (STARTED, UNDOING)]
    done |= run.each(begun, lambda step: _finish_step(run, reader, step, done[step.action_id]))
    run.journal.put_batch(number, steps, done)
    applied = [step for step in begun if done[step.action_id].status == APPLIED]
    if applied:
        batch = Batch(run, run.references_of(applied), number, steps, is_recorded=True)
        run.journal.put_batch(number, steps, done | batch.put_back(reader, applied, done))


def _finish_step(run: Run, reader: StateReader, step: Step, before: StepResult) -> StepResult:
    state, known = state_of(reader, step), before.undo or {}
    if isinstance(state, Unreadable):
        return before
    undoing = before.status == UNDOING
    result = _undo_result(run, step, before, state) if undoing else _act_result(run, step, before, state)
    if result is not None:
        return result
    identity = WriteIdentity(None if undoing else known.get("written"), before.at, undoing)
    if (version := misplaced(step, state, identity)) is not None:
        return remove_misplaced(run, step, version, before)
    if not undoing:
        return StepResult(WAITING)
    if not ACTIONS[step.action].may_undo(step, known, state):
        return StepResult(KEPT, "the key is not as the step left it", known, run.clock())
    back = take_back(run, reader, step, known)
    return replace(back, status=UNDOING) if back.status == FAILED else back


def _act_result(run: Run, step: Step, before: StepResult, state: State) -> StepResult | None:
    undo = ACTIONS[step.action].outcome(step, state, (before.undo or {}).get("written"))
    return None if undo is None else StepResult(APPLIED, undo=undo, at=run.clock(), is_ours=False)


def _undo_result(run: Run, step: Step, before: StepResult, state: State) -> StepResult | None:
    undo = before.undo
    if undo is None or not ACTIONS[step.action].is_undone(step, undo, state):
        return None
    return StepResult(UNDONE, undo=undo, at=run.clock())
