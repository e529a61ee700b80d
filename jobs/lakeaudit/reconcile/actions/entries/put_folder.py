"""Enter a folder with keys in the metadata store, or mark the listing of its entry as incomplete."""

from lakeaudit.reconcile.actions.entries.entry_action import EntryAction
from lakeaudit.reconcile.protocol import Case, Proposal, Target
from lakeaudit.reconcile.steps import Step
from lakeaudit.reconcile.stores.entries import (
    EntryState,
    folder_item,
    is_live_folder,
    is_trusted_listing,
    precondition_of,
    why_no_parents,
)
from lakeaudit.reconcile.stores.entry_store import PLAN, Item


class PutFolder(EntryAction):
    """See the module."""

    name = "put_folder"

    def propose(self, case: Case, state: EntryState) -> Proposal | str:  # noqa: ARG002 - the protocol's
        """Propose if storage has keys below it and no object with its name."""
        if state.current is not None:
            return "storage has an object there"
        if not state.keys_below:
            return "storage has nothing below it"
        why = why_no_parents(state)
        if why is not None:
            return why
        writes = not is_live_folder(state.item) or (not state.unsound and is_trusted_listing(state.item))
        if not writes and not state.unsound:
            return "its entry agrees with the folder in storage"
        return Proposal(precondition_of(state) | {"writes": writes}, "the keys below it in storage")

    def item(self, step: Step, target: Target) -> Item:
        """Return the entry of a folder whose listing is not marked as complete."""
        seen = step.precondition
        new = folder_item((seen["place"][0], seen["place"][1]), step.plan_id, target.now)
        if not is_live_folder(seen["item"]):
            return new
        return {**seen["item"], "is_authoritative": new["is_authoritative"], PLAN: new[PLAN]}
