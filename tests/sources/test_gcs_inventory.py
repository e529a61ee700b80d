"""Reports of Google's Storage Insights: the contract, the meaning of rows, faults, and audits."""

import base64
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeaudit.errors import SourceError
from lakeaudit.evidence.protocol import SnapshotWindow, Stored
from lakeaudit.evidence.storage.gcs_inventory import GcsInventory
from lakeaudit.evidence.storage.gcs_inventory import reader as gcs_inventory
from lakeaudit.keys import Location
from lakeaudit.runtime.connections.aws import Clients, Endpoint
from tests.builders import gcs_reports as built
from tests.builders.audits import audited, results_of
from tests.builders.examples import examples
from tests.builders.gcs_reports import TAKEN, Record
from tests.builders.inventory import into
from tests.builders.shop import Shop
from tests.conftest import Aws
from tests.sources.storage_contract import (
    OBJECTS,
    S3_ONLY,
    StorageContract,
    World,
    context,
    notes_of,
    stored_rows,
)

if TYPE_CHECKING:
    from mypy_boto3_s3.type_defs import CopySourceTypeDef

DAY_AFTER = TAKEN + timedelta(days=1)
HOUR = timedelta(hours=1)


def read(
    where: str | Path, as_of: datetime = DAY_AFTER, clients: Clients | None = None, **options: Any
) -> Stored:
    source = GcsInventory(kind="gcs_inventory", location=Location.parse(str(where)), **options)
    return gcs_inventory.read(source, context(clients or Clients(), as_of), "storage:0")


class TestContract(StorageContract):
    @pytest.fixture(scope="class", params=["csv", "parquet"])
    @classmethod
    def world(cls, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> World:
        folder = tmp_path_factory.mktemp("report")
        objects = OBJECTS | S3_ONLY
        rows = [Record(key, len(content), md5Hash=built.md5(content)) for key, content in objects.items()]
        built.lay(into(folder), [rows[::2], rows[1::2]], form=request.param)
        stored = read(folder / "insights")
        return World(
            stored, Location("lake", ""), objects, TAKEN - 13 * HOUR, etags=False, rows=stored_rows(stored)
        )


def one(tmp_path: Path, record: Record, form: str = "csv") -> dict[str, Any]:
    built.lay(into(tmp_path), [[record]], form=form)
    (row,) = stored_rows(read(tmp_path / "insights"))
    return row


PLAIN = Record("t/a")
NOON = datetime(2026, 11, 19, 12)  # noqa: DTZ001 - times inside an audit are UTC without a zone


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_what_a_row_means(tmp_path: Path, form: str) -> None:
    assert one(tmp_path, PLAIN, form) == {
        "source": "storage:0", "bucket": "lake", "key": "t/a", "presence": "present", "size": 5, "modified_at": NOON,
        "version_id": "1669802400000000", "storage_class": "STANDARD", "archived": False, "delete_marker": False,
        "checksum": "md5:5d41402abc4b2a76b9719d911017c592",
    }  # fmt: skip


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_content_that_was_composed_is_known_by_its_crc(tmp_path: Path, form: str) -> None:
    assert one(tmp_path, built.composed(PLAIN), form)["checksum"] == "crc32c:9a71bb4c"
    assert "checksum" not in one(tmp_path, replace(built.composed(PLAIN), crc32c=None), form)


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_of_several_generations_the_one_that_was_not_deleted_is_current(tmp_path: Path, form: str) -> None:
    old = replace(PLAIN, generation=7, size=3, timeDeleted=TAKEN - HOUR, timeCreated=TAKEN - 2 * HOUR)
    gone = replace(old, name="t/gone")
    built.lay(into(tmp_path), [[PLAIN, old, gone]], form=form)
    rows = {row["key"]: row for row in stored_rows(read(tmp_path / "insights"))}
    assert (rows["t/a"]["presence"], rows["t/a"]["size"], rows["t/a"]["older_version_id"]) == (
        "present",
        5,
        "7",
    )
    only_older = rows["t/gone"]
    found = (only_older["presence"], only_older["older_version_id"], only_older["older_size"])
    assert found == ("absent", "7", 3)


def test_a_name_is_raw_and_a_metadata_update_does_not_count_as_a_write(tmp_path: Path) -> None:
    row = one(tmp_path, replace(PLAIN, name='t/a+b%20,"c"', updated=TAKEN - timedelta(minutes=1)))
    assert (row["key"], row["modified_at"]) == ('t/a+b%20,"c"', NOON)


@pytest.mark.parametrize("name", ["STANDARD", "NEARLINE", "COLDLINE", "ARCHIVE"])
def test_every_class_is_read_at_once(tmp_path: Path, name: str) -> None:
    assert one(tmp_path, replace(PLAIN, storageClass=name))["archived"] is False


def test_the_newest_report_up_to_as_of_is_one_instant(tmp_path: Path) -> None:
    for days, key in ((2, "older"), (0, "newer")):
        built.lay(into(tmp_path), [[Record(key)]], at=TAKEN - timedelta(days=days))
    newest = read(tmp_path / "insights")
    assert [row["key"] for row in stored_rows(newest)] == ["newer"]
    assert newest.info.cut == SnapshotWindow(TAKEN, TAKEN, timedelta(0))
    assert newest.covers == (Location("lake", ""),)
    assert newest.holes == ()
    older = read(tmp_path / "insights", TAKEN - HOUR)
    assert [row["key"] for row in stored_rows(older)] == ["older"]


def test_the_manifest_comes_last_so_shards_alone_do_not_count(tmp_path: Path) -> None:
    (tmp_path / built.lay(into(tmp_path), [[PLAIN]])).unlink()
    with pytest.raises(SourceError, match="no inventory report"):
        read(tmp_path / "insights")


BENIGN: list[dict[str, Any]] = [
    {},
    {"columns": (*reversed(built.COLUMNS),)},
    {"options": {"delimiter": "|"}},
    {"options": {"names": False}},
    {"columns": tuple(name for name in built.COLUMNS if name not in ("etag", "updated", "project"))},
    {"unknown": {"later": [1]}, "report_shards_file_names": None},
]


NINE = [replace(PLAIN, name=f"t/{n}", size=n) for n in range(9)]


@pytest.fixture(scope="module")
def plain_rows(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Those of a plain report of nine objects in one shard."""
    folder = tmp_path_factory.mktemp("plain")
    built.lay(into(folder), [NINE])
    return stored_rows(read(folder / "insights"))


@pytest.mark.parametrize("how", BENIGN, ids=str)
def test_benign_changes_change_nothing(
    tmp_path: Path, how: dict[str, Any], plain_rows: list[dict[str, Any]]
) -> None:
    names = how.pop("report_shards_file_names", "none")
    if names is None:  # as some reports name them: by their whole place
        how["report_shards_file_names"] = [
            f"gs://reports/insights/{built.CONFIGURATION}_{TAKEN:%Y-%m-%dT%H:%M}_{n}.csv" for n in range(2)
        ]
    built.lay(into(tmp_path), [NINE[4:], NINE[:4]], **how)
    other = read(tmp_path / "insights")
    assert stored_rows(other) == plain_rows
    assert other.holes == ()


HARMFUL: list[tuple[str, dict[str, Any], str]] = [
    (
        "a shard is missing",
        {"shard_count": 2, "report_shards_file_names": ["gone.csv", "gone_too.csv"]},
        "missing",
    ),
    ("records are missing", {"records_processed": 10}, "its shards have 9 records, its manifest says 10"),
]


@pytest.mark.parametrize(("name", "how", "reason"), HARMFUL, ids=lambda value: str(value)[:20])
def test_a_missing_file_is_an_evidence_gap(
    tmp_path: Path, name: str, how: dict[str, Any], reason: str
) -> None:
    built.lay(into(tmp_path), [[replace(PLAIN, name=f"t/{n}") for n in range(9)]], **how)
    stored = read(tmp_path / "insights")
    assert stored.holes, name
    assert all(reason in hole.reason for hole in stored.holes)


@pytest.mark.parametrize("form", ["csv", "parquet"])
@pytest.mark.parametrize("cut", [0, 10, 300])
def test_a_torn_shard_is_an_evidence_gap(tmp_path: Path, form: str, cut: int) -> None:
    built.lay(into(tmp_path), [[replace(PLAIN, name=f"t/{n}") for n in range(9)]], form=form)
    (shard,) = (tmp_path / "insights").glob(f"*.{form}")
    shard.write_bytes(shard.read_bytes()[:cut])
    assert len(read(tmp_path / "insights").holes) == 1


UNUSABLE: list[dict[str, Any]] = [
    {"snapshot_time": "yesterday"},
    {"snapshot_time": "2026-11-20T01:00:00"},
    {"report_shards_file_names": "x"},
    {"report_shards_file_names": ["a/"]},
    {"shard_count": 7},
    {"records_processed": -1},
    {"report_config": {"csvOptions": {"delimiter": "ab"}}},
    {"report_config": {}},
]


@pytest.mark.parametrize("how", UNUSABLE, ids=str)
def test_an_invalid_manifest_is_refused(tmp_path: Path, how: dict[str, Any]) -> None:
    built.lay(into(tmp_path), [[PLAIN]], **how)
    with pytest.raises(SourceError):
        read(tmp_path / "insights")


def test_reports_of_several_configurations_are_refused(tmp_path: Path) -> None:
    for name in ("one", "two"):
        built.lay(into(tmp_path), [[PLAIN]], configuration=name)
    with pytest.raises(SourceError, match="2 configurations"):
        read(tmp_path / "insights")


def test_covers_are_of_the_reports_bucket_and_old_reports_are_stale(tmp_path: Path) -> None:
    place = built.lay(into(tmp_path), [[PLAIN]])
    with pytest.raises(SourceError, match="about bucket lake and cannot cover other"):
        read(tmp_path / place, covers=(Location("other", ""),))
    below = read(tmp_path / place, TAKEN + timedelta(days=4), covers=(Location("lake", "t"),))
    assert below.covers == (Location("lake", "t"),)
    assert "stale" in below.holes[0].reason
    assert read(tmp_path / place, TAKEN + timedelta(days=4), max_age=timedelta(days=9)).holes == ()


REJECTS: list[tuple[dict[str, Any], str]] = [
    ({"name": ""}, "row without name"),
    ({"bucket": "other"}, "row of another bucket: other, not lake"),
    ({"size": "many"}, "size is not a number: many"),
    ({"timeCreated": "yesterday"}, "timeCreated is not a time: yesterday"),
    ({"md5Hash": "AAAA"}, "md5Hash is not an MD5"),
    ({"md5Hash": "!"}, "md5Hash is not an MD5"),
    ({"crc32c": "AAAAAAAAAAA="}, "crc32c is not a CRC32C"),
]


def test_a_value_that_cannot_be_understood_rejects_its_row_alone(tmp_path: Path) -> None:
    """Every odd row of one report, each beside a sound one."""
    odd = [replace(PLAIN, **({"name": f"odd {n}"} | given)) for n, (given, _) in enumerate(REJECTS)]
    sound = [replace(PLAIN, name=f"sound {n}") for n in range(len(REJECTS))]
    built.lay(into(tmp_path), [[row for pair in zip(odd, sound, strict=True) for row in pair]])
    rows = stored_rows(read(tmp_path / "insights"))
    assert sorted(row["key"] for row in rows if "key" in row) == [f"sound {n}" for n in range(len(REJECTS))]
    assert sorted(row["reject"].partition(": ")[2] for row in rows if "reject" in row) == sorted(
        reason for _, reason in REJECTS
    )


TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\r\n"), max_size=9)


def test_whatever_stands_in_a_row_it_is_one(tmp_path: Path) -> None:
    @examples(2, 50)
    @given(
        st.lists(st.dictionaries(st.sampled_from(built.COLUMNS), TEXT, max_size=3), min_size=30, max_size=30)
    )
    def check(drawn: Sequence[dict[str, Any]]) -> None:
        records = [replace(PLAIN, **{"name": f"t/{n}", **given}) for n, given in enumerate(drawn)]
        place = built.lay(into(tmp_path), [records])
        stored = read(tmp_path / place)
        assert stored.holes == ()
        assert notes_of(stored) == []
        told = stored_rows(stored)
        names = {record.name for record in records}
        assert {row["key"] for row in told if "key" in row} <= names
        assert (
            len({row["key"] for row in told if "key" in row}) + sum("reject" in row for row in told)
            >= len(names) - 1
        )

    check()


def test_names_of_google_are_places(tmp_path: Path) -> None:
    assert Location.parse("gs://lake/wh/orders/") == Location("lake", "wh/orders")


# --- whole audits ----------------------------------------------------------------------------------------------------


class Site:
    """A Delta table in a bucket of its own, asked by the API of S3, and a report of the bucket as Google makes it."""

    def __init__(self, aws: Aws, s3: Endpoint, name: str) -> None:
        self.name, self.bucket, self.aws = name, f"gcs-{name}", aws
        aws.s3.create_bucket(Bucket=self.bucket)
        self.shop = Shop(aws.s3, s3, self.bucket)
        self.shop.write("orders", commits=1)

    def break_files(self) -> tuple[str, str]:
        """The keys of a file that is lost and of one that is cut; another has a stray copy."""
        lost, cut, copied = self.shop.keys("orders/")[:3]
        self.aws.s3.delete_object(Bucket=self.bucket, Key=lost)
        body = self.aws.s3.get_object(Bucket=self.bucket, Key=cut)["Body"].read()
        self.aws.s3.put_object(Bucket=self.bucket, Key=cut, Body=body[:-7])
        stray = copied.replace(".parquet", "-stray.parquet")
        source: CopySourceTypeDef = {"Bucket": self.bucket, "Key": copied}
        self.aws.s3.copy_object(Bucket=self.bucket, Key=stray, CopySource=source)
        return lost, cut

    def report(self, form: str, **how: Any) -> None:
        records = [
            Record(
                version.Key,
                version.Size,
                version.LastModifiedDate,
                base64.b64encode(bytes.fromhex(str(version.ETag))).decode(),
                bucket=self.bucket,
            )
            for version in self.shop.objects()
        ]
        put = lambda key, body: self.aws.s3.put_object(Bucket=self.bucket, Key=key, Body=body)  # noqa: E731
        built.lay(
            put, [records[::2], records[1::2]], form=form, at=datetime.now(UTC), bucket=self.bucket, **how
        )


@dataclass(frozen=True)
class Night:
    """What one audit of all sites found, by site as (kind, key), and what coverage says of each axis."""

    found: dict[str, list[tuple[str, str]]]
    covered: dict[str, dict[str, dict[str, Any]]]
    broken: tuple[str, str]


REPORTS: dict[str, dict[str, Any]] = {
    "csv": {"form": "csv"},
    "parquet": {"form": "parquet"},
    "faults": {"form": "csv"},
    "hole": {"form": "csv", "records_processed": 10**6},
}


@pytest.fixture(scope="module")
def night(aws: Aws, s3: Endpoint, tmp_path_factory: pytest.TempPathFactory) -> Night:
    sites = {name: Site(aws, s3, name) for name in REPORTS}
    broken = sites["faults"].break_files()
    time.sleep(1.1)  # a report's scan begins when every object is at least a second old
    for name, how in REPORTS.items():
        sites[name].report(**how)
    inventories = [
        f"{{kind: gcs_inventory, location: 'gs://{site.bucket}/insights/'}}" for site in sites.values()
    ]
    lake = sites["csv"].shop.lake(
        tmp_path_factory.mktemp("gcs"),
        inventories=f"[{', '.join(inventories)}]",
        tables=[
            f"- {{name: {name}, location: 'gs://{site.bucket}/warehouse/orders', manifests: [{{kind: delta}}]}}"
            for name, site in sites.items()
        ],
    )
    outcome = audited(lake)
    found: dict[str, list[tuple[str, str]]] = {name: [] for name in sites}
    for row in (row for batch in results_of(lake).findings(outcome.run_id) for row in batch.to_pylist()):
        of_report = (name for name, site in sites.items() if site.bucket in row["subject"])
        found[row["table_name"] or next(of_report)].append((row["kind"], row["key"]))
    coverage = results_of(lake).coverage(outcome.run_id)
    covered = {name: {row["axis"]: row for row in coverage if row["table_name"] == name} for name in sites}
    return Night({name: sorted(rows) for name, rows in found.items()}, covered, broken)


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_a_healthy_lake_is_quiet(night: Night, form: str) -> None:
    covered = night.covered[form]
    assert night.found[form] == []
    assert {covered[axis]["status"] for axis in ("content", "leftover", "duplicate")} == {"complete"}
    assert covered["content"]["decided_share"] == 1.0


def test_each_fault_is_found(night: Night) -> None:
    found = night.found["faults"]
    assert [kind for kind, _ in found][:2] == ["dropped", "size_mismatch"]
    assert [kind in ("uncommitted", "unreferenced") for kind, _ in found[2:]] == [
        True
    ]  # by the second it was made
    assert {key for _, key in found} >= {*night.broken}


def test_a_report_with_a_gap_drops_nothing(night: Night) -> None:
    assert [kind for kind, _ in night.found["hole"]] == ["unreadable_evidence"]
    assert json.dumps(night.covered["hole"]["content"]["reason"])
