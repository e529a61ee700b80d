"""What a process remembers of files that it has checked."""

from typing import TYPE_CHECKING

import pytest

from lakeaudit.runtime import checked_files
from lakeaudit.runtime.checked_files import once_per_file

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def no_files_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checked_files, "_KNOWN", {})


def test_a_content_is_checked_once_and_another_content_of_the_same_file_again() -> None:
    checks: list[str] = []

    def check() -> bool:
        checks.append("read")
        return False

    assert [once_per_file(("s3://b/k", etag), check) for etag in ("1", "1", "2", "1")] == [False] * 4
    assert len(checks) == 2


def test_a_check_that_failed_is_repeated() -> None:
    answers: Iterator[OSError | int] = iter([OSError("reset"), 7])

    def check() -> int:
        answer = next(answers)
        if isinstance(answer, OSError):
            raise answer
        return answer

    with pytest.raises(OSError, match="reset"):
        once_per_file("k", check)
    assert once_per_file("k", check) == 7


def test_the_number_of_remembered_files_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checked_files, "MOST", 3)
    for number in range(5):
        assert once_per_file(number, lambda number=number: number) == number  # type: ignore[misc]
    assert [once_per_file(number, lambda: -1) for number in (4, 3, 2, 1)] == [4, 3, 2, -1]
