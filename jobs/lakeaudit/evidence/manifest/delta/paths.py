"""Where the paths of Delta actions point, as SQL expressions: decoded exactly once, into bucket and key.

`add.path`, `remove.path` and `cdc.path` are RFC 2396 text, relative to the table's root or absolute. Both Spark and
delta-rs escape a partition value for the folder name first (`:` to `%3A`) and the folder name for the log after that
(`%253A`), so one decoding gives the key as storage has it. Arguments and results are SQL text.
"""

import re

from lakeaudit.runtime.duck import literal

Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
"""The alphabet of ZeroMQ's base 85 (rfc.zeromq.org/spec/32), in which Delta writes the UUIDs of deletion vectors."""
UUID_CHARS = 20

_S3 = r"(?s)^(?i:s3|s3a|s3n)://([^/]+)/?(.*)$"
_FILE = r"(?s)^(?i:file):(?://[^/]*)?/(.*)$"
_SCHEME = r"^[A-Za-z][A-Za-z0-9+.\-]*:"
_OTHER = r"(?s)^([A-Za-z][A-Za-z0-9+.\-]*:(?://[^/]*)?)/?(.*)$"
_Z85_UUID = rf"^[{re.escape(Z85)}]{{{UUID_CHARS}}}$"
_POWERS = [85**power for power in range(4, -1, -1)]
_BAD_ESCAPE = r"%(?:\z|[^0-9A-Fa-f]|[0-9A-Fa-f](?:\z|[^0-9A-Fa-f]))"


def bucket(path: str, root_bucket: str) -> str:
    """The bucket of a path.

    A path of another kind of store keeps scheme and authority as its bucket, so that no source covers it.
    """
    return (
        f"CASE WHEN {_is_relative(path)} THEN {root_bucket} WHEN {_matches(path, _S3)} THEN {_group(path, _S3, 1)} "
        f"WHEN {_matches(path, _FILE)} THEN '' WHEN {_matches(path, _SCHEME)} THEN {_group(path, _OTHER, 1)} "
        f"WHEN starts_with({path}, '/') THEN '' ELSE {root_bucket} END"
    )


def key(path: str, root_prefix: str) -> str:
    """The key of a path; null where the path is null or holds a malformed escape."""
    relative = f"{root_prefix} || {decoded(path)}"
    return (
        f"CASE WHEN {_is_relative(path)} THEN {relative} "
        f"WHEN {_matches(path, _S3)} THEN {decoded(_group(path, _S3, 2))} "
        f"WHEN {_matches(path, _FILE)} THEN {decoded(_group(path, _FILE, 1))} "
        f"WHEN {_matches(path, _SCHEME)} THEN {decoded(_group(path, _OTHER, 2))} "
        f"WHEN starts_with({path}, '/') THEN {decoded(f'substr({path}, 2)')} ELSE {relative} END"
    )


def is_absolute(path: str) -> str:
    """Whether a path has a scheme or begins with a slash."""
    return f"(starts_with({path}, '/') OR (contains({path}, ':') AND {_matches(path, _SCHEME)}))"


def decoded(text: str) -> str:
    """Percent-escapes undone once, as UTF-8; `+` stays. Null where an escape is malformed or not UTF-8."""
    return (
        f"CASE WHEN NOT contains({text}, '%') THEN {text} "
        f"WHEN NOT {_matches(text, _BAD_ESCAPE)} THEN TRY(url_decode({text})) END"
    )


def vector_bucket(kind: str, text: str, root_bucket: str) -> str:
    """The bucket of the file that holds a deletion vector of this `storageType` and `pathOrInlineDv`."""
    return f"CASE WHEN {kind} = 'p' THEN {bucket(text, root_bucket)} ELSE {root_bucket} END"


def vector_key(kind: str, text: str, root_prefix: str) -> str:
    """The key of the file that holds a deletion vector; null where the descriptor cannot be understood.

    Rule: "Derived Fields" of the Delta protocol. Inline vectors (`storageType` i) have no file.
    """
    folder = f"substr({text}, 1, greatest(length({text}) - {UUID_CHARS}, 0))"
    name = f"'deletion_vector_' || {z85_uuid(f'right({text}, {UUID_CHARS})')} || '.bin'"
    own = f"{root_prefix} || CASE WHEN {folder} = '' THEN '' ELSE {folder} || '/' END || {name}"
    return f"CASE {kind} WHEN 'u' THEN {own} WHEN 'p' THEN {key(text, root_prefix)} END"


def vector_id(kind: str, text: str, offset: str) -> str:
    """The protocol's uniqueId of a deletion vector."""
    return f"coalesce({kind}, '') || coalesce({text}, '') || coalesce('@' || {offset}, '')"


def z85_uuid(text: str) -> str:
    """The UUID that 20 characters of Z85 stand for: four words of five digits each. Null where they are none."""
    digit = f"(strpos({literal(Z85)}, substr({text}, 5 * word + place + 1, 1)) - 1)"
    total = f"list_sum(list_transform(range(5), lambda place: {digit} * {_POWERS}[place + 1]))"
    digits = (
        f"array_to_string(list_transform(range(4), lambda word: format('{{:08x}}', {total}::BIGINT)), '')"
    )
    whole = f"nullif(regexp_extract({digits}, '^.{{32}}$'), '')"  # longer: a word has more than 32 bits
    parts = "'^(.{8})(.{4})(.{4})(.{4})(.{12})$', '\\1-\\2-\\3-\\4-\\5'"
    return f"CASE WHEN {_matches(text, _Z85_UUID)} THEN regexp_replace({whole}, {parts}) END"


def _is_relative(path: str) -> str:
    """True of nearly all paths; the few others with a colon are looked at more closely."""
    return f"NOT contains({path}, ':') AND NOT starts_with({path}, '/')"


def _matches(text: str, pattern: str) -> str:
    return f"regexp_matches({text}, {literal(pattern)})"


def _group(text: str, pattern: str, number: int) -> str:
    return f"regexp_extract({text}, {literal(pattern)}, {number})"
