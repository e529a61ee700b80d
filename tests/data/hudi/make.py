"""Writes `of_<version>.zip`: Hudi tables as Hudi's own bundle for Spark leaves them, healthy all of them.

Run by hand where they have to be made again, in an environment of its own with pyspark 3.5, and a bundle's jar
(org.apache.hudi:hudi-spark3.5-bundle_2.12 of 0.15.0 writes timeline layout 1, of 1.0.2 layout 2):

    python tests/data/hudi/make.py hudi-spark3.5-bundle_2.12-0.15.0.jar 0.15

makes them all, and with names behind it those tables alone. The zip
holds `<table>/...`; every file keeps the time it was written at in its comment.
"""

import sys
import tempfile
import zipfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

_MOR = "type = 'mor'"
_MADE = """CREATE TABLE {t} (id BIGINT, ts BIGINT, day STRING) USING hudi
    TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts'{props}) {parts} LOCATION '{at}'"""
_NEW = "INSERT INTO {t} SELECT id, ts, day FROM new"
_MORE = "INSERT INTO {t} SELECT id + {n}00, ts, day FROM new"
_UPDATE = "UPDATE {t} SET ts = ts + 1 WHERE id % 2 = 0"
_PLAN_COMPACTION = "CALL run_compaction(op => 'schedule', table => '{name}')"
_COMPACT = "CALL run_compaction(op => 'run', table => '{name}')"
_SOON = "SET hoodie.compact.inline.max.delta.commits = 1"
_LATE = "SET hoodie.compact.inline.max.delta.commits = 9"
_BESIDE = "SET hoodie.datasource.compaction.async.enable = true"
_FAIL = "fail"
"""What a writer leaves that dies just before its last step: the instant's completed file is taken away."""

TABLES: dict[str, tuple[str, tuple[str, ...]]] = {
    "written": ("", (_NEW, _MORE, _UPDATE, "DELETE FROM {t} WHERE id = 3")),
    "unpartitioned": ("plain", (_NEW, _UPDATE)),
    "overwritten": (
        "",
        (_NEW, "INSERT OVERWRITE {t} PARTITION (day = '2026-11-01') SELECT id, ts FROM new", _MORE),
    ),
    "partition_dropped": ("", (_NEW, "ALTER TABLE {t} DROP PARTITION (day = '2026-11-01')")),
    "clustered": ("", (_NEW, _MORE, "CALL run_clustering(table => '{name}')", _MORE)),
    "clustering_planned": (
        "",
        (_NEW, _MORE, "CALL run_clustering(table => '{name}', op => 'schedule')", _MORE),
    ),
    "cleaned": (
        "",
        (
            "SET hoodie.clean.automatic = false",
            *(_NEW, _UPDATE, _UPDATE, _UPDATE),
            "CALL run_clean(table => '{name}', retain_commits => 1)",
            _UPDATE,
        ),
    ),
    "rolled_back": (
        "",
        (_NEW, _MORE, "CALL rollback_to_instant(table => '{name}', instant_time => '{last}')"),
    ),
    "restored": (
        "",
        (
            *(
                _NEW,
                _MORE,
                "CALL create_savepoint(table => '{name}', commit_time => '{last}')",
                _UPDATE,
                _MORE,
            ),
            "CALL rollback_to_savepoint(table => '{name}', instant_time => '{saved}')",
        ),
    ),
    "savepoint": (
        "",
        (
            *(_NEW, "CALL create_savepoint(table => '{name}', commit_time => '{last}')", _UPDATE, _UPDATE),
            "CALL run_clean(table => '{name}', retain_commits => 1)",
        ),
    ),
    "archived": (
        "",
        ("SET keep", *(_NEW, _MORE), *("UPDATE {t} SET ts = ts + 1 WHERE day = '2026-11-01'",) * 8),
    ),
    "archived_merging": (_MOR, ("SET keep", *(_NEW, _MORE), *(_UPDATE,) * 8)),
    "merging": (_MOR, (_NEW, _UPDATE, _UPDATE, "DELETE FROM {t} WHERE id = 3")),
    "compacted": (_MOR, (_NEW, _UPDATE, _SOON, _PLAN_COMPACTION, _COMPACT, _LATE, _UPDATE)),
    "compaction_planned": (_MOR, (_NEW, _UPDATE, _SOON, _PLAN_COMPACTION, _BESIDE, _UPDATE)),
    "changes_kept": ("'hoodie.table.cdc.enabled' = 'true'", (_NEW, _UPDATE)),
    "failed_and_on": ("", (_NEW, _MORE, _FAIL, _MORE)),
    "merging_failed_and_on": (_MOR, (_NEW, _UPDATE, _FAIL, _UPDATE)),
    "empty": ("", ()),
}
"""The properties and the writes of each table, in their order."""

_WITH_METADATA_TABLE = ("written", "restored", "archived", "compacted")
_METADATA_TABLE = ".hoodie/metadata/"
"""The table of its own that Hudi keeps there is larger than all else: that of `restored` alone is packed."""
_KEEP = {
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
    "hoodie.clean.commits.retained": "1",
    "hoodie.cleaner.commits.retained": "1",
    "hoodie.commits.archival.batch": "1",
}
_SMALL = {
    "hoodie.insert.shuffle.parallelism": "1",
    "hoodie.upsert.shuffle.parallelism": "1",
    "hoodie.delete.shuffle.parallelism": "1",
    "hoodie.bulkinsert.shuffle.parallelism": "1",
    "hoodie.embed.timeline.server": "false",
    "hoodie.bloom.index.filter.type": "SIMPLE",
    "hoodie.index.bloom.num_entries": "10",
    "hoodie.parquet.small.file.limit": "0",
    "hoodie.spark.sql.insert.into.operation": "insert",
    "hoodie.rollback.using.markers": "false",
}


def main(jar: str, version: str, names: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        spark = session(jar, folder)
        to = Path(__file__).with_name(f"of_{version.replace('.', '_')}.zip")
        for name in names:
            write(spark, Path(folder, "wh", name), name)
            _pack(Path(folder, "wh"), to, name)
        spark.stop()


def session(jar: str, folder: str) -> Any:
    """A session with Hudi's bundle, and ten rows of two days as the view `new`."""
    from pyspark.sql import SparkSession  # of another environment than the tests'

    settings = {
        "spark.driver.extraClassPath": jar,
        "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
        "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
        "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
        "spark.sql.warehouse.dir": f"{folder}/spark",
        "spark.driver.extraJavaOptions": f"-Dderby.system.home={folder} -Duser.timezone=UTC",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "1",
        "spark.ui.enabled": "false",
        "spark.driver.memory": "2g",
    }
    builder = SparkSession.builder.master("local[1]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    new = "SELECT id, id AS ts, '2026-11-0' || (id % 2 + 1) AS day FROM range(10)"
    spark.sql(new).coalesce(1).createOrReplaceTempView("new")
    return spark


def write(spark: Any, at: Path, name: str) -> None:
    """One of `TABLES`, at its place."""
    kind, statements = TABLES[name]
    set_now = dict(_SMALL)
    set_now["hoodie.metadata.enable"] = str(name in _WITH_METADATA_TABLE).lower()
    for key, value in set_now.items():
        spark.sql(f"SET {key} = {value}")
    props = f", {kind}" if kind not in ("", "plain") else ""
    parts = "" if kind == "plain" else "PARTITIONED BY (day)"
    spark.sql(_MADE.format(t=name, props=props, parts=parts, at=at))
    instants: dict[str, str] = {}
    for number, statement in enumerate(statements):
        print(name, statement[:90], flush=True)  # noqa: T201
        if statement == _FAIL:
            _completed(at)[-1].unlink()
        elif statement.startswith("SET "):
            named = _KEEP if statement == "SET keep" else dict([statement[4:].split(" = ")])
            set_now |= named
            for key, value in named.items():
                spark.sql(f"SET {key} = {value}")
        else:
            if "{last}" in statement:
                instants["last"] = _completed(at)[-1].name.split("_")[0].split(".")[0]
                instants.setdefault("saved", instants["last"])
            spark.sql(statement.format(t=name, name=name, n=number, **instants)).collect()
    for key in set_now:
        spark.conf.unset(key)


def _completed(at: Path) -> list[Path]:
    """Files of completed writes, in the order of their instants."""
    found = [*at.glob(".hoodie/*commit"), *at.glob(".hoodie/timeline/*commit")]
    return sorted(found, key=lambda path: path.name)


def _pack(folder: Path, to: Path, name: str) -> None:
    """Every file with its time: the zip's own have no zone and two seconds, so it stands in the comment."""
    kept = list(_others(to, name))
    with zipfile.ZipFile(to, "w", zipfile.ZIP_DEFLATED) as packed:
        for info, content in kept:
            packed.writestr(info, content)
        for path in sorted(folder.joinpath(name).rglob("*")):
            left_out = _METADATA_TABLE in str(path) and name != "restored"
            if path.is_file() and path.suffix != ".crc" and not left_out:
                info = zipfile.ZipInfo(str(path.relative_to(folder)))
                info.compress_type = zipfile.ZIP_DEFLATED
                info.comment = datetime.fromtimestamp(path.stat().st_mtime, UTC).isoformat().encode()
                packed.writestr(info, path.read_bytes())


def _others(packed: Path, name: str) -> Iterator[tuple[zipfile.ZipInfo, bytes]]:
    """The files of the tables that are there beside."""
    if packed.exists():
        with zipfile.ZipFile(packed) as kept:
            for info in kept.infolist():
                if info.filename.split("/")[0] != name:
                    yield info, kept.read(info)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:] or list(TABLES))
