"""Apply a plan batch by batch: read the tables and the keys, record, act, read again, record.

A run that was killed can continue: for a batch with the status `started`, the state of the keys shows what was done.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

from lakeaudit.evidence.references import UNKNOWN as UNKNOWN_TABLE
from lakeaudit.evidence.references import Reference, References, Said
from lakeaudit.reconcile.deletion_guards import may_be_in_commit
from lakeaudit.reconcile.execution.acting import act, check, started_record, take_back
from lakeaudit.reconcile.execution.batch_deletes import delete_in_batches
from lakeaudit.reconcile.execution.journal import (
    APPLIED,
    CHANGED,
    MOVED_ON,
    SETTLED,
    STARTED,
    UNDOING,
    UNDONE,
    UNKNOWN,
    WAITING,
    StepResult,
)
from lakeaudit.reconcile.execution.run import Run, Tally, Unreadable, in_order, place_of, state_of
from lakeaudit.reconcile.manifest_precondition import MET, NOT_MET
from lakeaudit.reconcile.plans.plan_file import PlanFile
from lakeaudit.reconcile.protocol import StateReader
from lakeaudit.reconcile.registry import ACTIONS, REMOVING
from lakeaudit.reconcile.steps import Step
from lakeaudit.runtime.progress import Progress

_WAITING = StepResult(WAITING)
_WRITTEN_BACK = "an earlier run reversed the step and so wrote the file again: make a new plan"


def apply_plan(plan: PlanFile, run: Run, progress: Progress) -> Tally:
    """Carry out the steps of a plan that are left; return their results.

    Raises:
        CannotPublish, CannotAudit: the record cannot be written or read; without it nothing is done.
        Busy: another run may write to the results now.
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
    """Steps that are decided on, recorded and carried out together."""

    run: Run
    references: References
    number: int
    steps: Sequence[Step]
    is_recorded: bool

    def apply(self, tally: Tally) -> dict[str, StepResult]:
        """Return the result of each step; a step that follows another is done after it."""
        self.run.still_ours()
        before = self.run.journal.batch(self.number) if self.is_recorded else {}
        done = {step.action_id: before.get(step.action_id, _WAITING) for step in self.steps}
        for steps in in_order(self.steps):
            skipped = {step.action_id: each for step in steps if (each := self._skip(step, done))}
            done |= skipped
            left = [step for step in steps if done[step.action_id].status not in SETTLED]
            done = self._apply_steps([step for step in left if step.action_id not in skipped], done, tally)
        return done

    def _skip(self, step: Step, done: Mapping[str, StepResult]) -> StepResult | None:
        """Return the result of a step whose predecessor was not applied; None: the step can be tried."""
        if step.follows is None or done[step.action_id].status in SETTLED:
            return None
        first = done.get(step.follows) or self.run.journal.batch(self.number - 1).get(step.follows, _WAITING)
        if first.status == APPLIED:
            return None
        over = MOVED_ON if first.status == MOVED_ON else CHANGED
        return StepResult(over if first.status in SETTLED else WAITING, "the step before it was not done")

    def _apply_steps(
        self, begun: Sequence[Step], done: dict[str, StepResult], tally: Tally
    ) -> dict[str, StepResult]:
        """Decide, record, act, read again, and record, for steps of which none follows another."""
        reader = self.run.reader()
        references = self._references(begun)
        decide = partial(_decide, self.run, reader, references=references)
        done = done | _within_limit(
            self.run.each(begun, lambda step: decide(step, done[step.action_id])), tally
        )
        to_do = [step for step in begun if _is_to_do(done[step.action_id])]
        tally.begun += len(to_do)
        self.run.journal.put_batch(self.number, self.steps, done)
        if to_do:
            self.run.still_ours()
            done |= self._act(reader, to_do, tally)
        applied = [step for step in begun if done[step.action_id].status == APPLIED]
        if applied:
            done |= self.put_back(reader, applied, done)
        if applied or to_do:
            self.run.journal.put_batch(self.number, self.steps, done)
        return done

    def _act(self, reader: StateReader, steps: Sequence[Step], tally: Tally) -> dict[str, StepResult]:
        """Act: in one request for steps that allow it, and one request for each of the others."""
        if tally.has_failed_too_often:
            return dict.fromkeys((step.action_id for step in steps), _WAITING)
        together = delete_in_batches([(step, self.run.target(step)) for step in steps], self.run.forms)
        verify = partial(check, self.run, reader)
        first = [step for step in steps if step.action_id in together]
        done = self.run.each(first, lambda step: tally.count_failure(verify(step, together[step.action_id])))
        rest = [step for step in steps if step.action_id not in together]
        return done | self.run.each(rest, lambda step: _act_unless_failing(self.run, reader, step, tally))

    def _references(self, steps: Sequence[Step]) -> Said:
        dependent = [
            step for step in steps if ACTIONS[step.action].manifest_precondition(step).needs_manifests
        ]
        references = self.references.of([place_of(step) for step in dependent]) if dependent else {}
        named = {table.name for table in self.run.lake.tables}
        more = {
            place_of(step): [*references.get(place_of(step), ()), *self._doubts(step, named)]
            for step in dependent
        }
        return {**references, **more}

    def _doubts(self, step: Step, named: Collection[str]) -> Iterator[Reference]:
        """Yield reasons besides manifests that stop a step; an unfinished plan may be older than the lake file."""
        table = str(step.table_name)
        if table not in named:
            yield Reference(table, "", UNKNOWN_TABLE, "the lake file no longer names the table")
        written = step.precondition.get("modified_at") if step.action in REMOVING else None
        longest = self.references.longest.get(table) if written else None
        if written and (why := may_be_in_commit(datetime.fromisoformat(written), longest, self.run.clock())):
            yield Reference(table, "", UNKNOWN_TABLE, why)

    def put_back(
        self, reader: StateReader, applied: Sequence[Step], done: Mapping[str, StepResult]
    ) -> dict[str, StepResult]:
        """Read the manifests again, and reverse at once the steps whose effect they no longer permit."""
        references = self._references(applied)
        unwanted = [step for step in applied if not _may_stay(step, references, done[step.action_id])]
        if not unwanted:
            return {}
        undoing = {step.action_id: _undoing(done[step.action_id], self.run) for step in unwanted}
        self.run.journal.put_batch(self.number, self.steps, {**done, **undoing})
        return self.run.each(
            unwanted, lambda step: _taken_back(self.run, reader, step, done[step.action_id], references)
        )


def _check_manifests(step: Step, references: Said) -> tuple[str, str]:
    return ACTIONS[step.action].manifest_precondition(step).check(step, references.get(place_of(step), ()))


def _may_stay(step: Step, references: Said, done: StepResult) -> bool:
    precondition = ACTIONS[step.action].manifest_precondition(step)
    return precondition.may_stay(step, references.get(place_of(step), ()), is_ours=done.is_ours)


def _within_limit(decided: Mapping[str, StepResult], tally: Tally) -> dict[str, StepResult]:
    """Let the steps beyond the limit of this run wait."""
    left = tally.left
    if left is None:
        return dict(decided)
    begun = [action_id for action_id, each in decided.items() if _is_to_do(each)]
    return {**decided, **dict.fromkeys(begun[left:], _WAITING)}


def _act_unless_failing(run: Run, reader: StateReader, step: Step, tally: Tally) -> StepResult:
    if tally.has_failed_too_often:
        return _WAITING
    return tally.count_failure(check(run, reader, step, act(run, step)))


def _decide(run: Run, reader: StateReader, step: Step, before: StepResult, references: Said) -> StepResult:
    """Decide by the current manifests and state: `started` if the step has to act, else its result."""
    action = ACTIONS[step.action]
    state = state_of(reader, step)
    if isinstance(state, Unreadable):
        return (
            replace(before, error=state.why) if before.status == STARTED else StepResult(UNKNOWN, state.why)
        )
    if (
        before.status == STARTED
        and (undo := action.outcome(step, state, _version_written(before))) is not None
    ):
        return StepResult(APPLIED, undo=undo, at=run.clock(), is_ours=False)
    met, why = _check_manifests(step, references)
    if met == NOT_MET:
        return StepResult(MOVED_ON, why)
    if step.action in REMOVING and (lost := run.losing.get(str(step.table_name))):
        return StepResult(UNKNOWN, f"a state of its table is lost or contradicts itself ({lost})")
    if step.action in REMOVING and (reason := run.lost_content.of_step(step)):
        return StepResult(UNKNOWN, reason)
    if met != MET:
        return StepResult(UNKNOWN, why)
    if not action.still_holds(step, state):
        was_reversed = before.status == UNKNOWN and before.undo is not None
        return StepResult(
            CHANGED, _WRITTEN_BACK if was_reversed else "it has changed since the plan was made"
        )
    return started_record(step, run.clock())


def _version_written(before: StepResult) -> str | None:
    return (before.undo or {}).get("written")


def _is_to_do(done: StepResult) -> bool:
    """Return whether a step has to act; a step of a killed run whose state cannot be read has an error."""
    return done.status == STARTED and done.error is None


def _undoing(done: StepResult, run: Run) -> StepResult:
    return done if done.undo is None else StepResult(UNDOING, undo=done.undo, at=run.clock())


def _taken_back(run: Run, reader: StateReader, step: Step, done: StepResult, references: Said) -> StepResult:
    """Reverse a step whose effect may not remain, if that is safe."""
    action, state = ACTIONS[step.action], state_of(reader, step)
    met, why = _check_manifests(step, references)
    if (
        done.undo is not None
        and not isinstance(state, Unreadable)
        and action.may_undo(step, done.undo, state)
    ):
        back = take_back(run, reader, step, done.undo)
        if back.status == UNDOING:
            return back
        if back.status == UNDONE:
            status = MOVED_ON if met == NOT_MET else UNKNOWN
            return StepResult(
                status, f"the step was reversed: {why}", done.undo, run.clock(), put_back=run.clock()
            )
    return replace(done, error=f"{why}: `reconcile undo` reverses the step")
