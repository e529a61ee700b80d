"""Reads an inventory report as VERSION rows: one per object version, rejected rows among them.

Columns follow the report's own schema: CSV has no header and names its columns in the manifest, ORC and
Parquet name them in their files. CSV keys are form-encoded, those of the other formats are raw. An ORC
timestamp has no zone and is read in the JVM's, so that must be UTC.
"""

from collections.abc import Iterable, Sequence

from pyspark.sql import Column, DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StringType, StructType

from lakeaudit.errors import SourceError
from lakeaudit.evidence.storage.inventory_columns import (
    BY_CSV_NAME,
    BY_NAME,
    REQUIRED,
    TYPES,
    USED,
    VERSIONED,
    Known,
    decoded_key,
    fault_of,
    shown,
    value_of,
)
from lakeaudit.evidence.storage.inventory_manifest import Report
from lakeaudit.keys import ARCHIVE_CLASSES, NULL_VERSION, Location
from lakeaudit.schemas import VERSION, conform

_FILE, _FAULT, _BROKEN = "__file", "__fault", "__broken"
_MAX_LINE = 1 << 18
"""Characters of a CSV line. A row has a few hundred; the parser reserves room for as many columns."""
_ARCHIVE_TIERS = ("ARCHIVE_ACCESS", "DEEP_ARCHIVE_ACCESS", "ARCHIVE", "DEEP_ARCHIVE")
_UTC = ("UTC", "Etc/UTC", "Z", "GMT", "Etc/GMT", "UCT", "Etc/UCT", "Zulu", "Universal")

Types = dict[str, DataType]


def read_versions(
    spark: SparkSession, report: Report, places: Sequence[Location]
) -> tuple[DataFrame, tuple[str, ...]]:
    """(VERSION rows of the report's data files at `places`, warnings).

    Raises:
        SourceError: a format other than CSV, ORC and Parquet; no Bucket or Key column; a column of an
            impossible type; ORC in a JVM that is not in UTC.
    """
    if not places:
        return spark.createDataFrame([], VERSION), ()
    paths = [place.spark_path for place in places]
    is_csv = report.manifest.file_format.upper() == "CSV"
    raw, types, unknown = _csv(spark, report, paths) if is_csv else _columnar(spark, report, paths)
    _require(report, types)
    warnings = [f"columns not known to S3 Inventory are left out: {', '.join(unknown)}"] if unknown else []
    if "is_latest" not in types and any(name in types for name in VERSIONED):
        warnings.append(
            "the report has versions and does not say which are the latest: every key is undecided"
        )
    key = decoded_key(F.col("key")) if is_csv else F.when(F.is_valid_utf8("key"), F.col("key"))
    return _versions(raw, types, report.manifest.source_bucket, key), tuple(warnings)


def _reader(spark: SparkSession) -> DataFrameReader:
    """Paths are names, not patterns: without the option a `[` in a folder's name would find nothing."""
    return spark.read.option("__globPaths__", "false")


def _csv(spark: SparkSession, report: Report, paths: list[str]) -> tuple[DataFrame, Types, list[str]]:
    """Lines are parsed one by one: the whole-file CSV reader fails for good at a line of very many columns."""
    written = [name.strip() for name in report.manifest.file_schema.split(",")]
    known = [BY_CSV_NAME.get(name.lower()) for name in written]
    names = [column.name if column else f"__unknown_{i}" for i, column in enumerate(known)]
    if len(set(names)) < len(names):
        raise SourceError(
            report.place.uri, "names a column twice in fileSchema", "have the report delivered again"
        )
    schema = ", ".join(f"`{name}` string" for name in [*names, _BROKEN])
    options = {"columnNameOfCorruptRecord": _BROKEN, "escape": '"', "maxColumns": str(_MAX_LINE + 2)}
    lines = _reader(spark).text(paths).select("value", F.col("_metadata.file_name").alias(_FILE))
    lines = lines.filter(F.trim("value") != "")
    fits = F.length("value") <= _MAX_LINE
    row = F.from_csv(F.when(fits, F.col("value")), schema, options)
    rows = lines.select(row.alias("row"), "value", _FILE).select("row.*", "value", _FILE)
    wrong = F.col(_BROKEN).isNotNull() | ~fits
    fault = F.when(wrong, F.concat(F.lit(f"no row of {len(names)} columns: "), shown(F.col("value"))))
    unknown = [name for name, column in zip(written, known, strict=True) if column is None]
    return rows.withColumn(_FAULT, fault), {column.name: StringType() for column in known if column}, unknown


def _columnar(spark: SparkSession, report: Report, paths: list[str]) -> tuple[DataFrame, Types, list[str]]:
    """Read by the schema in the first file's footer; what another file lacks is null."""
    form = report.manifest.file_format.lower()
    if form not in ("orc", "parquet"):
        what = f"has data files of format {report.manifest.file_format}"
        raise SourceError(report.place.uri, what, "have the inventory delivered as CSV, ORC or Parquet")
    if form == "orc":
        _require_utc(spark, report)
    footer = _reader(spark).option("mergeSchema", "false").format(form).load(paths[0]).schema
    found = [field for field in footer if field.name.lower() in BY_NAME]
    unknown = [field.name for field in footer if field.name.lower() not in BY_NAME]
    used = [field for field in found if BY_NAME[field.name.lower()] in USED]
    rows = _reader(spark).format(form).schema(StructType(used)).load(paths)
    columns = [F.col(f"`{field.name}`").alias(field.name.lower()) for field in used]
    file = F.col("_metadata.file_name").alias(_FILE)
    rows = rows.select(*columns, file, F.lit(None).cast("string").alias(_FAULT))
    return rows, {field.name.lower(): field.dataType for field in used}, unknown


def _require(report: Report, types: Types) -> None:
    missing = [BY_NAME[name].csv for name in REQUIRED if name not in types]
    if missing:
        what = f"has no column {' and '.join(missing)}"
        raise SourceError(report.place.uri, what, "name the manifest.json of an S3 Inventory report")
    for known in USED:
        found = types.get(known.name)
        if found is not None and not isinstance(found, TYPES[known.holds]):
            what = f"column {known.name} is of type {found.simpleString()}, which is no {known.holds}"
            raise SourceError(report.place.uri, what, "have the report delivered again")


def _require_utc(spark: SparkSession, report: Report) -> None:
    """Asks a JVM that runs tasks; on a cluster it is an executor's."""
    zone = F.reflect(F.lit("java.time.ZoneId"), F.lit("systemDefault"))
    found = spark.range(1).select(zone).first()
    if found is None or found[0] not in _UTC:
        what = f"Spark runs in time zone {found[0] if found else '?'}, in which ORC times would be read wrong"
        raise SourceError(report.place.uri, what, "start driver and executors with -Duser.timezone=UTC")


def _versions(raw: DataFrame, types: Types, bucket: str, key: Column) -> DataFrame:
    used = [known for known in USED if known.name in types]
    values = {known.name: value_of(known, types[known.name]) for known in used} | {
        "key": F.nullif(key, F.lit(""))
    }
    fault = F.coalesce(F.col(_FAULT), *_row_faults(bucket, used, values))
    reject = F.concat_ws(": ", _FILE, fault)
    all_versions = any(name in types for name in VERSIONED)
    told = {name: values.get(name, F.lit(None)) for name in (known.name for known in USED)}
    told |= {} if all_versions else {"is_latest": F.lit(True), "is_delete_marker": F.lit(False)}
    parsed = raw.select(
        *(value.alias(name) for name, value in told.items()),
        F.when(fault.isNotNull(), reject).alias("reject"),
    )
    return conform(_normalised(parsed), VERSION)


def _row_faults(bucket: str, used: Iterable[Known], values: dict[str, Column]) -> list[Column]:
    """The faults a row may have, in the order in which one is named."""
    stranger = F.coalesce(F.col("bucket") != bucket, F.lit(True))
    of_bucket = F.when(
        stranger,
        F.concat(F.lit("row of another bucket: "), F.coalesce(shown(F.col("bucket")), F.lit("none"))),
    )
    no_key = F.when(F.coalesce(F.col("key") == "", F.lit(True)), F.lit("row without a key"))
    return [
        of_bucket,
        no_key,
        *(fault_of(known, values[known.name]) for known in used if known.name != "bucket"),
    ]


def _normalised(rows: DataFrame) -> DataFrame:
    """One spelling for each value, and nothing but the fault of a rejected row."""
    values = {
        "bucket": F.col("bucket"),
        "key": F.col("key"),
        "version_id": F.nullif("version_id", F.lit(NULL_VERSION)),
        "is_latest": F.col("is_latest"),
        "is_delete_marker": F.col("is_delete_marker"),
        "size": F.col("size"),
        "etag": F.nullif(F.trim(F.col("e_tag"), F.lit('"')), F.lit("")),
        "modified_at": F.col("last_modified_date"),
        "storage_class": F.col("storage_class"),
        "archived": archived(F.col("storage_class"), F.upper("intelligent_tiering_access_tier")),
        "multipart": F.col("is_multipart_uploaded"),
        "encryption": F.when(F.col("encryption_status") == "NOT-SSE", "NONE").otherwise(
            F.col("encryption_status")
        ),
    }
    sound = F.col("reject").isNull()
    return rows.select(*(F.when(sound, value).alias(name) for name, value in values.items()), "reject")


def archived(storage_class: Column, tier: Column) -> Column:
    """Whether an object must be restored before it can be read; null where class or tier are not told."""
    tiered = storage_class == "INTELLIGENT_TIERING"
    return F.when(tiered, tier.isin(*_ARCHIVE_TIERS)).otherwise(storage_class.isin(*ARCHIVE_CLASSES))
