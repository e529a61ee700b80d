"""Remove the entry of a file from the metadata store, if storage does not have the file and no table lists it.

The item is not replaced by a tombstone, which would hide a file that another tool writes later.
"""

from lakeaudit.reconcile.actions.entries.entry_action import EntryAction
from lakeaudit.reconcile.manifest_precondition import UNLISTED, ManifestPrecondition
from lakeaudit.reconcile.protocol import Case, Proposal, Target, Undo
from lakeaudit.reconcile.steps import Step
from lakeaudit.reconcile.stores.entries import EntryState, is_live_file, precondition_of


class RemoveEntry(EntryAction):
    """See the module."""

    name = "remove_entry"
    undo = "restore the item, only while there is none"

    def manifest_precondition(self, step: Step) -> ManifestPrecondition:  # noqa: ARG002 - the protocol's
        """Require that no table lists the file: for a lost file the entry may be the only record."""
        return UNLISTED

    def propose(self, case: Case, state: EntryState) -> Proposal | str:  # noqa: ARG002 - the protocol's
        """Propose if there is an entry of a file, and storage has neither the file nor keys below it."""
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
        """Return whether the entry is unchanged, and storage still has no object."""
        seen = step.precondition
        return state.item == seen["item"] and state.current is None and not state.keys_below

    def item(self, step: Step, target: Target) -> None:
        """Return None: the entry is removed."""

    def outcome(self, step: Step, state: EntryState, written: str | None) -> Undo | None:  # noqa: ARG002 - the protocol's
        """Return the undo if there is no entry."""
        if state.item is not None:
            return None
        return {"plan": step.plan_id, "before": step.precondition["item"], "after": None, "above": []}
