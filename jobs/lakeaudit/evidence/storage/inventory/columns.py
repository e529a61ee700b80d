"""The columns of S3 Inventory and what is made of their values, as SQL of DuckDB.

Names and types follow the S3 User Guide, "Amazon S3 Inventory list". CSV writes every value as text; ORC
and Parquet have types. A value that cannot be understood is a fault of its row, never a null.
"""

from typing import NamedTuple

import pyarrow as pa

from lakeaudit.runtime.duck import literal, quoted

_ISO_TIME = r"\d{4}-\d\d-\d\dT([01]\d|2[0-3]):\d\d:\d\d(\.\d{1,9})?(Z|[+-]((0\d|1[0-7]):[0-5]\d|18:00))"
"""With a zone, which is at most 18 hours off: a time without one could be any."""
_MALFORMED_ESCAPE = r"%(\z|[^0-9A-Fa-f]|.\z|.[^0-9A-Fa-f])"
_SHOWN = 100


class ReportColumn(NamedTuple):
    """A column: its names in CSV and in ORC or Parquet, and the type of its values (unused: it is not read)."""

    csv: str
    name: str
    holds: str

    @property
    def noun(self) -> str:
        """The type of its values in a sentence."""
        return self.holds if self.holds == "text" else f"a {self.holds}"


KNOWN = tuple(
    ReportColumn(*row)
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
BY_CSV_NAME["multipartuploaded"] = BY_NAME["is_multipart_uploaded"]
"""Tencent's COS calls it so."""
USED = tuple(known for known in KNOWN if known.holds != "unused")
REQUIRED = ("bucket", "key")
QUESTIONS = {
    "size": "whether a file has the recorded size",
    "last_modified_date": "whether a file was written again, is left over, or is a copy",
    "e_tag": "whether a file has the recorded content, or another's",
    "storage_class": "whether a file has to be restored before reading",
    "encryption_status": "whether an ETag is a recorded MD5",
}
"""Columns that a report may lack, and the fact that is unknown then."""
VERSIONED = ("version_id", "is_latest", "is_delete_marker")
"""Only reports on all versions have any of these."""


def type_kind(arrow: pa.DataType) -> str | None:
    """What a file's own type holds: text, flag, number or time; None: nothing that a report may use."""
    if pa.types.is_dictionary(arrow):
        return type_kind(arrow.value_type)
    if pa.types.is_string(arrow) or pa.types.is_large_string(arrow):
        return "text"
    if pa.types.is_integer(arrow) and arrow != pa.uint64():
        return "number"
    if pa.types.is_timestamp(arrow):
        return "time"
    return "flag" if pa.types.is_boolean(arrow) else None


def type_fault(known: ReportColumn, arrow: pa.DataType) -> str | None:
    """Return why the type of a column is wrong, or None; a column of text may hold any values."""
    if type_kind(arrow) in ("text", known.holds):
        return None
    return f"column {known.name} is of type {_TYPE_NAMES.get(arrow, arrow)}, not {known.noun}"


_TYPE_NAMES = {
    pa.int8(): "tinyint",
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.bool_(): "boolean",
    pa.date32(): "date",
}


def value_sql(known: ReportColumn, kind: str) -> str:
    """The column's value in its own type, of a column of this type; null if empty or not understood."""
    raw = quoted(known.name)
    if known.holds in ("text", "any"):
        return f"nullif({raw}, '')"
    if known.holds == "flag":
        of_text = f"CASE lower({raw}) WHEN 'true' THEN true WHEN 'false' THEN false END"
        return of_text if kind == "text" else raw
    if known.holds == "number":
        of_text = f"CASE WHEN regexp_full_match({raw}, '[0-9]{{1,19}}') THEN TRY_CAST({raw} AS BIGINT) END"
        return of_text if kind == "text" else f"CASE WHEN {raw} >= 0 THEN CAST({raw} AS BIGINT) END"
    instant = f"TRY_CAST({raw} AS TIMESTAMP WITH TIME ZONE)"
    of_text = f"CASE WHEN regexp_full_match({raw}, {literal(_ISO_TIME)}) THEN {instant} END"
    # A cast to a time without zone would be one to the local time of the connection.
    return f"make_timestamp(epoch_us({of_text if kind == 'text' else raw}))"


def fault_sql(known: ReportColumn, kind: str, value: str) -> str | None:
    """What is wrong with `value`, in words, or null; None where the type leaves nothing to be wrong.

    The key is checked in every type: its value is decoded, or its bytes may be no UTF-8.
    """
    raw = quoted(known.name)
    fault = f"{literal(f'{known.csv} is not {known.noun}: ')} || {shown_sql(raw)}"
    if kind == "number" and known.holds == "number":
        return f"CASE WHEN {raw} < 0 THEN {fault} END"
    if known.name != "key" and (kind != "text" or known.holds in ("text", "any")):
        return None
    return f"CASE WHEN {raw} <> '' AND {value} IS NULL THEN {fault} END"


def shown_sql(raw: str) -> str:
    """The beginning of a value, for people."""
    return f"substring(CAST({raw} AS VARCHAR), 1, {_SHOWN})"


def stranger_sql(own: str) -> str:
    """The fault of a row that names another bucket than the report's own; null: it names that one."""
    stranger = f"'row of another bucket: ' || coalesce({shown_sql('bucket')}, 'none')"
    return (
        f"CASE WHEN bucket IS DISTINCT FROM {literal(own)} THEN {stranger} || {literal(f', not {own}')} END"
    )


def decoded_key_sql(raw: str) -> str:
    """Return SQL of a form-encoded key, decoded once; null if malformed. `+` is a space, `%XX` a byte of UTF-8.

    U+FFFD replaces bytes of a line that were not valid UTF-8; a key that has one itself is written `%EF%BF%BD`.
    """
    spaced = f"replace({raw}, '+', ' ')"
    malformed = (
        rf"contains({raw}, chr(65533)) OR regexp_matches({raw}, {literal(f'(?s){_MALFORMED_ESCAPE}')})"
    )
    return (
        f"CASE WHEN NOT contains({raw}, '%') AND NOT contains({raw}, chr(65533)) THEN {spaced} "
        f"WHEN {malformed} THEN NULL ELSE TRY(url_decode({spaced})) END"
    )
