"""Bring all chunks of a share to one task, on Spark 4.1 and on versions without `repartitionById`.

Older versions choose the task of a row by the hash of an expression. For each share there is an integer whose hash
leads to the task with the number of the share, so rows are exchanged by that integer.

Format: `HashPartitioning` and `Murmur3Hash` of Apache Spark, seed 42; the hash of an integer is Murmur3_x86_32 of its
four bytes.
"""

from collections.abc import Sequence
from functools import lru_cache

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

_SEED = 42
_WORD = 0xFFFFFFFF


def by_share(chunks: DataFrame, shares: int) -> DataFrame:
    """Return the chunks in `shares` partitions; partition n has those of share n."""
    if hasattr(chunks, "repartitionById"):
        return chunks.repartitionById(shares, F.col("share"))
    return by_hash(chunks, shares)


def by_hash(chunks: DataFrame, shares: int) -> DataFrame:
    """Return the same for Spark before 4.1."""
    numbers = F.array(*map(F.lit, numbers_of(shares)))
    return chunks.repartition(shares, F.element_at(numbers, F.col("share") + F.lit(1)))


@lru_cache(8)
def numbers_of(shares: int) -> Sequence[int]:
    """Return for each share the least integer whose hash leads to the task of that number."""
    found: dict[int, int] = {}
    number = 0
    while len(found) < shares:
        found.setdefault(hash_of(number) % shares, number)
        number += 1
    return [found[share] for share in range(shares)]


def hash_of(number: int) -> int:
    """Return Spark's hash of an integer of 32 bits, as a signed number."""
    mixed = _times(_rotated(_times(number & _WORD, 0xCC9E2D51), 15), 0x1B873593)
    state = (_rotated(_SEED ^ mixed, 13) * 5 + 0xE6546B64) & _WORD
    state ^= 4  # the number of bytes
    state = _times(state ^ state >> 16, 0x85EBCA6B)
    state = _times(state ^ state >> 13, 0xC2B2AE35)
    state ^= state >> 16
    return state - (1 << 32) if state >> 31 else state


def _times(value: int, factor: int) -> int:
    return value * factor & _WORD


def _rotated(value: int, bits: int) -> int:
    return (value << bits | value >> 32 - bits) & _WORD
