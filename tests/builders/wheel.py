"""The wheel as it is built for a release, and a Python that has everything but lakeaudit."""

import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

ROOT = Path(__file__).parents[2]
BUILT_FROM = ("setup.cfg", "pyproject.toml", "README.md", "LICENSE", "expectations", "jobs")


def build_wheel(folder: Path) -> Path:
    """The line of docs/deploy.md in a copy of the checkout, whose own `build/` could hold modules of yesterday."""
    source = folder / "source"
    source.mkdir()
    for name in BUILT_FROM:
        if (ROOT / name).is_dir():
            left_out = shutil.ignore_patterns("__pycache__", "*.egg-info")
            shutil.copytree(ROOT / name, source / name, symlinks=True, ignore=left_out)
        else:
            shutil.copy(ROOT / name, source.joinpath(name))
    uv = Path(sys.executable).with_name("uv")
    line: list[str | Path] = [
        uv,
        "build",
        "--quiet",
        "--offline",
        "--no-build-isolation",
        "--python",
        sys.executable,
    ]
    subprocess.run([*line, "--out-dir", folder / "dist"], cwd=source, check=True)
    (wheel,) = (folder / "dist").glob("*.whl")
    return wheel


def script_of(wheel: Path) -> Path:
    """What is submitted beside a wheel that was built here, as the checkout was at that time."""
    return wheel.parent.parent / "source" / "jobs" / "audit.py"


def bare_python(folder: Path) -> Path:
    """The interpreter of a new environment that sees the packages of this one, but no editable install.

    A folder that a .pth file names is searched for packages, and not for further .pth files.
    """
    venv.create(folder, symlinks=True, with_pip=False)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    packages = folder / "lib" / version / "site-packages" / "packages.pth"
    packages.write_text(sysconfig.get_path("purelib") + "\n")
    return folder / "bin" / "python"
