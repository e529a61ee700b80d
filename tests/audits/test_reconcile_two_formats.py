"""A second format in the folder lists files, whatever the lake file names: none of them is called unused, or moved."""

import io
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest

from lakeaudit.runtime.aws import Clients, Endpoint
from tests.builders.audits import audited, results_of
from tests.builders.backdate import backdate
from tests.builders.glue import GlueCatalog
from tests.builders.iceberg import SCHEMA, IcebergLake, rows
from tests.builders.mending import Mending, publish_leftovers
from tests.builders.rest_catalog import RestCatalog, served
from tests.builders.shop import Shop
from tests.builders.two_formats import FOLDER, TwoFormats
from tests.conftest import Aws

ALLOW = ("older_than_onboarding",)


@pytest.fixture
def folder(aws: Aws, s3: Endpoint, bucket: str) -> TwoFormats:
    aws.s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    return TwoFormats(Shop(aws.s3, s3, bucket))


def coverage_of(mending: Mending) -> dict[str, Any]:
    """Of the axis `leftover`, by the last audit."""
    results = results_of(mending.lake)
    (row,) = [r for r in results.coverage(results.published(None)["run_id"]) if r["axis"] == "leftover"]
    return row


def unused(mending: Mending) -> set[str]:
    """Keys that the last audit calls unused."""
    rows: Any = [
        row
        for b in results_of(mending.lake).batches("leftover_files", pc.scalar(True))
        for row in b.to_pylist()
    ]
    return {row["key"] for row in rows}


@pytest.mark.parametrize(
    "kinds", [("delta",), pytest.param(("iceberg",), marks=pytest.mark.soak), ("iceberg", "delta")]
)
def test_one_format_is_two_commits_behind_the_other(
    folder: TwoFormats, tmp_path: Path, kinds: tuple[str, ...]
) -> None:
    """Iceberg still lists what Delta has rewritten; Delta lists what Iceberg does not know yet."""
    folder.append_delta()
    folder.sync()
    folder.append_iceberg()
    for _ in range(2):
        folder.append_delta()
        folder.rewrite_delta()
    folder.leave("died")
    folder.days_ago()
    read, safe = (folder.read_delta(), folder.read_iceberg()), folder.unlisted
    mending = Mending(folder.lake(tmp_path, *kinds), tmp_path)
    audited(mending.lake, live=True)
    assert unused(mending) == safe
    mending.plan(io.StringIO(), allow=ALLOW)
    mending.apply()
    assert (folder.read_delta(), folder.read_iceberg()) == read
    assert mending.statuses() == dict.fromkeys(safe, "applied")


@pytest.mark.parametrize("lost", [True, False])
def test_a_state_older_than_the_audited_one_stops_it(
    folder: TwoFormats, tmp_path: Path, *, lost: bool
) -> None:
    """The newest commit is gone since the audit; its healthy neighbour is one commit more."""
    folder.append_delta()
    folder.append_delta()
    left = folder.leave("died")
    folder.days_ago()
    mending = Mending(folder.lake(tmp_path, "delta"), tmp_path)
    audited(mending.lake, live=True)
    mending.plan(io.StringIO(), allow=ALLOW)
    if lost:
        key = f"{FOLDER}/_delta_log/{1:020}.json"
        version = folder.shop.s3.head_object(Bucket=folder.shop.bucket, Key=key)["VersionId"]
        folder.shop.s3.delete_object(Bucket=folder.shop.bucket, Key=key, VersionId=version)
    else:
        folder.append_delta()
    mending.apply()
    assert mending.statuses() == {left: "unknown" if lost else "applied"}


TORN: dict[str, dict[str, bytes]] = {
    "delta": {"metadata/00003-aaaaaaaa-0000-4000-8000-000000000000.metadata.json": b"{"},
    "iceberg": {f"_delta_log/{0:020}.json": b"{"},
}
"""By the format that the lake file names what lies at the root of the other one."""


@pytest.mark.parametrize("kind", [*TORN])
def test_a_second_format_that_cannot_be_read_leaves_the_question_open(
    folder: TwoFormats, tmp_path: Path, kind: str
) -> None:
    """No file is called unused; and where it appears after the plan, nothing is moved."""
    if kind == "delta":
        folder.append_delta()
    else:
        folder.append_iceberg()
    left = folder.leave("died")
    folder.days_ago()
    mending = Mending(folder.lake(tmp_path, kind), tmp_path)
    audited(mending.lake, live=True)
    assert unused(mending) == {left}
    mending.plan(io.StringIO(), allow=ALLOW)
    for name, body in TORN[kind].items():
        folder.shop.s3.put_object(Bucket=folder.shop.bucket, Key=f"{FOLDER}/{name}", Body=body)
    folder.days_ago()
    assert mending.apply().exit_code == 3
    assert mending.statuses() == {left: "unknown"}
    audited(mending.lake, live=True)
    covered = coverage_of(mending)
    assert unused(mending) == set()
    assert (covered["status"], covered["undecided"]) == ("partial", 1)
    assert "orders by its" in covered["reason"]


@pytest.mark.parametrize("catalog", ["glue", pytest.param("iceberg_rest", marks=pytest.mark.soak)])
def test_two_tables_of_a_catalog_share_one_location(
    aws: Aws, s3: Endpoint, clients: Clients, bucket: str, tmp_path: Path, catalog: str
) -> None:
    """The lake file names one of them. What the other one lists stays; a catalog that does not answer stops it."""
    aws.s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    shop = IcebergLake(aws.s3, s3, bucket)
    orders, place = shop.table("orders"), f"s3://{bucket}/warehouse/orders"
    others = shop.catalog.create_table("shop.others", SCHEMA, location=place)
    others.append(rows(5000))
    left = "warehouse/orders/data/died.parquet"
    aws.s3.put_object(Bucket=bucket, Key=left, Body=b"x")
    two = TwoFormats(Shop(aws.s3, s3, bucket))
    two.days_ago()
    with served(RestCatalog()) as rest:
        rest.tables |= {("shop", "orders"): orders, ("shop", "others"): others}
        database = GlueCatalog(clients, f"d{bucket.replace('-', '')}")
        for name, table in (("orders", orders), ("others", others)):
            words = {"table_type": "ICEBERG", "metadata_location": table.metadata_location}
            database.table(name, place, parameters=words)
        namespace, source = {
            "glue": (database.database, f"kind: glue, databases: [{database.database}]"),
            "iceberg_rest": ("shop", f"kind: iceberg_rest, uri: '{rest.uri}'"),
        }[catalog]
        manifest = f"{{kind: iceberg, catalog: {catalog}, table: {namespace}.orders}}"
        entry = f"{{name: orders, location: '{place}', manifests: [{manifest}]}}"
        extra = (
            f"metastores: [{{{source}}}]\nquarantine: {{location: 's3://{bucket}/quarantine', keep: 30d}}\n"
        )
        mending = Mending(shop.lake(tmp_path, entries=[entry], extra=extra), tmp_path)
        audited(mending.lake, live=True)
        assert unused(mending) == set(), "metadata of another table lies in the folder"
        publish_leftovers(two.shop, mending.lake, "unreferenced", *shop.keys("/data/"))
        mending.plan(io.StringIO(), allow=ALLOW)
        mending.apply()
        statuses = mending.statuses()
        assert statuses.pop(left) == "unknown"
        assert set(statuses.values()) == {"moved_on"}, "one of the two tables lists them"
        assert len(others.refresh().scan().to_arrow()) == len(orders.refresh().scan().to_arrow()) // 2 == 20
    if catalog == "iceberg_rest":
        mending.plan(io.StringIO(), allow=ALLOW)
        mending.apply()
        assert "applied" not in mending.statuses().values()


@pytest.mark.parametrize("kind", ["delta", pytest.param("iceberg", marks=pytest.mark.soak)])
def test_a_file_younger_than_the_longest_commit_stays(folder: TwoFormats, tmp_path: Path, kind: str) -> None:
    """The table's writer needs three days from a file to its commit; its healthy neighbour is older than that."""
    commit = folder.append_delta if kind == "delta" else folder.append_iceberg
    commit()
    young, old = folder.leave("young"), folder.leave("old")
    folder.days_ago()
    now, bucket = datetime.now(UTC), folder.shop.bucket
    backdate(bucket, old, now - timedelta(days=5))
    (listed,) = folder.keys - {young, old}
    backdate(bucket, listed, now - timedelta(days=3))
    log = f"{FOLDER}/{'_delta_log' if kind == 'delta' else 'metadata'}/"
    for each in folder.shop.s3.list_objects_v2(Bucket=bucket, Prefix=log)["Contents"]:
        backdate(bucket, each["Key"], now)
    mending = Mending(folder.lake(tmp_path, kind), tmp_path)
    audited(mending.lake, live=True)
    assert unused(mending) == {young, old}
    mending.plan(io.StringIO(), allow=ALLOW)
    assert mending.apply().exit_code == 3
    assert mending.statuses() == {young: "unknown", old: "applied"}
