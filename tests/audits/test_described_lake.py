"""A lake that its file only describes: found in its own evidence, audited under several roles, with few requests."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from lakeaudit import cli
from lakeaudit.commands import audit as command
from lakeaudit.config import load_lake
from lakeaudit.errors import CannotAudit
from lakeaudit.runtime.aws import Endpoint
from tests.builders.audits import audited, results_of
from tests.builders.catcher import catching
from tests.builders.described import DescribedLake, fresh_name, requests, roles_of_the_server
from tests.conftest import Aws


@pytest.fixture(autouse=True)
def roles(s3: Endpoint, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with roles_of_the_server(s3, monkeypatch):
        yield


def test_a_described_lake_is_found_and_audited_with_few_requests(
    aws: Aws, s3: Endpoint, tmp_path: Path
) -> None:
    """Twice the tables in the same buckets ask for no role, no report and no folder of reports more."""
    seen = []
    for tables in (8, 16):
        folder = tmp_path / str(tables)
        folder.mkdir()
        made = DescribedLake(aws.s3, s3, fresh_name(), tables, 8).build(lost={3})
        lake = made.lake(folder)
        found = requests(made, lake)
        assert found.roles == {f"arn:aws:iam::12345678901{n}:role/audit": 1 for n in range(4)}
        used = {bucket: keys for bucket, keys in found.keys.items() if bucket != made.central}
        assert all(len(keys) == 1 for keys in used.values())
        assert [used[made.bucket(n)] == used[made.bucket(n + 4)] for n in range(4)] == [True] * 4
        assert len({next(iter(keys)) for keys in used.values()}) == 4
        seen.append(found.calls)
    few, many = seen
    assert many["AssumeRole"] == few["AssumeRole"] == 4
    assert many["HeadObject"] == few["HeadObject"]
    assert many["ListObjectsV2"] - few["ListObjectsV2"] == 2 * 8  # each log is listed, and again at the end
    assert few["ListObjectsV2"] <= 2 * 8 + 1 + 4 * 8 + 8


def test_a_table_that_is_no_more_is_retired_and_one_that_may_be_missed_is_not(
    aws: Aws, s3: Endpoint, tmp_path: Path
) -> None:
    made = DescribedLake(aws.s3, s3, fresh_name(), 6, 2).build(lost={3})
    lake = made.lake(tmp_path)
    audited(lake)

    def held() -> list[tuple[str, str, str | None]]:
        found = [row for batch in results_of(lake).discrepancies() for row in batch.to_pylist()]
        return [(row["table_name"], row["state"], row["resolution"]) for row in found if row["table_name"]]

    assert held() == [("db3.t3", "open", None)]
    manifests = aws.s3.list_objects_v2(Bucket=made.central, Prefix=f"{made.bucket(1)}/")["Contents"]
    kept = {e["Key"]: aws.s3.get_object(Bucket=made.central, Key=e["Key"])["Body"].read() for e in manifests}
    (data,) = [key for key in kept if "/data/" in key]
    aws.s3.put_object(Bucket=made.central, Key=data, Body=b"torn")
    missed = audited(lake)
    assert missed.exit_code == 3
    assert any("tables may be missed" in warning for warning in missed.warnings)
    assert held() == [("db3.t3", "open", None)]
    aws.s3.put_object(Bucket=made.central, Key=data, Body=kept[data])
    made.report(without=frozenset({"wh/db3/t3/"}))
    gone = audited(lake)
    assert "db3.t3" not in gone.summary["coverage"]
    assert held() == [("db3.t3", "resolved", "retired")]
    assert "audited before, and no inventory has a log of it now: db3.t3" in gone.warnings
    assert not any("audited before" in warning for warning in audited(lake).warnings)


def test_buckets_may_be_named_by_a_pattern(
    aws: Aws, s3: Endpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command tells a collector of lineage of the tables that it has found."""
    made = DescribedLake(aws.s3, s3, fresh_name(), 6, 3).build(lost={3})
    lake = made.lake(tmp_path, by_pattern=True)
    outcome = audited(lake)
    assert (outcome.summary["status"], len(outcome.tables)) == ("complete", 6)
    assert {f"db{n}.t{n}" for n in range(6)} == {table.name for table in outcome.tables}
    none = tmp_path / "none"
    none.mkdir()
    text = made.text(none / "results", by_pattern=True).replace("-[0-9]*/wh/", "-x*/wh/")
    (none / "lake.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(
        CannotAudit, match=r"no table was found: no inventory is of a bucket that s3://.*-x\*/wh"
    ):
        audited(load_lake(none / "lake.yaml", {}))
    with catching() as receiver:
        monkeypatch.setenv("LINEAGE", receiver.url)
        with (tmp_path / "lake.yaml").open("a", encoding="utf-8") as file:
            file.write("openlineage_url_env: LINEAGE\n")
        monkeypatch.setattr(command, "_audited", lambda *_: outcome)
        assert cli.main(["audit", str(tmp_path / "lake.yaml")]) == 1
        inputs = [place["name"] for place in receiver.posts[-1]["inputs"]]
    assert sorted(inputs) == [f"wh/db{n}/t{n}" for n in range(6)]


def test_where_no_table_is_found_nothing_is_audited(aws: Aws, s3: Endpoint, tmp_path: Path) -> None:
    made = DescribedLake(aws.s3, s3, fresh_name(), 0, 1).build()
    with pytest.raises(
        CannotAudit, match="no table was found: nothing names a table where they are discovered"
    ):
        audited(made.lake(tmp_path))
