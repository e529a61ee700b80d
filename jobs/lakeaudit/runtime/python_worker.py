"""The process that a local Spark forks its Python workers from.

Spark names its own library to Python twice: installed, and as archives (pyspark.zip, its py4j, the jar of its
core), which come first. From an archive every module is compiled again in every process, and the archives'
directories are read again for every task: seconds of each audit. So the archives leave the path, and what all
workers need is imported once, before they fork.

Executors may start it, too, where the package is installed for their Python. What `--py-files` sends is not on the
path of a daemon: such a cluster keeps Spark's own.
"""

import os
import sys
from importlib import import_module

PRELOADED = (
    "pandas",
    "pyarrow.compute",
    "pyarrow.parquet",
    "duckdb",
    "lakeaudit.audit.kernel",
    "lakeaudit.checks.selections",
    "lakeaudit.engine.encoded_chunks",
)


def leave_archives(spark_home: str) -> None:
    """Remove Spark's own archives from the import path; the installed package has the same modules."""
    ours = tuple(e for e in sys.path if e.startswith(spark_home) and e.endswith((".zip", ".jar")))
    sys.path[:] = [entry for entry in sys.path if entry not in ours]
    for searched in [place for place in sys.path_importer_cache if place.startswith(ours)]:
        del sys.path_importer_cache[searched]
    sys.modules.pop("org", None)  # Python's copy and pickle try Jython's `org` and find that of the jar


if __name__ == "__main__":
    if home := os.environ.get("SPARK_HOME"):
        leave_archives(home)
    for module in PRELOADED:
        import_module(module)
    import_module("lakeaudit.evidence.registry").import_readers()
    import_module("pyspark.daemon").manager()
