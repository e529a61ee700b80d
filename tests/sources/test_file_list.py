"""`file_list` read as evidence: the lists, their folded claims, and the gaps of missing and broken ones."""

import json
import os
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeaudit.config import Table
from lakeaudit.emit import WrittenFile, emit
from lakeaudit.engine.local import InProcessEngine, LocalBufferedRows
from lakeaudit.evidence.manifest.file_list import FileListManifest
from lakeaudit.evidence.manifest.file_list import reader as file_list
from lakeaudit.evidence.manifest.file_list.discover import find, numbered
from lakeaudit.evidence.manifest.file_list.fold import ACTS, EVENTS
from lakeaudit.evidence.manifest.file_list.list_part import parts
from lakeaudit.evidence.protocol import Changes, Claims, Context
from lakeaudit.keys import Location
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.duck import Connection, Rows
from lakeaudit.schemas import CLAIM, NOTE

AT = datetime(2026, 11, 21, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
RowList = list[dict[str, Any]]


def table(name: str, *places: str | Path, complete: bool = True) -> Table:
    manifests = [
        FileListManifest(kind="file_list", location=Location.parse(str(place)), complete=complete)
        for place in places
    ]
    return Table(name=name, location=Location("lake", f"wh/{name}"), manifests=tuple(manifests))


def context(clients: Clients, as_of: datetime | None = None) -> Context:
    return Context(InProcessEngine(2), clients, as_of=as_of or AT, now=AT, live=as_of is None)


def claim_table(claims: Claims) -> pa.Table:
    def fold(con: Connection, tables: Mapping[str, pa.Table]) -> Iterator[tuple[str, Rows]]:
        yield "folded", claims.fold(con, tables)

    kept = [source for source in claims.rows if isinstance(source, LocalBufferedRows)]
    batches = [batch for kind, batch in InProcessEngine(2).run(kept, [fold]) if kind == "folded"]
    return pa.Table.from_batches(batches, CLAIM)


def rows_of(claims: Claims | Changes) -> RowList:
    table = claim_table(claims) if isinstance(claims, Claims) else claims.rows
    assert isinstance(table, pa.Table)
    rows = [{k: v for k, v in row.items() if v is not None} for row in table.to_pylist()]
    return sorted(rows, key=lambda row: (row["table_name"], row["bucket"], row["key"]))


def states(claims: Claims | Changes) -> dict[str, str]:
    return {row["key"]: row["state"] for row in rows_of(claims)}


def commit(folder: Path, hour: float, *keys: str, **more: Any) -> Path:
    files = [WrittenFile(key, 5) for key in keys]
    return Path(emit(str(folder), files, job_id=f"job-{hour}", committed_at=AT + hour * HOUR, **more))


Read = Callable[..., Claims]


@pytest.fixture
def read(clients: Clients) -> Read:
    def read(*tables: Table, as_of: datetime | None = None) -> Claims:
        return file_list.read(tables, context(clients, as_of), "manifest:file_list")

    return read


@pytest.mark.parametrize("form", ["jsonl", "csv", "parquet", "json"])
def test_no_file_is_claimed_later_than_its_list_was_written(read: Read, tmp_path: Path, form: str) -> None:
    late = (AT + timedelta(days=5 * 365)).isoformat()
    place = tmp_path / f"1.{form}"
    if form == "csv":
        place.write_text(f"path,size,committed_at\nwh/t/a,5,{late}\n")
    elif form == "parquet":
        of_years = pa.array([AT + timedelta(days=5 * 365)], pa.timestamp("us", "UTC"))
        pq.write_table(pa.table({"path": ["wh/t/a"], "size": [5], "committed_at": of_years}), place)
    else:
        row = {"path": "wh/t/a", "size": 5, "committed_at": late}
        place.write_text(json.dumps(row) + '\n{"end": true, "lines": 1}\n')
    os.utime(place, (AT.timestamp(), AT.timestamp()))
    (claimed,) = rows_of(read(table("t", tmp_path)))
    assert claimed["claimed_at"] == AT.replace(tzinfo=None)


def test_claims_of_many_tables_at_once(read: Read, tmp_path: Path) -> None:
    commit(tmp_path / "t", -5, "wh/t/dt=1/a", "wh/t/dt=1/b")
    commit(tmp_path / "t/later", -3, "wh/t/dt=1/n", action="replace", scope="wh/t/dt=1")
    commit(tmp_path / "u", -4, "wh/u/a", "s3://other/x")
    plain = Table(name="plain", location=Location("lake", "wh/plain"))
    claims = read(table("t", tmp_path / "t"), plain, table("u", tmp_path / "u", complete=False))
    assert claim_table(claims).schema == CLAIM
    common = {
        "source": "manifest:file_list",
        "manifest_kind": "file_list",
        "certain": True,
        "category": "data",
    }
    common |= {"explained": False, "size": 5}
    t = common | {"table_name": "t", "bucket": "lake", "partition_path": "dt=1", "own_root": True}
    u = common | {
        "table_name": "u",
        "partition_path": "",
        "state": "live",
        "listed": 1,
        "commit_id": "job--4",
    }
    at = {hour: (AT + hour * HOUR).replace(tzinfo=None) for hour in (-5, -4, -3)}
    gone = t | {
        "state": "gone",
        "listed": 0,
        "claimed_at": at[-5],
        "removed_at": at[-3],
        "commit_id": "job--5",
    }
    assert rows_of(claims) == [
        gone | {"key": "wh/t/dt=1/a"},
        gone | {"key": "wh/t/dt=1/b"},
        t | {"key": "wh/t/dt=1/n", "state": "live", "listed": 1, "claimed_at": at[-3], "commit_id": "job--3"},
        u | {"bucket": "lake", "key": "wh/u/a", "own_root": True, "claimed_at": at[-4]},
        u | {"bucket": "other", "key": "x", "own_root": False, "claimed_at": at[-4]},
    ]
    assert claims.holes == ()
    assert claims.warnings == ()
    assert (claims.info.kind, claims.info.rows) == ("file_list", 6)
    told = {
        name: (state.horizon, state.version, state.complete, state.refused)
        for name, state in claims.states.items()
    }
    assert told == {"t": (AT - 5 * HOUR, None, True, None), "u": (AT - 4 * HOUR, None, False, None)}


def test_lists_on_s3_in_every_format_of_two_places_fold_together(
    read: Read, clients: Clients, bucket: str
) -> None:
    client = clients.s3(bucket)

    def put(key: str, body: str) -> None:
        client.put_object(Bucket=bucket, Key=key, Body=body.encode())

    old, new = "2026-11-20T00:00:00Z", "2026-11-21T00:00:00Z"
    put("m/2026/b:1 %20.csv", f"path,size,committed_at,action\nwh/t/a,1,{old},add\nwh/t/b,2,{old},\n")
    put("m/_temporary/0/x.csv", "path\nwh/t/unfinished\n")
    put("m/note.txt", "not a list")
    put("m/_SUCCESS", "")
    put("m/", "")
    put(
        "one.json",
        json.dumps({"path": "wh/t/b", "action": "remove", "committed_at": new})
        + '\n{"end": true, "lines": 1}',
    )
    claims = read(table("t", f"s3://{bucket}/m", f"s3://{bucket}/one.json"))
    assert states(claims) == {"wh/t/a": "live", "wh/t/b": "gone"}
    assert claims.warnings == (
        f"t: 1 files below s3://{bucket}/m are not lists by their suffix: note.txt ...",
    )
    assert claims.holes == ()


def test_without_commit_times_the_lists_own_time_and_then_its_name_decide(read: Read, tmp_path: Path) -> None:
    for name, action, age in [("c", "add", 3), ("a", "remove", 2), ("d", "remove", 1), ("b", "add", 1)]:
        path = tmp_path / f"{name}.csv"
        path.write_text(f"path,action\nwh/t/f,{action}\n")
        time = (AT - age * HOUR).timestamp()
        os.utime(path, (time, time))
    (row,) = rows_of(read(table("t", tmp_path)))
    assert (row["state"], row["claimed_at"], row["removed_at"]) == (
        "gone",
        *[(AT - HOUR).replace(tzinfo=None)] * 2,
    )


def test_a_past_as_of_leaves_out_what_came_later(read: Read, tmp_path: Path) -> None:
    commit(tmp_path, -5, "wh/t/a")
    commit(tmp_path, -3, "wh/t/a", action="remove")
    commit(tmp_path, -2, "wh/t/b")
    assert states(read(table("t", tmp_path), as_of=AT - 3 * HOUR)) == {"wh/t/a": "gone"}
    early = read(table("t", tmp_path), as_of=AT - 3 * HOUR - timedelta(seconds=1))
    assert states(early) == {"wh/t/a": "live"}
    assert early.states["t"].read_at == AT - 3 * HOUR - timedelta(seconds=1)


def test_a_broken_line_is_an_evidence_gap_of_its_table_and_the_rest_is_read(
    read: Read, tmp_path: Path
) -> None:
    commit(tmp_path / "t", -5, "wh/t/a")
    commit(tmp_path / "u", -5, "wh/u/a")
    broken = tmp_path / "t" / "late.jsonl"
    rows = [
        '{"path": "wh/t/b"}',
        '{"path": "wh/t/c"',
        '{"path": "elsewhere/d"}',
        '{"path": "wh/t/e", "size": "x"}',
    ]
    broken.write_text("\n".join([*rows, '{"path": "wh/t/f"}', '{"end": true, "lines": 5}']))
    claims = read(table("t", tmp_path / "t"), table("u", tmp_path / "u"))
    (hole,) = claims.holes
    assert (hole.table, hole.subject, hole.reason, hole.count) == ("t", str(broken), "line 2: is not JSON", 3)
    told = {row["key"]: (row["state"], row["certain"]) for row in rows_of(claims)}
    assert told == {
        "wh/t/a": ("live", False),
        "wh/t/b": ("live", False),
        "wh/t/f": ("live", True),
        "wh/u/a": ("live", True),
    }
    assert {name: state.refused for name, state in claims.states.items()} == {"t": None, "u": None}


@pytest.mark.parametrize(
    ("complete", "holes"), [(True, ["line 2: no end line: the list may be cut off"]), (False, [])]
)
def test_a_list_without_end_is_an_evidence_gap_if_the_claims_must_be_whole(
    read: Read, tmp_path: Path, complete: bool, holes: Sequence[str]
) -> None:
    (tmp_path / "l.jsonl").write_text('{"path": "wh/t/a"}\n')
    claims = read(table("t", tmp_path, complete=complete))
    assert [hole.reason for hole in claims.holes] == holes
    assert states(claims) == {"wh/t/a": "live"}
    assert claims.states["t"].complete is complete


def test_tables_whose_lists_cannot_be_read_are_refused_and_the_others_go_on(
    read: Read, tmp_path: Path, bucket: str
) -> None:
    commit(tmp_path / "good", -5, "wh/good/a")
    (tmp_path / "rotten").mkdir()
    (tmp_path / "rotten/l.parquet").write_text("no Parquet")
    claims = read(
        table("good", tmp_path / "good"),
        table("rotten", tmp_path / "rotten"),
        table("missing", tmp_path / "missing"),
        table("nowhere", f"s3://{bucket}/nowhere"),
        table("no-bucket", "s3://no-such-bucket-here/lists"),
    )
    refused = {name: state.refused for name, state in claims.states.items()}
    assert refused.pop("good") is None
    for name, told in {
        "rotten": "l.parquet cannot be read: ",
        "missing": "missing holds no lists: check the location",
        "nowhere": "nowhere holds no lists: check the location",
        "no-bucket": "s3://no-such-bucket-here/lists: the bucket does not exist",
    }.items():
        assert told in str(refused[name])
        assert "\n" not in str(refused[name])
    assert states(claims) == {"wh/good/a": "live"}


def test_one_unreadable_list_among_others_is_an_evidence_gap(read: Read, tmp_path: Path) -> None:
    commit(tmp_path, -5, "wh/t/a")
    (tmp_path / "l.parquet").write_text("no Parquet")
    claims = read(table("t", tmp_path))
    assert [(hole.table, hole.subject) for hole in claims.holes] == [("t", str(tmp_path / "l.parquet"))]
    assert claims.states["t"].refused is None
    assert [row["certain"] for row in rows_of(claims)] == [False]


def test_an_empty_folder_claims_nothing_and_warns(read: Read, tmp_path: Path) -> None:
    claims = read(table("t", tmp_path))
    assert rows_of(claims) == []
    assert (claims.states["t"].complete, claims.states["t"].refused, claims.states["t"].horizon) == (
        True,
        None,
        None,
    )
    assert [warning.partition(" holds no list")[0] for warning in claims.warnings] == [f"t: {tmp_path}"]


def test_what_is_read_is_pinned(read: Read, tmp_path: Path) -> None:
    commit(tmp_path, -5, "wh/t/a")
    first = read(table("t", tmp_path)).info.identity
    assert read(table("t", tmp_path)).info.identity == first
    assert first.startswith("1 list, sha256:")
    commit(tmp_path, -4, "wh/t/b")
    assert read(table("t", tmp_path)).info.identity != first


def test_changes_are_what_lists_say_now(clients: Clients, read: Read, tmp_path: Path) -> None:
    here = table("t", tmp_path)
    doomed = commit(tmp_path, -9, "wh/t/forgotten")
    commit(tmp_path, -5, "wh/t/a", "wh/t/b", "wh/t/c")
    claims = read(here)
    seen = rows_of(claims)
    assert rows_of(file_list.changes(claims, [here], context(clients))) == []
    commit(tmp_path, -1, "wh/t/a", action="remove")
    commit(tmp_path, 0.5, "wh/t/b", "wh/t/d")
    doomed.unlink()
    found = file_list.changes(claims, [here], context(clients))
    assert states(found) == {"wh/t/a": "gone", "wh/t/b": "live", "wh/t/d": "live", "wh/t/forgotten": "gone"}
    assert found.unsure == {}
    assert rows_of(claims) == seen
    (tmp_path / "torn.jsonl").write_text("{")
    assert list(file_list.changes(claims, [here], context(clients)).unsure) == ["t"]


def test_rows_of_a_list_stay_as_read_when_it_changes(read: Read, tmp_path: Path) -> None:
    place = commit(tmp_path, -5, "wh/t/a")
    claims = read(table("t", tmp_path))
    place.write_text("{")
    assert states(claims) == {"wh/t/a": "live"}


def test_what_a_part_gives(clients: Clients, tmp_path: Path) -> None:
    """Rows with a path are events; acts and what casts doubt on a table are few; a list is one note."""
    rows = [{"path": f"wh/t/{n}", "action": "replace", "scope": "wh/t"} for n in range(3)]
    lost = [{"path": f"elsewhere/{n}"} for n in range(5)]
    place = tmp_path / "l.jsonl"
    place.write_text("\n".join(json.dumps(row) for row in [*rows, *lost, {"path": "wh/t/a", "size": "x"}]))
    claims = file_list.read([table("t", tmp_path, complete=False)], context(clients), "m")
    (kept,) = claims.rows
    assert isinstance(kept, LocalBufferedRows)
    assert kept.counts == {"events": 4, "acts": 2}
    schemas = {chunk.kind: chunk.batch.schema for chunk in kept.chunks}
    assert schemas == {"events": EVENTS, "acts": ACTS}
    assert [set(note) for note in kept.notes] == [set(NOTE.names)]
    assert (claims.info.rows, [hole.count for hole in claims.holes]) == (3, [6])


def test_parts_and_folds_travel_by_pickle(clients: Clients, read: Read, tmp_path: Path) -> None:
    commit(tmp_path, -5, "wh/t/a")
    commit(tmp_path, -4, "wh/t/b")
    found = numbered(find([table("t", tmp_path)], clients))
    made = pickle.loads(pickle.dumps(parts(found, clients, "m", None, 1)))
    assert [part.source for part in made] == ["m"]
    assert made[0].weight > sum(listed.size for listed in found) > 0
    assert InProcessEngine(1).keep(made).counts["events"] == 2
    claims = read(table("t", tmp_path))
    assert states(replace(claims, fold=pickle.loads(pickle.dumps(claims.fold)))) == states(claims)
