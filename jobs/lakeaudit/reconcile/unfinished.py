"""What a killed run began is finished before the next run does anything else, also after its plan has expired.

The record says which steps a run began; the keys say what was done. What lies over another version than the step looked
at is removed, what a table lists by now is put back, and what was not done is open again. No plan file is needed.
"""

from collections.abc import Callable
from dataclasses import replace

from lakeaudit.reconcile.acting import misplaced, remove_misplaced, take_back
from lakeaudit.reconcile.apply import Batch
from lakeaudit.reconcile.journal import (
    APPLIED,
    FAILED,
    KEPT,
    STARTED,
    UNDOING,
    UNDONE,
    WAITING,
    Done,
    Journal,
    begun_batches,
    left_by_killed,
)
from lakeaudit.reconcile.protocol import Sight, State, Trace
from lakeaudit.reconcile.registry import ACTIONS
from lakeaudit.reconcile.run import NotSeen, Run, state_of
from lakeaudit.reconcile.steps import Step
from lakeaudit.results.read import Results


def has_unfinished(results: Results) -> bool:
    """Whether a run was killed here and nobody has finished its work. Raises CannotAudit, SourceError."""
    return bool(left_by_killed(results) or begun_batches(results))


def finish(results: Results, run_of: Callable[[Journal], Run]) -> None:
    """Finish what killed runs began; what nobody can look at now stays begun. The caller holds the lease.

    Raises:
        CannotPublish, CannotAudit, SourceError: the record cannot be written or read.
        Busy: another may write to the results now.
    """
    for plan_id in left_by_killed(results):
        with Journal(results, plan_id).kept():
            pass
    for plan_id, numbers in begun_batches(results).items():
        with Journal(results, plan_id).kept() as journal:
            run = run_of(journal)
            for number in numbers:
                _finish_batch(run, number)


def _finish_batch(run: Run, number: int) -> None:
    run.still_ours()
    steps, done, sight = run.journal.steps(number), run.journal.batch(number), run.sight()
    begun = [step for step in steps if done[step.action_id].status in (STARTED, UNDOING)]
    done |= run.each(begun, lambda step: _finished(run, sight, step, done[step.action_id]))
    run.journal.put_batch(number, steps, done)
    applied = [step for step in begun if done[step.action_id].status == APPLIED]
    if applied:
        batch = Batch(run, run.references_of(applied), number, steps, is_recorded=True)
        run.journal.put_batch(number, steps, done | batch.put_back(sight, applied, done))


def _finished(run: Run, sight: Sight, step: Step, before: Done) -> Done:
    state, known = state_of(sight, step), before.undo or {}
    if isinstance(state, NotSeen):
        return before
    undoing = before.status == UNDOING
    ended = _undone(run, step, before, state) if undoing else _applied(run, step, before, state)
    if ended is not None:
        return ended
    trace = Trace(None if undoing else known.get("written"), before.at, undoing)
    if (version := misplaced(step, state, trace)) is not None:
        return remove_misplaced(run, step, version, before)
    if not undoing:
        return Done(WAITING)
    if not ACTIONS[step.action].may_undo(step, known, state):
        return Done(KEPT, "the key is not as the step left it", known, run.clock())
    back = take_back(run, sight, step, known)
    return replace(back, status=UNDOING) if back.status == FAILED else back


def _applied(run: Run, step: Step, before: Done, state: State) -> Done | None:
    undo = ACTIONS[step.action].outcome(step, state, (before.undo or {}).get("written"))
    return None if undo is None else Done(APPLIED, undo=undo, at=run.clock(), is_ours=False)


def _undone(run: Run, step: Step, before: Done, state: State) -> Done | None:
    undo = before.undo
    if undo is None or not ACTIONS[step.action].is_undone(step, undo, state):
        return None
    return Done(UNDONE, undo=undo, at=run.clock())
