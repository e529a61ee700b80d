"""3,000 tables in 40 buckets under 4 roles, described in at most 40 lines: found, audited and reported."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from lakeaudit.cli import main
from lakeaudit.runtime.connections.aws import Endpoint
from tests.builders.described import DescribedLake, fresh_name, requests, roles_of_the_server
from tests.conftest import Aws

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]

TABLES, BUCKETS, ROLES = 3000, 40, 4


@pytest.fixture(autouse=True)
def roles(s3: Endpoint, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with roles_of_the_server(s3, monkeypatch):
        yield


def test_three_thousand_tables_are_described_in_forty_lines(aws: Aws, s3: Endpoint, tmp_path: Path) -> None:
    made = DescribedLake(aws.s3, s3, fresh_name(), TABLES, BUCKETS).build(lost={3})
    lake = made.lake(tmp_path)
    file = tmp_path / "lake.yaml"
    assert len(file.read_text().splitlines()) <= 40
    calls = requests(made, lake).calls
    assert calls["AssumeRole"] == ROLES
    reports = 1 + BUCKETS + BUCKETS  # to expand: the place, each bucket; to read: each configuration
    assert calls["ListObjectsV2"] <= 2 * TABLES + 3 * reports
    assert calls["HeadObject"] <= 6 * BUCKETS + 10
    page = tmp_path / "report.html"
    assert main(["report", str(file), "-o", str(page)]) == 0
    text = page.read_text()
    assert "wh/db3/t3/part-0.parquet" in text
    assert "db6.t2995" in text
