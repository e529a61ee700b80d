"""EMRFS and s3mper: the meaning of their items, live and exported, faults, and whole audits."""

import base64
import json
import re
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeaudit.commands.doctor_checks import examine
from lakeaudit.config import Lake, S3Options
from lakeaudit.engine.local import InProcessEngine
from lakeaudit.errors import SourceError
from lakeaudit.evidence.metastore.dynamodb import entries_of_names
from lakeaudit.evidence.metastore.emrfs import Emrfs
from lakeaudit.evidence.metastore.emrfs import layout as emrfs
from lakeaudit.evidence.metastore.s3mper import S3mper
from lakeaudit.evidence.metastore.s3mper import layout as s3mper
from lakeaudit.evidence.protocol import Context, Entries
from lakeaudit.evidence.registry import METASTORES
from lakeaudit.keys import Location
from lakeaudit.runtime.connections.aws import Clients, Endpoint
from tests.builders import name_stores as built
from tests.builders import s3guard
from tests.builders.audits import audited, results_of
from tests.builders.examples import examples
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


@pytest.mark.parametrize(
    ("kind", "entry", "deleted"),
    [
        ("emrfs", {"deletionTTL": "1700000000"}, True),
        ("emrfs", {"deletionTTL": "0"}, False),
        ("emrfs", {}, False),
        ("s3mper", {"deleted": "true"}, True),
        ("s3mper", {"deleted": "false"}, False),
        ("s3guard", {"is_deleted": True}, True),
        ("s3guard", {"is_deleted": False, "deletionTTL": "1"}, False),
    ],
)
def test_a_kind_knows_its_own_mark_of_a_deletion(kind: str, entry: Item, deleted: bool) -> None:
    assert METASTORES[kind].is_deleted(entry) is deleted


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

WHAT_ITEMS_MEAN: list[tuple[str, str, Item, dict[str, Any]]] = [
    ("emrfs", "a file, a folder or a deletion: only its payload says", {}, OPAQUE),
    ("emrfs", "no ttl at all", {"deletionTTL": None}, OPAQUE),
    ("emrfs", "a time in seconds, as some tools write it", {"lastModified": SECONDS}, OPAQUE),
    ("emrfs", "no time", {"lastModified": None}, OPAQUE | {"last_updated": None}),
    ("emrfs", "a time of 0 does not count", {"lastModified": {"N": "0"}}, OPAQUE | {"last_updated": None}),
    ("emrfs", "a deletion", {"deletionTTL": {"N": str(round((AT + DAY).timestamp()))}}, PLAIN | {"tombstone": True}),
    ("emrfs", "a deletion that DynamoDB was to take away by now", {"deletionTTL": SECONDS},
     PLAIN | {"tombstone": True, "expired": True}),
    ("emrfs", "a deletion at an unknown time", {"deletionTTL": {"N": "9999999999"}, "lastModified": None},
     OPAQUE | {"last_updated": None}),
    ("emrfs", "a payload is not read", {"payload": {"B": base64.b64encode(b"deleted=true").decode()}}, OPAQUE),
    ("emrfs", "a payload of another type", {"payload": {"S": "x"}, "counter": {"M": {}}}, OPAQUE),
    ("s3mper", "a file", {}, PLAIN),
    ("s3mper", "a row of its Python scripts", {"epoch": SECONDS}, PLAIN),
    ("s3mper", "marked as deleted", {"deleted": {"S": "true"}}, PLAIN | {"tombstone": True}),
    ("s3mper", "not marked", {"deleted": {"S": "false"}}, PLAIN),
    ("s3mper", "a folder", {"dir": {"S": "true"}}, PLAIN | {"is_dir": True}),
]  # fmt: skip


def changed(kind: str, key: str, given: Item) -> Item:
    """A plain item of that key but for what is given; what is None is left out."""
    return {name: value for name, value in (MAKE[kind]("b", key, OLD) | given).items() if value is not None}


@pytest.fixture(scope="module")
def meanings(clients: Clients, tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Any]:
    """By store and key the rows of an export of all these items: the folder of each is its number."""
    found: dict[tuple[str, str], Any] = {}
    for kind, read in READ.items():
        folder = tmp_path_factory.mktemp(kind)
        cases = [(at, given) for at, (of, _, given, _) in enumerate(WHAT_ITEMS_MEAN) if of == kind]
        items = [changed(kind, f"{at}/f", given) for at, given in cases]
        s3guard.export(s3guard.into(folder), items, at=AT, table="t")
        rows = rows_of(read(clients, export=Location.parse(str(folder))))
        assert len(rows) == len(cases)
        found |= {(kind, row["key"]): row for row in rows}
    return found


@pytest.mark.parametrize(
    "at", range(len(WHAT_ITEMS_MEAN)), ids=[f"{k}-{n}"[:47] for k, n, *_ in WHAT_ITEMS_MEAN]
)
def test_what_items_mean(meanings: dict[tuple[str, str], Any], at: int) -> None:
    kind, name, _, said = WHAT_ITEMS_MEAN[at]
    row = meanings[kind, f"{at}/f"]
    assert {key: row.get(key) for key in SAID} == said | {"reject": None}, name
    assert (row["bucket"], row["key"], row["parent"], row["bare"]) == ("b", f"{at}/f", f"{at}", True)
    assert {"size", "etag", "version_id", "mod_time"} & row.keys() == set()


REJECTS: list[tuple[str, Item, str]] = [
    ("emrfs", {"hashKey": {"S": "s3://b/d"}}, "hashKey is not a path below a bucket"),
    ("emrfs", {"hashKey": {"N": "7"}}, "hashKey is not a path below a bucket"),
    ("emrfs", {"rangeKey": {"S": "d/f"}}, "rangeKey is not a name"),
    ("emrfs", {"lastModified": {"S": "yesterday"}}, "lastModified is not a time"),
    ("emrfs", {"lastModified": {"N": "1e30"}}, "lastModified is not a time"),
    ("emrfs", {"deletionTTL": {"N": "-5"}}, "deletionTTL is not a time"),
    ("s3mper", {"path": {"S": "/b/d"}}, "path is not a path below a bucket"),
    ("s3mper", {"path": {"S": "//b//d"}}, "path is not a path below a bucket"),
    ("s3mper", {"file": {"S": ""}}, "file is not a name"),
    ("s3mper", {"epoch": {"S": "1"}}, "epoch is not a time"),
    ("s3mper", {"epoch": None}, "epoch is not a time"),
]


@pytest.mark.parametrize("kind", READ)
def test_only_invalid_items_are_rejected(exported: Any, kind: str) -> None:
    """Every odd item of a store, each beside a sound one."""
    cases = [(given, reason) for of, given, reason in REJECTS if of == kind]
    odd = [changed(kind, f"d/f{at}", given) for at, (given, _) in enumerate(cases)]
    sound = [MAKE[kind]("b", f"sound {at}", OLD) for at in range(len(cases))]
    pairs = [item for pair in zip(odd, sound, strict=True) for item in pair]
    rows = rows_of(exported(kind, pairs, location=Location("b", "")))
    assert [row["key"] for row in rows if "reject" not in row] == [f"sound {at}" for at in range(len(cases))]
    told = [row["reject"].partition(" in the item") for row in rows if "reject" in row]
    names = [item[built.KEYS[kind][1]]["S"].rpartition("/")[2] for item in odd]
    assert sorted((reason, item.rpartition("/")[2]) for reason, _, item in told) == sorted(
        (reason, name) for (_, reason), name in zip(cases, names, strict=True)
    )


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

    @examples(2, 40)
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


def test_a_data_file_that_lacks_items_is_reported(exported: Any, tmp_path: Path) -> None:
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
    """A Delta table in a folder of its own, and a store of names that knows its files."""

    def __init__(self, aws: Aws, shop: Shop, kind: str, case: str) -> None:
        self.aws, self.bucket, self.kind, self.make = aws, shop.bucket, kind, MAKE[kind]
        self.name = f"{kind}_{case}"
        self.root = f"warehouse/{self.name}"
        self.table = f"{self.name}-{uuid.uuid4().hex[:8]}"
        built.create_table(aws.dynamodb, self.table, built.KEYS[kind], [])
        shop.write(f"{self.name}/orders", commits=1)
        self.files = shop.keys(f"{self.name}/orders/")
        self.source = f"table: {self.table}"
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

    @property
    def mark(self) -> dict[str, Any]:
        """The attribute that marks a deletion."""
        return {"ttl": datetime.now(UTC) + DAY} if self.kind == "emrfs" else {"deleted": "true"}

    # what is laid before the audit

    def lay_healthy(self) -> None:
        """Deletions, folders, items of other places, and what the store keeps for itself, too."""
        self.enter(f"{self.root}/orders/removed.parquet", **self.mark)
        self.enter(f"{self.root}/orders_2/elsewhere.parquet")
        if self.kind == "emrfs":
            self.aws.dynamodb.put_item(TableName=self.table, Item=built.CONTROL)
            self.enter(f"{self.root}/orders/day=2026-11-01")
        else:
            self.enter(f"{self.root}/orders/day=2026-11-01", dir="true")
            self.enter(f"{self.root}/orders/_temporary/0/task_1/part-0.parquet")
            self.forget(self.files[0])  # purged

    def lay_faulty(self) -> None:
        self.source += ", keep: none"
        lost, denied, unknown = self.files
        self.remove(lost)
        self.enter(denied, **self.mark)
        self.forget(unknown)
        self.enter(f"{self.root}/orders/gone.parquet")

    def lay_overwritten(self) -> None:
        """The first file is younger than its item."""
        old = self.make(self.bucket, self.files[0], datetime.now(UTC) - DAY)
        self.aws.dynamodb.put_item(TableName=self.table, Item=old)

    def lay_odd(self) -> None:
        """An item that is rejected, and one that is missing."""
        self.source += ", keep: none"
        self.forget(self.files[0])
        odd = {"emrfs": {"lastModified": {"S": "x"}}, "s3mper": {"epoch": {"S": "x"}}}[self.kind]
        self.aws.dynamodb.put_item(
            TableName=self.table, Item=self.make(self.bucket, f"{self.root}/orders/odd", OLD) | odd
        )

    def lay_plain(self) -> None:
        """As the table was written."""


@dataclass(frozen=True)
class Audited:
    """What was found about a site as (kind, severity, key), and what coverage says of each axis of its table.

    `source` is the id of its store.
    """

    site: Site
    source: str
    found: list[tuple[str, str, str]]
    covered: dict[str, dict[str, Any]]


class Sites:
    """One bucket with every site, and a lake of some of them, each with a store of its own."""

    def __init__(self, aws: Aws, s3: Endpoint, bucket: str, folder: Path) -> None:
        self.shop, self.folder = Shop(aws.s3, s3, bucket), folder
        cases = [(kind, case) for kind in READ for case in ("healthy", "faulty", "odd", "plain")]
        made = [Site(aws, self.shop, *each) for each in (*cases, ("emrfs", "overwritten"))]
        self.by_name = {site.name: site for site in made}
        for site in made:
            getattr(site, f"lay_{site.name.partition('_')[2]}")()

    def lake(self, sites: Sequence[Site]) -> Lake:
        place = f"s3://{self.shop.bucket}/warehouse/"
        stores = [
            f"{{kind: {site.kind}, {site.source}, location: 's3://{site.bucket}/{site.root}/'}}"
            for site in sites
        ]
        tables = [
            f"- {{name: {site.name}, location: '{place}{site.name}/orders', manifests: [{{kind: delta}}]}}"
            for site in sites
        ]
        return self.shop.lake(
            self.folder, inventories=f"[{{kind: listing, location: '{place}'}}]", tables=tables,
            extra=f"metastores: [{', '.join(stores)}]", defaults="grace: 0s, leftover_age: 0s, max_upload: 0s",
        )  # fmt: skip

    def audit(self, sites: Sequence[Site]) -> dict[str, Audited]:
        time.sleep(2.1)  # times of stores have whole seconds
        lake = self.lake(sites)
        outcome = audited(lake)
        found = [row for batch in results_of(lake).findings(outcome.run_id) for row in batch.to_pylist()]
        covered = results_of(lake).coverage(outcome.run_id)
        told = {
            site.name: Audited(
                site,
                f"metastore:{at}",
                sorted((r["kind"], r["severity"], r["key"]) for r in found if _about(r, site)),
                {row["axis"]: row for row in covered if row["table_name"] == site.name},
            )
            for at, site in enumerate(sites)
        }
        assert sum(len(each.found) for each in told.values()) == len(found), "each is about one site"
        return told


def _about(finding: dict[str, Any], site: Site) -> bool:
    return finding["table_name"] == site.name or site.table in (finding["subject"] or "")


@pytest.fixture(scope="module")
def sites(aws: Aws, s3: Endpoint, tmp_path_factory: pytest.TempPathFactory) -> Sites:
    aws.s3.create_bucket(Bucket="name-stores")
    return Sites(aws, s3, "name-stores", tmp_path_factory.mktemp("names"))


@pytest.fixture(scope="module")
def night(sites: Sites) -> dict[str, Audited]:
    """One audit of all sites except those whose stores have a gap, which would be a gap of the others, too."""
    return sites.audit([site for name, site in sites.by_name.items() if not name.endswith("odd")])


KINDS = pytest.mark.parametrize("kind", READ)


@KINDS
def test_a_healthy_lake_is_quiet(night: dict[str, Audited], kind: str) -> None:
    told = night[f"{kind}_healthy"]
    assert told.found == []
    metastore, tree = told.covered["metastore"], told.covered["metastore_tree"]
    assert (metastore["status"], tree["status"]) == ("complete", "off")
    assert "has no folders" in tree["reason"]
    assert metastore["consistent"] >= len(told.site.files)
    assert metastore["undecided"] == (1 if kind == "emrfs" else 0)  # a folder, for all that can be read


@KINDS
def test_each_fault_is_found(night: dict[str, Audited], kind: str) -> None:
    told = night[f"{kind}_faulty"]
    lost, denied, unknown = told.site.files
    expected = [
        ("dropped", "critical", lost),
        ("hidden", "info", unknown),
        ("tombstoned", "error", denied),
    ]
    gone = f"{told.site.root}/orders/gone.parquet"
    phantom = [("phantom", "error", gone)] if kind == "s3mper" else []
    assert told.found == sorted(expected + phantom)
    assert told.covered["metastore"]["undecided"] == (1 if kind == "emrfs" else 0)


def test_an_object_written_past_emrfs_cannot_be_detected(night: dict[str, Audited]) -> None:
    told = night["emrfs_overwritten"]
    assert (told.found, told.covered["metastore"]["undecided"]) == ([], 1)


@KINDS
def test_it_can_be_probed_and_asked_for_one_key(sites: Sites, clients: Clients, kind: str) -> None:
    site = sites.by_name[f"{kind}_plain"]
    lake = sites.lake([site])
    (store,) = lake.metastores
    get = GET[kind]
    found = get(store, clients, site.bucket, site.files[0])
    assert found is not None
    assert site.files[0].endswith(found[built.KEYS[kind][1]])
    assert get(store, clients, site.bucket, "warehouse/orders/none") is None
    told = [c for c in examine(lake, clients, {}, datetime.now(UTC)) if c.about == f"metastore {site.table}"]
    assert [(c.state, "can be scanned" in c.message) for c in told] == [("ok", True)]


@pytest.fixture(scope="module")
def next_night(sites: Sites, night: dict[str, Audited]) -> dict[str, Audited]:
    """An audit of the others, and by exports of the stores that nobody changed since."""
    plain = [night[f"{kind}_plain"].site for kind in READ]
    for site in plain:
        items = site.aws.dynamodb.scan(TableName=site.table)["Items"]
        exported = json.loads(
            json.dumps(items, default=lambda value: base64.b64encode(bytes(value)).decode())
        )
        folder = sites.folder / f"export {site.name}"
        s3guard.export(s3guard.into(folder), exported, at=datetime.now(UTC), table=site.table)
        site.source = f"export: '{folder}', margin: 0s"
    return sites.audit([*plain, *(sites.by_name[f"{kind}_odd"] for kind in READ)])


@KINDS
def test_exports_and_scans_of_one_table_agree(
    night: dict[str, Audited], next_night: dict[str, Audited], kind: str
) -> None:
    scanned, exported = night[f"{kind}_plain"], next_night[f"{kind}_plain"]
    assert exported.found == scanned.found == []
    assert exported.covered["metastore"]["consistent"] == scanned.covered["metastore"]["consistent"]


@KINDS
def test_a_rejected_item_makes_what_is_missing_undecided(next_night: dict[str, Audited], kind: str) -> None:
    told = next_night[f"{kind}_odd"]
    assert [found[0] for found in told.found] == ["unreadable_evidence"]
    metastore = told.covered["metastore"]
    assert (metastore["status"], metastore["undecided"]) == ("partial", 1)
    store = rf"{kind} DynamoDB table {kind}_odd-\w+"
    assert re.fullmatch(rf"1 file undecided: {store} was not read completely", metastore["reason"])
