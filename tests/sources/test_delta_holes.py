"""Delta logs with something missing, torn, unknown or out of place: the claims that remain, and the gaps."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeaudit.evidence.manifest.delta import reader as delta
from lakeaudit.evidence.protocol import Claims
from tests.builders.delta_lake import (
    BORN,
    Log,
    add,
    at,
    claim_rows,
    claim_summary,
    context,
    features,
    frozen,
    info,
    metadata,
    protocol,
    remove,
    table,
    vector,
    vector_file,
)

Row = dict[str, Any]


@dataclass(frozen=True)
class Damage:
    """Holds a log and the expected claims, evidence gaps (kind, file, count), and part of the refusal."""

    log: Callable[[Log], Log]
    claims: dict[str, str] = field(default_factory=dict)
    holes: set[tuple[str, str, int]] = field(default_factory=set)
    refused: str | None = None
    warning: str | None = None


def commit(version: int) -> str:
    return f"_delta_log/{version:020}.json"


def checkpoint(version: int) -> str:
    return f"_delta_log/{version:020}.checkpoint.parquet"


def missing_file(name: str, count: int = 1) -> set[tuple[str, str, int]]:
    return {("missing_metadata", name, count)}


def swap_sidecar(log: Log) -> Log:
    """Replace a sidecar by another valid file."""
    return log._parquet("_sidecars/2-1.parquet", [add(f"other-{n}") for n in range(100)], 2)


def encrypt(log: Log, name: str) -> Log:
    """Mark the footer as encrypted, as a writer with keys does."""
    content = (log.folder / name).read_bytes()
    return log.put(name, b"PARE" + content[4:-4] + b"PARE")


def tear(log: Log, version: int, cut: int) -> Log:
    name = f"{version:020}.json"
    return log.put(name, (log.folder / name).read_bytes()[:-cut], at(version))


def garble(log: Log, name: str, start: int, end: int, fill: bytes = b"\0") -> Log:
    content = bytearray((log.folder / name).read_bytes())
    content[start:end] = fill * len(content[start:end])
    return log.put(name, bytes(content))


def not_utf8(log: Log, name: str) -> Log:
    """Replace the path `abcdef` by bytes that are not text, in an otherwise valid file."""
    rows, sink = pq.read_table(log.folder / name), pa.BufferOutputStream()
    pq.write_table(rows, sink, compression="none", write_statistics=False, use_dictionary=False)
    content = sink.getvalue().to_pybytes()
    assert content.count(b"abcdef") == 1
    return log.put(name, content.replace(b"abcdef", b"\xff\xfebcde"))


DAMAGES: dict[str, Damage] = {
    "a missing commit": Damage(
        lambda log: log.commits([add("a"), add("b"), add("c")], [add("d")], [], [add("a"), remove("b")], [add("e")])
        .drop(f"{2:020}.json"),
        {
            "a": "live since 3", "b": "history since 0 removed 3", "c": "live since 0 uncertain",
            "d": "live since 1 uncertain", "e": "live since 4",
        },
        missing_file(commit(2)),
    ),
    "two commits missing in a row": Damage(
        lambda log: log.commits([add("a")], [], [], [add("b")]).drop(f"{1:020}.json", f"{2:020}.json"),
        {"a": "live since 0 uncertain", "b": "live since 3"},
        missing_file(commit(1)) | missing_file(commit(2)),
    ),
    "a removal before the gap may have been undone in it": Damage(
        lambda log: log.commits([add("a")], [remove("a")], [], []).drop(f"{2:020}.json"),
        {"a": "history since 0 removed 1 uncertain"},
        missing_file(commit(2)),
    ),
    "a deletion vector updated in the gap": Damage(
        lambda log: log.commits([add("a"), add("b")], [], [add("a", vector(2)), remove("a", vector(1))],
                                [remove("b", vector(3))]).drop(f"{1:020}.json"),
        {
            "a": "live since 2", "b": "history since 0 removed 3",
            vector_file(2): "live since 2 deletes", vector_file(1): "history since 0 removed 2 deletes uncertain",
            vector_file(3): "history since 0 removed 3 deletes uncertain",
        },
        missing_file(commit(1)),
    ),
    "a gap that a checkpoint bridges": Damage(
        lambda log: log.commits([add("a")], [], [], []).drop(f"{1:020}.json").checkpoint(2, *BORN, add("a")),
        {"a": "live since 2"},
        warning="the file of commit 1 is missing",
    ),
    "a torn last line": Damage(
        lambda log: tear(log.commits([add("a")], [add("b"), add("c")], [add("d")]), 1, 20),
        {"a": "live since 0 uncertain", "b": "live since 1", "d": "live since 2"},
        missing_file(commit(1)),
    ),
    "a torn newest commit": Damage(
        lambda log: tear(log.commits([add("a"), add("b")], [remove("b"), add("a")]), 1, 20),
        {"a": "live since 0 uncertain", "b": "history since 0 removed 1 uncertain"},
        missing_file(commit(1)),
    ),
    "a line that is not UTF-8": Damage(
        lambda log: garble(log.commits([add("a")], [add("b")]), f"{1:020}.json", 12, 14, b"\xff"),
        {"a": "live since 0 uncertain"},
        missing_file(commit(1)),
    ),
    "an emptied commit in the middle": Damage(
        lambda log: log.commits([add("a")], [add("b")], [add("c")]).put(f"{1:020}.json", "", at(1)),
        {"a": "live since 0 uncertain", "c": "live since 2"},
        missing_file(commit(1)),
    ),
    "a newest commit of blanks": Damage(
        lambda log: log.commits([add("a")], [add("b")]).put(f"{1:020}.json", " " * 200 + "\n", at(1)),
        {"a": "live since 0 uncertain"},
        missing_file(commit(1)),
    ),
    "a commit cut at the end of a line": Damage(
        lambda log: log.commits([add("a")], [info(operationMetrics={"numOutputRows": "20"}), add("b")], [add("c")]),
        {"a": "live since 0 uncertain", "b": "live since 1", "c": "live since 2"},
        {("", commit(1), 1)},  # a witness reports it
    ),
    "commits that hold commitInfo alone, or none": Damage(
        lambda log: log.commits([add("a")], [info("SET TBLPROPERTIES")], [{"txn": {"appId": "x", "version": 1}}]),
        {"a": "live since 0"},
    ),
    "a path that is not UTF-8 in the only checkpoint": Damage(
        lambda log: not_utf8(log.checkpoint(4, *BORN, add("abcdef"), add("b")), f"{4:020}.checkpoint.parquet"),
        {},
        missing_file(checkpoint(4)),
        "no state can be rebuilt",
    ),
    "a path that is a list": Damage(
        lambda log: log.commits([add("a")], [{"add": {"path": ["b"], "partitionValues": {}, "size": 1}}]),
        {"a": "live since 0 uncertain"},
        missing_file(commit(1)),
    ),
    "nothing at all below the log": Damage(
        lambda log: log.commits([], [], [add("a")]).drop(f"{0:020}.json", f"{1:020}.json"),
        {},
        missing_file(commit(1)),
        "no state can be rebuilt",
    ),
    "the checkpoint of a cleaned-up log": Damage(
        lambda log: log.commit(5, add("a")).put("_last_checkpoint", '{"version":4,"size":3}'),
        {},
        missing_file(checkpoint(4)),
        "no state can be rebuilt",
    ),
    "a part of the only checkpoint": Damage(
        lambda log: log.checkpoint(4, *BORN, add("a"), parts=2).drop(f"{4:020}.checkpoint.{2:010}.{2:010}.parquet"),
        {},
        missing_file(f"_delta_log/{4:020}.checkpoint.{2:010}.{2:010}.parquet"),
        "no state can be rebuilt",
    ),
    "the only checkpoint cut short": Damage(
        lambda log: garble(log.checkpoint(4, *BORN, add("a")), f"{4:020}.checkpoint.parquet", -200, None),  # type: ignore[arg-type]
        {},
        missing_file(checkpoint(4)),
        "no state can be rebuilt",
    ),
    "the newest checkpoint cut short, its commits at hand": Damage(
        lambda log: garble(log.commits([add("a")], [add("b")]).checkpoint(1, *BORN, add("a"), add("b")),
                           f"{1:020}.checkpoint.parquet", -200, None),  # type: ignore[arg-type]
        {"a": "live since 0", "b": "live since 1"},
        missing_file(checkpoint(1)),
    ),
    "a checkpoint damaged within": Damage(
        lambda log: garble(log.checkpoint(1, *BORN, *[add(f"{n:03}") for n in range(400)]).commit(2, add("b"))
                           .checkpoint(2, *BORN, add("a"), add("b")), f"{1:020}.checkpoint.parquet", 40, 2000),
        {"a": "live since 2", "b": "live since 2"},
        warning="damaged or missing",
    ),
    "a sidecar that is gone": Damage(
        lambda log: log.sidecar_checkpoint(2, *BORN, add("a"), add("b"), form="json").drop("_sidecars/2-1.parquet"),
        {},
        missing_file("_delta_log/_sidecars/2-1.parquet"),
        "no state can be rebuilt",
    ),
    "a sidecar that is gone, its commits at hand": Damage(
        lambda log: log.commits([add("a")], [add("b")]).sidecar_checkpoint(
            1, *BORN, add("a"), add("b"), form="parquet").drop("_sidecars/1-0.parquet"),
        {"a": "live since 0", "b": "live since 1"},
        missing_file("_delta_log/_sidecars/1-0.parquet"),
    ),
    "a sidecar of another size than its checkpoint records": Damage(
        lambda log: swap_sidecar(log.sidecar_checkpoint(2, *BORN, add("a"), add("b"), form="json")),
        {},
        missing_file("_delta_log/_sidecars/2-1.parquet"),
        "no state can be rebuilt",
    ),
    "a sidecar of another size, its commits at hand": Damage(
        lambda log: swap_sidecar(log.commits([add("a")], [add("b")], []).sidecar_checkpoint(
            2, *BORN, add("a"), add("b"), form="parquet")),
        {"a": "live since 0", "b": "live since 1"},
        missing_file("_delta_log/_sidecars/2-1.parquet"),
    ),
    "a checkpoint that only this reader refuses": Damage(
        lambda log: encrypt(log.checkpoint(4, *BORN, add("a")), f"{4:020}.checkpoint.parquet"),
        {},
        {("unreadable_evidence", checkpoint(4), 1)},
        "no state can be rebuilt",
    ),
    "a checkpoint that only this reader refuses, its commits at hand": Damage(
        lambda log: encrypt(log.commits([add("a")], [add("b")]).checkpoint(1, *BORN, add("a"), add("b")),
                            f"{1:020}.checkpoint.parquet"),
        {"a": "live since 0", "b": "live since 1"},
        {("unreadable_evidence", checkpoint(1), 1)},
    ),
    "a path with a malformed escape": Damage(
        lambda log: log.commits([add("a"), add("b%zz"), add("c%FF")], [remove("d%2")]),
        {"a": "live since 0"},
        {("unreadable_evidence", "_delta_log", 3)},
    ),
    "a deletion vector of an unknown kind": Damage(
        lambda log: log.commits([add("a", {"storageType": "x", "pathOrInlineDv": "?"}),
                                 add("b", {"storageType": "u", "pathOrInlineDv": "too short"})]),
        {"a": "live since 0", "b": "live since 0"},
        {("unreadable_evidence", "_delta_log", 2)},
    ),
    "a reader feature nobody here knows": Damage(
        lambda log: log.commit(0, features("deletionVectors", "timeTravelToMars"), metadata(), add("a")),
        refused="timeTravelToMars",
    ),
    "a newer read protocol": Damage(
        lambda log: log.commit(0, protocol(4, 8), metadata(), add("a")), refused="read protocol 4"
    ),
    "a table managed by a catalog": Damage(
        lambda log: log.commit(0, features("catalogManaged"), metadata(), add("a")), refused="managed by a catalog"
    ),
    "coordinated commits": Damage(
        lambda log: log.commit(0, protocol(1, 7, writerFeatures=["coordinatedCommits-preview"]), metadata()),
        refused="managed by a catalog",
    ),
    "a log without metadata": Damage(lambda log: log.commit(0, add("a")), refused="no protocol and metaData"),
    "a retention that is not an interval": Damage(
        lambda log: log.commit(0, protocol(), metadata(deletedFileRetentionDuration="a while"), add("a")),
        refused="'a while'",
    ),
    "metadata that is not an object": Damage(
        lambda log: log.commit(0, protocol(), {"metaData": 5}, add("a")),
        refused="cannot be understood",
    ),
    "a retention of many years": Damage(
        lambda log: log.commit(0, protocol(), metadata(deletedFileRetentionDuration="interval 999999999999 weeks")),
        refused="cannot be understood",
    ),
    "a vacuum that recorded nonsense": Damage(
        lambda log: log.commits(
            [add("a")], [remove("a")], [info("VACUUM START", timestamp="x", operationParameters=[1])]
        ),
        {"a": "history since 0 removed 1"},
    ),
    "no Delta table": Damage(lambda log: log.put("../part-0.parquet", b"PAR1"), refused="not a Delta table"),
}  # fmt: skip


@pytest.fixture(scope="module")
def read(tmp_path_factory: pytest.TempPathFactory) -> tuple[Claims, list[Row], Path]:
    root = tmp_path_factory.mktemp("damages")
    homes = {name: root / name.replace(" ", "_") for name in DAMAGES}
    for name, damage in DAMAGES.items():
        damage.log(Log(homes[name]))
    tables = [table(name, home) for name, home in homes.items()]
    claims = delta.read(tables, context(), "manifest:delta", frozen)
    return claims, claim_rows(claims), root


@pytest.mark.parametrize("name", DAMAGES)
def test_what_a_damaged_log_still_tells(name: str, read: tuple[Claims, list[Row], Path]) -> None:
    claims, rows, root = read
    home, damage, state = root / name.replace(" ", "_"), DAMAGES[name], claims.states[name]
    holes = {(h.kind, h.subject.removeprefix(f"{home}/"), h.count) for h in claims.holes if h.table == name}
    assert holes == damage.holes
    assert {
        row["key"].removeprefix(f"{home}/"[1:]): claim_summary(
            row, home, {at(hours): hours for hours in range(10)}
        )
        for row in rows
        if row["table_name"] == name
    } == damage.claims
    assert (state.refused is None) == (damage.refused is None)
    assert (damage.refused or "") in (state.refused or "")
    assert "\n" not in (state.refused or "")
    warnings = [line for line in claims.warnings if line.startswith(f"{name}: ")]
    assert len(warnings) == (damage.warning is not None)
    assert (damage.warning or "") in "".join(warnings)


def test_a_file_that_only_this_reader_refuses_is_not_called_lost(
    read: tuple[Claims, list[Row], Path],
) -> None:
    claims, _, _ = read
    for hole in claims.holes:
        if (hole.table or "").startswith("a checkpoint that only"):
            assert hole.reason.startswith(
                "lakeaudit's own Parquet reader cannot read it, which says nothing against"
            )


def test_a_gap_names_the_changes_that_are_hidden(read: tuple[Claims, list[Row], Path]) -> None:
    claims, _, root = read
    (hole,) = [hole for hole in claims.holes if hole.table == "a missing commit"]
    assert hole.subject == f"{root}/a_missing_commit/{commit(2)}"
    assert (hole.reason, hole.hides) == ("the file of commit 2 is missing", "the changes of table version 2")
    assert not claims.states["a missing commit"].complete
