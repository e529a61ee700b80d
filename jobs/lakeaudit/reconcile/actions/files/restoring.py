"""Define the bases of actions that restore a file, and recognize the version that they wrote."""

from collections.abc import Iterator

from lakeaudit.config import Lake
from lakeaudit.evidence.storage.object_versions import ObjectVersion
from lakeaudit.grants import ABORT, DELETE_VERSION, GET_VERSION, GET_VERSION_TAGS, PUT, PUT_TAGS, Grant
from lakeaudit.reconcile.canary import changed_files
from lakeaudit.reconcile.key_state import ENABLED, KeyState
from lakeaudit.reconcile.manifest_precondition import ManifestPrecondition
from lakeaudit.reconcile.plans.matching import is_there, listed_for
from lakeaudit.reconcile.protocol import Case, Look, Target, Undo, versions_of
from lakeaudit.reconcile.steps import Step


class Restoring:
    """The base of the actions that restore a file."""

    look: Look = staticmethod(versions_of)

    def manifest_precondition(self, step: Step) -> ManifestPrecondition:
        """Require that the table lists the file."""
        return listed_for(step)

    def refuses(self, case: Case) -> str | None:  # noqa: ARG002 - the protocol's
        """Refuse nothing before the state is read; `matching.on_purpose` checks `--allow restore` later."""
        return None


class WritingVersion(Restoring):
    """The base of restoring actions that write a version, which the undo deletes by its id."""

    def permissions(self, lake: Lake) -> Iterator[Grant]:
        """See `protocol.Action`."""
        actions = (GET_VERSION, GET_VERSION_TAGS, PUT, PUT_TAGS, DELETE_VERSION, ABORT)
        yield from changed_files("RestoreFiles", lake, actions)

    def take_back(self, undo: Undo, target: Target) -> str | None:
        """Delete the written version by its id."""
        target.s3.delete_object(Bucket=target.bucket, Key=target.key, VersionId=undo["version_id"])
        return None


def written_object(step: Step, current: ObjectVersion, written: str | None) -> Undo | None:
    """Return the undo data of a written object: it has the written id or ETag, or the size and ETag of the plan."""
    is_ours = written in (current.version_id, current.etag) and current.size == step.precondition["size"]
    if not is_ours and not is_there(step.precondition, current):
        return None
    return {"version_id": current.version_id, "size": current.size, "etag": current.etag}


def is_as_written(undo: Undo, state: KeyState) -> bool:
    """Return whether the written version is current, in a bucket that keeps versions."""
    current = state.current
    return (
        state.versioning == ENABLED
        and current is not None
        and current.version_id == undo["version_id"]
        and is_there(undo, current)
    )
