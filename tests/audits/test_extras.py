"""Without the packages of the extras, audits in one process run; a missing package is one line that names its extra."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from configparser import ConfigParser
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from lakeaudit.runtime.extras import EXTRAS
from tests.builders.hudi import unpacked
from tests.builders.wheel import ROOT

HIDDEN = {name for names in EXTRAS.values() for name in names} | {"py4j", "cryptography", "pandas", "altair"}
BLOCKER = f"""
import sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {sorted(HIDDEN)!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Blocker())
import importlib.util
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name in {sorted(HIDDEN)!r} else found(name, package)
"""


def run(folder: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    """A command in an environment that has only what every installation has."""
    return _run(folder, f"from lakeaudit.cli import program\nprogram({list(words)!r})")


def _run(folder: Path, code: str) -> "subprocess.CompletedProcess[str]":
    clean = {name: value for name, value in os.environ.items() if not name.startswith("LAKEAUDIT")}
    return subprocess.run(
        [sys.executable, "-c", f"{BLOCKER}\n{code}"], cwd=folder, env=clean, capture_output=True, text=True,
        check=False,
    )  # fmt: skip


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """A lake with a Delta table that lost a file, and and another one that did not."""
    for name in ("orders", "returns"):
        for part in range(2):
            write_deltalake(tmp_path / "lake" / name, pa.table({"id": [part, part + 1]}), mode="append")
    next((tmp_path / "lake/orders").glob("*.parquet")).unlink()
    file = tmp_path / "lake.yaml"
    file.write_text(
        f"version: 1\nlake: small\nresults: {tmp_path}/results\n"
        f"inventories: [{{kind: listing, location: {tmp_path}/lake/}}]\n"
        f"tables:\n"
        f"  - {{name: orders, location: {tmp_path}/lake/orders, manifests: [{{kind: delta}}]}}\n"
        f"  - {{name: returns, location: {tmp_path}/lake/returns, manifests: [{{kind: delta}}]}}\n"
        "defaults: {grace: 0s}\n"
    )
    return file


@pytest.mark.variant
def test_an_audit_needs_no_extra(lake: Path) -> None:
    done = run(lake.parent, "audit", str(lake))
    assert done.returncode == 1, done.stderr
    assert "critical dropped  orders" in done.stdout
    assert (
        "warning: gate `all`: not checked, because Great Expectations 1.6 or newer is not installed "
        "(pip install 'lakeaudit[gates]')" in done.stderr
    )


COMMANDS = ("findings", "discrepancies", "report", "explain LAKE orders/", "doctor", "alert", "hazards",
            "check LAKE --table returns", "reconcile plan LAKE -o plan.jsonl")  # fmt: skip


@pytest.mark.variant
def test_other_commands_need_no_extra(lake: Path) -> None:
    """One process runs them all: each command alone would mostly import."""
    commands = ["audit", *COMMANDS]
    lines = [command if "LAKE" in command else f"{command} LAKE" for command in commands]
    code = (
        "import json\nfrom lakeaudit.cli import main\n"
        f"codes = [main(line.replace('LAKE', {str(lake)!r}).split()) for line in {lines!r}]\n"
        "print('exit codes', json.dumps(codes))\n"
    )
    done = _run(lake.parent, code)
    codes = done.stdout.rpartition("exit codes ")[2]
    assert dict(zip(commands, json.loads(codes), strict=True)) == {
        "audit": 1,
        **dict.fromkeys(COMMANDS, 0),
    }, done.stderr


UNSIGNED = (
    "lakeaudit: cryptography: is not installed: without it, certificates are neither signed nor verified; "
    "pip install 'lakeaudit[certificate]'"
)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("audit", "LAKE", "--spark"), "lakeaudit: py4j: is not installed; pip install 'lakeaudit[spark]'"),
        (
            ("certificate", "write", "LAKE", "--key", "LAKE"),
            UNSIGNED,
        ),
        (("dashboard", "LAKE"), "lakeaudit: dashboard: needs streamlit; pip install 'lakeaudit[dashboard]'"),
    ],
)
def test_a_command_names_the_extra_that_it_lacks(lake: Path, words: Sequence[str], told: str) -> None:
    done = run(lake.parent, *(str(lake) if word == "LAKE" else word for word in words))
    assert (done.returncode, done.stderr.splitlines()[-1]) == (10, told)


@pytest.mark.variant
def test_the_demo_names_the_extra_that_it_lacks(tmp_path: Path) -> None:
    done = run(tmp_path, "demo")
    assert (done.returncode, done.stderr.splitlines()[-1]) == (
        10,
        "lakeaudit: demo: needs pyspark; pip install 'lakeaudit[demo]'",
    )


@pytest.mark.variant
def test_an_audit_that_requires_its_gates_does_not_start_without_them(lake: Path) -> None:
    lake.write_text(f"{lake.read_text()}gates: required\n")
    done = run(lake.parent, "audit", str(lake))
    why = "its lake file has `gates: required`, but Great Expectations 1.6 or newer is not installed"
    told = f"lakeaudit: small: {why}; pip install 'lakeaudit[gates]'"
    assert (done.returncode, done.stderr.splitlines()[-1]) == (10, told)


@pytest.mark.variant
def test_a_table_whose_reader_is_missing_is_an_evidence_gap(lake: Path) -> None:
    """The other tables are judged."""
    place = unpacked(lake.parent / "lake", 2, ["written"]) / "written"
    entry = f"  - {{name: events, location: {place}, manifests: [{{kind: hudi}}]}}\n"
    lake.write_text(lake.read_text().replace("defaults:", f"{entry}defaults:"))
    done = run(lake.parent, "audit", str(lake), "--fail-on", "never")
    assert done.returncode == 3, done.stderr
    assert "fastavro: is not installed; pip install 'lakeaudit[iceberg]' or 'lakeaudit[hudi]'" in done.stdout
    assert "critical dropped  orders" in done.stdout


@pytest.mark.variant
def test_doctor_names_the_extras_that_a_lake_file_needs(lake: Path) -> None:
    lake.write_text(lake.read_text().replace("kind: delta", "kind: hudi") + "gates: required\n")
    done = run(lake.parent, "doctor", str(lake))
    assert done.returncode != 0
    assert "extra gates: the lake file needs it" in done.stdout
    assert "extra hudi: the lake file needs it" in done.stdout


def test_setup_cfg_declares_each_package_of_an_extra() -> None:
    config = ConfigParser()
    config.read(ROOT / "setup.cfg")
    core, extras = config["options"]["install_requires"], config["options.extras_require"]
    assert {*extras} - {"all"} == {*EXTRAS}
    modules = {"delta": "delta-spark", "great_expectations": "great-expectations", "prometheus_client":
               "prometheus-client", "thrift": "pyiceberg[hive]"}  # fmt: skip
    for extra, names in EXTRAS.items():
        for name in names:
            assert modules.get(name, name) in extras[extra], (extra, name)
            assert f"\n{modules.get(name, name)}>" not in core
