"""Claims of a Delta log about each file: hand-written logs in, claims out. All logs are read together."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lakeaudit.evidence.manifest.delta import point_lookup
from lakeaudit.evidence.manifest.delta import reader as delta
from lakeaudit.evidence.manifest.delta.log import log_files
from lakeaudit.evidence.protocol import Claims
from lakeaudit.runtime.connections.aws import Clients
from tests.builders.delta_lake import (
    BORN,
    NOW,
    Log,
    add,
    at,
    change,
    claim_rows,
    claim_summary,
    context,
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

Row = dict[str, Any]
Story = tuple[Callable[[Log], Log], dict[str, str]]
ONE, TWO = vector(1), vector(2)
SHORT = metadata(deletedFileRetentionDuration="interval 50 hours")

STORIES: dict[str, Story] = {
    "an added file is live since its commit": (
        lambda log: log.commits([add("a")], [add("b")]),
        {"a": "live since 0", "b": "live since 1"},
    ),
    "a removed file is history while its removal is younger than the retention": (
        lambda log: log.commits([add("a"), add("b")], [remove("a")]),
        {"a": "history since 0 removed 1", "b": "live since 0"},
    ),
    "and gone when the promise has expired": (
        lambda log: log.commit(0, protocol(), SHORT, add("a"), add("b"), add("c"))
        .commit(1, remove("a"), remove("b", removed=at(51)), remove("c", removed=at(50)), when=at(52)),
        {"a": "gone since 0 removed 1", "b": "history since 0 removed 51", "c": "gone since 0 removed 50"},
    ),
    "a removal counts from its own time, not from its commit": (
        lambda log: log.commits([add("a")], [remove("a", removed=at(-80))]),
        {"a": "gone since 0 removed -80"},
    ),
    "without a time of its own, from its commit": (
        lambda log: log.commits([add("a")], [remove("a", deletionTimestamp=None)]),
        {"a": "history since 0 removed 1"},
    ),
    "a file that came back is live since then": (
        lambda log: log.commits([add("a")], [remove("a")], [add("a")]),
        {"a": "live since 2"},
    ),
    "a file that went twice is history since it came back": (
        lambda log: log.commits([add("a")], [remove("a")], [add("a")], [remove("a")]),
        {"a": "history since 2 removed 3"},
    ),
    "an add of a listed file renews its metadata only": (
        lambda log: log.commits([add("a")], [add("a")]),
        {"a": "live since 0"},
    ),
    "removed and added in one commit, it is listed": (
        lambda log: log.commits([add("a")], [add("a"), remove("a")]),
        {"a": "live since 0"},
    ),
    "a new deletion vector leaves no gap": (
        lambda log: log.commits([add("a")], [remove("a"), add("a", ONE)]),
        {"a": "live since 0", vector_file(1): "live since 1 deletes"},
    ),
    "an updated deletion vector leaves the old one to history": (
        lambda log: log.commits([add("a")], [remove("a"), add("a", ONE)], [remove("a", ONE), add("a", TWO)]),
        {
            "a": "live since 0",
            vector_file(1): "history since 1 removed 2 deletes",
            vector_file(2): "live since 2 deletes",
        },
    ),
    "a file of deletion vectors is live while one of them is": (
        lambda log: log.commits(
            [add("a", vector(1, 1)), add("b", vector(1, 40))], [remove("b", vector(1, 40)), add("b")]
        ),
        {"a": "live since 0", "b": "live since 0", vector_file(1): "live since 0 deletes"},
    ),
    "a row-less file with its vector goes with it": (
        lambda log: log.commits([add("a", ONE)], [remove("a", ONE)]),
        {"a": "history since 0 removed 1", vector_file(1): "history since 0 removed 1 deletes"},
    ),
    "a remove that names no vector leaves the file listed with the one it has": (
        lambda log: log.commits([add("a", ONE)], [remove("a")]),
        {"a": "live since 0", vector_file(1): "live since 0 deletes"},
    ),
    "listed with two vectors at once is a duplicate": (
        lambda log: log.commits([add("a")], [add("a", ONE)]),
        {"a": "live since 0 listed 2", vector_file(1): "live since 1 deletes"},
    ),
    "vectors inline, absolute and behind a prefix": (
        lambda log: log.commits(
            [
                add("a", {"storageType": "i", "pathOrInlineDv": "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L"}),
                add("b", {"storageType": "p", "pathOrInlineDv": "file:/far/dv%20file.bin", "offset": 4}),
                add("c", vector(3, 4, "ab")),
            ]
        ),
        {
            "a": "live since 0", "b": "live since 0", "c": "live since 0",
            "/far/dv file.bin": "live since 0 deletes", f"ab/{vector_file(3)}": "live since 0 deletes",
        },
    ),
    "change data is promised from its commit on": (
        lambda log: log.commits([add("a")], [change("_change_data/c")]),
        {"a": "live since 0", "_change_data/c": "history since 1 removed 1 changes"},
    ),
    "change data that is a data file as well is a data file": (
        lambda log: log.commits([add("a"), change("a")]),
        {"a": "live since 0"},
    ),
    "a recorded vacuum explains what was old enough for it": (
        lambda log: log.commits([add("a"), add("b"), add("c")], [remove("a")], [], [], [remove("b")], [vacuum(2)],
                                [remove("c")]),
        {
            "a": "history since 0 removed 1 explained",
            "b": "history since 0 removed 4",
            "c": "history since 0 removed 6",
        },
    ),
    "compactions, checksums and hints are not believed": (
        lambda log: log.commits([add("a")], [add("b")], [remove("b")])
        .put(f"{0:020}.{2:020}.compacted.json", '{"add":{"path":"wrong"}}')
        .put(f"{2:020}.crc", '{"numFiles":7}')
        .put("_last_checkpoint", '{"version":1}')
        .put(f"_staged_commits/{3:020}.{'0' * 8}.json", '{"add":{"path":"staged"}}'),
        {"a": "live since 0", "b": "history since 1 removed 2"},
    ),
    "a checkpoint stands for the commits that were cleaned up": (
        lambda log: log.checkpoint(4, *BORN, add("a"), remove("b", removed=at(2)), remove("old", removed=at(-90)))
        .commit(4, add("a")).commit(5, add("c"), remove("a")),
        {
            "a": "history since 4 removed 5", "b": "history since 4 removed 2 explained", "c": "live since 5",
            "old": "gone since 4 removed -90 explained",
        },
    ),
    "while its commits are there the oldest state is the better one": (
        lambda log: log.commits([add("a")], [add("b")]).checkpoint(1, *BORN, add("a"), add("b")),
        {"a": "live since 0", "b": "live since 1"},
    ),
    "of two checkpoints the older reaches further back": (
        lambda log: log.checkpoint(3, *BORN, add("a")).commit(3).commit(4, add("b")).commit(5)
        .checkpoint(5, *BORN, add("a"), add("b")),
        {"a": "live since 3", "b": "live since 4"},
    ),
    "escapes and schemes however they are spelled": (
        lambda log: log.checkpoint(2, *BORN, add("%66"), add("FILE:/far/g%20h")).commit(3, remove("%66")),
        {"f": "history since 2 removed 3", "/far/g h": "live since 2"},
    ),
    "the state of a checkpoint alone": (
        lambda log: log.checkpoint(7, *BORN, add("a")),
        {"a": "live since 7"},
    ),
    "a checkpoint that lists a file twice": (
        lambda log: log.checkpoint(2, *BORN, add("a"), add("a"), add("b")).commit(3, add("c")),
        {"a": "live since 2 listed 2", "b": "live since 2", "c": "live since 3"},
    ),
    "which a later commit puts right": (
        lambda log: log.checkpoint(2, *BORN, add("a"), add("a")).commit(3, add("a")),
        {"a": "live since 2"},
    ),
    "a checkpoint in parts": (
        lambda log: log.checkpoint(2, *BORN, add("a"), add("b"), add("c"), parts=3).commit(3, remove("b")),
        {"a": "live since 2", "b": "history since 2 removed 3", "c": "live since 2"},
    ),
    "one that lacks a part does not count": (
        lambda log: log.checkpoint(2, *BORN, add("a"), parts=2).commit(3, add("b"))
        .checkpoint(3, *BORN, add("wrong"), parts=3).drop(f"{3:020}.checkpoint.{2:010}.{3:010}.parquet"),
        {"a": "live since 2", "b": "live since 3"},
    ),
    "a JSON checkpoint with sidecars": (
        lambda log: log.sidecar_checkpoint(2, *BORN, add("a"), add("b"), remove("c"), form="json")
        .commit(3, remove("a")),
        {"a": "history since 2 removed 3", "b": "live since 2", "c": "history since 2 removed 2 explained"},
    ),
    "a Parquet checkpoint with sidecars": (
        lambda log: log.sidecar_checkpoint(2, *BORN, add("a"), add("b"), form="parquet").commit(3, add("c")),
        {"a": "live since 2", "b": "live since 2", "c": "live since 3"},
    ),
    "commits that carry their own time": (
        lambda log: log.commit(0, info(inCommitTimestamp=millis(at(-5))), protocol(),
                               metadata(enableInCommitTimestamps="true"), add("a"))
        .commit(1, info(inCommitTimestamp=millis(at(-4))), add("b"), remove("a", deletionTimestamp=None)),
        {"a": "history since -5 removed -4", "b": "live since -4"},
    ),
    "from the version on from which they do": (
        lambda log: log.commit(0, info(inCommitTimestamp=millis(at(-5))), *BORN, add("a"))
        .commit(1, info(inCommitTimestamp=millis(at(-4))), add("b"),
                metadata(enableInCommitTimestamps="true", inCommitTimestampEnablementVersion="1")),
        {"a": "live since 0", "b": "live since -4"},
    ),
    "times of commits only grow": (
        lambda log: log.commit(0, *BORN, add("a"), when=at(3)).commit(1, add("b"), when=at(2)),
        {"a": "live since 3", "b": "live since 3+"},
    ),
}  # fmt: skip


@pytest.fixture(scope="module", params=[1 << 20, -1], ids=["at once", "large checkpoints later"])
def read(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Claims, list[Row], Path]]:
    root = tmp_path_factory.mktemp("stories")
    for name, (write, _) in STORIES.items():
        write(Log(root / name.replace(" ", "_")))
    tables = [table(name, root / name.replace(" ", "_")) for name in STORIES]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_files, "_SMALL_PARQUET", request.param)
        claims = delta.read(tables, context(), "manifest:delta", frozen)
        assert bool(claims.rows[-1]) == (request.param < 0)
        yield claims, claim_rows(claims), root


@pytest.mark.parametrize("name", STORIES)
def test_a_log_claims_its_files(name: str, read: tuple[Claims, list[Row], Path]) -> None:
    claims, rows, root = read
    assert _claims_in_short(rows, name, root) == STORIES[name][1]
    assert claims.states[name].refused is None
    assert [hole for hole in claims.holes if hole.table == name] == []


@pytest.mark.parametrize("name", STORIES)
def test_a_lookup_of_one_file_gives_the_same(name: str, read: tuple[Claims, list[Row], Path]) -> None:
    home = read[2] / name.replace(" ", "_")
    for path, claimed in (STORIES[name][1] | {"unheard-of": ""}).items():
        key = path[1:] if path.startswith("/") else f"{str(home)[1:]}/{path}"
        answer, history, reason = point_lookup.read(table(name, home), Clients(), "", key)
        listed = claimed.startswith("live") or claimed.endswith("changes")
        expected = "present" if listed else "deleted" if claimed else "absent"
        assert (path, answer, reason, bool(history)) == (path, expected, "", bool(claimed))


def _claims_in_short(rows: list[Row], name: str, root: Path) -> dict[str, str]:
    """Describe the claims of one story in short, by the key below its table."""
    times = {at(hours): hours for hours in range(-90, 60)} | {at(3).replace(microsecond=1000): "3+"}
    home = root / name.replace(" ", "_")
    prefix = f"{str(home)[1:]}/"
    return {
        f"/{row['key']}".removeprefix(f"/{prefix}"): claim_summary(row, home, times)
        for row in rows
        if row["table_name"] == name
    }


def test_what_else_a_claim_says(read: tuple[Claims, list[Row], Path]) -> None:
    _, rows, _ = read
    (live,) = [row for row in rows if row["table_name"] == "of two checkpoints the older reaches further back"
               and row["key"].endswith("/b")]  # fmt: skip
    assert (live["source"], live["manifest_kind"], live["bucket"]) == ("manifest:delta", "delta", "")
    assert (live["size"], live["records"], live["commit_id"], live["table_version"]) == (100, 10, "4", 5)
    assert (live["etag"], live["version_id"], live["checksum"], live["partition_path"]) == (
        None,
        None,
        None,
        "",
    )
    (vectors,) = [row for row in rows if row["table_name"] == "a new deletion vector leaves no gap"
                  and row["category"] == "deletes"]  # fmt: skip
    assert (vectors["size"], vectors["records"]) == (None, 1)


def test_the_state_of_a_table(read: tuple[Claims, list[Row], Path]) -> None:
    claims, _, _ = read
    state = claims.states["a checkpoint stands for the commits that were cleaned up"]
    assert (state.version, state.horizon, state.read_at) == (5, at(4), NOW)
    assert (state.retention.days if state.retention else None, state.complete) == (7, True)
    assert claims.states["and gone when the promise has expired"].retention == NOW - at(50)
    assert claims.info.identity.startswith("sha256:")
    assert claims.warnings == ()
