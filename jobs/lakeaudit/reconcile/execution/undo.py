"""Undo a plan: reverse its steps, the last one first, each only while the key is as the step left it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from lakeaudit.reconcile.execution.acting import take_back
from lakeaudit.reconcile.execution.journal import FAILED, KEPT, STARTED, TO_UNDO, UNDOING, UNDONE, StepResult
from lakeaudit.reconcile.execution.run import Run, Tally, Unreadable, in_order, state_of
from lakeaudit.reconcile.plans.plan_file import PlanFile
from lakeaudit.reconcile.protocol import StateReader
from lakeaudit.reconcile.registry import ACTIONS
from lakeaudit.reconcile.steps import Step
from lakeaudit.runtime.progress import Progress

_TO_DECIDE = (*TO_UNDO, FAILED)
"""Statuses of steps whose objects are read again."""


def undo_plan(plan: PlanFile, run: Run, progress: Progress) -> Tally:
    """Reverse the steps of a plan that were done; return their results.

    Raises:
        CannotPublish, CannotAudit: the record cannot be written or read; without it nothing is done.
        Busy: another run may write to the results now.
    """
    tally = Tally(run.bounds)
    recorded = run.journal.counts()
    with progress.stage("undo the plan") as log:
        for number, steps in plan.batches(backwards=True):
            if tally.is_over:
                break
            of_batch = recorded.get(number, {})
            if any(status in _TO_DECIDE for status in of_batch):
                tally.add(_undo_batch(run, number, steps, tally))
            else:
                tally.counts.update(of_batch)
            log.note(**{status.replace("_", " "): n for status, n in tally.counts.items()})
    return tally


def _undo_batch(run: Run, number: int, steps: Sequence[Step], tally: Tally) -> dict[str, StepResult]:
    run.still_ours()
    done = run.journal.batch(number)
    recorded = [step for step in steps if step.action_id in done]
    for together in reversed(in_order(recorded)):
        begun = [step for step in together if done[step.action_id].status in _TO_DECIDE]
        done = _undo_together(run, number, recorded, begun, done, tally)
    return done


def _undo_together(
    run: Run,
    number: int,
    recorded: Sequence[Step],
    begun: Sequence[Step],
    done: dict[str, StepResult],
    tally: Tally,
) -> dict[str, StepResult]:
    """Decide, record, reverse, and record, for steps of which none follows another."""
    reader = run.reader()
    done = done | run.each(begun, lambda step: _decide(run, reader, step, done[step.action_id]))
    to_do = [step for step in begun if _is_to_do(done[step.action_id])]
    run.journal.put_batch(number, recorded, _to_try_again(done))
    if to_do:
        run.still_ours()
        done |= run.each(to_do, lambda step: _take_back(run, reader, step, done[step.action_id]))
        failed = [step for step in to_do if done[step.action_id].status == FAILED]
        done |= run.each(
            failed,
            lambda step: tally.count_failure(_completed_by_another(run, reader, step, done[step.action_id])),
        )
        run.journal.put_batch(number, recorded, _to_try_again(done))
    return done


def _to_try_again(done: Mapping[str, StepResult]) -> dict[str, StepResult]:
    """Record steps whose undo failed as `undoing`, so that the next undo tries them again."""
    failed = {
        action_id: each for action_id, each in done.items() if each.status == FAILED and each.undo is not None
    }
    return {**done, **{action_id: replace(each, status=UNDOING) for action_id, each in failed.items()}}


def _is_to_do(done: StepResult) -> bool:
    """Return whether a step has to be reversed now; if its state cannot be read, the record has an error."""
    return done.status == UNDOING and done.error is None


def _decide(run: Run, reader: StateReader, step: Step, before: StepResult) -> StepResult:
    """Return `undoing` if the step has to be reversed, else its result."""
    action, state = ACTIONS[step.action], state_of(reader, step)
    if isinstance(state, Unreadable):
        return replace(before, error=state.why)
    undo = before.undo
    if before.status in (STARTED, FAILED):  # a store may complete a request that it seemed to refuse
        undo = action.outcome(step, state, (before.undo or {}).get("written"))
    if undo is None:
        return StepResult(UNDONE, "it was not done", at=run.clock())
    if action.is_undone(step, undo, state):
        return StepResult(UNDONE, undo=undo, at=run.clock())
    if not action.may_undo(step, undo, state):
        return StepResult(KEPT, "the key is not as the step left it", undo, run.clock())
    return StepResult(UNDOING, undo=undo, at=run.clock())


def _take_back(run: Run, reader: StateReader, step: Step, before: StepResult) -> StepResult:
    """Reverse a step and read the key again: its state is the result, whatever the response was."""
    return take_back(run, reader, step, before.undo or {})


def _completed_by_another(run: Run, reader: StateReader, step: Step, failed: StepResult) -> StepResult:
    """Read a key after all steps of the batch have ended: `undone` if one of them completed it, else the failure.

    Entries share folders. The step that removes the last entry of a folder removes the folder afterwards. A step that
    reads the folder in between takes its own undo for incomplete.
    """
    now = _decide(run, reader, step, failed)
    return now if now.status == UNDONE else failed
