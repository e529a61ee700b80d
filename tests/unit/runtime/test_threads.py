"""Work beside other work."""

import threading
from typing import TYPE_CHECKING

import pytest

from lakeaudit.runtime.threads import beside

if TYPE_CHECKING:
    from concurrent.futures import Future


def test_a_failure_is_raised_before_the_others_end() -> None:
    over = threading.Event()
    waiting: list[Future[bool]] = []

    def fail() -> None:
        with beside(2) as pool:
            waiting.append(pool.submit(over.wait, 60))
            raise ValueError("told at once")

    with pytest.raises(ValueError, match="told at once"):
        fail()
    assert not waiting[0].done()
    over.set()
    assert waiting[0].result()


def test_what_was_not_begun_never_is() -> None:
    over = threading.Event()
    with beside(1) as pool:
        first, second = pool.submit(over.wait, 60), pool.submit(over.wait, 60)
    over.set()
    assert first.result()
    assert second.cancelled()
