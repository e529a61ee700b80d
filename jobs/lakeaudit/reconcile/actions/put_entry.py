"""Enter a file in the metadata store as storage has it: in place of nothing, a tombstone, or what is wrong of it."""

from datetime import UTC, datetime

from lakeaudit.evidence.storage.object_versions import ObjectVersion
from lakeaudit.reconcile.entries import (
    EntryState,
    file_item,
    is_live_file,
    precondition_of,
    says,
    why_no_parents,
)
from lakeaudit.reconcile.entry_action import EntryAction
from lakeaudit.reconcile.entry_store import Item
from lakeaudit.reconcile.protocol import Case, Proposal, Target
from lakeaudit.reconcile.steps import Step


class PutEntry(EntryAction):
    """See the module."""

    name = "put_entry"

    def propose(self, case: Case, state: EntryState) -> Proposal | str:
        """Where storage has an object, and its entry is not what storage says, or a folder above is not entered."""
        if state.current is None:
            return "storage has no object there"
        if state.keys_below:
            return "storage has an object there and keys below it"
        why = why_no_parents(state) or _why_a_witness(case, state)
        if why is not None:
            return why
        writes = state.item is None or not says(state.item, state.current)
        if not writes and not state.unsound:
            return "its entry is as storage has the file"
        return Proposal(precondition_of(state) | {"writes": writes}, "what storage has: size, ETag and time")

    def item(self, step: Step, target: Target) -> Item:
        """The entry of the object that was seen."""
        seen = step.precondition
        modified = datetime.fromtimestamp(seen["object"]["modified_at"] / 1000, UTC).replace(tzinfo=None)
        version = ObjectVersion(
            seen["object"]["version_id"], modified, size=seen["object"]["size"], etag=seen["object"]["etag"]
        )
        return file_item(
            (seen["place"][0], seen["place"][1]), version, seen["item"], step.plan_id, target.now
        )


def _why_a_witness(case: Case, state: EntryState) -> str | None:
    """An entry that contradicts the object may be the only one that knows what the table's writer wrote."""
    claimed, current = case.wanted.claimed, state.current
    if current is None or not is_live_file(state.item) or says(state.item or {}, current):
        return None
    if not claimed.fits(current.size) or claimed.etag not in (None, current.etag):
        return "the object is not what its writer recorded: mend the object first"
    if claimed.etag is None and claimed.until is not None and current.modified_at > claimed.until:
        return "the object was written again since its table lists it: its entry may be all that knows the old one"
    return None
