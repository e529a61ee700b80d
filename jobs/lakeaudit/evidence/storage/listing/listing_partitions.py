"""Cuts a place into splits that tasks list side by side, with bounded work on the driver.

Splits follow folders, so nothing rests on the order in which a store lists. A folder with very many keys
of its own stays one split: cutting it at guessed keys would need a store that lists in byte order.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice

PAGES_A_FOLDER = 10
"""Pages that are read to find a folder's sub-folders; one that goes on is not cut further."""


@dataclass(frozen=True)
class Split:
    """Everything below `prefix`; `flat` leaves its sub-folders out, which are splits of their own."""

    prefix: str
    flat: bool


Folders = Callable[[str], Iterator[list[str]]]
"""The sub-folders of one folder, page by page."""


def partition(root: str, folders: Folders, wanted: int) -> list[Split]:
    """Splits that together hold everything below `root` exactly once; `wanted` or more if there are folders.

    Folders are opened breadth first; at most twice `wanted` are looked into.
    """
    flat: list[Split] = []
    whole: list[Split] = []
    waiting = deque([root])
    opened = 0
    while waiting and len(waiting) + len(flat) + len(whole) < wanted and opened < 2 * wanted:
        folder = waiting.popleft()
        opened += 1
        names = _sub_folders(folders(folder))
        if names:
            flat.append(Split(folder, flat=True))
            waiting.extend(names)
        else:
            whole.append(Split(folder, flat=False))
    return flat + whole + [Split(folder, flat=False) for folder in waiting]


def _sub_folders(pages: Iterator[list[str]]) -> list[str]:
    """None of them where there are more pages than are read."""
    names = [name for page in islice(pages, PAGES_A_FOLDER) for name in page]
    return names if next(pages, None) is None else []
