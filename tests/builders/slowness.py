"""Bounds of time for machines of any speed: a shared or busy one takes up to ten times as long for the same work."""

import time

USUAL = 0.18
"""Seconds that the work takes on two idle cores (0.16 to 0.21 in seven runs on 2026-11-29), where the bounds hold."""


def slowness() -> float:
    """Return how many times slower than usual this machine is now, at least 1; many small objects are its measure."""
    begun = time.perf_counter()
    made = {str(number): [number, number * 2] for number in range(300_000)}
    assert len(made) == 300_000
    return max(1.0, (time.perf_counter() - begun) / USUAL)
