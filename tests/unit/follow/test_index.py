"""The index of needed files: look-ups, torn and foreign indexes, memory and size."""

import json
from pathlib import Path

import numpy as np
import pytest

from lakeaudit.follow.index import (
    KEY_HASH,
    AboutIndex,
    FileIndex,
    Files,
    RecentFiles,
    key_hash,
    open_index,
    write_index,
)
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import task_connection

ABOUT = AboutIndex("shop", "s3://results/shop", {"orders": "1", "lines": "7"})
KEYS = [("lake", "wh/orders/a.parquet"), ("lake", "wh/orders/é %20+.parquet"), ("", "data/\U0001f600")]


def files_of(*named: tuple[tuple[str, str], int]) -> list[Files]:
    hashes = np.array([key_hash(key) for key, _ in named], dtype=np.uint64)
    return [(hashes, np.array([number for _, number in named], dtype=np.uint32))]


def built(folder: Path) -> FileIndex:
    """Lines is table 0, orders is table 1; the second key is a file of both."""
    rows = files_of((KEYS[0], 1), (KEYS[1], 1), (KEYS[1], 0), (KEYS[0], 1))
    return write_index(folder, ABOUT, rows)


@pytest.mark.parametrize("key", KEYS)
def test_duckdb_and_python_compute_the_same_hash(key: tuple[str, str]) -> None:
    with task_connection() as con:
        sql = f"SELECT {KEY_HASH} AS hash FROM (SELECT {duck.literal(key[0])} AS bucket, {duck.literal(key[1])} AS key)"
        assert duck.rows_of(duck.query(con, sql)) == [{"hash": key_hash(key)}]


def test_a_key_is_found_with_all_tables_that_list_it(tmp_path: Path) -> None:
    built(tmp_path)
    index = open_index(tmp_path, "shop", "s3://results/shop")
    assert index is not None
    assert index.about.files == 3
    assert index.lookup([key_hash(key) for key in KEYS]) == [{"orders"}, {"orders", "lines"}, frozenset()]


def test_an_index_of_another_lake_or_place_is_not_used(tmp_path: Path) -> None:
    built(tmp_path)
    assert open_index(tmp_path, "other", "s3://results/shop") is None
    assert open_index(tmp_path, "shop", "s3://results/other") is None
    assert open_index(tmp_path / "none", "shop", "s3://results/shop") is None


@pytest.mark.parametrize("damage", ["short", "missing", "format", "text", "fields"])
def test_a_damaged_index_is_not_used(tmp_path: Path, damage: str) -> None:
    data = tmp_path / built(tmp_path).about.data
    about = tmp_path / "index.json"
    fields = json.loads(about.read_text())
    if damage == "short":
        (data / "hashes").write_bytes(b"x" * 8)
    elif damage == "missing":
        (data / "tables").unlink()
    elif damage == "format":
        about.write_text(json.dumps(fields | {"format": 0}))
    elif damage == "text":
        about.write_text(about.read_text()[:20])
    else:
        about.write_text(json.dumps(fields | {"more": 1}))
    assert open_index(tmp_path, "shop", "s3://results/shop") is None


def test_a_new_index_replaces_the_older_one_and_what_a_killed_build_left(tmp_path: Path) -> None:
    first = built(tmp_path)
    (tmp_path / "files-killed").mkdir()
    (tmp_path / "files-killed" / "3.part").write_bytes(b"x")
    second = built(tmp_path)
    assert {each.name for each in tmp_path.iterdir()} == {"index.json", second.about.data}
    assert first.lookup([key_hash(KEYS[0])]) == [{"orders"}], "a map that is open stays valid"


def test_a_million_files_take_twelve_bytes_each(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    hashes = rng.integers(0, 2**64 - 1, 1_000_000, dtype=np.uint64)
    tables = (hashes % 2).astype(np.uint32)
    index = write_index(tmp_path, ABOUT, ((hashes[n::10], tables[n::10]) for n in range(10)))
    size = sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file())
    assert 100 * size < 4 << 30
    assert (np.diff(index.hashes) > 0).all()
    named = [next(iter(each)) for each in index.lookup(hashes[:100].tolist())]
    assert named == [("lines", "orders")[number] for number in tables[:100].tolist()]


def test_recent_files_are_found_by_all_tables_that_add_them() -> None:
    recent = RecentFiles()
    recent.add([1, 2], "orders")
    recent.add([2], "lines")
    assert [recent.lookup(each) for each in (1, 2, 3)] == [{"orders"}, {"orders", "lines"}, frozenset()]
