"""Write the older version that is the file the table lists back as a new one, only where the key is still absent.

By CopyObject where the store honours its condition; else, for objects of bounded size, by reading the version and
PutObject on the condition that there is none. Metadata, tags, storage class and encryption are carried.
"""

from typing import Any

from lakeaudit.reconcile.canary import COPY_IF_ABSENT, PUT_IF_ABSENT
from lakeaudit.reconcile.copying import CARRIED, MOST_COPIED, MOST_READ, OF_COPY, carried, tagging
from lakeaudit.reconcile.key_state import ENABLED, KeyState
from lakeaudit.reconcile.matching import (
    absent_over,
    is_absent_over,
    is_there,
    listed_for,
    matching_version,
    on_purpose,
)
from lakeaudit.reconcile.need import Need
from lakeaudit.reconcile.protocol import Case, NotProved, Proposal, Target, Undo, versions_of
from lakeaudit.reconcile.steps import REVERSIBLE, Step


class RestoreVersion:
    """See the module."""

    name = "restore_version"
    reversibility = REVERSIBLE
    undo = "delete the version that was written, by its id, only while the older one is there"
    risk = "low: a new version is written, only where there is no object"

    look = staticmethod(versions_of)

    def need(self, step: Step) -> Need:
        """The table lists the file."""
        return listed_for(step)

    def refuses(self, case: Case) -> str | None:
        """Where it may have been erased on purpose."""
        return on_purpose(case)

    def propose(self, case: Case, state: KeyState) -> Proposal | str:
        """Where a version matches and one request can copy it."""
        found = matching_version(case.wanted, state)
        if isinstance(found, str):
            return found
        version, matched_by = found
        if version.size > MOST_COPIED:
            return "the version is above 5 GiB: it has to be copied in parts"
        return absent_over(version, matched_by, state)

    def still_holds(self, step: Step, state: KeyState) -> bool:
        """Still absent, and the version still there."""
        return is_absent_over(step.precondition, state)

    def act(self, step: Step, target: Target) -> str | None:
        """By the first form that the store was shown to honour."""
        wanted = step.precondition
        forms = target.forms.proved(target.bucket)
        if COPY_IF_ABSENT in forms:
            return _copied(target, wanted["version_id"])
        if PUT_IF_ABSENT not in forms:
            raise NotProved("the store honours If-None-Match neither of CopyObject nor of PutObject")
        if wanted["size"] > MOST_READ:
            raise NotProved(f"the store's copies have no conditions, and it is above {MOST_READ >> 20} MiB")
        return _written(target, wanted["version_id"])

    def outcome(self, step: Step, state: KeyState, written: str | None) -> Undo | None:
        """There is a new object: the one that was written, or one of the same size and ETag."""
        current = state.current
        if current is None or current.version_id == step.precondition["version_id"]:
            return None
        is_ours = current.version_id == written and current.size == step.precondition["size"]
        if not is_ours and not is_there(step.precondition, current):
            return None
        return {"version_id": current.version_id, "size": current.size, "etag": current.etag}

    def may_undo(self, step: Step, undo: Undo, state: KeyState) -> bool:
        """What was written is current, and the version that it is a copy of is still there."""
        current, source = state.current, state.version(step.precondition["version_id"])
        return (
            state.versioning == ENABLED
            and current is not None
            and current.version_id == undo["version_id"]
            and is_there(undo, current)
            and is_there(step.precondition, source)
        )

    def take_back(self, undo: Undo, target: Target) -> None:
        """Delete what was written, by its id."""
        target.s3.delete_object(Bucket=target.bucket, Key=target.key, VersionId=undo["version_id"])

    def is_undone(self, step: Step, undo: Undo, state: KeyState) -> bool:
        """The same marker is on top, and what was written is gone."""
        return is_absent_over(step.precondition, state) and state.version(undo["version_id"]) is None


def _copied(target: Target, version_id: str) -> str | None:
    head: Any = target.s3.head_object(Bucket=target.bucket, Key=target.key, VersionId=version_id)
    source: Any = {"Bucket": target.bucket, "Key": target.key, "VersionId": version_id}
    copied = target.s3.copy_object(
        Bucket=target.bucket, Key=target.key, CopySource=source, IfNoneMatch="*", **carried(head, OF_COPY)
    )
    return copied.get("VersionId")


def _written(target: Target, version_id: str) -> str | None:
    """Read, then written on the condition that there is no object."""
    at: Any = {"Bucket": target.bucket, "Key": target.key}
    got: Any = target.s3.get_object(**at, VersionId=version_id)
    given = carried(got, CARRIED) | tagging(target.s3, {**at, "VersionId": version_id}, got)
    return target.s3.put_object(**at, Body=got["Body"].read(), IfNoneMatch="*", **given).get("VersionId")
