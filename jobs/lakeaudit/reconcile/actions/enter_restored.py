"""Enter a file in the metadata store that a step before it in the same plan brings back, or puts right.

Without it the next audit would find a tombstone over the file, or no entry, or the entry of another version. Nothing is
entered before that step is done, and nothing but the object that it left.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from lakeaudit.evidence.storage.object_versions import ObjectVersion
from lakeaudit.keys import NULL_VERSION, Location
from lakeaudit.reconcile.copying import found
from lakeaudit.reconcile.entries import (
    EntryState,
    file_item,
    is_as_planned,
    is_live_file,
    precondition_of,
    says,
    why_no_parents,
)
from lakeaudit.reconcile.entry_action import EntryAction
from lakeaudit.reconcile.entry_store import Item
from lakeaudit.reconcile.matching import listed_for
from lakeaudit.reconcile.need import Need
from lakeaudit.reconcile.protocol import Case, NotProved, Proposal, Target
from lakeaudit.reconcile.steps import Step

_NEW = ""
"""In place of the id of a version that is not written yet."""


class EnterRestored(EntryAction):
    """See the module."""

    name = "enter_restored"

    def need(self, step: Step) -> Need:
        """As of the step before it: the table lists the file."""
        return listed_for(step)

    def propose(self, case: Case, state: EntryState) -> Proposal | str:
        """Where the entry, or a folder above it, would not be as storage has the file then."""
        before = case.after
        if before is None:
            return "no step brings the file back"
        left = before.precondition
        same = "version_id" if before.action == "remove_delete_marker" else None
        version = _version(left, left["version_id"] if same else _NEW, case.now)
        if why := why_no_parents(state) or _why_another(left, state, version):
            return why
        writes = state.item is None or not says(state.item, version)
        if not writes and not state.unsound:
            return "its entry is as the file will be"
        known = precondition_of(state) | {"object": {"size": version.size, "etag": version.etag}}
        return Proposal(
            {**known, "writes": writes, "follows": before.action_id},
            "the step before it, and what that leaves",
        )

    def still_holds(self, step: Step, state: EntryState) -> bool:
        """The file is there as it was to be, and its entry as it was."""
        seen, current = step.precondition, state.current
        is_back = current is not None and _is_wanted(seen["object"], current.size, current.etag)
        return is_back and is_as_planned({**seen, "object": state.object}, state, step.plan_id)

    def item(self, step: Step, target: Target) -> Item:
        """The entry of the object that is there now."""
        seen, head = step.precondition, found(target.s3, Location(target.bucket, target.key))
        if head is None or not _is_wanted(seen["object"], head.size, head.etag):
            raise NotProved("the file is not as the step before it left it")
        modified = head.modified_at.astimezone(UTC).replace(tzinfo=None)
        version = ObjectVersion(head.version_id or NULL_VERSION, modified, size=head.size, etag=head.etag)
        return file_item(
            (seen["place"][0], seen["place"][1]), version, seen["item"], step.plan_id, target.now
        )


def _version(left: Mapping[str, Any], version_id: str, now: datetime) -> ObjectVersion:
    return ObjectVersion(version_id, now.replace(tzinfo=None), size=left["size"], etag=left["etag"])


def _is_wanted(wanted: Mapping[str, Any], size: int, etag: str) -> bool:
    return (wanted["size"], wanted["etag"]) == (size, etag)


def _why_another(left: Mapping[str, Any], state: EntryState, version: ObjectVersion) -> str | None:
    """An entry of neither the file nor the object in its place may be all that knows of a third."""
    item = state.item
    if item is None or not is_live_file(item):
        return None
    known = [version]
    if replaced := left.get("replaced"):
        known.append(_version(replaced, _NEW, version.modified_at))
    told = {name: value for name, value in item.items() if name != "version_id"}
    return None if any(says(told, each) for each in known) else "its entry is of another object"
