"""Delta tables on S3 and locally, at a moment in the past, while their logs change, and after what was judged."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakeaudit.engine.local import InProcessEngine
from lakeaudit.evidence.files import File, list_files
from lakeaudit.evidence.manifest.delta import reader
from lakeaudit.evidence.manifest.delta import reader as delta
from lakeaudit.evidence.manifest.delta.log import checkpoints, listing, log_files
from lakeaudit.evidence.manifest.delta.log.listing import list_logs
from lakeaudit.evidence.manifest.delta.state.notes import gap_of
from lakeaudit.evidence.protocol import Changes, Claims
from lakeaudit.runtime import duck
from lakeaudit.runtime.connections.aws import Clients
from tests.builders.connections import connection
from tests.builders.delta_lake import (
    BORN,
    NOW,
    Log,
    add,
    at,
    change,
    claim_rows,
    claims_and_gaps,
    context,
    features,
    frozen,
    info,
    metadata,
    millis,
    protocol,
    remove,
    table,
    vacuum,
    vector,
    vector_file,
)
from tests.conftest import Aws


def states(claims: Claims | Changes, name: str = "t") -> dict[str, str]:
    """State by the last part of the key."""
    rows = claim_rows(claims) if isinstance(claims, Claims) else table_of(claims).to_pylist()
    return {row["key"].rpartition("/")[2]: row["state"] for row in rows if row["table_name"] == name}


def table_of(changes: Changes) -> pa.Table:
    assert isinstance(changes.rows, pa.Table)
    return changes.rows


def put(aws: Aws, bucket: str, prefix: str, log: Log) -> None:
    for path in sorted(log.table.rglob("*")):
        if path.is_file():
            key = f"{prefix}/{path.relative_to(log.table)}"
            aws.s3.put_object(Bucket=bucket, Key=key, Body=path.read_bytes())


def test_tables_on_s3(clients: Clients, aws: Aws, bucket: str, tmp_path: Path) -> None:
    """Commits, a checkpoint and sidecars on S3; a table that cannot be reached does not stop the others."""
    plain = (
        Log(tmp_path / "a")
        .checkpoint(3, *BORN, add("p=a%2520b/x"), add("s3://elsewhere/y"))
        .commit(4, add("z"))
    )
    put(aws, bucket, "w/sp ace+%41", plain)
    put(
        aws,
        bucket,
        "v2",
        Log(tmp_path / "b").sidecar_checkpoint(3, *BORN, add("q"), add("r"), form="parquet"),
    )
    tables = [
        table("plain", f"s3://{bucket}/w/sp ace+%41"),
        table("v2", f"s3a://{bucket}/v2/"),
        table("nowhere", "s3://no-such-bucket-here/t"),
    ]
    claims = delta.read(tables, context(clients), "manifest:delta")
    rows = {(row["table_name"], row["bucket"], row["key"], row["own_root"]) for row in claim_rows(claims)}
    assert rows == {
        ("plain", bucket, "w/sp ace+%41/p=a%20b/x", True),
        ("plain", "elsewhere", "y", False),
        ("plain", bucket, "w/sp ace+%41/z", True),
        ("v2", bucket, "v2/q", True),
        ("v2", bucket, "v2/r", True),
    }
    assert "the bucket does not exist" in str(claims.states["nowhere"].refused)
    assert [claims.states[name].refused for name in ("plain", "v2")] == [None, None]
    assert claims.holes == ()


LISTED_ELSEWHERE = [
    # what a table lists, and the folders elsewhere that are told of it
    (["a", "day=1/b", "/own/t/c"], []),
    (["/src/orders/day=1/hour=2/a", "file:///src/orders/day=2/b", "/src/orders/c"], ["/src/orders"]),
    (["s3://lake/wh/orders/a%20b/c=%2541/x", "s3a://lake/wh/other/y"], ["s3://lake/wh/orders/a b", "s3://lake/wh/other"]),
    (["/own/t_2/a"], ["/own/t_2"]),
]  # fmt: skip


FORMS = ["commit", "checkpoint", "refused"]


@pytest.fixture(scope="module")
def roots_elsewhere(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[bool, list[str]]]:
    """By table with files elsewhere, for each form of its log: whether it is refused, and its folders."""
    folder = tmp_path_factory.mktemp("elsewhere")
    homes = {f"{form} {number}": folder / form / str(number) for form in FORMS for number in range(4)}
    for name, home in homes.items():
        form, _, number = name.partition(" ")
        adds = [add(path.replace("/own", str(home))) for path in LISTED_ELSEWHERE[int(number)][0]]
        log = Log(home / "t")
        if form == "checkpoint":
            log.checkpoint(3, *BORN, *adds)
        else:
            second = features("unheardOf") if form == "refused" else add("z")
            log.commit(0, *BORN, *adds).commit(1, second)
    tables = [table(name, home / "t") for name, home in homes.items()]
    states = delta.read(tables, context(), "manifest:delta", frozen).states
    return {
        name: (
            states[name].refused is not None,
            [place.uri.replace(str(home), "/own") for place in states[name].roots],
        )
        for name, home in homes.items()
    }


@pytest.mark.parametrize("number", range(len(LISTED_ELSEWHERE)))
@pytest.mark.parametrize("form", FORMS)
def test_folders_elsewhere_that_hold_files_of_a_table(
    number: int, form: str, roots_elsewhere: dict[str, tuple[bool, list[str]]]
) -> None:
    """A shallow clone names its source's, also where its log asks for what this reader cannot do."""
    expected = LISTED_ELSEWHERE[number][1]
    assert roots_elsewhere[f"{form} {number}"] == (form == "refused", expected)


def test_a_refusal_of_the_store_proves_no_absence(tmp_path: Path) -> None:
    nowhere = Clients(default=Clients().default.__class__(endpoint="http://127.0.0.1:9", region="us-east-1"))
    Log(tmp_path / "t").commits([add("a")])
    tables = [table("far", "s3://lake/t"), table("t", tmp_path / "t")]
    claims = delta.read(tables, context(nowhere), "manifest:delta", frozen)
    assert states(claims) == {"a": "live"}
    assert "cannot be reached" in str(claims.states["far"].refused)


@pytest.mark.parametrize(
    ("hours", "expected"),
    [(1.5, {"a": "live", "b": "live"}), (2, {"a": "history", "b": "live"}), (0.5, {"a": "live"})],
)
def test_a_table_as_it_was(hours: float, expected: dict[str, str], tmp_path: Path) -> None:
    log = Log(tmp_path / "t").commits([add("a")], [add("b")], [remove("a")]).checkpoint(2, *BORN, add("b"))
    log.drop(f"{3:020}.json") if (log.folder / f"{3:020}.json").exists() else None
    claims = delta.read([table("t", log.table)], context(as_of=at(hours)), "manifest:delta", frozen)
    assert states(claims) == expected
    assert claims.states["t"].read_at == at(hours)
    assert claims.states["t"].version == int(hours)


def test_a_table_as_it_was_by_the_time_that_its_commits_carry(tmp_path: Path) -> None:
    timed = metadata(enableInCommitTimestamps="true")
    log = Log(tmp_path / "t").commit(0, info(inCommitTimestamp=millis(at(-9))), protocol(), timed, add("a"))
    log.commit(1, info(inCommitTimestamp=millis(at(-7))), add("b"))
    claims = delta.read([table("t", log.table)], context(as_of=at(-8)), "manifest:delta", frozen)
    assert states(claims) == {"a": "live"}


def test_a_clock_that_is_ahead_makes_no_commit_younger_than_its_file(tmp_path: Path) -> None:
    timed, years = metadata(enableInCommitTimestamps="true"), timedelta(days=5 * 365)
    log = Log(tmp_path / "t").commit(
        0, info(inCommitTimestamp=millis(at(0) + years)), protocol(), timed, add("a")
    )
    log.commit(1, info(inCommitTimestamp=millis(at(1)) - 1000), add("b"))
    claims = delta.read([table("t", log.table)], context(), "manifest:delta", frozen)
    rows = {row["key"].rpartition("/")[2]: row for row in claim_rows(claims)}
    assert rows["a"]["claimed_at"] == at(0).replace(tzinfo=None)
    assert rows["b"]["claimed_at"] == at(1).replace(tzinfo=None) - timedelta(seconds=1), (
        "a clock that is behind stays"
    )
    then = delta.read([table("t", log.table)], context(as_of=at(1)), "manifest:delta", frozen)
    (first,) = [row for row in claim_rows(then) if row["key"].endswith("/a")]
    assert (first["state"], first["claimed_at"]) == ("live", at(0).replace(tzinfo=None))


def test_a_clock_that_is_ahead_removes_no_file_after_its_commit(tmp_path: Path) -> None:
    """The record of a VACUUM explains the files that it deleted, and no others; in a checkpoint, too."""
    years = timedelta(days=5 * 365)
    logs = {folder: Log(tmp_path / folder) for folder in ("commits", "checkpoint")}
    for folder, log in logs.items():
        log.commits([add("a"), add("b")], [remove("a", removed=at(1) + years)], [vacuum(0)])
        if folder == "checkpoint":
            log.checkpoint(1, *BORN, add("b"), remove("a", removed=at(1) + years)).drop(f"{1:020}.json")
        log.commit(3, remove("b", removed=at(3) - timedelta(seconds=1)))
    tables = [table(folder, log.table) for folder, log in logs.items()]
    claims = claim_rows(delta.read(tables, context(), "manifest:delta", frozen))
    for folder in logs:
        rows = {row["key"].rpartition("/")[2]: row for row in claims if row["table_name"] == folder}
        assert rows["a"]["removed_at"] == at(1).replace(tzinfo=None)
        assert rows["b"]["removed_at"] == at(3).replace(tzinfo=None) - timedelta(seconds=1)
        assert (rows["a"]["explained"], rows["b"]["explained"]) == (True, False)


def test_before_its_first_commit_it_is_not_a_table(tmp_path: Path) -> None:
    log = Log(tmp_path / "t").commits([add("a")])
    claims = delta.read([table("t", log.table)], context(as_of=at(-1)), "manifest:delta", frozen)
    assert "not a Delta table at" in str(claims.states["t"].refused)


def test_a_log_that_is_cleaned_up_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files go between listing and reading: the log is listed again, and nothing is missed."""
    log = Log(tmp_path / "t").checkpoint(1, *BORN, add("a")).commit(1).commit(2, add("b")).commit(3, add("c"))
    log.checkpoint(3, *BORN, add("a"), add("b"), add("c"))
    listings = list_logs([table("t", log.table)], context(), frozen)
    log.drop(f"{1:020}.checkpoint.parquet", f"{1:020}.json", f"{2:020}.json")
    monkeypatch.setattr(reader, "list_logs", lambda *_: listings)
    claims = delta.read([table("t", log.table)], context(), "manifest:delta", frozen)
    assert states(claims) == {"a": "live", "b": "live", "c": "live"}
    assert (claims.holes, claims.states["t"].refused) == ((), None)


def test_a_commit_that_goes_meanwhile_and_was_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log(tmp_path / "t").commits([add("a")], [add("b")], [add("c")])
    listings = list_logs([table("t", log.table)], context(), frozen)
    log.drop(f"{1:020}.json")
    monkeypatch.setattr(reader, "list_logs", lambda *_: listings)
    claims = delta.read([table("t", log.table)], context(), "manifest:delta", frozen)
    assert [hole.reason for hole in claims.holes] == ["the file of commit 1 is missing"]
    assert states(claims) == {"a": "live", "c": "live"}


def test_what_newer_commits_did(tmp_path: Path) -> None:
    log = Log(tmp_path / "t").commits([add("a"), add("b", vector(1)), add("c"), add("d")], [remove("d")])
    still = Log(tmp_path / "still").commits([add("x")])
    tables = [table("t", log.table), table("still", still.table)]
    claims = delta.read(tables, context(), "manifest:delta", frozen)
    log.commit(2, remove("a", removed=at(40)), remove("b", vector(1)), add("b", vector(2)), add("e"))
    log.commit(3, add("d"), remove("c", removed=at(-90)), change("f"))
    newer = delta.changes(claims, tables, context(), frozen)
    assert newer.unsure == {}
    assert states(newer) == {
        "a": "history", "b": "live", "c": "gone", "d": "live", "e": "live", "f": "history",
        vector_file(1): "history", vector_file(2): "live",
    }  # fmt: skip
    assert states(newer, "still") == {}


def test_what_was_judged_is_not_listed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a log without any such version or a later one is listed whole."""
    logs = {name: Log(tmp_path / name).commits([add("a")], [add("b")], [add("c")]) for name in ("t", "anew")}
    tables = [table(name, log.table) for name, log in logs.items()]
    claims = delta.read(tables, context(), "manifest:delta", frozen)
    logs["t"].commit(3, remove("a"))
    logs["anew"].drop(f"{2:020}.json")
    named: list[str] = []

    def listed(*args: Any, **given: Any) -> Iterator[File]:
        for file in list_files(*args, **given):
            named.append(file.place.key.removeprefix(f"{str(tmp_path)[1:]}/").replace("_delta_log/", ""))
            yield file

    monkeypatch.setattr(listing, "list_files", listed)
    newer = delta.changes(claims, tables, context(), frozen)
    assert sorted(named) == [f"anew/{0:020}.json", f"anew/{1:020}.json", f"t/{2:020}.json", f"t/{3:020}.json"]
    assert (states(newer), newer.unsure) == (
        {"a": "history"},
        {"anew": "its newest version is 1 now, and was 2"},
    )


def test_a_long_log_is_listed_apart_from_many_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logs = [Log(tmp_path / f"{number}").commits(*[[add("a")]] * number) for number in (2, 5, 3, 7, 1)]
    tables = [*(table(log.table.name, log.table) for log in logs), table("nowhere", tmp_path / "nowhere")]
    expected = list_logs(tables, context(), frozen)
    assert [one.log.newest if one.log else None for one in expected] == [1, 4, 2, 6, 0, None]
    weights: list[tuple[int, int]] = []

    class Weighing(InProcessEngine):
        def map(self, function: Any, items: Any, weight: int = 0, **_: Any) -> Any:
            weights.append((sum(map(len, items)), weight))
            return super().map(function, items, weight)

    monkeypatch.setattr(listing, "_SHORT", 3)
    again = list_logs(tables, replace(context(), engine=Weighing()), frozen)
    assert [(one.name, one.refused, one.log and [*one.log.commits.files()]) for one in again] == [
        (one.name, one.refused, one.log and [*one.log.commits.files()]) for one in expected
    ]
    assert weights == [(6, 6 << 14), (2, 2 << 22)]


def test_tables_whose_newer_commits_cannot_be_read_are_unsure(tmp_path: Path) -> None:
    logs = {
        name: Log(tmp_path / name).commits([add("a")]) for name in ("gap", "torn", "feature", "anew", "gone")
    }
    logs["anew"].commit(1)
    tables = [table(name, log.table) for name, log in logs.items()]
    claims = delta.read(tables, context(), "manifest:delta", frozen)
    logs["gap"].commit(2, add("b"))
    logs["torn"].put(f"{1:020}.json", '{"add":{"path":"b"')
    logs["feature"].commit(1, features("timeTravelToMars"))
    logs["anew"].drop(f"{1:020}.json")
    logs["gone"].drop(f"{0:020}.json")
    newer = delta.changes(claims, tables, context(), frozen)
    assert {name: why.split()[0:4] for name, why in newer.unsure.items()} == {
        "gap": ["some", "commits", "from", "1"],
        "torn": ["a", "commit", "since", "then"],
        "feature": ["it", "needs", "reader", "features"],
        "anew": ["its", "newest", "version", "is"],
        "gone": ["not", "a", "Delta", "table:"],
    }
    assert table_of(newer).num_rows == 0


@pytest.mark.parametrize(
    ("settings", "cut_days_ago", "base"),
    [({}, 0, 3), ({}, 4, 2), ({"deletedFileRetentionDuration": "interval 30 days"}, 0, 1)],
    ids=[
        "a week more than is promised",
        "before an older storage snapshot",
        "as far as the table promises",
    ],
)
def test_a_long_history_is_read_as_far_back_as_an_audit_needs_it(
    settings: dict[str, str], cut_days_ago: int, base: int, tmp_path: Path
) -> None:
    log = Log(tmp_path / "t")
    born = [protocol(), metadata(**settings)]
    for version, days in enumerate((90, 60, 20, 15, 13, 1)):
        when = NOW - timedelta(days=days)
        log.commit(version, *(born if version == 0 else ()), add(f"{version}"), when=when)
        if 0 < version < 5:
            log.checkpoint(version, *born, *(add(f"{n}") for n in range(version + 1)))
    now = replace(context(), oldest_cut=NOW - timedelta(days=cut_days_ago))
    claims = delta.read([table("t", log.table)], now, "manifest:delta", frozen)
    assert claims.states["t"].horizon == NOW - timedelta(days=(90, 60, 20, 15, 13, 1)[base])
    assert states(claims) == dict.fromkeys("012345", "live")
    assert claims.states["t"].complete


def test_without_tables_there_are_no_claims() -> None:
    claims = delta.read([], context(), "manifest:delta", frozen)
    assert (claim_rows(claims), dict(claims.states)) == ([], {})


def test_only_tables_whose_logs_changed_are_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = {name: Log(tmp_path / name).commits([add("a")], [add("b")]) for name in ("t", "still")}
    listings = list_logs([table(name, log.table) for name, log in logs.items()], context(), frozen)
    logs["t"].drop(f"{0:020}.json").checkpoint(1, *BORN, add("a"), add("b"))
    monkeypatch.setattr(reader, "list_logs", lambda *_: listings)
    claims = delta.read(
        [table(name, log.table) for name, log in logs.items()], context(), "manifest:delta", frozen
    )
    assert [sum(kept.counts.values()) for kept in claims.rows[:-1]] == [3, 2]  # type: ignore[union-attr]
    assert states(claims) == states(claims, "still") == {"a": "live", "b": "live"}


class TestLargeCheckpoints:
    """Checkpoints that are read on demand."""

    @pytest.fixture(autouse=True)
    def late(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(log_files, "_SMALL_PARQUET", -1)
        monkeypatch.setattr(checkpoints, "_SMALL", -1)

    def test_on_s3(self, clients: Clients, aws: Aws, bucket: str, tmp_path: Path) -> None:
        log = Log(tmp_path / "t").sidecar_checkpoint(
            3, *BORN, add("p=a%2520b/x", vector(1)), add("y"), form="parquet"
        )
        put(aws, bucket, "w/t", log.commit(4, remove("y", removed=datetime.now(UTC))))
        claims = delta.read([table("t", f"s3://{bucket}/w/t")], context(clients), "manifest:delta")
        assert states(claims) == {"x": "live", "y": "history", vector_file(1): "live"}
        assert claims.states["t"].refused is None

    @pytest.mark.parametrize("how", ["gone", "damaged"])
    def test_one_that_is_lost_afterwards_is_an_evidence_gap(self, how: str, tmp_path: Path) -> None:
        log = Log(tmp_path / "t").checkpoint(1, *BORN, *[add(f"{n:03}") for n in range(400)])
        name = f"{1:020}.checkpoint.parquet"
        claims = delta.read([table("t", log.table)], context(), "manifest:delta", frozen)
        assert (claims.holes, claims.states["t"].refused) == ((), None)
        content = (log.folder / name).read_bytes()
        log.drop(name) if how == "gone" else log.put(name, content[:40] + b"\0" * 2000 + content[2040:])
        rows, (hole,) = claims_and_gaps(claims)
        assert rows == []
        assert (hole.kind, hole.table, hole.subject) == ("missing_metadata", "t", str(log.folder / name))
        assert (hole.reason, hole.hides) == (
            "it is damaged or missing",
            "every file that the table lists",
        )

    def test_paths_that_cannot_be_understood_are_an_evidence_gap(self, tmp_path: Path) -> None:
        bad = [add("b%zz"), add("c", {"storageType": "u", "pathOrInlineDv": "too short"})]
        log = Log(tmp_path / "t").checkpoint(1, *BORN, add("a"), *bad)
        rows, (hole,) = claims_and_gaps(
            delta.read([table("t", log.table)], context(), "manifest:delta", frozen)
        )
        assert {row["key"].rpartition("/")[2] for row in rows} == {"a", "c"}
        assert (hole.kind, hole.count, hole.hides) == ("unreadable_evidence", 2, "the files that they name")

    def test_an_error_while_its_rows_are_used_is_an_evidence_gap_as_well(self, tmp_path: Path) -> None:
        log = Log(tmp_path / "t").checkpoint(1, *BORN, add("a"))
        batches = self.batches(log, connection())
        assert next(batches)[0] == "steps"
        kind, found = batches.throw(duck.DuckError("broken"))
        assert kind == "notes"
        assert gap_of(found.to_pylist()[0]) is not None

    def test_only_the_requested_columns_are_read(self, tmp_path: Path) -> None:
        log = Log(tmp_path / "t").checkpoint(1, *BORN, add("a"))
        con = connection()
        batches = self.batches(log, con)
        _, steps = next(batches)
        plan = duck.query(con, "SELECT bucket, key, size FROM steps", steps=steps).explain()
        assert "stats" not in plan
        assert "partitionValues" not in plan

    def batches(self, log: Log, con: duck.Connection) -> Any:
        """Yield the rows of the only part."""
        (source,) = delta.read([table("t", log.table)], context(), "manifest:delta", frozen).rows
        assert isinstance(source, tuple)
        return source[0].read(con)
