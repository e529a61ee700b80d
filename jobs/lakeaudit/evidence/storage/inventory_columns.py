"""The columns of S3 Inventory and what is made of their values.

Names and types follow the S3 User Guide, "Amazon S3 Inventory list". CSV writes every value as text; ORC
and Parquet have types. A value that cannot be understood is a fault of its row, never a null.
"""

from typing import NamedTuple

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, DataType, IntegralType, StringType, TimestampNTZType, TimestampType

_ISO_TIME = r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)$"
"""With a zone: a time without one could be any."""
_SHOWN = 100


class Known(NamedTuple):
    """A column: its names in CSV and in ORC or Parquet, and what it holds (unused: nothing is made of it)."""

    csv: str
    name: str
    holds: str


KNOWN = tuple(
    Known(*row)
    for row in (
        ("Bucket", "bucket", "text"),
        ("Key", "key", "text"),
        ("VersionId", "version_id", "text"),
        ("IsLatest", "is_latest", "flag"),
        ("IsDeleteMarker", "is_delete_marker", "flag"),
        ("Size", "size", "number"),
        ("LastModifiedDate", "last_modified_date", "time"),
        ("ETag", "e_tag", "text"),
        ("StorageClass", "storage_class", "text"),
        ("IsMultipartUploaded", "is_multipart_uploaded", "flag"),
        ("ReplicationStatus", "replication_status", "unused"),
        ("EncryptionStatus", "encryption_status", "text"),
        ("ObjectLockRetainUntilDate", "object_lock_retain_until_date", "unused"),
        ("ObjectLockMode", "object_lock_mode", "unused"),
        ("ObjectLockLegalHoldStatus", "object_lock_legal_hold_status", "unused"),
        ("IntelligentTieringAccessTier", "intelligent_tiering_access_tier", "text"),
        ("BucketKeyStatus", "bucket_key_status", "unused"),
        ("ChecksumAlgorithm", "checksum_algorithm", "unused"),
        ("ObjectAccessControlList", "object_access_control_list", "unused"),
        ("ObjectOwner", "object_owner", "unused"),
        ("LifecycleExpirationDate", "lifecycle_expiration_date", "unused"),
    )
)
BY_NAME = {known.name: known for known in KNOWN}
BY_CSV_NAME = {known.csv.lower(): known for known in KNOWN}
USED = tuple(known for known in KNOWN if known.holds != "unused")
REQUIRED = ("bucket", "key")
VERSIONED = ("version_id", "is_latest", "is_delete_marker")
"""Only reports on all versions have any of these."""

TYPES: dict[str, tuple[type[DataType], ...]] = {
    "text": (StringType,),
    "flag": (StringType, BooleanType),
    "number": (StringType, IntegralType),
    "time": (StringType, TimestampType, TimestampNTZType),
}
"""The types a file may give a column."""


def value_of(known: Known, found: DataType) -> Column:
    """The column's value in its own type; null where it is empty or cannot be understood."""
    raw = F.col(known.name)
    if known.holds == "text":
        return F.nullif(raw, F.lit(""))
    if isinstance(found, StringType):
        return _from_text(raw, known.holds)
    if known.holds == "number":
        return F.when(raw >= 0, raw.cast("long"))
    return raw.cast("timestamp") if known.holds == "time" else raw


def fault_of(known: Known, value: Column) -> Column:
    """What is wrong with the value, in words; null where nothing is."""
    raw = F.col(known.name)
    lost = raw.isNotNull() & (raw.cast("string") != "") & value.isNull()
    return F.when(lost, F.concat(F.lit(f"{known.csv} is no {known.holds}: "), shown(raw)))


def shown(raw: Column) -> Column:
    """The beginning of a value, for people."""
    return F.substring(raw.cast("string"), 1, _SHOWN)


def _from_text(raw: Column, holds: str) -> Column:
    if holds == "flag":
        word = F.lower(raw)
        return F.when(word == "true", F.lit(True)).when(word == "false", F.lit(False))
    pattern, kind = (_ISO_TIME, "timestamp") if holds == "time" else ("^[0-9]{1,19}$", "long")
    return F.when(raw.rlike(pattern), raw.try_cast(kind))


def decoded_key(raw: Column) -> Column:
    """The key behind a form-encoded one, decoded once; null if malformed. `+` is a space, `%XX` a byte of UTF-8.

    Spark's decoder takes `%+1` for a byte and puts U+FFFD where bytes are no UTF-8; two different keys
    would become one, so both are malformed here. A key may hold U+FFFD itself, written `%EF%BF%BD`.
    """
    escapes = ~raw.rlike("%(?![0-9A-Fa-f]{2})")
    without = F.try_url_decode(F.regexp_replace(raw, "(?i)%EF%BF%BD", "x"))
    sound = escapes & ~without.contains("\ufffd")
    return F.when(~raw.rlike("[%+\ufffd]"), raw).when(sound, F.try_url_decode(raw))
