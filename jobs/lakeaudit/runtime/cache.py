"""The folder of downloads and generated files: JVM jars, the trust store, the Java launcher."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from lakeaudit.errors import CannotAudit
from lakeaudit.runtime.whole_files import replace_file


def cache_dir(env: Mapping[str, str]) -> Path:
    """Return `LAKEAUDIT_CACHE`, else `lakeaudit` in the user's cache folder, without creating it."""
    if chosen := env.get("LAKEAUDIT_CACHE"):
        return Path(chosen).expanduser().absolute()
    return Path(env.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lakeaudit"


@contextmanager
def writable(folder: Path) -> Iterator[None]:
    """Make `folder`; report a write that fails inside the block in one line.

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
    """Write `content` to `path` atomically."""
    if path.is_file() and path.read_bytes() == content:
        return path
    with writable(path.parent):
        replace_file(path, content, mode)
    return path
