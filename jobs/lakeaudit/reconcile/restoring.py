"""What the actions share that bring a file back, or right: when they may, and how what they wrote is known."""

from lakeaudit.evidence.storage.object_versions import ObjectVersion
from lakeaudit.reconcile.key_state import ENABLED, KeyState
from lakeaudit.reconcile.matching import is_there, listed_for
from lakeaudit.reconcile.need import Need
from lakeaudit.reconcile.protocol import Case, Look, Target, Undo, versions_of
from lakeaudit.reconcile.steps import Step


class Restoring:
    """The base of the actions that bring a file back, or right."""

    look: Look = staticmethod(versions_of)

    def need(self, step: Step) -> Need:
        """The table lists the file."""
        return listed_for(step)

    def refuses(self, case: Case) -> str | None:  # noqa: ARG002 - the protocol's
        """Nothing that is known before: leave is asked for once there is a way (`matching.on_purpose`)."""
        return None


class WritingVersion(Restoring):
    """The base of those of them that write a version, which is known and deleted by its id."""

    def take_back(self, undo: Undo, target: Target) -> str | None:
        """Delete what was written, by its id."""
        target.s3.delete_object(Bucket=target.bucket, Key=target.key, VersionId=undo["version_id"])
        return None


def written_object(step: Step, current: ObjectVersion, written: str | None) -> Undo | None:
    """What an undo has to know of an object that a step wrote: the one of that id or ETag, or one like the wanted."""
    is_ours = written in (current.version_id, current.etag) and current.size == step.precondition["size"]
    if not is_ours and not is_there(step.precondition, current):
        return None
    return {"version_id": current.version_id, "size": current.size, "etag": current.etag}


def is_as_written(undo: Undo, state: KeyState) -> bool:
    """Whether what was written is current, in a bucket that keeps versions."""
    current = state.current
    return (
        state.versioning == ENABLED
        and current is not None
        and current.version_id == undo["version_id"]
        and is_there(undo, current)
    )
