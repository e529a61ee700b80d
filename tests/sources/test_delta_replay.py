"""Random histories of a few files, replayed by the reader and by twenty lines of plain Python."""

import pickle
from collections import Counter
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from lakeaudit.evidence.manifest.delta import reader as delta
from lakeaudit.evidence.manifest.delta.log.paths import STEP
from lakeaudit.evidence.manifest.delta.state.replay import TABLE, _with_metadata, files_of
from lakeaudit.evidence.manifest.delta.state.replay import claims as claims_of
from lakeaudit.runtime import duck
from lakeaudit.schemas import CLAIM
from tests.builders.connections import connection
from tests.builders.delta_lake import (
    BORN,
    Action,
    Log,
    add,
    at,
    claim_rows,
    claim_summary,
    context,
    frozen,
    remove,
    table,
    vector,
)
from tests.builders.examples import examples

CON = connection()
PATHS = ("a", "b")
VECTORS = (None, 1, 2)


class Step(NamedTuple):
    """One file action."""

    adds: bool
    path: str
    vector: int | None


STEPS = st.builds(Step, st.booleans(), st.sampled_from(PATHS), st.sampled_from(VECTORS))
HISTORIES = st.lists(st.sets(STEPS, max_size=3), min_size=1, max_size=7)


@examples(2, 30)
@given(st.lists(HISTORIES, min_size=20, max_size=30), st.data())
def test_logs_are_replayed_as_plain_python_does(
    histories: list[list[set[Step]]], data: st.DataObject
) -> None:
    with TemporaryDirectory() as folder:
        homes = [Path(folder, str(number)) for number in range(len(histories))]
        bases = [data.draw(st.integers(0, len(history))) for history in histories]
        for home, history, base in zip(homes, histories, bases, strict=True):
            write(Log(home), history, base)
        tables = [table(str(number), home) for number, home in enumerate(homes)]
        claims = delta.read(tables, context(), "manifest:delta", frozen)
        found: list[dict[str, str]] = [{} for _ in histories]
        times = {at(hours): hours for hours in range(10)}
        for row in claim_rows(claims):
            number = int(row["table_name"])
            if row["category"] == "data":
                found[number][row["key"].rpartition("/")[2]] = claim_summary(row, homes[number], times)
    assert found == [replay(history, base) for history, base in zip(histories, bases, strict=True)]


def write(log: Log, history: list[set[Step]], base: int) -> None:
    """The history as commits; with a base above 0 what was before it is only in a checkpoint."""
    if base == 0:
        for version, steps in enumerate(history):
            log.commit(version, *(BORN if version == 0 else ()), *map(action, sorted(steps, key=str)))
        return
    listed, removed = state(history[:base])
    tombstones = [remove(path, vector(v) if v else None, at(when)) for (path, v), when in removed.items()]
    log.checkpoint(base - 1, *BORN, *[add(path, vector(v) if v else None) for path, v in listed], *tombstones)
    for version in range(base, len(history)):
        log.commit(version, *map(action, sorted(history[version], key=str)))


def action(step: Step) -> Action:
    named = vector(step.vector) if step.vector else None
    return add(step.path, named) if step.adds else remove(step.path, named)


def state(
    history: list[set[Step]], first: int = 0
) -> tuple[set[tuple[str, int | None]], dict[tuple[str, int | None], int]]:
    """Pairs that are listed at the end, and when the others were last removed."""
    listed: set[tuple[str, int | None]] = set()
    removed: dict[tuple[str, int | None], int] = {}
    for version, steps in enumerate(history, first):
        for step in sorted(
            steps, key=lambda step: step.adds
        ):  # removes before adds: in one commit an add wins
            pair = (step.path, step.vector)
            if step.adds:
                listed.add(pair)
                removed.pop(pair, None)
            else:
                listed.discard(pair)
                removed[pair] = version
    return listed, removed


def replay(history: list[set[Step]], base: int) -> dict[str, str]:
    """`told` of every path, one version after the other."""
    first = max(base - 1, 0)
    since: dict[str, int] = {}
    before: set[str] = set()
    for version in range(first, len(history)):
        now = {path for path, _ in state(history[: version + 1])[0]}
        since |= dict.fromkeys(now - before, version)
        before = now
    listed, _ = state(history)
    copies = Counter(path for path, _ in listed)
    removals = _removals(history, base)
    return {
        path: _claim_text(copies[path], since.get(path, first), removals.get(path))
        + ("" if path in since else " explained")
        for path in {*since, *removals}
    }


def _removals(history: list[set[Step]], base: int) -> dict[str, int]:
    """The last time each path was removed, as far as the log still tells."""
    last: dict[str, int] = {}
    tombstones = state(history[:base])[1] if base else {}
    for (path, _), version in tombstones.items():
        last[path] = max(version, last.get(path, -1))
    for version in range(base, len(history)):
        last |= {
            step.path: version
            for step in history[version]
            if not step.adds and step._replace(adds=True) not in history[version]
        }
    return last


def _claim_text(copies: int, since: int, removed: int | None) -> str:
    if copies:
        return f"live since {since}" + (f" listed {copies}" if copies > 1 else "")
    return f"history since {since} removed {removed}"


class Raw(NamedTuple):
    """One step as the fold takes it; times are hours."""

    key: str
    pair: str
    version: int
    added: bool
    checkpoint: bool
    removed: int | None
    size: int | None
    records: int | None
    partition: str | None
    category: str


RAWS = st.builds(
    Raw, st.sampled_from("abcd"), st.sampled_from(["", "u1"]), st.integers(0, 4), st.booleans(), st.booleans(),
    st.none() | st.integers(0, 9), st.none() | st.integers(1, 3), st.none() | st.integers(1, 3),
    st.sampled_from([None, "{}", '{"p":"1"}', '{"p":null,"q":""}']), st.sampled_from(["data", "data", "deletes"]),
)  # fmt: skip


@examples(3, 70)
@given(st.lists(st.tuples(st.lists(RAWS, max_size=10), st.integers(-1, 4)), min_size=10, max_size=10))
def test_files_with_few_steps_need_no_replay(drawn: list[tuple[list[Raw], int]]) -> None:
    """The short ways give what the full replay gives, of ten tables at a time."""
    columns = [{"physical": "p", "logical": "P"}]
    tables = duck.small(
        TABLE,
        [(f"t{n}", 0, 9, 0, hole, _naive(0), _naive(3), None, columns, [], "", f"t{n}/")
         for n, (_, hole) in enumerate(drawn)],
    )  # fmt: skip
    given = [_step(raw, f"t{n}") for n, (raws, _) in enumerate(drawn) for raw in raws]
    steps = _with_metadata(CON, duck.relation(CON, duck.small(STEP, given)), tables)
    ways = [files_of(CON, steps, tables, shortcut=shortcut) for shortcut in (True, False)]
    short, full = (sorted(map(_sorted_row, duck.rows_of(rows)), key=str) for rows in ways)
    assert short == full


def _step(raw: Raw, table: str = "t") -> tuple[Any, ...]:
    at, removed = _naive(raw.version), None if raw.added or raw.removed is None else _naive(raw.removed)
    named = (table, 0, "", f"{table}/{raw.key}", raw.version, raw.checkpoint, at, None, raw.added, removed)
    return (*named, raw.pair, raw.size, None, raw.records, raw.partition, raw.category, None)


def _naive(hours: float) -> datetime:
    return at(hours).replace(tzinfo=None)


def _sorted_row(row: dict[str, Any]) -> list[tuple[str, Any]]:
    return sorted(row.items())


def test_steps_of_another_reading_and_of_unknown_tables_are_left_out() -> None:
    tables = duck.small(TABLE, [("t", 1, 9, 0, -1, _naive(0), _naive(3), None, [], [], "", "t/")])
    step = _step(Raw("a", "", 1, True, False, None, 1, 1, "{}", "data"))
    steps = duck.small(STEP, [step, ("t", 1, *step[2:]), ("other", 1, *step[2:])])
    rows = duck.rows_of(claims_of(tables, "m", CON, {"steps": steps}))
    assert [(row["table_name"], row["listed"]) for row in rows] == [("t", 1)]
    assert duck.rows_of(claims_of(tables, "m", CON, {})) == []


def test_partition_paths() -> None:
    columns = [{"physical": "col-1", "logical": "day"}, {"physical": "k'\u00e9\"", "logical": "k"}]
    tables = duck.small(TABLE, [("t", 0, 9, 0, -1, _naive(0), _naive(3), None, columns, [], "", "t/")])
    given = {
        "a": '{"k\'\u00e9\\"":"x/y=z","col-1":"2020"}', "b": '{"col-1":null}', "c": '{"col-1":""}', "d": "{}",
        "e": None, "f": '{"other":"1"}', "g": '{"col-1":5}',
    }  # fmt: skip
    raws = [Raw(key, "", 1, True, False, None, 1, 1, partition, "data") for key, partition in given.items()]
    rows = duck.rows_of(
        claims_of(tables, "m", CON, {"steps": duck.small(STEP, [_step(raw) for raw in raws])})
    )
    null = "day=__HIVE_DEFAULT_PARTITION__"
    assert {row["key"][2:]: row["partition_path"] for row in rows} == {
        "a": "day=2020/k=x/y=z", "b": null, "c": null, "d": "", "e": "", "f": "", "g": "day=5"
    }  # fmt: skip


def test_the_fold_travels_to_other_processes(tmp_path: Path) -> None:
    write(Log(tmp_path / "t"), [{Step(True, "a", None)}], 0)
    claims = delta.read([table("t", tmp_path / "t")], context(), "manifest:delta", frozen)
    fold = pickle.loads(pickle.dumps(claims.fold))
    (kept, late) = claims.rows
    assert late == ()
    steps = pa.Table.from_batches(kept.batches("steps"))  # type: ignore[union-attr]
    assert duck.rows_of(fold(CON, {"steps": steps})) == claim_rows(claims)
    assert fold(CON, {}).to_arrow_table().schema == CLAIM
