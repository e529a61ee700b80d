"""The contract of every kind that reads writers' small records: each against the same healthy and hostile ones.

The formats are those of `tests.builders.records`; `tests.spark.test_committers` has the systems themselves.
"""

import uuid
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeaudit.config import Lake, load_lake
from lakeaudit.engine.local import InProcessEngine
from lakeaudit.evidence.manifest.file_list.reader import fold_kept
from lakeaudit.evidence.manifest.point import lookup_claims
from lakeaudit.evidence.manifest.records import RECORD_ROWS, read_records
from lakeaudit.evidence.protocol import BufferedRows, Changes, Claims, Context, EvidenceGap
from lakeaudit.evidence.registry import MANIFESTS
from lakeaudit.evidence.storage.listing import reader as listing
from lakeaudit.keys import Location
from lakeaudit.runtime import duck
from lakeaudit.runtime.connections.aws import Clients
from tests.builders.backdate import put
from tests.builders.connections import connection
from tests.builders.examples import examples
from tests.builders.records import KINDS, MILLIS, NAMES, SIZES
from tests.conftest import Aws

NOW = datetime.now(UTC)
ENDED = datetime.fromtimestamp(MILLIS / 1000, UTC)
Row = dict[str, Any]


class Site:
    """A table with its records, `t` unless it is named otherwise, and what is read of it."""

    def __init__(
        self, folder: Path, name: str, clients: Clients, aws: Aws, bucket: str, table: str = "t"
    ) -> None:
        self.name, self.table = name, table
        self.kind, self.told = KINDS[name]
        self.folder, self.clients, self.aws = folder, clients, aws
        self.home = Location(bucket, f"wh/{table}")
        self.files = self.told.files(self.home, NAMES)
        self.put(self.files)
        for key, size in SIZES.items():
            self.put({key: b"x" * size})

    def beside(self, table: str) -> "Site":
        """Another table like it in the same lake."""
        return Site(self.folder, self.name, self.clients, self.aws, self.home.bucket, table)

    def put(self, files: dict[str, bytes]) -> None:
        for name, content in files.items():
            put(self.home.bucket, self.home.join(name).key, content)

    @property
    def record(self) -> str:
        """The record that tests change."""
        return next(name for name in self.files if name.endswith(self.told.record))

    def change(self, changed: Callable[[bytes], bytes]) -> None:
        """Store the record otherwise than it was written first."""
        self.put({self.record: changed(self.files[self.record])})

    @property
    def entry(self) -> str:
        """The table in the lake file."""
        manifest = f"{{kind: {self.kind}{self.told.more.format(home=self.home.uri)}}}"
        return f"{{name: {self.table}, location: '{self.home.uri}', manifests: [{manifest}]}}"

    def lake(self, others: Iterable["Site"] = ()) -> Lake:
        path = self.folder / "lake.yaml"
        tables = ", ".join(site.entry for site in (self, *others))
        path.write_text(f"version: 1\nlake: x\nresults: {self.folder / 'out'}\ntables: [{tables}]\n")
        return load_lake(path, {})

    def read(
        self,
        as_of: datetime = NOW,
        meanwhile: Callable[[], object] = lambda: None,
        others: Iterable["Site"] = (),
    ) -> tuple[Claims, list[Row]]:
        """The claims of it and of `others`, and their rows; `meanwhile` happens once storage was listed."""
        with closing(InProcessEngine()) as engine, closing(connection()) as con:
            live = Context(engine, self.clients, NOW, NOW, live=True)
            stored = listing.read_place(Location(self.home.bucket, "wh"), live, "storage:0")
            meanwhile()
            past = replace(live, as_of=as_of, live=as_of == NOW, storage=(stored,))
            claims = MANIFESTS[self.kind].read(self.lake(others).tables, past, "m")
            (kept,) = claims.rows
            return claims, duck.rows_of(fold_kept(con, cast("BufferedRows", kept), claims.fold))


def test_every_kind_of_records_has_a_builder() -> None:
    kinds = {name for name, kind in MANIFESTS.items() if kind.rows == RECORD_ROWS}
    assert kinds - {kind for kind, _ in KINDS.values()} == set(), "add it to tests/builders/records.py"


def live_sizes(rows: list[Row], table: str = "t") -> dict[str, int | None]:
    """The live files of a table and their sizes."""
    of_table = [row for row in rows if row["table_name"] == table and row["state"] == "live"]
    return {row["key"].removeprefix(f"wh/{table}/"): row["size"] for row in of_table}


def changed_rows(changes: Changes) -> list[Row]:
    with closing(connection()) as con:
        return duck.rows_of(duck.relation(con, changes.rows))


TORN: dict[str, Callable[[bytes], bytes]] = {
    "cut off": lambda content: content[: len(content) * 3 // 4],
    "no JSON": lambda _: b"junk\n",
    "another JSON": lambda _: b"[1]",
    "other values": lambda content: content.replace(b'"', b"'"),
    "no text": lambda _: b"\xff\xfe\x00",
    "deep": lambda _: b"[" * 100_000,
}
FOREIGN = ["../u/x", "../../../etc/passwd", "../t_2/x"]


@dataclass(frozen=True)
class World:
    """Tables of one kind, and what one reading of all of them gives.

    `sound` is as its writer left it; the records of `torn` are damaged, by case; those of `foreign` name what lies
    elsewhere, by dots; the records of `neighbour` name files of `n_2`, whose name begins with its own.
    """

    sound: Site
    torn: dict[str, Site]
    foreign: list[Site]
    neighbour: Site
    claims: Claims
    rows: list[Row]

    def evidence_gaps(self, table: str) -> list[EvidenceGap]:
        return [hole for hole in self.claims.holes if hole.table == table]


@pytest.fixture(scope="module", params=KINDS)
def world(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, clients: Clients, aws: Aws
) -> World:
    bucket = f"records-{uuid.uuid4().hex[:12]}"
    aws.s3.create_bucket(Bucket=bucket)
    sound = Site(tmp_path_factory.mktemp("records"), request.param, clients, aws, bucket)
    torn = {case: sound.beside(f"t{number}") for number, case in enumerate(TORN)}
    for case, other in torn.items():
        other.change(TORN[case])
    foreign = [sound.beside(f"f{number}") for number in range(len(FOREIGN))]
    for other, name in zip(foreign, FOREIGN, strict=True):
        other.put(other.told.files(other.home, (name,)))
    neighbour = sound.beside("n")
    neighbour.put(neighbour.told.files(Location(bucket, "wh/n_2"), NAMES))
    return World(sound, torn, foreign, neighbour, *sound.read(others=(*torn.values(), *foreign, neighbour)))


def test_named_files_are_claimed_to_the_byte(world: World) -> None:
    site, claims = world.sound, world.claims
    assert (world.evidence_gaps("t"), claims.warnings, claims.states["t"].refused) == ([], (), None)
    rows = [row for row in world.rows if row["table_name"] == "t"]
    assert live_sizes(rows) == site.told.sizes
    assert {(row["bucket"], row["own_root"], row["certain"], row["manifest_kind"]) for row in rows} == {
        (site.home.bucket, True, True, site.kind)
    }
    assert [
        row["partition_path"] for row in sorted(rows, key=lambda row: row["key"]) if row["state"] == "live"
    ] == ["d=1", "d=2"]


def test_files_that_were_written_after_the_requested_time_are_left_out(world: World) -> None:
    _, rows = world.sound.read(as_of=ENDED - timedelta(1))
    assert live_sizes(rows) == {}


def test_a_file_is_looked_up(world: World) -> None:
    site = world.sound
    (table,) = site.lake().tables
    answers = {}
    for name in (*NAMES, "d=1/never"):
        (told,) = lookup_claims(table, site.clients, site.home.bucket, site.home.join(name).key)
        answers[name] = told.answer
    assert answers == {NAMES[0]: "present", NAMES[1]: "present", "d=1/never": "absent"}


def test_a_record_that_is_not_understood_is_an_evidence_gap(world: World) -> None:
    """Each in a table of its own; `t` is sound, and stays it."""
    claims, rows, sizes = world.claims, world.rows, world.sound.told.sizes
    assert live_sizes(rows) == sizes
    others = {world.neighbour.table, *(other.table for other in world.foreign)}
    assert {hole.table for hole in claims.holes} - others <= {other.table for other in world.torn.values()}
    for case, other in world.torn.items():
        holes = world.evidence_gaps(other.table)
        if other.kind == "symlink" and case == "other values":
            of_table = [row for row in rows if row["table_name"] == other.table]
            assert (holes, len(of_table)) == ([], 2)  # any line is a path, and readers go by it
            continue
        if claims.states[other.table].missing:
            assert other.kind == "spark_sink"  # Spark reads its log whole, so nobody can read the table
            assert (holes, live_sizes(rows, other.table)) == ([], {})
            continue
        (hole,) = holes
        assert (hole.kind, hole.subject.startswith(other.home.uri)) == ("unreadable_evidence", True), case
        assert live_sizes(rows, other.table).items() <= sizes.items(), case


def test_no_record_claims_what_lies_elsewhere(world: World) -> None:
    """Keys are taken as they stand, so that dots lead nowhere; a neighbour's name is refused."""
    assert all(row["key"].startswith(f"wh/{row['table_name']}/") for row in world.rows)
    if world.sound.kind != "databricks_commits":  # its names are those of files in its own folder
        assert live_sizes(world.rows, "n") == {}
        assert all("which is not a file of" in hole.reason for hole in world.evidence_gaps("n"))
        assert world.evidence_gaps("n") != []


@pytest.fixture(params=KINDS)
def site(request: pytest.FixtureRequest, tmp_path: Path, clients: Clients, aws: Aws, bucket: str) -> Site:
    return Site(tmp_path, request.param, clients, aws, bucket)


def test_later_changes_are_returned(site: Site) -> None:
    """The record does not name the first file any more."""
    with closing(InProcessEngine()) as engine:
        context = Context(engine, site.clients, NOW, NOW, live=True)
        stored = listing.read_place(Location(site.home.bucket, "wh"), context, "storage:0")
        context = replace(context, storage=(stored,))
        tables, kind = site.lake().tables, MANIFESTS[site.kind]
        claims = kind.read(tables, context, "m")
        assert changed_rows(kind.changes(claims, tables, context)) == []
        site.put(site.told.files(site.home, NAMES[1:]))
        rows = changed_rows(kind.changes(claims, tables, context))
        told = {row["key"]: row["state"] for row in rows}
        assert told.pop(site.home.join(NAMES[0]).key) == "gone"
        assert set(told.values()) <= {"live"}, (
            "if the record is younger by a second, files that it still names are returned again"
        )


def test_a_record_that_vanished_or_is_absurdly_large_is_an_evidence_gap(site: Site) -> None:
    key = site.home.join(site.record).key
    claims, _ = site.read(meanwhile=lambda: site.aws.s3.delete_object(Bucket=site.home.bucket, Key=key))
    assert [hole.table for hole in claims.holes] == ["t"] or site.told.listed
    site.put(site.files)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(read_records, "LARGEST", 10)
        claims, rows = site.read()
    assert (
        live_sizes(rows),
        {"bytes, which no such record has" in hole.reason for hole in claims.holes},
    ) == (
        {},
        {True},
    )


@pytest.fixture
def sites(site: Site) -> list[Site]:
    return [site, *(site.beside(f"t{number}") for number in range(3))]


@examples(2, 20)
@given(st.data())
def test_what_does_not_matter_changes_nothing(sites: list[Site], data: st.DataObject) -> None:
    """Four tables at a time: the first example draws the plainest change for all of them, others any."""
    for each in sites:
        each.change(lambda content, told=each.told: told.harmless(content, data.draw))  # type: ignore[misc]
    claims, rows = sites[0].read(others=sites[1:])
    assert claims.holes == ()
    assert {each.table: live_sizes(rows, each.table) for each in sites} == {
        each.table: sites[0].told.sizes for each in sites
    }
