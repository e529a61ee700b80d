"""One versioned bucket as its clients see it: the objects it serves now, and what any client may do to them."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client


class VersionedBucket:
    """`objects` is what the bucket serves: key -> size, etag, and the version id where it was written here."""

    def __init__(self, s3: "S3Client", bucket: str) -> None:
        self.s3, self.bucket = s3, bucket
        self.objects: dict[str, dict[str, Any]] = {}
        self._rules: list[Any] = []
        for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket):
            for found in page.get("Contents", []):
                self.objects[found["Key"]] = {"size": found["Size"], "etag": found["ETag"].strip('"')}

    def body(self, key: str) -> bytes:
        """The bytes that storage serves."""
        return self.s3.get_object(Bucket=self.bucket, Key=key)["Body"].read()

    def put(self, key: str, body: bytes, **options: Any) -> None:
        """Write an object, whatever was there."""
        answer = self.s3.put_object(Bucket=self.bucket, Key=key, Body=body, **options)
        self.objects[key] = {
            "size": len(body),
            "etag": answer["ETag"].strip('"'),
            "version": answer.get("VersionId"),
        }

    def delete(self, key: str) -> str:
        """Delete as any client does: on a versioned bucket a delete marker goes on top, whose version id is given."""
        answer = self.s3.delete_object(Bucket=self.bucket, Key=key)
        self.objects.pop(key, None)
        return answer["VersionId"]

    def purge(self, key: str) -> None:
        """Delete every version, for good."""
        page = self.s3.list_object_versions(Bucket=self.bucket, Prefix=key)
        for version in [*page.get("Versions", []), *page.get("DeleteMarkers", [])]:
            if version["Key"] == key:
                self.s3.delete_object(Bucket=self.bucket, Key=key, VersionId=version["VersionId"])
        self.objects.pop(key, None)

    def undelete(self, key: str, marker: str) -> None:
        """Take a delete marker away: the version below it is current again, with its old time."""
        self.s3.delete_object(Bucket=self.bucket, Key=key, VersionId=marker)
        self._look(key)

    def version_of(self, key: str) -> str:
        """The id of the current version."""
        return self.s3.head_object(Bucket=self.bucket, Key=key)["VersionId"]

    def copy_version(self, key: str, version: str) -> None:
        """Copy an older version over the key, as restoring by hand does: the same bytes, a new time and version."""
        source: Any = {"Bucket": self.bucket, "Key": key, "VersionId": version}
        self.s3.copy_object(Bucket=self.bucket, Key=key, CopySource=source)
        self._look(key)

    def add_lifecycle_rule(self, prefix: str, **action: Any) -> str:
        """One more enabled rule for what lies below a prefix; gives its id."""
        name = f"rule-{len(self._rules)}"
        self._rules.append({"ID": name, "Status": "Enabled", "Filter": {"Prefix": prefix}} | action)
        self.s3.put_bucket_lifecycle_configuration(
            Bucket=self.bucket, LifecycleConfiguration={"Rules": self._rules}
        )
        return name

    def report_for(self, folders: Iterable[str], destination: str) -> None:
        """Have the bucket's inventory made for what lies below these folders, a report each."""
        place: Any = {"Bucket": f"arn:aws:s3:::{destination}", "Format": "CSV"}
        for number, folder in enumerate(folders):
            name = f"part-{number}"
            self.s3.put_bucket_inventory_configuration(
                Bucket=self.bucket,
                Id=name,
                InventoryConfiguration={
                    "Id": name,
                    "IsEnabled": True,
                    "Filter": {"Prefix": f"{folder}/"},
                    "Destination": {"S3BucketDestination": place},
                    "IncludedObjectVersions": "All",
                    "Schedule": {"Frequency": "Daily"},
                },
            )

    def _look(self, key: str) -> None:
        told = self.s3.head_object(Bucket=self.bucket, Key=key)
        self.objects[key] = {
            "size": told["ContentLength"],
            "etag": told["ETag"].strip('"'),
            "version": told["VersionId"],
        }
