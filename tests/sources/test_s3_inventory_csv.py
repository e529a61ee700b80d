"""CSV lines of S3 Inventory: however a file is cut into blocks, and however fast, each line gives the same row."""

import gzip
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import settings as limits
from hypothesis import strategies as st

from lakeaudit.evidence.storage.inventory import csv_file
from lakeaudit.evidence.storage.inventory.csv_file import CsvFile
from lakeaudit.evidence.storage.inventory.rows import RawRows, VersionMapper
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, task_connection

FIELDS = ("bucket", "key", "is_latest", "size", "last_modified_date", "__unknown_5")
SOUND = b'"lake","%s","true","5","2024-05-06T12:00:00.000Z",""'
LINES = (
    *(SOUND % key for key in (b"k", b"a%3Db/c+d", b"%2541", b"caf%C3%A9", "né".encode(), b"a,b")),
    *(SOUND % key for key in (b"", b"a%zz", b"%FF", b"a\xff", "\ufffd".encode(), b'a"b', b'a""b', b"%00")),
    SOUND.replace(b'"', b"") % b"bare",
    SOUND.replace(b'"lake"', b'"pond"') % b"k",
    SOUND.replace(b'"lake"', b'"lake') % b"k",
    SOUND.replace(b'"lake"', b'lake"') % b"k",
    SOUND.replace(b'"true"', b'"TRUE"') % b"k",
    SOUND.replace(b'"true"', b'"yes"') % b"k",
    SOUND.replace(b'"true"', b"") % b"k",
    SOUND.replace(b'"5"', b'" 5"') % b"k",
    SOUND.replace(b'"5"', b'"-5"') % b"k",
    SOUND.replace(b'"5"', b'"9999999999999999999"') % b"k",
    SOUND.replace(b'"5"', b"0007") % b"k",
    SOUND.replace(b"T12:00", b"T24:00") % b"k",
    SOUND.replace(b"05-06", b"02-30") % b"k",
    SOUND.replace(b"00.000Z", b"60Z") % b"k",
    SOUND.replace(b"00.000Z", b"00+02:00") % b"k",
    SOUND.replace(b"00.000Z", b"00.123456789Z") % b"k",
    SOUND.replace(b"00.000Z", b"00Z") % b"k",
    SOUND.replace(b'""', b'"{""a"":1}"') % b"k",
    SOUND.replace(b'""', b'"open') % b"k",
    SOUND % b"k" + b",",
    b"\xef\xbb\xbf" + SOUND % b"k",
    *(b"", b" ", b"\t", b'"', b",", b"k", b'"lake","long","' + b"x" * 300 + b'"'),
)
ENDS = (b"\n", b"\n", b"\n", b"\r\n", b"\r")


@pytest.fixture(scope="module")
def con() -> Iterator[Connection]:
    with task_connection() as connection:
        yield connection


def _joined(blocks: Iterable[RawRows]) -> list[RawRows]:
    """Blocks that were read in the same way as one: what becomes of a row knows no other, and a query costs as much."""
    held: dict[tuple[Any, ...], list[RawRows]] = defaultdict(list)
    for block in blocks:
        held[str(block.rows.schema), str(block.kinds), block.key, block.has_line_faults].append(block)
    return [replace(of[0], rows=pa.concat_tables(each.rows for each in of)) for of in held.values()]


def rows_of(con: Connection, path: Path, content: bytes) -> list[dict[str, Any]]:
    path.write_bytes(content)
    mapper = VersionMapper("inventory 1", "lake", "f.csv", all_versions=True)
    read = [
        duck.rows_of(mapper.versions(con, raw)) for raw in _joined(CsvFile(path, FIELDS, "lake").raw_rows())
    ]
    return sorted((row for rows in read for row in rows), key=repr)


@pytest.mark.parametrize("block", [3, 200, 1 << 20])
@limits(max_examples=15)
@given(lines=st.lists(st.tuples(st.sampled_from(LINES), st.sampled_from(ENDS)), max_size=30))
def test_a_block_is_read_as_its_lines_are(
    con: Connection, block: int, tmp_path_factory: pytest.TempPathFactory, lines: list[tuple[bytes, bytes]]
) -> None:
    path = tmp_path_factory.mktemp("csv") / "f.csv"
    content = b"".join(line + end for line, end in lines)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_file, "_MAX_LINE", 200)
        patch.setattr(csv_file, "_LONGEST_KEPT", 804)
        patch.setattr(csv_file, "_BLOCK", block)
        fast = rows_of(con, path, content)
        patch.setattr(csv_file, "_matches", lambda *_: False)
        assert fast == rows_of(con, path, content)


@pytest.mark.parametrize("line", LINES)
def test_a_line_is_read_alike_alone_and_among_others(con: Connection, tmp_path: Path, line: bytes) -> None:
    others = b"".join(SOUND % f"k{i}".encode() + b"\n" for i in range(3))
    of_others = rows_of(con, tmp_path / "c", others)
    among = rows_of(con, tmp_path / "a", others + line + b"\n" + others)
    alone = rows_of(con, tmp_path / "b", line)
    assert [row for row in among if row not in of_others] == [row for row in alone if row not in of_others]


QUOTES = [
    (b'"a""b"', 'a"b'),
    (b'"a"b"', '"a"b"'),
    (b'"a"b', '"a"b'),
    (b'a"b', 'a"b'),
    (b'""a""', '""a""'),
    (b'"k" ', "k"),
    (b'"k" x', '"k" x'),
    (b' "k"', ' "k"'),
    (b"k", "k"),
]


@pytest.mark.parametrize(("written", "key"), QUOTES)
def test_a_quote_that_is_not_doubled_belongs_to_the_value(
    con: Connection, tmp_path: Path, written: bytes, key: str
) -> None:
    """The rule of Spark's CSV reader, univocity's STOP_AT_DELIMITER."""
    (row,) = rows_of(con, tmp_path / "f", SOUND.replace(b'"%s"', written))
    assert row["key"] == key


def test_lines_as_aws_writes_them_go_the_fast_way(
    con: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The slow way costs ten times as much."""
    monkeypatch.delattr(CsvFile, "_line_by_line")
    keys = (b"k", b"a%3Db/c+d", "né".encode(), b"caf%C3%A9", b"a%zz")
    for key in keys:
        assert len(rows_of(con, tmp_path / "f", (SOUND % key + b"\n") * 10)) == 10


def test_a_file_may_be_plain_or_gzipped_in_several_members(con: Connection, tmp_path: Path) -> None:
    line = SOUND % b"k" + b"\n"
    plain = rows_of(con, tmp_path / "f", line * 4)
    assert len(plain) == 4
    assert rows_of(con, tmp_path / "f", gzip.compress(line * 4)) == plain
    assert rows_of(con, tmp_path / "f", gzip.compress(line) + gzip.compress(line * 3)) == plain
    assert rows_of(con, tmp_path / "f", b"") == rows_of(con, tmp_path / "f", gzip.compress(b"")) == []


def test_a_line_without_end_needs_no_memory(
    con: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv_file, "_BLOCK", 1 << 12)
    monkeypatch.setattr(csv_file, "_MAX_LINE", 100)
    monkeypatch.setattr(csv_file, "_LONGEST_KEPT", 404)
    seen: list[int] = []

    def blocks(stream: Any) -> Any:
        for block in whole(stream):
            seen.append(len(block))
            yield block

    whole = csv_file._blocks
    monkeypatch.setattr(csv_file, "_blocks", blocks)
    rows = rows_of(con, tmp_path / "f", b"x" * 1_000_000 + b"\n" + SOUND % b"k" + b"\n")
    assert [row["reject"] for row in rows if row["reject"]] == ["f.csv: no row of 6 columns: " + "x" * 100]
    assert [row["key"] for row in rows if not row["reject"]] == ["k"]
    assert max(seen) < 10_000
