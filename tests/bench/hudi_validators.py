"""Writes a Hudi table, breaks it, and runs Hudi's own checks: the part of `hudi_peers` that needs pyspark 3.5.

usage: PYTHON -m tests.bench.hudi_validators FOLDER JAR FAULTS    (FAULTS: files or timeline)

The table is `written` of tests/data/hudi/make.py, with its metadata table. It runs procedures of Hudi's
bundle for Spark, and its `RepairUtils`, by which HoodieRepairTool selects files to delete and HoodieDataTableValidator
files to report. The tools themselves are in the utilities bundle, which is not needed for anything else here.
"""

import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.data.hudi import make

TABLE = "written"
NEVER = "0b0e5b5d-3c8f-4f6e-9a52-5d1f0c9e7a11-0"
"""A file group that no commit has written."""
OLD = 3 * 86_400
"""Age in seconds."""


def _newest_first(home: Path, day: str) -> list[Path]:
    """Return base files of a partition, newest first by the instants in their names."""
    return sorted(home.glob(f"day={day}/*.parquet"), key=lambda path: path.stem.split("_")[-1], reverse=True)


def broken_files(home: Path) -> dict[str, Path]:
    """Break files, and return them by fault; two partitions have two live files each."""
    lost, short, *older = _newest_first(home, "2026-11-01")
    other, twin_of, *_ = _newest_first(home, "2026-11-02")
    lost.unlink()
    older[-1].unlink()
    short.write_bytes(short.read_bytes()[:-7])
    other.write_bytes(bytes(len(other.read_bytes())))
    group, _, instant = twin_of.stem.split("_")
    twin = twin_of.with_name(f"{group}_7-7-7_{instant}.parquet")
    shutil.copyfile(twin_of, twin)
    never = twin_of.with_name(f"{NEVER}_0-7-7_20261101000000000.parquet")
    shutil.copyfile(twin_of, never)
    _aged(twin, never)
    return {
        "a file of the newest state is gone": lost,
        "a file that was replaced and not yet cleaned is gone": older[-1],
        "a file of the newest state is cut short": short,
        "a file of the newest state holds other bytes of the same size": other,
        "an attempt's second file of a commit lies there": twin,
        "a write that failed left a file": never,
    }


def broken_timeline(home: Path) -> dict[str, Path]:
    """Remove the second commit and its plan from the timeline; a file that it wrote is still the newest."""
    commits = sorted(home.glob(".hoodie/timeline/*.commit"))
    instant = commits[1].name.split("_")[0]
    for path in home.glob(f".hoodie/timeline/{instant}*"):
        path.unlink()
    (written,) = home.glob(f"day=2026-11-02/*_{instant}.parquet")
    _aged(written)
    return {"a commit is gone from the timeline, of whose files this is one": written}


def _aged(*paths: Path) -> None:
    """Make files older than any write that may still be running."""
    for path in paths:
        os.utime(path, (time.time() - OLD,) * 2)


BREAKERS: Mapping[str, Callable[[Path], dict[str, Path]]] = {
    "files": broken_files,
    "timeline": broken_timeline,
}


def by_procedure(spark: Any, home: Path) -> set[str]:
    """Return differences by the procedure that compares the metadata table with storage."""
    rows = spark.sql(f"CALL validate_metadata_table_files(table => '{TABLE}', verbose => true)").collect()
    return {
        f"{row.partition}/{row.file_name}"
        for row in rows
        if (row.is_present_in_fs, row.fs_size) != (row.is_present_in_metadata, row.metadata_size)
    }


def by_metadata_table(spark: Any, home: Path) -> set[str]:
    """Return differences in name or size of the metadata table and a listing, as HoodieMetadataTableValidator does.

    Both are read with the classes that it uses.
    """
    hudi = spark._jvm.org.apache.hudi
    conf = _conf(spark)
    storage = hudi.storage.hadoop.HoodieHadoopStorage(str(home), conf)
    engine = hudi.common.engine.HoodieLocalEngineContext(conf)
    settings = hudi.common.config.HoodieMetadataConfig.newBuilder().enable(True).build()
    listed = hudi.metadata.FileSystemBackedTableMetadata(engine, storage, str(home))
    table = hudi.metadata.HoodieBackedTableMetadata(engine, storage, settings, str(home))
    sides = [
        {
            (f"{day.name}/{info.getPath().getName()}", info.getLength())
            for day in home.glob("day=*")
            for info in side.getAllFilesInPartition(hudi.storage.StoragePath(str(day)))
        }
        for side in (listed, table)
    ]
    return {path for path, _ in sides[0] ^ sides[1]}


def by_footers(spark: Any, home: Path) -> set[str]:
    """Return files whose footer cannot be read."""
    rows = spark.sql(f"CALL show_invalid_parquet(path => '{home}')").collect()
    return {str(Path(row.path.removeprefix("file:")).relative_to(home)) for row in rows}


def by_repair(spark: Any, home: Path) -> set[str]:
    """Return files that HoodieRepairTool would delete: they have no instant, or their instant does not name them."""
    hudi = spark._jvm.org.apache.hudi
    builder = hudi.common.table.HoodieTableMetaClient.builder()
    meta = builder.setConf(_conf(spark)).setBasePath(str(home)).build()
    active, archived = meta.getActiveTimeline(), meta.getArchivedTimeline()
    archived.loadCompletedInstantDetailsInMemory()
    paths = spark._jvm.java.util.ArrayList()
    for path in home.glob("day=*/*.parquet"):
        paths.add(hudi.storage.StoragePath(str(path)))
    utils = hudi.table.repair.RepairUtils
    by_instant = utils.tagInstantsOfBaseAndLogFiles(str(home), paths)
    return {
        str(path)
        for instant in by_instant
        for path in utils.findInstantFilesToRemove(instant, by_instant[instant], active, archived)
    }


def _conf(spark: Any) -> Any:
    fs = spark._jvm.org.apache.hudi.hadoop.fs.HadoopFSUtils
    return fs.getStorageConfWithCopy(spark._jsc.hadoopConfiguration())


TOOLS: Mapping[str, Callable[[Any, Path], set[str]]] = {
    "`validate_metadata_table_files`": by_procedure,
    "metadata table beside a listing": by_metadata_table,
    "`show_invalid_parquet`": by_footers,
    "`RepairUtils`": by_repair,
}


def main(folder: Path, jar: str, faults: str) -> None:
    """Print JSON as the last line: the files that each tool names, and the path of each fault."""
    home = folder / TABLE
    with make.session(jar, str(folder)) as spark:
        make.write(spark, home, TABLE)
        for checksum in home.rglob(".*.crc"):  # of Hadoop's local file system; object stores have none
            checksum.unlink()
        healthy = {name: _run_tool(tool, spark, home) for name, tool in TOOLS.items()}
        time.sleep(5)
        paths = BREAKERS[faults](home)
        named = {name: _run_tool(tool, spark, home) for name, tool in TOOLS.items()}
    output = {"faults": {fault: str(path.relative_to(home)) for fault, path in paths.items()}}
    sys.stdout.write("\n" + json.dumps(output | {"healthy": healthy, "named": named}) + "\n")


def _run_tool(tool: Callable[[Any, Path], set[str]], spark: Any, home: Path) -> list[str] | str:
    try:
        return sorted(tool(spark, home))
    except Exception as error:  # noqa: BLE001 - an error is the tool's result
        return str(error)[:400]


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
