"""Event logs: events in, writes out; splits and objects in, claims out; and whole audits of plain tables by them."""

import io
import json
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeaudit.evidence.manifest.spark_event_log import log_files, names, stored_parts
from lakeaudit.evidence.manifest.spark_event_log.log_files import TornError
from lakeaudit.evidence.manifest.spark_event_log.rows import (
    Homes,
    application_of,
    rows_of,
    without_partitions,
)
from lakeaudit.evidence.manifest.spark_event_log.write_jobs import Application
from lakeaudit.keys import Location
from lakeaudit.runtime import duck
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.schemas import plain_time
from tests.builders.connections import connection
from tests.builders.event_logs import BEGUN, SQL, UUIDS, App, part

NEVER = datetime.max.replace(tzinfo=UTC)
"""When a log was written that puts no bound on its times."""
OUT = "s3a://lake/wh/events"
FOUR = {0: (100, 2200), 1: (100, 2201), 2: (0, 440), 3: (90, 2100)}


def read(app: App) -> Application:
    application = Application()
    application.take(app.lines)
    return application


class TestWrites:
    def test_what_a_write_says(self) -> None:
        app = App()
        end = app.write(OUT, FOUR, "Overwrite", by="day", dynamic=True, partitions=3)
        (job,) = read(app.end()).writes()
        assert (job.application, job.execution, job.path, job.mode) == (app.id, 0, OUT, "Overwrite")
        assert (job.by, job.dynamic, job.fixed, job.format, job.outcome) == (
            True,
            True,
            "",
            "parquet",
            "succeeded",
        )
        assert job.ended_at == end
        assert job.totals == {"files": 4, "bytes": 6941, "records": 290, "partitions": 3}
        assert {n: [(s.records, s.bytes) for s in each] for n, each in job.splits.items()} == {
            n: [each] for n, each in FOUR.items()
        }

    @pytest.mark.parametrize(
        ("asked", "expected"),
        [
            ({"error": "boom"}, "failed"),
            ({"ends": False}, "unfinished"),
            ({"error": None}, "succeeded"),  # Spark 3.3: totals say that it was committed
            ({"error": None, "totals": False}, "failed"),
            ({"totals": False}, "succeeded"),
        ],
    )
    def test_outcomes(self, asked: dict[str, Any], expected: str) -> None:
        app = App()
        app.write(OUT, FOUR, **asked)
        (job,) = read(app).writes()
        assert job.outcome == expected

    @pytest.mark.parametrize(
        ("asked", "by", "fixed", "dynamic"),
        [
            ({}, False, "", False),
            ({"by": "day"}, True, "", False),
            ({"fixed": "day=1"}, False, "day=1", False),
            ({"fixed": "day=1", "by": "hour"}, True, "day=1", False),
            ({"by": "day", "options": "partitionOverwriteMode=dynamic, "}, True, "", True),
            ({"by": "day", "options": "partitionoverwritemode=STATIC, ", "dynamic": True}, True, "", False),
            ({"by": "day", "dynamic": True}, True, "", True),
        ],
    )
    def test_how_it_writes(self, asked: dict[str, Any], by: bool, fixed: str, dynamic: bool) -> None:
        app = App()
        app.write(OUT, FOUR, "Overwrite", **asked)
        (job,) = read(app).writes()
        assert (job.by, job.fixed, job.dynamic) == (by, fixed, dynamic)

    def test_the_applications_own_setting_of_overwrites(self) -> None:
        app = App()
        setting = {"spark.sql.sources.partitionOverwriteMode": "dynamic"}
        app.say("SparkListenerEnvironmentUpdate", **{"Spark Properties": setting})
        app.write(OUT, FOUR, "Overwrite", by="day")
        (job,) = read(app).writes()
        assert job.dynamic

    def test_a_task_that_did_not_succeed_wrote_nothing(self) -> None:
        app = App()
        lost = [{"split": 1, "records": 5, "size": 50, "attempt": n, "reason": why}
                for n, why in enumerate(("TaskKilled", "TaskCommitDenied", "ExceptionFailure"), 1)]  # fmt: skip
        app.write(OUT, FOUR, attempts=lost)
        (job,) = read(app).writes()
        assert [split.attempt for split in job.splits[1]] == [0]

    @pytest.mark.parametrize(
        "path",
        ["s3a://lake/a b, c/t", "file:/data/x, false, [y]", "s3://lake/täble/d=1/e=[2]", "s3://l/Append, x"],
    )
    def test_paths_with_anything_in_them(self, path: str) -> None:
        app = App()
        app.write(path, FOUR)
        (job,) = read(app).writes()
        assert (job.path, job.mode) == (path, "Append")

    @pytest.mark.parametrize(
        "line", [b"{", b"junk", b'{"Event":"SparkListenerTaskEnd"}', b'{"Event":"SparkListenerJobEnd","Job ID":"x"}',
                 b'{"Event":"' + SQL.encode() + b'SparkListenerSQLExecutionStart","executionId":1}', b"\xff\xfe",
                 b'{"Event":"SparkListenerStageSubmitted","Stage Info":' + b"\x00" * 20 + b'"x"}']
    )  # fmt: skip
    def test_a_line_that_is_not_an_event_is_reported(self, line: bytes) -> None:
        app = App()
        app.write(OUT, FOUR)
        application = Application()
        application.take([*app.lines, line, b""])
        assert application.rejected == 1
        assert f"line {len(app.lines) + 1}" in application.fault
        assert len(application.jobs) == 1

    def test_a_plan_that_cannot_be_understood_is_counted(self) -> None:
        app = App()
        app.write(OUT, FOUR, "Merge")
        application = read(app)
        assert (application.unread, application.jobs) == (1, {})


class TestLogs:
    @pytest.mark.parametrize("codec", ["plain", "zstd", "lz4", "snappy"])
    @pytest.mark.parametrize("rolled", [0, 3])
    def test_every_codec(self, tmp_path: Path, codec: str, rolled: int) -> None:
        app = App()
        app.write(OUT, FOUR)
        app.end().save(tmp_path, codec, rolled=rolled)
        (log,) = log_files.find(Clients(), Location.parse(str(tmp_path)))
        assert list(log_files.lines(Clients(), log)) == app.lines
        assert application_of(Clients(), log)[1] is None

    @pytest.mark.parametrize("codec", ["plain", "zstd", "lz4", "snappy"])
    def test_a_log_that_is_torn_is_reported_and_read_as_far_as_possible(
        self, tmp_path: Path, codec: str
    ) -> None:
        app = App()
        for _ in range(3):
            app.write(OUT, FOUR)
        path = app.save(tmp_path, codec)
        path.write_bytes(path.read_bytes()[:-60])
        (log,) = log_files.find(Clients(), Location.parse(str(tmp_path)))
        application, lacks = application_of(Clients(), log)
        assert lacks
        assert codec == "zstd" or len(application.jobs) == 3
        path.rename(f"{path}.inprogress")  # one that is still written ends anywhere
        (log,) = log_files.find(Clients(), Location.parse(str(tmp_path)))
        assert log.is_open
        assert application_of(Clients(), log)[1] is None

    @given(st.sampled_from(["zstd", "lz4", "snappy"]), st.binary(min_size=1, max_size=300))
    def test_damage_never_ends_but_as_torn(self, codec: str, content: bytes) -> None:
        with suppress(TornError):
            assert all(isinstance(block, bytes) for block in log_files._CODECS[codec](io.BytesIO(content)))

    @given(st.binary(max_size=200), st.integers(1, 20))
    def test_lines_whatever_the_blocks(self, content: bytes, size: int) -> None:
        blocks = [content[at : at + size] for at in range(0, len(content), size)]
        expected = content.split(b"\n")
        assert list(log_files.split(blocks)) == (expected if expected[-1] else expected[:-1])

    def test_lzf_is_reported(self, tmp_path: Path) -> None:
        (tmp_path / "app-1.lzf").write_bytes(b"ZV")
        (log,) = log_files.find(Clients(), Location.parse(str(tmp_path)))
        assert "LZF" in str(application_of(Clients(), log)[1])

    def test_rolled_files_that_are_missing_or_compacted(self, tmp_path: Path) -> None:
        app = App()
        app.write(OUT, FOUR)
        home = app.end().save(tmp_path, "zstd", rolled=4)
        (home / f"events_2_{app.id}.zstd").unlink()
        (log,) = log_files.find(Clients(), Location.parse(str(tmp_path)))
        assert log.missing == (2,)
        (home / f"events_3_{app.id}.zstd").rename(home / f"events_3_{app.id}.zstd.compact")
        (log,) = log_files.find(Clients(), Location.parse(str(tmp_path)))
        assert [each.file.name.split("_")[1] for each in log.files] == ["3", "4"]
        assert (log.missing, log.is_compacted) == ((), True)

    @pytest.mark.parametrize("open_", [False, True])
    @pytest.mark.parametrize(("number", "lost"), [(1, True), (2, True), (3, True), (4, False)])
    def test_a_rolled_file_without_events_is_a_loss_unless_it_is_the_last(
        self, tmp_path: Path, number: int, lost: bool, open_: bool
    ) -> None:
        """A log that has just been rolled ends with an empty file; an application goes on for longer than one."""
        app = App()
        app.write(OUT, FOUR)
        home = app.end().save(tmp_path, "plain", rolled=4, open_=open_)
        name = f"events_{number}_{app.id}"
        (home / name).write_bytes(b"")
        (log,) = log_files.find(Clients(), Location.parse(str(tmp_path)))
        _, lacks = application_of(Clients(), log)
        told = lacks == f"the log has a file without events: {name}"
        assert (told, lacks is None) == (lost, not lost and open_)

    @pytest.mark.parametrize("rolled", [0, 2])
    @pytest.mark.parametrize("codec", ["plain", "zstd"])
    def test_a_location_that_is_one_log(self, tmp_path: Path, codec: str, rolled: int) -> None:
        tmp_path /= "spark-events"
        App(id="app-other").save(tmp_path, codec)
        assert len(log_files.find(Clients(), Location.parse(str(tmp_path)))) == 1
        path = App().end().save(tmp_path, codec, rolled=rolled)
        (log,) = log_files.find(Clients(), Location.parse(str(path)))
        assert application_of(Clients(), log)[0].ended

    def test_other_files_are_left_out(self, tmp_path: Path) -> None:
        for name in ("readme.txt", "app-1.zstd.tmp", "eventlog_v2_app-9/other", "data/part-00000.parquet"):
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).touch()
        assert log_files.find(Clients(), Location.parse(str(tmp_path))) == []


@pytest.mark.parametrize(
    ("folder", "expected"),
    [("wh/t", "wh/t"), ("wh/t/d=1", "wh/t"), ("wh/t/d=1/e=2", "wh/t"), ("wh/d=1/t", "wh/d=1/t"), ("", ""), ("d=1", ""),
     ("wh/=1", "wh/=1"), ("wh/t/d=", "wh/t")],
)  # fmt: skip
def test_a_folder_without_partitions_both_ways(folder: str, expected: str) -> None:
    assert without_partitions(folder) == expected
    con = connection()
    sql = f"SELECT {stored_parts.base_of('folder')} AS base FROM (SELECT {duck.literal(folder)} AS folder)"
    assert duck.rows_of(duck.query(con, sql)) == [{"base": expected}]


Stored = dict[str, tuple[int, datetime]]
"""By key size and time of an object."""


def resolved(app: App, stored: Stored) -> dict[str, list[dict[str, Any]]]:
    """What the writes of a table at OUT claim, beside these objects."""
    return resolved_of([app], stored)


@cache
def _connection() -> duck.Connection:
    """One for all tests: they only ask it."""
    return connection()


def resolved_of(apps: Sequence[App], stored: Stored) -> dict[str, list[dict[str, Any]]]:
    """The same of several logs."""
    home = Location.parse(OUT)
    con = _connection()
    objects = pa.Table.from_pylist(
        [{"bucket": home.bucket, "key": f"wh/events/{name}", "reject": None, "size": size,
          "modified_at": plain_time(at), "is_latest": True, "is_delete_marker": False}
         for name, (size, at) in stored.items()],
        pa.schema([("bucket", pa.string()), ("key", pa.string()), ("reject", pa.string()), ("size", pa.int64()),
                   ("modified_at", pa.timestamp("us")), ("is_latest", pa.bool_()), ("is_delete_marker", pa.bool_())]),
    )  # fmt: skip
    below = pa.table({"bucket": [home.bucket], "prefix": [home.prefix]})
    written = [dict(rows_of(read(app), Homes({home: "events"}), None, NEVER)) for app in apps]
    rows: dict[str, duck.Rows] = {
        kind: pa.concat_tables(each[kind] for each in written) for kind in ("writes", "splits")
    }
    rows["parts"] = stored_parts.parts(con, objects, below)
    return {kind: duck.rows_of(duck.relation(con, made)) for kind, made in names.resolved("m", con, rows)}


def claimed(found: dict[str, list[dict[str, Any]]]) -> dict[str, tuple[int | None, int | None]]:
    """By name size and records."""
    return {row["key"].removeprefix("wh/events/"): (row["size"], row["records"]) for row in found["events"]}


def lacking(row: dict[str, Any]) -> tuple[Any, ...]:
    """Return a write's name; its committed and stored files, rows and bytes; and whether it was replaced."""
    counts = [(row[what], row[f"{what}_there"]) for what in ("files", "rows", "bytes")]
    return (row["commit_id"], *counts, row["replaced"], row["untold"])


def stored_files(splits: dict[int, tuple[int, int]], uuid: str, at: datetime, folder: str = "") -> Stored:
    return {f"{folder}{part(n, uuid)}": (size, at) for n, (_, size) in splits.items()}


class TestNames:
    def test_a_whole_write(self) -> None:
        app = App()
        end = app.write(OUT, FOUR)
        found = resolved(app, stored_files(FOUR, UUIDS[0], end))
        assert claimed(found) == {part(n, UUIDS[0]): (size, records) for n, (records, size) in FOUR.items()}
        assert (found["acts"], found["short"]) == ([], [])

    @pytest.mark.parametrize("gone", [{0}, {1, 3}, {0, 1, 2}, {2}])
    def test_a_lost_file_has_the_name_that_it_would_have(self, gone: set[int]) -> None:
        app = App()
        end = app.write(OUT, FOUR)
        there = {n: each for n, each in FOUR.items() if n not in gone}
        found = claimed(resolved(app, stored_files(there, UUIDS[0], end)))
        lost = {n for n in gone if FOUR[n][0]}  # a task without rows need not have a file
        assert found == {part(n, UUIDS[0]): (FOUR[n][1], FOUR[n][0]) for n in {*there, *lost}}

    def test_a_file_of_another_size_is_claimed_with_that_of_its_task(self) -> None:
        app = App()
        end = app.write(OUT, FOUR)
        stored = stored_files(FOUR, UUIDS[0], end) | {part(1, UUIDS[0]): (17, end)}
        assert claimed(resolved(app, stored))[part(1, UUIDS[0])] == (2201, None)

    def test_appends_beside_one_another(self) -> None:
        app = App()
        stored: Stored = {}
        for number in range(3):
            splits = {n: (records + number, size + number) for n, (records, size) in FOUR.items()}
            stored |= stored_files(splits, UUIDS[number], app.write(OUT, splits))
        del stored[part(3, UUIDS[1])]
        found = claimed(resolved(app, stored))
        assert len(found) == 12
        assert found[part(3, UUIDS[1])] == (2101, 91)

    def test_several_files_of_a_split(self) -> None:
        app = App()
        end = app.write(OUT, {0: (300, 3000)})
        stored = {part(0, UUIDS[0], n): (1000, end) for n in range(3)}
        assert claimed(resolved(app, stored)) == {part(0, UUIDS[0], n): (1000, None) for n in range(3)}

    def test_one_of_several_files_of_a_split_is_lost(self) -> None:
        app = App()
        end = app.write(OUT, {0: (300, 3000), 1: (100, 900)})
        stored = {part(0, UUIDS[0], n): (1000, end) for n in (0, 2)} | {part(1, UUIDS[0]): (900, end)}
        found = claimed(resolved(app, stored))
        assert found[part(0, UUIDS[0], 1)] == (1000, None)

    def test_an_overwrite_empties_its_path(self) -> None:
        app = App()
        app.write(OUT, FOUR)
        end = app.write(OUT, FOUR, "Overwrite")
        found = resolved(app, stored_files(FOUR, UUIDS[1], end))
        assert {row["commit_id"] for row in found["events"]} == {f"{app.id}/1"}
        assert [(row["scope_key"], row["at"]) for row in found["acts"]] == [("wh/events", plain_time(end))]
        assert found["short"] == []

    def test_an_overwrite_of_one_partition(self) -> None:
        app = App()
        end = app.write(OUT, FOUR, "Overwrite", fixed="d=1")
        found = resolved(app, stored_files(FOUR, UUIDS[0], end, "d=1/"))
        assert [row["scope_key"] for row in found["acts"]] == ["wh/events/d=1"]
        assert {row["partition_path"] for row in found["events"]} == {"d=1"}

    def test_a_dynamic_overwrite_empties_the_partitions_that_it_wrote(self) -> None:
        app = App()
        end = app.write(OUT, {0: (10, 100), 1: (10, 100)}, "Overwrite", by="d", dynamic=True, partitions=2)
        stored = stored_files({0: (10, 100)}, UUIDS[0], end, "d=1/") | stored_files(
            {1: (10, 100)}, UUIDS[0], end, "d=2/"
        )
        found = resolved(app, stored)
        assert sorted(row["scope_key"] for row in found["acts"]) == ["wh/events/d=1", "wh/events/d=2"]

    @pytest.mark.parametrize(
        "asked", [{"dynamic": True, "partitions": 3}, {"error": "boom"}, {"ends": False}]
    )
    def test_an_overwrite_that_may_have_emptied_more_is_a_doubt(self, asked: dict[str, Any]) -> None:
        app = App()
        end = app.write(OUT, {0: (10, 100)}, "Overwrite", by="d", **asked)
        found = resolved(app, stored_files({0: (10, 100)}, UUIDS[0], end, "d=1/"))
        assert [row["scope_key"] for row in found["acts"]] == [None]

    def test_a_write_without_any_file_left_is_reported(self) -> None:
        app = App()
        app.write(OUT, FOUR)
        (short,) = resolved(app, {})["short"]
        assert lacking(short) == (f"{app.id}/0", (3, 0), (290, 0), (6501, 0), "no", None)

    def test_two_writes_whose_files_cannot_be_distinguished_are_reported(self) -> None:
        app = App()
        first = app.write(OUT, FOUR)
        app.at = first  # beside each other
        app.write(OUT, FOUR)
        found = resolved(app, stored_files(FOUR, UUIDS[0], first) | stored_files(FOUR, UUIDS[1], first))
        assert found["events"] == []
        assert len(found["short"]) == 2

    @pytest.mark.parametrize("gone", [0, 1])
    def test_writes_of_nearly_the_same_one_after_the_other(self, gone: int) -> None:
        """A second lies between them, to which stores round times: the bytes that differ tell."""
        app = App()
        stored: Stored = {}
        for number, splits in enumerate((FOUR, FOUR | {0: (100, 2207)})):
            stored |= stored_files(splits, UUIDS[number], app.write(OUT, splits))
            app.at -= timedelta(minutes=1)
        del stored[part(1, UUIDS[gone])]
        found = resolved(app, stored)
        assert found["short"] == []
        assert len(found["events"]) == 8

    def test_a_partitioned_write_that_lacks_bytes_is_reported(self) -> None:
        app = App()
        end = app.write(OUT, {0: (20, 200), 1: (10, 100)}, by="d", partitions=2)
        stored = stored_files({0: (10, 100), 1: (10, 100)}, UUIDS[0], end, "d=1/")
        found = resolved(app, stored)
        (short,) = found["short"]
        assert lacking(short) == (f"{app.id}/0", (2, 2), (30, None), (300, 200), "no", None)
        assert len(found["events"]) == 2

    @pytest.mark.parametrize(
        ("later", "left", "expected"),
        [
            ({"by": "d", "dynamic": True, "partitions": 1}, {"d=1/": {0}}, ["partly"]),  # of d=2 or of others
            ({"by": "d", "dynamic": True, "partitions": 1}, {"d=1/": {0}, "d=2/": {1}}, ["no"]),  # of others
            ({"by": "d", "dynamic": True, "partitions": 1}, {}, ["partly"]),
            ({"by": "d", "dynamic": True, "partitions": 2}, {}, []),
            ({"by": "d"}, {"d=1/": {0}}, []),
            ({"by": "d", "fixed": "d=2"}, {"d=1/": {0}}, ["partly"]),
            ({"by": "d", "dynamic": True, "error": "boom"}, {"d=1/": {0}}, ["partly"]),
        ],
    )
    def test_what_overwrites_of_partitions_leave_of_a_write(
        self, later: dict[str, Any], left: dict[str, set[int]], expected: list[str]
    ) -> None:
        """A write of three splits into two partitions, one split of which has no file."""
        app = App()
        splits = {0: (20, 200), 1: (10, 100), 2: (5, 50)}
        end = app.write(OUT, splits, by="d", partitions=2)
        app.write(OUT, {0: (1, 10)}, "Overwrite", **later)
        stored: Stored = {}
        for folder, numbers in left.items():
            stored |= stored_files({n: splits[n] for n in numbers}, UUIDS[0], end, folder)
        assert [
            row["replaced"] for row in resolved(app, stored)["short"] if row["commit_id"].endswith("/0")
        ] == expected

    @pytest.mark.parametrize(
        ("name", "at", "told"),
        [("part-00000-tid-82-a-1-c000.parquet", 0, True), ("by-hand.parquet", 600, True), ("old.parquet", -600, False),
         ("_SUCCESS", 0, False), ("_temporary/0/x.parquet", 0, False), (part(0, UUIDS[3]), 600, True),
         (part(0, UUIDS[3]), -600, False)],
    )  # fmt: skip
    def test_files_that_may_be_those_of_a_write_of_which_nothing_else_is_left(
        self, name: str, at: float, told: bool
    ) -> None:
        """Who wrote a file since is not known where its name is another's: other committers, copies, restores."""
        app = App()
        end = app.write(OUT, FOUR)
        (short,) = resolved(app, {name: (77, end + timedelta(seconds=at))})["short"]
        assert (short["untold"] is not None) == told

    @pytest.mark.parametrize(
        ("mode", "how", "expected"),
        [
            ("ErrorIfExists", {}, ["wh/events"]),
            ("Ignore", {}, ["wh/events"]),
            ("ErrorIfExists", {"error": "the path exists"}, []),
            ("Append", {}, []),
        ],
    )
    def test_a_write_that_begins_where_nothing_is_follows_a_removal(
        self, mode: str, how: dict[str, Any], expected: list[str]
    ) -> None:
        """A job that deletes a folder and writes it again, every night."""
        app = App()
        app.write(OUT, FOUR)
        end = app.write(OUT, FOUR, mode, **how)
        found = resolved(app, stored_files(FOUR, UUIDS[1], end) if not how else {})
        assert [row["scope_key"] for row in found["acts"]] == expected
        assert [row["commit_id"][-2:] for row in found["short"]] == ([] if expected else ["/0"])

    def test_a_write_beside_one_that_began_where_nothing_was(self) -> None:
        """It ended while the other one ran, whatever that found before; and the other overwrites no partitions."""
        app = App()
        beside = app.at + timedelta(seconds=40)
        end = app.write(OUT, FOUR, "ErrorIfExists", by="d", dynamic=True, partitions=9)
        app.at = beside - timedelta(minutes=1)
        app.write(OUT, {0: (5, 50)})
        found = resolved(app, stored_files(FOUR, UUIDS[0], end, "d=1/") | {part(0, UUIDS[1]): (50, beside)})
        assert [(row["scope_key"], row["at"]) for row in found["acts"]] == [("wh/events", plain_time(BEGUN))]
        assert len(found["events"]) == 5

    def test_a_write_that_was_ignored_proves_nothing_about_earlier_files(self) -> None:
        app = App()
        end = app.write(OUT, FOUR)
        app.write(OUT, {}, "Ignore")
        found = resolved(app, stored_files(FOUR, UUIDS[0], end))
        assert (found["acts"], found["short"], len(found["events"])) == ([], [], 4)

    @pytest.mark.parametrize("below", ["_tmp", ".staging/run=1", "d=1/_temporary/x"])
    def test_what_was_written_into_a_hidden_folder_need_not_stay(self, below: str) -> None:
        """Such folders are renamed or removed."""
        app = App()
        app.write(f"{OUT}/{below}", FOUR)
        assert resolved(app, {})["short"] == []

    @pytest.mark.parametrize("asked", [{"error": "boom"}, {"ends": False}])
    def test_a_write_that_was_not_committed_claims_nothing(self, asked: dict[str, Any]) -> None:
        app = App()
        end = app.write(OUT, FOUR, **asked)
        assert resolved(app, stored_files(FOUR, UUIDS[0], end)) == {
            "events": [],
            "acts": [],
            "attempts": [],
            "short": [],
        }

    @pytest.mark.parametrize(("late", "more"), [(timedelta(hours=1), 1), (timedelta(hours=-1), 0)])
    def test_files_that_were_not_stored_while_it_ran_are_not_its_own(
        self, late: timedelta, more: int
    ) -> None:
        """Later ones with the bytes of its tasks may have been restored."""
        app = App()
        end = app.write(OUT, FOUR)
        others = {n: (records, size + more * (n == 3)) for n, (records, size) in FOUR.items()}
        found = resolved(app, stored_files(others, UUIDS[0], end + late))
        assert found["events"] == []
        assert len(found["short"]) == 1

    def test_other_names_are_left_alone(self) -> None:
        app = App()
        end = app.write(OUT, FOUR)
        others = {"_SUCCESS": (0, end), "part-00000": (5, end), f"x{part(0, UUIDS[1])}": (5, end),
                  "part-00000-c000.csv": (7, end)}  # fmt: skip
        assert len(claimed(resolved(app, stored_files(FOUR, UUIDS[0], end) | others))) == 4


def same(found: dict[str, list[dict[str, Any]]]) -> dict[str, tuple[str, int | None]]:
    """By name of the file that does not count, that of the one that does, and its rows."""
    name = {row["key"]: row for row in found["attempts"]}
    return {
        key.removeprefix("wh/events/"): (row["related_key"].removeprefix("wh/events/"), row["rows"])
        for key, row in name.items()
    }


BROKEN = {0: (100, 2200), 1: (100, 2201)}
"""The commits of a run's tasks before it failed."""


class TestAttempts:
    @pytest.mark.parametrize("how", [{"error": "boom"}, {"ends": False}])
    def test_a_failed_run_and_its_retry(self, how: dict[str, Any]) -> None:
        app = App()
        first = app.write(OUT, BROKEN, **how)
        stored = stored_files(BROKEN, UUIDS[0], first) | stored_files(FOUR, UUIDS[1], app.write(OUT, FOUR))
        found = resolved(app, stored)
        assert same(found) == {part(n, UUIDS[0]): (part(n, UUIDS[1]), 100) for n in BROKEN}
        assert len(found["events"]) == 4

    def test_a_task_that_was_killed_when_its_file_was_there_already(self) -> None:
        """Its end is not among those that succeeded; the other files of its run identify the file."""
        app = App()
        first = app.write(OUT, BROKEN, error="boom")
        there = stored_files(BROKEN | {3: FOUR[3], 2: (1, 17)}, UUIDS[0], first)
        found = same(resolved(app, there | stored_files(FOUR, UUIDS[1], app.write(OUT, FOUR))))
        assert {name: rows for name, (_, rows) in found.items()} == {
            part(0, UUIDS[0]): 100, part(1, UUIDS[0]): 100, part(3, UUIDS[0]): None
        }  # fmt: skip

    def test_a_killed_run_and_the_next_attempt_of_its_application(self) -> None:
        """On YARN both bear one id; each has a log, and counts its executions from the beginning."""
        killed, again = App(attempt="1"), App(attempt="2", at=BEGUN + timedelta(minutes=5))
        stored = stored_files(BROKEN, UUIDS[0], killed.write(OUT, BROKEN, ends=False)) | stored_files(
            FOUR, UUIDS[1], again.write(OUT, FOUR)
        )
        found = resolved_of([killed, again], stored)
        assert same(found) == {part(n, UUIDS[0]): (part(n, UUIDS[1]), 100) for n in BROKEN}
        assert {row["commit_id"] for row in found["attempts"]} == {f"{killed.id}_1/0"}

    @pytest.mark.parametrize(
        ("broken", "again", "how", "gone"),
        [
            (BROKEN, FOUR | {1: (100, 2300)}, {}, set()),  # other bytes: of other rows, for all that is known
            (BROKEN, FOUR | {1: (99, 2201)}, {}, set()),
            ({0: (1, 900)}, {0: (1, 900)}, {}, set()),  # one small file may be equal by chance
            (BROKEN, FOUR, {"mode": "Overwrite"}, set()),  # it empties what the run has left
            (BROKEN, FOUR, {"error": "boom"}, set()),  # both failed
            (BROKEN, FOUR, {}, {part(0, UUIDS[0]), part(1, UUIDS[0])}),  # it cleaned up
            (BROKEN, FOUR, {}, {part(0, UUIDS[1]), part(1, UUIDS[1])}),  # what is lost is not there twice
        ],
    )
    def test_runs_that_are_not_retries(
        self, broken: dict[int, Any], again: dict[int, Any], how: dict[str, Any], gone: set[str]
    ) -> None:
        app = App()
        stored = stored_files(broken, UUIDS[0], app.write(OUT, broken, error="boom"))
        stored |= stored_files(again, UUIDS[1], app.write(OUT, again, **how))
        assert same(resolved(app, {n: each for n, each in stored.items() if n not in gone})) == {}

    def test_runs_that_succeeded_are_not_attempts_of_each_other(self) -> None:
        """A job that appends equal rows every night does so on purpose."""
        app = App()
        stored = stored_files(FOUR, UUIDS[0], app.write(OUT, FOUR)) | stored_files(
            FOUR, UUIDS[1], app.write(OUT, FOUR)
        )
        assert same(resolved(app, stored)) == {}

    def test_a_failed_run_whose_files_cannot_be_distinguished_from_anothers(self) -> None:
        app = App()
        first = app.write(OUT, BROKEN, error="boom")
        app.at = first
        app.write(OUT, BROKEN, error="boom")
        stored = stored_files(BROKEN, UUIDS[0], first) | stored_files(BROKEN, UUIDS[2], first)
        assert same(resolved(app, stored | stored_files(FOUR, UUIDS[1], app.write(OUT, FOUR)))) == {}

    @pytest.mark.parametrize(
        ("retried", "gap", "expected"), [(True, 60, True), (False, 60, False), (True, 0, False)]
    )
    def test_files_of_an_attempt_that_does_not_count(self, retried: bool, gap: float, expected: bool) -> None:
        """The attempt that counts divided its rows in another way; bytes and times identify its files."""
        app = App()
        lost = (
            [{"split": 0, "records": 0, "size": 0, "attempt": 1, "reason": "TaskKilled"}] if retried else []
        )
        end = app.write(OUT, {0: (20, 200)}, by="d", partitions=2, attempts=lost)
        stored = {f"d={day}/{part(0, UUIDS[0])}": (100, end) for day in (1, 2)}
        old = f"d=3/{part(0, UUIDS[0])}"
        found = same(resolved(app, stored | {old: (100, end - timedelta(seconds=gap))}))
        assert found == ({old: (f"d=1/{part(0, UUIDS[0])}", None)} if expected else {})


def test_events_are_read_from_their_first_bytes(tmp_path: Path) -> None:
    """Spark writes no blanks; others that copy logs may."""
    app = App()
    app.write(OUT, FOUR)
    application = Application()
    application.take(json.dumps(event, indent=None).encode() for event in app.events)
    assert len(next(application.writes()).splits) == 4
