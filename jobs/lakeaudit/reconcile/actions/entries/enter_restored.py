"""Enter a file in the metadata store after an earlier step of the same plan has restored it.

Otherwise the next audit would report a tombstone over the file, a missing entry, or the entry of another version. The
entry is written only after that step is done, and only for the object that it wrote.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from lakeaudit.evidence.storage.object_versions import ObjectVersion
from lakeaudit.keys import NULL_VERSION, Location
from lakeaudit.reconcile.actions.entries.entry_action import EntryAction
from lakeaudit.reconcile.copying import head_or_none
from lakeaudit.reconcile.manifest_precondition import ManifestPrecondition
from lakeaudit.reconcile.plans.matching import listed_for
from lakeaudit.reconcile.protocol import CannotActSafely, Case, Proposal, Target
from lakeaudit.reconcile.steps import Step
from lakeaudit.reconcile.stores.entries import (
    EntryState,
    agrees,
    file_item,
    is_as_planned,
    is_live_file,
    precondition_of,
    why_no_parents,
)
from lakeaudit.reconcile.stores.entry_store import Item

_NEW = ""
"""Placeholder for the id of a version that is not written yet."""


class EnterRestored(EntryAction):
    """See the module."""

    name = "enter_restored"

    def manifest_precondition(self, step: Step) -> ManifestPrecondition:
        """Require, like the earlier step, that the table lists the file."""
        return listed_for(step)

    def propose(self, case: Case, state: EntryState) -> Proposal | str:
        """Propose if the entry, or a folder above it, will not agree with the restored file."""
        before = case.after
        if before is None:
            return "no step restores the file"
        left = before.precondition
        same = "version_id" if before.action == "remove_delete_marker" else None
        version = _version(left, left["version_id"] if same else _NEW, case.now)
        if why := why_no_parents(state) or _why_another(left, state, version):
            return why
        writes = state.item is None or not agrees(state.item, version)
        if not writes and not state.unsound:
            return "its entry agrees with the restored file"
        known = precondition_of(state) | {"object": {"size": version.size, "etag": version.etag}}
        return Proposal(
            {**known, "writes": writes, "follows": before.action_id},
            "the step before it, and its result",
        )

    def still_holds(self, step: Step, state: EntryState) -> bool:
        """Return whether the file was restored as planned, and its entry is unchanged."""
        seen, current = step.precondition, state.current
        is_back = current is not None and _matches(seen["object"], current.size, current.etag)
        return is_back and is_as_planned({**seen, "object": state.object}, state, step.plan_id)

    def item(self, step: Step, target: Target) -> Item:
        """Return the entry of the current object."""
        seen, head = step.precondition, head_or_none(target.s3, Location(target.bucket, target.key))
        if head is None or not _matches(seen["object"], head.size, head.etag):
            raise CannotActSafely("the file has changed since the step before it")
        modified = head.modified_at.astimezone(UTC).replace(tzinfo=None)
        version = ObjectVersion(head.version_id or NULL_VERSION, modified, size=head.size, etag=head.etag)
        return file_item(
            (seen["place"][0], seen["place"][1]), version, seen["item"], step.plan_id, target.now
        )


def _version(left: Mapping[str, Any], version_id: str, now: datetime) -> ObjectVersion:
    return ObjectVersion(version_id, now.replace(tzinfo=None), size=left["size"], etag=left["etag"])


def _matches(planned: Mapping[str, Any], size: int, etag: str) -> bool:
    return (planned["size"], planned["etag"]) == (size, etag)


def _why_another(left: Mapping[str, Any], state: EntryState, version: ObjectVersion) -> str | None:
    """Return why the entry stays: if it matches neither the file nor the replaced object, it may record a third one."""
    item = state.item
    if item is None or not is_live_file(item):
        return None
    known = [version]
    if replaced := left.get("replaced"):
        known.append(_version(replaced, _NEW, version.modified_at))
    entry = {name: value for name, value in item.items() if name != "version_id"}
    return None if any(agrees(entry, each) for each in known) else "its entry is of another object"
