"""The Iceberg reader on metadata, lists and manifests that are written by hand, in all states they can have."""

import gzip
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lakeaudit.config import Settings, Table, load_lake
from lakeaudit.engine.local import InProcessEngine
from lakeaudit.errors import SourceError
from lakeaudit.evidence.manifest.iceberg import KIND as ICEBERG
from lakeaudit.evidence.manifest.iceberg import IcebergManifest
from lakeaudit.evidence.manifest.iceberg import reader as iceberg
from lakeaudit.evidence.manifest.iceberg.current.discover import probe
from lakeaudit.evidence.manifest.iceberg.point_lookup import read as look_up
from lakeaudit.evidence.manifest.iceberg.state import lists, readings
from lakeaudit.evidence.manifest.iceberg.state.metadata import (
    Metadata,
    NotReadable,
    number_of,
    parse_metadata,
)
from lakeaudit.evidence.manifest.iceberg.state.metadata import Snapshot as KnownSnapshot
from lakeaudit.evidence.protocol import Claims, Context, EvidenceGap
from lakeaudit.evidence.references import FREE, LIVE, UNKNOWN
from lakeaudit.guard.known_lake import KnownLake
from lakeaudit.guard.newest_claims import NewestClaims
from lakeaudit.keys import Location
from lakeaudit.runtime import duck
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.schemas import plain_time
from tests.builders.connections import connection
from tests.builders.iceberg_files import (
    AT,
    DELETED,
    EQUALITY_DELETES,
    EXISTING,
    POSITION_DELETES,
    SPEC,
    Entry,
    Snapshot,
    avro,
    write_metadata,
)
from tests.builders.iceberg_files import MANIFEST as SCHEMA
from tests.sources.manifest_contract import claim_table

NOW = datetime(2026, 11, 21, tzinfo=UTC)
LATER, LAST = AT + timedelta(hours=1), AT + timedelta(hours=2)
CONTEXT = Context(InProcessEngine(2), Clients(), as_of=NOW, now=NOW, live=True)


def table_at(home: Path, metadata: Path | None = None) -> Table:
    named = None if metadata is None else Location.parse(str(metadata))
    return Table(
        name="t",
        location=Location.parse(str(home)),
        manifests=(IcebergManifest(kind="iceberg", metadata=named),),
        settings=Settings(),
    )


def read(home: Path, context: Context = CONTEXT, metadata: Path | None = None) -> Claims:
    return iceberg.read([table_at(home, metadata)], context, "manifest:iceberg")


def rows_of(home: Path, context: Context = CONTEXT) -> dict[str, dict[str, Any]]:
    """Claims of data and delete files by their names."""
    claims = claim_table(read(home, context)).to_pylist()
    return {r["key"].rpartition("/")[2]: r for r in claims if r["category"] in ("data", "deletes")}


def states_of(home: Path, context: Context = CONTEXT) -> dict[str, str]:
    return {name: row["state"] for name, row in rows_of(home, context).items()}


def gaps_of(claims: Claims) -> list[tuple[str, str, str]]:
    """Return (kind, file, hidden files) of each evidence gap."""
    return sorted((hole.kind, hole.subject.rpartition("/")[2], hole.hides) for hole in claims.holes)


A, B, C = Entry("a"), Entry("b"), Entry("c")
ONE = Snapshot({"m1": [A, B]}, AT)
TWO = Snapshot(
    {"m1x": [replace(A, status=DELETED, snapshot=2), replace(B, status=EXISTING, snapshot=1)], "m2": [C]},
    LATER,
    parent=1,
)


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("codec", ["null", "deflate"])
def test_live_is_what_a_head_lists_and_history_what_another_snapshot_does(
    tmp_path: Path, version: int, codec: str
) -> None:
    write_metadata(tmp_path, {1: ONE, 2: TWO}, version=version, codec=codec)
    assert states_of(tmp_path) == {"a": "history", "b": "live", "c": "live"}


HEADS: Mapping[str, tuple[Mapping[str, int], Mapping[str, str]]] = {
    "main alone": ({"main": 2}, {"a": "history", "b": "live", "c": "live"}),
    "a tag keeps files that main dropped": ({"main": 2, "v1": 1}, {"a": "live", "b": "live", "c": "live"}),
    "rolled back": ({"main": 1}, {"a": "live", "b": "live", "c": "history"}),
    "no branch at all": ({}, {"a": "history", "b": "history", "c": "history"}),
}


@pytest.mark.parametrize("case", HEADS)
def test_branches_and_tags_decide(tmp_path: Path, case: str) -> None:
    refs, expected = HEADS[case]
    write_metadata(tmp_path, {1: ONE, 2: TWO}, refs=refs)
    assert states_of(tmp_path) == expected


def test_what_an_expired_snapshot_had_is_gone_since_it_was_removed(tmp_path: Path) -> None:
    write_metadata(tmp_path, {2: TWO})
    rows = rows_of(tmp_path)
    assert (rows["a"]["state"], rows["a"]["removed_at"]) == ("gone", plain_time(LATER))
    # who added it has expired: the oldest state that lists it
    assert (rows["b"]["state"], rows["b"]["claimed_at"]) == ("live", plain_time(LATER))


def test_a_claim_is_as_old_as_the_snapshot_that_added_the_file(tmp_path: Path) -> None:
    write_metadata(tmp_path, {1: ONE, 2: TWO})
    rows = rows_of(tmp_path)
    assert {name: row["claimed_at"] for name, row in rows.items()} == {
        "a": plain_time(AT), "b": plain_time(AT), "c": plain_time(LATER),
    }  # fmt: skip
    assert {row["commit_id"] for row in rows.values()} == {"1", "2"}
    assert (rows["c"]["size"], rows["c"]["records"], rows["c"]["partition_path"]) == (
        100,
        10,
        "day=2026-11-01",
    )
    assert (rows["c"]["own_root"], rows["c"]["certain"], rows["c"]["table_version"]) == (True, True, 2)


def test_no_snapshot_is_younger_than_its_metadata_or_than_what_was_built_on_it() -> None:
    far, day = AT + timedelta(days=5 * 365), timedelta(days=1)
    made = tuple(
        KnownSnapshot(id_, parent, moment, None)
        for id_, parent, moment in ((1, None, AT), (2, 1, far), (3, 2, AT + day), (4, 2, far), (5, 9, far))
    )
    found = Metadata(2, "", "s3://lake/t", far, 4, made, (("s3://lake/t/metadata/1", far),))
    bounded = found.written_by(AT + 2 * day)
    assert bounded.times == {1: AT, 2: AT + day, 3: AT + day, 4: AT + 2 * day, 5: AT + 2 * day}
    assert (bounded.updated_at, bounded.old_files[0][1]) == (AT + 2 * day, AT + 2 * day)
    assert found.written_by(far).times == {**found.times, 2: AT + day}


def test_a_metadata_json_of_another_year_makes_no_file_young(tmp_path: Path) -> None:
    write_metadata(tmp_path, {1: ONE, 2: TWO})
    for path in tmp_path.rglob("*.metadata.json"):
        os.utime(path, (AT.timestamp() - 60, AT.timestamp() - 60))
    assert {row["claimed_at"] for row in rows_of(tmp_path).values()} == {
        plain_time(AT - timedelta(minutes=1))
    }


def test_delete_files_are_deletes_and_vectors_of_one_puffin_file_are_one_file(tmp_path: Path) -> None:
    deletes = [
        Entry("p", rows=3, content=POSITION_DELETES),
        Entry("e", rows=4, content=EQUALITY_DELETES),
        Entry("v.puffin", 500, 2, content=POSITION_DELETES, offset=4),
        Entry("v.puffin", 500, 5, content=POSITION_DELETES, offset=90),
    ]
    write_metadata(tmp_path, {1: Snapshot({"m": [A], "d": deletes})}, version=3)
    rows = rows_of(tmp_path)
    assert {name: (r["category"], r["records"], r["listed"]) for name, r in rows.items()} == {
        "a": ("data", 10, 1), "p": ("deletes", 3, 1), "e": ("deletes", 4, 1), "v.puffin": ("deletes", 7, 1),
    }  # fmt: skip
    assert rows["v.puffin"]["size"] == 500


LISTINGS: Mapping[str, tuple[Snapshot, int]] = {
    "twice in one manifest": (Snapshot({"m1": [A, A]}), 2),
    "in two manifests of one state": (Snapshot({"m1": [A], "m2": [A]}), 2),
    "removed by one, added by another": (
        Snapshot({"m1": [replace(A, status=DELETED, snapshot=1)], "m2": [A]}),
        1,
    ),
    "once": (Snapshot({"m1": [A]}), 1),
}


@pytest.mark.parametrize("case", LISTINGS)
def test_a_file_that_one_state_lists_twice_is_counted_twice(tmp_path: Path, case: str) -> None:
    snapshot, listed = LISTINGS[case]
    write_metadata(tmp_path, {1: snapshot})
    (row,) = rows_of(tmp_path).values()
    assert (row["state"], row["listed"]) == ("live", listed)


def test_two_branches_that_share_a_manifest_list_its_files_once(tmp_path: Path) -> None:
    shared = Snapshot({"m1": [A, B], "m2": [C]}, LATER, parent=1, wrote={"m1": 1})
    write_metadata(tmp_path, {1: ONE, 2: shared}, refs={"main": 2, "old": 1})
    assert {row["listed"] for row in rows_of(tmp_path).values()} == {1}


def test_the_metadata_of_every_retained_state_is_claimed(tmp_path: Path) -> None:
    statistics = {
        "snapshot-id": 2,
        "statistics-path": f"file://{tmp_path}/metadata/s.puffin",
        "file-size-in-bytes": 7,
    }
    old = {"metadata-file": f"file://{tmp_path}/metadata/00000-x.metadata.json", "timestamp-ms": 0}
    write_metadata(tmp_path, {1: ONE, 2: TWO}, statistics=[statistics], metadata_log=[old])
    rows = [r for r in claim_table(read(tmp_path)).to_pylist() if r["category"] in ("log", "statistics")]
    assert {r["key"].rpartition("/")[2][:8]: (r["state"], r["explained"]) for r in rows} == {
        "00001-11": ("live", False), "00000-x.": ("history", True), "snap-1-1": ("history", False),
        "snap-2-1": ("live", False), "m1.avro": ("history", False), "m1x.avro": ("live", False),
        "m2.avro": ("live", False), "s.puffin": ("history", False),
    }  # fmt: skip


def test_old_writers_name_manifests_in_the_metadata_itself(tmp_path: Path) -> None:
    path = write_metadata(tmp_path, {1: ONE}, version=1)
    told = json.loads(path.read_text())
    del told["snapshots"][0]["manifest-list"], told["refs"]
    told["snapshots"][0]["manifests"] = [f"file://{tmp_path}/metadata/m1.avro"]
    path.write_text(json.dumps(told))
    assert states_of(tmp_path) == {"a": "live", "b": "live"}


def test_a_table_without_snapshots_lists_nothing(tmp_path: Path) -> None:
    write_metadata(tmp_path, {})
    claims = read(tmp_path)
    assert (states_of(tmp_path), claims.holes, claims.states["t"].refused) == ({}, (), None)


PATHS: Mapping[str, tuple[str, tuple[str, str], bool]] = {
    "raw, with escapes": ("s3://lake/t/x=a%20b/c+d%2Fe", ("lake", "t/x=a%20b/c+d%2Fe"), False),
    "an empty part": ("s3a://lake/t//data/a", ("lake", "t//data/a"), False),
    "of an old writer": ("s3n://lake/t/a", ("lake", "t/a"), False),
    "without a scheme": ("/data/a", ("", "data/a"), False),
}  # fmt: skip


@pytest.mark.parametrize("case", PATHS)
def test_paths_are_raw(tmp_path: Path, case: str) -> None:
    path, place, own = PATHS[case]
    write_metadata(tmp_path, {1: Snapshot({"m": [Entry(path)]})})
    (row,) = rows_of(tmp_path).values()
    assert ((row["bucket"], row["key"]), row["own_root"]) == (place, own)


def drop(home: Path, name: str) -> None:
    (home / "metadata" / name).unlink()


def tear(home: Path, name: str) -> None:
    path = home / "metadata" / name
    path.write_bytes(path.read_bytes()[:-20])


def scribble(home: Path, name: str) -> None:
    (home / "metadata" / name).write_bytes(b"<html>AccessDenied</html>")


SUMMARY = {"operation": "append", "total-data-files": "3"}
LOST: Mapping[str, tuple[Callable[[Path, str], None], str, tuple[str, str, str], set[str]]] = {
    "a live manifest is gone":
        (drop, "m2.avro", ("missing_metadata", "m2.avro", "1 files of main"), {"a", "b"}),
    "a live manifest is not an Avro file":
        (scribble, "m2.avro", ("missing_metadata", "m2.avro", "1 files of main"), {"a", "b"}),
    "a live manifest is torn":
        (tear, "m1x.avro", ("missing_metadata", "m1x.avro", "1 files of main"), {"a", "b", "c"}),
    "a manifest of the past is gone":
        (drop, "m1.avro", ("dropped_history", "m1.avro", "2 files of older snapshots"), {"a", "b", "c"}),
    "the list of main is gone":
        (drop, "snap-2-1.avro", ("missing_metadata", "snap-2-1.avro", "3 data files of main"), {"a", "b"}),
    "a list of the past is torn":
        (tear, "snap-1-1.avro", ("dropped_history", "snap-1-1.avro", "every file of snapshot 1"), {"a", "b", "c"}),
}  # fmt: skip


@pytest.mark.parametrize("case", LOST)
def test_missing_metadata_is_an_evidence_gap_with_its_hidden_files_and_the_rest_is_read(
    tmp_path: Path, case: str
) -> None:
    harm, name, hole, left = LOST[case]
    write_metadata(tmp_path, {1: ONE, 2: replace(TWO, summary=SUMMARY)})
    harm(tmp_path, name)
    claims = read(tmp_path)
    assert gaps_of(claims) == [hole]
    assert claims.states["t"].complete is False
    assert set(states_of(tmp_path)) == left


def manifest(records: list[Any], **header: str) -> bytes:
    return avro(SCHEMA, records, {"format-version": "2", **SPEC, **header})


def entry(**file: Any) -> dict[str, Any]:
    whole = {"content": 0, "file_path": "s3://b/k", "file_format": "PARQUET", "partition": {"day": "x"},
             "record_count": 1, "file_size_in_bytes": 1, "content_offset": None} | file  # fmt: skip
    return {"status": 1, "snapshot_id": None, "sequence_number": None, "data_file": whole}


HOSTILE: Mapping[str, tuple[bytes, str, str]] = {
    "a version to come": (manifest([entry()], **{"format-version": "4"}), "unreadable_evidence",
                          "its format version 4 is not known; 1, 2 and 3 are"),
    "an invalid status": (manifest([entry() | {"status": 7}]), "unreadable_evidence",
                              "an entry cannot be understood (status 7)"),
    "a size below nothing": (manifest([entry(file_size_in_bytes=-1)]), "unreadable_evidence",
                             "an entry cannot be understood (a count of -1)"),
    "a store that nobody knows": (manifest([entry(file_path="gopher://x/y")]), "unreadable_evidence",
                                  "an entry cannot be understood ('gopher://x/y' is in an unknown store)"),
    "an invalid content": (manifest([entry(content=9)]), "unreadable_evidence",
                               "an entry cannot be understood (9)"),
    "records of something else": (avro({"type": "string"}, ["x"], {}),
                                  "unreadable_evidence", "its entries are not records"),
    "a header alone": (b"Obj\x01\x02", "unreadable_evidence", "its Avro header cannot be understood"),
    "nothing": (b"", "missing_metadata", "it is empty"),
}  # fmt: skip


@pytest.mark.parametrize("case", HOSTILE)
def test_a_manifest_that_cannot_be_understood_is_reported_and_stops_nothing(
    tmp_path: Path, case: str
) -> None:
    content, kind, reason = HOSTILE[case]
    write_metadata(tmp_path, {1: Snapshot({"m1": [A], "m2": [B]})})
    (tmp_path / "metadata" / "m2.avro").write_bytes(content)
    claims = read(tmp_path)
    assert [(hole.kind, hole.reason) for hole in claims.holes] == [(kind, reason)]
    assert set(states_of(tmp_path)) == {"a"}


def test_one_entry_that_is_not_understood_hides_itself_alone(tmp_path: Path) -> None:
    write_metadata(tmp_path, {1: ONE})
    (tmp_path / "metadata" / "m1.avro").write_bytes(manifest([entry(content=9), entry(), entry(content=9)]))
    claims = read(tmp_path)
    assert [(hole.count, hole.hides) for hole in claims.holes] == [
        (2, "2 of the files that this manifest names")
    ]
    assert set(states_of(tmp_path)) == {"k"}


# ---------------------------------------------------------------------------------------------- metadata.json


NAMES = {
    "00007-0b1c.metadata.json": 7, "v12.metadata.json": 12, "00003-x.gz.metadata.json": 3, "v2.metadata.json.gz": 2,
    "v3.gz.metadata.json": 3, "snap-1.avro": None, "version-hint.text": None, "x.metadata.json": None,
    "00001-a.stats": None,
}  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_names_of_metadata_have_a_number(name: str) -> None:
    assert number_of(name) == NAMES[name]


BROKEN = {
    "a version to come": (b'{"format-version": 4}', "format version 4 is not known"),
    "no version": (b"{}", "not Iceberg metadata"),
    "no JSON": (b"{", "not Iceberg metadata"),
    "a list": (b"[]", "not Iceberg metadata"),
    "too deep": (b"[" * 100_000, "not Iceberg metadata"),
    "no location": (b'{"format-version": 2, "last-updated-ms": 1}', "cannot be understood"),
    "a time of no calendar": (
        b'{"format-version": 2, "location": "/x", "last-updated-ms": 99999999999999999999}',
        "cannot be understood",
    ),
    "a snapshot of nothing": (
        (
            b'{"format-version": 2, "location": "/x", "last-updated-ms": 1,'
            b' "snapshots": [{"snapshot-id": 1, "timestamp-ms": 1}]}'
        ),
        "cannot be understood",
    ),
    "no gzip": (b"\x1f\x8b\x00", "not Iceberg metadata"),
}


WHOLE: dict[str, Any] = {
    "format-version": 2, "location": "/x", "last-updated-ms": 9, "last-sequence-number": 2, "current-snapshot-id": 2,
    "snapshots": [
        {"snapshot-id": id_, "sequence-number": id_, "timestamp-ms": id_, "manifest-list": f"/x/{id_}.avro"}
        for id_ in (1, 2)
    ],
    "refs": {"main": {"snapshot-id": 2, "type": "branch"}, "eoy": {"snapshot-id": 1, "type": "tag"}},
    "schemas": [{"schema-id": 0}, {"schema-id": 1}], "current-schema-id": 1,
    "partition-specs": [{"spec-id": 0}], "default-spec-id": 0,
    "sort-orders": [{"order-id": 0}], "default-sort-order-id": 0,
}  # fmt: skip
CONTRADICTIONS: dict[str, tuple[dict[str, Any], str]] = {
    "no such current snapshot": ({"current-snapshot-id": 7, "refs": {}}, "current-snapshot-id 7 names no snapshot"),
    "main is elsewhere": (
        {"refs": {"main": {"snapshot-id": 1}}}, "the branch main is at snapshot 1, and current-snapshot-id is 2"
    ),
    "main without a current snapshot": ({"current-snapshot-id": -1}, "main is at snapshot 2"),
    "a tag of nothing": ({"refs": {"eoy": {"snapshot-id": 5, "type": "tag"}}}, "tag eoy names no snapshot"),
    "one id twice": ({"snapshots": [*WHOLE["snapshots"], WHOLE["snapshots"][0]]}, "two snapshots have the id 1"),
    "no such schema": ({"current-schema-id": 3}, "current-schema-id 3 is not among schemas"),
    "no such spec": ({"default-spec-id": 3}, "default-spec-id 3 is not among partition-specs"),
    "no such order": ({"default-sort-order-id": 3}, "default-sort-order-id 3 is not among sort-orders"),
    "numbers beyond the last": ({"last-sequence-number": 1}, "last-sequence-number 1 is lower"),
}  # fmt: skip
CONSISTENT: dict[str, dict[str, Any]] = {
    "as it is": {},
    "no branches, as old writers leave them": {"refs": None},
    "version 1": {"format-version": 1, "refs": None, "schemas": None, "partition-specs": None, "sort-orders": None,
                  "last-sequence-number": None},
    "replaced, and not filled yet": {"current-snapshot-id": -1, "refs": {}},
    "no snapshot": {"current-snapshot-id": None, "refs": {}, "snapshots": []},
}  # fmt: skip


@pytest.mark.parametrize("case", CONTRADICTIONS)
def test_metadata_that_contradicts_itself_is_refused(case: str) -> None:
    change, why = CONTRADICTIONS[case]
    with pytest.raises(NotReadable, match=f"contradicts itself: .*{why}"):
        parse_metadata(json.dumps(WHOLE | change).encode())


@pytest.mark.parametrize("case", CONSISTENT)
def test_metadata_that_agrees_with_itself_is_read(case: str) -> None:
    assert parse_metadata(json.dumps(WHOLE | CONSISTENT[case]).encode()).location == "/x"


def logged(*entries: tuple[int, int], earlier: tuple[int, ...] = (), **more: Any) -> dict[str, Any]:
    """A table whose main has no snapshot; entries (time, snapshot) of its log, and times of the files before it."""
    return {
        "current-snapshot-id": -1, "refs": {}, "last-updated-ms": 9,
        "snapshot-log": [{"timestamp-ms": at, "snapshot-id": id_} for at, id_ in entries],
        "metadata-log": [{"timestamp-ms": at, "metadata-file": f"/x/{at}.metadata.json"} for at in earlier],
        **more,
    }  # fmt: skip


MAINS: dict[str, tuple[dict[str, Any], int | None]] = {
    "it has a snapshot": (logged((9, 2), earlier=(5,), **{"current-snapshot-id": 2}), None),
    "the commit of the last one": (logged((5, 1), (9, 2), earlier=(5,)), 2),
    "the same of null": (logged((9, 2), earlier=(5,), **{"current-snapshot-id": None}), 2),
    "the same without branches": (logged((9, 2), earlier=(5,), refs=None), 2),
    "a rollback": (logged((5, 2), (9, 1), earlier=(5, 7)), 1),
    "the first file of a table": (logged((9, 1)), 1),
    "replaced later": (logged((5, 2), earlier=(5,)), None),
    "replaced, and the log cleared": (logged(earlier=(5,)), None),
    "replaced by a clock that is behind": (logged((9, 2), earlier=(9,)), None),
    "of a snapshot that has expired": (logged((9, 7), earlier=(5,)), None),
}  # fmt: skip


@pytest.mark.parametrize("case", MAINS)
def test_a_main_that_lost_its_snapshot_differs_from_a_replaced_table(case: str) -> None:
    change, lost = MAINS[case]
    assert parse_metadata(json.dumps(WHOLE | change).encode()).lost_current == lost


@pytest.mark.parametrize("case", BROKEN)
def test_metadata_that_cannot_be_understood_refuses_its_table(tmp_path: Path, case: str) -> None:
    content, why = BROKEN[case]
    with pytest.raises(NotReadable, match=why):
        parse_metadata(content)
    (tmp_path / "metadata").mkdir()
    (tmp_path / "metadata" / "v1.metadata.json").write_bytes(content)
    state = read(tmp_path).states["t"]
    assert state.refused is not None
    assert why in state.refused


def test_packed_metadata_is_unpacked(tmp_path: Path) -> None:
    path = write_metadata(tmp_path, {1: ONE})
    path.with_name("00002-x.gz.metadata.json").write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    assert states_of(tmp_path) == {"a": "live", "b": "live"}


def metadata_of(home: Path, **more: Any) -> Metadata:
    return parse_metadata(write_metadata(home, {1: ONE, 2: TWO}, **more).read_bytes())


def test_the_horizon_is_where_the_ancestors_of_a_head_end(tmp_path: Path) -> None:
    assert metadata_of(tmp_path).horizon == AT
    expired = {1: replace(ONE, parent=99), 2: TWO}
    assert parse_metadata(write_metadata(tmp_path, expired).read_bytes()).horizon == AT
    gap = {1: ONE, 3: replace(TWO, parent=2)}
    assert parse_metadata(write_metadata(tmp_path, gap).read_bytes()).horizon == LATER
    circle = {1: replace(ONE, parent=2), 2: TWO}
    assert parse_metadata(write_metadata(tmp_path, circle).read_bytes()).horizon == AT


def age(path: Path, at: datetime) -> None:
    os.utime(path, (at.timestamp(), at.timestamp()))


def test_the_newest_metadata_is_taken_by_number_whatever_a_copy_did_to_its_time(tmp_path: Path) -> None:
    age(write_metadata(tmp_path, {1: ONE}, number=1), LAST)
    age(write_metadata(tmp_path, {1: ONE, 2: TWO}, number=2), AT)
    assert states_of(tmp_path)["c"] == "live"


def test_a_table_that_was_created_again_in_the_same_place_is_the_younger_one(tmp_path: Path) -> None:
    """Its numbers begin again."""
    write_metadata(tmp_path, {1: ONE}, number=57, uuid="the-dropped-one")
    write_metadata(tmp_path, {3: Snapshot({"new": [C]}, LAST)}, number=1, uuid="the-new-one")
    assert states_of(tmp_path) == {"c": "live"}
    (warning,) = read(tmp_path).warnings
    assert "is of another table (the-dropped-one)" in warning


COUNTED = {
    "as many": ({"total-data-files": "2", "total-delete-files": "0"}, []),
    "more": ({"total-data-files": "3"}, ["t: its newest snapshot counts 3 data files, but its manifests have 2"]),
    "deletes": (
        {"total-delete-files": "1"}, ["t: its newest snapshot counts 1 delete files, but its manifests have 0"]
    ),
    "nothing": ({}, []),
    "no number": ({"total-data-files": "-"}, []),
}  # fmt: skip


@pytest.mark.parametrize("case", COUNTED)
def test_totals_that_differ_from_the_manifests_are_reported(tmp_path: Path, case: str) -> None:
    summary, warnings = COUNTED[case]
    write_metadata(tmp_path, {1: replace(ONE, summary=summary)})
    assert list(read(tmp_path).warnings) == warnings


def test_a_manifest_that_lists_less_than_its_list_counts_is_reported(tmp_path: Path) -> None:
    write_metadata(tmp_path, {1: ONE})
    (tmp_path / "metadata" / "m1.avro").write_bytes(manifest([entry()]))
    (hole,) = read(tmp_path).holes
    assert (hole.kind, hole.reason) == (
        "unreadable_evidence", "it lists 1 files, and 2 by the list that names it",
    )  # fmt: skip


def test_two_files_of_one_step_are_reported_and_the_later_is_used(tmp_path: Path) -> None:
    first = write_metadata(tmp_path, {1: ONE}, number=2)
    first.rename(first.with_name("00002-lost.metadata.json"))
    write_metadata(tmp_path, {1: ONE, 2: TWO}, number=2)
    claims = read(tmp_path)
    assert states_of(tmp_path)["c"] == "live"
    (warning,) = claims.warnings
    assert "00002-lost.metadata.json" in warning


def test_the_lake_file_may_name_one_metadata_json(tmp_path: Path) -> None:
    first = write_metadata(tmp_path, {1: ONE}, number=1)
    write_metadata(tmp_path, {1: ONE, 2: TWO}, number=2)
    rows = claim_table(read(tmp_path, metadata=first)).to_pylist()
    assert {r["key"][-1] for r in rows if r["category"] == "data"} == {"a", "b"}


def test_the_lake_file_may_name_another_folder(tmp_path: Path) -> None:
    write_metadata(tmp_path / "home", {1: ONE})
    other = tmp_path / "elsewhere"
    (tmp_path / "home" / "metadata").rename(other)
    claims = read(tmp_path / "home", metadata=other)
    assert claims.states["t"].refused is None
    assert gaps_of(claims)[0][0] == "missing_metadata"  # its list was left behind with its name


def test_as_of_a_time_the_state_of_then_is_read(tmp_path: Path) -> None:
    write_metadata(tmp_path, {1: ONE}, number=1)
    write_metadata(tmp_path, {1: ONE, 2: TWO}, number=2)
    then = replace(CONTEXT, live=False, as_of=AT + timedelta(minutes=1))
    assert states_of(tmp_path, then) == {"a": "live", "b": "live"}
    before = replace(CONTEXT, live=False, as_of=AT - timedelta(minutes=1))
    assert read(tmp_path, before).states["t"].refused is not None


# ---------------------------------------------------------------------------------------------- later states


def changed(home: Path, claims: Claims) -> dict[str, str]:
    """By name of data files what the newest state makes of them, where it is something else."""
    found = ICEBERG.changes(claims, [table_at(home)], CONTEXT)
    assert found.unsure == {}
    rows = duck.rows_of(duck.relation(connection(), found.rows))
    return {r["key"].rpartition("/")[2]: r["state"] for r in rows if "/data/" in r["key"]}


def test_changes_are_the_files_whose_part_is_another_one_now(tmp_path: Path) -> None:
    write_metadata(tmp_path, {1: ONE}, number=1)
    claims = read(tmp_path)
    write_metadata(tmp_path, {1: ONE, 2: TWO}, number=2)
    assert changed(tmp_path, claims) == {"a": "history", "c": "live"}
    write_metadata(tmp_path, {2: TWO}, number=3)
    assert changed(tmp_path, claims) == {"a": "gone", "c": "live"} or changed(tmp_path, claims) == {
        "c": "live"
    }


def test_rewritten_manifests_change_no_file(tmp_path: Path) -> None:
    write_metadata(tmp_path, {1: ONE}, number=1)
    claims = read(tmp_path)
    kept = [replace(A, status=EXISTING, snapshot=1), replace(B, status=EXISTING, snapshot=1)]
    write_metadata(tmp_path, {2: Snapshot({"merged": kept}, LATER)}, number=2)
    assert changed(tmp_path, claims) == {}


def test_a_newer_state_that_cannot_be_read_is_unsure(tmp_path: Path) -> None:
    write_metadata(tmp_path, {1: ONE}, number=1)
    claims = read(tmp_path)
    write_metadata(tmp_path, {1: ONE, 2: TWO}, number=2)
    drop(tmp_path, "m2.avro")
    assert set(ICEBERG.changes(claims, [table_at(tmp_path)], CONTEXT).unsure) == {"t"}


def test_a_snapshot_that_expires_while_it_is_read_is_read_from_the_newer_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_metadata(tmp_path, {1: ONE, 2: TWO}, number=1)
    first = lists.read_lists

    def expire(*given: Any) -> Any:
        monkeypatch.setattr(readings, "read_lists", first)
        write_metadata(tmp_path, {2: TWO}, number=2)
        drop(tmp_path, "snap-1-1.avro")
        drop(tmp_path, "m1.avro")
        return first(*given)

    monkeypatch.setattr(readings, "read_lists", expire)
    claims = read(tmp_path)
    assert claims.holes == ()
    states = {
        r["key"].rpartition("/")[2]: r["state"]
        for r in claim_table(claims).to_pylist()
        if "/data/" in r["key"]
    }
    assert states == {"a": "gone", "b": "live", "c": "live"}


ANSWERS = {"a": ("deleted", 2), "b": ("present", 2), "c": ("present", 1), "x": ("absent", 0)}


@pytest.mark.parametrize("name", ANSWERS)
def test_one_file_is_looked_up(tmp_path: Path, name: str) -> None:
    write_metadata(tmp_path, {1: ONE, 2: TWO})
    answer, history, reason = look_up(table_at(tmp_path), Clients(), "", f"{tmp_path}/data/{name}"[1:])
    assert ((answer, len(history)), reason) == (ANSWERS[name], "")


def test_unreadable_metadata_does_not_prove_that_a_file_is_absent(tmp_path: Path) -> None:
    write_metadata(tmp_path, {1: ONE, 2: TWO})
    drop(tmp_path, "m2.avro")
    assert look_up(table_at(tmp_path), Clients(), "", "nowhere")[0] == "unknown"
    assert look_up(table_at(tmp_path / "none"), Clients(), "", "nowhere")[0] == "unknown"


def test_evidence_gaps_belong_to_the_table(tmp_path: Path) -> None:
    write_metadata(tmp_path, {1: ONE})
    drop(tmp_path, "m1.avro")
    assert {(type(hole), hole.table) for hole in read(tmp_path).holes} == {(EvidenceGap, "t")}


def test_a_probe_says_what_an_audit_would_be_refused_for(tmp_path: Path) -> None:
    write_metadata(tmp_path, {1: ONE})
    probe(table_at(tmp_path), Clients())
    with pytest.raises(
        SourceError, match=r"not an Iceberg table: no metadata.json in .*; check the table's location"
    ):
        probe(table_at(tmp_path / "none"), Clients())


def test_places_of_its_own_outside_the_location_are_the_table_s_too(tmp_path: Path) -> None:
    places = {"write.data.path": "s3a://lake/files/", "write.metadata.path": f"file://{tmp_path}/metadata",
              "write.object-storage.path": "gopher://x"}  # fmt: skip
    write_metadata(tmp_path, {1: ONE}, properties=places)
    assert read(tmp_path).states["t"].roots == (Location("lake", "files"),)


KEPT: Mapping[str, tuple[Mapping[str, Any], str]] = {
    "garbage collection is off": ({"properties": {"gc.enabled": "false"}}, UNKNOWN),
    "it is on": ({"properties": {"gc.enabled": "true"}}, FREE),
    "without a setting": ({}, FREE),
}


@pytest.mark.parametrize("case", KEPT)
def test_what_a_table_may_share_is_nobody_s_to_remove(tmp_path: Path, case: str) -> None:
    more, answer = KEPT[case]
    home = tmp_path / "t"
    write_metadata(home, {1: ONE}, **more)
    path = tmp_path / "lake.yaml"
    path.write_text(
        f"version: 1\nlake: l\nresults: {tmp_path / 'results'}\n"
        f"tables: [{{name: t, location: {home}, manifests: [{{kind: iceberg}}]}}]\n"
    )
    stray, listed = (("", f"{home}/data/{name}"[1:]) for name in ("stray", "a"))
    outside = ("", f"{tmp_path}/other"[1:])
    keys = [stray, listed, outside]
    said = NewestClaims(KnownLake(load_lake(path, {}), CONTEXT), InProcessEngine(), keys).of(keys)
    told = {key: [each.answer for each in said[key]] for key in keys}
    assert told == {stray: [] if answer == FREE else [UNKNOWN], listed: [LIVE], outside: []}
