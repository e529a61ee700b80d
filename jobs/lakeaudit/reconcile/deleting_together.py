"""Leftovers hidden by DeleteObjects: many by one request, each entry on the condition of its own ETag.

Only where the canary has shown that the store refuses an entry of a wrong ETag; else, and for all that needs more than
its own state to be removed, requests are single. What became of an entry is seen as after a single request.
"""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from lakeaudit.reconcile.acting import Acted
from lakeaudit.reconcile.actions.hide_leftover import HideLeftover
from lakeaudit.reconcile.canary import DELETE_MANY_IF_MATCH, Forms, refused_entry
from lakeaudit.reconcile.four_yeses import DOUBLES
from lakeaudit.reconcile.protocol import Target
from lakeaudit.reconcile.steps import Step

MOST = 1000
"""Entries of a request (S3 API reference, DeleteObjects)."""
_NOT_XML = re.compile("[\x00-\x08\x0b-\x1f\ufffe\uffff]")
"""What no XML document holds, and so no such request. A carriage return would arrive as a line feed."""


def deleted_together(targets: Sequence[tuple[Step, Target]], forms: Forms) -> dict[str, Acted]:
    """By action_id what was answered of the steps that went together; the others are still to be done."""
    by_bucket: dict[str, list[tuple[Step, Target]]] = defaultdict(list)
    for step, target in targets:
        if step.action == HideLeftover.name and step.kind not in DOUBLES and not _NOT_XML.search(target.key):
            by_bucket[target.bucket].append((step, target))
    done: dict[str, Acted] = {}
    for bucket, some in by_bucket.items():
        if len(some) > 1 and DELETE_MANY_IF_MATCH in forms.proved(bucket):
            for begin in range(0, len(some), MOST):
                done |= _deleted(some[begin : begin + MOST])
    return done


def _deleted(some: Sequence[tuple[Step, Target]]) -> dict[str, Acted]:
    bucket, s3 = some[0][1].bucket, some[0][1].s3
    objects: Any = [{"Key": target.key, "ETag": f'"{step.precondition["etag"]}"'} for step, target in some]
    try:
        answer: Any = s3.delete_objects(Bucket=bucket, Delete={"Objects": objects})
    except (ClientError, BotoCoreError) as error:
        return {step.action_id: Acted(target.now, error=error) for step, target in some}
    refused = {entry.get("Key"): refused_entry(entry) for entry in answer.get("Errors", [])}
    markers = _markers(answer)
    return {
        step.action_id: Acted(target.now, markers.get(target.key), refused.get(target.key))
        for step, target in some
    }


def _markers(answer: Mapping[str, Any]) -> dict[str | None, str | None]:
    return {entry.get("Key"): entry.get("DeleteMarkerVersionId") for entry in answer.get("Deleted", [])}
