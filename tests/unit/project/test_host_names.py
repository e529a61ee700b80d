"""No package registry has its host name in code, documents or locks: where packages come from is set elsewhere."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
REGISTRIES = re.compile(
    rb"\b(?:pypi\.(?:org|io)|pythonhosted\.org|repo1?\.maven\.(?:org|apache\.org)|repo\.maven\.apache\.org|registry\.npmjs\.org"
    rb"|npmjs\.com|crates\.io|conda\.anaconda\.org|rubygems\.org|proxy\.golang\.org|central\.sonatype\.com)\b"
)
"""The host names of package registries, which no file may contain."""

FILES = subprocess.run(
    ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True
).stdout.split("\0")[:-1]
NAMED = [name for name in FILES if Path(name).suffix not in (".png", ".svg", ".gz", ".parquet", ".orc")]


def test_no_registry_is_named() -> None:
    own = Path(__file__).relative_to(ROOT).as_posix()
    found = {
        f"{name}: {match[0].decode()}"
        for name in NAMED
        if name != own and (ROOT / name).is_file()
        for match in REGISTRIES.finditer((ROOT / name).read_bytes())
    }
    assert found == set()


@pytest.mark.parametrize(
    "name", ["https://pypi.org/simple", "https://repo1.maven.org/maven2/x", "files.pythonhosted.org"]
)
def test_such_a_name_would_be_found(name: str) -> None:
    assert REGISTRIES.search(name.encode())
