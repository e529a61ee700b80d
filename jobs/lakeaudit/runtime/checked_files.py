"""Remember what this process found out about the content of a file, so that a second pass does not check it again."""

from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import TypeVar, cast

T = TypeVar("T")

MOST = 10_000
"""Number of files that are remembered."""
_KNOWN: dict[Hashable, object] = {}
_UNKNOWN = object()


def once_per_file(content: Hashable, check: Callable[[], T]) -> T:
    """Return what `check` returns, from memory if this content was checked before.

    Args:
        content: names the file and its content: the place with the ETag, or with size and time.
        check: reads the file; an error that it raises is not remembered.
    """
    known: T | object = _KNOWN.get(content, _UNKNOWN)
    if known is not _UNKNOWN:
        return cast("T", known)
    while len(_KNOWN) >= MOST:
        with suppress(KeyError, StopIteration, RuntimeError):  # another thread was faster
            del _KNOWN[next(iter(_KNOWN))]
    _KNOWN[content] = found = check()
    return found
