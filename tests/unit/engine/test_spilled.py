"""Rows that wait in files are the rows that wait in memory: the same answers, the same faults, no file left."""

import os
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeaudit.engine.chunks import WHOLE, Reading
from lakeaudit.engine.local import Answers, InProcessEngine
from lakeaudit.engine.spark import SparkEngine
from lakeaudit.engine.spilled import SpillingEngine
from lakeaudit.errors import CannotPublish, SourceError
from lakeaudit.evidence.protocol import Batches, Part
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Rows
from tests.builders.resources import small_files

Keys = list[tuple[str, str]]


def _read(keys: Keys, _: Connection) -> Batches:
    yield "versions", pa.table({"bucket": [b for b, _ in keys], "key": [k for _, k in keys]})


def part(keys: Keys, weight: int = 0) -> Part:
    return Part("storage:0", partial(_read, keys), weight)


def failing(error: Exception) -> Part:
    return Part("storage:0", partial(_fail, error), subject="s3://b/k")


def _fail(error: Exception, con: Connection) -> Batches:
    yield from _read([], con)
    raise error


def count_keys(con: Connection, rows: Any) -> Iterator[tuple[str, Rows]]:
    """One row per key, for the next stage, and an answer for each."""
    if "versions" not in rows:
        return
    sql = "SELECT bucket, key, count(*) AS rows FROM input GROUP BY ALL"
    yield "claims", duck.query(con, sql, input=rows["versions"])
    yield "first", duck.query(con, sql, input=rows["versions"])


def count_repeated(con: Connection, rows: Any) -> Iterator[tuple[str, Rows]]:
    if "claims" in rows:
        yield "second", duck.query(con, "SELECT * FROM input WHERE rows > 1", input=rows["claims"])


def as_it_is(_: Connection, kind: str, rows: Rows) -> Iterator[tuple[str, Rows]]:
    yield kind, rows


def rows_in(answers: Answers) -> Counter[str]:
    return Counter(f"{kind} {row}" for kind, batch in answers for row in batch.to_pylist())


STAGES = [count_keys, count_repeated]
names = st.sampled_from(["a", "b", "ä/ö", "x y", ""])
lists = st.lists(st.lists(st.tuples(names, names), max_size=8), max_size=4)


@given(lists, st.integers(1, 4))
def test_the_answers_are_those_of_rows_in_memory(drawn: list[Keys], threads: int) -> None:
    parts = [part(keys) for keys in drawn]
    wanted = rows_in(InProcessEngine(1).run(parts, STAGES))
    assert rows_in(SpillingEngine(threads).run(parts, STAGES, WHOLE)) == wanted


@given(lists, lists)
def test_rows_that_were_kept_are_judged_with_the_others(kept: list[Keys], others: list[Keys]) -> None:
    told = []
    for engine in (InProcessEngine(1), SpillingEngine(3)):
        held = engine.keep([part(keys) for keys in kept])
        met = engine.meet([held], as_it_is, count_keys)
        told.append((
            rows_in(engine.run([held, *map(part, others)], STAGES, WHOLE)), dict(held.counts), dict(met.counts),
            sorted(str(row) for batch in met.batches("claims") for row in batch.to_pylist()),
        ))  # fmt: skip
        engine.close()
    assert told[0] == told[1]


def test_many_rows_take_many_shares_and_each_key_meets_in_one() -> None:
    keys = [("b", f"k{n % 70_000}") for n in range(210_000)]
    engine = SpillingEngine(2)
    parts = [part(keys[start::3], weight=64 << 20) for start in range(3)] + [part([], weight=10 << 26)]
    answers = rows_in(engine.run(parts, STAGES, WHOLE))
    assert answers.total() == 2 * 70_000
    assert {row.rpartition(" ")[2] for row in answers if row.startswith("second")} == {"3}"}


def test_a_part_that_fails_is_a_note_and_kept_rows_are_complete() -> None:
    broken = failing(ValueError("bad page"))
    notes = [
        b.to_pylist()
        for k, b in SpillingEngine(2).run([part([("b", "k")]), broken], [], WHOLE)
        if k == "notes"
    ]
    assert [(row["subject"], row["reason"]) for (row,) in notes] == [
        ("s3://b/k", "it cannot be read: ValueError: bad page")
    ]
    with pytest.raises(SourceError, match="s3://b/k: it cannot be read: ValueError: bad page"):
        SpillingEngine(2).keep([part([("b", "k")]), broken])


def test_a_failure_ends_the_work_of_the_other_threads() -> None:
    read: list[int] = []

    def read_numbered(number: int, _: Connection) -> Batches:
        read.append(number)
        yield from _read([("b", "k")], _)

    parts = [failing(CannotPublish("results", "denied", "grant it"))]
    parts += [Part("storage:0", partial(read_numbered, n)) for n in range(500)]
    with pytest.raises(CannotPublish, match="denied"):
        list(SpillingEngine(2).run(parts, [], WHOLE))
    assert len(read) < 500


def test_a_full_disk_names_the_scratch_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    keys = [(os.urandom(16).hex(), os.urandom(16).hex()) for _ in range(50_000)]
    with (
        small_files(1 << 20),
        pytest.raises(CannotPublish, match=f"scratch folder {tmp_path}: the disk is full"),
    ):
        list(SpillingEngine(1).run([part(keys)], [], WHOLE))


def test_no_file_is_left(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    engine = SpillingEngine(2)
    held = engine.keep([part([("b", "k")])])
    assert held.counts == {"versions": 1}
    assert list(tmp_path.iterdir()) == []  # it has no name even while it is used
    engine.close()


def test_a_command_on_one_machine_does_not_start_spark() -> None:
    def session() -> Any:
        raise AssertionError("Spark was started")

    engine = SparkEngine(session, bytes_here=0, is_local=lambda: True, at_once=False)
    large = part([("b", "k")], weight=1 << 40)
    engine.prepare([large])
    assert engine.map(str, [1], 1 << 40) == ["1"]
    assert rows_in(engine.run([large], [count_keys], Reading())).total() == 1
    assert engine.keep([large]).counts["versions"] == 1
    engine.close()
