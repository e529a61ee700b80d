"""Abort uploads that were begun long ago and never completed. What was uploaded of them is gone then: no undo."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from lakeaudit.evidence import s3_responses
from lakeaudit.formatting import iso
from lakeaudit.reconcile.key_state import Unclear
from lakeaudit.reconcile.need import NO_NEED, Need
from lakeaudit.reconcile.protocol import ABORT, Case, Proposal, Sight, Target, Undo
from lakeaudit.reconcile.steps import FINAL, Step
from lakeaudit.runtime.aws_failures import explain

Uploads = Mapping[str, datetime | None]
"""Ids of open uploads to one key, and when each was begun; None: the store does not say."""
_DONE = "aborted"


def open_uploads(sight: Sight, bucket: str, key: str) -> Uploads:
    """Those of the first page under the key as a prefix, of a thousand. Raises Unclear."""
    try:
        page: Any = sight.clients.s3(bucket, key).list_multipart_uploads(Bucket=bucket, Prefix=key)
    except (ClientError, BotoCoreError) as error:
        raise Unclear(f"uploads to s3://{bucket} cannot be listed: {explain(error).what}") from error
    return {each.upload_id: each.initiated_at for each in s3_responses.open_uploads(page) if each.key == key}


class AbortUpload:
    """See the module."""

    name = "abort_upload"
    reversibility = FINAL
    undo = "there is none: the parts that were uploaded are gone"
    risk = "middle: a writer that is still at it has to begin again"

    look = staticmethod(open_uploads)

    def need(self, step: Step) -> Need:  # noqa: ARG002 - the protocol's
        """Storage alone knows of uploads."""
        return NO_NEED

    def refuses(self, case: Case) -> str | None:
        """Where nobody allows it: it is final."""
        return (
            None if ABORT in case.allow else f"what is aborted does not come back: `--allow {ABORT}` plans it"
        )

    def propose(self, case: Case, state: Uploads) -> Proposal | str:
        """All that are older than the longest upload of the table, and its leftover_age."""
        longest = case.table.settings.max_upload + case.table.settings.leftover_age
        ripe = {
            upload: iso(begun)
            for upload, begun in state.items()
            if begun is not None and begun + longest <= case.now
        }
        if not ripe:
            unknown = None in state.values()
            return "the store does not say when it was begun" if unknown else "no upload of that age is open"
        return Proposal({"uploads": ripe}, "the uploads' own ids and ages")

    def still_holds(self, step: Step, state: Uploads) -> bool:
        """They are all still open."""
        return _ids(step) <= state.keys()

    def act(self, step: Step, target: Target) -> str | None:
        """By their ids; one that was completed meanwhile is refused by the store."""
        for upload in sorted(_ids(step)):
            target.s3.abort_multipart_upload(Bucket=target.bucket, Key=target.key, UploadId=upload)
        return _DONE

    def outcome(self, step: Step, state: Uploads, written: str | None) -> Undo | None:
        """None of them is open, and it was this run that aborted them: else somebody may have completed them."""
        return {} if written == _DONE and not _ids(step) & state.keys() else None

    def may_undo(self, step: Step, undo: Undo, state: Uploads) -> bool:  # noqa: ARG002 - the protocol's
        """Never."""
        return False

    def take_back(self, undo: Undo, target: Target) -> None:
        """Nothing brings them back; `may_undo` never allows it."""

    def is_undone(self, step: Step, undo: Undo, state: Uploads) -> bool:  # noqa: ARG002 - the protocol's
        """Never."""
        return False


def _ids(step: Step) -> set[str]:
    found: Mapping[str, Any] = step.precondition["uploads"]
    return set(found)
