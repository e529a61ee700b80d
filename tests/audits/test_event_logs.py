"""Whole audits of plain tables by the event logs of the Spark jobs that wrote them."""

import json
import os
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakeaudit.config import Lake, load_lake
from lakeaudit.evidence.manifest.point import told_of
from lakeaudit.evidence.manifest.spark_event_log import reader
from lakeaudit.runtime.endpoints import clients_of
from tests.builders.audits import audited, results_of
from tests.builders.delta_lake import BORN, Log, info
from tests.builders.event_logs import UUIDS, App, millis, part

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPLITS = {n: (100 + n, 1000 + n) for n in range(6)}
BEGUN = datetime.now(UTC).replace(microsecond=0) - timedelta(days=9)


class Site:
    """A folder of tables, and one of logs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.app = App(at=BEGUN)

    def wrote(
        self, table: str, uuid: str, splits: dict[int, tuple[int, int]] = SPLITS, below: str = "", **how: Any
    ) -> None:
        """A job that wrote a file a split."""
        home = self.folder / "data" / table
        end = self.app.write(f"file:{home}", splits, **how)
        for number, (_, size) in splits.items():
            path = home / below / part(number, uuid, joint=".c" if below else "-c")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"x" * size)
            os.utime(path, (end.timestamp(), end.timestamp()))

    def lake(self, *tables: str, more: str = "", beside: str = "") -> Lake:
        path = self.folder / "lake.yaml"
        manifest = f"{{kind: spark_event_log, location: {self.folder / 'logs'}{more}}}"
        named = "\n".join(
            f"  - {{name: {t}, location: {self.folder / 'data' / t}, manifests: [{beside}{manifest}]}}"
            for t in tables
        )
        path.write_text(
            f"version: 1\nlake: plain\nresults: {self.folder / 'results'}\n"
            f"inventories: [{{kind: listing, location: {self.folder / 'data'}}}]\ntables:\n{named}\n"
        )
        return load_lake(path, {})

    def file(self, table: str, uuid: str, split: int) -> Path:
        return self.folder / "data" / table / part(split, uuid)


def leftovers(lake: Lake) -> list[tuple[str, str]]:
    rows = [row for batch in results_of(lake).leftover_files("r") for row in batch.to_pylist()]
    return sorted((row["kind"], row["key"].rpartition("/")[2]) for row in rows)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def found(lake: Lake) -> list[tuple[str, str, str | None, int | None]]:
    rows = [row for batch in results_of(lake).findings("r") for row in batch.to_pylist()]
    return sorted(
        (r["kind"], r["table_name"], r["key"] and r["key"].rpartition("/")[2], r["rows_at_stake"])
        for r in rows
    )


def test_tables_that_are_written_every_night_are_quiet(site: Site) -> None:
    for uuid in UUIDS[:2]:
        site.wrote("appended", uuid)
    site.wrote("whole", UUIDS[0])
    for number in SPLITS:
        site.file("whole", UUIDS[0], number).unlink()
    site.wrote("whole", UUIDS[1], mode="Overwrite")
    site.wrote("days", UUIDS[0], {0: (10, 100)}, below="d=1", by="d", partitions=1)
    site.wrote("days", UUIDS[1], {0: (10, 110)}, below="d=2", by="d", partitions=1)
    (site.folder / "data/days/d=1" / part(0, UUIDS[0], joint=".c")).unlink()
    site.wrote("days", UUIDS[2], {0: (9, 90)}, "d=1", mode="Overwrite", by="d", dynamic=True, partitions=1)
    site.wrote("failed", UUIDS[3], error="boom")
    site.app.ended().save(site.folder / "logs")
    lake = site.lake("appended", "whole", "days", "failed")
    assert audited(lake, run_id="r").status == "complete"
    assert [row for row in found(lake) if row[1] != "failed"] == []


def test_lost_and_cut_off_files_are_named_with_their_rows(site: Site) -> None:
    lost_and_cut_off(site)


def lost_and_cut_off(site: Site, session: "SparkSession | None" = None) -> None:
    for uuid in UUIDS[:2]:
        site.wrote("events", uuid)
    site.app.ended().save(site.folder / "logs", rolled=2)
    for number in (1, 4):
        site.file("events", UUIDS[0], number).unlink()
    site.file("events", UUIDS[1], 2).write_bytes(b"short")
    lake = site.lake("events")
    audited(lake, session, run_id="r")
    assert found(lake) == [
        ("dropped", "events", part(1, UUIDS[0]), 101),
        ("dropped", "events", part(4, UUIDS[0]), 104),
        ("size_mismatch", "events", part(2, UUIDS[1]), None),
    ]


def test_files_that_were_brought_back_are_theirs_again(site: Site) -> None:
    """A restore gives them a new time; their sizes tell whose they are."""
    for number, uuid in enumerate(UUIDS[:2]):
        site.wrote("events", uuid, {n: (records, size + number) for n, (records, size) in SPLITS.items()})
    site.app.ended().save(site.folder / "logs")
    for number in SPLITS:
        os.utime(site.file("events", UUIDS[0], number))
    site.file("events", UUIDS[0], 5).unlink()
    lake = site.lake("events")
    audited(lake, run_id="r")
    assert ("dropped", "events", part(5, UUIDS[0]), 105) in found(lake)


def test_logs_that_go_on_while_they_are_read_take_no_finding_back(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An application that still runs has another log at every look: what it says is named by storage as before."""
    looks = count()
    monkeypatch.setattr(reader, "digest", lambda _: f"look {next(looks)}")
    site.wrote("events", UUIDS[0])
    site.app.save(site.folder / "logs", open_=True)
    site.file("events", UUIDS[0], 2).unlink()
    lake = site.lake("events")
    audited(lake, run_id="r")
    assert found(lake) == [("dropped", "events", part(2, UUIDS[0]), 102)]


def test_what_no_job_wrote_is_told_where_logs_are_complete(site: Site) -> None:
    site.wrote("events", UUIDS[0])
    site.app.ended().save(site.folder / "logs")
    stray = site.folder / "data/events/by-hand.parquet"
    stray.write_bytes(b"y")
    os.utime(stray, (BEGUN.timestamp(), BEGUN.timestamp()))
    for more, expected in (("", []), (", complete: true", ["stale_visible"])):
        lake = site.lake("events", more=more)
        audited(lake, run_id="r")
        assert [kind for kind, *_ in found(lake)] == expected


def in_log(site: Site, table: str, *commits: list[tuple[str, str, int]]) -> None:
    """A Delta log whose versions add and remove (action, name, size), a day each from before the jobs on."""
    log = Log(site.folder / "data" / table)
    for version, files in enumerate(commits):
        at = BEGUN + timedelta(days=version - 1)
        actions = [info(timestamp=millis(at))]
        for action, name, size in files:
            made = {"modificationTime": millis(at)} if action == "add" else {"deletionTimestamp": millis(at)}
            actions.append(
                {action: {"path": name, "size": size, "dataChange": True, "partitionValues": {}} | made}
            )
        log.commit(version, *(BORN if version == 0 else ()), *actions, when=at)


@pytest.mark.parametrize(
    ("keep", "expected"),
    [
        ("", ["dropped", "incomplete_commit"]),
        (", keep: 8d", []),
        (", keep: 10d", ["dropped", "incomplete_commit"]),
    ],
)
def test_what_old_jobs_wrote_may_be_removed_where_the_lake_file_says_so(
    site: Site, keep: str, expected: list[str]
) -> None:
    for uuid in UUIDS[:2]:
        site.wrote("events", uuid)
    site.app.ended().save(site.folder / "logs")
    for path in [site.file("events", UUIDS[0], n) for n in SPLITS] + [site.file("events", UUIDS[1], 0)]:
        path.unlink()
    lake = site.lake("events", more=f"{keep}, complete: true")
    audited(lake, run_id="r")
    assert [kind for kind, *_ in found(lake)] == expected


def test_what_a_job_wrote_into_a_delta_table_and_no_state_lists_is_a_lost_commit(site: Site) -> None:
    """Files that a state lists, or has listed until OPTIMIZE removed them, are no loss."""
    site.wrote("events", UUIDS[0])
    site.wrote("events", UUIDS[1], error="boom")
    site.app.ended().save(site.folder / "logs")
    names = {n: (part(n, UUIDS[0]), size) for n, (_, size) in SPLITS.items()}
    listed = [("add", *names[n]) for n in range(4)]
    compacted = [("remove", *names[n]) for n in range(2)] + [("add", "compact.parquet", 77)]
    in_log(site, "events", [], [], listed, compacted)
    (site.folder / "data/events/compact.parquet").write_bytes(b"z" * 77)
    os.utime(site.folder / "data/events/compact.parquet", (BEGUN.timestamp(), BEGUN.timestamp()))
    lake = site.lake("events", beside="{kind: delta}, ")
    audited(lake, run_id="r")
    told = [each for each in found(lake) if each[0] not in ("uncommitted", "unvacuumed")]
    assert told == [("lost_commit", "events", part(n, UUIDS[0]), 100 + n) for n in (4, 5)]
    left = [name for kind, name in leftovers(lake) if kind == "uncommitted"]
    failed = [part(n, UUIDS[1]) for n in SPLITS]
    assert left == sorted([*failed, part(4, UUIDS[0]), part(5, UUIDS[0])])


def test_a_plain_table_that_was_made_a_delta_table_and_vacuumed_is_quiet(site: Site) -> None:
    site.wrote("events", UUIDS[0])
    site.app.ended().save(site.folder / "logs")
    for number in SPLITS:
        site.file("events", UUIDS[0], number).unlink()
    in_log(site, "events", [])
    lake = site.lake("events", beside="{kind: delta}, ")
    assert audited(lake, run_id="r").status == "complete"
    assert found(lake) == []


def test_a_torn_log_is_a_hole(site: Site) -> None:
    site.wrote("events", UUIDS[0])
    path = site.app.save(site.folder / "logs", "lz4")
    path.write_bytes(path.read_bytes()[:-70])
    lake = site.lake("events")
    outcome = audited(lake, run_id="r")
    assert outcome.status == "partial"
    assert [kind for kind, *_ in found(lake)] == ["unreadable_evidence"]


def test_a_write_of_which_no_file_is_left_is_incomplete(site: Site) -> None:
    """Its files cannot be named: it is one finding, of all that it wrote."""
    site.wrote("events", UUIDS[0])
    site.wrote("events", UUIDS[1])
    site.wrote("others", UUIDS[2])
    site.app.ended().save(site.folder / "logs")
    for number in SPLITS:
        site.file("events", UUIDS[0], number).unlink()
    lake = site.lake("events", "others")
    assert audited(lake, run_id="r").status == "complete"
    (row,) = [row for batch in results_of(lake).findings("r") for row in batch.to_pylist()]
    assert (row["kind"], row["axis"], row["subject_type"]) == ("incomplete_commit", "commit", "commit")
    assert (row["files"], row["rows_at_stake"], row["bytes_at_stake"]) == (6, 615, 6015)
    assert row["subject"] == f"{site.folder / 'data/events'}/#{site.app.id}/0"
    assert row["explanation"].startswith(
        f"write {site.app.id}/0 of {BEGUN + timedelta(minutes=1):%Y-%m-%dT%H:%M:%SZ} committed 6 files, 615 rows, "
        "6,015 bytes, and storage lacks 6 files, 615 rows, 6,015 bytes of that; no file of it is left; "
    )
    (cover,) = [
        row
        for row in results_of(lake).coverage("r")
        if (row["table_name"], row["axis"]) == ("events", "commit")
    ]
    assert (cover["status"], cover["files"], cover["consistent"], cover["findings"]) == ("complete", 2, 1, 1)


@pytest.mark.parametrize(("hours", "misleads"), [(0, True), (-1, False)])
def test_a_marker_beside_an_incomplete_write_misleads(site: Site, hours: int, misleads: bool) -> None:
    """One that was there before the write ended is another job's."""
    site.wrote("events", UUIDS[0])
    site.app.ended().save(site.folder / "logs")
    for number in SPLITS:
        site.file("events", UUIDS[0], number).unlink()
    marker = site.folder / "data/events/_SUCCESS"
    marker.touch()
    at = (BEGUN + timedelta(minutes=1, hours=hours)).timestamp()
    os.utime(marker, (at, at))
    lake = site.lake("events")
    audited(lake, run_id="r")
    (row,) = [row for batch in results_of(lake).findings("r") for row in batch.to_pylist()]
    assert row["kind"] == "incomplete_commit"
    assert (f"the marker {marker} calls it whole, which misleads" in row["explanation"]) == misleads


def test_an_incomplete_write_opens_with_the_second_cut_and_ends_when_it_is_whole(site: Site) -> None:
    site.wrote("days", UUIDS[0], {0: (10, 100), 1: (20, 200)}, below="d=1", by="d", partitions=1)
    site.app.ended().save(site.folder / "logs")
    lost = site.folder / "data/days/d=1" / part(1, UUIDS[0], joint=".c")
    lost.rename(site.folder / "kept")
    lake = site.lake("days")
    states = []
    for number in range(4):
        if number == 2:
            (site.folder / "kept").rename(lost)
        audited(lake, run_id=f"r{number}")
        rows = [row for batch in results_of(lake).discrepancies() for row in batch.to_pylist()]
        states.append([(row["kind"], row["state"], row["rows_at_stake"]) for row in rows])
    expected = ("pending", "open", "resolved", "resolved")
    assert states == [[("incomplete_commit", state, 20)] for state in expected]


def test_a_failed_run_and_its_retry_are_told_once(site: Site) -> None:
    """The files have equal bytes too: what the log says of both is the one verdict of the axis."""
    broken = {n: (100 + n, 5000 + n) for n in range(2)}
    site.wrote("events", UUIDS[0], broken, error="boom")
    site.wrote("events", UUIDS[1], broken | {2: (102, 5002)})
    site.app.ended().save(site.folder / "logs")
    lake = site.lake("events")
    audited(lake, run_id="r")
    assert found(lake) == [("duplicate_attempt", "events", part(n, UUIDS[0]), 100 + n) for n in range(2)]
    rows = [row for row in results_of(lake).coverage("r") if row["axis"] == "duplicate"]
    assert [(row["files"], row["consistent"], row["findings"]) for row in rows] == [(5, 3, 2)]


def test_a_write_whose_files_may_be_others_is_a_hole(site: Site) -> None:
    site.wrote("events", UUIDS[0])
    site.app.ended().save(site.folder / "logs")
    for number in SPLITS:
        path = site.file("events", UUIDS[0], number)
        path.rename(path.with_name(f"{number}.parquet"))
    lake = site.lake("events")
    assert audited(lake, run_id="r").status == "partial"
    assert [kind for kind, *_ in found(lake)] == ["unreadable_evidence"]


def test_a_place_without_logs_is_refused(site: Site) -> None:
    site.wrote("events", UUIDS[0])
    (site.folder / "logs").mkdir()
    lake = site.lake("events")
    assert audited(lake, run_id="r").status == "partial"
    reasons = [row["reason"] for row in results_of(lake).coverage("r") if row["axis"] == "content"]
    assert [("holds no event log of Spark" in str(reason)) for reason in reasons] == [True]


def test_what_one_file_is_told_of(site: Site) -> None:
    for uuid in UUIDS[:2]:
        site.wrote("events", uuid)
    site.app.ended().save(site.folder / "logs")
    lost = site.file("events", UUIDS[0], 3)
    lost.unlink()
    lake = site.lake("events")
    for path in (lost, site.file("events", UUIDS[1], 3)):
        (told,) = told_of(lake.tables[0], clients_of(lake), "", str(path)[1:])
        assert (told.kind, told.answer) == ("spark_event_log", "present")
        assert told.history[0]["size"] == 1003


def test_lists_and_logs_of_one_table_claim_a_file_once(site: Site) -> None:
    """A writer's list knows the ETag, the log the rows; an overwrite of either retires what the other claimed."""
    site.wrote("events", UUIDS[0])
    site.app.ended().save(site.folder / "logs")
    lists = site.folder / "lists"
    lists.mkdir()
    old = {
        "path": str(site.folder / "data/events/old.parquet"),
        "committed_at": (BEGUN - timedelta(1)).isoformat(),
    }
    same = {
        "path": str(site.file("events", UUIDS[0], 1)),
        "committed_at": (BEGUN + timedelta(0, 60)).isoformat(),
    }
    (lists / "a.jsonl").write_text(f"{json.dumps(old)}\n{json.dumps(same)}\n")
    lake = site.lake("events", more=f"}}, {{kind: file_list, location: {lists}")
    site.file("events", UUIDS[0], 1).unlink()
    audited(lake, run_id="r")
    assert found(lake) == [
        ("dropped", "events", "old.parquet", None),
        ("dropped", "events", part(1, UUIDS[0]), 101),
    ]
    coverage = [row for row in results_of(lake).coverage("r") if row["axis"] == "content"]
    assert [row["files"] for row in coverage] == [7]
