"""Upkeep of the result tables after a run was published: old rows, small files, old files."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from lakeaudit.errors import Busy, CannotPublish
from lakeaudit.keys import Location
from lakeaudit.results import delta_files, delta_writer
from lakeaudit.results.read import Results
from lakeaudit.results.upkeep import MANY, MOST_RUNS, READABLE_FOR, retention, upkeep
from lakeaudit.results.write import ResultsWriter, open_results
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.progress import Counts, SilentProgress, StageLog
from lakeaudit.schemas import RESULTS
from tests.builders.results import (
    LAKE,
    Row,
    covered,
    discrepancy,
    finding,
    group,
    leftover,
    logged,
    publish,
    run,
    transition,
)
from tests.builders.slowness import slowness

NOW = datetime.now(UTC).replace(microsecond=0)
DAY, KEEP = timedelta(days=1), timedelta(days=400)
OLD, NEW = NOW - 500 * DAY, NOW - 300 * DAY


def alone() -> None:
    """Nobody else writes."""


def writer(place: Location) -> ResultsWriter:
    return open_results(Results(place, Clients(), LAKE), alone)


def run_at(run_id: str, at: datetime, status: str = "complete", **given: Any) -> Row:
    return run(run_id, status, as_of=at, started_at=at, finished_at=at, **given)


THIS = run_at("this", NOW)


def tidy(
    place: Location, keep: timedelta | None = KEEP, now: datetime = NOW, this: Row = THIS
) -> tuple[str, ...]:
    own = writer(place)
    return upkeep(own, own.results.runs(), this, keep, now, SilentProgress())


def ids(place: Location, table: str, column: str = "run_id") -> list[str | None]:
    rows = DeltaTable(place.join(table).spark_path).to_pyarrow_table().to_pylist()
    return sorted((row[column] for row in rows), key=str)


def versions(place: Location) -> dict[str, int]:
    tables = {name: place.join(name).spark_path for name in RESULTS}
    return {name: DeltaTable(path).version() for name, path in tables.items() if Path(path).exists()}


def notice(run_id: str) -> Row:
    return {
        "notice_id": f"n-{run_id}",
        "lake": LAKE,
        "run_id": run_id,
        "kind": "discrepancies",
        "made_at": NOON,
    }


NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


def of_run(row: Row, run_id: str | None, at: datetime) -> Row:
    return row | {"run_id": run_id, "as_of_date": at.date()}


def filled(place: Location) -> None:
    """Two runs, one of which is too old, and another lake's."""
    about = finding("dropped", "a")
    runs = [("old", OLD), ("new", NEW)]
    publish(
        place,
        runs=[*(run_at(name, at) for name, at in runs), run_at("old", OLD) | {"lake": "other"}],
        coverage=[covered(run_id=name) for name, _ in runs],
        findings=[of_run(about, name, at) for name, at in runs]
        + [of_run(about, "old", OLD) | {"lake": "other"}],
        transitions=[transition(about, "opened", run_id=name, at=at) for name, at in runs]
        + [transition(about, "acknowledged", run_id=None, at=at, transition_id=f"{at}") for _, at in runs],
        leftover_files=[leftover(group("unvacuumed", "day=1", 1), "x") | {"run_id": "old"}],
        notices=[notice(name) for name, _ in runs],
        discrepancies=[
            discrepancy(about, "open", discrepancy_id="still open", first_run_id="old", opened_at=OLD),
            discrepancy(about, "pending", discrepancy_id="still pending", first_run_id="old"),
            discrepancy(about, "resolved", discrepancy_id="long over", resolved_at=OLD),
            discrepancy(about, "resolved", discrepancy_id="just over", resolved_at=NEW, first_run_id="old"),
        ],
    )  # fmt: skip


def test_rows_of_runs_that_are_older_go(place: Location) -> None:
    filled(place)
    assert tidy(place) == ()
    for table in ("coverage", "notices"):
        assert ids(place, table) == ["new"], table
    assert ids(place, "runs") == ["new", "old"], "another lake's run of the same id stays"
    assert ids(place, "findings") == ["new", "old"]
    assert ids(place, "findings", "lake") == ["other", LAKE]
    assert ids(place, "transitions") == [None, "new"]
    assert ids(place, "leftover_files") == ["old"], "they are the latest of their table"
    assert ids(place, "discrepancies", "discrepancy_id") == ["just over", "still open", "still pending"]


def test_leftover_files_and_commits_of_other_runs_go_for_the_audited_tables(place: Location) -> None:
    """Also of one that failed before it could be published; a table that was not audited keeps its own."""
    about = group("unvacuumed", "day=1", 1)
    files = [("old", "orders"), ("failed", "orders"), ("this", "orders"), ("old", "o'dd \\name")]
    publish(
        place,
        runs=[run_at("old", NEW), run_at("failed", NEW, "failed")],
        leftover_files=[leftover(about, "x") | {"run_id": name, "table_name": of} for name, of in files],
        commits=[logged(7, NEW, run_id=name, table_name=of) for name, of in files],
    )
    for _ in range(2):
        own = writer(place)
        assert upkeep(own, own.results.runs(), THIS, None, NOW, SilentProgress(), ["orders"]) == ()
    for table in ("leftover_files", "commits"):
        assert ids(place, table, "table_name") == ["o'dd \\name", "orders"]
        assert ids(place, table) == ["old", "this"]


def test_without_keep_everything_stays(place: Location) -> None:
    filled(place)
    before = versions(place)
    assert tidy(place, keep=None) == ()
    assert versions(place) == before


def test_what_is_gone_is_not_looked_for_again(place: Location) -> None:
    filled(place)
    tidy(place)
    before = versions(place)
    assert tidy(place) == ()
    assert versions(place) == before


RUNS = [run_at("a", OLD), run_at("b", OLD + DAY), run_at("c", NEW)]


def expired(runs: list[Row], this: Row, keep: timedelta | None = KEEP) -> list[str]:
    due = retention(runs, this, keep, NOW)
    return [each["run_id"] for each in due.runs] if due else []


@pytest.mark.parametrize("status", ["complete", "partial", "suspect"])
def test_the_last_published_run_stays_however_old(status: str) -> None:
    failed = run_at("this", NOW, "failed")
    assert expired(RUNS, failed) == ["a", "b"]
    assert expired([run_at("a", OLD), run_at("b", OLD, status)], failed) == ["a"]
    assert expired([run_at("a", OLD, status), run_at("b", OLD, "failed")], failed) == ["b"]
    assert expired([run_at("a", OLD, status), run_at("b", OLD)], run_at("this", NOW, status)) == ["a", "b"]


def test_this_run_stays_although_it_audited_the_past() -> None:
    assert expired([run_at("a", OLD), run_at("this", OLD, "running")], run_at("this", OLD, "failed")) == []
    assert expired([run_at("a", OLD), run_at("this", OLD, "running")], run_at("this", OLD)) == ["a"]


def test_only_what_is_older_goes() -> None:
    at_the_edge = [
        run_at("a", NOW - KEEP),
        run_at("b", NOW - KEEP - timedelta(microseconds=1)),
        {**THIS, "as_of": None},
    ]
    assert expired(at_the_edge, THIS) == ["b"]
    assert expired(RUNS, THIS, None) == []


def test_the_oldest_thousand_runs_go_first() -> None:
    many = [run_at(f"r{n:04}", OLD - n * timedelta(hours=1)) for n in range(MOST_RUNS + 5)]
    gone = expired(many, THIS)
    assert len(gone) == MOST_RUNS
    assert gone[0] == f"r{MOST_RUNS + 4:04}"
    assert "r0000" not in gone


def test_ids_of_runs_may_hold_anything(place: Location) -> None:
    publish(
        place, runs=[run_at("it's\\ 'old", OLD), run_at("new", NEW)], coverage=[covered(run_id="it's\\ 'old")]
    )
    assert tidy(place) == ()
    assert (ids(place, "runs"), ids(place, "coverage")) == (["new"], [])


def test_a_table_that_cannot_be_written_is_a_warning_and_its_runs_are_found_again(
    place: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(place)
    deleted = delta_writer.delete

    def delete_or_fail(results: Results, table: str, condition: str) -> int:
        if table == "transitions":
            raise CannotPublish("transitions", "may not be written", "grant it")
        return deleted(results, table, condition)

    with monkeypatch.context() as patch:
        patch.setattr(delta_writer, "delete", delete_or_fail)
        (warning,) = tidy(place)
    assert warning == "the results were not tidied up: transitions: may not be written; grant it"
    assert ids(place, "runs") == ["new", "old", "old"]
    assert tidy(place) == ()
    assert ids(place, "runs") == ["new", "old"]


def test_a_lost_lease_ends_it(place: Location) -> None:
    filled(place)
    held = [True]

    def ours() -> None:
        if not held[0]:
            raise Busy("lease", "another took over", "run again")

    own = open_results(Results(place, Clients(), LAKE), ours)
    runs, before = own.results.runs(), versions(place)
    held[0] = False
    (warning,) = upkeep(own, runs, THIS, KEEP, NOW + 30 * DAY, SilentProgress())
    assert "another took over" in warning
    assert versions(place) == before


def many_files(place: Location, files: int) -> None:
    for number in range(files):
        publish(place, coverage=[covered(run_id=f"r{number}")])


def data_files(place: Location, table: str) -> int:
    found = Path(place.join(table).spark_path).rglob("*.parquet")
    return sum(path.parent.name != "_delta_log" for path in found)


def listed(place: Location, table: str) -> int:
    return len(DeltaTable(place.join(table).spark_path).file_uris())


def test_many_small_files_are_joined_once_a_day(place: Location, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakeaudit.results.upkeep.MANY", 12)
    many_files(place, 12)
    assert (tidy(place, None), listed(place, "coverage")) == ((), 12)
    publish(place, coverage=[covered(run_id="r12")])
    assert (tidy(place, None), listed(place, "coverage")) == ((), 1)
    assert ids(place, "coverage") == sorted(f"r{number}" for number in range(13))
    assert len(Results(place, Clients(), LAKE).coverage("r7")) == 1
    many_files(place, 13)
    assert (tidy(place, None), listed(place, "coverage")) == ((), 14), "today it was done"
    assert (tidy(place, None, NOW + 2 * DAY), listed(place, "coverage")) == ((), 1)


def test_files_that_lie_alone_in_their_partition_cannot_be_joined(place: Location) -> None:
    days = [NOW - n * DAY for n in range(3)]
    publish(place, findings=[of_run(finding("dropped", "a"), f"r{n}", day) for n, day in enumerate(days)])
    own = Results(place, Clients(), LAKE)
    assert delta_files.small_files(own, "findings", 1 << 20) == 0
    publish(place, findings=[of_run(finding("dropped", "a"), "r4", NOW)])
    assert delta_files.small_files(own.again(), "findings", 1 << 20) == 2
    assert delta_files.small_files(own.again(), "findings", 1) == 0, "large ones are left alone"
    assert delta_files.small_files(own, "notices", 1 << 20) == 0, "never written"


def aged(place: Location, table: str, days: int) -> None:
    """Put a table's whole past so many days back: its log, what the log says, and its files."""
    folder = Path(place.join(table).spark_path)
    shift = timedelta(days=days)
    for entry in sorted((folder / "_delta_log").glob("*.json")):
        entry.write_text(_earlier(entry.read_text(), shift))
    for path in folder.rglob("*"):
        at = path.stat().st_mtime - shift.total_seconds()
        os.utime(path, (at, at))


def _earlier(text: str, shift: timedelta) -> str:
    import re

    ago = int(shift.total_seconds() * 1000)
    times = r'("(?:timestamp|createdTime|modificationTime|deletionTimestamp)":)(\d+)'
    return re.sub(times, lambda found: f"{found[1]}{int(found[2]) - ago}", text)


def replaced(place: Location) -> None:
    """A run's row, written again and again."""
    own = writer(place)
    for _ in range(5):
        own.put_run(run_at("r", NOW - DAY))


def test_files_that_no_version_lists_go_after_a_week(place: Location) -> None:
    replaced(place)
    stray = Path(place.join("runs").spark_path) / "part-00000-left-by-the-dead.parquet"
    stray.write_bytes(b"x")
    assert (tidy(place), data_files(place, "runs")) == ((), 6), "they are young"
    aged(place, "runs", 6)
    assert (tidy(place), data_files(place, "runs")) == ((), 6), "too young still"
    aged(place, "runs", 2)
    assert (tidy(place), data_files(place, "runs")) == ((), 1)
    assert ids(place, "runs") == ["r"]


def test_files_are_removed_though_a_checkpoint_has_forgotten_them(place: Location) -> None:
    replaced(place)
    aged(place, "runs", 8)
    DeltaTable(place.join("runs").spark_path).create_checkpoint()
    for commit in (Path(place.join("runs").spark_path) / "_delta_log").glob("*.json"):
        if not commit.name.startswith("0" * 19 + "4"):
            commit.unlink()
    assert (tidy(place), data_files(place, "runs")) == ((), 1)


def test_files_are_removed_once_a_day(place: Location) -> None:
    replaced(place)
    aged(place, "runs", 8)
    tidy(place)
    before = versions(place)
    stray = Path(place.join("runs").spark_path) / "part-00000-left-by-the-dead.parquet"
    stray.write_bytes(b"x")
    long_ago = (NOW - 9 * DAY).timestamp()
    os.utime(stray, (long_ago, long_ago))
    assert tidy(place) == ()
    assert (versions(place), stray.exists()) == (before, True)
    assert tidy(place, now=NOW + 2 * DAY) == ()
    assert not stray.exists()


def test_a_run_that_is_not_the_first_of_its_day_leaves_old_files_alone(place: Location) -> None:
    replaced(place)
    aged(place, "runs", 8)
    publish(place, coverage=[covered()])
    earlier = run_at("earlier", NOW)
    for runs, left in (([earlier], 5), ([run_at("earlier", NOW - DAY)], 1)):
        own = writer(place)
        assert upkeep(own, runs, THIS, None, NOW, SilentProgress()) == ()
        assert data_files(place, "runs") == left


def test_what_was_done_on_a_day_stands_in_the_history(place: Location) -> None:
    replaced(place)
    results, today = Results(place, Clients(), LAKE), NOW.date()
    log = Path(place.join("runs", "_delta_log").spark_path)
    (log / f"{8:020}.json").write_text('{"commitInfo": {}}\n[]\nnone\n')
    (log / "notes.json").write_text('{"commitInfo": {"operation": "VACUUM END"}}')
    assert delta_files.ran_since(results, "runs", "WRITE", today)
    assert not delta_files.ran_since(results, "runs", "VACUUM", today)
    assert not delta_files.ran_since(results, "runs", "WRITE", (NOW + 2 * DAY).date())
    assert not delta_files.ran_since(results, "notices", "WRITE", today), "never written"


def test_results_on_s3_are_tidied_too(clients: Clients, bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakeaudit.results.upkeep.MANY", 2)
    place = Location(bucket, "audit")
    rows = [covered(run_id=name) for name in ("old", "new")]
    publish(place, clients, runs=[run_at("old", OLD), run_at("new", NEW)])
    for row in rows * 2:
        publish(place, clients, coverage=[row])
    own = open_results(Results(place, clients, LAKE), alone)
    assert upkeep(own, own.results.runs(), THIS, KEEP, NOW + 30 * DAY, SilentProgress()) == ()
    again = own.results.again()
    assert [row["run_id"] for row in again.runs()] == ["new"]
    assert (again.coverage("old"), len(again.coverage("new"))) == ([], 2)
    found = again.delta("coverage")
    assert found is not None
    assert len(found.file_uris()) == 1


class Stages(SilentProgress):
    def __init__(self) -> None:
        self.done: list[tuple[str, dict[str, Any]]] = []

    @contextmanager
    def stage(self, name: str) -> Iterator[StageLog]:
        log = Counts()
        yield log
        self.done.append((name, dict(log.noted)))


def test_it_reports_its_counts_and_nothing_without_work(place: Location) -> None:
    filled(place)
    own, stages = writer(place), Stages()
    upkeep(own, own.results.runs(), THIS, KEEP, NOW, stages)
    assert stages.done == [("clean up old results", {"rows removed": 7})]
    again = writer(place)
    upkeep(again, again.results.runs(), THIS, KEEP, NOW, stages)
    assert len(stages.done) == 1


def test_nothing_to_do_costs_nothing(place: Location) -> None:
    filled(place)
    tidy(place)
    seconds = []
    for _ in range(10):
        own = writer(place)
        runs, began = own.results.runs(), time.perf_counter()
        upkeep(own, runs, THIS, KEEP, NOW, SilentProgress())
        seconds.append(time.perf_counter() - began)
    assert min(seconds) < 0.05 * slowness()


def test_the_bounds_are_the_contracts() -> None:
    assert (timedelta(days=7) <= READABLE_FOR, MANY) == (True, 100)
