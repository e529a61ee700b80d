"""docs/deploy.md as an operator types it, on a standalone cluster and on YARN (`make check-deploy`).

The commands are those of the page. Only what `World` names is replaced: hosts, places, and folders of machines.
"""

import os
import re
import shutil
import subprocess
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from lakeaudit.config import load_lake
from lakeaudit.results.read import Results
from lakeaudit.runtime.connections.endpoints import clients_of
from lakeaudit.runtime.java import find_java
from tests.builders.audits import audited
from tests.builders.cluster import DRIVER, LESS_IN_THE_DRIVER, standing
from tests.builders.wheel import BUILT_FROM, ROOT
from tests.builders.yarn import MAVEN, Yarn, yarn_jars, yarn_served

pytestmark = [pytest.mark.installs, pytest.mark.timeout(1800)]

PAGE = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")
NIGHTLY = "nightly-2026-11-21"
STATUS = "s3://audit-results/shop-status/nightly.json"
SIZED = ("spark.executor.memory", "spark.executor.cores")
"""Settings that the page itself has."""


def blocks(title: str) -> list[str]:
    """The shell blocks below a heading of the page."""
    (section,) = re.findall(rf"^##+ {re.escape(title)}\n(.*?)(?=^##+ |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    return re.findall(r"^```sh\n(.*?)^```", section, re.MULTILINE | re.DOTALL)


def typed(
    folder: Path, block: str, world: Mapping[str, str] | None = None, **env: str
) -> subprocess.CompletedProcess[str]:
    """Type a block in a folder, with the names of the page replaced by those of this test."""
    for name, place in (world or {}).items():
        assert name in block, f"the page has no {name}"
        block = block.replace(name, place)
    own = ("PYTHONPATH", "SPARK", "PYSPARK", "PYTHONWARNINGS", "JAVA")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(own)}
    return subprocess.run(
        ["sh", "-eu", "-c", block], cwd=folder, env=clean | env, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clone, in which executors read the few files of the lake, too."""
    folder = tmp_path_factory.mktemp("deploy") / "clone"
    folder.mkdir()
    for name in (*BUILT_FROM, "requirements"):
        if (ROOT / name).is_dir():
            left_out = shutil.ignore_patterns("__pycache__", "*.egg-info")
            shutil.copytree(ROOT / name, folder / name, symlinks=True, ignore=left_out)
        else:
            shutil.copy(ROOT / name, folder / name)
    (folder / ".venv").symlink_to(ROOT / ".venv")
    script = folder / "jobs" / "audit.py"
    script.write_text(LESS_IN_THE_DRIVER.format(bytes_here=1) + script.read_text())
    return folder


@pytest.fixture(scope="module")
def archive(clone: Path) -> Path:
    """The wheel, its environment and the archive, made by the page."""
    for block in (*blocks("The wheel"), *blocks("An archive")):
        done = typed(clone, block)
        assert done.returncode == 0, done.stdout + done.stderr
    return clone / "environment.tar.gz"


@pytest.fixture(scope="module")
def expected(clone: Path) -> list[tuple[str, ...]]:
    """A lake whose table lost a file, and what one process finds there."""
    home = clone / "lake" / "orders"
    for part in range(6):
        write_deltalake(home, pa.table({"id": [part, part + 1]}), mode="append")
    next(home.glob("*.parquet")).unlink()
    lake_file(clone, "expected")
    audited(load_lake(str(clone / "lake.yaml"), {}), run_id=NIGHTLY)
    found = findings(clone, "expected")
    assert [row[1] for row in found] == ["dropped"]
    return found


def lake_file(clone: Path, results: str) -> None:
    (clone / "lake.yaml").write_text(
        f"version: 1\nlake: shop\nresults: {clone}/{results}\n"
        f"inventories: [{{kind: listing, location: {clone}/lake/}}]\n"
        f"tables: [{{name: orders, location: {clone}/lake/orders, manifests: [{{kind: delta}}]}}]\n"
        "defaults: {grace: 0s}\n"
    )


def findings(clone: Path, results: str) -> list[tuple[str, ...]]:
    """The findings of the published run, without what differs between two runs."""
    lake_file(clone, results)
    lake = load_lake(str(clone / "lake.yaml"), {})
    read = Results(lake.results, clients_of(lake), lake.name)
    run = read.last_published()
    assert run is not None
    rows = [row for batch in read.findings(run["run_id"]) for row in batch.to_pylist()]
    columns = ("table_name", "kind", "severity", "bucket", "key")
    return sorted(tuple(str(row[name]) for name in columns) for row in rows)


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    """Settings of the cluster itself, which keep its processes small."""
    folder = tmp_path / "spark-conf"
    folder.mkdir()
    lines = [f"{name} {value}\n" for name, value in DRIVER if name not in SIZED]
    (folder / "spark-defaults.conf").write_text("".join([*lines, "spark.executor.instances 1\n"]))
    return folder


@pytest.fixture
def env(conf: Path, tmp_path: Path) -> dict[str, str]:
    java = find_java(os.environ)
    return {
        "SPARK_CONF_DIR": str(conf), "SPARK_LOCAL_IP": "127.0.0.1", "JAVA_HOME": str(java.home),
        "SPARK_LOCAL_DIRS": str(tmp_path / "scratch"),
    }  # fmt: skip


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    """A standalone cluster whose workers have the cores and the memory that the page asks for."""
    folder = tmp_path / "cluster"
    folder.mkdir()
    with standing(folder, cores=4, memory=8192) as cluster:
        yield cluster.master
        assert any("Finished task" in log for log in cluster.logs().values()), "no executor was at work"


def test_the_archive_is_small_and_works_in_another_folder(archive: Path, tmp_path: Path) -> None:
    (said,) = re.findall(r"The archive has (\d+) MB", PAGE)
    assert abs(archive.stat().st_size / 1e6 / int(said) - 1) < 0.1
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path, filter="fully_trusted")
    assert sorted(tmp_path.rglob("*.jar")) == []
    line = [str(tmp_path / "bin" / "python"), "-c", "import lakeaudit, pyspark; print(lakeaudit.__file__)"]
    env = {"PATH": os.environ["PATH"]}
    done = subprocess.run(line, cwd="/", env=env, capture_output=True, text=True, check=True)
    assert Path(done.stdout.strip()).is_relative_to(tmp_path)


def test_standalone_with_the_archive(
    clone: Path, archive: Path, master: str, expected: object, env: dict[str, str]
) -> None:
    (block,) = blocks("Standalone")
    lake_file(clone, "standalone")
    done = typed(clone, block, {"spark://HOST:7077": master}, **env)
    assert done.returncode == 1, done.stdout + done.stderr
    assert findings(clone, "standalone") == expected
    assert (clone / "status.json").is_file()


def test_standalone_refuses_cluster_mode(clone: Path, archive: Path, env: dict[str, str]) -> None:
    (block,) = blocks("Standalone")
    done = typed(clone, block.replace("--master", "--deploy-mode cluster --master"), {}, **env)
    assert done.returncode != 0
    assert "Cluster deploy mode is currently not supported for python applications" in done.stderr


def test_python_that_all_machines_see(
    clone: Path, archive: Path, master: str, expected: object, env: dict[str, str]
) -> None:
    block, _ = blocks("Without an archive")
    lake_file(clone, "shared")
    world = {"spark://HOST:7077": master, "/shared/environment": str(clone / "environment")}
    done = typed(clone, block, world, **env)
    assert done.returncode == 1, done.stdout + done.stderr
    assert findings(clone, "shared") == expected


def test_the_wheel_alone(
    clone: Path, archive: Path, master: str, expected: object, env: dict[str, str], python: Path
) -> None:
    _, block = blocks("Without an archive")
    lake_file(clone, "wheel")
    world = {"spark://HOST:7077": master, "/opt/python/bin/python": str(python)}
    path = f"{clone / 'environment' / 'bin'}{os.pathsep}{os.environ['PATH']}"
    done = typed(clone, block, world, PATH=path, **env)
    assert done.returncode == 1, done.stdout + done.stderr
    assert findings(clone, "wheel") == expected


def test_a_platform_with_its_own_spark_keeps_it(clone: Path, archive: Path, tmp_path: Path) -> None:
    """Its Spark is missing here, so that one which pip installs would be there afterwards."""
    platform = tmp_path / "platform"
    subprocess.run([clone / "environment" / "bin" / "python", "-m", "venv", platform], check=True)
    path = f"{platform / 'bin'}{os.pathsep}{os.environ['PATH']}"
    (block,) = blocks("A platform with its own Spark")
    done = typed(clone, block, PATH=path)
    assert done.returncode == 0, done.stdout + done.stderr
    listed = subprocess.run(
        [platform / "bin" / "pip", "list"], capture_output=True, text=True, check=True
    ).stdout
    assert ("lakeaudit" in listed, "pyspark" in listed, "py4j" in listed) == (True, False, False)
    subprocess.run([platform / "bin" / "lakeaudit", "--version"], check=True)


@pytest.fixture(scope="module")
def yarn(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yarn]:
    folder = tmp_path_factory.mktemp("yarn")
    jars = tmp_path_factory.mktemp("jars")
    with yarn_served(folder, yarn_jars(jars)) as served:
        yield served


@pytest.mark.skipif(MAVEN is None, reason="Maven is not installed: it fetches Hadoop's YARN")
@pytest.mark.parametrize("mode", ["cluster", "client"])
def test_yarn(
    clone: Path, archive: Path, yarn: Yarn, expected: object, env: dict[str, str], mode: str, tmp_path: Path
) -> None:
    (block,) = blocks("YARN")
    lake_file(clone, f"yarn-{mode}")
    status = tmp_path / "nightly.json"
    world = {
        "/etc/hadoop/conf": str(yarn.conf),
        STATUS: str(status),
        "--deploy-mode cluster": f"--deploy-mode {mode}",
    }
    path = f"{clone / 'environment' / 'bin'}{os.pathsep}{os.environ['PATH']}"
    staging = f"--conf spark.yarn.stagingDir={tmp_path.as_uri()} --files"
    done = typed(clone, block, {**world, "--files": staging}, PATH=path, **env)
    assert done.returncode == 1, done.stdout + done.stderr + yarn.logs()
    assert findings(clone, f"yarn-{mode}") == expected, yarn.logs()
    assert '"exit_code": 1' in status.read_text()
    assert "Finished task" in yarn.logs()


def test_the_settings_files_can_be_copied_to_another_machine(clone: Path, tmp_path: Path) -> None:
    (block,) = blocks("Settings files")
    done = typed(clone, block, {"FOLDER": str(tmp_path)})
    assert done.returncode == 0, done.stdout + done.stderr
    files = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert {"spark-defaults.conf", "log4j2.properties", "env.sh"} <= files.keys()
    for name in ("spark-defaults.conf", "log4j2.properties"):
        assert not re.search(r"(?<![\w.:/])/\w+/\w", files[name]), f"{name} has a path"
