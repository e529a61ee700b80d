"""Take the entry of a file out of the metadata store that storage does not have and no table asks for.

The item is removed and no tombstone put in its place: a tombstone would hide what somebody writes there by another way.
"""

from lakeaudit.reconcile.entries import EntryState, is_live_file, precondition_of
from lakeaudit.reconcile.entry_action import EntryAction
from lakeaudit.reconcile.need import UNLISTED, Need
from lakeaudit.reconcile.protocol import Case, Proposal, Target, Undo
from lakeaudit.reconcile.steps import Step


class RemoveEntry(EntryAction):
    """See the module."""

    name = "remove_entry"
    undo = "put the item back, only while there is none"

    def need(self, step: Step) -> Need:  # noqa: ARG002 - the protocol's
        """No table lists the file: of a lost one the entry may be all that is known."""
        return UNLISTED

    def propose(self, case: Case, state: EntryState) -> Proposal | str:  # noqa: ARG002 - the protocol's
        """Where a file is entered, and storage has neither it nor keys below it."""
        if not is_live_file(state.item):
            return "the store has no entry of a file there"
        if state.current is not None:
            return "storage has the file"
        if state.keys_below:
            return "storage has keys below it"
        return Proposal(
            precondition_of(state) | {"above": [], "writes": True}, "storage, which has no object there"
        )

    def still_holds(self, step: Step, state: EntryState) -> bool:
        """The same entry of no object."""
        seen = step.precondition
        return state.item == seen["item"] and state.current is None and not state.keys_below

    def item(self, step: Step, target: Target) -> None:
        """None."""

    def outcome(self, step: Step, state: EntryState, written: str | None) -> Undo | None:  # noqa: ARG002 - the protocol's
        """There is no entry."""
        if state.item is not None:
            return None
        return {"plan": step.plan_id, "before": step.precondition["item"], "after": None, "above": []}
