"""The steps of the Containerfile in a bare Debian tree, and the units of systemd with the command that they start.

Only in `make check-container`: it needs root, debootstrap and the package index. Four to ten minutes.
"""

import shutil
import subprocess
from pathlib import Path

import pytest

from lakeaudit import __version__
from tests.builders.artefacts import put
from tests.builders.containerfile import CONTAINERFILE, ROOT, stages
from tests.builders.debian_tree import Image, bare_debian, build, copy_of
from tests.builders.delta_lake import Log, add, at

pytestmark = [pytest.mark.container, pytest.mark.timeout(1800)]

UNITS = sorted((ROOT / "conf" / "systemd").iterdir())
EXPOSURE = "2.0"
"""Highest exposure of a unit, of 10, as `systemd-analyze security` counts it."""


@pytest.fixture(scope="session")
def debian(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bare_debian(tmp_path_factory.mktemp("debian") / "base")


@pytest.fixture(scope="session")
def image(debian: Path, tmp_path_factory: pytest.TempPathFactory) -> Image:
    return build(debian, stages(CONTAINERFILE.read_text()), tmp_path_factory.mktemp("image"), {})


def test_the_command_runs_as_a_user_without_rights(image: Image) -> None:
    assert image.run("--version").stdout.strip().endswith(__version__)
    who = image.execute(["id", "-u"]).stdout.strip()
    assert who == "10001"
    refused = image.execute(["touch", "/opt/lakeaudit/x"], writable=True)
    assert (refused.returncode, "Permission denied" in refused.stderr) == (1, True)


def test_scan_finds_a_lost_file_with_a_root_that_cannot_be_written(image: Image) -> None:
    """As in Kubernetes: only /tmp can be written."""
    home = image.tree / "lake" / "orders"
    Log(home).commits([add("part-1.parquet")], [add("part-2.parquet")])
    put(home / "part-1.parquet", b"x" * 100, at(0))
    done = image.run("scan", "/lake")
    assert done.returncode == 1, done.stderr
    assert "1 file dropped" in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_an_audit_publishes_to_a_volume(image: Image) -> None:
    volume = image.tree / "volume"
    volume.mkdir()
    (volume / "results").mkdir()
    shutil.chown(volume / "results", 10001, 10001)
    Log(volume / "orders").commits([add("part-1.parquet")])
    put(volume / "orders" / "part-1.parquet", b"x" * 100, at(0))
    (volume / "lake.yaml").write_text(
        "{version: 1, lake: shop, results: /volume/results, inventories: [{kind: listing, location: /volume/orders/}],"
        " tables: [{name: orders, location: /volume/orders, manifests: [{kind: delta}]}], defaults: {grace: 0s}}"
    )
    done = image.execute([*image.entrypoint, "audit", "/volume/lake.yaml"], writable=True)
    assert done.returncode == 0, done.stderr
    assert (volume / "results" / "runs" / "_delta_log").is_dir()


def test_the_image_is_small(image: Image, debian: Path) -> None:
    """The environment beside the base, in MB; the build, its caches and uv are not in it."""
    environment = image.tree / "opt" / "lakeaudit"
    sized = subprocess.run(["du", "-sm", str(environment)], capture_output=True, text=True, check=True)
    assert int(sized.stdout.split()[0]) < 650
    assert sorted(path.name for path in (image.tree / "opt").iterdir()) == ["lakeaudit"]
    assert not (image.tree / "src").exists()


def test_extras_are_a_build_argument(debian: Path, tmp_path: Path) -> None:
    chosen = {"EXTRAS": "dashboard,iceberg"}
    image = build(debian, stages(CONTAINERFILE.read_text()), tmp_path, chosen)
    done = image.execute(
        ["/opt/lakeaudit/bin/python", "-c", "import pyiceberg, streamlit, prometheus_client"]
    )
    assert done.returncode == 0, done.stderr
    shutil.rmtree(tmp_path, ignore_errors=True)


def test_systemd_accepts_the_units(image: Image, tmp_path: Path) -> None:
    """Beside the command of the image: systemd checks that the command of a unit exists."""
    tree = copy_of(image.tree, tmp_path / "systemd")
    system = Image(tree)
    added = system.execute(
        ["sh", "-c", "apt-get update && apt-get install --yes --no-install-recommends systemd"], writable=True
    )
    assert added.returncode == 0, added.stderr
    for unit in UNITS:
        shutil.copy(unit, tree / "etc" / "systemd" / "system")
    checked = system.execute(["systemd-analyze", "verify", *(unit.name for unit in UNITS)], writable=True)
    assert (checked.returncode, checked.stderr) == (0, "")
    services = [unit.name for unit in UNITS if unit.suffix == ".service"]
    rated = ["systemd-analyze", "security", "--offline=true", f"--threshold={EXPOSURE.replace('.', '')}"]
    for service in services:
        done = system.execute([*rated, f"/etc/systemd/system/{service}"], writable=True)
        assert done.returncode == 0, done.stdout
    shutil.rmtree(tree)
