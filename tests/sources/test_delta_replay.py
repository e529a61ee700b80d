"""Random histories of a few files, replayed by Spark and by twenty lines of plain Python."""

from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from lakeaudit.evidence.manifest import delta
from tests.builders.delta_lake import BORN, Action, Log, add, at, context, frozen, remove, table, told, vector

PATHS = ("a", "b")
VECTORS = (None, 1, 2)


class Step(NamedTuple):
    """One file action."""

    adds: bool
    path: str
    vector: int | None


STEPS = st.builds(Step, st.booleans(), st.sampled_from(PATHS), st.sampled_from(VECTORS))
HISTORIES = st.lists(st.sets(STEPS, max_size=3), min_size=1, max_size=7)


@settings(max_examples=3)
@given(st.lists(HISTORIES, min_size=20, max_size=30), st.data())
def test_spark_replays_as_plain_python_does(
    spark: SparkSession, histories: list[list[set[Step]]], data: st.DataObject
) -> None:
    with TemporaryDirectory() as folder:
        homes = [Path(folder, str(number)) for number in range(len(histories))]
        bases = [data.draw(st.integers(0, len(history))) for history in histories]
        for home, history, base in zip(homes, histories, bases, strict=True):
            write(Log(home), history, base)
        tables = [table(str(number), home) for number, home in enumerate(homes)]
        claims = delta.read(tables, context(spark), "manifest:delta", frozen)
        found: list[dict[str, str]] = [{} for _ in histories]
        times = {at(hours): hours for hours in range(10)}
        for row in claims.frame.filter("category = 'data'").collect():
            home = homes[int(row.table_name)]
            found[int(row.table_name)][row.key.rpartition("/")[2]] = told(row, home, times)
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
        path: _words(copies[path], since.get(path, first), removals.get(path)) for path in {*since, *removals}
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


def _words(copies: int, since: int, removed: int | None) -> str:
    if copies:
        return f"live since {since}" + (f" listed {copies}" if copies > 1 else "")
    return f"history since {since} removed {removed}"
