"""lakeaudit resolves beside the tools that teams have (`make check-installs`); docs/install.md shows the table."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.builders.wheel import ROOT

pytestmark = [pytest.mark.installs, pytest.mark.timeout(600)]

BESIDE = [
    # what docs/install.md calls it, requirements, extra of lakeaudit, whether both can be installed
    ("pandas 2", ["pandas<3"], "", True),
    ("pandas 3", ["pandas>=3"], "", True),
    ("pandas 3 and the extra `gates`", ["pandas>=3"], "gates", True),
    ("pandas 3 and the extra `dashboard`", ["pandas>=3"], "dashboard", True),
    ("dbt-core", ["dbt-core"], "", True),
    ("dbt-core and dbt-duckdb", ["dbt-core", "dbt-duckdb"], "", True),
    ("Great Expectations 1.3", ["great-expectations==1.3.*"], "", True),
    ("Great Expectations 1.3 and the extra `gates`", ["great-expectations==1.3.*"], "gates", False),
    ("Great Expectations 1.6 and the extra `gates`", ["great-expectations==1.6.*"], "gates", True),
    ("Polars", ["polars"], "", True),
    ("DuckDB 1.5", ["duckdb==1.5.*"], "", False),
    ("PySpark 3.5 and the extra `spark`", ["pyspark==3.5.*"], "spark", True),
    ("PySpark 4.0 and the extra `spark`", ["pyspark==4.0.*"], "spark", True),
    ("PySpark 4.1 and the extra `spark`", ["pyspark==4.1.*"], "spark", True),
    ("Airflow 2.10", ["apache-airflow==2.10.*"], "", True),
    ("Airflow 3.0", ["apache-airflow==3.0.*"], "", True),
    ("Airflow 3.3", ["apache-airflow==3.3.*"], "", True),
]


def resolves(extra: str, others: list[str]) -> tuple[bool, str]:
    """Return whether both can be installed, and the versions or the reason."""
    line = [str(Path(sys.executable).with_name("uv")), "pip", "compile", "--no-header", "--no-annotate"]
    line += ["--quiet", "--python-version", "3.11", *(["--extra", extra] if extra else []), "setup.cfg", "-"]
    done = subprocess.run(
        line, cwd=ROOT, input="\n".join(others), env={"UV_SYSTEM_CERTS": "1", **os.environ},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.returncode == 0, done.stdout or done.stderr


@pytest.mark.parametrize(("name", "others", "extra", "both"), BESIDE)
def test_lakeaudit_resolves_beside(name: str, others: list[str], extra: str, both: bool) -> None:
    resolved, output = resolves(extra, others)
    assert resolved == both, output
    if not both:
        assert "No solution found" in output


def test_the_page_has_each_outcome() -> None:
    page = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (.+?) \| (yes|no)[^|]* \|$", page, re.MULTILINE)
    assert rows == [(name, "yes" if both else "no") for name, _, _, both in BESIDE]
