"""Storage snapshots: how one is compared with the next, its claims, and how it is stored."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeaudit.evidence.files import list_files
from lakeaudit.evidence.manifest.previous import compared, snapshot_store
from lakeaudit.evidence.manifest.previous.compared import (
    ACCEPTED,
    EDGES,
    PLACED,
    TABLES,
    Comparison,
)
from lakeaudit.evidence.manifest.previous.reader import about
from lakeaudit.evidence.manifest.previous.snapshot_store import FILE, StorageSnapshot, TornError
from lakeaudit.evidence.protocol import SourceInfo, Stored
from lakeaudit.keys import Location
from lakeaudit.matching.prefix_match import attach_label
from lakeaudit.runtime import duck
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.duck import Connection, task_connection
from lakeaudit.schemas import VERSION
from tests.builders.examples import examples

HOME = Location("lake", "t")
FIRST, NOW = (datetime(2026, 11, day, tzinfo=UTC).replace(tzinfo=None) for day in (1, 2))
DAY = timedelta(days=1)
OLD = FIRST - 30 * DAY


@pytest.fixture
def con() -> Iterator[Connection]:
    with task_connection() as con:
        yield con


def comparison(
    *, append_only: bool = False, keep: timedelta | None = None, accepted: Sequence[str] = ()
) -> Comparison:
    settled = timedelta(0) if append_only else 7 * DAY
    return Comparison(
        tables=duck.small(TABLES, [("t", "lake", "t/", append_only, settled, keep)]),
        edges=duck.small(EDGES, [("storage:0", NOW), ("storage:1", FIRST - DAY)]),
        accepted=duck.small(ACCEPTED, [("t", "lake", f"t/{name}") for name in accepted]),
        accepted_groups=(),
        owned=partial(attach_label, places={HOME: "t"}, column="table_name"),
        source="manifest:previous",
        as_of=NOW.replace(tzinfo=UTC),
    )


def was(name: str, size: int = 10, etag: str | None = None, modified: datetime = OLD) -> tuple[Any, ...]:
    """Return a file of the last storage snapshot."""
    return "t", "lake", f"t/{name}", size, etag, modified, modified, FIRST, False


def now(
    name: str, size: int = 10, etag: str | None = None, modified: datetime = OLD, **more: Any
) -> dict[str, Any]:
    """An object in storage."""
    there = {"source": "storage:0", "bucket": "lake", "is_latest": True, "is_delete_marker": False}
    return {**there, "key": f"t/{name}", "size": size, "etag": etag, "modified_at": modified, **more}


def compare(
    con: Connection, by: Comparison, last: Sequence[tuple[Any, ...]], stored: Sequence[dict[str, Any]]
) -> tuple[dict[str, bool], dict[str, dict[str, Any]]]:
    """Return by file whether its claim is certain, and the next storage snapshot."""
    rows = {
        "pictured": duck.table(compared.lasting_files(con, duck.small(FILE, last), by.tables, whole=True)),
        "placed": PLACED.empty_table(),
    }
    for _, placed in by.project(con, "versions", pa.Table.from_pylist(list(stored), VERSION)):
        rows["placed"] = duck.table(duck.relation(con, placed))
    claimed, following, _ = by.compare(con, rows)
    certain = {row["key"][2:]: row["certain"] for row in duck.rows_of(claimed)}
    return certain, {row["key"][2:]: row for row in duck.rows_of(following)}


LATER = FIRST + timedelta(hours=5)


@pytest.mark.parametrize(
    ("last", "stored", "claims", "following"),
    [
        pytest.param([], [now("a")], {}, {"a": (10, OLD, NOW)}, id="a file that is settled is pictured"),
        pytest.param([], [now("a", modified=NOW - 3 * DAY)], {}, {}, id="one that is not is not"),
        pytest.param([was("a")], [now("a")], {"a": True}, {"a": (10, OLD, NOW)}, id="it is as it was"),
        pytest.param([was("a")], [], {"a": True}, {"a": (10, OLD, FIRST)}, id="gone: the claim is carried on"),
        pytest.param([was("a")], [now("a", 9)], {"a": True}, {"a": (10, OLD, FIRST)}, id="another size"),
        pytest.param([was("a", etag="x")], [now("a", etag="y")], {"a": True}, {"a": (10, OLD, FIRST)}, id="an ETag"),
        pytest.param([was("a", etag="x")], [now("a", etag="x", modified=LATER)], {"a": True},
                     {"a": (10, OLD, NOW)}, id="put back as it was"),
        pytest.param([was("a")], [now("a", source="storage:1")], {"a": True}, {"a": (10, OLD, FIRST)},
                     id="a picture that is older than the last one adds nothing"),
        pytest.param([was("a")], [now("a", is_delete_marker=True)], {"a": True}, {"a": (10, OLD, FIRST)}, id="marked"),
        pytest.param([was("a")], [now("a"), now("a", 7, source="storage:1")], {"a": True}, {"a": (10, OLD, NOW)},
                     id="of two pictures the younger one counts"),
        pytest.param([was("d/a"), was("d/b")], [now("d/n", 10, modified=LATER)], {}, {"d/a": None, "d/b": None},
                     id="a folder that was rewritten"),
        pytest.param([was("d/a"), was("d/b")], [now("d/b"), now("d/n", 10, modified=LATER)],
                     {"d/a": False, "d/b": True}, {"d/a": (10, OLD, FIRST), "d/b": (10, OLD, NOW)},
                     id="or only in part"),
        pytest.param([was("d/a")], [now("d/n", 4, modified=LATER)], {"d/a": True},
                     {"d/a": (10, OLD, FIRST)}, id="too little to stand for it"),
        pytest.param([was("d/a"), was("d/b")], [now("d/n", 9, modified=LATER)], {"d/a": False, "d/b": False},
                     {"d/a": (10, OLD, FIRST), "d/b": (10, OLD, FIRST)}, id="small files may have been compacted"),
        pytest.param([was("d/a")], [now("d/n", 90, modified=FIRST - DAY)], {"d/a": True}, {"d/a": (10, OLD, FIRST)},
                     id="what was there before does not stand for it"),
        pytest.param([was("d/a")], [now("e/n", 90, modified=LATER)], {"d/a": True}, {"d/a": (10, OLD, FIRST)},
                     id="nor does what is in another folder"),
    ],
)  # fmt: skip
def test_two_pictures(
    con: Connection,
    last: list[tuple[Any, ...]],
    stored: list[dict[str, Any]],
    claims: dict[str, bool],
    following: dict[str, tuple[Any, ...] | None],
) -> None:
    certain, next_ = compare(con, comparison(), last, stored)
    assert certain == claims
    shown = {k: None if r["ended"] else (r["size"], r["modified_at"], r["seen_at"]) for k, r in next_.items()}
    assert shown == following


def test_claims_that_ended_hold_again_where_that_picture_was_not_whole(con: Connection) -> None:
    rows = duck.small(FILE, [(*was("a")[:-1], True), was("b")])
    for whole, expected in ((True, {"t/b"}), (False, {"t/a", "t/b"})):
        found = duck.rows_of(compared.lasting_files(con, rows, comparison().tables, whole=whole))
        assert {row["key"] for row in found} == expected


def test_what_is_declared_now_is_claimed(con: Connection) -> None:
    """A lake file that was changed since, and a table that lies elsewhere now."""
    young = (*was("young", modified=FIRST - DAY)[:-1], False)
    elsewhere = ("t", "lake", "u/x", *was("x")[3:])
    rows = duck.small(FILE, [young, elsewhere, was("old")])
    for by, expected in ((comparison(), {"t/old"}), (comparison(append_only=True), {"t/old", "t/young"})):
        assert {
            r["key"] for r in duck.rows_of(compared.lasting_files(con, rows, by.tables, whole=True))
        } == expected


def test_what_is_accepted_ends(con: Connection) -> None:
    by = comparison(accepted=["gone", "other", "same"])
    stored = [now("other", 7), now("same")]
    certain, following = compare(con, by, [was("gone"), was("other"), was("same"), was("lost")], stored)
    assert certain == {"same": True, "lost": True}
    assert {name: row["size"] for name, row in following.items()} == {"other": 7, "same": 10, "lost": 10}
    grouped = replace(by, accepted_groups=(("t", None),))
    assert compare(con, grouped, [was("lost")], [])[0] == {}
    grouped = replace(by, accepted_groups=(("t", "d=1"),))
    assert compare(con, grouped, [was("d=1/lost"), was("d=10/lost")], [])[0] == {"d=10/lost": True}


@pytest.mark.parametrize(
    ("folder", "expected"),
    [
        ("dt=2026-11-23", date(2026, 11, 23)),
        ("dt=20261123", date(2026, 11, 23)),
        ("hour=2026-11-23T05", date(2026, 11, 23)),
        ("2026/11/23", date(2026, 11, 23)),
        ("2026/11", date(2026, 11, 1)),
        ("region=eu/year=2026/month=3/day=9", date(2026, 3, 9)),
        ("year=2026/month=03", date(2026, 3, 1)),
        ("year=2026", date(2026, 1, 1)),
        ("m=2026-11", date(2026, 11, 1)),
        ("dt=2026-02-30", None),
        ("batch=20269999", None),
        ("id=120261123", None),
        ("region=eu", None),
        ("", None),
    ],
)
def test_days_of_partitions(con: Connection, folder: str, expected: date | None) -> None:
    relative = duck.literal(f"{folder}/part-2020-01-01.parquet" if folder else "part-2020-01-01.parquet")
    sql = f"SELECT {compared.partition_date('relative')} AS found FROM (SELECT {relative} AS relative)"
    assert duck.rows_of(duck.query(con, sql))[0]["found"] == expected


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Clients, Location]:
    if request.param == "local":
        return Clients(), Location.parse(str(tmp_path / "kept"))
    return request.getfixturevalue("clients"), Location(request.getfixturevalue("bucket"), "kept")


@pytest.mark.parametrize("place", ["local", "s3"], indirect=True)
def test_a_picture_is_kept_until_the_next(place: tuple[Clients, Location], con: Connection) -> None:
    clients, folder = place
    assert snapshot_store.load(clients, folder) is None
    for number in range(2):
        rows = duck.small(FILE, [was(f"a{number}"), was("b")])
        file = snapshot_store.write_rows(clients, folder, duck.relation(con, rows))
        picture = StorageSnapshot(f"r{number}", NOW.replace(tzinfo=UTC), True, {"t": HOME.uri}, (file,))
        snapshot_store.write_rows(clients, folder, duck.relation(con, rows))  # of a task that was run twice
        snapshot_store.publish(clients, folder, picture)
        assert snapshot_store.load(clients, folder) == picture
        assert snapshot_store.read_rows(clients, folder, file).equals(rows)
    names = {found.name for found in list_files(clients, folder)}
    assert names == {file.name, snapshot_store.POINTER}


NAMES = st.sampled_from(["a", "d/b", "d/c", "d=1/e", "_SUCCESS", "täble", "x y+%", "n\u2028m"])
FILES = st.dictionaries(NAMES, st.tuples(st.integers(0, 99), st.integers(0, 40)), max_size=6)


@examples(4, 300)
@given(last=FILES, stored=FILES, append_only=st.booleans())
def test_no_claim_is_lost_in_silence(
    last: dict[str, tuple[int, int]], stored: dict[str, tuple[int, int]], append_only: bool
) -> None:
    """A claimed file is as it was, or is claimed by the next snapshot as well, or its folder was rewritten."""
    by = comparison(append_only=append_only)
    old = [was(name, size, None, FIRST - days * DAY) for name, (size, days) in last.items()]
    new = [now(name, size, None, FIRST - days * DAY) for name, (size, days) in stored.items()]
    with task_connection() as con:
        certain, following = compare(con, by, old, new)
        declared = {row["key"][2:] for row in duck.rows_of(
            compared.lasting_files(con, duck.small(FILE, old), by.tables, whole=True))}  # fmt: skip
        again, repeated = compare(
            con, by, [tuple(row.values()) for row in following.values() if not row["ended"]], new
        )
    assert certain.keys() <= declared <= following.keys() | stored.keys()
    assert not append_only or certain.keys() == declared
    for name in declared - certain.keys():
        assert following[name]["ended"]
    assert certain.keys() <= following.keys()
    assert repeated == {n: r for n, r in following.items() if not r["ended"]}
    assert again.keys() == {n for n, r in following.items() if not r["ended"]}


def test_benign_changes_of_a_kept_file_change_nothing_and_others_are_refused(
    tmp_path: Path, con: Connection
) -> None:
    clients, folder = Clients(), Location.parse(str(tmp_path))
    file = snapshot_store.write_rows(clients, folder, duck.relation(con, duck.small(FILE, [was("a")])))
    path = tmp_path / file.name
    content = path.read_bytes()
    for harmed in (content[:-1], content + b"x", b"", content.replace(b"t/a", b"t/b")):
        path.write_bytes(harmed)
        with pytest.raises(TornError):
            snapshot_store.read_rows(clients, folder, file)
    path.write_bytes(content)
    assert snapshot_store.read_rows(clients, folder, file).num_rows == 1


@pytest.mark.parametrize(
    ("cover", "asked"),
    [
        ("s3://lake/", True),
        ("s3://lake/t", True),
        ("s3://lake/t/d=1", True),
        ("s3://lake/t2", False),
        ("s3://b/t", False),
    ],
)
def test_only_sources_about_the_tables_are_read(cover: str, asked: bool) -> None:
    info = SourceInfo("storage:0", "storage", "listing", cover, "", None)
    source = Stored(info, (), (Location.parse(cover),))
    assert about([source], [HOME, Location("lake", "u")]) == ([source] if asked else [])
