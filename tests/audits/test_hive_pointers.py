"""Whole audits of plain tables beside a Hive Metastore (a stand-in): the rules are Glue's."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lakeaudit.runtime.connections.aws import Clients, Endpoint
from tests.audits.test_pointers import covered, findings_of
from tests.builders.audits import audited
from tests.builders.hive_lake import HiveLake, break_orders
from tests.builders.hive_metastore import MetastoreStandIn, served
from tests.conftest import Aws

pytestmark = pytest.mark.variant


@pytest.fixture
def server() -> Iterator[MetastoreStandIn]:
    metastore = MetastoreStandIn()
    with served(metastore):
        yield metastore


@pytest.fixture
def lake(
    aws: Aws, clients: Clients, s3: Endpoint, bucket: str, tmp_path: Path, server: MetastoreStandIn
) -> HiveLake:
    built = HiveLake(aws, clients, s3, bucket, tmp_path, server)
    break_orders(built)
    server.table("lost", built.uri("wh/lost"), parameters={"numFiles": "3"})
    built.tables.append("lost")
    return built


def severities(lake: Any, run_id: str) -> dict[tuple[str, str], str]:
    return {(row["table_name"], row["kind"]): row["severity"] for row in findings_of(lake, run_id)}


JDBC, KAFKA, ICEBERG = (
    f"org.apache.{name}StorageHandler"
    for name in ("hive.storage.jdbc.Jdbc", "hadoop.hive.kafka.Kafka", "iceberg.mr.hive.HiveIceberg")
)
WITHOUT_FILES: dict[str, dict[str, Any]] = {
    "jdbc": {"parameters": {"storage_handler": JDBC, "hive.sql.table": "x"}},
    "kafka": {"parameters": {"storage_handler": KAFKA}},
    "index": {"tableType": "INDEX_TABLE"},
}
"""Tables whose location holds no rows."""
EMPTY: dict[str, dict[str, Any]] = {"plain": {}, "mview": {"tableType": "MATERIALIZED_VIEW"}}
"""Their neighbours, which keep files and have none."""


def test_a_table_of_another_system_is_not_reported_as_never_filled(
    lake: HiveLake, server: MetastoreStandIn
) -> None:
    for name, more in (WITHOUT_FILES | EMPTY).items():
        server.table(name, lake.uri(f"wh/{name}"), **more)
    lake.tables = ["{discover: {from: hive}}"]
    written = lake.lake(metastores=f"{{kind: hive, uri: '{server.uri}'}}")
    outcome = audited(written, run_id="r1")
    # what the metastore says wrongly is found as with tables that the lake file names
    never_filled = {(f"sales.{name}", "stale_pointer"): "info" for name in EMPTY}
    expected = {(f"sales.{table}", kind): level for (table, kind), level in ALL.items()} | never_filled
    assert severities(written, "r1") == expected
    assert any(all(f"sales.{name}" in each for name in WITHOUT_FILES) for each in outcome.warnings)


ALL = {
    ("orders", "empty_partition"): "info",
    ("orders", "unregistered_partition"): "error",
    ("lost", "stale_pointer"): "error",
}


def test_what_the_metastore_says_wrongly_is_found(lake: HiveLake, server: MetastoreStandIn) -> None:
    """With tables that the lake file names; the test above discovers the same ones."""
    source = f"{{kind: hive, uri: '{server.uri}'}}"
    written = lake.lake(metastores=source)
    assert audited(written, run_id="r1").status == "complete"
    assert severities(written, "r1") == ALL
    assert covered(written, "r1")["orders"]["decided_share"] == 1.0


def test_a_metastore_that_fails_in_the_middle_leaves_its_tables_undecided(
    lake: HiveLake, server: MetastoreStandIn
) -> None:
    def half(request: str, _: Any) -> Any:
        return [] if request == "get_partitions_by_names" else None

    server.faults.append(half)
    written = lake.lake(metastores=f"{{kind: hive, uri: '{server.uri}'}}")
    audited(written, run_id="r1")
    row = covered(written, "r1")["orders"]
    assert (row["findings"], row["status"]) == (0, "partial")
