"""A lake that was copied to another bucket: files that were not copied whole are reported."""

import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from lakeaudit import cli
from lakeaudit.audit.outcome import Outcome
from lakeaudit.config import Lake, load_lake
from lakeaudit.evidence.manifest.point import lookup_claims
from lakeaudit.runtime.connections.aws import Endpoint
from lakeaudit.runtime.connections.endpoints import clients_of
from tests.builders.audits import audited, results_of
from tests.builders.backdate import backdate
from tests.builders.delta_lake import add, metadata, millis, protocol
from tests.builders.iceberg import IcebergLake
from tests.conftest import Aws

pytestmark = pytest.mark.variant

THEN = datetime.now(UTC) - timedelta(days=30)
MOVED = datetime.now(UTC) - timedelta(hours=5)
CLICKS = b"clicks of a day"
FILES = tuple(f"wh/orders/day={n % 2}/part-{n}.parquet" for n in range(5))


class Move:
    """Two buckets; `old` has a table of plain files and a Delta table with absolute paths, and `new` copies of both."""

    def __init__(self, aws: Aws, endpoint: Endpoint, folder: Path) -> None:
        self.s3, self.folder = aws.s3, folder
        self.endpoint = endpoint
        self.old, self.new = (f"{name}-{uuid.uuid4().hex[:12]}" for name in ("old", "new"))
        for bucket in (self.old, self.new):
            self.s3.create_bucket(Bucket=bucket)
        for key in FILES:
            self.put(self.old, key, key.encode(), THEN)
        self.put(self.old, "wh/orders/_temporary/0/x", b"never committed", THEN)
        self.put(self.old, "wh/orders/day=0/", b"", THEN)
        self.put(self.old, "wh/clicks/part-0.parquet", CLICKS, THEN)
        named = f"s3a://{self.old}/wh/clicks/part-0.parquet"
        acts = [
            {"commitInfo": {"timestamp": millis(THEN), "operation": "WRITE"}},
            protocol(),
            metadata(),
            add(named, size=len(CLICKS)),
        ]
        log = "".join(json.dumps(act) + "\n" for act in acts).encode()
        self.put(self.old, f"wh/clicks/_delta_log/{0:020}.json", log, THEN)
        for key in (*FILES, "wh/clicks/part-0.parquet", f"wh/clicks/_delta_log/{0:020}.json"):
            self.copy(key)

    def put(self, bucket: str, key: str, body: bytes, at: datetime) -> None:
        self.s3.put_object(Bucket=bucket, Key=key, Body=body)
        backdate(bucket, key, at)

    def copy(self, key: str) -> None:
        body = self.s3.get_object(Bucket=self.old, Key=key)["Body"].read()
        self.put(self.new, key.replace("wh/", "lake/", 1), body, MOVED)

    def lake(self, **more: Any) -> Lake:
        here = f"s3://{self.new}/lake"
        data = {
            "version": 1,
            "lake": "moved",
            "results": str(self.folder / "results"),
            "s3": {"endpoint": self.endpoint.endpoint, "region": "us-east-1", "path_style": True},
            "inventories": [{"kind": "listing", "location": here}],
            "maps": [{"from": f"s3://{self.old}/wh/", "to": here}],
            "tables": [
                {
                    "name": "orders",
                    "location": f"{here}/orders",
                    "manifests": [{"kind": "listing", "location": f"s3://{self.old}/wh", "complete": True}],
                },
                {"name": "clicks", "location": f"{here}/clicks", "manifests": [{"kind": "delta"}]},
            ],
        } | more
        path = self.folder / "lake.yaml"
        path.write_text(yaml.safe_dump(data))
        return load_lake(path, {})


@pytest.fixture
def move(aws: Aws, s3: Endpoint, tmp_path: Path) -> Move:
    return Move(aws, s3, tmp_path)


def kinds_by_key(lake: Lake, table: str = "") -> dict[str, str]:
    """Return the kinds of all findings, or of those of one table."""
    results = results_of(lake)
    rows = [r for b in results.findings(results.published(None)["run_id"]) for r in b.to_pylist()]
    return {
        row["key"] or row["subject"]: row["kind"] for row in rows if not table or row["table_name"] == table
    }


def content_of(lake: Lake) -> dict[str, tuple[int, int, int]]:
    """Return the numbers of files, consistent and undecided ones on the axis content, by table."""
    results = results_of(lake)
    rows = results.coverage(results.published(None)["run_id"])
    return {
        row["table_name"]: (row["files"], row["consistent"], row["undecided"])
        for row in rows
        if row["axis"] == "content"
    }


def with_visits(move: Move) -> tuple[Lake, list[str]]:
    """The lake with an Iceberg table, whose data's keys are given, too.

    Its metadata goes on naming everything in the old bucket; the copies are younger than the snapshots.
    """
    before = IcebergLake(move.s3, move.endpoint, move.old)
    before.table("visits")
    keys, later = before.keys("warehouse/visits/"), datetime.now(UTC)
    for key in keys:
        body = move.s3.get_object(Bucket=move.old, Key=key)["Body"].read()
        move.put(move.new, key, body, later)
    visits = f"s3://{move.new}/warehouse"
    entry = {"name": "visits", "location": f"{visits}/visits", "manifests": [{"kind": "iceberg"}]}
    move.lake()
    data = yaml.safe_load((move.folder / "lake.yaml").read_text())
    more = {
        "maps": [*data["maps"], {"from": f"s3://{move.old}/warehouse/", "to": f"{visits}/"}],
        "inventories": [*data["inventories"], {"kind": "listing", "location": visits}],
        "tables": [*data["tables"], entry],
        "defaults": {"grace": "0s"},
    }
    return move.lake(**more), [key for key in keys if "/data/" in key]


def test_a_whole_move_ends_in_a_certificate_and_files_that_were_not_copied_whole_are_reported(
    move: Move, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lake, visits = with_visits(move)
    monkeypatch.chdir(move.folder)
    outcome = audited(lake)
    assert (kinds_by_key(lake), outcome.exit_code) == ({}, 0)
    agreed = content_of(lake)
    files = agreed.pop("visits")[0]
    assert files > len(visits) == 4, "metadata is judged, too"
    assert content_of(lake) == {"orders": (5, 5, 0), "clicks": (1, 1, 0), "visits": (files, files, 0)}
    assert cli.main(["report", "lake.yaml", "--certificate"]) == 0
    assert capsys.readouterr().out == "certificate.json\n"
    stated = json.loads((move.folder / "certificate.json").read_text())
    assert (stated["files_agreed"], stated["files"], stated["tables"]) == (6 + files, 6 + files, 3)
    assert {(each["role"], each["kind"]) for each in stated["evidence"]} == {
        ("storage", "listing"),
        ("manifest", "listing"),
        ("manifest", "delta"),
        ("manifest", "iceberg"),
    }
    not_copied_whole(move)
    move.s3.delete_object(Bucket=move.new, Key=visits[0])
    audited(lake)
    lost, cut, _ = (key.replace("wh/", "lake/", 1) for key in FILES[:3])
    assert kinds_by_key(lake) == {
        lost: "dropped",
        cut: "size_mismatch",
        "lake/clicks/part-0.parquet": "dropped",
        "day=1#stale_visible": "stale_visible",
        visits[0]: "dropped",
    }
    # a listing says no encryption: nobody can tell whether other ETags are other MD5s
    assert content_of(lake)["orders"] == (5, 2, 1)
    (move.folder / "certificate.json").unlink()
    assert cli.main(["report", "lake.yaml", "--certificate"]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert [line.removeprefix("lakeaudit: ") for line in printed.err.splitlines()] == [
        "orders: files of the table: 1 file undecided",
        "clicks: files of the table: 1 file with a finding",
        "orders: files of the table: 2 files with a finding",
        "visits: files of the table: 1 file with a finding",
        "clicks: files of the table: 1 pending or open discrepancy of kind dropped",
        "orders: files of the table: 1 pending or open discrepancy of kind dropped",
        "orders: files of the table: 1 pending or open discrepancy of kind size_mismatch",
        "orders: unused files: 1 pending or open discrepancy of kind stale_visible",
        "visits: files of the table: 1 pending or open discrepancy of kind dropped",
        "CRITICAL: no certificate: 9 reasons",
    ]
    assert not (move.folder / "certificate.json").exists()


def not_copied_whole(move: Move) -> None:
    """Lose, cut and change a file of `orders` each, and add an unknown one; `clicks` loses its only file."""
    lost, cut, changed = (key.replace("wh/", "lake/", 1) for key in FILES[:3])
    move.s3.delete_object(Bucket=move.new, Key=lost)
    move.put(move.new, cut, b"short", MOVED)
    move.put(move.new, changed, b"x" * len(FILES[2]), MOVED)
    move.put(move.new, "lake/orders/day=1/more.parquet", b"unknown", THEN)
    move.s3.delete_object(Bucket=move.new, Key="lake/clicks/part-0.parquet")


def test_the_claims_of_one_file(move: Move) -> None:
    lake = move.lake()
    here = f"{FILES[0]}".replace("wh/", "lake/", 1)
    clients = clients_of(lake)
    (answer,) = lookup_claims(lake.table("orders"), clients, move.new, here)
    assert (answer.answer, answer.history[0]["original"]) == ("present", f"s3://{move.old}/{FILES[0]}")
    (none,) = lookup_claims(lake.table("orders"), clients, move.new, "lake/orders/other")
    assert none.answer == "absent"


# --- other moves, by one audit of a lake with a table for each --------------------------------------------------------

OF_HDFS = ("part-0.parquet", "day=1/part-1.parquet")
MARKS = ("_SUCCESS", "day=0/.part-0.parquet.crc", "_tmp/x", "day=0/_committed_123")
OF_FORMATS = (".hoodie/hoodie.properties", ".f1_20240101000000000.log.1_0-1-0")
YOUNG = f"day={datetime.now(UTC):%Y-%m-%d}"


def lay_table_of_hdfs(move: Move, table: str, copied: Sequence[str]) -> None:
    """Its log still names files of HDFS, of which these were copied."""
    acts = [
        {"commitInfo": {"timestamp": millis(THEN), "operation": "WRITE"}},
        protocol(),
        metadata(),
        *(add(f"hdfs://nn:8020/user/hive/wh/{table}/{name}", size=len(CLICKS)) for name in OF_HDFS),
    ]
    log = "".join(json.dumps(act) + "\n" for act in acts).encode()
    move.put(move.new, f"of_hdfs/{table}/_delta_log/{0:020}.json", log, MOVED)
    for name in copied:
        move.put(move.new, f"of_hdfs/{table}/{name}", CLICKS, MOVED)


def lay_events(move: Move, table: str) -> None:
    """Only one file of the table was copied, and a mark that has no original."""
    for name in (*MARKS, *OF_FORMATS, "day=2020-01-01/a.parquet", f"{YOUNG}/b.parquet"):
        move.put(move.old, f"wh/{table}/{name}", CLICKS, datetime.now(UTC) - timedelta(hours=6))
    for name, at in (("old.parquet", THEN), ("new.parquet", MOVED)):
        move.put(move.old, f"wh/{table}/{name}", CLICKS, at)
    move.put(move.old, f"wh/{table}/day=2020-01-02/kept.parquet", CLICKS, THEN)
    move.copy(f"wh/{table}/day=2020-01-02/kept.parquet")
    move.put(move.new, f"lake/{table}/_started_1", CLICKS, MOVED)


@dataclass(frozen=True)
class OtherMoves:
    """Tables of HDFS (`landed` whole, `visits` not), of events (one with retention), and `orders`.

    The originals of `orders` are looked for at a place that does not hold them.
    """

    move: Move
    lake: Lake
    outcome: Outcome


@pytest.fixture(scope="module")
def others(aws: Aws, s3: Endpoint, tmp_path_factory: pytest.TempPathFactory) -> OtherMoves:
    move = Move(aws, s3, tmp_path_factory.mktemp("others"))
    lay_table_of_hdfs(move, "visits", OF_HDFS[:1])
    lay_table_of_hdfs(move, "landed", OF_HDFS)
    here, there, of_hdfs = f"s3://{move.new}/lake", f"s3://{move.old}/wh", f"s3://{move.new}/of_hdfs"
    manifests: dict[str, dict[str, Any]] = {
        "events": {"location": f"{there}/events", "complete": True},
        "kept_events": {"location": f"{there}/kept_events", "complete": True, "keep": "20d"},
        "orders": {"location": f"{there}/clicks"},
    }
    for table in ("events", "kept_events"):
        lay_events(move, table)
    tables: list[dict[str, Any]] = [
        {"name": name, "location": f"{of_hdfs}/{name}", "manifests": [{"kind": "delta"}]}
        for name in ("visits", "landed")
    ]
    tables += [
        {"name": name, "location": f"{here}/{name}", "manifests": [{"kind": "listing", **manifest}]}
        for name, manifest in manifests.items()
    ]
    lake = move.lake(
        maps=[{"from": f"{there}/", "to": here}, {"from": "hdfs://nn:8020/user/hive/wh/", "to": of_hdfs}],
        inventories=[{"kind": "listing", "location": place} for place in (here, of_hdfs)],
        tables=tables,
    )
    return OtherMoves(move, lake, audited(lake))


def test_a_lake_that_was_moved_from_hdfs(others: OtherMoves) -> None:
    """The logs still name files of HDFS: of one table all were copied, of the other one not."""
    assert kinds_by_key(others.lake, "visits") == {f"of_hdfs/visits/{OF_HDFS[1]}": "dropped"}
    assert (kinds_by_key(others.lake, "landed"), content_of(others.lake)["landed"]) == ({}, (2, 2, 0))


def test_a_place_that_does_not_hold_the_originals_says_nothing(others: OtherMoves) -> None:
    assert others.outcome.exit_code == 3
    rows = results_of(others.lake).coverage(others.outcome.run_id)
    content = {row["table_name"]: row for row in rows if row["axis"] == "content"}
    assert f"does not cover s3://{others.move.old}/wh/orders" in content["orders"]["reason"]
    assert kinds_by_key(others.lake, "orders") == {}
    assert [name for name, row in content.items() if row["status"] == "partial"] == ["orders"]


@pytest.mark.parametrize("table", ["events", "kept_events"])
def test_a_copy_may_lack_marks_of_jobs_and_what_its_own_retention_removed(
    others: OtherMoves, table: str
) -> None:
    lost = {f"{YOUNG}/b.parquet", "new.parquet", *OF_FORMATS}
    if table == "events":
        lost |= {"day=2020-01-01/a.parquet", "old.parquet"}
    expected = {f"lake/{table}/{name}": "dropped" for name in lost}
    assert kinds_by_key(others.lake, table) == expected
