"""Enter a folder in the metadata store that storage has keys in, or say that its listing there is not complete."""

from lakeaudit.reconcile.entries import (
    EntryState,
    folder_item,
    is_live_folder,
    is_trusted_listing,
    precondition_of,
    why_no_parents,
)
from lakeaudit.reconcile.entry_action import EntryAction
from lakeaudit.reconcile.entry_store import PLAN, Item
from lakeaudit.reconcile.protocol import Case, Proposal, Target
from lakeaudit.reconcile.steps import Step


class PutFolder(EntryAction):
    """See the module."""

    name = "put_folder"

    def propose(self, case: Case, state: EntryState) -> Proposal | str:  # noqa: ARG002 - the protocol's
        """Where storage has keys below and no object there."""
        if state.current is not None:
            return "storage has an object there"
        if not state.keys_below:
            return "storage has nothing below it"
        why = why_no_parents(state)
        if why is not None:
            return why
        writes = not is_live_folder(state.item) or (not state.unsound and is_trusted_listing(state.item))
        if not writes and not state.unsound:
            return "its entry is as storage has the folder"
        return Proposal(precondition_of(state) | {"writes": writes}, "keys that storage has below it")

    def item(self, step: Step, target: Target) -> Item:
        """A folder, whose listing nobody may take for complete."""
        seen = step.precondition
        wanted = folder_item((seen["place"][0], seen["place"][1]), step.plan_id, target.now)
        if not is_live_folder(seen["item"]):
            return wanted
        return {**seen["item"], "is_authoritative": wanted["is_authoritative"], PLAN: wanted[PLAN]}
