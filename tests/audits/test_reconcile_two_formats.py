"""A second format in the folder lists files, whatever the lake file names: none of them is called unused, or moved."""

import io
import uuid
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest

from lakeaudit.results.read import RowFilter
from lakeaudit.runtime.connections.aws import Clients, Endpoint
from tests.builders.audits import audited, results_of
from tests.builders.backdate import backdate, present, put
from tests.builders.glue import GlueCatalog
from tests.builders.iceberg import SCHEMA, IcebergLake, rows
from tests.builders.repair_plans import RepairPlans, actions_of, publish_leftovers
from tests.builders.rest_catalog import RestCatalog, served
from tests.builders.shop import Shop
from tests.builders.two_formats import OLD, TwoFormats, lake_of
from tests.conftest import Aws

pytestmark = pytest.mark.variant

ALLOW = ("older_than_onboarding",)


def coverage_of(mending: RepairPlans) -> dict[str, Any]:
    """By table of the axis `leftover`, by the last audit."""
    results = results_of(mending.lake)
    rows = results.coverage(results.published(None)["run_id"])
    return {row["table_name"]: row for row in rows if row["axis"] == "leftover"}


def unused(mending: RepairPlans) -> set[str]:
    """Keys that the last audit calls unused."""
    rows: Any = [
        row
        for b in results_of(mending.lake).batches("leftover_files", pc.scalar(True))
        for row in b.to_pylist()
    ]
    return {row["key"] for row in rows}


TORN = {
    "torn_iceberg": "metadata/00003-aaaaaaaa-0000-4000-8000-000000000000.metadata.json",
    "torn_delta": f"_delta_log/{0:020}.json",
}
"""By folder what comes to lie at its root after the plan: a state of the second format that cannot be read."""
NAMES = ("behind", "behind_both", "lost", "more", "young", *TORN)


@dataclass
class Folders:
    """Folders that are the tables of one lake. The lake file names the format `kind` for some, Delta for most."""

    shop: Shop
    kind: str
    each: dict[str, TwoFormats] = field(init=False)

    def __post_init__(self) -> None:
        self.each = {name: TwoFormats(self.shop, f"warehouse/{name}") for name in NAMES}

    def kinds(self, name: str) -> tuple[str, ...]:
        """The formats that the lake file names for a folder."""
        of_lake = {"behind": (self.kind,), "young": (self.kind,), "behind_both": ("iceberg", "delta")}
        return of_lake.get(name, ("iceberg",) if name == "torn_delta" else ("delta",))

    def write(self) -> None:
        for name in ("behind", "behind_both"):
            one_behind_the_other(self.each[name])
        for name in ("lost", "more"):
            for _ in range(2):
                self.each[name].append_delta()
        for name in ("young", *TORN):
            one = self.each[name]
            (one.append_delta if self.kinds(name) == ("delta",) else one.append_iceberg)()
        for name in set(NAMES) - {"young"}:
            self.each[name].leave("died")
        for name in ("young", "old"):
            self.each["young"].leave(name)
        self.each["young"].days_ago()  # all of the bucket
        self._slow_writer()

    def plans(self) -> Iterator[tuple[tuple[str, ...], AbstractContextManager[None]]]:
        """Folders whose tables are planned together, and what happens while that plan is applied."""
        yield ("behind", "behind_both", "more", "young"), self.another_commit("more")
        yield ("lost", *TORN), self.in_doubt()

    def _slow_writer(self) -> None:
        """The writer of `young` needs three days from a file to its commit; one of its unlisted files is older."""
        one, now = self.each["young"], datetime.now(UTC)
        (written,) = one.keys - one.debris
        backdate(self.shop.bucket, written, now - timedelta(days=3))
        backdate(self.shop.bucket, f"{one.folder}/part-old.parquet", now - timedelta(days=5))
        log = f"{one.folder}/{'_delta_log' if self.kind == 'delta' else 'metadata'}/"
        for key in present(self.shop.bucket, log):
            backdate(self.shop.bucket, key, now)

    @contextmanager
    def another_commit(self, name: str) -> Iterator[None]:
        self.each[name].append_delta()
        yield

    @contextmanager
    def without_newest_commit(self, name: str) -> Iterator[None]:
        """The newest state of a Delta table is lost."""
        key = f"{self.each[name].folder}/_delta_log/{1:020}.json"
        body = self.shop.s3.get_object(Bucket=self.shop.bucket, Key=key)["Body"].read()
        self._delete_for_good(key)
        yield
        put(self.shop.bucket, key, body)

    @contextmanager
    def in_doubt(self) -> Iterator[None]:
        """A state of each of these tables is lost, or cannot be read: the error of a step names its own table."""
        with self.without_newest_commit("lost"), self.torn(*TORN):
            yield

    @contextmanager
    def torn(self, *names: str) -> Iterator[None]:
        """The second format of these folders appears, and cannot be read."""
        keys = [f"{self.each[name].folder}/{TORN[name]}" for name in names]
        for key in keys:
            put(self.shop.bucket, key, b"{")
            backdate(self.shop.bucket, key, datetime.now(UTC) - OLD)
        yield
        for key in keys:
            self._delete_for_good(key)

    def _delete_for_good(self, key: str) -> None:
        """Delete the newest version of a key."""
        at: Any = {"Bucket": self.shop.bucket, "Key": key}
        version = self.shop.s3.head_object(**at)["VersionId"]
        self.shop.s3.delete_object(**at, VersionId=version)


def one_behind_the_other(folder: TwoFormats) -> None:
    """Iceberg still lists what Delta has rewritten; Delta lists what Iceberg does not know yet."""
    folder.append_delta()
    folder.sync()
    folder.append_iceberg()
    for _ in range(2):
        folder.append_delta()
        folder.rewrite_delta()


@dataclass(frozen=True)
class Applied:
    """The folders after an audit, plans of some of their tables, and a second audit with two formats that are torn."""

    folders: Folders
    safe: dict[str, set[str]]
    read: dict[str, Any]
    unused: tuple[set[str], set[str]]
    """The unused files by the first and by the second audit."""
    exit_codes: dict[str, int]
    statuses: dict[str, dict[str, str]]
    """The status of a step of its plan, by table and key."""
    errors: dict[str, str]
    """Why a step was not done, by key."""
    coverage: dict[str, dict[str, Any]]
    """Coverage of the axis `leftover` in the second audit, by table."""

    def unused_in(self, name: str, audit: int = 0) -> set[str]:
        """Return the unused files of a folder by an audit."""
        return {key for key in self.unused[audit] if key.startswith(f"warehouse/{name}/")}

    def became(self, name: str) -> set[str]:
        return {status for key, status in self.statuses[name].items() if key.startswith(f"warehouse/{name}/")}

    def whys(self, name: str) -> list[str]:
        """Return why the steps of a folder were not done."""
        return [error for key, error in self.errors.items() if key.startswith(f"warehouse/{name}/") and error]


@pytest.fixture(scope="module", params=["delta", pytest.param("iceberg", marks=pytest.mark.soak)])
def applied(
    request: pytest.FixtureRequest, aws: Aws, s3: Endpoint, tmp_path_factory: pytest.TempPathFactory
) -> Applied:
    bucket, place = f"test-{uuid.uuid4().hex[:12]}", tmp_path_factory.mktemp("folders")
    aws.s3.create_bucket(Bucket=bucket)
    aws.s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    folders = Folders(Shop(aws.s3, s3, bucket), request.param)
    folders.write()
    behind = {name: folders.each[name] for name in ("behind", "behind_both")}
    safe = {name: one.unlisted for name, one in behind.items()}
    read = {name: (one.read_delta(), one.read_iceberg()) for name, one in behind.items()}
    tables: dict[str, tuple[str, str]] = {}
    for name, one in folders.each.items():
        tables |= one.tables(name, *folders.kinds(name))
    mending = RepairPlans(lake_of(folders.shop, place, tables), place)
    audited(mending.lake, live=True)
    first = unused(mending)
    exit_codes: dict[str, int] = {}
    statuses: dict[str, dict[str, str]] = {}
    for names, change in folders.plans():
        mending.plan(
            io.StringIO(),
            allow=ALLOW,
            row_filter=RowFilter(tables=[t for t in tables if t.startswith(names)]),
        )
        with change:
            code = mending.apply().exit_code
        exit_codes |= dict.fromkeys(names, code)
        statuses |= dict.fromkeys(names, mending.statuses())
    errors = {row["key"]: row["error"] for row in actions_of(mending.lake)}
    with folders.torn(*TORN):
        audited(mending.lake, live=True)
    both = (first, unused(mending))
    return Applied(folders, safe, read, both, exit_codes, statuses, errors, coverage_of(mending))


@pytest.mark.parametrize("name", ["behind", "behind_both"])
def test_one_format_is_two_commits_behind_the_other(applied: Applied, name: str) -> None:
    folder = applied.folders.each[name]
    assert applied.unused_in(name) == applied.safe[name]
    assert (folder.read_delta(), folder.read_iceberg()) == applied.read[name]
    assert applied.statuses[name].items() >= dict.fromkeys(applied.safe[name], "applied").items()
    assert applied.became(name) == {"applied"}


@pytest.mark.parametrize(("name", "status"), [("lost", "unknown"), ("more", "applied")])
def test_a_state_older_than_the_audited_one_stops_it(applied: Applied, name: str, status: str) -> None:
    """The newest commit is gone since the audit; its healthy neighbour is one commit more."""
    assert applied.became(name) == {status}
    assert all("lost: " in why for why in applied.whys(name))
    assert bool(applied.whys(name)) is (status == "unknown")


@pytest.mark.parametrize("name", TORN)
def test_a_second_format_that_cannot_be_read_leaves_the_question_open(applied: Applied, name: str) -> None:
    """No file is called unused; and where it appears after the plan, nothing is moved."""
    assert len(applied.unused_in(name)) == 1
    assert (applied.exit_codes[name], applied.became(name)) == (3, {"unknown"})
    assert applied.whys(name)
    assert all(f"{name} by its" in why for why in applied.whys(name))
    covered = applied.coverage[name]
    assert applied.unused_in(name, 1) == set()
    assert (covered["status"], covered["undecided"]) == ("partial", 1)
    assert f"{name} by its" in covered["reason"]


def test_a_file_younger_than_the_longest_commit_stays(applied: Applied) -> None:
    """The table's writer needs three days from a file to its commit; its healthy neighbour is older than that."""
    young, old = ("warehouse/young/part-young.parquet", "warehouse/young/part-old.parquet")
    assert applied.unused_in("young") == {young, old}
    assert applied.exit_codes["young"] == 3
    assert applied.statuses["young"].items() >= {young: "unknown", old: "applied"}.items()


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
        mending = RepairPlans(shop.lake(tmp_path, entries=[entry], extra=extra), tmp_path)
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
