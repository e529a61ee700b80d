"""Undo a plan: the steps that were done, the last one first, each only while the key is as the step left it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from lakeaudit.reconcile.acting import take_back
from lakeaudit.reconcile.journal import FAILED, KEPT, STARTED, TO_UNDO, UNDOING, UNDONE, Done
from lakeaudit.reconcile.plan_file import PlanFile
from lakeaudit.reconcile.protocol import Sight
from lakeaudit.reconcile.registry import ACTIONS
from lakeaudit.reconcile.run import NotSeen, Run, Tally, in_order, state_of
from lakeaudit.reconcile.steps import Step
from lakeaudit.runtime.progress import Progress


def undo_plan(plan: PlanFile, run: Run, progress: Progress) -> Tally:
    """Take back what was done of a plan; what became of its steps.

    Raises:
        CannotPublish, CannotAudit: its record cannot be written or read; nothing is done without it.
        Busy: another may write to the results now.
    """
    tally = Tally(run.bounds)
    recorded = run.journal.counts()
    with progress.stage("undo the plan") as log:
        for number, steps in plan.batches(backwards=True):
            if tally.is_over:
                break
            of_batch = recorded.get(number, {})
            if any(status in TO_UNDO for status in of_batch):
                tally.add(_undo_batch(run, number, steps, tally))
            else:
                tally.counts.update(of_batch)
            log.note(**{status.replace("_", " "): n for status, n in tally.counts.items()})
    return tally


def _undo_batch(run: Run, number: int, steps: Sequence[Step], tally: Tally) -> dict[str, Done]:
    run.still_ours()
    done = run.journal.batch(number)
    recorded = [step for step in steps if step.action_id in done]
    for together in reversed(in_order(recorded)):
        begun = [step for step in together if done[step.action_id].status in TO_UNDO]
        done = _undo_together(run, number, recorded, begun, done, tally)
    return done


def _undo_together(
    run: Run,
    number: int,
    recorded: Sequence[Step],
    begun: Sequence[Step],
    done: dict[str, Done],
    tally: Tally,
) -> dict[str, Done]:
    """Decide, record, take back, and record, of steps of which none follows another."""
    sight = run.sight()
    done = done | run.each(begun, lambda step: _decide(run, sight, step, done[step.action_id]))
    to_do = [step for step in begun if _is_to_do(done[step.action_id])]
    run.journal.put_batch(number, recorded, _to_try_again(done))
    if to_do:
        run.still_ours()
        done |= run.each(
            to_do, lambda step: tally.counted(_take_back(run, sight, step, done[step.action_id]))
        )
        run.journal.put_batch(number, recorded, _to_try_again(done))
    return done


def _to_try_again(done: Mapping[str, Done]) -> dict[str, Done]:
    """The same; of what could not be taken back the record says that it is still to be."""
    failed = {action_id: each for action_id, each in done.items() if each.status == FAILED and each.undo}
    return {**done, **{action_id: replace(each, status=UNDOING) for action_id, each in failed.items()}}


def _is_to_do(done: Done) -> bool:
    """Whether it was decided on just now; where nobody can look the record has an error."""
    return done.status == UNDOING and done.error is None


def _decide(run: Run, sight: Sight, step: Step, before: Done) -> Done:
    """`undoing` where it is to be taken back, else what became of it."""
    action, state = ACTIONS[step.action], state_of(sight, step)
    if isinstance(state, NotSeen):
        return replace(before, error=state.why)
    undo = before.undo
    if before.status == STARTED:
        undo = action.outcome(step, state, (before.undo or {}).get("written"))
    if undo is None:
        return Done(UNDONE, "it was not done", at=run.clock())
    if action.is_undone(step, undo, state):
        return Done(UNDONE, undo=undo, at=run.clock())
    if not action.may_undo(step, undo, state):
        return Done(KEPT, "the key is not as the step left it", undo, run.clock())
    return Done(UNDOING, undo=undo, at=run.clock())


def _take_back(run: Run, sight: Sight, step: Step, before: Done) -> Done:
    """Take it back, and read again: what the key says now is what was done, whatever the answer was."""
    return take_back(run, sight, step, before.undo or {})
