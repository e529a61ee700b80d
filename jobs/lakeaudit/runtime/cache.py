"""The folder that keeps what was fetched or made once: JVM jars, the trust store, the Java launcher."""

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from lakeaudit.errors import CannotAudit


def cache_dir(env: Mapping[str, str]) -> Path:
    """`LAKEAUDIT_CACHE`, else `lakeaudit` in the user's cache folder. Nothing is created."""
    if chosen := env.get("LAKEAUDIT_CACHE"):
        return Path(chosen).expanduser().absolute()
    return Path(env.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lakeaudit"


@contextmanager
def writable(folder: Path) -> Iterator[None]:
    """Make `folder`; whatever cannot be written in it inside the block is told in one line.

    Raises:
        CannotAudit: the folder cannot be made or written, or the disk is full.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        raise CannotAudit(
            str(folder), f"cannot be written ({error.strerror})", "set LAKEAUDIT_CACHE"
        ) from error


def write_once(path: Path, content: bytes, mode: int = 0o644) -> Path:
    """Put `content` at `path` in one step, so that no other process ever sees half of it."""
    if path.is_file() and path.read_bytes() == content:
        return path
    with writable(path.parent):
        handle, name = tempfile.mkstemp(dir=path.parent)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        Path(name).chmod(mode)
        Path(name).replace(path)
    return path
