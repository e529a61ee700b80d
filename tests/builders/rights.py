"""The rights that requests to a server need, as names of IAM actions: every request of every client counts.

Which right a request needs: Service Authorization Reference, Amazon S3, DynamoDB and Glue.
"""

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qs, unquote

import pytest

OF_BUCKET = {
    "versions": "s3:ListBucketVersions",
    "uploads": "s3:ListBucketMultipartUploads",
    "lifecycle": "s3:GetLifecycleConfiguration",
    "versioning": "s3:GetBucketVersioning",
    "inventory": "s3:GetInventoryConfiguration",
    "delete": "s3:DeleteObject",
}
OF_OBJECT = {"GET": "s3:GetObject", "HEAD": "s3:GetObject", "PUT": "s3:PutObject", "POST": "s3:PutObject"}

Rights = dict[str, set[str]]
"""By bucket or DynamoDB table the rights that were needed."""


@contextmanager
def watched() -> Iterator[Rights]:
    """Record the rights of every request to any server of this process inside the block."""
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication as Application

    asked: Rights = defaultdict(set)
    answered: Any = Application.__call__

    def record_right(self: Any, environ: dict[str, Any], start: Any) -> Any:
        where, right = _required_right(environ)
        asked[where].add(right)
        return answered(self, environ, start)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Application, "__call__", record_right)
        yield asked


def _required_right(environ: dict[str, Any]) -> tuple[str, str]:
    target = environ.get("HTTP_X_AMZ_TARGET", "")
    if target.startswith("DynamoDB"):
        return "dynamodb", f"dynamodb:{target.rpartition('.')[2]}"
    if target.startswith("AWSGlue"):
        return "glue", f"glue:{target.rpartition('.')[2]}"
    bucket, _, key = unquote(environ["PATH_INFO"]).lstrip("/").partition("/")
    asked = parse_qs(environ.get("QUERY_STRING", ""), keep_blank_values=True)
    if not key:
        return bucket, next((right for name, right in OF_BUCKET.items() if name in asked), "s3:ListBucket")
    return bucket, _of_object(environ["REQUEST_METHOD"], asked)


def _of_object(method: str, asked: dict[str, list[str]]) -> str:
    if method == "DELETE":
        return "s3:AbortMultipartUpload" if "uploadId" in asked else "s3:DeleteObject"
    right = OF_OBJECT[method]
    if "versionId" in asked:
        right = right.replace("Object", "ObjectVersion")
    return f"{right}Tagging" if "tagging" in asked else right
