"""Archived writes give the same rows whether they are decoded into columns or read one by one, as JSON is."""

import io
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeaudit.evidence.avro.blocks import file_head, header_of, packed_block, plain_blocks
from lakeaudit.evidence.files import File
from lakeaudit.evidence.manifest.hudi.point_lookup import read as look_up
from lakeaudit.evidence.manifest.hudi.state.parts import Item, OfTable, read_items
from lakeaudit.evidence.manifest.hudi.state.plain_writes import PlainWrites
from lakeaudit.evidence.manifest.hudi.state.rows import STEPS
from lakeaudit.evidence.manifest.hudi.timeline.archive import archived_instants
from lakeaudit.evidence.manifest.hudi.timeline.instants import COMPLETED, Instant
from lakeaudit.keys import Location
from lakeaudit.runtime import duck
from lakeaudit.runtime.connections.aws import Clients
from tests.builders.examples import examples
from tests.builders.hudi import commit, stat, write_timeline
from tests.builders.hudi_archive import archive_of_layout_1, archive_of_layout_2, entry_of, in_avro, log_block
from tests.sources.test_hudi import DONE, T1, T2, T3, base, log, table_at

few = examples(40, 1500)
AT = datetime(2026, 11, 20, tzinfo=UTC)
PADDING = {"schema": "x" * 70_000}
"""Makes an archive large enough for columns."""
LONG = "(long)"
"""Stands for a text that is longer than paths may be; failing examples are printed."""
PLAIN = [base("a", T1), base("b-0", T2, "d=1/h=2"), base("c", T2[:14], "d=\u00e9"), log("a", T1), log("b", T1[:14], 3),
         f"g_0-1-2_{T1}.parquet", "d=1\n/" + base("a", T1)]  # fmt: skip
ODD: list[Any] = [None, "", ".", "d=1/", "/d=1/" + base("a", T1), "d=1//" + base("a", T1), "d=1/../" + base("a", T1),
       "d=1/.h/" + base("a", T1), "s3:/b/" + base("a", T1), "x.parquet", f"d=1/a_b_c_{T1}.parquet",
       f"d=1/a_0_{T1}.tar.gz",
       f"d=1/a_0-1-2_{T1[:15]}.parquet", f"d=1/a_x_{T1}.parquet", f"d=1/a_0-1-2_{T1}", log("a", T1) + ".cdc",
       f"d=1/.a_b_{T1}.log.1_0-1-2", "d=1/a_0-1-2_\u0662\u0660261101100000000.parquet",
       LONG + "/" + base("a", T1), LONG]  # fmt: skip
numbers = st.sampled_from([None, 0, 1, 5, 7, -1, (1 << 62) - 1, 1 << 62, (1 << 63) - 1])
befores = st.sampled_from([None, "", "null", T1, T1[:14], "x", "\u0662" * 14])


def stats_of(paths: st.SearchStrategy[str | None]) -> st.SearchStrategy[dict[str, Any]]:
    counts = ("fileSizeInBytes", "totalWriteErrors", "numWrites", "numInserts", "numDeletes")
    changes = st.sampled_from([None, None, None, {}, {f"d=1/.a_{T1}.log.1_0-1-2.cdc": 5}])
    return st.fixed_dictionaries(
        {"path": paths, "prevCommit": befores, "cdcStats": changes, **dict.fromkeys(counts, numbers)}
    )


def writes_of(stats: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    folders = st.sampled_from(["", "d=1", "d=1/h=2", "d=2", "/d", "d//e", "d/.", "a:/b", ".d", "d/"])
    by_folder = st.none() | st.dictionaries(folders, st.lists(stats, max_size=3), max_size=3)
    ids = st.lists(st.sampled_from(["a-0", "b", "", LONG]), max_size=2)
    replaced = st.none() | st.dictionaries(folders, ids, max_size=2)
    return st.fixed_dictionaries({"partitionToWriteStats": by_folder, "partitionToReplaceFileIds": replaced})


plain_writes = writes_of(stats_of(st.sampled_from(PLAIN)))
any_writes = writes_of(stats_of(st.sampled_from([*PLAIN, *PLAIN, *PLAIN, *ODD])))
histories = st.lists(
    st.tuples(
        st.sampled_from(["commit", "deltacommit", "replacecommit"]),
        st.one_of(plain_writes, any_writes),
        st.booleans(),
    ),
    min_size=1,
    max_size=4,
)


def rows_of(
    content: bytes, folder: Path, layout: int, *, until: datetime | None = None
) -> tuple[list[Any], list[Any]]:
    """The STEP and the NOTE rows of a file of an archive."""
    path = folder / "archive"
    path.write_bytes(content)
    about = OfTable("t", Location("b", "wh/t"), 3, layout, True, until, wanted=frozenset([T2]))
    instant = Instant(File(Location.parse(str(path)), len(content), AT, "e"), "", COMPLETED, "", "", AT)
    steps: list[Any] = []
    notes: list[Any] = []
    with duck.task_connection() as con:
        for kind, rows in read_items(con, [Item(about, instant)], "s", Clients()):
            (steps if kind == STEPS else notes).extend(duck.rows_of(duck.relation(con, rows)))
    return sorted(steps, key=repr), notes


def record_of(action: str, write: Mapping[str, Any]) -> dict[str, Any]:
    """The record of a generated write."""
    named = {
        name: value for name, value in write.items() if action == "replacecommit" or "Replace" not in name
    }
    text = json.dumps({**named, "extraMetadata": PADDING}).replace(LONG, "x" * 17_000)
    return dict(json.loads(text))


def instants_of(
    history: Sequence[Any], *, completed: bool
) -> list[tuple[str, str | None, str, dict[str, Any]]]:
    times = [(each, DONE[each] if completed else None) for each in DONE]
    return [
        (*time, action, record_of(action, write))
        for time, (action, write, _) in zip(times, history, strict=False)
    ]


@few
@given(history=histories, until=st.sampled_from([None, datetime(2026, 11, 2, 12, tzinfo=UTC)]))
def test_commits_in_avro_and_in_json_give_the_same_rows(
    tmp_path_factory: pytest.TempPathFactory, history: Sequence[Any], until: datetime | None
) -> None:
    folder = tmp_path_factory.mktemp("archive")
    instants = instants_of(history, completed=True)
    in_json = [(*each[:3], json.dumps(each[3]).encode()) for each in instants]
    mixed = [
        (*each[:3], in_avro(each[2], each[3]) if avro else json.dumps(each[3]).encode())
        for each, (_, _, avro) in zip(instants, history, strict=True)
    ]
    expected = rows_of(archive_of_layout_2(in_json), folder, 2, until=until)
    assert rows_of(archive_of_layout_2(mixed), folder, 2, until=until) == expected


@few
@given(history=histories)
def test_both_layouts_give_the_same_rows(
    tmp_path_factory: pytest.TempPathFactory, history: Sequence[Any]
) -> None:
    folder = tmp_path_factory.mktemp("archive")
    instants = instants_of(history, completed=False)
    in_json = [(*each[:3], json.dumps(each[3]).encode()) for each in instants]
    assert rows_of(archive_of_layout_1(instants), folder, 1) == rows_of(
        archive_of_layout_2(in_json), folder, 2
    )


@pytest.mark.parametrize("layout", [1, 2])
def test_usual_writes_are_plain_and_each_odd_one_is_not(layout: int) -> None:
    writes = [
        record_of("commit", {"partitionToWriteStats": {"d": [stat(path)]}}) for path in [*PLAIN, *ODD[2:]]
    ]
    instants = [(f"{20261101000000000 + n}", None, "commit", write) for n, write in enumerate(writes)]
    packed = [(*each[:3], in_avro("commit", each[3])) for each in instants]
    content = archive_of_layout_1(instants) if layout == 1 else archive_of_layout_2(packed)
    with duck.task_connection() as con:
        (some,) = archived_instants(content, layout)
        plain = {number for each in some.writes for number in PlainWrites(con, each).numbers}
    assert plain == set(range(len(PLAIN)))


def test_a_partition_that_a_commit_has_twice_counts_once(tmp_path: Path) -> None:
    """A map with a repeated key: readers keep its last value."""
    twice = with_repeated_partition([stat(base("a", T1))], [stat(base("b", T1))])
    assert archived_instants(archive_of_layout_2([(T1, DONE[T1], "commit", twice)]), 2) is not None
    steps, notes = rows_of(archive_of_layout_2([(T1, DONE[T1], "commit", twice)]), tmp_path, 2)
    assert [row["file_group"] for row in steps] == ["d=1/b"]
    assert not any(note["reason"] for note in notes)


def with_repeated_partition(*values: Sequence[Mapping[str, Any]]) -> bytes:
    """A commit with these lists under one key: a map of Avro is encoded as a list of pairs."""
    folders = [f"d=1{'x' * n}" for n in range(len(values))]
    record = {"partitionToWriteStats": dict(zip(folders, values, strict=True)), "extraMetadata": PADDING}
    content = in_avro("commit", record)
    header = header_of(content)
    ((count, block),) = plain_blocks(content, header)
    long, short = b"\x08d=1x", b"\x06d=1"
    assert block.count(long) == 1
    changed = block.replace(long, short)
    return file_head(header.values, header.sync) + packed_block(count, changed, header.sync)


@pytest.mark.parametrize("damage", [b"", b"Obj\x01torn", b"{", b"[]"])
def test_writes_before_a_damaged_instant_count_and_later_ones_do_not(tmp_path: Path, damage: bytes) -> None:
    good = [
        in_avro("commit", {"partitionToWriteStats": {"d=1": [stat(base(n, T1))]}, "extraMetadata": PADDING})
        for n in "ab"
    ]
    rows = [
        (T1, DONE[T1], "commit", good[0]),
        (T2, DONE[T2], "commit", damage or b"\0"),
        (T3, DONE[T3], "commit", good[1]),
    ]
    steps, notes = rows_of(archive_of_layout_2(rows), tmp_path, 2)
    assert [row["file_group"] for row in steps] == ["d=1/a"]
    assert [note["reason"] for note in notes if note["reason"]]
    assert [json.loads(note["data"])["first"] for note in notes if "first" in note["data"]] == [T1]


def test_metadata_of_another_type_is_a_damaged_archive(tmp_path: Path) -> None:
    for text in ("{}", "x" * 100_000):
        rows = pa.table(
            {"instantTime": [T1], "completionTime": [DONE[T1]], "action": ["commit"], "metadata": [text]}
        )
        out = io.BytesIO()
        pq.write_table(rows, out)
        steps, notes = rows_of(out.getvalue(), tmp_path, 2)
        assert (steps, [note["reason"] for note in notes]) == ([], ["it is incomplete or damaged"])


def test_a_backslash_is_part_of_a_name_of_the_table(tmp_path: Path) -> None:
    write = record_of("commit", {"partitionToWriteStats": {"p": [stat(f"p/x\\{base('id', T1)[4:]}")]}})
    in_json = [(T1, DONE[T1], "commit", json.dumps(write).encode())]
    packed = [(T1, DONE[T1], "commit", in_avro("commit", write))]
    expected = rows_of(archive_of_layout_2(in_json), tmp_path, 2)
    assert rows_of(archive_of_layout_2(packed), tmp_path, 2) == expected
    assert [row["folder"] for row in expected[0]] == ["p"]


def test_one_damaged_block_does_not_spoil_the_others(tmp_path: Path) -> None:
    """Hudi reads each block alone; columns are decoded for all blocks together."""
    writes = [record_of("commit", {"partitionToWriteStats": {"d": [stat(base(name, T1))]}}) for name in "abc"]
    instants = [(time, None, "commit", write) for time, write in zip((T1, T2, T3), writes, strict=True)]
    blocks = [archive_of_layout_1([each]) for each in instants]
    spoiled = archive_of_layout_1([instants[0]], behind=b"\0")
    assert rows_of(spoiled + blocks[1] + blocks[2], tmp_path, 1) == rows_of(b"".join(blocks), tmp_path, 1)


def test_entries_that_are_not_where_their_block_says_are_damage(tmp_path: Path) -> None:
    write = record_of("commit", {"partitionToWriteStats": {"d": [stat("no name")]}})
    first, second = entry_of((T1, None, "commit", write)), entry_of((T2, None, "commit", write))
    steps, notes = rows_of(log_block([b"", first + second]), tmp_path, 1)
    assert steps == [] or {row["commit_id"] for row in steps} <= {T1}
    assert [note["reason"] for note in notes if note["reason"]] != []


def test_one_file_is_found_in_a_large_archive(tmp_path: Path) -> None:
    home = (
        write_timeline(tmp_path, {f"{T3}_{DONE[T3]}.commit": commit(stat(base("c", T3)))}, layout=2)
        / "history"
    )
    home.mkdir()
    write = {
        "partitionToWriteStats": {"d=1": [stat(base("a", T1)), stat(base("b", T1))]},
        "extraMetadata": PADDING,
    }
    rows = [(T1, DONE[T1], "commit", in_avro("commit", write))]
    (home / "1_2_0.parquet").write_bytes(archive_of_layout_2(rows))
    (home / "manifest_1").write_text('{"files": [{"fileName": "1_2_0.parquet", "fileLen": 1}]}')
    (home / "_version_").write_text("1")
    for path, answer in {base("a", T1): "present", base("c", T3): "present", base("d", T1): "absent"}.items():
        assert look_up(table_at(tmp_path), Clients(), "", str(tmp_path / path)[1:])[0] == answer
