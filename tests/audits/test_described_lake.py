"""A lake that its file only describes: found in its own evidence, audited under several roles, with few requests."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from lakeaudit import cli
from lakeaudit.audit.outcome import Outcome
from lakeaudit.commands import audit as command
from lakeaudit.config import Lake, load_lake
from lakeaudit.errors import CannotAudit
from lakeaudit.runtime.connections.aws import Endpoint
from tests.builders.audits import audited, results_of
from tests.builders.catcher import catching
from tests.builders.described import ApiCalls, DescribedLake, fresh_name, requests, roles_of_the_server
from tests.conftest import Aws

pytestmark = pytest.mark.variant


@pytest.fixture(scope="module", autouse=True)
def roles(s3: Endpoint) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched, roles_of_the_server(s3, patched):
        yield


BUCKETS, ROLES = 4, 2
WITHOUT_THE_LOST_ONE = frozenset({"wh/db3/t3/"})


@dataclass(frozen=True)
class Described:
    """A lake that was audited once, and what that asked."""

    made: DescribedLake
    folder: Path
    lake: Lake
    asked: ApiCalls


def described(aws: Aws, s3: Endpoint, folder: Path, tables: int) -> Described:
    made = DescribedLake(aws.s3, s3, fresh_name(), tables, BUCKETS, ROLES).build(lost={3})
    lake = made.lake(folder)
    return Described(made, folder, lake, requests(made, lake))


@pytest.fixture(scope="module")
def small(aws: Aws, s3: Endpoint, tmp_path_factory: pytest.TempPathFactory) -> Described:
    """A table in each bucket."""
    return described(aws, s3, tmp_path_factory.mktemp("small"), BUCKETS)


def test_a_described_lake_is_found_and_audited_with_few_requests(
    small: Described, aws: Aws, s3: Endpoint, tmp_path: Path
) -> None:
    """Twice the tables in the same buckets ask for no role, no report and no folder of reports more."""
    seen = []
    for each in (small, described(aws, s3, tmp_path, 2 * BUCKETS)):
        made, found = each.made, each.asked
        assert found.roles == {f"arn:aws:iam::12345678901{n}:role/audit": 1 for n in range(ROLES)}
        used = {bucket: keys for bucket, keys in found.keys.items() if bucket != made.central}
        assert all(len(keys) == 1 for keys in used.values())
        assert [used[made.bucket(n)] == used[made.bucket(n + ROLES)] for n in range(ROLES)] == [True] * ROLES
        assert len({next(iter(keys)) for keys in used.values()}) == ROLES
        seen.append(found.calls)
    few, many = seen
    assert many["AssumeRole"] == few["AssumeRole"] == ROLES
    assert (
        many["HeadObject"] - few["HeadObject"] == BUCKETS
    )  # each log's next commit is requested by name at the end
    assert (
        many["ListObjectsV2"] - few["ListObjectsV2"] == 2 * BUCKETS
    )  # each log is listed, and again at the end
    assert few["ListObjectsV2"] <= 2 * BUCKETS + 1 + 4 * BUCKETS + BUCKETS


@pytest.mark.soak
def test_a_table_that_is_no_more_is_retired_and_one_that_may_be_missed_is_not(
    small: Described, aws: Aws, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Buckets may be named by a pattern: the last audit does so."""
    made, lake = small.made, small.lake

    def ledger_states() -> list[tuple[str, str, str | None]]:
        found = [row for batch in results_of(lake).discrepancies() for row in batch.to_pylist()]
        return [(row["table_name"], row["state"], row["resolution"]) for row in found if row["table_name"]]

    assert ledger_states() == [("db3.t3", "open", None)]
    manifests = aws.s3.list_objects_v2(Bucket=made.central, Prefix=f"{made.bucket(1)}/")["Contents"]
    kept = {e["Key"]: aws.s3.get_object(Bucket=made.central, Key=e["Key"])["Body"].read() for e in manifests}
    (data,) = [key for key in kept if "/data/" in key]
    aws.s3.put_object(Bucket=made.central, Key=data, Body=b"torn")
    missed = audited(lake)
    assert missed.exit_code == 3
    assert any("tables may be missed" in warning for warning in missed.warnings)
    assert ledger_states() == [("db3.t3", "open", None)]
    aws.s3.put_object(Bucket=made.central, Key=data, Body=kept[data])
    made.report(without=WITHOUT_THE_LOST_ONE)
    gone = audited(made.lake(small.folder, by_pattern=True))
    assert "db3.t3" not in gone.summary["coverage"]
    assert ledger_states() == [("db3.t3", "resolved", "retired")]
    assert "audited before, and no inventory has a log of it now: db3.t3" in gone.warnings
    found = {f"db{n % 7}.t{n}" for n in range(BUCKETS)} - {"db3.t3"}
    assert (gone.summary["status"], {table.name for table in gone.tables}) == ("complete", found)
    assert len(gone.tables) == len(found)
    tells_lineage(monkeypatch, small.folder, gone)


@pytest.mark.soak
def test_a_table_that_was_retired_is_not_reported_as_missing_again(small: Described) -> None:
    small.made.report(without=WITHOUT_THE_LOST_ONE)
    for _ in range(2):
        last = audited(small.made.lake(small.folder, by_pattern=True))
    assert not any("audited before" in warning for warning in last.warnings)


def tells_lineage(monkeypatch: pytest.MonkeyPatch, folder: Path, outcome: Outcome) -> None:
    """The command tells a collector of lineage of the tables that the audit has found."""
    with catching() as receiver:
        monkeypatch.setenv("LINEAGE", receiver.url)
        with (folder / "lake.yaml").open("a", encoding="utf-8") as file:
            file.write("openlineage_url_env: LINEAGE\n")
        monkeypatch.setattr(command, "run_audit", lambda *_, **__: outcome)
        assert cli.main(["audit", str(folder / "lake.yaml")]) == 0
        inputs = [place["name"] for place in receiver.posts[-1]["inputs"]]
    places = [f"wh/{table.name.replace('.', '/')}" for table in outcome.tables]
    assert sorted(inputs) == sorted(places)


def test_a_pattern_that_no_bucket_has_finds_no_table(small: Described, tmp_path: Path) -> None:
    text = small.made.text(tmp_path / "results", by_pattern=True).replace("-[0-9]*/wh/", "-x*/wh/")
    (tmp_path / "lake.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(
        CannotAudit, match=r"no table was found: no inventory is of a bucket that s3://.*-x\*/wh"
    ):
        audited(load_lake(tmp_path / "lake.yaml", {}))


def test_where_no_table_is_found_nothing_is_audited(aws: Aws, s3: Endpoint, tmp_path: Path) -> None:
    made = DescribedLake(aws.s3, s3, fresh_name(), 0, 1).build()
    with pytest.raises(
        CannotAudit, match="no table was found: nothing names a table where they are discovered"
    ):
        audited(made.lake(tmp_path))
