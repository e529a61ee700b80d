"""The DynamoDB table of a Delta log store: its items, live and exported, beside logs; and whole audits by it."""

import json
import os
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeaudit.commands.doctor_checks import examine
from lakeaudit.config import Lake, S3Options
from lakeaudit.engine.local import InProcessEngine
from lakeaudit.evidence.metastore.delta_log_store import DeltaLogStore
from lakeaudit.evidence.metastore.delta_log_store.items import ITEM, entry_rows
from lakeaudit.evidence.metastore.delta_log_store.reader import get_entry, probe, read
from lakeaudit.evidence.metastore.dynamodb.export_files import export_items
from lakeaudit.evidence.metastore.dynamodb.pages import item_batch
from lakeaudit.evidence.protocol import Context
from lakeaudit.keys import Location
from lakeaudit.runtime import duck
from lakeaudit.runtime.connections.aws import Clients, Endpoint
from lakeaudit.runtime.duck import task_connection
from lakeaudit.schemas import plain_time
from tests.builders import s3guard
from tests.builders.audits import audited, results_of
from tests.builders.examples import examples
from tests.builders.shop import DAYS, Shop
from tests.conftest import Aws
from tests.sources.metastore_contract import AT, COMMITS, LOGGED, LOST, LogStoreContract, LogWorld

DAY = timedelta(days=1)
Item = dict[str, Any]


def item(
    path: str, version: int, *, temp: str | None = None, done: datetime | None = None, complete: bool = True
) -> Item:
    """An item as S3DynamoDBLogStore writes it; it was completed at `done`."""
    name = f"{version:020}.json"
    known = {"tablePath": {"S": path}, "fileName": {"S": name}, "complete": {"S": str(complete).lower()}}
    known["tempPath"] = {"S": temp or f".tmp/{name}.{uuid.uuid4()}"}
    if complete:
        known["expireTime"] = {"N": str(int((done or datetime.now(UTC)).timestamp()) + 86_400)}
    return known


def rows(items: Iterable[Item], scope: Location | None = None) -> tuple[list[dict[str, Any]], int]:
    with task_connection() as con:
        found, tally = entry_rows(
            con,
            item_batch(list(items), ITEM),
            ttl=DAY,
            scope=scope,
            aliases=((Location("ap", ""), Location("lake", "")),),
        )
    return found.to_pylist(), tally.items - tally.paths


OF_DELTA_RS = """\
{"tempPath": {"S": "_commit_fed1b77f-c64b-41e5-980a-428c5ea82a94.json.tmp"}, "tablePath": {"S": "s3://lake/warehouse/orders%20%C3%A9"}, "fileName": {"S": "00000000000000000000.json"}, "complete": {"S": "true"}, "expireTime": {"N": "1795521762"}}
{"tempPath": {"S": "_commit_8bc3725a-592a-4007-a1bc-83e083c6b1aa.json.tmp"}, "complete": {"S": "true"}, "tablePath": {"S": "s3://lake/warehouse/orders%20%C3%A9"}, "fileName": {"S": "00000000000000000001.json"}, "expireTime": {"N": "1795521762"}}
"""  # noqa: E501


class TestItems:
    def test_what_an_item_says(self) -> None:
        done = datetime(2026, 11, 20, 12, tzinfo=UTC)
        found, odd = rows([item("s3a://lake/wh/t", 7, temp=".tmp/x", done=done)])
        assert found == [
            {"bucket": "lake", "base": "wh/t", "version": 7, "temp": ".tmp/x", "complete": True,
             "entered_at": done.replace(tzinfo=None)}
        ]  # fmt: skip
        assert odd == 0

    def test_items_that_delta_rs_has_written(self) -> None:
        """Version 0.25.5, of a table `orders é`, whose key is as encoded as its path."""
        found, odd = rows([json.loads(line) for line in OF_DELTA_RS.splitlines()])
        path, done = "warehouse/orders%20%C3%A9", datetime.fromtimestamp(1795521762 - 86_400, UTC)
        assert odd == 0
        assert [tuple(row.values()) for row in found] == [
            (
                "lake",
                path,
                0,
                "_commit_fed1b77f-c64b-41e5-980a-428c5ea82a94.json.tmp",
                True,
                plain_time(done),
            ),
            (
                "lake",
                path,
                1,
                "_commit_8bc3725a-592a-4007-a1bc-83e083c6b1aa.json.tmp",
                True,
                plain_time(done),
            ),
        ]

    @pytest.mark.parametrize(
        ("path", "place"),
        [
            ("s3://lake/wh/t/", ("lake", "wh/t")),
            ("s3n://lake/a b%20+/t", ("lake", "a b%20+/t")),
            ("s3a://ap/wh/t", ("lake", "wh/t")),
            ("s3a://lake", ("lake", "")),
            ("file:///data/t", ("", "data/t")),
            ("file:/data/t", ("", "data/t")),
        ],
    )
    def test_places(self, path: str, place: tuple[str, str]) -> None:
        ((row,), _) = rows([item(path, 0)])
        assert (row["bucket"], row["base"]) == place

    def test_entries_elsewhere_are_left_out(self) -> None:
        found, odd = rows([item("s3://lake/wh/t", 1), item("s3://lake/wh2/t", 1)], Location("lake", "wh"))
        assert ([row["base"] for row in found], odd) == (["wh/t"], 0)

    @pytest.mark.parametrize(
        "odd",
        [{}, {"tablePath": {"S": "s3://lake/t"}}, item("hdfs://n/t", 1),
         item("s3://lake/t", 1) | {"fileName": {"S": "x"}}, item("s3://lake/t", 1) | {"fileName": {"N": "1"}},
         item("s3://lake/t", 1) | {"tablePath": {"B": b"x"}}],
    )  # fmt: skip
    def test_an_invalid_commit_is_counted(self, odd: Item) -> None:
        assert rows([odd, item("s3://lake/t", 2)])[1] == 1

    @pytest.mark.parametrize("expires", ["x", "-5", "1e40", "99999999999999999"])
    def test_absurd_times_are_rejected(self, expires: str) -> None:
        ((row,), odd) = rows([item("s3://lake/t", 1) | {"expireTime": {"N": expires}}])
        assert odd == 0
        assert row["entered_at"] is None or expires == "-5"

    @examples(4, 300)
    @given(
        st.lists(st.integers(0, 99), unique=True, max_size=5),
        st.booleans(),
        st.dictionaries(st.text("abc", min_size=1), st.just({"S": "more"}), max_size=2),
    )
    def test_an_export_says_what_a_scan_says(
        self, tmp_path_factory: pytest.TempPathFactory, versions: list[int], crlf: bool, more: Item
    ) -> None:
        """In any order of attributes, with unknown ones, and whatever ends the lines."""
        items = [item("s3://lake/t", n, complete=n % 2 == 0) | more for n in versions]
        path = tmp_path_factory.mktemp("export") / "data.json"
        lines = [json.dumps({"Item": dict(reversed(each.items()))}) for each in items]
        path.write_bytes(("\r\n" if crlf else "\n").join(lines).encode() + b"\n")
        with task_connection() as con:
            held = duck.table(export_items(con, path, ITEM, zipped=False))
            found, tally = entry_rows(con, held, ttl=DAY, scope=None, aliases=())
        plain, none = rows(items)
        assert (sorted(found.to_pylist(), key=str), tally.items - tally.paths) == (
            sorted(plain, key=str),
            none,
        )


def world_items(home: Location) -> list[Item]:
    done = AT - timedelta(hours=2)
    places = [(f"s3a://{bucket}/{base}", versions) for (bucket, base), versions in COMMITS.items()]
    return [
        item(path, version, temp=f".tmp/{version}", done=done)
        for path, versions in [*places, (f"file:/{home.key}", (*LOGGED, LOST))]
        for version in versions
    ]


def world_of(clients: Clients, home: Location, **given: Any) -> LogWorld:
    """The whole store and a part of it, read once each, beside the log of the table on this machine."""
    log = Path(home.spark_path, "_delta_log")
    log.mkdir(parents=True)
    for version in LOGGED:
        (log / f"{version:020}.json").write_text("{}")
        os.utime(log / f"{version:020}.json", (AT.timestamp() - 7200, AT.timestamp() - 7200))
    ctx = Context(InProcessEngine(2), clients, as_of=AT, now=AT, live=True)
    whole, orders = (
        DeltaLogStore(kind="delta_log_store", location=place, **given)
        for place in (None, Location("lake", "wh/orders"))
    )
    return LogWorld(
        read(whole, ctx, "metastore:0", lambda: AT), read(orders, ctx, "metastore:0", lambda: AT), home,
        partial(get_entry, whole, clients), partial(probe, whole, clients, AT), whole.has_point_reads,
    )  # fmt: skip


class TestLiveTable(LogStoreContract):
    @pytest.fixture(scope="class")
    @classmethod
    def world(cls, clients: Clients, aws: Aws, tmp_path_factory: pytest.TempPathFactory) -> LogWorld:
        home = Location.parse(str(tmp_path_factory.mktemp("live") / "t"))
        create(aws, "contract-log")
        for each in world_items(home):
            aws.dynamodb.put_item(TableName="contract-log", Item=each)
        at = clients.default
        options = S3Options(endpoint=at.endpoint, region=at.region, path_style=True)
        return world_of(clients, home, table="contract-log", s3=options)


class TestExport(LogStoreContract):
    @pytest.fixture(scope="class")
    @classmethod
    def world(cls, clients: Clients, tmp_path_factory: pytest.TempPathFactory) -> LogWorld:
        folder = tmp_path_factory.mktemp("export [odd] {name}* %20 é")
        home = Location.parse(str(folder / "t"))
        s3guard.export(s3guard.into(folder / "export"), world_items(home), at=AT)
        return world_of(clients, home, export=Location.parse(str(folder / "export")))


def create(aws: Aws, name: str, keys: tuple[str, str] = ("tablePath", "fileName")) -> None:
    aws.dynamodb.create_table(
        TableName=name, BillingMode="PAY_PER_REQUEST",
        KeySchema=[{"AttributeName": k, "KeyType": t} for k, t in zip(keys, ("HASH", "RANGE"), strict=True)],  # type: ignore[typeddict-item]
        AttributeDefinitions=[{"AttributeName": k, "AttributeType": "S"} for k in keys],
    )  # fmt: skip


class Site:
    """A Delta table whose writers go by a log store of their own on the embedded server."""

    def __init__(self, aws: Aws, shop: Shop, name: str) -> None:
        self.aws, self.shop, self.name, self.bucket = aws, shop, name, shop.bucket
        self.store = f"log-{uuid.uuid4().hex[:8]}"
        create(aws, self.store)
        self.source = f"table: {self.store}"
        self.root = f"warehouse/{name}"
        self.path = f"s3a://{self.bucket}/{self.root}"

    def write(self, commits: int) -> None:
        """As S3DynamoDBLogStore does: temporary file, entry, log, completed entry."""
        self.shop.write(self.name, commits=commits, days=DAYS[:1])
        for version in range(commits):
            temp = self.temp(version, self.body(version))
            self.put(item(self.path, version, temp=temp))

    def key(self, version: int) -> str:
        return f"{self.root}/_delta_log/{version:020}.json"

    def body(self, version: int) -> bytes:
        return self.aws.s3.get_object(Bucket=self.bucket, Key=self.key(version))["Body"].read()

    def temp(self, version: int, body: bytes) -> str:
        name = f".tmp/{version:020}.json.{uuid.uuid4()}"
        self.aws.s3.put_object(Bucket=self.bucket, Key=f"{self.root}/_delta_log/{name}", Body=body)
        return name

    def put(self, each: Item) -> None:
        self.aws.dynamodb.put_item(TableName=self.store, Item=each)

    def forget(self, version: int) -> None:
        key = {name: item(self.path, version)[name] for name in ("tablePath", "fileName")}
        self.aws.dynamodb.delete_item(TableName=self.store, Key=key)


def healthy(site: Site) -> None:
    """Temporary files that were tidied up, entries that expired, a store that other tables use, too."""
    site.write(5)
    site.forget(0)
    old = datetime.now(UTC) - 9 * DAY
    site.put(item(site.path, 1, done=old))
    site.aws.s3.delete_object(Bucket=site.bucket, Key=f"{site.root}/_delta_log/.tmp/nothing")
    site.put(item(f"s3a://{site.bucket}/elsewhere", 77))
    site.put(item(f"{site.path}_2", 77))


def lost_or_changed(site: Site) -> None:
    site.write(6)
    site.aws.s3.put_object(Bucket=site.bucket, Key=site.key(3), Body=site.body(3) + b"\n")
    site.forget(4)
    temps = site.aws.s3.list_objects_v2(Bucket=site.bucket, Prefix=f"{site.root}/_delta_log/.tmp/{4:020}")[
        "Contents"
    ]
    site.aws.s3.delete_object(Bucket=site.bucket, Key=temps[0]["Key"])
    site.put(item(site.path, 6))
    site.put(item(site.path, 7, temp=site.temp(7, b"{}"), complete=False))
    site.put(item(site.path, 8, temp=".tmp/gone", complete=False))


def made_anew(site: Site) -> None:
    """And with a log that was copied."""
    site.put(item(site.path, 9, done=datetime.now(UTC) - 2 * DAY))
    site.write(3)


def exported(site: Site, folder: Path, lines: int) -> None:
    site.write(3)
    items = [item(site.path, n, temp=f".tmp/{n}") for n in range(5)]
    put = s3guard.into(folder)
    s3guard.export(put, items, at=datetime.now(UTC), files=lines) if lines == 1 else s3guard.export_parts(
        put, [items[:2], items[2:]], at=datetime.now(UTC)
    )
    site.source = f"export: '{folder}', margin: 0s"


def temp_in_log(site: Site) -> None:
    """As delta-rs names it; it goes with the commit, so that a completed entry has none."""
    site.write(1)
    temp = "_commit_8c8b5e2e-5d9a-4b25-8f6d-0a5e3b6f1a11.json.tmp"
    site.put(item(site.path, 0, temp=temp))
    site.aws.s3.put_object(Bucket=site.bucket, Key=f"{site.root}/_delta_log/{temp}", Body=b"{}")
    site.put(item(site.path, 1, temp=temp, complete=False))


def one_lost(site: Site) -> None:
    site.write(2)
    site.put(item(site.path, 2))


def held_to_read_units(site: Site) -> None:
    one_lost(site)
    site.source += ", dynamodb: {read_capacity: 100}"


LAID: dict[str, tuple[Callable[[Site], None], list[tuple[str, str, int]]]] = {
    # what is laid, and what is found: kind, severity, version
    "healthy": (healthy, []),
    "lost_or_changed": (lost_or_changed, [
        ("incomplete_commit", "error", 7),
        ("lost_commit", "critical", 6),
        ("lost_commit", "critical", 8),
        ("overwritten_commit", "critical", 3),
        ("overwritten_commit", "warning", 4),
    ]),
    "made_anew": (made_anew, []),
    "temp_in_log": (temp_in_log, [("incomplete_commit", "error", 1)]),
    "held_to_read_units": (held_to_read_units, [("lost_commit", "critical", 2)]),
    "expiring": (one_lost, [("lost_commit", "critical", 2)]),
}  # fmt: skip
EXPORTED = {"exported_1": 1, "exported_3": 3}
"""Tables whose stores are read from exports, with a number of lines."""


class Sites:
    """One bucket, every table of which has a store of its own, and lakes of some of them."""

    def __init__(self, aws: Aws, s3: Endpoint, bucket: str, folder: Path) -> None:
        self.shop, self.folder = Shop(aws.s3, s3, bucket), folder
        self.by_name = {name: Site(aws, self.shop, name) for name in (*LAID, *EXPORTED)}
        for name, (lay, _) in LAID.items():
            lay(self.by_name[name])
        for name, lines in EXPORTED.items():
            exported(self.by_name[name], folder / name, lines)

    def lake(self, *names: str, more: Sequence[str] = ()) -> Lake:
        """These tables and their stores, and `more` stores."""
        place = f"s3://{self.shop.bucket}/warehouse/"
        sources = [*(self.by_name[name].source for name in names), *more]
        stores = ", ".join(f"{{kind: delta_log_store, {source}}}" for source in sources)
        return self.shop.lake(
            self.folder, inventories=f"[{{kind: listing, location: '{place}'}}]",
            tables=[f"- {{name: {name}, location: '{place}{name}', manifests: [{{kind: delta}}]}}" for name in names],
            extra=f"metastores: [{stores}]", defaults="grace: 0s, confirm: {mode: none}",
        )  # fmt: skip


@dataclass(frozen=True)
class Night:
    """An audit: what was found by table, and what coverage says of the tables' stores."""

    lake: Lake
    status: str
    found: Mapping[str, Sequence[tuple[str, str, int]]]
    covered: Mapping[str, str]


def audit(lake: Lake) -> Night:
    time.sleep(1.1)  # times of stores have whole seconds
    outcome = audited(lake)
    found: dict[str, list[tuple[str, str, int]]] = {table.name: [] for table in lake.tables}
    for row in (row for batch in results_of(lake).findings(outcome.run_id) for row in batch.to_pylist()):
        if row["manifest_kind"] == "delta_log_store":
            found[row["table_name"]].append((row["kind"], row["severity"], row["table_version"]))
    coverage = results_of(lake).coverage(outcome.run_id)
    covered = {row["table_name"]: row["status"] for row in coverage if row["axis"] == "metastore"}
    return Night(lake, outcome.status, {name: sorted(rows) for name, rows in found.items()}, covered)


@pytest.fixture(scope="module")
def sites(aws: Aws, s3: Endpoint, tmp_path_factory: pytest.TempPathFactory) -> Sites:
    aws.s3.create_bucket(Bucket="log-stores")
    return Sites(aws, s3, "log-stores", tmp_path_factory.mktemp("stores"))


@pytest.fixture(scope="module")
def night(sites: Sites) -> Night:
    """One audit of all tables."""
    return audit(sites.lake(*sites.by_name))


@pytest.fixture(scope="module")
def next_night(sites: Sites, night: Night) -> Night:
    """The entry of the lost commit has expired, and another table is named for a store."""
    assert night.status == "complete"
    sites.by_name["expiring"].forget(2)
    create(sites.by_name["expiring"].aws, "not-a-log", ("parent", "child"))
    return audit(sites.lake("expiring", more=["table: not-a-log"]))


@pytest.mark.parametrize("name", LAID)
def test_findings_of_a_store_and_its_log(night: Night, name: str) -> None:
    assert night.found[name] == LAID[name][1]


def test_a_healthy_store_does_not_count_as_a_metadata_store_of_files(night: Night) -> None:
    assert night.covered["healthy"] == "off"


@pytest.mark.parametrize("name", EXPORTED)
def test_an_export_says_the_same(night: Night, name: str) -> None:
    assert night.found[name] == [("lost_commit", "critical", 3), ("lost_commit", "critical", 4)]


def test_what_was_lost_is_closed_once_its_entry_has_expired_and_not_as_restored(next_night: Night) -> None:
    assert next_night.found["expiring"] == []
    held = [row for batch in results_of(next_night.lake).discrepancies(()) for row in batch.to_pylist()]
    assert [(row["kind"], row["resolution"]) for row in held if row["table_name"] == "expiring"] == [
        ("lost_commit", "reference_removed")
    ]


def test_a_table_of_another_kind_is_refused(next_night: Night, clients: Clients) -> None:
    assert next_night.status == "partial"
    checks = examine(next_night.lake, clients, {}, datetime.now(UTC))
    (told,) = [check for check in checks if check.about == "metastore not-a-log"]
    assert (told.state, "not a table of a Delta log store" in told.message) == ("bad", True)


def test_it_looks_up_one_commit(sites: Sites, clients: Clients) -> None:
    site = sites.by_name["temp_in_log"]
    (store,) = sites.lake(site.name).metastores
    assert isinstance(store, DeltaLogStore)
    assert "can be scanned" in probe(store, clients, datetime.now(UTC)).message
    found = get_entry(store, clients, site.bucket, site.key(0))
    assert found is not None
    assert (found["complete"], found["fileName"]) == ("true", f"{0:020}.json")
    assert get_entry(store, clients, site.bucket, site.key(5)) is None
