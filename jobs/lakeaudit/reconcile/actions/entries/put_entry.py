"""Write a file's entry in the metadata store as storage has the file; it may replace a tombstone or a wrong entry."""

from datetime import UTC, datetime

from lakeaudit.evidence.storage.object_versions import ObjectVersion
from lakeaudit.reconcile.actions.entries.entry_action import EntryAction
from lakeaudit.reconcile.protocol import Case, Proposal, Target
from lakeaudit.reconcile.steps import Step
from lakeaudit.reconcile.stores.entries import (
    EntryState,
    agrees,
    file_item,
    is_live_file,
    precondition_of,
    why_no_parents,
)
from lakeaudit.reconcile.stores.entry_store import Item


class PutEntry(EntryAction):
    """See the module."""

    name = "put_entry"

    def propose(self, case: Case, state: EntryState) -> Proposal | str:
        """Propose if storage has an object, and its entry differs or a folder above is missing."""
        if state.current is None:
            return "storage has no object there"
        if state.keys_below:
            return "storage has an object there and keys below it"
        why = why_no_parents(state) or _why_a_witness(case, state)
        if why is not None:
            return why
        writes = state.item is None or not agrees(state.item, state.current)
        if not writes and not state.unsound:
            return "its entry agrees with the file in storage"
        return Proposal(precondition_of(state) | {"writes": writes}, "size, ETag and time in storage")

    def item(self, step: Step, target: Target) -> Item:
        """Return the entry of the planned object."""
        seen = step.precondition
        modified = datetime.fromtimestamp(seen["object"]["modified_at"] / 1000, UTC).replace(tzinfo=None)
        version = ObjectVersion(
            seen["object"]["version_id"], modified, size=seen["object"]["size"], etag=seen["object"]["etag"]
        )
        return file_item(
            (seen["place"][0], seen["place"][1]), version, seen["item"], step.plan_id, target.now
        )


def _why_a_witness(case: Case, state: EntryState) -> str | None:
    """Return why the entry stays: if it contradicts the object, it may be the only record of the writer's file."""
    claimed, current = case.restore_target.claimed, state.current
    if current is None or not is_live_file(state.item) or agrees(state.item or {}, current):
        return None
    if not claimed.fits(current.size) or claimed.etag not in (None, current.etag):
        return "the object is not the one that its writer recorded: repair the object first"
    if claimed.etag is None and claimed.until is not None and current.modified_at > claimed.until:
        return "the object was overwritten since its table lists it: its entry may be the only record of the old one"
    return None
