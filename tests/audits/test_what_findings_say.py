"""Findings, `explain` and the certificate state no more than the evidence shows."""

import itertools
import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table.statistics import StatisticsFile

from lakeaudit import cli
from lakeaudit.results.read import Results
from lakeaudit.runtime.connections.aws import Endpoint
from lakeaudit.schemas import rows_of
from tests.builders.audits import audited, results_of
from tests.builders.backdate import age_all, backdate
from tests.builders.healthy_hudi import HudiHistory
from tests.builders.iceberg import IcebergLake
from tests.builders.shop import Shop
from tests.conftest import Aws

pytestmark = pytest.mark.variant

BUCKET = "what-findings-say"
STORAGE_ONLY = "only costs storage"


def pending_empty(table: HudiHistory) -> None:
    """The plan of a clean that has not begun: Hudi deletes it, and makes another one."""
    table.upsert()
    begin = table.start("clean")
    table.remove(f"{table.timeline}/{begin}.clean.inflight")


def begun_empty(table: HudiHistory) -> None:
    table.upsert()
    table.start("clean")


def completed_empty(table: HudiHistory) -> None:
    """As writers of old left a clean that had nothing to do."""
    table.upsert()
    table.finish(table.start("clean"), "clean", "")


def clustering_interrupted(table: HudiHistory) -> None:
    table.insert()
    table.write("clustered", table.start("replacecommit"))


UNREADABLE = [("unreadable_evidence", "warning")]
OF_HUDI: dict[Callable[[HudiHistory], None], list[tuple[str, str]]] = {
    pending_empty: [],
    begun_empty: UNREADABLE,
    completed_empty: UNREADABLE,
    clustering_interrupted: [("uncommitted", "warning")],
}


def _with_statistics(lake: IcebergLake, name: str) -> str:
    """An Iceberg table whose metadata names a file of statistics; its key."""
    table = lake.table(name)
    snapshot, key = table.current_snapshot(), f"warehouse/{name}/metadata/{name}.stats"
    assert snapshot is not None
    lake.s3.put_object(Bucket=lake.bucket, Key=key, Body=b"PFA1" + b"\0" * 60)
    file = StatisticsFile.model_validate(
        {"snapshot-id": snapshot.snapshot_id, "statistics-path": f"s3://{lake.bucket}/{key}",
         "file-size-in-bytes": 64, "file-footer-size-in-bytes": 20, "blob-metadata": []}
    )  # fmt: skip
    with table.update_statistics() as update:
        update.set_statistics(file)
    return key


@pytest.fixture(scope="module")
def by_table(
    aws: Aws, s3: Endpoint, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, list[dict[str, Any]]]:
    """Return the findings by table of an audit that confirms all tables but `unlooked`."""
    aws.s3.create_bucket(Bucket=BUCKET)
    shop, lake = Shop(aws.s3, s3, BUCKET), IcebergLake(aws.s3, s3, BUCKET)
    for name in ("orders", "stock", "raw", "unlooked"):
        shop.write(name, commits=1, rows=len(shop.tables) * 20 + 40)
    statistics = [_with_statistics(lake, name) for name in ("counted", "whole")]
    taken = lake.table("taken")
    body = aws.s3.get_object(Bucket=BUCKET, Key=lake.keys("/taken/data/")[0])["Body"].read()
    aws.s3.put_object(Bucket=BUCKET, Key="warehouse/raw/landing/day=2026-11-01/x.parquet", Body=body)
    taken.add_files([f"s3://{BUCKET}/warehouse/raw/landing/day=2026-11-01/x.parquet"])
    entries = [f"- {{name: {name}, location: 's3://{BUCKET}/warehouse/{name}', manifests: [{{kind: delta}}]}}"
               for name in ("orders", "stock", "raw")]  # fmt: skip
    entries += [f"- {{name: {name}, location: 's3://{BUCKET}/warehouse/{name}', manifests: [{{kind: iceberg}}]}}"
                for name in ("counted", "whole", "taken")]  # fmt: skip
    entries.append(
        f"- {{name: unlooked, location: 's3://{BUCKET}/warehouse/unlooked', manifests: [{{kind: delta}}],"
        " confirm: {mode: none}}"
    )
    numbers = itertools.count(1)
    for act, layout in itertools.product(OF_HUDI, (1, 2)):
        table = HudiHistory(
            shop, f"{act.__name__}_{layout}", random.Random(1), numbers, layout, timedelta(days=3)
        )
        table.begin()
        act(table)
        entries.append(f"- {table.entry}")
    age_all(BUCKET, timedelta(days=3))
    moved, other = shop.keys("orders/")[0], shop.keys("unlooked/")[0]
    aws.s3.copy_object(
        Bucket=BUCKET, Key="warehouse/stock/moved/file.parquet", CopySource={"Bucket": BUCKET, "Key": moved}
    )
    aws.s3.put_object(Bucket=BUCKET, Key="warehouse/raw/debris.parquet", Body=b"x" * 5_000)
    for key in (moved, other, statistics[0]):
        aws.s3.delete_object(Bucket=BUCKET, Key=key)
    for key in shop.keys("clustering"):
        if "clustered" in key:
            backdate(BUCKET, key, datetime.now(UTC) - timedelta(days=2))
    listing = f"[{{kind: listing, location: 's3://{BUCKET}/warehouse/'}}]"
    loaded = shop.lake(tmp_path_factory.mktemp("say"), tables=entries, inventories=listing)
    audited(loaded, live=True, run_id="one")
    return _by_table(results_of(loaded))


def _by_table(results: Results) -> dict[str, list[dict[str, Any]]]:
    by_table: dict[str, list[dict[str, Any]]] = {}
    for row in rows_of(results.findings("one")):
        by_table.setdefault(row["table_name"], []).append(row)
    return by_table


ByTable = dict[str, list[dict[str, Any]]]


def test_a_possible_only_copy_of_a_lost_file_does_not_count_as_costing_storage_only(
    by_table: ByTable,
) -> None:
    (copy,) = (row for row in by_table["stock"] if row["kind"] == "uncommitted")
    (debris,) = (row for row in by_table["raw"] if row["kind"] == "uncommitted")
    assert (
        "1 of 1 has the name or the size of a lost file of the table, and may be the only copy of that file"
        in copy["explanation"]
    )
    assert STORAGE_ONLY not in copy["explanation"]
    assert STORAGE_ONLY in debris["explanation"]


def test_lost_statistics_lose_no_row(by_table: ByTable) -> None:
    (row,) = by_table["counted"]
    assert (row["kind"], row["severity"], row["key"]) == (
        "missing_metadata", "warning", "warehouse/counted/metadata/counted.stats",
    )  # fmt: skip
    assert "no row is lost" in row["explanation"]
    assert "whole" not in by_table


def test_a_neighbour_that_never_listed_a_file_has_not_removed_it(by_table: ByTable) -> None:
    (row,) = by_table["taken"]
    assert (row["kind"], row["files"]) == ("clone_at_risk", 1)
    assert "1 live file of this table is in the folder of raw" in row["explanation"]
    assert "removed them" not in row["explanation"]


def test_a_finding_without_a_request_to_storage_states_that(by_table: ByTable) -> None:
    words = {
        name: [row["explanation"] for row in by_table[name] if row["kind"] == "dropped"] for name in by_table
    }
    (confirmed,), (unconfirmed,) = words["orders"], words["unlooked"]
    assert unconfirmed.endswith("not confirmed: live checks are off")
    assert "not confirmed" not in confirmed


@pytest.mark.parametrize("layout", [1, 2])
@pytest.mark.parametrize("act", OF_HUDI)
def test_empty_cleans_lose_nothing_and_layouts_agree(
    by_table: ByTable, act: Callable[[HudiHistory], None], layout: int
) -> None:
    rows = by_table.get(f"{act.__name__}_{layout}", [])
    assert [(row["kind"], row["severity"]) for row in rows] == OF_HUDI[act], rows


def test_a_file_that_is_gone_since_an_old_report(
    aws: Aws, s3: Endpoint, bucket: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`explain` asks storage now; the certificate says up to when it holds."""
    shop = Shop(aws.s3, s3, bucket)
    shop.write("orders", commits=1)
    age_all(bucket, timedelta(days=5))
    at = datetime.now(UTC) - timedelta(days=2)
    shop.take_inventory(at=at)
    gone, there = shop.keys("orders/")[:2]
    aws.s3.delete_object(Bucket=bucket, Key=gone)
    audited(shop.lake(tmp_path, defaults="grace: 1h"))
    lake = str(tmp_path / "lake.yaml")

    def last_line(*words: str) -> str:
        capsys.readouterr()
        assert cli.main([words[0], lake, *words[1:]]) == 0
        return capsys.readouterr().err.strip().rpartition("\n")[2]

    deep = last_line("explain", f"s3://{bucket}/{gone}", "--deep")
    assert deep.startswith(
        "GONE: storage does not have the file now, and manifest delta of orders lists the file (the last"
    )
    assert last_line("explain", f"s3://{bucket}/{gone}").startswith(
        "UNDECIDED: storage does not have the file now; --deep"
    )
    assert last_line("explain", f"s3://{bucket}/{there}", "--deep").startswith("OK: no finding")
    certificate = str(tmp_path / "certificate.json")
    assert f"3 of 3 files in 1 table agree through {at:%Y-%m-%d %H:%M}" in last_line(
        "report", "--certificate", "-o", certificate
    )
