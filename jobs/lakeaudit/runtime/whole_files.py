"""Write a local file completely or not at all: no reader sees a part of it, and a killed write leaves the old file."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

READABLE = 0o644


@contextmanager
def replacing(path: Path, mode: int = READABLE) -> Iterator[Path]:
    """Yield a file beside `path`, which replaces it in one step if the block succeeds.

    Raises:
        OSError: the folder of `path` cannot be written.
    """
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    os.close(handle)
    try:
        yield Path(name)
        Path(name).chmod(mode)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def replace_file(path: Path, content: bytes, mode: int = READABLE, *, durable: bool = False) -> None:
    """Replace a file in one step; a `durable` one is on the disk before it has its name.

    Raises:
        OSError: the folder of `path` cannot be written.
    """
    with replacing(path, mode) as copy, copy.open("wb") as file:
        file.write(content)
        if durable:
            file.flush()
            os.fsync(file.fileno())
