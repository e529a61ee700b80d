"""spark-submit as the README says it, in an environment that knows nothing of Spark."""

import os
import subprocess
from pathlib import Path

from lakeaudit.install import make_ready

ROOT = Path(__file__).parents[2]
CHEAP = " ".join(
    f"--conf '{setting}'"
    for setting in (
        "spark.driver.defaultJavaOptions=-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m",
        "spark.sql.shuffle.partitions=2",
        "spark.default.parallelism=2",
        "spark.sql.codegen.wholeStage=false",
        "spark.sql.codegen.factoryMode=NO_CODEGEN",
    )
)
"""A cluster's settings would cost this little lake minutes."""


def submitted(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The line of the README, in an environment that knows nothing of Spark."""
    make_ready(folder / "conf", os.environ)
    clean = {n: v for n, v in os.environ.items() if not n.startswith(("SPARK", "PYSPARK", "JAVA"))}
    clean["TZ"] = "America/St_Johns"
    line = f'. {folder}/conf/env.sh; spark-submit --master "local[2]" {CHEAP} {ROOT}/jobs/audit.py "$@"'
    return subprocess.run(
        ["sh", "-c", line, "sh", *arguments], env=clean, capture_output=True, text=True, check=False
    )
