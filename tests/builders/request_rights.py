"""Which rights the requests of a client need, and which the policy of reconcile grants."""

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from botocore.client import BaseClient

POLICY = Path(__file__).parents[2] / "conf" / "iam" / "reconcile-policy.json"
OF_LEFTOVERS = "Quarantine"
"""Prefix of the names of statements that only steps on unused files need."""

VERSIONED = {
    "GetObject": "s3:GetObject", "HeadObject": "s3:GetObject", "DeleteObject": "s3:DeleteObject",
    "GetObjectTagging": "s3:GetObjectTagging", "DeleteObjects": "s3:DeleteObject",
}  # fmt: skip
PLAIN = {
    "GetBucketVersioning": "s3:GetBucketVersioning", "ListObjectVersions": "s3:ListBucketVersions",
    "GetBucketLifecycleConfiguration": "s3:GetLifecycleConfiguration",
    "ListObjectsV2": "s3:ListBucket", "PutObject": "s3:PutObject", "CreateMultipartUpload": "s3:PutObject",
    "UploadPart": "s3:PutObject", "CompleteMultipartUpload": "s3:PutObject",
    "AbortMultipartUpload": "s3:AbortMultipartUpload", "ListMultipartUploads": "s3:ListBucketMultipartUploads",
}  # fmt: skip


def rights_of(operation: str, given: dict[str, Any]) -> set[tuple[str, str]]:
    """(bucket, right) of all that a request needs (Service Authorization Reference, Amazon S3).

    To copy an object with tags needs the tag rights; canaries have none. A HEAD returns 404 if the principal may list.
    """
    bucket = given["Bucket"]
    if operation in ("CopyObject", "UploadPartCopy"):
        source = given["CopySource"]
        read = "s3:GetObjectVersion" if "VersionId" in source else "s3:GetObject"
        plain = {(bucket, "s3:PutObject"), (source["Bucket"], read)}
        tags = {(bucket, "s3:PutObjectTagging"), (source["Bucket"], f"{read}Tagging")}
        return plain if "canary" in given["Key"] else plain | tags
    if operation in VERSIONED:
        name = VERSIONED[operation].replace("Object", "ObjectVersion" if "VersionId" in given else "Object")
        absent = {(bucket, "s3:ListBucket")} if operation == "HeadObject" else set()
        return {(bucket, name)} | absent
    return {(bucket, PLAIN[operation])} | ({(bucket, "s3:PutObjectTagging")} if "Tagging" in given else set())


def required_rights(monkeypatch: pytest.MonkeyPatch) -> dict[str, set[str]]:
    """Record, by bucket, the rights that requests need from now on."""
    asked: dict[str, set[str]] = defaultdict(set)
    call: Any = vars(BaseClient)["_make_api_call"]

    def record_rights(self: Any, operation: str, given: dict[str, Any]) -> Any:
        for bucket, right in rights_of(operation, given):
            asked[bucket].add(right)
        return call(self, operation, given)

    monkeypatch.setattr(BaseClient, "_make_api_call", record_rights)
    return asked


def granted_rights(bucket: str, *, leftovers: bool = False, uploads: bool = False) -> set[str]:
    """Return the rights that the policy grants on a bucket, with those for unused files or only those for uploads."""
    statements = json.loads(POLICY.read_text())["Statement"]
    of_bucket = [each for each in statements if bucket in str(each["Resource"])]
    if uploads:
        return {name for each in of_bucket if each["Sid"].startswith("Abort") for name in each["Action"]}
    of_bucket = [each for each in of_bucket if not each["Sid"].startswith("Abort")]
    wanted = [each for each in of_bucket if leftovers or not each["Sid"].startswith(OF_LEFTOVERS)]
    return {name for each in wanted for name in each["Action"]}
