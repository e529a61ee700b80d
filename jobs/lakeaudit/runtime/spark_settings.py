"""Spark settings as plain data: those of a session, those of a JVM at its start, and those of S3A for a store."""

import hashlib
import os
import sys
import tempfile
import time
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Protocol

from lakeaudit.runtime.cache import cache_dir, write_once
from lakeaudit.runtime.connections.trust_store import trust_options
from lakeaudit.runtime.jars import ready_jars
from lakeaudit.runtime.java import Java
from lakeaudit.runtime.machine_memory import half_of_memory

DELTA_EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"
S3A = "org.apache.hadoop.fs.s3a.S3AFileSystem"
_AWS_CHAIN = "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider"
_ASSUMED_ROLE = "org.apache.hadoop.fs.s3a.auth.AssumedRoleCredentialProvider"
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_UTC = "-Duser.timezone=UTC"


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


def session_settings(delta: bool) -> dict[str, str]:
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
    "spark.sql.extensions": DELTA_EXTENSION,
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "4",
    "spark.hadoop.fs.s3.impl": S3A,
    "spark.hadoop.fs.s3a.aws.credentials.provider": _AWS_CHAIN,
    # Hadoop's own patience with a store that does not answer is five minutes a file.
    "spark.hadoop.fs.s3a.attempts.maximum": "3",
    "spark.hadoop.fs.s3a.retry.limit": "4",
    "spark.hadoop.fs.s3a.retry.interval": "250ms",
}


def jvm_settings(java: Java, env: Mapping[str, str], *, delta: bool) -> dict[str, str]:
    """Settings of a JVM that starts: jars where `delta` is true, time zone, trusted certificates, quiet logs."""
    log = f"-Dlog4j2.configurationFile={log_configuration(env).as_uri()}"
    return _jars(java, env, delta) | {_JAVA_OPTIONS: _joined([_UTC, log, *trust_options(env)])}


def submit_settings(java: Java, env: Mapping[str, str], *, delta: bool) -> dict[str, str]:
    """Settings of a JVM that spark-submit starts; only those for `delta` contain paths of this machine.

    Without Delta, Java sends no requests to stores, so that it needs no trusted certificates.
    """
    options = [_UTC, *(trust_options(env) if delta else [])]
    return _jars(java, env, delta) | {_JAVA_OPTIONS: _joined(options)}


def _jars(java: Java, env: Mapping[str, str], delta: bool) -> dict[str, str]:
    jars = [jar.as_uri() for jar in ready_jars(java.executable, env)] if delta else []
    return {"spark.jars": ",".join(jars)} if jars else {}


def _joined(options: list[str]) -> str:
    return " ".join(_quoted(option) for option in options)


def log_text() -> bytes:
    """Return the settings of Spark's log."""
    return resources.files("lakeaudit.runtime").joinpath("log4j2.properties").read_bytes()


def log_configuration(env: Mapping[str, str]) -> Path:
    """A copy in the cache: a JVM cannot read from inside the zip that the package may lie in."""
    text = log_text()
    return write_once(cache_dir(env) / f"log4j2-{hashlib.sha256(text).hexdigest()[:12]}.properties", text)


def launch_environment(java: Java) -> dict[str, str]:
    """The environment in which this interpreter's own Spark starts, whatever else is installed."""
    return {
        "JAVA_HOME": str(java.home),
        "SPARK_HOME": str(resources.files("pyspark")),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }


def launch_settings(java: Java, small: bool, brief: bool, delta: bool) -> dict[str, str]:
    """What a JVM that this process starts is given, see `session.build_session`."""
    settings = jvm_settings(java, os.environ, delta=delta) | {
        "spark.master": "local[*]",
        "spark.driver.memory": "2g" if small else f"{_heap()}m",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.python.daemon.module": "lakeaudit.runtime.python_worker",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.warehouse.dir": Path(tempfile.gettempdir(), "lakeaudit-warehouse").as_uri(),
    }
    if small:
        settings[_JAVA_OPTIONS] += f" -XX:+UseSerialGC -Xmn900m {_COMPILE_LATE}"
    if not delta:
        settings["spark.driver.memory"] = f"{min(_heap(), _MEMORY_TO_SPREAD)}m"
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

SMALL = {
    "spark.default.parallelism": "2",
    "spark.sql.shuffle.partitions": "2",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.databricks.delta.merge.materializeSource": "none",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "4",
}


def hadoop(settings: Mapping[str, str]) -> dict[str, str]:
    """The same settings, those of Hadoop under the name by which Spark hands them on."""
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


def _heap() -> int:
    """Return the largest heap in MiB; it only grows as far as it is needed."""
    return max(1024, half_of_memory() >> 20)


def _flag(value: bool) -> str:
    return "true" if value else "false"


def _quoted(option: str) -> str:
    return f'"{option}"' if " " in option else option


def use_utc() -> None:
    """Python turns Spark's timestamps into the process's local time, so that is UTC from here on."""
    os.environ["TZ"] = "UTC"
    time.tzset()
