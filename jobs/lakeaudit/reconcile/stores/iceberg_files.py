"""Read and write files of a table for PyIceberg with the lake's own clients, and write only below the table.

PyIceberg's own FileIO would take credentials, endpoints and even class names from a catalog's response.
"""

import io
from types import TracebackType
from typing import Self

from pyiceberg.io import FileIO, InputFile, InputStream, OutputFile, OutputStream

from lakeaudit.errors import SourceError
from lakeaudit.evidence.files import put_bytes, read_bytes, remove_file
from lakeaudit.evidence.manifest.iceberg.state.lists import place_of
from lakeaudit.keys import Location
from lakeaudit.runtime.connections.aws import Clients


class TableFiles(FileIO):
    """Reads anywhere in the lake, writes below one folder, and removes only files that it wrote itself."""

    def __init__(self, clients: Clients, folder: Location) -> None:
        super().__init__()
        self._clients, self._folder = clients, folder
        self._written: set[str] = set()

    def new_input(self, location: str) -> InputFile:
        return _Input(location, self._clients, self._place(location))

    def new_output(self, location: str) -> OutputFile:
        place = self._place(location)
        if not self._folder.holds(place.bucket, place.key):
            what = f"its metadata would be written to {place.uri}, outside of the table"
            raise SourceError(self._folder.uri, what, "remove the file from the table by hand")
        self._written.add(location)
        return _Output(location, self._clients, place)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """Ignore other files: PyIceberg also removes old metadata (`write.metadata.delete-after-commit`)."""
        if isinstance(location, str) and location in self._written:
            remove_file(self._clients, self._place(location))
            self._written.remove(location)

    def remove_written(self) -> None:
        """Remove all written files, after a commit that failed."""
        for location in sorted(self._written):
            self.delete(location)

    def _place(self, location: str) -> Location:
        place = place_of(location, self._clients.names)
        if place is None:
            raise SourceError(self._folder.uri, "it names a file in an unknown store", "see its metadata")
        return place


class _Input(InputFile):
    def __init__(self, location: str, clients: Clients, place: Location) -> None:
        super().__init__(location)
        self._clients, self._place = clients, place

    def __len__(self) -> int:
        return len(self._content())

    def exists(self) -> bool:
        return read_bytes(self._clients, self._place) is not None

    def open(self, seekable: bool = True) -> InputStream:  # noqa: ARG002 - PyIceberg's
        return io.BytesIO(self._content())

    def _content(self) -> bytes:
        content = read_bytes(self._clients, self._place)
        if content is None:
            raise SourceError(self._place.uri, "it does not exist", "restore it first")
        return content


class _Output(OutputFile):
    """A new file. PyIceberg's file names contain random numbers, so that no file is overwritten."""

    def __init__(self, location: str, clients: Clients, place: Location) -> None:
        super().__init__(location)
        self.clients, self.place, self.length = clients, place, 0

    def __len__(self) -> int:
        return self.length

    def exists(self) -> bool:
        return self.length > 0

    def to_input_file(self) -> InputFile:
        return _Input(self.location, self.clients, self.place)

    def create(self, overwrite: bool = False) -> OutputStream:  # noqa: ARG002 - PyIceberg's
        return _Writing(self)


class _Writing(io.BytesIO):
    """A buffer that is written in one request when it is closed."""

    def __init__(self, output: _Output) -> None:
        super().__init__()
        self._output = output

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        if not self.closed:
            self._output.length = len(self.getvalue())
            put_bytes(self._output.clients, self._output.place, self.getvalue())
        super().close()
