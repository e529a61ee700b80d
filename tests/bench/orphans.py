"""Compares Iceberg's `remove_orphan_files` with an audit of the same tables and the same list of objects.

usage: python -m tests.bench.orphans SIZE JAR    (of iceberg-spark-runtime)
       python -m tests.bench.orphans spark ENDPOINT FOLDER JAR    (the procedure alone, as a dry run)

The lake is that of `python -m tests.bench SIZE --format iceberg`. The procedure gets the inventory as
`file_list_view`, so it lists nothing, and the audit has no metadata store. For both, the output states whether the
result is exact: for the procedure the files that no snapshot lists, for the audit also missing files and files of
another size.
"""

import json
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb

from lakeaudit.demo.server import own_credentials
from lakeaudit.runtime.connections.aws import Endpoint
from lakeaudit.runtime.session import build_session
from tests.bench import check, contenders
from tests.bench.lake import lake_folder
from tests.bench.server import serving
from tests.bench.spec import BUCKET, ROOT, SCAN, Spec
from tests.bench.watch import ProcessUsage, run_watched

LEFT = ("uncommitted", "unreferenced")
WITHOUT_STORE = (*LEFT, "dropped", "size_mismatch")
"""Kinds that an audit without a metadata store can find."""
MEMORY = "6g"
_CATALOG = {
    "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    "spark.sql.catalog.c": "org.apache.iceberg.spark.SparkCatalog",
    "spark.sql.catalog.c.type": "jdbc",
    "spark.sql.catalog.c.uri": "jdbc:derby:memory:catalog;create=true",
    "spark.sql.catalog.c.warehouse": f"s3://{BUCKET}/warehouse",
    "spark.sql.catalog.c.io-impl": "org.apache.iceberg.hadoop.HadoopFileIO",
    "fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
}
_CALL = """CALL c.system.remove_orphan_files(table => 'b.t{n}', older_than => TIMESTAMP '{at:%Y-%m-%d %H:%M:%S}',
    dry_run => true, file_list_view => 'listed_{n}')"""


def orphans(endpoint: str, folder: Path, jar: str) -> list[str]:
    """Return the keys that the procedure would delete, table by table."""
    s3 = Endpoint(endpoint, "us-east-1", path_style=True)
    extra = _CATALOG | {
        "spark.master": "local[*]",
        "spark.driver.memory": MEMORY,
        "spark.driver.extraClassPath": jar,
    }
    spark = build_session("orphans", s3=s3, extra=extra)
    iceberg: Any = spark._jvm.org.apache.iceberg  # type: ignore[union-attr]
    catalog = iceberg.spark.Spark3Util.loadIcebergCatalog(spark._jsparkSession, "c")
    inventory = spark.read.parquet(str(folder / "inventory" / "data"))
    found: list[str] = []
    for n, home in enumerate(sorted((folder / "logs" / "warehouse").iterdir())):
        root = f"s3://{BUCKET}/warehouse/{home.name}/"
        newest = max((home / "metadata").glob("*.metadata.json")).name
        catalog.registerTable(iceberg.catalog.TableIdentifier.parse(f"b.t{n}"), f"{root}metadata/{newest}")
        listed = inventory.selectExpr(
            "concat('s3://', bucket, '/', key) AS file_path",
            "CAST(last_modified_date AS TIMESTAMP) AS last_modified",
        )
        listed.where(listed.file_path.startswith(root)).createOrReplaceTempView(f"listed_{n}")
        rows = spark.sql(_CALL.format(n=n, at=SCAN)).collect()
        found += [row.orphan_file_location.removeprefix(f"s3://{BUCKET}/") for row in rows]
    spark.stop()
    return found


def compare(spec: Spec, jar: str) -> None:
    """Run both, one after the other, and print their figures."""
    folder, work = lake_folder(spec) / "first", ROOT / "build" / "bench-run"
    shutil.rmtree(work, ignore_errors=True)
    truth = duckdb.execute(f"SELECT kind, key FROM '{folder}/truth.parquet'").fetchall()
    with own_credentials(), serving(str(folder)) as endpoint:
        done = run_watched(
            contenders.module("orphans", "spark", endpoint, str(folder), jar), os.environ, work / "orphans"
        )
        exact = set(json.loads(done.out.splitlines()[-1])) == {key for kind, key in truth if kind in LEFT}
        _tell("remove_orphan_files", done, exact=exact)
        audit = contenders.prepare(work / "audit", folder, endpoint, spec.format, store=False)
        done = run_watched(audit.command, os.environ, work / "logs", allowed=contenders.AUDITED)
        wrong = check.differences(audit.results, audit.run_id, folder / "truth.parquet", WITHOUT_STORE)
        _tell("audit", done, exact=wrong or True)


def _tell(name: str, done: ProcessUsage, *, exact: object) -> None:
    sys.stdout.write(
        f"{name:20} {done.seconds:7.1f} s  CPU {done.cpu:6.1f} s  {done.pss / 2**30:.2f} GiB  "
        f"load {done.load[0]:.1f} to {done.load[1]:.1f}  {exact}\n"
    )
    sys.stdout.flush()


def main(arguments: Sequence[str]) -> None:
    if arguments[0] == "spark":
        sys.stdout.write(json.dumps(orphans(arguments[1], Path(arguments[2]), arguments[3])) + "\n")
    else:
        compare(Spec(arguments[0], format="iceberg"), arguments[1])


if __name__ == "__main__":
    main(sys.argv[1:])
