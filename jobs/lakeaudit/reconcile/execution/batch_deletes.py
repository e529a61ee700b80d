"""Hide many unused files with one DeleteObjects request, each entry on the condition of its own ETag.

This is used only if the canary has shown that the store refuses an entry with a wrong ETag. Files whose removal depends
on another file are deleted with single requests. The effect is verified as after a single request.
"""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from lakeaudit.errors import SourceError
from lakeaudit.reconcile.actions.files.hide_leftover import HideLeftover
from lakeaudit.reconcile.canary import DELETE_MANY_IF_MATCH, Forms, entry_error
from lakeaudit.reconcile.deletion_guards import DUPLICATES
from lakeaudit.reconcile.execution.acting import ActResponse
from lakeaudit.reconcile.protocol import Target
from lakeaudit.reconcile.steps import Step

MOST = 1000
"""Most entries of a request (S3 API reference, DeleteObjects)."""
_NOT_XML = re.compile("[\x00-\x08\x0b-\x1f\ufffe\uffff]")
"""Characters that XML, and so the request, cannot contain. A carriage return would arrive as a line feed."""


def delete_in_batches(targets: Sequence[tuple[Step, Target]], forms: Forms) -> dict[str, ActResponse]:
    """Delete the files of steps that allow it; return the responses by action_id, and leave the other steps."""
    by_bucket: dict[str, list[tuple[Step, Target]]] = defaultdict(list)
    for step, target in targets:
        if (
            step.action == HideLeftover.name
            and step.kind not in DUPLICATES
            and not _NOT_XML.search(target.key)
        ):
            by_bucket[target.bucket].append((step, target))
    done: dict[str, ActResponse] = {}
    for bucket, some in by_bucket.items():
        if len(some) > 1 and _honours(forms, bucket):
            for begin in range(0, len(some), MOST):
                done |= _deleted(some[begin : begin + MOST])
    return done


def _honours(forms: Forms, bucket: str) -> bool:
    try:
        return DELETE_MANY_IF_MATCH in forms.honoured(bucket)
    except SourceError:
        return False  # each step alone reports why it cannot act


def _deleted(some: Sequence[tuple[Step, Target]]) -> dict[str, ActResponse]:
    bucket, s3 = some[0][1].bucket, some[0][1].s3
    objects: Any = [{"Key": target.key, "ETag": f'"{step.precondition["etag"]}"'} for step, target in some]
    try:
        answer: Any = s3.delete_objects(Bucket=bucket, Delete={"Objects": objects})
    except (ClientError, BotoCoreError) as error:
        return {step.action_id: ActResponse(target.now, error=error) for step, target in some}
    refused = {entry.get("Key"): entry_error(entry) for entry in answer.get("Errors", [])}
    markers = _markers(answer)
    return {
        step.action_id: ActResponse(target.now, markers.get(target.key), refused.get(target.key))
        for step, target in some
    }


def _markers(answer: Mapping[str, Any]) -> dict[str | None, str | None]:
    return {entry.get("Key"): entry.get("DeleteMarkerVersionId") for entry in answer.get("Deleted", [])}
