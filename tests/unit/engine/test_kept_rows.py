"""Rows that are kept are those of the part and of no other; what is kept badly is as good as nothing."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest

from lakeaudit import evidence
from lakeaudit.engine import cached_files
from lakeaudit.engine.cached_files import CachedFiles
from lakeaudit.engine.cached_rows import WORTH, CachedRows, cached_rows
from lakeaudit.engine.local import InProcessEngine
from lakeaudit.evidence.metastore.s3guard import S3Guard
from lakeaudit.evidence.metastore.s3guard import reader as guard_reader
from lakeaudit.evidence.protocol import Batches, Part, note_row
from lakeaudit.evidence.storage.inventory import S3Inventory
from lakeaudit.evidence.storage.inventory import reader as inventory_reader
from lakeaudit.keys import Location
from lakeaudit.runtime import duck
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.duck import Connection
from tests.builders import inventory, s3guard, screen_lake
from tests.builders.both_readings import differences, in_full, narrowly
from tests.builders.screen_lake import ScreenLake
from tests.builders.screen_worlds import agreeing, everything
from tests.builders.spilling import SharingEngine
from tests.sources.storage_contract import context as storage_context
from tests.sources.test_s3guard import context

NOW = inventory.SCAN + timedelta(days=1)
AGES = timedelta(days=36500)

ROWS = {"versions": ["a", "b", "c"], "entries": ["a", "x"]}


def part(
    rows: dict[str, list[str]] = ROWS, identity: str = "one", fault: str | None = None, weight: int = WORTH
) -> Part:
    """A part of a few rows; each reading of it is counted."""

    def read(con: Connection) -> Batches:
        READ.append(identity)
        for kind, keys in rows.items():
            yield kind, duck.query(con, "SELECT * FROM input", input=pa.table({"key": keys}))
        yield "notes", note_row("source", "part", fault)

    return Part("source", read, weight, identity, slow=True)


READ: list[str] = []
"""The identities of the parts that were read."""


@pytest.fixture(autouse=True)
def nothing_was_read() -> None:
    READ.clear()


@pytest.fixture(params=["a folder", "S3"])
def cache(request: pytest.FixtureRequest, tmp_path: Path) -> CachedRows:
    """Return the cached rows of a lake, stored next to its results."""
    if request.param == "a folder":
        return cached_rows(Location.parse(str(tmp_path)), "lake", Clients())
    bucket, clients = request.getfixturevalue("bucket"), request.getfixturevalue("clients")
    return cached_rows(Location(bucket, "audit/results"), "lake", clients)


def rows_of(batches: Batches) -> dict[str, list[Any]]:
    """By kind the rows as Python has them."""
    found: dict[str, list[Any]] = {}
    for kind, rows in batches:
        table = rows if isinstance(rows, pa.RecordBatch | pa.Table) else duck.table(rows)
        found.setdefault(kind, []).extend(table.to_pylist())
    return found


def kept_by(cache: CachedRows, one: Part) -> dict[str, list[Any]]:
    with duck.task_connection() as con:
        return rows_of(cache.rows_to_keep(con, one))


def again(cache: CachedRows, one: Part) -> dict[str, list[Any]]:
    with duck.task_connection() as con:
        return rows_of(cache.rows(con, one))


def plain(one: Part) -> dict[str, list[Any]]:
    with duck.task_connection() as con:
        found = rows_of(one.read(con))
    READ.pop()
    return found


def test_rows_are_read_once(cache: CachedRows) -> None:
    cache.prepare([part()])
    assert kept_by(cache, part()) == plain(part())
    assert again(cache, part()) == plain(part())
    assert kept_by(cache, part()) == plain(part())
    assert READ == ["one"]


def test_other_content_of_the_same_file_is_read(cache: CachedRows) -> None:
    other = part({"versions": ["other"]}, "the same name, another MD5")
    cache.prepare([part(), other])
    kept_by(cache, part())
    assert again(cache, other) == plain(other)
    assert ["one", other.identity] == READ


def test_a_file_under_the_name_of_another_part_is_not_taken(cache: CachedRows, tmp_path: Path) -> None:
    if not cache.files.folder.is_local:
        pytest.skip("shown with files")
    other = part({"versions": ["other"]}, "other")
    cache.prepare([part(), other])
    kept_by(cache, part())
    (one,) = files(cache)
    one.rename(one.with_name(cache.files.place(cache.file_name(other)).key.rpartition("/")[2]))
    assert again(cache, other) == plain(other)
    assert READ == ["one", "other"]


def test_another_format_is_not_taken(cache: CachedRows, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.prepare([part()])
    kept_by(cache, part())
    place = cache.files.place(cache.file_name(part()))
    monkeypatch.setattr(cached_files, "FORMAT", "another")
    monkeypatch.setattr(CachedFiles, "place", lambda *_: place)
    assert again(cache, part()) == plain(part())
    assert READ == ["one", "one"]


def test_what_other_code_has_kept_is_not_taken(cache: CachedRows, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.prepare([part()])
    kept_by(cache, part())
    place = cache.files.place(cache.file_name(part()))
    monkeypatch.setattr(CachedFiles, "place", lambda *_: place)
    assert again(replace(cache, code="of the next version"), part()) == plain(part())
    assert READ == ["one", "one"]


def test_the_code_of_all_readers_counts() -> None:
    texts = list(cached_files._texts(Path(evidence.__path__[0])))
    assert any("class DataFileReader" in text for text in texts)
    assert any("def entry_rows" in text for text in texts)


def files(cache: CachedRows) -> list[Path]:
    return sorted(Path(cache.files.folder.spark_path).iterdir())


@pytest.fixture
def local(tmp_path: Path) -> CachedRows:
    return cached_rows(Location.parse(str(tmp_path)), "lake", Clients())


def test_a_torn_or_damaged_file_is_as_good_as_none(local: CachedRows) -> None:
    local.prepare([part()])
    kept_by(local, part())
    (file,) = files(local)
    whole, named = file.read_bytes(), cached_files._formatted(local.file_name(part()))
    assert cached_files._sound(pa.py_buffer(whole), named) is not None
    for at in range(len(whole)):
        changed = whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :]
        assert cached_files._sound(pa.py_buffer(whole[:at]), named) is None, at
        assert cached_files._sound(pa.py_buffer(changed), named) is None, at
    file.write_bytes(whole[:-1])
    assert again(local, part()) == plain(part())
    assert READ == ["one", "one"]


def test_what_was_read_with_a_fault_is_not_kept(local: CachedRows) -> None:
    faulty = part(fault="cannot be read")
    local.prepare([faulty])
    assert kept_by(local, faulty) == plain(faulty)
    assert files(local) == []


def test_a_part_that_breaks_while_its_rows_stream_is_reported_and_not_cached(local: CachedRows) -> None:
    def read(con: Connection) -> Batches:
        try:
            yield (
                "versions",
                duck.query(
                    con,
                    "SELECT CASE WHEN range > 150000 THEN error('torn') ELSE 'a' END AS key FROM range(200000)",
                ),
            )
        except (duck.DuckError, OSError):
            yield "notes", note_row("source", "part", "cannot be read")

    broken = Part("source", read, WORTH, "broken", slow=True)
    local.prepare([broken])
    assert kept_by(local, broken)["notes"][0]["reason"] == "cannot be read"
    assert files(local) == []


def test_nothing_is_left_of_a_reading_that_was_given_up(local: CachedRows) -> None:
    local.prepare([part()])
    with duck.task_connection() as con:
        rows = local.rows_to_keep(con, part())
        next(rows)
        rows.close()  # type: ignore[attr-defined]
    assert files(local) == []


def test_two_audits_at_once_both_have_the_rows(local: CachedRows) -> None:
    local.prepare([part()])
    with duck.task_connection() as one, duck.task_connection() as other:
        first, second = local.rows_to_keep(one, part()), local.rows_to_keep(other, part())
        begun = [next(first), next(second)]
        local.prepare([])  # a third one, of other parts
        rest = [rows_of(iter([begun[0], *first])), rows_of(iter([begun[1], *second]))]
    assert rest == [plain(part()), plain(part())]
    assert again(local, part()) == plain(part())


def test_a_file_that_goes_while_it_is_read_is_read_to_its_end(local: CachedRows) -> None:
    local.prepare([part()])
    kept_by(local, part())
    with duck.task_connection() as con:
        rows = local.rows(con, part())
        begun = next(rows)
        local.prepare([])
        assert rows_of(iter([begun, *rows])) == plain(part())


@pytest.mark.parametrize("one", [part(identity=""), part(weight=WORTH - 1)], ids=["not pinned", "small"])
def test_what_is_not_worth_it_is_not_kept(local: CachedRows, one: Part) -> None:
    local.prepare([part(), one])
    assert kept_by(local, one) == again(local, one) == plain(one)
    assert files(local) == []


def test_what_an_audit_does_not_use_goes(cache: CachedRows) -> None:
    other = part(identity="other")
    cache.prepare([part(), other])
    kept_by(cache, part())
    kept_by(cache, other)
    cache.prepare([other])
    again(cache, part())
    again(cache, other)
    assert READ == ["one", "other", "one"]


def test_another_lake_with_the_same_results_keeps_its_own(local: CachedRows, tmp_path: Path) -> None:
    other = cached_rows(Location.parse(str(tmp_path)), "other", Clients())
    local.prepare([part()])
    kept_by(local, part())
    other.prepare([part(identity="other")])
    assert len(files(local)) == 1


def test_where_nothing_can_be_written_rows_are_read(local: CachedRows) -> None:
    assert kept_by(local, part()) == plain(part())  # nobody made the folder
    Path(local.files.folder.spark_path).parent.mkdir(parents=True)
    Path(local.files.folder.spark_path).write_text("a file")
    local.prepare([part()])
    assert kept_by(local, part()) == again(local, part()) == plain(part())


# --- readers ---------------------------------------------------------------------------------------------------------


def inventory_part(folder: Path, *keys: str, form: str = "CSV") -> Part:
    """Return the part of a report with one data file, which always has the same name and time."""
    written = {"CSV": inventory.csv, "Parquet": inventory.parquet}[form]
    inventory.lay(inventory.into(folder), [written([inventory.Version(key) for key in keys])], form=form)
    source = S3Inventory(kind="s3_inventory", location=Location.parse(str(folder / "inv")), max_age=AGES)
    (one,) = cast("Any", inventory_reader.read(source, storage_context(Clients(), NOW), "inventory 1").rows)
    return cast("Part", one)


def export_part(folder: Path, *keys: str, **of: Any) -> Part:
    """Return the part of an export with one data file, which always has the same name and time."""
    items = [s3guard.marker(), *(s3guard.file("b", key, mod_time=NOW - AGES) for key in keys)]
    s3guard.export(s3guard.into(folder), items, at=NOW - timedelta(days=1), files=1)
    source = S3Guard(kind="s3guard", export=Location.parse(str(folder)), **of)
    (one,) = cast("Any", guard_reader.read(source, context(Clients(), live=False, as_of=NOW), "store").rows)
    return cast("Part", one)


@pytest.mark.parametrize("laid", [inventory_part, export_part])
def test_a_file_with_other_content_is_another_part(tmp_path: Path, laid: Callable[..., Part]) -> None:
    identities = [laid(tmp_path, *keys).identity for keys in (("a", "b"), ("a", "b"), ("a", "c"))]
    assert identities[0]
    assert identities[0] == identities[1] != identities[2]


def test_what_rows_are_made_with_is_part_of_their_identity(tmp_path: Path) -> None:
    assert export_part(tmp_path, "a").identity != export_part(tmp_path, "a", ttl=AGES).identity


def test_files_that_are_decoded_at_once_are_not_kept(tmp_path: Path) -> None:
    assert not inventory_part(tmp_path, "a", form="Parquet").slow


# --- whole readings --------------------------------------------------------------------------------------------------


@pytest.fixture
def read_kinds(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The kinds of the parts that are read from now on."""
    kinds: list[str] = []
    given = screen_lake._single_batch

    def record_kind(kind: str, rows: pa.Table, con: Connection) -> Batches:
        kinds.append(kind)
        yield from given(kind, rows, con)

    monkeypatch.setattr(screen_lake, "_single_batch", record_kind)
    return kinds


def one_source_differs() -> ScreenLake:
    """Return keys on which all sources agree, and one for each different answer of one source."""
    lake = agreeing()
    lake.star("shop/star/")
    return lake


@pytest.mark.parametrize("built", [one_source_differs, pytest.param(everything, marks=pytest.mark.soak)])
def test_kept_rows_change_no_answer(
    tmp_path: Path, read_kinds: list[str], built: Callable[[], ScreenLake]
) -> None:
    lake = built()
    full = in_full(lake)
    lake = replace(lake, results=Location.parse(str(tmp_path)), pinned="everything")
    for engine in (InProcessEngine(1), SharingEngine(2)):
        read_kinds.clear()
        narrow = narrowly(lake, engine)
        assert narrow.files > 10
        assert differences(full, narrow) == {}
    assert "versions" not in read_kinds
    assert "entries" not in read_kinds


@pytest.mark.soak
def test_what_changed_under_another_identity_is_seen(tmp_path: Path) -> None:
    lake = replace(agreeing(), results=Location.parse(str(tmp_path)), pinned="today")
    narrowly(lake)
    lake.add("shop/lost", [], [], [{}])
    lake = replace(lake, pinned="tomorrow")
    assert differences(in_full(lake), narrowly(lake)) == {}
