"""The one place that builds a Spark session: Java, jars, UTC, Delta, S3A, quiet logs.

Two ways lead here. As a plain program, Python starts Spark's JVM itself, on this machine, with everything
it needs. Under spark-submit the JVM is there already with the user's master and memory; then only what can
still be set is set, and what had to be given at launch (jars, see `lakeaudit.runtime.install`) is checked.
"""

import hashlib
import os
import sys
import tempfile
import time
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any, Protocol, cast

from py4j.java_gateway import JVMView
from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from lakeaudit.errors import CannotAudit
from lakeaudit.runtime.cache import cache_dir, write_once
from lakeaudit.runtime.jars import ready_jars
from lakeaudit.runtime.java import Java, find_java, under_submit
from lakeaudit.runtime.trust_store import trust_options

_DELTA_EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"
_S3A = "org.apache.hadoop.fs.s3a.S3AFileSystem"
_AWS_CHAIN = "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider"
_ASSUMED_ROLE = "org.apache.hadoop.fs.s3a.auth.AssumedRoleCredentialProvider"
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"


class S3Settings(Protocol):
    """How to reach one S3 endpoint; None or False leaves a choice to the AWS chain."""

    @property
    def endpoint(self) -> str | None: ...
    @property
    def region(self) -> str | None: ...
    @property
    def path_style(self) -> bool: ...
    @property
    def role_arn(self) -> str | None: ...
    @property
    def external_id(self) -> str | None: ...
    @property
    def requester_pays(self) -> bool: ...


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
    wanted = session_settings(delta) | (_SMALL if small else {})
    wanted |= _hadoop(s3_settings(s3) if s3 else {}) | _hadoop(extra or {})
    if SparkContext._active_spark_context is not None:
        return _reuse(wanted)
    if not under_submit():
        java = find_java(os.environ)
        wanted = _launch_settings(java, small, brief, delta) | wanted
        os.environ.update(_launch_environment(java, wanted["spark.master"]))
    return _start(app_name, wanted, delta)


def check_java() -> None:
    """Say before anything is begun that there is no Java, where this process has to start it.

    Raises:
        CannotAudit: no usable Java.
    """
    if not under_submit():
        find_java(os.environ)


def bucket_settings(bucket: str, s3: S3Settings) -> dict[str, str]:
    """S3A settings (`fs.s3a.bucket.<bucket>.*`) for a bucket that has an endpoint of its own."""
    return {
        key.replace("fs.s3a.", f"fs.s3a.bucket.{bucket}.", 1): value for key, value in s3_settings(s3).items()
    }


def s3_settings(s3: S3Settings) -> dict[str, str]:
    """S3A settings (`fs.s3a.*`) of one endpoint. Credentials come from the AWS chain and never from here."""
    settings = {
        "fs.s3a.path.style.access": _flag(s3.path_style),
        "fs.s3a.requester.pays.enabled": _flag(s3.requester_pays),
    }
    if s3.endpoint:
        settings["fs.s3a.endpoint"] = s3.endpoint
        settings["fs.s3a.connection.ssl.enabled"] = _flag(not s3.endpoint.startswith("http://"))
    if region := s3.region or (_region_of_chain() if s3.endpoint else None):
        settings["fs.s3a.endpoint.region"] = region
    return settings | (_role_settings(s3, s3.role_arn) if s3.role_arn else {})


def session_settings(delta: bool = True) -> dict[str, str]:
    """What every session needs, wherever it runs; with `delta` what reads and writes Delta on S3."""
    return _PLAIN | (_DELTA if delta else _SPREADING)


_PLAIN = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Notes the caller's line with every column made, by two calls to the JVM each.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    "spark.executorEnv.TZ": "UTC",
    "spark.executor.extraJavaOptions": "-Duser.timezone=UTC",
}
_SPREADING = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""Few fat rows pass through the JVM: compiling a plan costs more than it saves."""
_DELTA = {
    "spark.sql.extensions": _DELTA_EXTENSION,
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "4",
    "spark.hadoop.fs.s3.impl": _S3A,
    "spark.hadoop.fs.s3a.aws.credentials.provider": _AWS_CHAIN,
    # Hadoop's own patience with a store that does not answer is five minutes a file.
    "spark.hadoop.fs.s3a.attempts.maximum": "3",
    "spark.hadoop.fs.s3a.retry.limit": "4",
    "spark.hadoop.fs.s3a.retry.interval": "250ms",
}


def jvm_settings(java: Java, env: Mapping[str, str], *, delta: bool = True) -> dict[str, str]:
    """What Spark must be told before its JVM starts: jars, time zone, trusted certificates, quiet logs."""
    log = log_configuration(env).as_uri()
    options = ["-Duser.timezone=UTC", f"-Dlog4j2.configurationFile={log}", *trust_options(env)]
    jars = [jar.as_uri() for jar in ready_jars(java.executable, env)] if delta else []
    return ({"spark.jars": ",".join(jars)} if jars else {}) | {
        _JAVA_OPTIONS: " ".join(_quoted(option) for option in options)
    }


def log_configuration(env: Mapping[str, str]) -> Path:
    """A copy in the cache: a JVM cannot read from inside the zip that the package may lie in."""
    text = resources.files("lakeaudit.runtime").joinpath("log4j2.properties").read_bytes()
    return write_once(cache_dir(env) / f"log4j2-{hashlib.sha256(text).hexdigest()[:12]}.properties", text)


def launch_environment(java: Java) -> dict[str, str]:
    """The environment in which this interpreter's own Spark starts, whatever else is installed."""
    import pyspark

    return {
        "JAVA_HOME": str(java.home),
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }


def use_utc() -> None:
    """Python turns Spark's timestamps into the process's local time, so that is UTC from here on."""
    os.environ["TZ"] = "UTC"
    time.tzset()


def _launch_settings(java: Java, small: bool, brief: bool, delta: bool) -> dict[str, str]:
    settings = jvm_settings(java, os.environ, delta=delta) | {
        "spark.master": "local[*]",
        "spark.driver.memory": "2g" if small else f"{_half_of_memory()}m",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.python.daemon.module": "lakeaudit.runtime.python_worker",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.warehouse.dir": Path(tempfile.gettempdir(), "lakeaudit-warehouse").as_uri(),
    }
    if small:
        settings[_JAVA_OPTIONS] += f" -XX:+UseSerialGC -Xmn900m {_COMPILE_LATE}"
    if not delta:
        settings["spark.driver.memory"] = f"{min(_half_of_memory(), _MEMORY_TO_SPREAD)}m"
    if brief:
        settings[_JAVA_OPTIONS] += " -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
    return settings


_MEMORY_TO_SPREAD = 4096
"""MiB of heap where Spark only carries chunks, which it spills; the work is done in Python workers beside it."""

_COMPILE_LATE = " ".join(
    f"-XX:Tier4{threshold}"
    for threshold in (
        "InvocationThreshold=60000",
        "MinInvocationThreshold=7200",
        "CompileThreshold=180000",
        "BackEdgeThreshold=480000",
    )
)
"""The second compiler's usual thresholds by twelve: it takes half of a small lake's CPU time, and pays back little."""

_SMALL = {
    "spark.default.parallelism": "2",
    "spark.sql.shuffle.partitions": "2",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.databricks.delta.merge.materializeSource": "none",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "4",
}


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
        raise CannotAudit(
            "Spark", f"did not start ({told})", "`lakeaudit doctor` checks Java and jars"
        ) from error
    if delta:
        _check_jars(spark)
    _include_wheels(spark)
    _set_utc(spark)
    _remember_classes(spark)
    return spark


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
    for name in (_DELTA_EXTENSION, _S3A):
        try:
            _jvm(spark).org.apache.spark.util.Utils.classForName(name, False, False)
        except Py4JError:
            way_out = "take over the variables of .venv/spark-conf/env.sh first"
            raise CannotAudit("spark-submit", f"its JVM lacks {name}", way_out) from None


def _include_wheels(spark: SparkSession) -> None:
    """Spark sends a wheel of `--py-files` to the executors, but only takes zip, egg and jar for importable."""
    context = spark.sparkContext
    sent = [Path(path).name for path in context.getConf().get("spark.submit.pyFiles", "").split(",")]
    includes: list[str] = context._python_includes or []
    context._python_includes = includes + [n for n in sent if n.endswith(".whl") and n not in includes]


class _Remembered:
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
        setattr(jvm, name, _Remembered(getattr(jvm, name)))


def _set_utc(spark: SparkSession) -> None:
    """ORC timestamps follow the JVM's zone, not the session's; a JVM of spark-submit may have another one."""
    zone = _jvm(spark).java.util.TimeZone
    zone.setDefault(zone.getTimeZone("UTC"))


def _jvm(spark: SparkSession) -> JVMView:
    jvm = spark.sparkContext._jvm
    return cast("JVMView", jvm)


def _hadoop(settings: Mapping[str, str]) -> dict[str, str]:
    return {f"spark.hadoop.{key}" if key.startswith("fs.") else key: value for key, value in settings.items()}


def _role_settings(s3: S3Settings, role: str) -> dict[str, str]:
    settings = {
        "fs.s3a.aws.credentials.provider": _ASSUMED_ROLE,
        "fs.s3a.assumed.role.credentials.provider": _AWS_CHAIN,
        "fs.s3a.assumed.role.arn": role,
        "fs.s3a.assumed.role.session.name": "lakeaudit",
    }
    return settings | ({"fs.s3a.assumed.role.external.id": s3.external_id} if s3.external_id else {})


def _region_of_chain() -> str:
    """A store that is not AWS's own seldom cares, but requests must be signed for some region."""
    return os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or "us-east-1"


def _half_of_memory() -> int:
    """MiB; the heap only grows as far as it is needed."""
    return max(1024, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**21)


def _flag(value: bool) -> str:
    return "true" if value else "false"


def _quoted(option: str) -> str:
    return f'"{option}"' if " " in option else option
