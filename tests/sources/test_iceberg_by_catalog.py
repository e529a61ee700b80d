"""Iceberg tables whose state a catalog says: what lies in the folder beside it is not the state.

The catalog is a stand-in over real HTTP (`tests.builders.rest_catalog`).
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from lakeaudit.config import Pointer, Settings, Table
from lakeaudit.engine.local import InProcessEngine
from lakeaudit.errors import SourceError
from lakeaudit.evidence.catalog import current
from lakeaudit.evidence.catalog.iceberg_rest import IcebergRest
from lakeaudit.evidence.lineage import FOREIGN_STATE, LOST_STATE, TWO_LINES, LastState, StateRef
from lakeaudit.evidence.manifest.iceberg import KIND as ICEBERG
from lakeaudit.evidence.manifest.iceberg import IcebergManifest, PointedIceberg
from lakeaudit.evidence.manifest.iceberg import reader as iceberg
from lakeaudit.evidence.manifest.iceberg.current import catalogs
from lakeaudit.evidence.manifest.iceberg.current.discover import probe
from lakeaudit.evidence.manifest.iceberg.point_lookup import read as look_up
from lakeaudit.evidence.protocol import Claims, Context
from lakeaudit.keys import Location
from lakeaudit.runtime import duck
from lakeaudit.runtime.connections.aws import Clients
from tests.builders.connections import connection
from tests.builders.iceberg_files import AT, DELETED, EXISTING, Entry, Snapshot, epoch_ms, write_metadata
from tests.builders.rest_catalog import RestCatalog, served
from tests.sources.manifest_contract import claim_table

LATER = AT + timedelta(hours=1)
NOW = AT + timedelta(days=20)
CONTEXT = Context(InProcessEngine(2), Clients(), as_of=NOW, now=NOW, live=True)
A, B, C = Entry("a"), Entry("b"), Entry("c")
ONE = Snapshot({"m1": [A, B]}, AT)
TWO = Snapshot(
    {"m1x": [replace(A, status=DELETED, snapshot=2), replace(B, status=EXISTING, snapshot=1)], "m2": [C]},
    LATER, parent=1,
)  # fmt: skip
FIRST, SECOND = {"a": "live", "b": "live"}, {"a": "history", "b": "live", "c": "live"}
NAME = ("shop", "t")


@pytest.fixture
def server() -> Iterator[RestCatalog]:
    with served(RestCatalog()) as rest:
        yield rest


@pytest.fixture
def other() -> Iterator[RestCatalog]:
    with served(RestCatalog()) as rest:
        yield rest


def table_at(home: Path, *catalogs: RestCatalog) -> Table:
    pointers = tuple(
        Pointer(
            store=IcebergRest(kind="iceberg_rest", uri=each.uri, name=f"c{n}"),
            source_id=f"metastore:{n}", name="shop.t",
        )
        for n, each in enumerate(catalogs)
    )  # fmt: skip
    pointed = PointedIceberg(**dict(IcebergManifest(kind="iceberg", catalog="c0")), pointers=pointers)
    return Table(name="t", location=Location.parse(str(home)), manifests=(pointed,), settings=Settings())


def read(table: Table, context: Context = CONTEXT) -> Claims:
    return iceberg.read([table], context, "manifest:iceberg")


def states(claims: Claims) -> dict[str, str]:
    assert claims.states["t"].refused is None
    rows = claim_table(claims).to_pylist()
    return {row["key"].rpartition("/")[2]: row["state"] for row in rows if row["category"] == "data"}


def refusal_of(table: Table, context: Context = CONTEXT) -> str:
    return str(read(table, context).states["t"].refused)


def test_the_state_is_the_one_the_catalog_points_at_not_the_newest_of_the_folder(
    tmp_path: Path, server: RestCatalog
) -> None:
    """A commit that lost its race leaves a newer metadata.json, which nobody has committed."""
    server.tables[NAME] = write_metadata(tmp_path, {1: ONE}, number=1)
    write_metadata(tmp_path, {1: ONE, 2: TWO}, number=2)
    claims = read(table_at(tmp_path, server))
    assert (states(claims), claims.warnings, claims.holes) == (FIRST, (), ())
    assert claims.info.location.endswith("/metadata/00001-11111111-2222-4333-8444-555555555555.metadata.json")
    server.tables[NAME] = next((tmp_path / "metadata").glob("00002-*.json"))
    assert states(read(table_at(tmp_path, server))) == SECOND


def test_a_catalog_that_is_down_or_knows_no_such_table_refuses_it_and_no_other(
    tmp_path: Path, server: RestCatalog
) -> None:
    path = write_metadata(tmp_path, {1: ONE}, number=1)
    assert "c0 shop.t: the catalog answers 404" in refusal_of(table_at(tmp_path, server))
    server.tables[NAME] = path
    plain = Table(name="p", location=Location.parse(str(tmp_path)),
                  manifests=(IcebergManifest(kind="iceberg"),), settings=Settings())  # fmt: skip
    server.faults.append(lambda *_: (403, {}))
    claims = iceberg.read([table_at(tmp_path, server), plain], CONTEXT, "m")
    assert "answers 403" in str(claims.states["t"].refused)
    assert claims.states["p"].refused is None


@pytest.mark.parametrize(
    ("points_at", "told"),
    [
        ("file:{home}/metadata/none.json", "c0 shop.t points at /.*/none.json, but this file does not exist"),
        ("", "names no metadata.json in a store that is known"),
        ("hdfs://nn/t/metadata/1.json", "names no metadata.json in a store that is known"),
        ("file:{home}/data/a", "its content is not Iceberg metadata"),
    ],
)
def test_a_pointer_that_leads_nowhere_refuses_the_table(
    tmp_path: Path, server: RestCatalog, points_at: str, told: str
) -> None:
    write_metadata(tmp_path, {1: ONE}, number=1)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a").write_bytes(b"x")
    answer = {"metadata-location": points_at.format(home=tmp_path), "metadata": {}}
    server.faults.append(lambda _, path, __: (200, answer) if path.endswith("/tables/t") else None)
    assert re.search(told, refusal_of(table_at(tmp_path, server)))


def test_a_commit_between_the_answer_and_the_file_is_requested_again(
    tmp_path: Path, server: RestCatalog
) -> None:
    """`write.metadata.delete-after-commit.enabled` takes the older metadata.json away at once."""
    server.tables[NAME] = write_metadata(tmp_path, {1: ONE, 2: TWO}, number=2)
    before = iter([{"metadata-location": f"file:{tmp_path}/metadata/1.json", "metadata": {}}])
    server.faults.append(
        lambda _, path, __: (200, gone) if path.endswith("/t") and (gone := next(before, None)) else None
    )
    assert states(read(table_at(tmp_path, server))) == SECOND
    assert len(server.paths("/tables/")) == 2


def test_catalogs_that_disagree_say_no_state(tmp_path: Path, server: RestCatalog, other: RestCatalog) -> None:
    server.tables[NAME] = write_metadata(tmp_path, {1: ONE}, number=1)
    other.tables[NAME] = write_metadata(tmp_path, {1: ONE, 2: TWO}, number=2)
    told = refusal_of(table_at(tmp_path, server, other))
    assert told.startswith("catalogs disagree: c0 shop.t points at ")
    assert "; c1 shop.t points at " in told
    other.tables[NAME] = server.tables[NAME]
    assert states(read(table_at(tmp_path, server, other))) == FIRST


def test_catalogs_that_each_commit_to_one_table_are_named_with_both_lines(
    tmp_path: Path, server: RestCatalog, other: RestCatalog
) -> None:
    before = write_metadata(tmp_path, {1: ONE}, number=1)
    log = [{"metadata-file": f"file://{before}", "timestamp-ms": epoch_ms(AT)}]
    mine = Snapshot({"m1": [A, B], "m3": [Entry("d")]}, LATER, parent=1, wrote={"m1": 1})
    fork = write_metadata(tmp_path, {1: ONE, 3: mine}, number=2, metadata_log=log)
    other.tables[NAME] = fork.rename(fork.with_name("00002-fork.metadata.json"))
    server.tables[NAME] = write_metadata(tmp_path, {1: ONE, 2: TWO}, number=2, metadata_log=log)
    claims = read(table_at(tmp_path, server, other))
    (witness,) = claims.witnesses
    assert (witness.claim, witness.proved) == (TWO_LINES, True)
    assert re.search(
        "c0 shop.t points at .*, which alone lists c; c1 shop.t points at .*, which alone lists d",
        witness.words,
    )
    other.tables[NAME] = before
    assert read(table_at(tmp_path, server, other)).witnesses == ()


def test_a_catalog_that_points_below_its_previous_state_has_gone_back(
    tmp_path: Path, server: RestCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.tables[NAME] = path = write_metadata(tmp_path, {1: ONE}, number=3)
    table, newer = table_at(tmp_path, server), f"file://{path.with_name('00007-x.metadata.json')}"
    for previous, found in ((newer, [LOST_STATE]), (f"file://{path.with_name('00002-x.metadata.json')}", [])):
        said = partial(_with_previous, current.current_tables, previous)
        with monkeypatch.context() as patched:
            patched.setattr(catalogs, "current_tables", said)
            assert [each.claim for each in read(table).witnesses] == found


OWN, OTHER = "11111111-2222-4333-8444-555555555555", "99999999-2222-4333-8444-555555555555"
FOREIGN: dict[str, tuple[str, str, str, str, list[tuple[str, bool]]]] = {
    # folder of the metadata.json, location that it names, id and location of the last audit, witnesses
    "another table's state": ("other", "other", OTHER, "orders", [(FOREIGN_STATE, True)]),
    "another table's state, at the first audit": ("other", "other", "", "", [(FOREIGN_STATE, False)]),
    "another table's state, after a move": ("other", "other", OTHER, "old", [(FOREIGN_STATE, False)]),
    "a folder whose name begins with the table's": (
        "orders2",
        "orders2",
        OTHER,
        "orders",
        [(FOREIGN_STATE, True)],
    ),
    "the table's own state": ("orders", "orders", OWN, "orders", []),
    "the table has moved": ("other", "other", OWN, "orders", []),
    "the table has moved, and so has its entry": ("orders", "orders", OWN, "old", []),
    "metadata in a place of its own": ("other", "orders", OWN, "orders", []),
    "metadata in a place of its own, at the first audit": ("other", "orders", "", "", []),
    "a registered copy": ("orders", "other", "", "", []),
    "a location above that of the lake file": ("other", ".", "", "", []),
}


@pytest.mark.parametrize("case", FOREIGN)
def test_a_state_that_lies_elsewhere_and_names_another_location_belongs_to_another_table(
    tmp_path: Path, server: RestCatalog, case: str
) -> None:
    folder, named, last_id, last_at, expected = FOREIGN[case]
    location = f"file://{tmp_path / named}"
    server.tables[NAME] = write_metadata(tmp_path / folder, {1: ONE}, location=location, table_uuid=OWN)
    table = table_at(tmp_path / "orders", server)
    state = StateRef(3, "00003-x.metadata.json", last_id, AT + timedelta(days=1), "e")
    last = LastState(state, NOW, "r", Location.parse(str(tmp_path / last_at)).uri)
    found = read(table, replace(CONTEXT, last_states={("iceberg", "t"): last} if last_id else {})).witnesses
    assert [(each.claim, each.proved) for each in found if each.claim == FOREIGN_STATE] == expected
    for each in found if expected else ():
        assert f"this metadata belongs to the table at {location}" in each.words
        assert each.subject.startswith(Location.parse(str(tmp_path / folder)).uri)


def _with_previous(current_tables: Callable[..., Any], previous: str, *given: Any) -> Any:
    return {key: replace(each, previous_location=previous) for key, each in current_tables(*given).items()}


def test_catalogs_that_differ_for_a_moment_agree_on_the_second_request(
    tmp_path: Path, server: RestCatalog, other: RestCatalog
) -> None:
    """A commit reached the second one between two requests, and the first one is behind by a moment."""
    first, second = (
        write_metadata(tmp_path, {1: ONE}, number=1),
        write_metadata(tmp_path, {1: ONE, 2: TWO}, number=2),
    )
    server.tables[NAME] = other.tables[NAME] = second
    lagging = iter([{"metadata-location": f"file://{first}", "metadata": {}}])
    server.faults.append(
        lambda _, path, __: (200, old) if path.endswith("/t") and (old := next(lagging, None)) else None
    )
    assert states(read(table_at(tmp_path, server, other))) == SECOND


def changed(claims: Claims, table: Table) -> dict[str, str]:
    """By name of data files what the newest state makes of them, where it is something else."""
    found = ICEBERG.changes(claims, [table], CONTEXT)
    assert found.unsure == {}
    rows = duck.rows_of(duck.relation(connection(), found.rows))
    return {row["key"].rpartition("/")[2]: row["state"] for row in rows if "/data/" in row["key"]}


def test_changes_follow_the_catalog(tmp_path: Path, server: RestCatalog) -> None:
    server.tables[NAME] = write_metadata(tmp_path, {1: ONE}, number=1)
    table = table_at(tmp_path, server)
    claims = read(table)
    second = write_metadata(tmp_path, {1: ONE, 2: TWO}, number=2)
    assert changed(claims, table) == {}
    server.tables[NAME] = second
    assert changed(claims, table) == {"a": "history", "c": "live"}
    del server.tables[NAME]
    unsure = ICEBERG.changes(claims, [table], CONTEXT).unsure
    assert "answers 404" in unsure["t"]


def test_one_file_is_looked_up_by_the_catalog(tmp_path: Path, server: RestCatalog) -> None:
    server.tables[NAME] = write_metadata(tmp_path, {1: ONE}, number=1)
    write_metadata(tmp_path, {1: ONE, 2: TWO}, number=2)
    table = table_at(tmp_path, server)
    assert look_up(table, Clients(), "", f"{tmp_path}/data/a"[1:])[0] == "present"
    assert look_up(table, Clients(), "", f"{tmp_path}/data/c"[1:])[0] == "absent"
    server.tables.clear()
    answer, _, why = look_up(table, Clients(), "", f"{tmp_path}/data/a"[1:])
    assert answer == "unknown"
    assert "answers 404" in why


def test_as_of_a_time_the_state_before_it_is_the_one_the_metadata_came_after(
    tmp_path: Path, server: RestCatalog
) -> None:
    """A catalog knows no past; a metadata.json names the files that were current before it, and no loser of a race."""
    first = write_metadata(tmp_path, {1: ONE}, number=1)
    write_metadata(tmp_path, {}, number=2, last_updated_ms=epoch_ms(AT + timedelta(minutes=1)))
    log = [{"metadata-file": f"file://{first}", "timestamp-ms": epoch_ms(AT)}]
    server.tables[NAME] = write_metadata(tmp_path, {1: ONE, 2: TWO}, number=3, metadata_log=log)
    table = table_at(tmp_path, server)
    then = replace(CONTEXT, live=False, as_of=AT + timedelta(minutes=2))
    assert states(read(table, then)) == FIRST
    assert states(read(table, replace(CONTEXT, live=False))) == SECOND
    before = replace(CONTEXT, live=False, as_of=AT - timedelta(minutes=2))
    assert "names no state up to" in refusal_of(table, before)


def test_unused_files_of_a_table_elsewhere_by_its_catalog_are_left_to_people(
    tmp_path: Path, server: RestCatalog
) -> None:
    server.tables[NAME] = write_metadata(tmp_path / "there", {1: ONE}, number=1)
    claims = read(table_at(tmp_path / "here", server))
    (warning,) = claims.warnings
    assert "c0 shop.t is at /" in warning
    assert claims.states["t"].leftovers_kept


def test_a_probe_says_what_the_catalog_says(tmp_path: Path, server: RestCatalog) -> None:
    server.tables[NAME] = write_metadata(tmp_path, {1: ONE}, number=1)
    probe(table_at(tmp_path, server), Clients())
    server.tables.clear()
    with pytest.raises(SourceError, match=r"c0 shop\.t: the catalog answers 404"):
        probe(table_at(tmp_path, server), Clients())
