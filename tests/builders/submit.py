"""spark-submit as the README says it, in an environment that knows nothing of Spark."""

import os
import subprocess
from pathlib import Path

from lakeaudit.runtime.install import make_ready

ROOT = Path(__file__).parents[2]
UNVERIFIED = "-XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote -XX:-UsePerfData"
"""The JVM trusts the classes of Spark's jars: to verify them takes a fifth of the CPU time of a short job."""
BRIEF_JVM = f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m {UNVERIFIED}"
"""Options of a JVM that ends within seconds."""
CHEAP = " ".join(
    f"--conf '{setting}'"
    for setting in (
        f"spark.driver.defaultJavaOptions={BRIEF_JVM}",
        "spark.sql.shuffle.partitions=2",
        "spark.default.parallelism=2",
        "spark.sql.codegen.wholeStage=false",
        "spark.sql.codegen.factoryMode=NO_CODEGEN",
    )
)
"""A cluster's settings would cost this little lake minutes."""


def submission(folder: Path, *arguments: str) -> tuple[list[str], dict[str, str]]:
    """The line of the README, and an environment that knows nothing of Spark; its settings go to `folder`."""
    make_ready(folder / "conf", os.environ)
    clean = {n: v for n, v in os.environ.items() if not n.startswith(("SPARK", "PYSPARK", "JAVA"))}
    line = f'. {folder}/conf/env.sh; exec spark-submit --master "local[2]" {CHEAP} {ROOT}/jobs/audit.py "$@"'
    return ["sh", "-c", line, "sh", *arguments], clean | {"TZ": "America/St_Johns"}


def submitted(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """That line, run to its end."""
    line, env = submission(folder, *arguments)
    return subprocess.run(line, env=env, capture_output=True, text=True, check=False)
