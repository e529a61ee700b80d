"""Batches that look alike: which pairs of commits are named, and whether both are live."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from lakeaudit.checks.commits.repeated_batches import LiveBatch, find_repeats, live_batches
from lakeaudit.runtime import duck
from lakeaudit.schemas import BATCH
from tests.builders.connections import connection

AT = datetime(2026, 11, 1, tzinfo=UTC).replace(tzinfo=None)


def batch(version: int, days: float, digest: int = 7, **given: Any) -> dict[str, Any]:
    """Return the append of one commit, `days` after the first."""
    plain = {
        "table_name": "orders",
        "reading": 0,
        "operation": "WRITE",
        "appends": True,
        "files": 2,
        "rows": 50,
    }
    about = {
        "version": version,
        "time": AT + timedelta(days=days),
        "digest": digest,
        "bytes": 900,
        "varied": True,
    }
    return plain | about | given


def stream(version: int, days: float, digest: int = 7, **given: Any) -> dict[str, Any]:
    """Return the append of one commit of a stream."""
    named = {"adds_alone": True, "transactions": ["q version 1"]}
    return batch(version, days, digest, **(named | given))


BATCHES: dict[str, tuple[list[dict[str, Any]], list[tuple[int, int]]]] = {
    "one batch twice": ([batch(1, 0), batch(2, 0.1)], [(1, 2)]),
    "another between": ([batch(1, 0), batch(2, 0.1, 8), batch(3, 0.2)], [(1, 3)]),
    "three times": ([batch(1, 0), batch(2, 1), batch(3, 2)], [(1, 2), (2, 3)]),
    "a week later to the hour": ([batch(1, 0), batch(2, 7)], [(1, 2)]),
    "more than a week later": ([batch(1, 0), batch(2, 7.01)], []),
    "four times in a week: a habit": ([batch(n, n) for n in range(4)], []),
    "twice, and in another week four times": (
        [batch(1, 0), batch(2, 1), *(batch(n, 20 + n) for n in range(3, 7))],
        [],
    ),
    "in two tables": ([batch(1, 0), batch(2, 1, table_name="other")], []),
    "other contents": ([batch(1, 0), batch(2, 1, 8)], []),
    "other files": ([batch(1, 0), batch(2, 1, files=3)], []),
    "other rows": ([batch(1, 0), batch(2, 1, rows=51)], []),
    "other bytes": ([batch(1, 0), batch(2, 1, bytes=901)], []),
    "few rows": ([batch(1, 0, rows=9), batch(2, 1, rows=9)], []),
    "one value a column": ([batch(1, 0, varied=False), batch(2, 1, varied=False)], []),
    "no append": ([batch(1, 0, appends=False), batch(2, 1)], []),
    "by nobody knows which operation": ([batch(1, 0, operation=None), batch(2, 1, operation=None)], []),
    "a large commit, read in two blocks": (
        [batch(1, 0, 14, files=4, rows=100, bytes=1800), batch(2, 1), batch(2, 1, operation=None)],
        [(1, 2)],
    ),
    "one of two blocks is not an append": (
        [batch(1, 0, 14, files=4, rows=100, bytes=1800), batch(2, 1), batch(2, 1, appends=False)],
        [],
    ),
    "one transaction, files that differ": (
        [stream(1, 0, digest=7, varied=False), stream(2, 30, digest=8, varied=False, rows=3)],
        [(1, 2)],
    ),
    "one transaction, in blocks of which one names it": (
        [stream(1, 0), stream(1, 0, transactions=[]), stream(2, 1, 8, files=9)],
        [(1, 2)],
    ),
    "one transaction of two": (
        [stream(1, 0), stream(2, 1, 8, transactions=["q version 1", "p version 2"])],
        [],
    ),
    "one transaction, with removals": ([stream(1, 0), stream(2, 1, 8, adds_alone=False)], []),
    "one transaction, without files": ([stream(1, 0), stream(2, 1, 8, files=0)], []),
    "one transaction for four commits": ([stream(n, n, n) for n in range(4)], []),
    "one transaction and equal contents": ([stream(1, 0), stream(2, 1)], [(1, 2)]),
    "read twice, as the log changed meanwhile": (
        [batch(1, 0), batch(1, 0, reading=1), batch(2, 1, 8, reading=1)],
        [],
    ),
}


@pytest.mark.parametrize("name", BATCHES)
def test_which_commits_look_like_one_batch(name: str) -> None:
    rows, expected = BATCHES[name]
    found = duck.rows_of(find_repeats(connection(), pa.Table.from_pylist(rows, BATCH)))
    assert [(row["older"], row["younger"]) for row in found] == expected


FILES = pa.schema(
    [("number", pa.int64()), ("bucket", pa.string()), ("key", pa.string()), ("added", pa.bool_())]
)
CLAIMS = pa.schema(
    [
        *[(name, pa.string()) for name in ("table_name", "bucket", "key", "state")],
        *[("certain", pa.bool_()), ("size", pa.int64()), ("records", pa.int64())],
    ]
)


def claim(key: str, state: str = "live", *, table: str = "orders", certain: bool = True) -> tuple[Any, ...]:
    return (table, "lake", key, state, certain, 100, 10)


@pytest.mark.parametrize(
    ("claims", "expected"),
    [
        ([claim("a"), claim("b")], LiveBatch(2, 2, 20, 200)),
        ([claim("a"), claim("b", "history")], LiveBatch(2, 1, 10, 100)),
        ([claim("a"), claim("b", certain=False)], LiveBatch(2, 1, 10, 100)),
        ([claim("a", table="other"), claim("b", table="other")], LiveBatch(2)),
        ([], LiveBatch(2)),
    ],
)
def test_what_of_a_batch_is_live(claims: list[Any], expected: LiveBatch) -> None:
    files = [(0, "lake", "a", True), (0, "lake", "b", True), (0, "lake", "c", False)]
    given = (duck.small(FILES, files), duck.small(CLAIMS, claims), ["orders", "orders"])
    assert live_batches(connection(), *given) == [expected, LiveBatch()]
