"""Whole audits of plain Hive tables beside the catalogs that name them."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from botocore.client import BaseClient
from botocore.exceptions import ClientError

from lakeaudit.config import Lake, load_lake
from lakeaudit.pipeline import narrow_reading
from lakeaudit.runtime.aws import Clients, Endpoint
from tests.builders.audits import audited, results_of
from tests.builders.glue import GlueCatalog
from tests.builders.hive_lake import HiveLake, break_orders
from tests.conftest import Aws

NOW = datetime.now(UTC)
JUST_NOW = NOW - timedelta(minutes=5)
SYMLINK = "org.apache.hadoop.hive.ql.io.SymlinkTextInputFormat"


@pytest.fixture
def hive(aws: Aws, clients: Clients, s3: Endpoint, bucket: str, tmp_path: Path) -> HiveLake:
    return HiveLake(aws, clients, s3, bucket, tmp_path)


def found(lake: Lake, run_id: str) -> list[dict[str, Any]]:
    rows = [row for batch in results_of(lake).findings(run_id) for row in batch.to_pylist()]
    return sorted(rows, key=lambda row: str(row["subject"]))


def covered(lake: Lake, run_id: str) -> dict[str, dict[str, Any]]:
    rows = results_of(lake).coverage(run_id)
    return {row["table_name"]: row for row in rows if row["axis"] == "pointer"}


def ledger(lake: Lake) -> dict[str, tuple[str, str | None]]:
    rows = [row for batch in results_of(lake).discrepancies() for row in batch.to_pylist()]
    return {row["kind"]: (row["state"], row["resolution"]) for row in rows}


@pytest.fixture
def broken(hive: HiveLake) -> HiveLake:
    break_orders(hive)
    return hive


def test_a_folder_that_nobody_registered_and_a_partition_without_files(broken: HiveLake) -> None:
    lake = broken.lake()
    outcome = audited(lake, run_id="r1")
    empty, unregistered = found(lake, "r1")
    assert (empty["kind"], empty["severity"], empty["partition_path"]) == (
        "empty_partition",
        "info",
        "day=2026-11-04",
    )
    assert (unregistered["kind"], unregistered["severity"]) == ("unregistered_partition", "error")
    assert (unregistered["key"], unregistered["files"]) == ("wh/orders/day=2026-11-03/", 1)
    assert (unregistered["bytes_at_stake"], unregistered["confirmation"]) == (15, "live")
    assert "glue default has" in unregistered["explanation"]
    row = covered(lake, "r1")["orders"]
    assert (row["status"], row["findings"], row["consistent"], row["decided_share"]) == (
        "complete",
        2,
        3,
        1.0,
    )
    assert outcome.status == "complete"

    broken.catalog.partition("orders", ["2026-11-03"], broken.uri("wh/orders/day=2026-11-03/"))
    broken.put("wh/orders/day=2026-11-04/part-0.parquet")
    audited(lake, run_id="r2")
    assert found(lake, "r2") == []
    states = ledger(lake)
    assert {kind: state for kind, (state, _) in states.items()} == {
        "empty_partition": "resolved", "unregistered_partition": "resolved",
    }  # fmt: skip


def _awkward(hive: HiveLake) -> None:
    """What healthy lakes have and no reader misses."""
    events = hive.table("events", "At", "kind")
    hive.partition("events", ["2026-11-01 10:00", "a/b"], f"{events}/At=2026-11-01 10%3A00/kind=a%2Fb")
    hive.partition(
        "events", ["__HIVE_DEFAULT_PARTITION__", "é+x"], f"{events}/at=__HIVE_DEFAULT_PARTITION__/kind=é+x/"
    )
    hive.partition("events", ["2026-11-02", "below"], f"{events}/at=2026-11-02/kind=below", files=False)
    hive.put(f"{events}/at=2026-11-02/kind=below/hour=1/part-0.parquet")
    hive.partition("events", ["2026-11-03", "moved"], "wh/elsewhere/v2/kind=moved")
    hive.put(f"{events}/at=2026-11-03/kind=moved/part-0.parquet")  # the version before it
    hive.put(f"{events}/at=2026-11-04/kind=young/part-0.parquet", at=JUST_NOW)
    hive.put(f"{events}/at=2026-11-05/kind=x/.hive-staging_1/part-0.parquet")
    hive.put(f"{events}/at=2026-11-05/kind=x/_temporary/0/part-0.parquet")
    hive.put(f"{events}/at=2026-11-05/kind=x/_SUCCESS", b"")
    hive.put(f"{events}/at=2026-11-05/kind=x/", b"")
    hive.put(f"{events}/at=2026-11-05/loose.parquet")
    hive.put(f"{events}/export/2026/part-0.parquet")
    projected = hive.table("projected", "day", parameters={"projection.enabled": "true"})
    hive.put(f"{projected}/day=1/part-0.parquet")
    listed = hive.table("listed", "day", input_format=SYMLINK)
    hive.put(f"{listed}/day=1/part-0.parquet")
    plain = hive.table("plain")
    hive.put(f"{plain}/sub/part-0.parquet")
    numbered = hive.table("numbered", "year", "month")
    hive.partition("numbered", ["2026", "10"], f"{numbered}/2026/10")
    hive.put(f"{numbered}/checkpoints/2026/part-0.parquet")
    hive.catalog.table("view", "", TableType="VIRTUAL_VIEW")


@pytest.mark.parametrize("screened", [False, True])
def test_a_healthy_lake_is_quiet(hive: HiveLake, monkeypatch: pytest.MonkeyPatch, screened: bool) -> None:
    if screened:
        monkeypatch.setattr(narrow_reading, "SCREEN_FROM", 0)
    _awkward(hive)
    lake = hive.lake()
    outcome = audited(lake, run_id="r1")
    assert {row["kind"] for row in found(lake, "r1")} == {"temporary"}
    rows = covered(lake, "r1")
    assert {name: (row["status"], row["consistent"], row["out_of_window"]) for name, row in rows.items()} == {
        "events": ("complete", 6, 1), "projected": ("complete", 1, 0), "listed": ("complete", 1, 0),
        "plain": ("complete", 1, 0), "numbered": ("complete", 2, 0),
    }  # fmt: skip
    assert (outcome.status, outcome.warnings) == ("complete", ())


def test_folders_without_names_of_columns_and_partitions_that_point_nowhere(hive: HiveLake) -> None:
    numbered = hive.table("numbered", "year", "month")
    hive.partition("numbered", ["2026", "10"], f"{numbered}/2026/10")
    hive.put(f"{numbered}/2026/11/part-0.parquet")
    wrong = hive.table("wrong", "day")
    hive.partition(
        "wrong", ["1"], f"{wrong}/DAY=1", files=False
    )  # keys are told apart by case, values are not asked
    hive.put(f"{wrong}/day=1/part-0.parquet")
    twice = hive.table("twice", "day")
    for day in ("1", "2"):
        hive.partition("twice", [day], f"{twice}/none", files=False)
    hive.partition("twice", ["3"], "hdfs://old/day=3", files=False)
    hive.catalog._stored("twice").partitions["['3']"].partition_input["StorageDescriptor"]["Location"] = (
        "hdfs://old/x"
    )
    lake = hive.lake()
    audited(lake, run_id="r1")
    told = [
        (row["table_name"], row["kind"], row["severity"], row["subject"].partition("#")[0])
        for row in found(lake, "r1")
    ]
    uri = hive.uri("wh")
    assert sorted(told) == [
        ("numbered", "unregistered_partition", "error", f"{uri}/numbered/2026/11/"),
        ("twice", "empty_partition", "info", "day=1"),
        ("twice", "empty_partition", "info", "day=2"),
        ("wrong", "empty_partition", "info", "day=1"),
        ("wrong", "unregistered_partition", "error", f"{uri}/wrong/day=1/"),
    ]
    assert covered(lake, "r1")["twice"]["uncovered"] == 1


def refusing(monkeypatch: pytest.MonkeyPatch, operation: str, code: str, when: Callable[[Any], bool]) -> None:
    """Requests of a kind fail from now on."""
    call: Any = vars(BaseClient)["_make_api_call"]

    def answer(self: Any, name: str, given: dict[str, Any]) -> Any:
        if name == operation and when(given):
            raise ClientError({"Error": {"Code": code}}, name)
        return call(self, name, given)

    monkeypatch.setattr(BaseClient, "_make_api_call", answer)


def test_partitions_that_cannot_be_read_leave_folders_undecided(
    broken: HiveLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = broken.table("plain")
    broken.put(f"{plain}/part-0.parquet")
    refusing(monkeypatch, "GetPartitions", "ThrottlingException", lambda _: True)
    lake = broken.lake()
    outcome = audited(lake, run_id="r1")
    rows = covered(lake, "r1")
    assert (rows["orders"]["status"], rows["orders"]["findings"], rows["orders"]["undecided"]) == (
        "partial",
        0,
        3,
    )
    assert "partitions could not be read" in rows["orders"]["reason"]
    assert rows["plain"]["status"] == "complete"
    assert [row["kind"] for row in found(lake, "r1")] == ["unreadable_evidence"]
    assert (outcome.status, outcome.exit_code) == ("partial", 3)


def test_a_catalog_that_cannot_be_read_says_nothing(
    broken: HiveLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusing(monkeypatch, "GetTables", "InternalServiceException", lambda _: True)
    lake = broken.lake()
    audited(lake, run_id="r1")
    row = covered(lake, "r1")["orders"]
    assert (row["status"], row["files"]) == ("partial", 0)
    assert [each["kind"] for each in found(lake, "r1")] == ["unreadable_evidence"]


def test_a_table_that_is_dropped_meanwhile_has_no_findings(
    broken: HiveLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusing(monkeypatch, "GetTable", "EntityNotFoundException", lambda _: True)
    lake = broken.lake()
    audited(lake, run_id="r1")
    assert found(lake, "r1") == []
    assert covered(lake, "r1")["orders"]["moved_on"] == 2
    refusing(monkeypatch, "GetPartitions", "EntityNotFoundException", lambda _: True)
    outcome = audited(lake, run_id="r2")
    row = covered(lake, "r2")["orders"]
    assert (row["status"], row["reason"]) == ("off", "no catalog names the table")
    assert outcome.status == "complete"


def test_catalogs_that_disagree_and_one_that_points_where_nothing_is(
    hive: HiveLake, clients: Clients
) -> None:
    orders = hive.table("orders")
    hive.put(f"{orders}/part-0.parquet")
    gone = hive.table("gone", parameters={"numFiles": "12"})
    hive.table("new")
    other = GlueCatalog(clients, f"{hive.catalog.database}_2")
    hive.catalog.table("moved", hive.uri("wh/old"), parameters={"totalSize": "5"})
    other.table("orders", hive.uri(orders))
    hive.tables.append("moved")
    hive.put("wh/moved/part-0.parquet")
    second = f"{{kind: glue, databases: [{other.database}], region: us-east-1, endpoint: '{hive.endpoint.endpoint}'}}"
    lake = hive.lake(metastores=f"{hive.glue()}, {second}")
    text = (hive.folder / "lake.yaml").read_text()
    path = hive.folder / "lake.yaml"
    path.write_text(text.replace("{name: moved,", f"{{name: '{hive.catalog.database}.moved',"))
    lake = load_lake(path, {})
    outcome = audited(lake, run_id="r1")
    told = {row["table_name"]: (row["kind"], row["severity"]) for row in found(lake, "r1")}
    moved = f"{hive.catalog.database}.moved"
    assert told == {
        "gone": ("stale_pointer", "error"), "new": ("stale_pointer", "info"), moved: ("stale_pointer", "error"),
    }  # fmt: skip
    (warning,) = [each for each in outcome.warnings if each.startswith(moved)]
    assert hive.uri("wh/old") in warning
    assert gone


def metadata(hive: HiveLake, table: str, number: int, *before: int) -> str:
    """A metadata.json that names others before itself."""
    uris = {n: hive.uri(f"wh/{table}/metadata/{n:05}-a.metadata.json") for n in (*before, number)}
    log = [{"metadata-file": uris[n], "timestamp-ms": n} for n in before]
    content = {
        "format-version": 2, "table-uuid": table, "location": hive.uri(f"wh/{table}"), "last-updated-ms": number,
        "snapshots": [], "metadata-log": log,
    }  # fmt: skip
    hive.put(uris[number].partition(f"{hive.bucket}/")[2], json.dumps(content).encode())
    return uris[number]


def test_iceberg_tables_that_catalogs_point_at(hive: HiveLake, clients: Clients) -> None:
    other = GlueCatalog(clients, f"{hive.catalog.database}_2")

    def entered(name: str, aim: str, second: str = "") -> None:
        words = {"table_type": "ICEBERG", "metadata_location": aim}
        hive.table(name, parameters=words)
        if second:
            other.table(name, hive.uri(f"wh/{name}"), parameters={**words, "metadata_location": second})

    newest = metadata(hive, "healthy", 2, 1)
    entered("healthy", newest, newest)
    entered("gone", hive.uri("wh/gone/metadata/00001-a.metadata.json"))
    first, second = metadata(hive, "behind", 1), metadata(hive, "behind", 2, 1)
    entered("behind", first, second)
    both = f"{{kind: glue, databases: [{hive.catalog.database}, {other.database}]}}"
    lake = hive.lake(metastores=both)
    audited(lake, run_id="r1")
    rows = {row["table_name"]: row for row in found(lake, "r1")}
    assert {name: (row["kind"], row["severity"]) for name, row in rows.items()} == {
        "gone": ("stale_pointer", "error"), "behind": ("stale_pointer", "error"),
    }  # fmt: skip
    assert second in rows["behind"]["explanation"]
    assert covered(lake, "r1")["healthy"]["consistent"] == 2
