"""Reads a listed file to its end, and raises an error if fewer bytes arrive than storage has listed.

A proxy that cuts a response and corrects its Content-Length leaves no other trace: a list of lines then looks complete.
"""

import io
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


class CutOffError(OSError):
    """Raised at the end of a stream that is shorter than the file was when it was listed."""


def whole(stream: IO[bytes], size: int) -> io.BufferedReader:
    """Return a stream of the same bytes, which raises CutOffError at its end if they are fewer than `size`."""
    return io.BufferedReader(_Whole(stream, size), _BUFFER)


_BUFFER = 1 << 20


class _Whole(io.RawIOBase):
    def __init__(self, stream: IO[bytes], size: int) -> None:
        super().__init__()
        self._stream, self._size, self._read = stream, size, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "WriteableBuffer") -> int:
        view = memoryview(buffer)
        block = self._stream.read(len(view))
        view[: len(block)] = block
        self._read += len(block)
        if not block and self._read < self._size:
            raise CutOffError(f"only {self._read} of its {self._size} bytes arrived")
        return len(block)

    def close(self) -> None:
        self._stream.close()
        super().close()
