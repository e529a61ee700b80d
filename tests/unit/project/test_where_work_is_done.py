"""Work in the driver and work in tasks: decided by bytes of evidence, and by the bytes that remain after a pass."""

from collections.abc import Iterator
from contextlib import nullcontext
from threading import Barrier
from typing import Any

import pyarrow as pa
import pytest

from lakeaudit.engine import spark
from lakeaudit.engine.chunks import FINGERPRINTS, WHOLE, Reading
from lakeaudit.engine.local import WAITING, InProcessEngine
from lakeaudit.engine.spark import BYTES_HERE, MEMORY_HERE, SparkEngine
from lakeaudit.evidence.protocol import Part
from lakeaudit.runtime.duck import Connection

MIB = 1 << 20
FIVE_PERCENT = Reading(left=0.05)


@pytest.fixture(autouse=True)
def large_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark, "half_of_memory", lambda: 12 << 30)


class SparkRequestedError(Exception):
    """The Spark session was requested."""


def no_session() -> Any:
    raise SparkRequestedError


def read(_: Connection) -> Iterator[tuple[str, pa.RecordBatch]]:
    yield "answers", pa.RecordBatch.from_pydict({"n": [1]})


def there(in_tasks: bool) -> Any:
    return pytest.raises(SparkRequestedError) if in_tasks else nullcontext()


@pytest.mark.parametrize(
    ("mib", "reading", "local", "in_tasks"),
    [
        (15, WHOLE, False, False),
        (16, WHOLE, False, True),
        (16, FIVE_PERCENT, False, True),  # a cluster's tasks read faster than one driver, whatever is left
        (204, WHOLE, True, False),
        (205, WHOLE, True, True),
        (2730, FINGERPRINTS, True, False),
        (2731, FINGERPRINTS, True, True),
        (4095, FIVE_PERCENT, True, False),
        (4097, FIVE_PERCENT, True, True),
    ],
)
def test_evidence_is_read_here_or_in_tasks(mib: int, reading: Reading, local: bool, in_tasks: bool) -> None:
    engine = SparkEngine(no_session, is_local=lambda: local)
    with there(in_tasks):
        assert [kind for kind, _ in engine.run([Part("s", read, mib * MIB)], [], reading)] == ["answers"]


@pytest.mark.parametrize(("mib", "in_tasks"), [(51, False), (52, True)])
def test_less_is_read_here_on_a_small_machine(
    monkeypatch: pytest.MonkeyPatch, mib: int, in_tasks: bool
) -> None:
    monkeypatch.setattr(spark, "half_of_memory", lambda: 1 << 30)
    test_evidence_is_read_here_or_in_tasks(mib, WHOLE, local=True, in_tasks=in_tasks)


@pytest.mark.parametrize(
    ("mib", "local", "in_tasks"),
    [(15, False, False), (16, False, True), (511, True, False), (512, True, True)],
)
def test_what_is_kept_takes_less_than_what_is_judged(mib: int, local: bool, in_tasks: bool) -> None:
    with there(in_tasks):
        assert SparkEngine(no_session, is_local=lambda: local).keep([Part("s", read, mib * MIB)]).counts == {
            "answers": 1
        }


@pytest.mark.parametrize(
    ("items", "mib", "unlocked", "local", "in_tasks"),
    [
        (256, 16, False, False, False),
        (257, 0, False, False, True),
        (1, 17, False, False, True),
        (1, 17, True, False, True),
        (1000, 204, False, True, False),
        (1, 205, False, True, True),
        (1, 1000, True, True, False),  # threads hash as fast as processes
    ],
)
def test_items_are_worked_on_here_or_in_tasks(
    items: int, mib: int, unlocked: bool, local: bool, in_tasks: bool
) -> None:
    engine = SparkEngine(no_session, is_local=lambda: local)
    with there(in_tasks):
        assert engine.map(str, range(items), mib * MIB, unlocked=unlocked) == [str(n) for n in range(items)]


def test_what_mostly_waits_waits_beside_each_other() -> None:
    """Requests to a store take 20 to 50 ms each, and nearly no processor."""
    together = Barrier(WAITING)
    assert InProcessEngine(1).map(lambda _: together.wait(5) < WAITING, range(WAITING)) == [True] * WAITING
    assert WAITING >= 4


def test_with_no_bytes_here_everything_is_in_tasks() -> None:
    engine = SparkEngine(no_session, bytes_here=0)
    for asked in (lambda: engine.map(str, [1]), lambda: list(engine.run([Part("s", read)], []))):
        with there(in_tasks=True):
            asked()
    assert BYTES_HERE * WHOLE.memory < MEMORY_HERE
