"""Changes one versioned bucket as any client can, and tracks its current objects."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client


class VersionedBucket:
    """A versioned bucket. `objects` has its current objects: key -> size, etag, and version id if written here."""

    def __init__(self, s3: "S3Client", bucket: str) -> None:
        self.s3, self.bucket = s3, bucket
        self.objects: dict[str, dict[str, Any]] = {}
        self._rules: list[Any] = []
        for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket):
            for each in page.get("Contents", []):
                self.objects[each["Key"]] = {"size": each["Size"], "etag": each["ETag"].strip('"')}

    def body(self, key: str) -> bytes:
        """Return the bytes of the current version."""
        return self.s3.get_object(Bucket=self.bucket, Key=key)["Body"].read()

    def put(self, key: str, body: bytes, **options: Any) -> None:
        """Write an object, new or not."""
        answer = self.s3.put_object(Bucket=self.bucket, Key=key, Body=body, **options)
        self.objects[key] = {
            "size": len(body),
            "etag": answer["ETag"].strip('"'),
            "version": answer.get("VersionId"),
        }

    def delete(self, key: str) -> str:
        """Delete an object by a delete marker, and return the marker's version id."""
        answer = self.s3.delete_object(Bucket=self.bucket, Key=key)
        self.objects.pop(key, None)
        return answer["VersionId"]

    def purge(self, key: str) -> None:
        """Delete every version permanently."""
        page = self.s3.list_object_versions(Bucket=self.bucket, Prefix=key)
        for version in [*page.get("Versions", []), *page.get("DeleteMarkers", [])]:
            if version["Key"] == key:
                self.s3.delete_object(Bucket=self.bucket, Key=key, VersionId=version["VersionId"])
        self.objects.pop(key, None)

    def undelete(self, key: str, marker: str) -> None:
        """Remove a delete marker: the version below it is current again, with its old time."""
        self.s3.delete_object(Bucket=self.bucket, Key=key, VersionId=marker)
        self._look(key)

    def version_of(self, key: str) -> str:
        """Return the id of the current version."""
        return self.s3.head_object(Bucket=self.bucket, Key=key)["VersionId"]

    def copy_version(self, key: str, version: str) -> None:
        """Copy an older version over the key, as a manual restore does: the same bytes, a new time and version."""
        source: Any = {"Bucket": self.bucket, "Key": key, "VersionId": version}
        self.s3.copy_object(Bucket=self.bucket, Key=key, CopySource=source)
        self._look(key)

    def add_lifecycle_rule(self, prefix: str, **action: Any) -> str:
        """Add an enabled rule for a prefix, and return its id."""
        name = f"rule-{len(self._rules)}"
        self._rules.append({"ID": name, "Status": "Enabled", "Filter": {"Prefix": prefix}} | action)
        self.s3.put_bucket_lifecycle_configuration(
            Bucket=self.bucket, LifecycleConfiguration={"Rules": self._rules}
        )
        return name

    def report_for(self, folders: Iterable[str], destination: str) -> None:
        """Configure an inventory report for each of these folders."""
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
        head = self.s3.head_object(Bucket=self.bucket, Key=key)
        self.objects[key] = {
            "size": head["ContentLength"],
            "etag": head["ETag"].strip('"'),
            "version": head["VersionId"],
        }
