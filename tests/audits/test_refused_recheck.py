"""A store that refuses at the last look: what the snapshots show stays and is marked, the rest is undecided."""

import json
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lakeaudit.audit.outcome import Outcome
from lakeaudit.config import Lake, load_lake
from lakeaudit.runtime.connections.aws import Endpoint
from lakeaudit.schemas import rows_of
from tests.builders.audits import audited, results_of
from tests.builders.hudi import NO_WAIT, unpacked
from tests.builders.iceberg import IcebergLake
from tests.builders.refusals import DENIED, EXPIRED, UNAVAILABLE, Refusals, refusing
from tests.builders.shop import Shop
from tests.conftest import Aws

pytestmark = pytest.mark.variant

FORMATS = ("delta", "iceberg", "hudi", "file_list")
METADATA = ("_delta_log/", "/metadata/", ".hoodie/", "lists/")


@dataclass(frozen=True)
class Losses:
    """One table of each format in one bucket; each has lost one data file."""

    endpoint: Endpoint
    bucket: str
    lost: dict[str, str]

    def lake(self, folder: Path, *formats: str, inventories: str = "") -> Lake:
        """The lake file of some of the tables in a new folder, loaded."""
        home = folder / uuid.uuid4().hex
        home.mkdir()
        place = f"s3://{self.bucket}/warehouse"
        listing = inventories or f"{{kind: listing, location: '{place}/'}}"
        lists = f", location: 's3://{self.bucket}/lists/'"
        entries = ", ".join(
            f"{{name: {name}, location: '{place}/{name}', "
            f"manifests: [{{kind: {name}{lists if name == 'file_list' else ''}}}]}}"
            for name in formats
        )
        path = home / "lake.yaml"
        path.write_text(
            f"version: 1\nlake: shop\nresults: {home / 'results'}\n"
            f"s3: {{endpoint: '{self.endpoint.endpoint}', region: us-east-1, path_style: true}}\n"
            f"inventories: [{listing}]\n"
            f"tables: [{entries}]\ndefaults: {{{NO_WAIT}}}\n"
        )
        return load_lake(path, {})


@pytest.fixture(scope="module")
def losses(aws: Aws, s3: Endpoint, tmp_path_factory: pytest.TempPathFactory) -> Losses:
    bucket = f"test-{uuid.uuid4().hex[:12]}"
    aws.s3.create_bucket(Bucket=bucket)
    Shop(aws.s3, s3, bucket).write("delta", days=("a",))
    IcebergLake(aws.s3, s3, bucket).table("iceberg")
    wh = unpacked(tmp_path_factory.mktemp("hudi"), 2, ["written"]) / "written"
    for path in (each for each in wh.rglob("*") if each.is_file()):
        aws.s3.put_object(Bucket=bucket, Key=f"warehouse/hudi/{path.relative_to(wh)}", Body=path.read_bytes())
    names = [f"warehouse/file_list/{n}.parquet" for n in range(2)]
    for key in names:
        aws.s3.put_object(Bucket=bucket, Key=key, Body=b"x" * 100)
    at = datetime.now(UTC).isoformat()
    rows = [{"path": f"s3://{bucket}/{key}", "size": 100, "committed_at": at} for key in names]
    aws.s3.put_object(Bucket=bucket, Key="lists/first.jsonl", Body="\n".join(map(json.dumps, rows)).encode())
    lost = {}
    listed = [each["Key"] for each in aws.s3.list_objects_v2(Bucket=bucket)["Contents"]]
    for name in FORMATS:
        data = [key for key in listed if key.startswith(f"warehouse/{name}/") and key.endswith(".parquet")]
        lost[name] = [key for key in data if not any(part in key for part in METADATA)][-1]
        aws.s3.delete_object(Bucket=bucket, Key=lost[name])
    time.sleep(1.1)
    return Losses(s3, bucket, lost)


def of_metadata_at_the_end() -> Callable[[str], bool]:
    """Match requests for logs and lists after the first lookup of a single file: then tables are read again."""
    asked = []

    def is_of_end(request: str) -> bool:
        asked.append(request.startswith("HEAD ") and request.endswith(".parquet"))
        return any(asked) and any(part in request for part in METADATA)

    return is_of_end


def content_of(lake: Lake) -> dict[str, dict[str, Any]]:
    return {row["table_name"]: row for row in results_of(lake).coverage("r") if row["axis"] == "content"}


def findings_of(lake: Lake) -> list[dict[str, Any]]:
    return list(rows_of(results_of(lake).findings("r")))


@pytest.fixture(scope="module")
def refused_audit(losses: Losses, tmp_path_factory: pytest.TempPathFactory) -> tuple[Lake, Outcome]:
    lake = losses.lake(tmp_path_factory.mktemp("refused"), *FORMATS)
    with refusing(Refusals(of_metadata_at_the_end(), first=0)):
        return lake, audited(lake, run_id="r")


def test_a_loss_that_the_snapshot_shows_stays_and_is_marked(
    losses: Losses, refused_audit: tuple[Lake, Outcome]
) -> None:
    lake, outcome = refused_audit
    found = {row["table_name"]: row for row in findings_of(lake) if row["kind"] == "dropped"}
    assert {name: row["key"] for name, row in found.items()} == losses.lost
    assert {row["confirmation"] for row in found.values()} == {"error"}
    assert all("not rechecked: the table's newest state could not be read again" in row["explanation"]
               for row in found.values())  # fmt: skip
    assert (outcome.exit_code, dict(outcome.pressing)) == (3, {"critical": len(FORMATS)})


def test_coverage_says_why_it_was_not_rechecked(refused_audit: tuple[Lake, Outcome]) -> None:
    covered = content_of(refused_audit[0])
    assert {(row["status"], row["unconfirmed"]) for row in covered.values()} == {("partial", 1)}
    assert all("access denied" in row["reason"] for row in covered.values())
    assert {row["decided_share"] for row in covered.values()} == {1.0}


def test_a_loss_that_only_the_later_look_saw_is_undecided(
    aws: Aws, s3: Endpoint, bucket: str, tmp_path: Path
) -> None:
    """Its file is younger than the report, so a VACUUM after a commit that nobody could read explains it as well."""
    shop = Shop(aws.s3, s3, bucket)
    shop.write("delta", days=("a",))
    IcebergLake(aws.s3, s3, bucket).table("iceberg")
    shop.take_inventory(at=datetime.now(UTC) - timedelta(days=1), lacks=shop.keys())
    for name in ("delta", "iceberg"):
        aws.s3.delete_object(Bucket=bucket, Key=shop.keys(name)[0])
    report = f"{{kind: s3_inventory, location: 's3://{bucket}/inventories/', margin: 0s}}"
    lake = Losses(s3, bucket, {}).lake(tmp_path, "delta", "iceberg", inventories=report)
    with refusing(Refusals(of_metadata_at_the_end(), first=0)):
        outcome = audited(lake, run_id="r")
    assert (outcome.exit_code, findings_of(lake)) == (3, [])
    covered = content_of(lake)
    assert {(row["undecided"], row["findings"], row["refuted"]) for row in covered.values()} == {(1, 0, 0)}
    assert all(
        "the table's newest state could not be read again: " in row["reason"] for row in covered.values()
    )


POSITIONS = [
    *((name, DENIED, lasting) for name in FORMATS for lasting in (True, False)),
    *((name, answer, True) for name in FORMATS for answer in (EXPIRED, UNAVAILABLE)),
]


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("name", "answer", "lasting"), POSITIONS)
def test_no_refused_request_makes_a_loss_pass_for_health(
    losses: Losses, tmp_path: Path, name: str, answer: tuple[str, str], lasting: bool
) -> None:
    """Refuse at each position in turn: the loss is a finding, or the table is not covered and the exit code says so."""
    with refusing(Refusals()) as whole:
        audited(losses.lake(tmp_path, name), run_id="r")
    assert len(whole.requests) > 10
    for first, request in enumerate(whole.requests):
        lake = losses.lake(tmp_path, name)
        with refusing(Refusals(first=first, lasting=lasting, answer=answer, retried=False)) as rules:
            outcome = audited(lake, run_id="r")
        assert rules.refused
        found = [row["key"] for row in findings_of(lake) if row["kind"].startswith("dropped")]
        lost = found == [losses.lost[name]] and outcome.pressing["critical"] == 1
        reason = content_of(lake)[name]["reason"]
        assert lost or (outcome.exit_code in (3, 10) and reason), (first, request)
