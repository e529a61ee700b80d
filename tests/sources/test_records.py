"""The contract of every kind that reads writers' small records: each against the same healthy and hostile ones.

The formats are those of `tests.builders.records`; `tests.spark.test_committers` has the systems themselves.
"""

from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeaudit.config import Lake, load_lake
from lakeaudit.engine.local import InProcessEngine
from lakeaudit.evidence.manifest.file_list.reader import fold_kept
from lakeaudit.evidence.manifest.point import lookup_claims
from lakeaudit.evidence.manifest.records import RECORD_ROWS, read_records
from lakeaudit.evidence.protocol import BufferedRows, Changes, Claims, Context
from lakeaudit.evidence.registry import MANIFESTS
from lakeaudit.evidence.storage.listing import reader as listing
from lakeaudit.keys import Location
from lakeaudit.runtime import duck
from lakeaudit.runtime.connections.aws import Clients
from tests.builders.connections import connection
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
        self.put(self.told.files(self.home, NAMES))
        for key, size in SIZES.items():
            self.put({key: b"x" * size})

    def beside(self, table: str) -> "Site":
        """Another table like it in the same lake."""
        return Site(self.folder, self.name, self.clients, self.aws, self.home.bucket, table)

    def put(self, files: dict[str, bytes]) -> None:
        for name, content in files.items():
            self.aws.s3.put_object(Bucket=self.home.bucket, Key=self.home.join(name).key, Body=content)

    @property
    def record(self) -> str:
        """The key of the record that tests change."""
        listed = self.aws.s3.list_objects_v2(Bucket=self.home.bucket, Prefix=self.home.prefix)["Contents"]
        return next(each["Key"] for each in listed if each["Key"].endswith(self.told.record))

    def content(self) -> bytes:
        return self.aws.s3.get_object(Bucket=self.home.bucket, Key=self.record)["Body"].read()

    def change(self, content: bytes) -> None:
        self.aws.s3.put_object(Bucket=self.home.bucket, Key=self.record, Body=content)

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


@pytest.fixture(params=KINDS)
def site(request: pytest.FixtureRequest, tmp_path: Path, clients: Clients, aws: Aws, bucket: str) -> Site:
    return Site(tmp_path, request.param, clients, aws, bucket)


def live_sizes(rows: list[Row], table: str = "t") -> dict[str, int | None]:
    """The live files of a table and their sizes."""
    of_table = [row for row in rows if row["table_name"] == table and row["state"] == "live"]
    return {row["key"].removeprefix(f"wh/{table}/"): row["size"] for row in of_table}


def changed_rows(changes: Changes) -> list[Row]:
    with closing(connection()) as con:
        return duck.rows_of(duck.relation(con, changes.rows))


def test_named_files_are_claimed_to_the_byte(site: Site) -> None:
    claims, rows = site.read()
    assert (claims.holes, claims.warnings, claims.states["t"].refused) == ((), (), None)
    assert live_sizes(rows) == site.told.sizes
    assert {(row["bucket"], row["own_root"], row["certain"], row["manifest_kind"]) for row in rows} == {
        (site.home.bucket, True, True, site.kind)
    }
    assert [
        row["partition_path"] for row in sorted(rows, key=lambda row: row["key"]) if row["state"] == "live"
    ] == ["d=1", "d=2"]


def test_files_that_were_written_after_the_requested_time_are_left_out(site: Site) -> None:
    _, rows = site.read(as_of=ENDED - timedelta(1))
    assert live_sizes(rows) == {}


def test_a_file_is_looked_up(site: Site) -> None:
    (table,) = site.lake().tables
    answers = {}
    for name in (*NAMES, "d=1/never"):
        (told,) = lookup_claims(table, site.clients, site.home.bucket, site.home.join(name).key)
        answers[name] = told.answer
    assert answers == {NAMES[0]: "present", NAMES[1]: "present", "d=1/never": "absent"}


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


TORN: dict[str, Callable[[bytes], bytes]] = {
    "cut off": lambda content: content[: len(content) * 3 // 4],
    "no JSON": lambda _: b"junk\n",
    "another JSON": lambda _: b"[1]",
    "other values": lambda content: content.replace(b'"', b"'"),
    "no text": lambda _: b"\xff\xfe\x00",
    "deep": lambda _: b"[" * 100_000,
}


def test_a_record_that_is_not_understood_is_an_evidence_gap(site: Site) -> None:
    """Each in a table of its own; `t` is sound, and stays it."""
    torn = {case: site.beside(f"t{number}") for number, case in enumerate(TORN)}
    for case, other in torn.items():
        other.change(TORN[case](other.content()))
    claims, rows = site.read(others=torn.values())
    assert live_sizes(rows) == site.told.sizes
    assert {hole.table for hole in claims.holes} <= {other.table for other in torn.values()}
    for case, other in torn.items():
        holes = [hole for hole in claims.holes if hole.table == other.table]
        if site.kind == "symlink" and case == "other values":
            of_table = [row for row in rows if row["table_name"] == other.table]
            assert (holes, len(of_table)) == ([], 2)  # any line is a path, and readers go by it
            continue
        if claims.states[other.table].missing:
            assert site.kind == "spark_sink"  # Spark reads its log whole, so nobody can read the table
            assert (holes, live_sizes(rows, other.table)) == ([], {})
            continue
        (hole,) = holes
        assert (hole.kind, hole.subject.startswith(other.home.uri)) == ("unreadable_evidence", True), case
        assert live_sizes(rows, other.table).items() <= site.told.sizes.items(), case


FOREIGN = ["../u/x", "../../../etc/passwd", "../t_2/x"]


def test_no_record_claims_what_lies_elsewhere(site: Site) -> None:
    """Keys are taken as they stand, so that dots lead nowhere; a neighbour's name is refused."""
    sites = [site, *(site.beside(f"t{number}") for number in range(len(FOREIGN)))]
    site.put(site.told.files(Location(site.home.bucket, "wh/t_2"), NAMES))
    for other, name in zip(sites[1:], FOREIGN, strict=True):
        other.put(other.told.files(other.home, (name,)))
    claims, rows = site.read(others=sites[1:])
    assert all(row["key"].startswith(f"wh/{row['table_name']}/") for row in rows)
    if site.kind != "databricks_commits":  # its names are those of files in its own folder
        assert live_sizes(rows) == {}
        assert all("which is not a file of" in hole.reason for hole in claims.holes if hole.table == "t")
        assert "t" in {hole.table for hole in claims.holes}


def test_a_record_that_vanished_or_is_absurdly_large_is_an_evidence_gap(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = site.record
    claims, _ = site.read(meanwhile=lambda: site.aws.s3.delete_object(Bucket=site.home.bucket, Key=key))
    assert [hole.table for hole in claims.holes] == ["t"] or site.told.listed
    site.put(site.told.files(site.home, NAMES))
    monkeypatch.setattr(read_records, "LARGEST", 10)
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


@settings(max_examples=2)
@given(st.data())
def test_what_does_not_matter_changes_nothing(sites: list[Site], data: st.DataObject) -> None:
    """Four tables at a time: the first example draws the plainest change for all of them, others any."""
    for each in sites:
        each.put(each.told.files(each.home, NAMES))
        each.change(each.told.harmless(each.content(), data.draw))
    claims, rows = sites[0].read(others=sites[1:])
    assert claims.holes == ()
    assert {each.table: live_sizes(rows, each.table) for each in sites} == {
        each.table: sites[0].told.sizes for each in sites
    }
