"""A package of an extra counts as missing if another tool installed a version that is too old for it."""

from importlib.metadata import PackageNotFoundError

import pytest

from lakeaudit.runtime import extras

VERSIONS = [
    ("1.3.14", True), ("1.5.11", True), ("1.6.0", False), ("1.24.1", False), ("2.0rc1", False), ("unknown", False),
]  # fmt: skip


@pytest.mark.parametrize(("version", "missing"), VERSIONS)
def test_an_old_great_expectations_is_missing(
    version: str, missing: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extras, "version", lambda _: version)
    assert extras.missing_of("gates") == (["great_expectations"] if missing else [])


def test_a_package_without_metadata_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(extras, "version", unknown)
    assert extras.missing_of("gates") == []


def test_what_python_no_longer_brings_is_explained() -> None:
    """Spark 3.5 imports distutils, which ended with Python 3.11."""
    error = extras.explain_missing(
        ModuleNotFoundError("No module named 'distutils'", name="distutils.version")
    )
    assert "Python 3.12 and newer do not bring it; install setuptools" in str(error)
