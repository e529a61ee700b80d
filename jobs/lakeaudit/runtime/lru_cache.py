"""Cache values by their keys in this process, up to a number; threads may share a cache."""

from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import Generic, TypeVar, cast

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
_MISSING = object()


class LruCache(Generic[K, V]):
    """Up to `most` values by their keys; the one that was not used for the longest time is dropped first."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._values: dict[K, V] = {}
        """In the order of their last use."""

    def get(self, key: K, make: Callable[[], V]) -> V:
        """Return the value of a key; `make` makes one that is not cached, and an error of it is not cached."""
        known = self._values.pop(key, _MISSING)
        value = make() if known is _MISSING else cast("V", known)
        self._values[key] = value
        while len(self._values) > self.most:
            with suppress(KeyError, StopIteration, RuntimeError):  # another thread was faster
                del self._values[next(iter(self._values))]
        return value
