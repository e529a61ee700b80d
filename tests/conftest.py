"""One Spark session and one S3 and DynamoDB server for all tests. Tests keep apart by buckets of their own."""

import atexit
import fcntl
import gc
import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from hypothesis import HealthCheck, settings
from pyspark.sql import SparkSession
from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]

from lakeaudit.cli.process import GARBAGE
from lakeaudit.demo.server import moto
from lakeaudit.runtime.connections import aws as aws_module
from lakeaudit.runtime.connections.aws import Clients, Endpoint
from lakeaudit.runtime.connections.reach import listens
from lakeaudit.runtime.session import build_session
from lakeaudit.runtime.spark_settings import use_utc
from tests.builders.cluster import OTHER_SPARK
from tests.builders.quick_gates import quicken_gates
from tests.builders.quick_server import quicken
from tests.builders.submit import UNVERIFIED
from tests.builders.wheel import bare_python, build_wheel

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_s3 import S3Client

settings.register_profile(
    "lakeaudit",
    deadline=None,
    max_examples=10,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
settings.register_profile("many", settings.get_profile("lakeaudit"), max_examples=300)
settings.load_profile("lakeaudit")

_HERMETIC = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_REGION": "us-east-1",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "NO_PROXY": "127.0.0.1,localhost",
    "no_proxy": "127.0.0.1,localhost",
}


class Aws(NamedTuple):
    """boto3 clients of the tests' own server."""

    s3: "S3Client"
    dynamodb: "DynamoDBClient"


def pytest_configure() -> None:
    """Nothing of this machine's AWS set-up reaches a test, nor a process that a test starts."""
    for name in [name for name in os.environ if name.startswith("AWS_") and name != "AWS_CA_BUNDLE"]:
        del os.environ[name]
    os.environ.update(_HERMETIC)
    use_utc()
    quicken_gates()
    gc.disable()  # what tests are collected from is no garbage


def pytest_collection_finish() -> None:
    """All that was imported and collected stays, so that no collection of garbage need look at it again.

    Those of a test are as rare as those of a command.
    """
    gc.freeze()
    gc.set_threshold(GARBAGE)
    gc.enable()


def pytest_unconfigure() -> None:
    """Hypothesis hangs itself into the collector, and DuckDB's binding takes that for a leak at the end.

    Until the very end all stays frozen: pytest collects garbage five times once this returned.
    """
    gc.callbacks.clear()
    atexit.register(gc.unfreeze)


ON_SESSION = "tests/spark/"
OF_THEIR_OWN = ("test_cluster.py", "test_kill.py")
"""Files there that start Spark in processes of their own."""
IN_BROWSER = "tests/page/"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whatever asks for the session is a Spark test: `-m "not spark"` is the quick loop."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            assert item.nodeid.startswith((ON_SESSION, "tests/soak/")), f"a second session for {item.nodeid}"
            item.add_marker("spark")


class ByFileAndSession(LoadFileScheduling):  # type: ignore[misc]
    """Every file is run by one process, and those that share the session or the browser by the same one."""

    def _split_scope(self, nodeid: str) -> str:
        file = str(super()._split_scope(nodeid))
        if file.endswith(OF_THEIR_OWN):
            return file
        return next((shared for shared in (ON_SESSION, IN_BROWSER) if file.startswith(shared)), file)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByFileAndSession | None:
    """`--dist loadfile` as `ByFileAndSession`."""
    return ByFileAndSession(config, log) if config.getvalue("dist") == "loadfile" else None


@pytest.fixture(scope="session")
def s3() -> Iterator[Endpoint]:
    """A real S3 and DynamoDB server (moto) on loopback; gives how to reach it."""
    with moto() as endpoint:
        quicken()
        yield endpoint


@pytest.fixture(scope="session")
def clients(s3: Endpoint) -> Clients:
    """The product's own clients, for that server."""
    return Clients(s3)


@pytest.fixture(scope="session")
def aws(clients: Clients) -> Aws:
    return Aws(clients.s3("any"), clients.dynamodb())


@pytest.fixture
def own_clients() -> Iterator[None]:
    """Clients and sessions that the test may change: others neither had them before nor have them after it."""
    aws_module.forget_clients()
    yield
    aws_module.forget_clients()


@pytest.fixture(autouse=True)
def fresh_clients(request: pytest.FixtureRequest) -> None:
    """Who patches has clients of its own; the others share them, since they take 40 ms to build."""
    listens.cache_clear()
    if "monkeypatch" in request.fixturenames:
        request.getfixturevalue("own_clients")


@pytest.fixture
def patched() -> Iterator[pytest.MonkeyPatch]:
    """Patch classes and modules, not clients: unlike `monkeypatch` it keeps the clients of the other tests."""
    with pytest.MonkeyPatch.context() as patches:
        yield patches


@pytest.fixture
def bucket(aws: Aws) -> str:
    """A fresh, empty bucket."""
    name = f"test-{uuid.uuid4().hex[:12]}"
    aws.s3.create_bucket(Bucket=name)
    return name


@pytest.fixture(scope="session")
def spark(s3: Endpoint) -> Iterator[SparkSession]:
    """The only session of this test run. It reaches `s3` for every bucket without settings of its own."""
    extra = {"spark.master": "local[2]", "spark.driver.defaultJavaOptions": UNVERIFIED}
    session = build_session("tests", s3=s3, small=True, brief=True, extra=extra)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built once for all processes that run tests."""
    home = tmp_path_factory.getbasetemp()
    shared = (home.parent if "PYTEST_XDIST_WORKER" in os.environ else home) / "wheel"
    shared.mkdir(exist_ok=True)
    with (shared / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return next(shared.glob("dist/*.whl"), None) or build_wheel(shared)


@pytest.fixture(scope="session")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python without lakeaudit: that of `make check-spark`, or one with this environment's packages."""
    if OTHER_SPARK:
        return Path(OTHER_SPARK)
    return bare_python(tmp_path_factory.mktemp("bare") / "venv")
