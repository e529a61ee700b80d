"""Abort multipart uploads that were started long ago and never completed. Their parts are deleted: there is no undo."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from lakeaudit.config import Lake
from lakeaudit.evidence import s3_responses
from lakeaudit.evidence.table_grants import on_tables
from lakeaudit.formatting import iso
from lakeaudit.grants import ABORT as ABORT_UPLOAD
from lakeaudit.grants import LIST_UPLOADS, Grant
from lakeaudit.reconcile.key_state import Unclear
from lakeaudit.reconcile.manifest_precondition import NO_PRECONDITION, ManifestPrecondition
from lakeaudit.reconcile.protocol import ABORT, Case, Proposal, StateReader, Target, Undo
from lakeaudit.reconcile.steps import FINAL, Step
from lakeaudit.runtime.connections.aws_failures import explain

Uploads = Mapping[str, datetime | None]
"""Start times of open uploads to one key, by id; None: the store does not return it."""
_DONE = "aborted"


def open_uploads(reader: StateReader, bucket: str, key: str) -> Uploads:
    """Return the open uploads to a key among the first thousand with the key as prefix. Raises Unclear."""
    try:
        page: Any = reader.clients.s3(bucket, key).list_multipart_uploads(Bucket=bucket, Prefix=key)
    except (ClientError, BotoCoreError) as error:
        raise Unclear(f"uploads to s3://{bucket} cannot be listed: {explain(error).what}") from error
    return {each.upload_id: each.initiated_at for each in s3_responses.open_uploads(page) if each.key == key}


class AbortUpload:
    """See the module."""

    name = "abort_upload"
    reversibility = FINAL
    undo = "impossible: the uploaded parts are deleted"
    risk = "medium: a writer that is still uploading has to start again"

    look = staticmethod(open_uploads)

    def permissions(self, lake: Lake) -> Iterator[Grant]:
        """See `protocol.Action`."""
        yield from on_tables("AbortUploads", lake, (LIST_UPLOADS, ABORT_UPLOAD))

    def manifest_precondition(self, step: Step) -> ManifestPrecondition:  # noqa: ARG002 - the protocol's
        """Require nothing: manifests do not list uploads."""
        return NO_PRECONDITION

    def refuses(self, case: Case) -> str | None:
        """Refuse without `--allow`: the action is final."""
        return (
            None
            if ABORT in case.allow
            else f"an aborted upload cannot be restored: `--allow {ABORT}` plans it"
        )

    def propose(self, case: Case, state: Uploads) -> Proposal | str:
        """Propose all uploads that are older than the longest upload of the table plus its leftover_age."""
        longest = case.table.settings.max_upload + case.table.settings.leftover_age
        old = {
            upload: iso(begun)
            for upload, begun in state.items()
            if begun is not None and begun + longest <= case.now
        }
        if not old:
            unknown = None in state.values()
            return "the store does not return its start time" if unknown else "no upload of that age is open"
        return Proposal({"uploads": old}, "the uploads' own ids and ages")

    def still_holds(self, step: Step, state: Uploads) -> bool:
        """Return whether all uploads are still open."""
        return _ids(step) <= state.keys()

    def act(self, step: Step, target: Target) -> str | None:
        """Abort the uploads by id; the store refuses one that was completed meanwhile."""
        for upload in sorted(_ids(step)):
            target.s3.abort_multipart_upload(Bucket=target.bucket, Key=target.key, UploadId=upload)
        return _DONE

    def outcome(self, step: Step, state: Uploads, written: str | None) -> Undo | None:
        """Return the undo if this run aborted the uploads; else another writer may have completed them."""
        return {} if written == _DONE and not _ids(step) & state.keys() else None

    def may_undo(self, step: Step, undo: Undo, state: Uploads) -> bool:  # noqa: ARG002 - the protocol's
        """Return False: there is no undo."""
        return False

    def take_back(self, undo: Undo, target: Target) -> None:
        """Do nothing: `may_undo` never allows it."""

    def is_undone(self, step: Step, undo: Undo, state: Uploads) -> bool:  # noqa: ARG002 - the protocol's
        """Return False: there is no undo."""
        return False


def _ids(step: Step) -> set[str]:
    return set(step.precondition["uploads"])
