"""Where the paths of Delta actions point: decoded exactly once, into (bucket, key).

`add.path`, `remove.path` and `cdc.path` are RFC 2396 text, relative to the table's root or absolute. Both Spark and
delta-rs escape a partition value for the folder name first (`:` to `%3A`) and the folder name for the log after that
(`%253A`), so one decoding gives the key as storage has it.
"""

from pyspark.sql import Column
from pyspark.sql import functions as F

Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
"""The alphabet of ZeroMQ's base 85 (rfc.zeromq.org/spec/32), in which Delta writes the UUIDs of deletion vectors."""

_SCHEME = r"^[A-Za-z][A-Za-z0-9+.\-]*:"
_S3 = r"^(?i:s3|s3a|s3n)://([^/]+)/?(.*)$"
_FILE = r"^(?i:file):(?://[^/]*)?/(.*)$"
_OTHER = r"^([A-Za-z][A-Za-z0-9+.\-]*:(?://[^/]*)?)/?(.*)$"
_UUID_CHARS = 20
_REPLACEMENT = "\ufffd"


def place(path: Column, root_bucket: Column, root_prefix: Column) -> Column:
    """struct(bucket, key) of a path; its key is null where the path holds a malformed escape.

    A path of another kind of store keeps scheme and authority as its bucket, so that no source covers it.
    """
    relative = F.struct(root_bucket.alias("bucket"), F.concat(root_prefix, decoded(path)).alias("key"))
    at = F.when(~path.contains(":") & ~path.startswith("/"), relative)  # nearly all of them
    at = at.when(path.rlike("(?s)" + _S3), _struct(_part(path, _S3, 1), _part(path, _S3, 2)))
    at = at.when(path.rlike("(?s)" + _FILE), _struct(F.lit(""), _part(path, _FILE, 1)))
    at = at.when(path.rlike("(?s)" + _SCHEME), _struct(_part(path, _OTHER, 1), _part(path, _OTHER, 2)))
    at = at.when(path.startswith("/"), _struct(F.lit(""), F.substring(path, 2, 2**31 - 1)))
    return at.otherwise(relative)


def deletion_vector_place(vector: Column, root_bucket: Column, root_prefix: Column) -> Column:
    """struct(bucket, key) of the file that holds a deletion vector; null for none and for an inline one.

    The key is null where the descriptor cannot be understood. Rule: "Derived Fields" of the Delta protocol.
    """
    kind, text = vector["storageType"], vector["pathOrInlineDv"]
    prefix = F.left(text, F.length(text) - _UUID_CHARS)
    folder = F.when(prefix == "", "").otherwise(F.concat(prefix, F.lit("/")))
    name = F.concat(F.lit("deletion_vector_"), z85_uuid(F.right(text, F.lit(_UUID_CHARS))), F.lit(".bin"))
    relative = F.struct(root_bucket.alias("bucket"), F.concat(root_prefix, folder, name).alias("key"))
    unknown = F.struct(root_bucket.alias("bucket"), F.lit(None).cast("string").alias("key"))
    on_disk = F.when(kind == "u", relative).when(kind == "p", place(text, root_bucket, root_prefix))
    return F.when(vector.isNotNull() & (F.coalesce(kind, F.lit("")) != "i"), on_disk.otherwise(unknown))


def pair_id(path: Column, vector: Column) -> Column:
    """What tells apart the entries of one file in one state: its deletion vector, and how it is addressed.

    Delta takes a relative and an absolute path for two files, so a state that has both reads the file twice.
    """
    absolute = path.startswith("/") | path.rlike("(?s)" + _SCHEME)
    return F.concat(F.when(absolute, "/").otherwise(""), vector_id(vector))


def vector_id(vector: Column) -> Column:
    """The protocol's uniqueId of a deletion vector; empty where there is none."""
    offset = F.coalesce(F.concat(F.lit("@"), vector["offset"].cast("string")), F.lit(""))
    known = F.concat(
        F.coalesce(vector["storageType"], F.lit("")), F.coalesce(vector["pathOrInlineDv"], F.lit(""))
    )
    return F.when(vector.isNotNull(), F.concat(known, offset)).otherwise("")


def decoded(text: Column) -> Column:
    """Percent-escapes undone once, as UTF-8; `+` stays. Null where an escape is malformed or no UTF-8."""
    plain = F.try_url_decode(F.replace(text, F.lit("+"), F.lit("%2B")))
    meant = text.contains(_REPLACEMENT) | F.upper(text).contains("%EF%BF%BD")
    return F.when(~text.contains("%"), text).when(meant | ~plain.contains(_REPLACEMENT), plain)


def z85_uuid(text: Column) -> Column:
    """The UUID that 20 characters of Z85 stand for: four words of five digits each. Null where they are none."""
    words = [_word([F.substring(text, 5 * word + digit, 1) for digit in range(1, 6)]) for word in range(4)]
    digits = F.concat(*[F.lpad(F.lower(F.hex(word)), 8, "0") for word in words])
    uuid = F.regexp_replace(digits, "^(.{8})(.{4})(.{4})(.{4})(.{12})$", "$1-$2-$3-$4-$5")
    return F.when(F.length(text) == _UUID_CHARS, uuid)


def _word(digits: list[Column]) -> Column:
    """A 32-bit number; null where a character is no digit or the number is too large."""
    total = F.lit(0).cast("bigint")
    for digit in digits:
        total = total * 85 + F.nullif(F.position(digit, F.lit(Z85)), F.lit(0)) - 1
    return F.when(total < 2**32, total)


def _part(path: Column, pattern: str, group: int) -> Column:
    return F.regexp_extract(path, "(?s)" + pattern, group)


def _struct(bucket: Column, raw_key: Column) -> Column:
    return F.struct(bucket.alias("bucket"), decoded(raw_key).alias("key"))
