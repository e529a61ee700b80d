"""Apply a plan: read the tables and the keys anew, record, act, read again, record; a batch at a time.

Killed anywhere it goes on where it stopped: of a batch that says `started` the keys themselves tell what was done.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from lakeaudit.reconcile.journal import (
    APPLIED,
    CHANGED,
    MOVED_ON,
    NOT_SAFE,
    SETTLED,
    STARTED,
    UNKNOWN,
    WAITING,
    Done,
)
from lakeaudit.reconcile.key_state import KeyReader
from lakeaudit.reconcile.plan_file import PlanFile
from lakeaudit.reconcile.registry import ACTIONS
from lakeaudit.reconcile.run import REFUSALS, Run, Tally, refusal, state_of
from lakeaudit.reconcile.steps import Step
from lakeaudit.reconcile.still_listed import LISTED, NOT_LISTED, listing_of
from lakeaudit.runtime.progress import Progress

_TO_DO = Done(STARTED)
_WAITING = Done(WAITING)


def apply_plan(plan: PlanFile, run: Run, progress: Progress) -> Tally:
    """Do what is left to do of a plan; what became of it.

    Raises:
        CannotPublish, CannotAudit: its record cannot be written or read; nothing is done without it.
        Busy: another may write to the results now.
    """
    tally = Tally(run.bounds)
    recorded = run.journal.counts()
    with progress.stage("apply the plan") as log:
        for number, steps in plan.batches():
            if tally.is_over:
                break
            of_batch = recorded.get(number, {})
            if sum(n for status, n in of_batch.items() if status in SETTLED) == len(steps):
                tally.counts.update(of_batch)
            else:
                tally.add(_apply_batch(run, number, steps, tally))
            log.note(**{status.replace("_", " "): n for status, n in tally.counts.items()})
    return tally


def _apply_batch(run: Run, number: int, steps: Sequence[Step], tally: Tally) -> dict[str, Done]:
    run.still_ours()
    before = run.journal.batch(number)
    done = {step.action_id: before.get(step.action_id, _WAITING) for step in steps}
    begun = [step for step in steps if done[step.action_id].status not in SETTLED]
    keys = run.reader()
    decided = run.each(begun, lambda step: _decide(run, keys, step, done[step.action_id]))
    done |= _within_limit(decided, tally)
    to_do = [step for step in begun if done[step.action_id].status == STARTED]
    tally.begun += len(to_do)
    run.journal.put_batch(number, steps, done)
    if to_do:
        run.still_ours()
        done |= run.each(to_do, lambda step: _act_unless_failing(run, keys, step, tally))
        run.journal.put_batch(number, steps, done)
    return done


def _within_limit(decided: Mapping[str, Done], tally: Tally) -> dict[str, Done]:
    """What is beyond the limit of this run waits."""
    left = tally.left
    if left is None:
        return dict(decided)
    begun = [action_id for action_id, each in decided.items() if each.status == STARTED]
    return {**decided, **dict.fromkeys(begun[left:], _WAITING)}


def _act_unless_failing(run: Run, keys: KeyReader, step: Step, tally: Tally) -> Done:
    return _WAITING if tally.has_failed_too_often else tally.counted(_act(run, keys, step))


def _decide(run: Run, keys: KeyReader, step: Step, before: Done) -> Done:
    """By the table's newest state and the key's: `started` where it is to be done, else what became of it."""
    action = ACTIONS[step.action]
    state = state_of(keys, step)
    if isinstance(state, str):
        return before if before.status == STARTED else Done(UNKNOWN, state)
    if before.status == STARTED and (undo := action.outcome(step, state, None)) is not None:
        return _still_wanted(run, keys, step, Done(APPLIED, undo=undo, at=run.clock()))
    listed, why = listing_of(run.lake, run.clients, step)
    if listed == NOT_LISTED:
        return Done(MOVED_ON, "the table does not list the file any more")
    if listed != LISTED:
        return Done(UNKNOWN, why)
    if not action.still_holds(step, state):
        return Done(CHANGED, "the key is not as it was when the plan was made")
    return _TO_DO


def _act(run: Run, keys: KeyReader, step: Step) -> Done:
    """Act, and read again: what the key says now is what was done, whatever the answer was."""
    action, written, failed = ACTIONS[step.action], None, None
    try:
        written = action.act(step, run.target(step))
    except REFUSALS as error:
        failed = refusal(error)
    if failed is not None and failed.status in (NOT_SAFE, CHANGED):
        return replace(failed, at=run.clock())
    state = state_of(keys, step)
    if isinstance(state, str):
        return Done(STARTED, state)
    undo = action.outcome(step, state, written)
    if undo is None:
        return replace(failed or Done(CHANGED, "something else was done to the key"), at=run.clock())
    return _still_wanted(run, keys, step, Done(APPLIED, undo=undo, at=run.clock()))


def _still_wanted(run: Run, keys: KeyReader, step: Step, done: Done) -> Done:
    """A file that its table gave up in between does not come back: it is taken back at once, where that is safe."""
    if listing_of(run.lake, run.clients, step)[0] != NOT_LISTED or done.undo is None:
        return done
    action, state = ACTIONS[step.action], state_of(keys, step)
    try:
        if not isinstance(state, str) and action.may_undo(step, done.undo, state):
            action.take_back(done.undo, run.target(step))
            return Done(MOVED_ON, "the table gave the file up meanwhile: it was taken back", at=run.clock())
    except REFUSALS:
        pass
    return replace(done, error="the table gave the file up meanwhile: `reconcile undo` takes it back")
