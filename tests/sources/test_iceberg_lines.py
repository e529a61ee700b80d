"""Which of several metadata.json files of one folder is read, and what the others make of it."""

import os
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from lakeaudit.config import Settings, Table
from lakeaudit.engine.local import InProcessEngine
from lakeaudit.evidence.files import list_files
from lakeaudit.evidence.lineage import LOST_STATE, MANIFESTS, RIVAL_LINE
from lakeaudit.evidence.manifest.iceberg import KIND as ICEBERG
from lakeaudit.evidence.manifest.iceberg import IcebergManifest
from lakeaudit.evidence.manifest.iceberg import reader as iceberg
from lakeaudit.evidence.manifest.iceberg.current import folder
from lakeaudit.evidence.protocol import Changes, Claims, Context
from lakeaudit.keys import Location
from lakeaudit.runtime.connections.aws import Clients
from tests.builders.iceberg_files import AT, UUID, Entry, Snapshot, epoch_ms, write_metadata

LATER, LAST = AT + timedelta(hours=1), AT + timedelta(hours=2)
NOW = AT + timedelta(days=20)
CONTEXT = Context(InProcessEngine(2), Clients(), as_of=NOW, now=NOW, live=True)
ONE = Snapshot({"m1": [Entry("a")]}, AT)
TWO = Snapshot({"m1": [Entry("a")], "m2": [Entry("b")]}, LATER, parent=1, wrote={"m1": 1})
OTHER = Snapshot({"m1": [Entry("a")], "m3": [Entry("c")]}, LAST, parent=1, wrote={"m1": 1})


def table_at(home: Path) -> Table:
    return Table(name="t", location=Location.parse(str(home)), manifests=(IcebergManifest(kind="iceberg"),),
                 settings=Settings())  # fmt: skip


def read(home: Path) -> Claims:
    return iceberg.read([table_at(home)], CONTEXT, "m")


def look_again(claims: Claims, home: Path) -> Changes:
    return ICEBERG.changes(claims, [table_at(home)], CONTEXT)


def claims_of(claims: Claims) -> list[tuple[str, tuple[str, ...]]]:
    return [(each.claim, each.evidence) for each in claims.witnesses]


def log(home: Path, *numbers: int) -> list[dict[str, object]]:
    return [
        {
            "metadata-file": f"file://{home}/metadata/{n:05}-{UUID}.metadata.json",
            "timestamp-ms": epoch_ms(AT) + n,
        }
        for n in numbers
    ]


def number_read(claims: Claims) -> int | None:
    state = claims.states["t"].state
    return None if state is None else state.number


def age(path: Path, at: datetime) -> None:
    os.utime(path, (at.timestamp(), at.timestamp()))


def test_a_younger_file_with_a_lower_number_is_not_the_current_state(tmp_path: Path) -> None:
    """Another catalog has registered an old state and commits to it: neither line reaches back through the other."""
    write_metadata(tmp_path, {1: ONE}, number=1)
    write_metadata(tmp_path, {1: ONE, 2: TWO}, number=3, metadata_log=log(tmp_path, 1, 2))
    other = write_metadata(tmp_path, {1: ONE, 3: OTHER}, number=2, metadata_log=log(tmp_path, 1))
    other.rename(other.with_name("00002-of-another-catalog.metadata.json"))
    claims = read(tmp_path)
    assert number_read(claims) == 3
    assert [each.claim for each in claims.witnesses] == [RIVAL_LINE]
    assert "does not reach back through it" in claims.witnesses[0].words
    assert "00002-of-another-catalog" in str(claims.states["t"].leftovers_kept)


def test_a_line_that_begins_to_count_again_is_followed_where_it_names_the_old_one(tmp_path: Path) -> None:
    """A catalog that takes a table over may number its files from the start."""
    write_metadata(tmp_path, {1: ONE}, number=7)
    new = write_metadata(tmp_path, {1: ONE, 2: TWO}, number=1, metadata_log=log(tmp_path, 7))
    age(new, LATER)
    claims = read(tmp_path)
    assert (number_read(claims), claims.witnesses, claims.warnings) == (1, (), ())


def test_a_commit_that_lost_its_race_below_the_current_state_raises_no_doubt(tmp_path: Path) -> None:
    write_metadata(tmp_path, {1: ONE}, number=1)
    loser = write_metadata(tmp_path, {1: ONE}, number=2, metadata_log=log(tmp_path, 1))
    loser.rename(loser.with_name("00002-lost-its-race.metadata.json"))
    write_metadata(tmp_path, {1: ONE, 2: TWO}, number=3, metadata_log=log(tmp_path, 1, 2))
    claims = read(tmp_path)
    assert (number_read(claims), claims.witnesses, claims.warnings) == (3, (), ())


def test_lists_that_no_metadata_names_are_a_doubt(tmp_path: Path) -> None:
    newest = write_metadata(tmp_path, {1: ONE, 2: TWO}, number=2)
    newest.unlink()
    write_metadata(tmp_path, {1: ONE}, number=1)
    age(tmp_path / "metadata" / "snap-1-1.avro", AT)
    age(tmp_path / "metadata" / "snap-2-1.avro", LATER)
    assert claims_of(read(tmp_path)) == [(LOST_STATE, (MANIFESTS,))]


@pytest.mark.parametrize("hinted", [False, True])
def test_the_second_look_requests_the_next_state_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hinted: bool
) -> None:
    """The listing leaves the newest file out, as one that was cut off does."""
    path = write_metadata(tmp_path, {1: ONE}, number=1)
    path.rename(path.with_name("v1.metadata.json"))
    claims = read(tmp_path)
    assert look_again(claims, tmp_path).unsure == {}
    hidden = "v2.metadata.json"
    if hinted:
        path.with_name("version-hint.text").write_text("2")
    else:
        path.with_name(hidden).write_bytes(path.with_name("v1.metadata.json").read_bytes())
    listed = list_files
    monkeypatch.setattr(
        folder, "list_files", lambda *given, **how: (f for f in listed(*given, **how) if f.name != hidden)
    )
    assert ("version-hint.text" if hinted else hidden) in look_again(claims, tmp_path).unsure["t"]
