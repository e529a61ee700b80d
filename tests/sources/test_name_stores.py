"""EMRFS and s3mper: what their items mean, live and exported, what is told of broken ones, and whole audits by them."""

import base64
import json
import time
import uuid
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeaudit.commands.doctor_checks import examine
from lakeaudit.config import Emrfs, S3mper, S3Options
from lakeaudit.errors import SourceError
from lakeaudit.evidence.metastore import emrfs, s3mper
from lakeaudit.evidence.metastore.dynamodb import entries_of_names
from lakeaudit.evidence.protocol import Context, Entries
from lakeaudit.evidence.registry import METASTORES
from lakeaudit.keys import Location
from lakeaudit.pipeline.engine import InProcessEngine
from lakeaudit.runtime.aws import Clients, Endpoint
from tests.builders import name_stores as built
from tests.builders import s3guard
from tests.builders.audits import audited, results_of
from tests.builders.name_stores import Item
from tests.builders.shop import Shop
from tests.conftest import Aws
from tests.sources.metastore_contract import (
    AT,
    BUCKETS,
    DELETED,
    FILES,
    FOLDERS,
    OLD,
    MetastoreContract,
    World,
    notes_of,
    rows_of,
)

DAY = timedelta(days=1)
HOUR = timedelta(hours=1)


def context(clients: Clients, *, live: bool = True) -> Context:
    return Context(InProcessEngine(2), clients, as_of=AT, now=AT, live=live)


def options(clients: Clients) -> S3Options:
    at = clients.default
    return S3Options(endpoint=at.endpoint, region=at.region, path_style=True)


def emrfs_of(clients: Clients, **source: Any) -> Entries:
    return entries_of_names.read(emrfs.LAYOUT, Emrfs(kind="emrfs", **source), context(clients), "metastore:0")


def s3mper_of(clients: Clients, **source: Any) -> Entries:
    return entries_of_names.read(
        s3mper.LAYOUT, S3mper(kind="s3mper", **source), context(clients), "metastore:0"
    )


READ: dict[str, Callable[..., Entries]] = {"emrfs": emrfs_of, "s3mper": s3mper_of}
MAKE: dict[str, Callable[..., Item]] = {"emrfs": built.emrfs, "s3mper": built.s3mper}
GET: dict[str, Callable[..., Item | None]] = {name: METASTORES[name].get for name in ("emrfs", "s3mper")}


def items_of(kind: str) -> list[Item]:
    """The contract's world."""
    if kind == "emrfs":
        live = [built.emrfs(b, key, OLD) for b in BUCKETS for key in (*FILES, *FOLDERS)]
        return [
            built.CONTROL,
            *live,
            *(built.emrfs(b, key, OLD, ttl=AT + DAY) for b in BUCKETS for key in DELETED),
        ]
    items = [built.s3mper(b, key, OLD) for b in BUCKETS for key in FILES]
    items += [built.s3mper(b, key, OLD, dir="true") for b in BUCKETS for key in FOLDERS]
    items += [built.s3mper(b, key, OLD, deleted="true") for b in BUCKETS for key in DELETED]
    return [built.index(OLD, "lake", "top.txt"), *items]


def world_of(clients: Clients, kind: str, **source: Any) -> World:
    everything = READ[kind](clients, **source)
    orders = READ[kind](clients, **source, location=Location("lake", "wh/orders"))
    return World(everything, rows_of(everything), rows_of(orders), sized=False, opaque=kind == "emrfs")


class _Live(MetastoreContract):
    kind = ""

    @pytest.fixture(scope="class")
    @classmethod
    def world(cls, clients: Clients, aws: Aws) -> World:
        table = f"contract-{cls.kind}"
        built.create_table(aws.dynamodb, table, built.KEYS[cls.kind], items_of(cls.kind))
        return world_of(clients, cls.kind, table=table, s3=options(clients))


class _Exported(MetastoreContract):
    kind = ""

    @pytest.fixture(scope="class")
    @classmethod
    def world(cls, clients: Clients, tmp_path_factory: pytest.TempPathFactory) -> World:
        folder = tmp_path_factory.mktemp("export [odd] {name}* %20 é")
        s3guard.export(s3guard.into(folder), items_of(cls.kind), at=AT - HOUR, table="t")
        return world_of(clients, cls.kind, export=Location.parse(str(folder)))


class TestLiveEmrfs(_Live):
    kind = "emrfs"


class TestExportedEmrfs(_Exported):
    kind = "emrfs"


class TestLiveS3mper(_Live):
    kind = "s3mper"


class TestExportedS3mper(_Exported):
    kind = "s3mper"


@pytest.fixture
def exported(clients: Clients, tmp_path: Path) -> Any:
    """Reads items by way of an export, taken at AT."""

    def read(kind: str, items: Sequence[Item], **source: Any) -> Entries:
        s3guard.export(s3guard.into(tmp_path), items, at=AT, table="t")
        return READ[kind](clients, export=Location.parse(str(tmp_path)), **source)

    return read


def naive(at: datetime) -> datetime:
    return at.replace(tzinfo=None)


SECONDS = {"N": str(round(OLD.timestamp()))}
SAID = ("tombstone", "opaque", "expired", "is_dir", "last_updated", "reject")
PLAIN = {"tombstone": False, "opaque": False, "expired": False, "is_dir": False, "last_updated": naive(OLD)}
OPAQUE = PLAIN | {"opaque": True}

WHAT_ITEMS_MEAN = [
    ("emrfs", "a file, a folder or a deletion: only its payload says", {}, OPAQUE),
    ("emrfs", "no ttl at all", {"deletionTTL": None}, OPAQUE),
    ("emrfs", "a time in seconds, as some tools write it", {"lastModified": SECONDS}, OPAQUE),
    ("emrfs", "no time", {"lastModified": None}, OPAQUE | {"last_updated": None}),
    ("emrfs", "a time of 0 is none", {"lastModified": {"N": "0"}}, OPAQUE | {"last_updated": None}),
    ("emrfs", "a deletion", {"deletionTTL": {"N": str(round((AT + DAY).timestamp()))}}, PLAIN | {"tombstone": True}),
    ("emrfs", "a deletion that DynamoDB was to take away by now", {"deletionTTL": SECONDS},
     PLAIN | {"tombstone": True, "expired": True}),
    ("emrfs", "a deletion at an unknown time", {"deletionTTL": {"N": "9999999999"}, "lastModified": None},
     OPAQUE | {"last_updated": None}),
    ("emrfs", "a payload is not looked at", {"payload": {"B": base64.b64encode(b"deleted=true").decode()}}, OPAQUE),
    ("emrfs", "a payload of another type", {"payload": {"S": "x"}, "counter": {"M": {}}}, OPAQUE),
    ("s3mper", "a file", {}, PLAIN),
    ("s3mper", "a row of its Python scripts", {"epoch": SECONDS}, PLAIN),
    ("s3mper", "marked as deleted", {"deleted": {"S": "true"}}, PLAIN | {"tombstone": True}),
    ("s3mper", "not marked", {"deleted": {"S": "false"}}, PLAIN),
    ("s3mper", "a folder", {"dir": {"S": "true"}}, PLAIN | {"is_dir": True}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "name", "given", "said"), WHAT_ITEMS_MEAN, ids=lambda value: str(value)[:40]
)
def test_what_items_mean(exported: Any, kind: str, name: str, given: Item, said: dict[str, Any]) -> None:
    plain = MAKE[kind]("b", "d/f", OLD)
    item = {key: value for key, value in (plain | given).items() if value is not None}
    (row,) = rows_of(exported(kind, [item]))
    assert {key: row.get(key) for key in SAID} == said | {"reject": None}, name
    assert (row["bucket"], row["key"], row["parent"], row["bare"]) == ("b", "d/f", "d", True)
    assert {"size", "etag", "version_id", "mod_time"} & row.keys() == set()


REJECTS = [
    ("emrfs", {"hashKey": {"S": "s3://b/d"}}, "hashKey is no path below a bucket"),
    ("emrfs", {"hashKey": {"N": "7"}}, "hashKey is no path below a bucket"),
    ("emrfs", {"rangeKey": {"S": "d/f"}}, "rangeKey is no name"),
    ("emrfs", {"lastModified": {"S": "yesterday"}}, "lastModified is no time"),
    ("emrfs", {"lastModified": {"N": "1e30"}}, "lastModified is no time"),
    ("emrfs", {"deletionTTL": {"N": "-5"}}, "deletionTTL is no time"),
    ("s3mper", {"path": {"S": "/b/d"}}, "path is no path below a bucket"),
    ("s3mper", {"path": {"S": "//b//d"}}, "path is no path below a bucket"),
    ("s3mper", {"file": {"S": ""}}, "file is no name"),
    ("s3mper", {"epoch": {"S": "1"}}, "epoch is no time"),
    ("s3mper", {"epoch": None}, "epoch is no time"),
]


@pytest.mark.parametrize(("kind", "given", "reason"), REJECTS, ids=str)
def test_what_cannot_be_understood_is_rejected_and_nothing_else(
    exported: Any, kind: str, given: Item, reason: str
) -> None:
    make = MAKE[kind]
    odd = {key: value for key, value in (make("b", "d/f", OLD) | given).items() if value is not None}
    rows = rows_of(exported(kind, [odd, make("b", "sound", OLD)], location=Location("b", "")))
    assert [row["key"] for row in rows if "reject" not in row] == ["sound"]
    assert [row["reject"].partition(" in the item")[0] for row in rows if "reject" in row] == [reason]


VALUE = st.one_of(
    st.fixed_dictionaries({"S": st.text(st.characters(exclude_categories=["Cs"]), max_size=9)}),
    st.fixed_dictionaries(
        {"N": st.from_regex(r"-?[0-9]{1,38}([.][0-9]{1,9})?([eE][0-9]{1,3})?", fullmatch=True)}
    ),
    st.sampled_from([{"NULL": True}, {"B": "AA=="}, {"M": {"a": {"S": "b"}}}]),
)


@pytest.mark.parametrize("kind", ["emrfs", "s3mper"])
def test_every_item_is_a_row_or_a_reject(exported: Any, kind: str) -> None:
    make = MAKE[kind]
    hostile = st.dictionaries(st.sampled_from([*make("b", "k", OLD), "more"]), VALUE, max_size=4)

    @settings(max_examples=4)
    @given(st.lists(hostile, min_size=80, max_size=80))
    def check(drawn: list[Item]) -> None:
        items = [{**make("b", f"f{n}", OLD), **item} for n, item in enumerate(drawn)]
        rows = rows_of(exported(kind, items))
        assert len(rows) == len(items)
        assert all("reject" in row or (row["bucket"] and row["key"]) for row in rows)

    check()


@pytest.mark.parametrize("kind", ["emrfs", "s3mper"])
def test_benign_changes_change_nothing(exported: Any, kind: str) -> None:
    """Attributes nobody asked for, another order of them and of items, other files, and the store's own items."""
    items = items_of(kind)
    plain = rows_of(exported(kind, items))
    more = [{"zz": {"L": [{"S": "x"}]}, **dict(reversed(item.items())), "ttl": {"N": "1"}} for item in items]
    own = built.CONTROL | {"rangeKey": {"S": "Other"}} if kind == "emrfs" else built.index(AT, "b", "x")
    assert rows_of(exported(kind, [*reversed(more), own])) == plain


def test_a_data_file_that_lacks_items_is_told(exported: Any, tmp_path: Path) -> None:
    """Only of small exports before rows are read: here the file is cut after it was found sound."""
    entries = exported("s3mper", [built.s3mper("b", f"k{n}", OLD) for n in range(9)])
    for path in tmp_path.rglob("*.gz"):
        path.write_bytes(path.read_bytes()[:40])
    assert {note["subject"] for note in notes_of(entries) if note["reason"]}


@pytest.mark.parametrize("kind", ["emrfs", "s3mper"])
def test_a_table_of_another_kind_is_refused(clients: Clients, aws: Aws, exported: Any, kind: str) -> None:
    other = {"emrfs": "s3mper", "s3mper": "emrfs"}[kind]
    built.create_table(aws.dynamodb, f"not-{kind}", built.KEYS[other], items_of(other))
    with pytest.raises(SourceError, match="its keys are"):
        READ[kind](clients, table=f"not-{kind}", s3=options(clients))
    entries = exported(kind, [{key: {"S": "nothing"} for key in built.KEYS[kind]}] * 3)
    assert entries.check is not None
    assert "none of its 3 items" in str(entries.check(notes_of(entries)))
    sound = exported(kind, items_of(kind))
    assert sound.check is not None
    assert sound.check(notes_of(sound)) is None


# --- whole audits ----------------------------------------------------------------------------------------------------


class Site:
    """A Delta table, and a store of names that knows its files."""

    def __init__(self, aws: Aws, s3: Endpoint, bucket: str, folder: Path, kind: str) -> None:
        self.shop, self.aws, self.bucket, self.folder, self.kind = (
            Shop(aws.s3, s3, bucket),
            aws,
            bucket,
            folder,
            kind,
        )
        self.make = MAKE[kind]
        self.table = f"{kind}-{uuid.uuid4().hex[:8]}"
        built.create_table(aws.dynamodb, self.table, built.KEYS[kind], [])
        self.shop.write("orders")
        self.files = self.shop.keys("orders/")
        for key in self.files:
            self.enter(key)

    def enter(self, key: str, **given: Any) -> None:
        item = self.make(self.bucket, key, datetime.now(UTC), **given)
        self.aws.dynamodb.put_item(TableName=self.table, Item=item)

    def forget(self, key: str) -> None:
        item = self.make(self.bucket, key, OLD)
        self.aws.dynamodb.delete_item(
            TableName=self.table, Key={name: item[name] for name in built.KEYS[self.kind]}
        )

    def remove(self, key: str) -> None:
        self.aws.s3.delete_object(Bucket=self.bucket, Key=key)

    def lake(self, source: str = "") -> Any:
        source = source or f"table: {self.table}"
        return self.shop.lake(
            self.folder,
            inventories=f"[{{kind: listing, location: 's3://{self.bucket}/warehouse/'}}]",
            extra=f"metastores: [{{kind: {self.kind}, {source}, location: 's3://{self.bucket}/warehouse/'}}]",
            defaults="grace: 0s, leftover_age: 0s, max_upload: 0s",
        )

    def audit(self, lake: Any) -> tuple[list[tuple[str, str, str]], dict[str, Any]]:
        """(kind, severity, key) of what is found, and what coverage says of both axes of the store."""
        time.sleep(2.1)  # times of stores have whole seconds
        outcome = audited(lake)
        found = [row for batch in results_of(lake).findings(outcome.run_id) for row in batch.to_pylist()]
        covered = {row["axis"]: row for row in results_of(lake).coverage(outcome.run_id)}
        return sorted((row["kind"], row["severity"], row["key"]) for row in found), covered


@pytest.fixture(params=["emrfs", "s3mper"])
def site(request: pytest.FixtureRequest, aws: Aws, s3: Endpoint, bucket: str, tmp_path: Path) -> Site:
    return Site(aws, s3, bucket, tmp_path, request.param)


def test_a_healthy_lake_is_quiet(site: Site) -> None:
    """Deletions, folders, items of other places, and what the store keeps for itself, too."""
    mark = {"ttl": datetime.now(UTC) + DAY} if site.kind == "emrfs" else {"deleted": "true"}
    site.enter("warehouse/orders/removed.parquet", **mark)
    site.enter("warehouse/orders_2/elsewhere.parquet")
    if site.kind == "emrfs":
        site.aws.dynamodb.put_item(TableName=site.table, Item=built.CONTROL)
        site.enter("warehouse/orders/day=2026-11-01")
    else:
        site.enter("warehouse/orders/day=2026-11-01", dir="true")
        site.enter("warehouse/orders/_temporary/0/task_1/part-0.parquet")
        site.forget(site.files[0])  # purged
    found, covered = site.audit(site.lake())
    assert found == []
    metastore, tree = covered["metastore"], covered["metastore_tree"]
    assert (metastore["status"], tree["status"]) == ("complete", "off")
    assert "no tree of folders" in tree["reason"]
    assert metastore["consistent"] >= len(site.files)
    assert metastore["undecided"] == (1 if site.kind == "emrfs" else 0)  # a folder, for all that can be read


def test_each_fault_is_found(site: Site) -> None:
    mark = {"ttl": datetime.now(UTC) + DAY} if site.kind == "emrfs" else {"deleted": "true"}
    lost, denied, unknown, gone = *site.files[:3], "warehouse/orders/gone.parquet"
    site.remove(lost)
    site.enter(denied, **mark)
    site.forget(unknown)
    site.enter(gone)
    found, covered = site.audit(site.lake(f"table: {site.table}, keep: none"))
    expected = [
        ("dropped", "critical", lost),
        ("hidden", "info", unknown),
        ("tombstoned", "error", denied),
    ]
    phantom = [("phantom", "error", gone)] if site.kind == "s3mper" else []
    assert found == sorted(expected + phantom)
    assert covered["metastore"]["undecided"] == (1 if site.kind == "emrfs" else 0)


def test_an_object_written_past_emrfs_cannot_be_told(
    aws: Aws, s3: Endpoint, bucket: str, tmp_path: Path
) -> None:
    site = Site(aws, s3, bucket, tmp_path, "emrfs")
    old = site.make(site.bucket, site.files[0], datetime.now(UTC) - DAY)
    aws.dynamodb.put_item(TableName=site.table, Item=old)
    found, covered = site.audit(site.lake())
    assert (found, covered["metastore"]["undecided"]) == ([], 1)


def test_a_rejected_item_makes_what_is_missing_undecided(site: Site) -> None:
    site.forget(site.files[0])
    odd = {"emrfs": {"lastModified": {"S": "x"}}, "s3mper": {"epoch": {"S": "x"}}}[site.kind]
    item = site.make(site.bucket, "warehouse/orders/odd", OLD) | odd
    site.aws.dynamodb.put_item(TableName=site.table, Item=item)
    found, covered = site.audit(site.lake(f"table: {site.table}, keep: none"))
    assert [kind for kind, _, _ in found] == ["unreadable_evidence"]
    assert (covered["metastore"]["status"], covered["metastore"]["undecided"]) == ("partial", 1)


def test_it_can_be_probed_and_asked_for_one_key(site: Site, clients: Clients) -> None:
    lake = site.lake()
    (store,) = lake.metastores
    get = GET[site.kind]
    found = get(store, clients, site.bucket, site.files[0])
    assert found is not None
    assert site.files[0].endswith(found[built.KEYS[site.kind][1]])
    assert get(store, clients, site.bucket, "warehouse/orders/none") is None
    told = [c for c in examine(lake, clients, {}, datetime.now(UTC)) if c.about == f"metastore {site.table}"]
    assert [(c.state, "can be scanned" in c.told) for c in told] == [("ok", True)]


def test_exports_and_scans_of_one_table_agree(site: Site) -> None:
    scanned = site.audit(site.lake())
    items = site.aws.dynamodb.scan(TableName=site.table)["Items"]
    plain = json.loads(json.dumps(items, default=lambda value: base64.b64encode(bytes(value)).decode()))
    s3guard.export(s3guard.into(site.folder / "export"), plain, at=datetime.now(UTC), table=site.table)
    exported = site.audit(site.lake(f"export: {site.folder / 'export'}, margin: 0s"))
    assert exported[0] == scanned[0] == []
    assert exported[1]["metastore"]["consistent"] == scanned[1]["metastore"]["consistent"]
