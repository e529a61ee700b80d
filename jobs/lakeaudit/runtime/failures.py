"""Failures of the environment: content that no library can read, exhausted memory, a full disk.

A failure of one file is a reason for an evidence gap. A full disk ends the command, because everything after it would
fail as well.
"""

import errno
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from lakeaudit.errors import AuditError, CannotPublish, SourceError, one_line
from lakeaudit.runtime.extras import explain_missing
from lakeaudit.runtime.scratch import scratch_root

FULL_DISK = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG))
_FULL_WORDS = ("no space left on device", "disk quota exceeded", "file too large", "max_temp_directory_size",
               "os error 28)", "os error 122)", "os error 27)")  # fmt: skip
_INTERRUPTED = ("Query interrupted", "INTERRUPT")
_LONGEST = 200
IN_MEMORY = "it cannot be read in the memory that one task has (1 GiB): it, or one value of it, is too large"


def is_full_disk(error: BaseException) -> bool:
    """Return whether an error or its cause reports a full disk; libraries report it only as text."""
    return any(
        (isinstance(each, OSError) and each.errno in FULL_DISK)
        or any(words in str(each).lower() for words in _FULL_WORDS)
        for each in _chain(error)
    )


def no_room(place: str, error: BaseException) -> CannotPublish:
    """Return the error that names the place without room."""
    return CannotPublish(
        place, f"the disk is full: {_first_line(error)}", "make room there, then run it again"
    )


def named_place(error: BaseException) -> str:
    """Return the file or folder without room, as far as the error or its cause names it."""
    names = (each.filename for each in _chain(error) if isinstance(each, OSError) and each.filename)
    return str(next(names, "a disk of this machine"))


def scratch_place() -> str:
    """Return the folder of temporary files, as messages name it."""
    return f"scratch folder {scratch_root() or tempfile.gettempdir()}"


@contextmanager
def room_for_scratch() -> Iterator[None]:
    """Name the scratch folder when a disk proves to be full.

    Raises:
        CannotPublish: the disk of the scratch folder is full.
    """
    try:
        yield
    except Exception as error:
        if isinstance(error, AuditError) or not is_full_disk(error):
            raise
        raise no_room(scratch_place(), error) from error


def damage_of(error: Exception) -> str:
    """Return why content could not be read, from the error that its reading raised.

    Raises:
        Exception: the error itself, where the content is not at fault.
    """
    if isinstance(error, ModuleNotFoundError) and (missing := explain_missing(error)):
        return str(missing)
    if isinstance(error, SourceError):
        return error.what
    if isinstance(error, AuditError) or is_full_disk(error) or _is_interrupt(error):
        raise error
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryException":
        return IN_MEMORY
    if isinstance(error, RecursionError):
        return "it cannot be read: it is nested too deeply"
    return f"it cannot be read: {type(error).__name__}: {_first_line(error)}"


def _is_interrupt(error: Exception) -> bool:
    return type(error).__name__ == "InterruptException" or str(error) in _INTERRUPTED


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield the error and its causes."""
    each: BaseException | None = error
    for _ in range(10):
        if each is None:
            return
        yield each
        each = each.__cause__ or each.__context__


def _first_line(error: BaseException) -> str:
    return one_line(next(iter(str(error).splitlines()), ""))[:_LONGEST]
