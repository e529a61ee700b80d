"""A cache in memory with a highest number of values."""

from typing import TYPE_CHECKING

import pytest

from lakeaudit.runtime.lru_cache import LruCache

if TYPE_CHECKING:
    from collections.abc import Iterator


def test_a_value_is_made_once_for_each_key() -> None:
    made: list[str] = []
    values: LruCache[str, bool] = LruCache(10)

    def make() -> bool:
        made.append("read")
        return False

    assert [values.get(key, make) for key in ("1", "1", "2", "1")] == [False] * 4
    assert len(made) == 2


def test_an_error_is_not_cached() -> None:
    answers: Iterator[OSError | int] = iter([OSError("reset"), 7])
    values: LruCache[str, int] = LruCache(10)

    def make() -> int:
        answer = next(answers)
        if isinstance(answer, OSError):
            raise answer
        return answer

    with pytest.raises(OSError, match="reset"):
        values.get("k", make)
    assert values.get("k", make) == 7


def test_the_value_that_was_not_used_for_the_longest_time_is_dropped() -> None:
    values: LruCache[int, int] = LruCache(3)
    for number in (0, 1, 2, 0, 3):
        values.get(number, lambda number=number: number)  # type: ignore[misc]
    assert [values.get(number, lambda: -1) for number in (0, 2, 3)] == [0, 2, 3]
    assert values.get(1, lambda: -1) == -1
