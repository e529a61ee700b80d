"""Whole audits of plain Hive tables beside the catalogs that name them."""

import json
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from botocore.client import BaseClient
from botocore.exceptions import ClientError

from lakeaudit.audit import projection_pass
from lakeaudit.audit.outcome import Outcome
from lakeaudit.config import Lake
from lakeaudit.runtime.connections.aws import Clients, Endpoint
from lakeaudit.schemas import rows_of
from tests.builders.audits import audited, results_of
from tests.builders.glue import GlueCatalog
from tests.builders.hive_lake import HiveLake
from tests.conftest import Aws

NOW = datetime.now(UTC)
JUST_NOW = NOW - timedelta(minutes=5)
SYMLINK = "org.apache.hadoop.hive.ql.io.SymlinkTextInputFormat"


def findings_of(lake: Lake, run_id: str) -> list[dict[str, Any]]:
    rows = [row for batch in results_of(lake).findings(run_id) for row in batch.to_pylist()]
    return sorted(rows, key=lambda row: str(row["subject"]))


def covered(lake: Lake, run_id: str) -> dict[str, dict[str, Any]]:
    rows = results_of(lake).coverage(run_id)
    return {row["table_name"]: row for row in rows if row["axis"] == "pointer"}


def _awkward(hive: HiveLake) -> None:
    """Write partitions and folders that healthy lakes have and no reader misses."""
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
    flat = hive.table("flat")
    hive.put(f"{flat}/sub/part-0.parquet")
    by_number = hive.table("by_number", "year", "month")
    hive.partition("by_number", ["2026", "10"], f"{by_number}/2026/10")
    hive.put(f"{by_number}/checkpoints/2026/part-0.parquet")
    hive.catalog.table("view", "", TableType="VIRTUAL_VIEW")


HEALTHY = {
    "events": ("complete", 6, 1), "projected": ("complete", 1, 0), "listed": ("complete", 1, 0),
    "flat": ("complete", 1, 0), "by_number": ("complete", 2, 0),
}  # fmt: skip
"""By table the status, the consistent files and partitions, and those out of the window."""


# --- what is broken, each a table or more of one lake ----------------------------------------------------------------


@dataclass(frozen=True)
class Broken:
    """A lake with three databases in one Glue and one in another, audited before and after some repairs.

    The second audit prefilters its rows."""

    hive: HiveLake
    lake: Lake
    outcomes: dict[str, Outcome]

    def table_findings(self, run_id: str, *tables: str) -> list[dict[str, Any]]:
        return [row for row in findings_of(self.lake, run_id) if row["table_name"] in tables]

    def unreadable(self, run_id: str) -> list[str]:
        rows = findings_of(self.lake, run_id)
        return [row["explanation"] for row in rows if row["kind"] == "unreadable_evidence"]


@pytest.fixture(scope="module")
def broken(aws: Aws, clients: Clients, s3: Endpoint, tmp_path_factory: pytest.TempPathFactory) -> Broken:
    bucket = f"test-{uuid.uuid4().hex[:12]}"
    aws.s3.create_bucket(Bucket=bucket)
    hive = HiveLake(aws, clients, s3, bucket, tmp_path_factory.mktemp("broken"))
    second, other, unread = (
        GlueCatalog(clients, f"{hive.catalog.database}_{name}") for name in ("second", "other", "unread")
    )
    versioning: Any = {"Status": "Enabled"}
    hive.s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration=versioning)
    _awkward(hive)
    empty_partitions(hive)
    for table in ("orders", "throttled", "dropped"):
        half_registered(hive, table)
    no_names_of_columns(hive)
    write_disagreeing_catalogs(hive, other)
    pointed_at_metadata(hive, second)
    hive.put(f"{hive.table('plain')}/part-0.parquet")
    hive.put(f"{hive.table('unlisted')}/part-0.parquet")
    hive.catalog.glue.delete_table(DatabaseName=hive.catalog.database, Name="unlisted")
    unread.table("unlisted", hive.uri("wh/unlisted"))
    databases = ", ".join(each.database for each in (hive.catalog, second, unread))
    lake = hive.lake(
        metastores=f"{{kind: glue, databases: [{databases}]}}, {{kind: glue, databases: [{other.database}],"
        f" region: us-east-1, endpoint: '{hive.endpoint.endpoint}'}}"
    )
    with pytest.MonkeyPatch.context() as patched:
        of_dropped = lambda given: "dropped" in (given.get("Name"), given.get("TableName"))  # noqa: E731
        refusing(patched, "GetTable", "EntityNotFoundException", of_dropped)
        with pytest.MonkeyPatch.context() as once:
            refusing(
                once, "GetPartitions", "ThrottlingException", lambda given: given["TableName"] == "throttled"
            )
            refusing(
                once, "GetTables", "InternalServiceException",
                lambda given: given["DatabaseName"] == unread.database,
            )  # fmt: skip
            outcomes = {"r1": audited(lake, run_id="r1")}
        hive.catalog.partition("orders", ["2026-11-03"], hive.uri("wh/orders/day=2026-11-03/"))
        hive.put("wh/orders/day=2026-11-04/part-0.parquet")
        refusing(patched, "GetPartitions", "EntityNotFoundException", of_dropped)
        patched.setattr(projection_pass, "PREFILTER_FROM", 0)
        outcomes["r2"] = audited(lake, run_id="r2")
    return Broken(hive, lake, outcomes)


def half_registered(hive: HiveLake, name: str) -> None:
    """A table with a folder that nobody registered, and a partition without files."""
    table = hive.table(name, "day")
    for day in ("2026-11-01", "2026-11-02"):
        hive.partition(name, [day], f"{table}/day={day}")
    hive.put(f"{table}/day=2026-11-03/part-0.parquet", b"lost to readers")
    hive.partition(name, ["2026-11-04"], f"{table}/day=2026-11-04/", files=False)


def refusing(monkeypatch: pytest.MonkeyPatch, operation: str, code: str, when: Callable[[Any], bool]) -> None:
    """Requests of a kind fail from now on."""
    call: Any = vars(BaseClient)["_make_api_call"]

    def answer(self: Any, name: str, given: dict[str, Any]) -> Any:
        if name == operation and when(given):
            raise ClientError({"Error": {"Code": code}}, name)
        return call(self, name, given)

    monkeypatch.setattr(BaseClient, "_make_api_call", answer)


def test_a_folder_that_nobody_registered_and_a_partition_without_files(broken: Broken) -> None:
    empty, unregistered = broken.table_findings("r1", "orders")
    assert (empty["kind"], empty["severity"], empty["partition_path"]) == (
        "empty_partition",
        "info",
        "day=2026-11-04",
    )
    assert (unregistered["kind"], unregistered["severity"]) == ("unregistered_partition", "error")
    assert (unregistered["key"], unregistered["files"]) == ("wh/orders/day=2026-11-03/", 1)
    assert (unregistered["bytes_at_stake"], unregistered["confirmation"]) == (15, "live")
    assert "glue default has" in unregistered["explanation"]
    row = covered(broken.lake, "r1")["orders"]
    assert (row["status"], row["findings"], row["consistent"], row["decided_share"]) == (
        "complete",
        2,
        3,
        1.0,
    )
    assert broken.outcomes["r1"].summary["tables"]["orders"] == "complete"
    assert broken.table_findings("r2", "orders") == []
    rows = rows_of(results_of(broken.lake).discrepancies())
    assert {row["kind"]: row["state"] for row in rows if row["table_name"] == "orders"} == {
        "empty_partition": "resolved", "unregistered_partition": "resolved",
    }  # fmt: skip


EMPTIED = ("some", "every", "few", "whole")


def empty_partitions(hive: HiveLake) -> None:
    """Partitions whose files were deleted or are empty, and some that were registered ahead of their data."""
    counted = {"numRows": "80", "numFiles": "1"}
    some, every, few = hive.table("some", "day"), hive.table("every", "day"), hive.table("few", "day")
    for day in ("1", "2"):
        hive.partition("some", [day], f"{some}/day={day}", parameters=counted)
        hive.partition("every", [day], f"{every}/day={day}")
    hive.partition("some", ["3"], f"{some}/day=3", files=False, parameters=counted)
    hive.partition("some", ["4"], f"{some}/day=4")
    hive.partition("some", ["5"], f"{some}/day=5", files=False)
    for day, words in (
        ("6", counted),
        ("7", {"numFiles": "1"}),
        ("8", {"numRows": "0"}),
    ):  # an empty file in place of the data
        hive.partition("some", [day], f"{some}/day={day}", files=False, parameters=words)
        hive.put(f"{some}/day={day}/part-0.parquet", b"")
    whole = hive.table("whole", "day", parameters={"numRows": "240", "numFiles": "3"})
    for day in ("1", "2"):
        hive.partition("whole", [day], f"{whole}/day={day}")
    hive.partition("whole", ["3"], f"{whole}/day=3", files=False)  # ahead of its data
    hive.partition("few", ["1"], f"{few}/day=1", files=False)  # ahead of its data
    hive.put(f"{few}/loose.parquet")
    for key in (f"{some}/day=2", f"{some}/day=4", f"{every}/day=1", f"{every}/day=2", f"{whole}/day=2"):
        hive.s3.delete_object(Bucket=hive.bucket, Key=f"{key}/part-0.parquet")


@pytest.mark.parametrize("run", ["r1", "r2"], ids=["unscreened", "screened"])
def test_a_healthy_lake_is_quiet(broken: Broken, run: str) -> None:
    assert {row["kind"] for row in broken.table_findings(run, *HEALTHY)} == {"temporary"}
    rows = covered(broken.lake, run)
    assert {
        name: (rows[name]["status"], rows[name]["consistent"], rows[name]["out_of_window"])
        for name in HEALTHY
    } == HEALTHY
    outcome = broken.outcomes[run]
    assert {outcome.summary["tables"][name] for name in HEALTHY} == {"complete"}
    assert [each for each in outcome.warnings if any(name in each for name in HEALTHY)] == []


@pytest.mark.parametrize("run", ["r1", "r2"], ids=["unscreened", "screened"])
def test_partitions_that_were_emptied(broken: Broken, run: str) -> None:
    mine = broken.table_findings(run, "some")
    rows = {row["subject"].partition("#")[0]: row for row in mine}
    assert {subject: (row["kind"], row["severity"], row["files"], row["rows_at_stake"])
            for subject, row in rows.items()} == {
        "day=2": ("empty_partition", "error", 1, 80), "day=3": ("empty_partition", "warning", 0, 80),
        "day=4": ("empty_partition", "info", 1, None), "day=5": ("empty_partition", "info", 0, None),
        "day=6": ("empty_partition", "warning", 0, 80),
    }  # fmt: skip
    assert (
        "the catalog counts 80 rows; files there that a delete marker hides: 1"
        in rows["day=2"]["explanation"]
    )
    assert (
        "the catalog counts 80 rows; all visible files there (1) have 0 bytes" in rows["day=6"]["explanation"]
    )
    findings = broken.table_findings(run, *EMPTIED)
    others = [(row["table_name"], row["kind"], row["severity"]) for row in findings
              if row["table_name"] != "some"]  # fmt: skip
    assert sorted(others) == [
        ("every", "empty_partition", "error"), ("every", "empty_partition", "error"),
        ("every", "stale_pointer", "error"), ("few", "empty_partition", "info"),
        ("whole", "empty_partition", "info"), ("whole", "empty_partition", "warning"),
    ]  # fmt: skip
    assert not [row for row in findings if "never filled" in row["explanation"]]


def no_names_of_columns(hive: HiveLake) -> None:
    """Folders without names of columns, and partitions that point nowhere."""
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


def test_folders_without_names_of_columns_and_partitions_that_point_nowhere(broken: Broken) -> None:
    keys = [
        (row["table_name"], row["kind"], row["severity"], row["subject"].partition("#")[0])
        for row in broken.table_findings("r1", "numbered", "wrong", "twice")
    ]
    uri = broken.hive.uri("wh")
    assert sorted(keys) == [
        ("numbered", "unregistered_partition", "error", f"{uri}/numbered/2026/11/"),
        ("twice", "empty_partition", "info", "day=1"),
        ("twice", "empty_partition", "info", "day=2"),
        ("wrong", "empty_partition", "info", "day=1"),
        ("wrong", "unregistered_partition", "error", f"{uri}/wrong/day=1/"),
    ]
    assert covered(broken.lake, "r1")["twice"]["uncovered"] == 1


def test_partitions_that_cannot_be_read_leave_folders_undecided(broken: Broken) -> None:
    rows = covered(broken.lake, "r1")
    assert (rows["throttled"]["status"], rows["throttled"]["findings"], rows["throttled"]["undecided"]) == (
        "partial",
        0,
        3,
    )
    assert "partitions could not be read" in rows["throttled"]["reason"]
    assert rows["plain"]["status"] == "complete"
    assert broken.table_findings("r1", "throttled") == []
    assert (broken.outcomes["r1"].status, broken.outcomes["r1"].exit_code) == ("partial", 3)
    assert [row["kind"] for row in broken.table_findings("r2", "throttled")] == [
        "empty_partition", "unregistered_partition",
    ], "it could be read again"  # fmt: skip


def test_a_catalog_that_cannot_be_read_says_nothing(broken: Broken) -> None:
    """A table that only this catalog may name is covered in part and has no files."""
    row = covered(broken.lake, "r1")["unlisted"]
    assert (row["status"], row["files"]) == ("partial", 0)
    (explanation,) = broken.unreadable("r1")
    database = broken.hive.catalog.database
    assert f"{database}_unread.* tables could not be listed: " in explanation
    assert f"{database}.throttled partitions could not be read: " in explanation
    assert broken.unreadable("r2") == []


def test_a_table_that_is_dropped_meanwhile_has_no_findings(broken: Broken) -> None:
    assert broken.table_findings("r1", "dropped") == []
    assert covered(broken.lake, "r1")["dropped"]["moved_on"] == 2
    row = covered(broken.lake, "r2")["dropped"]
    assert (row["status"], row["reason"]) == ("off", "no catalog names the table")
    states = broken.outcomes["r2"].summary["tables"]
    assert {table for table, status in states.items() if status != "complete"} == {"twice", "lost", "forked"}


def write_disagreeing_catalogs(hive: HiveLake, other: GlueCatalog) -> None:
    """Write catalogs that agree and disagree on the locations of tables, and some that point to nothing."""
    shared = hive.table("shared")
    hive.put(f"{shared}/part-0.parquet")
    other.table("shared", hive.uri(shared))
    hive.table("gone", parameters={"numFiles": "12"})
    hive.table("new")
    hive.catalog.table("moved", hive.uri("wh/old"), parameters={"totalSize": "5"})
    hive.tables.append(f"{{name: {hive.catalog.database}.moved, location: '{hive.uri('wh/moved')}'}}")
    hive.put("wh/moved/part-0.parquet")


def test_catalogs_that_disagree_and_one_that_points_where_nothing_is(broken: Broken) -> None:
    moved = f"{broken.hive.catalog.database}.moved"
    rows = broken.table_findings("r1", "shared", "gone", "new", moved)
    assert {row["table_name"]: (row["kind"], row["severity"]) for row in rows} == {
        "gone": ("stale_pointer", "error"), "new": ("stale_pointer", "info"), moved: ("stale_pointer", "error"),
    }  # fmt: skip
    assert len(rows) == 3
    (warning,) = [each for each in broken.outcomes["r1"].warnings if each.startswith(moved)]
    assert broken.hive.uri("wh/old") in warning


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


def pointed_at_metadata(hive: HiveLake, second: GlueCatalog) -> None:
    """Iceberg tables: two databases agree on one, of one metadata.json is gone, and of one a database is behind."""

    def register(name: str, aim: str, also: str = "") -> None:
        words = {"table_type": "ICEBERG", "metadata_location": aim}
        hive.table(name, parameters=words)
        if also:
            second.table(name, hive.uri(f"wh/{name}"), parameters={**words, "metadata_location": also})

    newest = metadata(hive, "healthy", 2, 1)
    register("healthy", newest, newest)
    metadata(hive, "lost", 1)
    register("lost", hive.uri("wh/lost/metadata/00002-a.metadata.json"))
    register("forked", metadata(hive, "forked", 2, 1), metadata(hive, "forked", 3, 1))
    register("behind", metadata(hive, "behind", 1), metadata(hive, "behind", 2, 1))


def test_iceberg_tables_that_catalogs_point_at(broken: Broken) -> None:
    rows = broken.table_findings("r1", "healthy", "lost", "behind", "forked")
    assert {row["table_name"]: (row["kind"], row["severity"]) for row in rows} == {
        "lost": ("table_missing", "critical"), "behind": ("stale_pointer", "error"),
        "forked": ("stale_pointer", "error"),
    }  # fmt: skip
    by_table = {row["table_name"]: row["explanation"] for row in rows}
    assert f"the metadata.json before it is {broken.hive.uri('wh/lost/metadata/00001-a')}" in by_table["lost"]
    assert all(broken.hive.uri(f"wh/forked/metadata/0000{n}-a") in by_table["forked"] for n in (2, 3))
    (behind,) = (row for row in rows if row["table_name"] == "behind")
    assert broken.hive.uri("wh/behind/metadata/00002-a.metadata.json") in behind["explanation"]
    assert covered(broken.lake, "r1")["healthy"]["consistent"] == 2


def test_nothing_is_found_of_tables_that_are_as_catalogs_say(broken: Broken) -> None:
    tables = {row["table_name"] for row in findings_of(broken.lake, "r1")}
    assert tables & {"plain", "shared", "healthy", "unlisted"} == set()
