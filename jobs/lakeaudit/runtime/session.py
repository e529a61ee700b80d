"""The only module that builds a Spark session; `spark_settings` has its settings.

Two ways lead here. As a plain program, Python starts Spark's JVM itself, on this machine, with everything
it needs. Under spark-submit the JVM is there already with the user's master and memory; then only what can
still be set is set, and what had to be given at launch (jars, see `lakeaudit.runtime.install`) is checked.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from py4j.java_gateway import JVMView
from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext, __version__
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from lakeaudit.errors import CannotAudit
from lakeaudit.runtime.java import Java, find_java, under_submit
from lakeaudit.runtime.spark_settings import (
    DELTA_EXTENSION,
    S3A,
    SMALL,
    S3Settings,
    hadoop,
    launch_environment,
    launch_settings,
    s3_settings,
    session_settings,
    use_utc,
)

INSTALL = "python -m lakeaudit.runtime.install --delta FOLDER"


def build_session(
    app_name: str,
    *,
    s3: S3Settings | None = None,
    extra: Mapping[str, str] | None = None,
    small: bool = False,
    brief: bool = False,
    delta: bool = True,
) -> SparkSession:
    """A session in UTC, which reads and writes Delta on S3 and locally unless told otherwise.

    Args:
        app_name: what Spark's own pages call it.
        s3: the endpoint of every bucket without settings of its own.
        extra: further Spark settings, which win; those of `bucket_settings` may stand without a prefix.
        small: start fast and compile little, for the demo and tests; of no use for a real lake.
        brief: for a JVM that ends within minutes, before what its second compiler does could pay.
        delta: false where Spark only spreads work over Python workers, as an audit does: it then needs no jars.

    Raises:
        CannotAudit: no usable Java, no jars, or Spark does not start.
    """
    use_utc()
    wanted = session_settings(delta) | (SMALL if small else {})
    wanted |= hadoop(s3_settings(s3) if s3 else {}) | hadoop(extra or {})
    if SparkContext._active_spark_context is not None:
        return _reuse(wanted)
    if not under_submit():
        java = find_java(os.environ)
        wanted = launch_settings(java, small, brief, delta) | wanted
        os.environ.update(_launch_environment(java, wanted["spark.master"]))
    return _start(app_name, wanted, delta)


def is_local() -> bool:
    """Whether tasks run on this machine, beside this process."""
    if not under_submit():
        return True
    SparkContext._ensure_initialized()
    return SparkConf().get("spark.master", "").partition("[")[0] == "local"


def _launch_environment(java: Java, master: str) -> dict[str, str]:
    here = {"SPARK_LOCAL_IP": "127.0.0.1"} if master.startswith("local") else {}
    return launch_environment(java) | here


def _start(app_name: str, wanted: dict[str, str], delta: bool) -> SparkSession:
    try:
        if under_submit():
            wanted = wanted | _appended("spark.executor.extraJavaOptions", wanted)
        spark = SparkSession.builder.appName(app_name).config(map=dict(wanted)).getOrCreate()
    except (PySparkException, Py4JError, OSError) as error:
        told = str(getattr(error, "java_exception", error)).partition("\n")[0]
        raise CannotAudit("Spark", *not_started(told)) from error
    if delta:
        _check_jars(spark)
    _include_wheels(spark)
    _set_utc(spark)
    _remember_classes(spark)
    return spark


def not_started(told: str) -> tuple[str, str]:
    """Return what happened and the way out, by the message of Spark's error.

    A session that is stopped before it is used was refused by the cluster's master, which also happens if the master
    has another version of Spark.
    """
    if _STOPPED not in told:
        return f"did not start ({told})", "`lakeaudit doctor` checks Java"
    return (
        "the master of the cluster did not accept this application",
        f"check the address of the master, and that the cluster has the same version of Spark as here ({__version__})",
    )


_STOPPED = "stopped SparkContext"


def _reuse(wanted: Mapping[str, str]) -> SparkSession:
    """The running session with these endpoints: storage settings are taken over, the rest cannot change."""
    spark = SparkSession.builder.getOrCreate()
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()
    for key, value in wanted.items():
        if key.startswith("spark.hadoop."):
            hadoop.set(key.removeprefix("spark.hadoop."), value)
    return spark


def _appended(key: str, wanted: Mapping[str, str]) -> dict[str, str]:
    """Our options after those the user gave to spark-submit."""
    SparkContext._ensure_initialized()
    given = SparkConf().get(key) or ""
    return {key: given if wanted[key] in given else f"{given} {wanted[key]}".strip()}


def _check_jars(spark: SparkSession) -> None:
    """A JVM that spark-submit started with other settings than ours would fail later, and in other words."""
    for name in (DELTA_EXTENSION, S3A):
        try:
            _jvm(spark).org.apache.spark.util.Utils.classForName(name, False, False)
        except Py4JError:
            hint = f"run `{INSTALL}`, then `. FOLDER/env.sh`, before spark-submit"
            raise CannotAudit("spark-submit", f"its JVM lacks {name}", hint) from None


def _include_wheels(spark: SparkSession) -> None:
    """Spark sends a wheel of `--py-files` to the executors, but only takes zip, egg and jar for importable."""
    context = spark.sparkContext
    sent = [Path(path).name for path in context.getConf().get("spark.submit.pyFiles", "").split(",")]
    includes: list[str] = context._python_includes or []
    context._python_includes = includes + [n for n in sent if n.endswith(".whl") and n not in includes]


class _CachedMembers:
    """A Java class whose members are looked up once."""

    def __init__(self, java_class: Any) -> None:
        self._java_class = java_class

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._java_class, name)
        setattr(self, name, member)
        return member


def _remember_classes(spark: SparkSession) -> None:
    """Look up once what every column asks the JVM for: a class, sought in all jars, and a member of it."""
    jvm = _jvm(spark)
    for name in ("functions", "org.apache.spark.sql.functions", "PythonUtils", "PythonSQLUtils"):
        setattr(jvm, name, _CachedMembers(getattr(jvm, name)))


def _set_utc(spark: SparkSession) -> None:
    """ORC timestamps follow the JVM's zone, not the session's; a JVM of spark-submit may have another one."""
    zone = _jvm(spark).java.util.TimeZone
    zone.setDefault(zone.getTimeZone("UTC"))


def _jvm(spark: SparkSession) -> JVMView:
    jvm = spark.sparkContext._jvm
    return cast("JVMView", jvm)
