"""Apply a plan: read the tables and the keys anew, record, act, read again, record; a batch at a time.

Killed anywhere it goes on where it stopped: of a batch that says `started` the keys themselves tell what was done.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

from lakeaudit.evidence.references import UNKNOWN as UNKNOWN_TABLE
from lakeaudit.evidence.references import Reference, References, Said
from lakeaudit.reconcile.acting import act, check, started, take_back
from lakeaudit.reconcile.deleting_together import deleted_together
from lakeaudit.reconcile.four_yeses import may_be_in_commit
from lakeaudit.reconcile.journal import (
    APPLIED,
    CHANGED,
    MOVED_ON,
    SETTLED,
    STARTED,
    UNDOING,
    UNDONE,
    UNKNOWN,
    WAITING,
    Done,
)
from lakeaudit.reconcile.need import NOT_WANTED, WANTED
from lakeaudit.reconcile.plan_file import PlanFile
from lakeaudit.reconcile.protocol import Sight
from lakeaudit.reconcile.registry import ACTIONS, REMOVING
from lakeaudit.reconcile.run import NotSeen, Run, Tally, in_order, place_of, state_of
from lakeaudit.reconcile.steps import Step
from lakeaudit.runtime.progress import Progress

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
        for window in plan.windows():
            left = {
                number: steps for number, steps in window if not _is_settled(recorded.get(number, {}), steps)
            }
            references = run.references_of([step for steps in left.values() for step in steps])
            for number, steps in window:
                if tally.is_over:
                    return tally
                if number in left:
                    tally.add(Batch(run, references, number, steps, number in recorded).apply(tally))
                else:
                    tally.counts.update(recorded.get(number, {}))
                log.note(**{status.replace("_", " "): n for status, n in tally.counts.items()})
    return tally


def _is_settled(recorded: Mapping[str, int], steps: Sequence[Step]) -> bool:
    return sum(n for status, n in recorded.items() if status in SETTLED) == len(steps)


@dataclass(frozen=True)
class Batch:
    """Steps that are decided on, recorded and done together."""

    run: Run
    references: References
    number: int
    steps: Sequence[Step]
    is_recorded: bool

    def apply(self, tally: Tally) -> dict[str, Done]:
        """What became of each step; what follows another is done after it."""
        self.run.still_ours()
        before = self.run.journal.batch(self.number) if self.is_recorded else {}
        done = {step.action_id: before.get(step.action_id, _WAITING) for step in self.steps}
        for steps in in_order(self.steps):
            held = {step.action_id: each for step in steps if (each := self._not_tried(step, done))}
            done |= held
            left = [step for step in steps if done[step.action_id].status not in SETTLED]
            done = self._together([step for step in left if step.action_id not in held], done, tally)
        return done

    def _not_tried(self, step: Step, done: Mapping[str, Done]) -> Done | None:
        """What becomes of a step that follows one which did not do its part; None: it is to be tried."""
        if step.follows is None or done[step.action_id].status in SETTLED:
            return None
        first = done.get(step.follows) or self.run.journal.batch(self.number - 1).get(step.follows, _WAITING)
        if first.status == APPLIED:
            return None
        over = MOVED_ON if first.status == MOVED_ON else CHANGED
        return Done(over if first.status in SETTLED else WAITING, "the step before it was not done")

    def _together(self, begun: Sequence[Step], done: dict[str, Done], tally: Tally) -> dict[str, Done]:
        """Decide, record, act, look again, and record, of steps of which none follows another."""
        sight = self.run.sight()
        said = self._said(begun)
        decide = partial(_decide, self.run, sight, said=said)
        done = done | _within_limit(
            self.run.each(begun, lambda step: decide(step, done[step.action_id])), tally
        )
        to_do = [step for step in begun if _is_to_do(done[step.action_id])]
        tally.begun += len(to_do)
        self.run.journal.put_batch(self.number, self.steps, done)
        if to_do:
            self.run.still_ours()
            done |= self._acted(sight, to_do, tally)
        applied = [step for step in begun if done[step.action_id].status == APPLIED]
        if applied:
            done |= self.put_back(sight, applied, done)
        if applied or to_do:
            self.run.journal.put_batch(self.number, self.steps, done)
        return done

    def _acted(self, sight: Sight, steps: Sequence[Step], tally: Tally) -> dict[str, Done]:
        """Act: what one request may do for many together, and each of the others on its own."""
        if tally.has_failed_too_often:
            return dict.fromkeys((step.action_id for step in steps), _WAITING)
        together = deleted_together([(step, self.run.target(step)) for step in steps], self.run.forms)
        seen = partial(check, self.run, sight)
        first = [step for step in steps if step.action_id in together]
        done = self.run.each(first, lambda step: tally.counted(seen(step, together[step.action_id])))
        rest = [step for step in steps if step.action_id not in together]
        return done | self.run.each(rest, lambda step: _act_unless_failing(self.run, sight, step, tally))

    def _said(self, steps: Sequence[Step]) -> Said:
        asking = [step for step in steps if ACTIONS[step.action].need(step).asks_manifests]
        said = self.references.of([place_of(step) for step in asking]) if asking else {}
        named = {table.name for table in self.run.lake.tables}
        more = {
            place_of(step): [*said.get(place_of(step), ()), *self._doubts(step, named)] for step in asking
        }
        return {**said, **more}

    def _doubts(self, step: Step, named: Collection[str]) -> Iterator[Reference]:
        """What stops a step although no manifest says it; a plan that is finished may be older than the lake file."""
        table = str(step.table_name)
        if table not in named:
            yield Reference(table, "", UNKNOWN_TABLE, "the lake file does not name the table any more")
        written = step.precondition.get("modified_at") if step.action in REMOVING else None
        longest = self.references.longest.get(table) if written else None
        if written and (why := may_be_in_commit(datetime.fromisoformat(written), longest, self.run.clock())):
            yield Reference(table, "", UNKNOWN_TABLE, why)

    def put_back(self, sight: Sight, applied: Sequence[Step], done: Mapping[str, Done]) -> dict[str, Done]:
        """Read the tables again: what may not stay done by what they say now is taken back at once."""
        said = self._said(applied)
        unwanted = [step for step in applied if not _may_stay(step, said, done[step.action_id])]
        if not unwanted:
            return {}
        undoing = {step.action_id: _undoing(done[step.action_id], self.run) for step in unwanted}
        self.run.journal.put_batch(self.number, self.steps, {**done, **undoing})
        return self.run.each(
            unwanted, lambda step: _taken_back(self.run, sight, step, done[step.action_id], said)
        )


def _need(step: Step, said: Said) -> tuple[str, str]:
    return ACTIONS[step.action].need(step).met(step, said.get(place_of(step), ()))


def _may_stay(step: Step, said: Said, done: Done) -> bool:
    need = ACTIONS[step.action].need(step)
    return need.may_stay(step, said.get(place_of(step), ()), is_ours=done.is_ours)


def _within_limit(decided: Mapping[str, Done], tally: Tally) -> dict[str, Done]:
    """What is beyond the limit of this run waits."""
    left = tally.left
    if left is None:
        return dict(decided)
    begun = [action_id for action_id, each in decided.items() if _is_to_do(each)]
    return {**decided, **dict.fromkeys(begun[left:], _WAITING)}


def _act_unless_failing(run: Run, sight: Sight, step: Step, tally: Tally) -> Done:
    if tally.has_failed_too_often:
        return _WAITING
    return tally.counted(check(run, sight, step, act(run, step)))


def _decide(run: Run, sight: Sight, step: Step, before: Done, said: Said) -> Done:
    """By what manifests say now, and by what is there: `started` where it is to be done, else what became of it."""
    action = ACTIONS[step.action]
    state = state_of(sight, step)
    if isinstance(state, NotSeen):
        return replace(before, error=state.why) if before.status == STARTED else Done(UNKNOWN, state.why)
    if before.status == STARTED and (undo := action.outcome(step, state, _written(before))) is not None:
        return Done(APPLIED, undo=undo, at=run.clock(), is_ours=False)
    need, why = _need(step, said)
    if need == NOT_WANTED:
        return Done(MOVED_ON, why)
    if step.action in REMOVING and (lost := run.losing.get(str(step.table_name))):
        return Done(UNKNOWN, f"a state of its table is lost or contradicts itself ({lost})")
    if step.action in REMOVING and (held := run.lost_content.of_step(step)):
        return Done(UNKNOWN, held)
    if need != WANTED:
        return Done(UNKNOWN, why)
    if not action.still_holds(step, state):
        return Done(CHANGED, "it is not as it was when the plan was made")
    return started(step, run.clock())


def _written(before: Done) -> str | None:
    return (before.undo or {}).get("written")


def _is_to_do(done: Done) -> bool:
    """Whether a step was decided on just now; one that a killed run began, and nobody can look at, has an error."""
    return done.status == STARTED and done.error is None


def _undoing(done: Done, run: Run) -> Done:
    return done if done.undo is None else Done(UNDOING, undo=done.undo, at=run.clock())


def _taken_back(run: Run, sight: Sight, step: Step, done: Done, said: Said) -> Done:
    """What a step did, and may not stay so, is taken back where that is safe."""
    action, state = ACTIONS[step.action], state_of(sight, step)
    need, why = _need(step, said)
    if done.undo is not None and not isinstance(state, NotSeen) and action.may_undo(step, done.undo, state):
        back = take_back(run, sight, step, done.undo)
        if back.status == UNDOING:
            return back
        if back.status == UNDONE:
            status = MOVED_ON if need == NOT_WANTED else UNKNOWN
            return Done(status, f"{why}: it was taken back", done.undo, run.clock(), put_back=run.clock())
    return replace(done, error=f"{why}: `reconcile undo` takes it back")
