"""Take an item out of a table of EMRFS or s3mper: of a file that storage lacks and no table lists, or a wrong deletion.

No deletion is put in its place: it would hide what somebody writes there by another way. Without an item EMRFS lists
what storage has, so a deletion of a file that is there goes in the same way; `emrfs import` enters the file then.
"""

from typing import Any

from botocore.exceptions import ClientError

from lakeaudit.reconcile.entries import object_row
from lakeaudit.reconcile.entry_store import Place
from lakeaudit.reconcile.name_store import EMRFS, NameState, NameStore, name_of, names_of, proved
from lakeaudit.reconcile.need import NO_NEED, UNLISTED, Need
from lakeaudit.reconcile.protocol import Case, Proposal, Target, Undo
from lakeaudit.reconcile.steps import REVERSIBLE, Step
from lakeaudit.runtime.aws_failures import is_condition_refused

PHANTOM = "phantom"


class RemoveName:
    """See the module."""

    name = "remove_name"
    reversibility = REVERSIBLE
    undo = "put the same item back, only while there is none"
    risk = "low: items are removed only while they are as they were seen"

    look = staticmethod(name_of)

    def need(self, step: Step) -> Need:
        """Of a lost file the item may be all that is known: no table may list it."""
        return UNLISTED if step.kind == PHANTOM else NO_NEED

    def refuses(self, case: Case) -> str | None:
        """Where no such table says what readers see: other ways speak of other stores."""
        store = names_of(case.lake, case.row["bucket"], case.row["key"])
        return None if store is not None and (case.row["kind"] == PHANTOM or store.kind == EMRFS) else ""

    def propose(self, case: Case, state: NameState) -> Proposal | str:
        """Where an item is there, and storage says the opposite."""
        if state.item is None:
            return "the store has no item of it"
        if state.keys_below:
            return "storage has keys below it"
        wrong = state.is_deleted if case.row["kind"] == PHANTOM else not state.is_deleted
        if wrong or (state.current is None) is not (case.row["kind"] == PHANTOM):
            return "item and storage do not contradict each other any more"
        return Proposal(
            precondition_of(state),
            "storage, which has an object there" if state.current else "storage, which has none",
        )

    def still_holds(self, step: Step, state: NameState) -> bool:
        """The same item beside the same object, or none."""
        now = precondition_of(state)
        return not state.keys_below and now == {name: step.precondition[name] for name in now}

    def act(self, step: Step, target: Target) -> str | None:
        """Remove it as it was seen."""
        seen = step.precondition
        write(proved(target), _place(seen["place"]), seen["item"], None)
        return None

    def outcome(self, step: Step, state: NameState, written: str | None) -> Undo | None:  # noqa: ARG002 - the protocol's
        """There is none."""
        return (
            None
            if state.item is not None
            else {"place": list(state.place), "before": step.precondition["item"]}
        )

    def may_undo(self, step: Step, undo: Undo, state: NameState) -> bool:  # noqa: ARG002 - the protocol's
        """Nobody has written one since."""
        return state.item in (None, undo["before"])

    def take_back(self, undo: Undo, target: Target) -> None:
        """The same item again."""
        write(proved(target), _place(undo["place"]), None, undo["before"])

    def is_undone(self, step: Step, undo: Undo, state: NameState) -> bool:  # noqa: ARG002 - the protocol's
        """It is there."""
        return bool(state.item == undo["before"])


def precondition_of(state: NameState) -> dict[str, Any]:
    """What a step about an item is decided on."""
    seen = None if state.current is None else object_row(state.current)
    return {"store": state.store, "place": list(state.place), "item": state.item, "object": seen}


def write(store: NameStore, place: Place, seen: Any, wanted: Any) -> None:
    """Replace an item, unless another run of the step has done so."""
    try:
        store.replace(place, seen, wanted)
    except ClientError as error:
        if not is_condition_refused(error) or store.read(place) != wanted:
            raise


def _place(written: Any) -> Place:
    return written[0], written[1]
