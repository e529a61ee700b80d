"""The live check: look at candidates now, on executors, bounded and worst first.

404 with a proven right to list is absent, 200 is present, anything else cannot be told.
"""

import base64
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from botocore.exceptions import BotoCoreError, ClientError
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from lakeaudit.compare.verdicts import severity_rank
from lakeaudit.keys import ARCHIVE_CLASSES, NULL_VERSION
from lakeaudit.pipeline.dataframes import small
from lakeaudit.runtime.aws import Clients, is_denied, is_missing
from lakeaudit.schemas import LIVE

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

CONFIRMED_AXES = ("content", "metastore")
_FIELDS = [field.name for field in LIVE]
_TYPES = {
    "string": pa.string(),
    "bigint": pa.int64(),
    "boolean": pa.bool_(),
    "timestamp": pa.timestamp("us", "UTC"),
}
_ARROW = pa.schema([(field.name, _TYPES[field.dataType.simpleString()]) for field in LIVE])


def candidates(suspects: DataFrame, limit: int) -> DataFrame:
    """The keys to look at, `limit` at most: columns bucket, key.

    What is still open comes first, then the worst; among equals every table has its turn. Takes rows of `limited`.
    """
    weighed = suspects.groupBy("bucket", "key").agg(
        F.max(_known()).alias("known"),
        F.min(severity_rank()).alias("rank"),
        F.min("turn").alias("turn"),
        F.max(F.coalesce("c_size", "s_size", "m_size")).alias("bytes"),
    )
    order = (F.desc("known"), "rank", "turn", F.desc_nulls_last("bytes"), "bucket", "key")
    return weighed.orderBy(*order).limit(limit).select("bucket", "key")


def look(keys: DataFrame, clients: Clients, *, rate: int, tasks: int) -> DataFrame:
    """LIVE rows for (bucket, key) rows, `rate` keys a second over all `tasks` together."""
    pause = tasks / rate

    def ask(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        looker = _Looker(clients, pause)
        for batch in batches:
            answers = [looker.look(row["bucket"], row["key"]) for row in batch.to_pylist()]
            yield pa.RecordBatch.from_pylist(answers, schema=_ARROW)

    return keys.repartition(tasks).mapInArrow(ask, LIVE)


def with_answers(suspects: DataFrame, live: DataFrame) -> DataFrame:
    """Suspects with storage's answer of now in place of what the cut said, for keys that were answered.

    Candidates that were not asked because of the limit get confirmation `limit`.
    """
    joined = suspects.drop("l_confirmation").join(F.broadcast(live), ["bucket", "key"], "left")
    answered = F.coalesce(F.col("l_confirmation") == "live", F.lit(False))
    renamed = {
        f"s_{name}": F.when(answered, F.col(f"l_{name}")).otherwise(F.col(f"s_{name}")) for name in _SEEN
    }
    asked = F.col("axis").isin(*CONFIRMED_AXES)
    # a later look at another version of the same bytes keeps the older version the inventory knew
    older = {name: F.when(answered & F.col("l_versions_known"), F.col(f"l_{name}")).otherwise(F.col(f"s_{name}"))
             for name in ("delete_marker", "older_version_id", "older_size")}  # fmt: skip
    return joined.withColumns(
        renamed
        | {f"s_{name}": column for name, column in older.items()}
        | {
            "s_from": F.when(answered, F.col("l_at")).otherwise(F.col("s_from")),
            "s_margin": F.when(answered, F.expr("interval '0' second")).otherwise(F.col("s_margin")),
            "m_from": F.when(answered, F.greatest("l_at", "m_from")).otherwise(F.col("m_from")),
            "versions_known": F.coalesce("l_versions_known", F.lit(False)),
            "l_confirmation": F.when(asked, F.coalesce("l_confirmation", F.lit("limit"))).otherwise("none"),
        }
    ).drop(*[name for name in _FIELDS if name.startswith("l_") and name != "l_confirmation"])


_SEEN = (
    *("presence", "size", "etag", "version_id", "modified_at", "storage_class", "archived", "multipart"),
    *("encryption", "checksum"),
)


class _Looker:
    """One task's clients, its pace, and what it has proved about its right to list."""

    def __init__(self, clients: Clients, pause: float) -> None:
        self._clients = clients
        self._pause = pause
        self._s3: dict[str, S3Client] = {}
        self._may_list: dict[str, bool] = {}
        self._may_see_versions: dict[str, bool] = {}

    def look(self, bucket: str, key: str) -> dict[str, Any]:
        answer: dict[str, Any] = dict.fromkeys(_FIELDS)
        answer |= {"bucket": bucket, "key": key, "l_at": datetime.now(UTC)}
        if bucket == "":
            return answer | _look_local(key)
        started = time.monotonic()
        answer |= self._look_s3(bucket, key)
        time.sleep(max(0.0, self._pause - (time.monotonic() - started)))
        return answer

    def _look_s3(self, bucket: str, key: str) -> dict[str, Any]:
        s3 = self._s3.setdefault(bucket, self._clients.s3(bucket))
        try:
            return self._head(s3, bucket, key) | self._versions(s3, bucket, key)
        except ClientError as error:
            if is_missing(error) and self._list_right(s3, bucket, key):
                return {"l_confirmation": "live", "l_presence": "absent"} | self._versions(s3, bucket, key)
            return {"l_confirmation": "denied" if is_denied(error) or is_missing(error) else "error"}
        except BotoCoreError:
            return {"l_confirmation": "error"}

    def _head(self, s3: "S3Client", bucket: str, key: str) -> dict[str, Any]:
        try:
            return _present(s3.head_object(Bucket=bucket, Key=key, ChecksumMode="ENABLED"))
        except ClientError as error:
            if not is_denied(error):
                raise
            return _present(
                s3.head_object(Bucket=bucket, Key=key)
            )  # checksums of KMS objects need the right to decrypt

    def _list_right(self, s3: "S3Client", bucket: str, key: str) -> bool:
        """A 404 says absent only to who may list; proved once per bucket by listing."""
        if bucket not in self._may_list:
            self._may_list[bucket] = _works(lambda: s3.list_objects_v2(Bucket=bucket, Prefix=key, MaxKeys=1))
        return self._may_list[bucket]

    def _versions(self, s3: "S3Client", bucket: str, key: str) -> dict[str, Any]:
        if not self._may_see_versions.get(bucket, True):
            return {"l_versions_known": False}
        try:
            page = s3.list_object_versions(Bucket=bucket, Prefix=key, MaxKeys=50)
        except (ClientError, BotoCoreError):
            self._may_see_versions[bucket] = False
            return {"l_versions_known": False}
        return _older(page, key)


def _works(call: Callable[[], object]) -> bool:
    try:
        call()
    except (ClientError, BotoCoreError):
        return False
    return True


def _present(head: Any) -> dict[str, Any]:
    etag = head["ETag"].strip('"')
    storage_class = head.get("StorageClass", "STANDARD")
    tier = head.get("ArchiveStatus")
    restored = 'ongoing-request="false"' in head.get("Restore", "")
    return {
        "l_confirmation": "live",
        "l_presence": "present",
        "l_size": head["ContentLength"],
        "l_etag": etag,
        "l_version_id": _version(head.get("VersionId")),
        "l_modified_at": head["LastModified"].astimezone(UTC),
        "l_storage_class": storage_class,
        "l_archived": (storage_class in ARCHIVE_CLASSES or tier is not None) and not restored,
        "l_multipart": "-" in etag,
        "l_encryption": _encryption(head),
        "l_checksum": _checksum(head),
    }


def _version(version_id: str | None) -> str | None:
    return None if version_id in (None, NULL_VERSION) else version_id


def _encryption(head: Any) -> str:
    if head.get("SSECustomerAlgorithm"):
        return "SSE-C"
    given = {"AES256": "SSE-S3", "aws:kms": "SSE-KMS", "aws:kms:dsse": "DSSE-KMS"}
    return given.get(head.get("ServerSideEncryption", ""), "NONE")


def _checksum(head: Any) -> str | None:
    """A full-object checksum, strongest first; a composite one says nothing of the bytes as a whole."""
    if head.get("ChecksumType") == "COMPOSITE":
        return None
    for name in ("SHA256", "SHA1", "CRC64NVME", "CRC32C", "CRC32"):
        value = head.get(f"Checksum{name}")
        if value and "-" not in value:
            return f"{name.lower()}:{base64.b64decode(value).hex()}"
    return None


def _older(page: Any, key: str) -> dict[str, Any]:
    versions = [version for version in page.get("Versions", []) if version["Key"] == key]
    markers = [marker for marker in page.get("DeleteMarkers", []) if marker["Key"] == key]
    older = max((v for v in versions if not v["IsLatest"]), key=lambda v: v["LastModified"], default=None)
    return {
        "l_versions_known": True,
        "l_delete_marker": any(marker["IsLatest"] for marker in markers),
        "l_older_version_id": older["VersionId"] if older else None,
        "l_older_size": older["Size"] if older else None,
    }


def _look_local(key: str) -> dict[str, Any]:
    try:
        info = Path(f"/{key}").stat()
    except FileNotFoundError:
        return {"l_confirmation": "live", "l_presence": "absent", "l_versions_known": True}
    except OSError as error:
        return {"l_confirmation": "denied" if isinstance(error, PermissionError) else "error"}
    modified = datetime.fromtimestamp(info.st_mtime, UTC)
    return {"l_confirmation": "live", "l_presence": "present", "l_size": info.st_size, "l_modified_at": modified,
            "l_archived": False, "l_versions_known": True}  # fmt: skip


def limited(suspects: DataFrame, table_limits: dict[str, int]) -> DataFrame:
    """What a live check can answer, findings and what is still open, cut to each table's own limit.

    Adds `turn`: the row's place within its table, what is still open first, then the worst.
    """
    asked = suspects.filter(
        F.col("axis").isin(*CONFIRMED_AXES) & ((F.col("outcome") == "finding") | _known())
    )
    turn = F.row_number().over(
        Window.partitionBy("judged_table").orderBy(
            F.desc(_known()), severity_rank(), F.desc_nulls_last("c_size"), "bucket", "key"
        )
    )
    limits = small(suspects.sparkSession, list(table_limits.items()), "judged_table string, __limit long")
    ranked = asked.withColumn("turn", turn).join(F.broadcast(limits), "judged_table")
    return ranked.filter(F.col("turn") <= F.col("__limit")).drop("__limit")


def _known() -> Column:
    return F.col("known_as").isNotNull()
