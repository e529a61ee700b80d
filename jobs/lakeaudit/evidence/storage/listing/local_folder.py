"""Walks a local folder as if it were a bucket: one row per file.

A symbolic link is not followed: it is a rejected row, since what lies behind it may be a table's file.
"""

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from lakeaudit.evidence.storage.listing.listing_partitions import Split
from lakeaudit.evidence.storage.listing.rows import Row

_ROWS_A_PAGE = 1000


@dataclass(frozen=True)
class LocalLister:
    """Lists local folders; the twin of `s3_listing.S3Lister`."""

    def folders(self, prefix: str) -> Iterator[list[str]]:
        """Yield the sub-folders of a folder as one page, without symbolic links."""
        with os.scandir(f"/{prefix}") as entries:
            names = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
        yield sorted(f"{prefix}{name}/" for name in names)

    def rows(self, split: Split) -> Iterator[list[Row]]:
        """VERSION rows of the files of a split, in pages. A folder that cannot be opened is an OSError."""
        page: list[Row] = []
        for entry in _walk(f"/{split.prefix}", flat=split.flat):
            page += _rows(entry)
            if len(page) >= _ROWS_A_PAGE:
                yield page
                page = []
        yield page


def _walk(folder: str, *, flat: bool) -> Iterator[os.DirEntry[str]]:
    waiting = [folder]
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if not entry.is_dir(follow_symlinks=False):
                    yield entry
                elif not flat:
                    waiting.append(entry.path)


def _rows(entry: os.DirEntry[str]) -> list[Row]:
    """Return one row; none for an entry that vanished meanwhile, or is not a file (sockets, pipes)."""
    name = entry.path.encode("utf-8", "backslashreplace").decode()
    if name != entry.path:
        return [{"reject": f"{name}: name is not UTF-8"}]
    if entry.is_symlink():
        return [{"reject": f"{name}: symbolic link, not followed"}]
    try:
        status = entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return []
    if not stat.S_ISREG(status.st_mode):
        return []
    return [
        {
            "bucket": "",
            "key": entry.path[1:],
            "is_latest": True,
            "is_delete_marker": False,
            "size": status.st_size,
            "modified_at": datetime.fromtimestamp(status.st_mtime, UTC).replace(tzinfo=None),
            "archived": False,
        }
    ]
