"""The memory of this machine, or of the container in which this process runs."""

import os
from contextlib import suppress
from pathlib import Path

LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
"""The limit of a container: of cgroups version 2 and 1 (Linux kernel documentation, cgroup-v2 and cgroup-v1/memory)."""


def half_of_memory() -> int:
    """Return half of the memory that this process may use, in bytes."""
    sizes = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for limit in LIMITS:
        with suppress(OSError, ValueError):  # without a limit the first file says `max`
            sizes.append(int(limit.read_text()))
    return min(sizes) // 2
