"""Hadoop's S3Guard: the metadata store S3A kept in DynamoDB (Hadoop 3.0 to 3.3), live or as an export.

One item per file, directory or tombstone. `parent` is `/bucket/path` without a trailing slash, `child` the last part,
both as Hadoop decodes them; `is_dir`, `is_deleted` and `is_authoritative` are BOOL, `file_length`, `mod_time` and
`last_updated` N (times in epoch milliseconds of the client's clock). `last_updated` of 0 is what every rename leaves
and never expires; tombstones (most rows of an ordinary table) carry neither `is_dir` nor a length but 0. The item
`../VERSION` marks the layout (Hadoop, DynamoDBMetadataStoreTableManager and PathMetadataDynamoDBTranslation).
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakeaudit.config import S3Guard
from lakeaudit.errors import SourceError
from lakeaudit.evidence.metastore.dynamodb_export import read_export
from lakeaudit.evidence.metastore.dynamodb_scan import Picture, scan
from lakeaudit.evidence.protocol import Clock, Context, Entries, SourceInfo, utc_now
from lakeaudit.keys import NULL_VERSION, Location
from lakeaudit.longest_prefix_match import attach_label
from lakeaudit.runtime.aws import Clients, code_of, explain
from lakeaudit.runtime.endpoints import endpoint
from lakeaudit.schemas import ENTRY, conform

MARKER = "../VERSION"
LAYOUT = "100"
TEXTS = ("parent", "child", "etag", "version_id")
FLAGS = ("is_dir", "is_deleted", "is_authoritative")
NUMBERS = ("file_length", "mod_time", "last_updated", "table_version")
ATTRIBUTES = (*TEXTS, *FLAGS, *NUMBERS)

LAST_MILLISECOND = 253_402_300_799_999
"""The end of the year 9999: what a later time would be, Python and Spark cannot say."""
LARGEST = (1 << 63) - 1


def read(source: S3Guard, ctx: Context, source_id: str, clock: Clock = utc_now) -> Entries:
    """The entries below the source's location: a live Scan, or the newest fitting export where one is named.

    Raises:
        SourceError: the table or export cannot be read, has another layout, or a live table is asked for its past.
    """
    if source.export is not None:
        picture = read_export(source.export, source.table, ATTRIBUTES, ctx, source_id)
        _check_items(picture, source)
    else:
        picture = _live(source, ctx, clock)
    scope = () if source.location is None else (source.location,)
    frame = entries(picture.items, source, source_id, picture.cut.start)
    info = SourceInfo(
        source_id, "metastore", source.kind, _place(source), picture.identity, picture.cut, picture.count
    )
    return Entries(info, frame, scope, source.ttl, picture.holes, picture.warnings)


def entries(items: DataFrame, source: S3Guard, source_id: str, at: datetime) -> DataFrame:
    """Items as rows of schemas.ENTRY, judged for expiry at `at`; the marker and other places' rows are left out."""
    marker = F.col("parent.S").eqNullSafe(MARKER) & F.col("child.S").eqNullSafe(MARKER)
    told = [_reject().alias("reject"), F.coalesce(*_misplaced()).isNotNull().alias("misplaced")]
    rows = items.filter(~marker).select(F.lit(source_id).alias("source"), *_columns(), *told)
    rows = _with_honoured(rows, source).withColumn("expired", _expired(source, at))
    return conform(rows.filter(_in_scope(source.location)), ENTRY)


def get_entry(source: S3Guard, clients: Clients, bucket: str, key: str) -> dict[str, Any] | None:
    """The item of one key as plain values by attribute name, read now and consistently; None: there is none.

    Raises:
        SourceError: the table cannot be read, or the source is an export, which has no point reads.
    """
    if source.export is not None or source.table is None:
        raise SourceError(
            _place(source), "an export has no point reads", "see the last audit, or name the table"
        )
    parent, _, child = f"/{bucket}/{key.rstrip('/')}".rpartition("/")
    item = _get(source, clients, parent, child)
    return None if item is None else {name: next(iter(value.values())) for name, value in item.items()}


def _columns() -> list[Column]:
    folder = F.regexp_replace("parent.S", r"\A/[^/]*/?", "")
    child = F.col("child.S")
    updated = _number("last_updated", LAST_MILLISECOND)
    return [
        F.split_part("parent.S", F.lit("/"), F.lit(2)).alias("bucket"),
        F.when(folder == "", child).otherwise(F.concat(folder, F.lit("/"), child)).alias("key"),
        folder.alias("parent"),
        _flag("is_dir").alias("is_dir"),
        _flag("is_deleted").alias("tombstone"),
        _flag("is_authoritative").alias("authoritative"),
        _number("file_length", LARGEST).alias("size"),
        F.nullif(F.trim("etag.S", F.lit('"')), F.lit("")).alias("etag"),
        F.when(~F.col("version_id.S").isin("", NULL_VERSION), F.col("version_id.S")).alias("version_id"),
        F.timestamp_millis(F.nullif(_number("mod_time", LAST_MILLISECOND), F.lit(0))).alias("mod_time"),
        F.timestamp_millis(F.nullif(updated, F.lit(0))).alias("last_updated"),
        F.col("last_updated").isNotNull().alias("last_updated_given"),
    ]


def _flag(name: str) -> Column:
    return F.coalesce(F.col(f"{name}.BOOL"), F.lit(False))


def _number(name: str, largest: int) -> Column:
    """A whole number from 0 to `largest`, else null. DynamoDB hands numbers over as text, up to 38 digits."""
    value = F.col(f"{name}.N").try_cast("decimal(38,6)")
    return F.when((value == F.floor(value)) & value.between(0, largest), value.cast("bigint"))


def _reject() -> Column:
    """Why an item cannot be understood, with its keys; null for a sound one."""
    faults = [
        *_misplaced(),
        *(_mistyped(name, "S", "is no text") for name in ("etag", "version_id")),
        *(_mistyped(name, "BOOL", "is neither true nor false") for name in FLAGS),
        _misnumbered("file_length", LARGEST, "is no number of bytes"),
        *(_misnumbered(name, LAST_MILLISECOND, "is no time") for name in ("mod_time", "last_updated")),
    ]
    keys = [F.coalesce(F.col(f"{name}.S"), F.lit("?")) for name in ("parent", "child")]
    return F.concat(F.coalesce(*faults), F.lit(" in the item of "), F.concat_ws("/", *keys))


def _misplaced() -> list[Column]:
    """What keeps an item from being about any key at all."""
    return [
        _unless(r"\A/[^/]+(/[^/]+)*\z", "parent", "parent is no path below a bucket"),
        _unless(r"\A[^/]+\z", "child", "child is no name"),
    ]


def _unless(pattern: str, name: str, fault: str) -> Column:
    fits = F.coalesce(F.col(f"{name}.S").rlike(pattern), F.lit(False))
    return F.when(~fits, F.lit(fault))


def _mistyped(name: str, kind: str, fault: str) -> Column:
    return F.when(F.col(name).isNotNull() & F.col(f"{name}.{kind}").isNull(), F.lit(f"{name} {fault}"))


def _misnumbered(name: str, largest: int, fault: str) -> Column:
    return F.when(F.col(name).isNotNull() & _number(name, largest).isNull(), F.lit(f"{name} {fault}"))


def _with_honoured(rows: DataFrame, source: S3Guard) -> DataFrame:
    """Where readers trust the store alone: as S3A does, the directory a prefix names is itself under it."""
    if isinstance(source.authoritative, str):
        return rows.withColumn("honoured", F.lit(source.authoritative == "all"))
    as_folder = rows.withColumn("own_key", F.col("key")).withColumn("key", F.concat("key", F.lit("/")))
    labelled = attach_label(as_folder, dict.fromkeys(source.authoritative, "y"), "trusted")
    found = labelled.withColumn("honoured", F.col("trusted").isNotNull()).withColumn("key", F.col("own_key"))
    return found.drop("trusted", "own_key")


def _expired(source: S3Guard, at: datetime) -> Column:
    if source.ttl is None:
        return F.lit(False)
    until = F.lit(at - source.ttl)
    return ~F.col("honoured") & F.coalesce(F.col("last_updated") <= until, F.lit(False))


def _in_scope(location: Location | None) -> Column:
    """Rows of the location, and those of which nobody can say where they belong."""
    if location is None:
        return F.lit(True)
    inside = (F.col("bucket") == location.bucket) & F.startswith("key", F.lit(location.prefix))
    return F.col("misplaced") | F.coalesce(inside, F.lit(False))


def _live(source: S3Guard, ctx: Context, clock: Clock) -> Picture:
    table = source.table or ""
    if not ctx.live:
        raise SourceError(
            _place(source), "a live table cannot show its past", "name an export, or leave --as-of out"
        )
    _check_marker(_get(source, ctx.clients, MARKER, MARKER), source, ctx.clients)
    return scan(table, ATTRIBUTES, endpoint(source.s3), ctx, clock)


def _check_marker(item: Mapping[str, Any] | None, source: S3Guard, clients: Clients) -> None:
    """Hadoop's own rule: a table without the marker that is not empty, or of another version, is not opened."""
    if item is None:
        if _call(source, clients, "scan", Limit=1)["Items"]:
            raise _other_layout(source, f"it has no {MARKER} item")
        return
    version = item.get("table_version", {}).get("N")
    if version != LAYOUT:
        raise _other_layout(source, f"its version is {version}, not {LAYOUT}")


def _check_items(picture: Picture, source: S3Guard) -> None:
    """The same rule for an export; where parts of it are missing, the marker may be among them."""
    marker = (F.col("parent.S") == MARKER) & (F.col("child.S") == MARKER)
    path = F.col("parent.S").startswith("/") & F.col("child.S").isNotNull()
    seen = picture.items.agg(
        F.max(F.when(marker, F.coalesce("table_version.N", F.lit("none")))), F.count_if(path)
    )
    version, paths = seen.first() or (None, 0)
    if version not in (None, LAYOUT):
        raise _other_layout(source, f"its version is {version}, not {LAYOUT}")
    if picture.count > 0 and not paths and (version is None or picture.count > 1):
        raise _other_layout(source, "no item has a parent and a child")
    if picture.count > 0 and version is None and not picture.holes:
        raise _other_layout(source, f"it has no {MARKER} item")


def _other_layout(source: S3Guard, why: str) -> SourceError:
    what = f"is an S3Guard table of another layout, or none: {why}"
    return SourceError(_place(source), what, "name a table that Hadoop 3.0 to 3.3 wrote")


def _get(source: S3Guard, clients: Clients, parent: str, child: str) -> dict[str, Any] | None:
    keys = {"parent": {"S": parent}, "child": {"S": child}}
    found: dict[str, Any] | None = _call(source, clients, "get_item", Key=keys, ConsistentRead=True).get(
        "Item"
    )
    return found


def _call(source: S3Guard, clients: Clients, operation: str, **asked: Any) -> dict[str, Any]:
    client = clients.dynamodb(endpoint(source.s3))
    try:
        answer: dict[str, Any] = getattr(client, operation)(TableName=source.table, **asked)
    except ClientError as error:
        if code_of(error) == "ValidationException":
            raise _other_layout(source, "its keys are not parent and child") from error
        raise SourceError(_place(source), *explain(error)) from error
    except BotoCoreError as error:
        raise SourceError(_place(source), *explain(error)) from error
    return answer


def _place(source: S3Guard) -> str:
    if source.export is not None:
        return source.export.uri
    return f"DynamoDB table {source.table}"
