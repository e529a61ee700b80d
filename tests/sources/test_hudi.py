"""The Hudi reader on timelines that are written by hand, in all states they can have."""

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeaudit.config import Settings, Table
from lakeaudit.engine.local import InProcessEngine
from lakeaudit.errors import SourceError
from lakeaudit.evidence.files import read_bytes
from lakeaudit.evidence.lineage import ARCHIVED, LOST_STATE, TORN, LastState, StateRef
from lakeaudit.evidence.manifest.hudi import KIND as HUDI
from lakeaudit.evidence.manifest.hudi import HudiManifest
from lakeaudit.evidence.manifest.hudi import reader as hudi
from lakeaudit.evidence.manifest.hudi.point_lookup import read as look_up
from lakeaudit.evidence.manifest.hudi.state.readings import read_tables
from lakeaudit.evidence.manifest.hudi.timeline.archive import archived_instants
from lakeaudit.evidence.manifest.hudi.timeline.instants import find, probe
from lakeaudit.evidence.manifest.hudi.timeline.names import (
    FileName,
    InstantName,
    file_named,
    instant_named,
    time_of,
)
from lakeaudit.evidence.manifest.hudi.timeline.properties import NotReadable, parse_properties, properties
from lakeaudit.evidence.protocol import Claims, Context
from lakeaudit.keys import Location
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.connections.aws_failures import ARCHIVED as ARCHIVED_WORDS
from lakeaudit.schemas import plain_time
from tests.builders.hudi import commit, stat, unpacked, write_timeline
from tests.sources.manifest_contract import claim_table

NOW = datetime(2026, 11, 21, tzinfo=UTC)
CONTEXT = Context(InProcessEngine(2), Clients(), as_of=NOW, now=NOW, live=True)
T1, T2, T3, T4, T5 = (f"2026110{n}100000000" for n in range(1, 6))
DONE = {each: f"{each[:8]}110000000" for each in (T1, T2, T3, T4, T5)}
"""When each was completed, in timelines of layout 2."""


def base(group: str, instant: str, folder: str = "d=1") -> str:
    return f"{folder}/{group}_0-1-2_{instant}.parquet"


def log(group: str, instant: str, number: int = 1, folder: str = "d=1") -> str:
    return f"{folder}/.{group}_{instant}.log.{number}_0-1-2"


def table_at(home: Path) -> Table:
    return Table(
        name="t",
        location=Location.parse(str(home)),
        manifests=(HudiManifest(kind="hudi"),),
        settings=Settings(),
    )


def read(home: Path, context: Context = CONTEXT) -> Claims:
    return hudi.read([table_at(home)], context, "manifest:hudi")


def rows_of(home: Path, context: Context = CONTEXT) -> dict[str, dict[str, Any]]:
    """Claims by their keys below the table's location."""
    return {r["key"].removeprefix(f"{home}/"[1:]): r for r in claim_table(read(home, context)).to_pylist()}


def states_of(home: Path) -> dict[str, str]:
    """By key the state, with a mark where the file may be absent."""
    return {key: row["state"] + "?" * row["explained"] for key, row in rows_of(home).items()}


def clean(folder: str, *names: str, failed: tuple[str, ...] = ()) -> str:
    of_partition = {"partitionPath": folder, "successDeleteFiles": names, "failedDeleteFiles": failed}
    return json.dumps({"partitionMetadata": {folder: of_partition}})


def name(path: str) -> str:
    return path.rpartition("/")[2]


def test_the_newest_slice_is_live_and_older_ones_are_history_until_they_are_cleaned(tmp_path: Path) -> None:
    a1, a2, a3 = (base("a", each) for each in (T1, T2, T3))
    write_timeline(tmp_path, {
        f"{T1}.commit": commit(stat(a1), stat(base("b", T1))),
        f"{T2}.commit": commit(stat(a2, prevCommit=T1)),
        f"{T3}.commit": commit(stat(a3, size=300, rows=7, prevCommit=T2)),
        f"{T4}.clean": clean("d=1", name(a1)),
    })  # fmt: skip
    rows = rows_of(tmp_path)
    assert {key: row["state"] for key, row in rows.items()} == {
        a1: "gone", a2: "history", a3: "live", base("b", T1): "live",
    }  # fmt: skip
    newest = rows[a3]
    assert (newest["size"], newest["records"], newest["partition_path"], newest["commit_id"], newest["listed"]) == (
        300, 7, "d=1", T3, 1,
    )  # fmt: skip
    assert (rows[a1]["removed_at"], rows[a2]["removed_at"]) == (
        plain_time(datetime(2026, 11, 4, 10, tzinfo=UTC)),
        None,
    )


def test_an_instant_under_way_or_only_planned_is_not_a_commit(tmp_path: Path) -> None:
    write_timeline(tmp_path, {
        f"{T1}.commit": commit(stat(base("a", T1))),
        f"{T2}.commit.requested": "", f"{T2}.inflight": commit(stat(base("a", T2))),
        f"{T3}.deltacommit.inflight": commit(stat(base("a", T3))), f"{T4}.compaction.requested": "plan",
    })  # fmt: skip
    assert states_of(tmp_path) == {base("a", T1): "live"}


@pytest.mark.parametrize("layout", [1, 2])
def test_log_files_are_live_since_the_newest_base_file(tmp_path: Path, layout: int) -> None:
    """By the base instant in their names, or by when they were completed."""
    before, after = log("a", T1 if layout == 1 else T2), log("a", T3 if layout == 1 else T4, 2)
    named = {each: each if layout == 1 else f"{each}_{DONE[each]}" for each in (T1, T2, T3, T4)}
    write_timeline(tmp_path, {
        f"{named[T1]}.deltacommit": commit(stat(base("a", T1))),
        f"{named[T2]}.deltacommit": commit(stat(before, size=40)),
        f"{named[T4]}.deltacommit": commit(stat(after, size=50)),
    }, layout=layout)  # fmt: skip
    assert states_of(tmp_path) == {base("a", T1): "live", before: "live", after: "live"}
    write_timeline(tmp_path, {f"{named[T3]}.commit": commit(stat(base("a", T3)))}, layout=layout)
    rows = rows_of(tmp_path)
    assert {key: row["state"] for key, row in rows.items()} == {
        base("a", T1): "history", before: "history", base("a", T3): "live", after: "live",
    }  # fmt: skip
    assert (rows[after]["size"], rows[after]["least_size"]) == ((None, 50) if layout == 1 else (50, None))


def test_a_replaced_file_group_has_nothing_live(tmp_path: Path) -> None:
    write_timeline(tmp_path, {
        f"{T1}.commit": commit(stat(base("a", T1)), stat(base("a", T1, "d=2"))),
        f"{T2}.replacecommit": commit(stat(base("n", T2)), replaced={"d=1": ["a"]}),
    })  # fmt: skip
    assert states_of(tmp_path) == {
        base("a", T1): "history", base("a", T1, "d=2"): "live", base("n", T2): "live",
    }  # fmt: skip


def rolled(
    *paths: str, logs: Mapping[str, int] | None = None, failed: Mapping[str, int] | None = None
) -> Any:
    one = {"partitionPath": "d=1", "successDeleteFiles": [*map(name, paths)], "failedDeleteFiles": [],
           "rollbackLogFiles": logs, "logFilesFromFailedCommit": failed}  # fmt: skip
    return {"partitionMetadata": {"d=1": one}}


def test_what_a_rollback_removed_is_gone_unless_its_instant_was_done_again(tmp_path: Path) -> None:
    """A compaction that failed is rolled back, and completed later under the same instant.

    Readers that list folders take a file of that instant, so what the rollback removed is claimed by nobody.
    """
    again, never = base("a", T3), base("b", T3)
    write_timeline(tmp_path, {
        f"{T1}.commit": commit(stat(base("a", T1))),
        f"{T4}.rollback": json.dumps(rolled(again, never)),
        f"{T3}.commit": commit(stat(again)),
    })  # fmt: skip
    assert states_of(tmp_path) == {base("a", T1): "history", again: "live"}


def test_a_rollback_of_log_files_leaves_the_failed_ones_and_adds_its_own(tmp_path: Path) -> None:
    failed, mark = log("a", T1, 1), log("a", T1, 2)
    write_timeline(tmp_path, {
        f"{T1}.deltacommit": commit(stat(base("a", T1))),
        f"{T3}.rollback": json.dumps(rolled(logs={f"/x/{mark}": 9}, failed={name(failed): 5, "file:/wh/t": 1})),
    })  # fmt: skip
    assert states_of(tmp_path) == {base("a", T1): "live", failed: "history?", mark: "live"}


def test_what_a_clean_or_rollback_under_way_names_may_be_absent(tmp_path: Path) -> None:
    plan = {"filePathsToBeDeletedPerPartition": {"d=1": [{"filePath": f"s3a://b/t/{base('a', T1)}"}]}}
    back = {
        "RollbackRequests": [{"partitionPath": "d=1", "filesToBeDeleted": [f"s3a://b/t/{base('a', T3)}"]}]
    }
    write_timeline(tmp_path, {
        f"{T1}.commit": commit(stat(base("a", T1))), f"{T2}.commit": commit(stat(base("a", T2))),
        f"{T3}.commit": commit(stat(base("a", T3))),
        f"{T4}.clean.requested": json.dumps(plan), f"{T5}.rollback.requested": json.dumps(back),
    })  # fmt: skip
    assert states_of(tmp_path) == {
        base("a", T1): "history?",
        base("a", T2): "live",
        base("a", T3): "history?",
    }


def test_a_restore_and_a_savepoint(tmp_path: Path) -> None:
    restored = {"hoodieRestoreMetadata": {T3: [rolled(base("a", T3))]}}
    saved = {
        "partitionMetadata": {"d=1": {"partitionPath": "d=1", "savepointDataFile": [name(base("z", T1))]}}
    }
    write_timeline(tmp_path, {
        f"{T2}.commit": commit(stat(base("a", T2))),
        f"{T2}.savepoint": json.dumps(saved), f"{T4}.restore": json.dumps(restored),
    })  # fmt: skip
    assert states_of(tmp_path) == {base("z", T1): "history", base("a", T2): "live", base("a", T3): "gone"}


def test_a_file_that_a_clean_failed_to_delete_may_be_there_or_not(tmp_path: Path) -> None:
    write_timeline(tmp_path, {
        f"{T1}.commit": commit(stat(base("a", T1))), f"{T2}.commit": commit(stat(base("a", T2))),
        f"{T3}.clean": clean("d=1", failed=(name(base("a", T1)),)),
    })  # fmt: skip
    assert states_of(tmp_path) == {base("a", T1): "history?", base("a", T2): "live"}


def test_times_are_those_of_the_files_or_of_the_names_where_they_are_utc(tmp_path: Path) -> None:
    instants = {f"{T1}_{DONE[T1]}.commit": commit(stat(base("a", T1)))}
    late = datetime(2026, 11, 9, tzinfo=UTC).timestamp()
    for zone, at in (
        ("LOCAL", datetime(2026, 11, 9, tzinfo=UTC)),
        ("UTC", datetime(2026, 11, 1, 11, tzinfo=UTC)),
    ):
        write_timeline(tmp_path, instants, layout=2, properties={"hoodie.table.timeline.timezone": zone})
        for path in (tmp_path / ".hoodie" / "timeline").iterdir():
            os.utime(path, (late, late))
        assert rows_of(tmp_path)[base("a", T1)]["claimed_at"] == plain_time(at)
    early = datetime(2026, 10, 31, tzinfo=UTC)  # its writer's clock was ahead
    for path in (tmp_path / ".hoodie" / "timeline").iterdir():
        os.utime(path, (early.timestamp(), early.timestamp()))
    assert rows_of(tmp_path)[base("a", T1)]["claimed_at"] == plain_time(early)


def test_partitions_are_read_as_their_writer_meant_them(tmp_path: Path) -> None:
    write_timeline(tmp_path, {f"{T1}.commit": commit(*(stat(f"d={each}/x_0-1-2_1.parquet") for each in ENCODED))},
         properties={"hoodie.datasource.write.partitionpath.urlencode": "true"})  # fmt: skip
    told = {key: row["partition_path"] for key, row in rows_of(tmp_path).items()}
    assert told == {f"d={each}/x_0-1-2_1.parquet": f"d={plain}" for each, plain in ENCODED.items()}


ENCODED = {"a%3Ab": "a:b", "a+b": "a+b", "%ff": "%ff", "%zz": "%zz"}


def test_the_state_of_another_day_has_no_later_instant(tmp_path: Path) -> None:
    write_timeline(
        tmp_path, {f"{T1}.commit": commit(stat(base("a", T1))), f"{T3}.commit": commit(stat(base("a", T3)))}
    )
    then = datetime(2026, 11, 2, tzinfo=UTC)
    assert rows_of(tmp_path, replace(CONTEXT, as_of=then, live=False)).keys() == {base("a", T1)}


REFUSED = [
    ({"hoodie.table.version": "10"}, "its table version 10 is not known; 1 to 6, 8 and 9 are"),
    ({"hoodie.table.version": "7"}, "its table version 7 is not known; 1 to 6, 8 and 9 are"),
    ({"hoodie.table.version": "six"}, "its table version six is not known; 1 to 6, 8 and 9 are"),
    ({"hoodie.table.version": ""}, "its hoodie.properties names no table version"),
    ({"hoodie.timeline.layout.version": "2"}, "timeline layout 2 is not known of tables of version 6"),
    (
        {"hoodie.bootstrap.base.path": "s3://b/old"},
        "it was bootstrapped from files elsewhere, which is not read yet",
    ),
    (
        {"hoodie.archivelog.folder": "../../other"},
        "its hoodie.archivelog.folder is not a folder's name: '../../other'",
    ),
]


@pytest.mark.parametrize(("said", "why"), REFUSED)
def test_a_table_that_cannot_be_read_is_refused_with_one_line(
    tmp_path: Path, said: dict[str, str], why: str
) -> None:
    write_timeline(tmp_path, {f"{T1}.commit": commit(stat(base("a", T1)))}, properties=said)
    claims = read(tmp_path)
    assert (claims.states["t"].refused, claim_table(claims).num_rows) == (why, 0)
    with pytest.raises(SourceError):
        probe(table_at(tmp_path), Clients())
    assert look_up(table_at(tmp_path), Clients(), "", str(tmp_path / base("a", T1))[1:]) == (
        "unknown",
        [],
        why,
    )


def test_without_properties_it_is_not_a_table_and_their_backup_replaces_them(tmp_path: Path) -> None:
    write_timeline(tmp_path, {f"{T1}.commit": commit(stat(base("a", T1)))})
    own = tmp_path / ".hoodie" / "hoodie.properties"
    own.rename(own.with_name("hoodie.properties.backup"))
    assert states_of(tmp_path) == {base("a", T1): "live"}
    own.with_name("hoodie.properties.backup").unlink()
    assert str(read(tmp_path).states["t"].refused).startswith("not a Hudi table: no hoodie.properties in ")


@pytest.mark.parametrize("content", [b"", b"#Updated at 2026-11-01\n"])
def test_properties_that_are_not_whole_are_named_as_such_and_their_backup_is_read(
    tmp_path: Path, content: bytes
) -> None:
    write_timeline(tmp_path, {f"{T1}.commit": commit(stat(base("a", T1)))})
    own = tmp_path / ".hoodie" / "hoodie.properties"
    whole = own.read_bytes()
    own.write_bytes(content)
    backup = own.with_name("hoodie.properties.backup")
    empty = f"{own} is empty, and there is no whole hoodie.properties.backup"
    why = "its hoodie.properties names no table version" if content else empty
    for other in (None, b""):
        if other is not None:
            backup.write_bytes(other)
        assert read(tmp_path).states["t"].refused == why
    backup.write_bytes(whole)
    assert states_of(tmp_path) == {base("a", T1): "live"}


@pytest.mark.parametrize(
    ("content", "missing"), [(b"\x00\xff=\x01", TORN), (b"a=b", TORN), (b"hoodie.table.version=99", "")]
)
def test_properties_without_any_of_hudi_are_torn(tmp_path: Path, content: bytes, missing: str) -> None:
    write_timeline(tmp_path, {f"{T1}.commit": commit(stat(base("a", T1)))})
    (tmp_path / ".hoodie" / "hoodie.properties").write_bytes(content)
    assert read(tmp_path).states["t"].missing == missing


@pytest.mark.parametrize(
    ("cold", "missing"),
    [("hoodie.properties", ARCHIVED), (".commit", ARCHIVED), (f"{T2}.commit", ""), ("nothing", "")],
)
def test_a_table_whose_properties_or_all_instants_are_archived_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cold: str, missing: str
) -> None:
    write_timeline(
        tmp_path,
        {f"{time}.commit": commit(stat(base(group, time))) for group, time in (("a", T1), ("b", T2))},
    )

    def read_or_refuse(clients: Clients, place: Location, **given: Any) -> bytes | None:
        if place.key.endswith(cold):
            raise SourceError(place.uri, ARCHIVED_WORDS, "")
        return read_bytes(clients, place, **given)

    for module in ("state.parts", "timeline.instants"):
        monkeypatch.setattr(f"lakeaudit.evidence.manifest.hudi.{module}.read_bytes", read_or_refuse)
    state = read(tmp_path).states["t"]
    assert (state.missing, state.state is None) == (missing, bool(missing))
    if state.missing_state is not None:
        assert state.missing_state.subject.endswith(cold)
    if cold == "nothing":
        assert state.needed_log is not None
        needed = {file.place.key.rpartition("/")[2] for file in state.needed_log()}
        assert needed == {"hoodie.properties", f"{T2}.commit"}


SURROGATE = "'utf-8' codec can't encode character '\\ud800' in position 4: surrogates not allowed"
BROKEN = [
    ("commit", "", "it is empty"),
    ("commit", '{"partitionToWriteStats": {"d=1": [', "it is incomplete or damaged"),
    ("commit", "[]", "it is not a record"),
    ("commit", "{}", "it is not understood ('partitionToWriteStats')"),
    ("commit", commit(stat("../../b/x_1-2-3_1.parquet")), "it is not understood (no folder of the table: '../../b')"),
    ("commit", commit(stat("s3://b/x_1-2-3_1.parquet")), "it is not understood (no folder of the table: 's3://b')"),
    ("commit", commit(stat("d=1/..")), "it is not understood (no file's name: '..')"),
    ("commit", commit(stat("d=1/x", size=1 << 70)), f"it is not understood (a count of {1 << 70})"),
    ("commit", commit(stat("d=1/" + "x" * 20_000)), "it is not understood (a path of 20004 characters)"),
    ("commit", commit(stat("d=1/\ud800")), f"it is not understood ({SURROGATE})"),
    ("clean", '{"partitionMetadata": {"d=1": null}}', "it is not understood ('NoneType' object is not subscriptable)"),
    ("rollback", "Obj\x01", "its Avro header cannot be understood"),
]  # fmt: skip


@pytest.mark.parametrize(("action", "content", "why"), BROKEN)
def test_an_instant_that_cannot_be_read_is_reported_and_the_others_count(
    tmp_path: Path, action: str, content: str, why: str
) -> None:
    write_timeline(tmp_path, {f"{T1}.commit": commit(stat(base("a", T1))), f"{T2}.{action}": content})
    claims = read(tmp_path)
    (hole,) = claims.holes
    assert (hole.reason, hole.subject.rpartition("/")[2], hole.table) == (why, f"{T2}.{action}", "t")
    assert not claims.states["t"].complete
    (row,) = claim_table(claims).to_pylist()
    assert (row["state"], row["certain"]) == ("live", action == "commit")


def test_foreign_names_in_the_timeline_are_left_alone(tmp_path: Path) -> None:
    odd = {"20261101.commit": "x", "x.commit": "x", f"{T2}.indexing": "x", f"{T3}.commit.old": "x"}
    folder = write_timeline(tmp_path, {f"{T1}.commit": commit(stat(base("a", T1)))})
    for each, content in odd.items():
        (folder / each).write_text(content)
    claims = read(tmp_path)
    assert (claims.holes, claim_table(claims).num_rows) == ((), 1)


def test_archived_instants_of_layout_2_are_as_those_that_are_not(tmp_path: Path) -> None:
    """But for actions that say nothing of files, or that nobody knows."""
    done = DONE[T2]
    rows = [("commit", commit(stat(base("b", T2)))), ("indexing", "{}"), ("new", "{}"), ("clean", "")]
    archived = [
        {"instantTime": T2, "completionTime": done, "action": a, "metadata": m.encode()} for a, m in rows
    ]
    folder = (
        write_timeline(tmp_path, {f"{T3}_{DONE[T3]}.commit": commit(stat(base("a", T3)))}, layout=2)
        / "history"
    )
    folder.mkdir()
    pq.write_table(pa.Table.from_pylist(archived), folder / "1_2_0.parquet")
    (folder / "manifest_1").write_text('{"files": [{"fileName": "1_2_0.parquet", "fileLen": 1}]}')
    (folder / "_version_").write_text("1")
    assert states_of(tmp_path) == {base("a", T3): "live", base("b", T2): "live"}
    assert read(tmp_path).states["t"].horizon == datetime(2026, 11, 2, 23, tzinfo=UTC)
    for then, state in ((2, {}), (3, {base("b", T2): "live"})):
        earlier = replace(CONTEXT, as_of=datetime(2026, 11, then, tzinfo=UTC), live=False)
        assert {key: row["state"] for key, row in rows_of(tmp_path, earlier).items()} == state
    (folder / "1_2_0.parquet").write_bytes(b"PAR1")
    (hole,) = read(tmp_path).holes
    assert (hole.kind, hole.reason) == ("missing_metadata", "it is incomplete or damaged")


@pytest.mark.parametrize(
    "content", [None, b"", b"{", b'{"files": [{}]}', b'{"files": [{"fileName": "gone"}]}']
)
def test_an_archive_of_unknown_files_is_reported(tmp_path: Path, content: bytes | None) -> None:
    folder = (
        write_timeline(tmp_path, {f"{T1}_{DONE[T1]}.commit": commit(stat(base("a", T1)))}, layout=2)
        / "history"
    )
    folder.mkdir()
    (folder / "_version_").write_text("3")
    if content is not None:
        (folder / "manifest_3").write_bytes(content)
    (hole,) = read(tmp_path).holes
    assert (hole.kind, hole.hides) == ("missing_metadata", "the files that its instants wrote and removed")


def test_a_file_group_of_unknown_origin_is_reported(tmp_path: Path) -> None:
    write_timeline(tmp_path, {f"{T3}.commit": commit(stat(base("a", T3), prevCommit=T1))})
    (hole,) = read(tmp_path).holes
    assert hole.reason == f"the timeline begins after {T1}, but 1 file group comes from that instant"


def test_writes_that_record_lost_rows_are_reported(tmp_path: Path) -> None:
    write_timeline(tmp_path, {f"{T1}.commit": commit(stat(base("a", T1), totalWriteErrors=0))})
    assert read(tmp_path).warnings == ()
    write_timeline(tmp_path, {
        f"{each}.commit": commit(stat(base("a", each), totalWriteErrors=2), stat(base("b", each), totalWriteErrors=3))
        for each in (T2, T3)
    })  # fmt: skip
    (told,) = read(tmp_path).warnings
    assert (
        told == f"t: the write {T3} says that it could not write 5 of its rows (1 older writes did so, too)"
    )


def test_unused_files_of_a_long_timeline_without_an_archive_are_kept(tmp_path: Path) -> None:
    for number, why in (
        (19, None),
        (20, "its timeline has 20 writes and no archive, so that older ones may not be known"),
    ):
        write_timeline(tmp_path, {f"202611{n + 1:02}100000000.commit": commit() for n in range(number)})
        assert read(tmp_path).states["t"].leftovers_kept == why


def test_an_instant_that_is_archived_while_it_is_read_is_read_again(tmp_path: Path) -> None:
    folder = write_timeline(
        tmp_path, {f"{T1}.commit": commit(stat(base("a", T1))), f"{T2}.clean": clean("d=1")}
    )
    found = find([table_at(tmp_path)], Clients(), None, lambda: NOW)
    (folder / f"{T2}.clean").unlink()
    reading = read_tables(found, CONTEXT, "manifest:hudi", lambda: NOW)
    assert [(each.number, each.problems) for each in reading.tables] == [(1, ())]


def changed(home: Path, claims: Claims) -> dict[str, str]:
    found = HUDI.changes(claims, [table_at(home)], CONTEXT)
    return {row["key"].removeprefix(f"{home}/"[1:]): row["state"] for row in found.rows.to_pylist()}  # type: ignore[union-attr]


def test_changes_are_what_newer_instants_made_otherwise(tmp_path: Path) -> None:
    write_timeline(tmp_path, {f"{T1}.commit": commit(stat(base("a", T1)), stat(base("b", T1)))})
    claims = read(tmp_path)
    assert changed(tmp_path, claims) == {}
    write_timeline(tmp_path, {f"{T2}.commit": commit(stat(base("a", T2)))})
    assert changed(tmp_path, claims) == {base("a", T1): "history", base("a", T2): "live"}
    write_timeline(tmp_path, {f"{T3}.commit": "{"})
    assert "incomplete" in HUDI.changes(claims, [table_at(tmp_path)], CONTEXT).unsure["t"]


def test_what_a_timeline_says_of_one_file(tmp_path: Path) -> None:
    a1, a2 = base("a", T1), base("a", T2)
    write_timeline(tmp_path, {
        f"{T1}.commit": commit(stat(a1, size=5)), f"{T2}.commit": commit(stat(a2)),
        f"{T3}.clean": clean("d=1", name(a1)), f"{T4}.replacecommit": commit(replaced={"d=1": ["a"]}),
    })  # fmt: skip

    def lookup(path: str) -> tuple[str, list[tuple[str, str]]]:
        answer, history, _ = look_up(table_at(tmp_path), Clients(), "", str(tmp_path / path)[1:])
        return answer, [(row["file"], row["instant"]) for row in history]

    replaced = ("replaced with its file group", T4)
    assert lookup(a1) == ("deleted", [("written", T1), ("cleaned", T3), replaced])
    assert lookup(a2) == ("deleted", [("written", T2), replaced])
    assert lookup("d=1/none_1-2-3_4.parquet") == ("absent", [])


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (f"{T1}.commit", InstantName(T1, "commit", "completed")),
        (f"{T1}.inflight", InstantName(T1, "commit", "inflight")),
        (f"{T1}_{T2}.deltacommit", InstantName(T1, "deltacommit", "completed", T2)),
        ("20261101100000.clean.requested", InstantName("20261101100000999", "clean", "requested")),
        ("hoodie.properties", None), ("2026.commit", None), (f"{T1}.commit.crc", None),
    ],
)  # fmt: skip
def test_names_of_instants(text: str, named: InstantName | None) -> None:
    assert instant_named(text) == named


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (f"a-0_1-2-3_{T1}.parquet", FileName("a-0", T1, "base")),
        (f"a-0_1-2-3_{T1}", FileName("a-0", T1, "base")),
        (f".a-0_{T1}.log.1_0-1-2", FileName("a-0", T1, "log")),
        (f".a-0_{T1}.log.1", FileName("a-0", T1, "log")),
        (f".a-0_{T1}.log.1_0-1-2.cdc", FileName("a-0", T1, "changes")),
        (f".a-0_{T1}.log.1_0-1-2-cdc", FileName("a-0", T1, "changes")),
        ("part-0.parquet", None),
    ],
)
def test_names_of_files(text: str, named: FileName | None) -> None:
    assert file_named(text) == named


def test_times_of_instants() -> None:
    assert time_of(T1, utc=True) == datetime(2026, 11, 1, 10, tzinfo=UTC)
    assert time_of(T1, utc=False) == datetime(2026, 11, 1, 22, tzinfo=UTC)
    assert time_of("99999999999999", utc=True) is None


def test_properties_are_read_as_java_writes_them() -> None:
    text = '#Updated\n! note\na.b=1\nschema={"type"\\:"record"}\nlong=x\\\n   y\nempty=\nspaced : v\n'
    assert properties(text) == {
        "a.b": "1",
        "schema": '{"type":"record"}',
        "long": "xy",
        "empty": "",
        "spaced": "v",
    }
    with pytest.raises(NotReadable):
        parse_properties(b"\xff\xfe")


def archived_writes(wh: Path) -> list[str]:
    """The writes that a table's archive has."""
    config = parse_properties((wh / "archived/.hoodie/hoodie.properties").read_bytes())
    folder = wh / "archived/.hoodie" / config.archive
    files = [path for path in folder.iterdir() if path.name.endswith(".parquet") or ".archive." in path.name]
    found = (some for path in files for some in archived_instants(path.read_bytes(), config.layout))
    return sorted(each.begin for some in found for each in some.instants if each.action == "commit")


def lost_of(home: Path, instant: str, context: Context = CONTEXT) -> list[int | None]:
    """Writes that are lost, if the last audit read this one."""
    state = StateRef(int(instant), f"{instant}.commit", "", NOW)
    last = LastState(state, NOW, "r", table_at(home).location.uri)
    claims = read(home, replace(context, last_states={("hudi", "t"): last}))
    return [each.number for each in claims.witnesses if each.claim == LOST_STATE and not each.recreated]


@pytest.mark.parametrize("layout", [1, 2])
def test_an_archived_write_is_not_lost_and_one_that_no_archive_has_is(tmp_path: Path, layout: int) -> None:
    home = unpacked(tmp_path, layout, ["archived"])
    writes = archived_writes(home)
    assert len(writes) >= 4
    for each in writes:
        assert lost_of(home / "archived", each) == []
    between = f"{int(writes[1]) + 1}"
    assert lost_of(home / "archived", between) == [int(between)]
    earlier = replace(CONTEXT, live=False, as_of=datetime(2027, 1, 1, tzinfo=UTC))
    assert lost_of(home / "archived", between, earlier) == []


def test_an_archived_write_of_a_table_with_another_name_and_place_is_not_lost(tmp_path: Path) -> None:
    wh = unpacked(tmp_path, 2, ["archived"])
    (read_now,) = read(wh / "archived", CONTEXT).states.values()
    assert read_now.state is not None
    second = archived_writes(wh)[1]
    for instant, expected in {second: [], f"{int(second) + 1}": [int(second) + 1]}.items():
        state = StateRef(int(instant), f"{instant}.commit", read_now.state.table_id, NOW)
        last = {("hudi", "old"): LastState(state, NOW, "r", "/elsewhere", departed=True)}
        claims = read(wh / "archived", replace(CONTEXT, last_states=last))
        assert [each.number for each in claims.witnesses if each.claim == LOST_STATE] == expected


@pytest.mark.parametrize("layout", [1, 2])
def test_nothing_is_lost_by_the_last_audit_where_the_archive_cannot_be_read(
    tmp_path: Path, layout: int
) -> None:
    home = unpacked(tmp_path, layout, ["archived"]) / "archived"
    for path in [*home.rglob(".commits_.archive.*"), *home.rglob("history/*.parquet")]:
        path.write_bytes(b"torn")
    assert lost_of(home, "20261123160103253") == []
