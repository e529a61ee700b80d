"""Hold a table's located metadata.json, and read one."""

from dataclasses import dataclass

from lakeaudit.config import Table
from lakeaudit.errors import SourceError
from lakeaudit.evidence.files import File, read_bytes
from lakeaudit.evidence.lineage import ABSENT, ARCHIVED, TORN
from lakeaudit.evidence.manifest.iceberg import IcebergManifest
from lakeaudit.evidence.manifest.iceberg.current.folder import Folder
from lakeaudit.evidence.manifest.iceberg.state.metadata import (
    Metadata,
    NotReadable,
    NotSupported,
    parse_metadata,
)
from lakeaudit.evidence.manifest.table_states import LocatedTable
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.connections.aws_failures import ARCHIVED as ARCHIVED_WORDS


@dataclass(frozen=True)
class UnreadMetadata:
    """Says why a metadata.json cannot be used; `cause` as in `MissingState` if storage proves it, else empty."""

    reason: str
    cause: str = ""


Content = Metadata | UnreadMetadata


@dataclass(frozen=True)
class LocatedMetadata(LocatedTable):
    """Holds one table's metadata as it was located at `read_at`; it is None if `refused` says why.

    Attributes:
        named: the lake file or a catalog names the file.
        doubt: why another file may be current.
        folder: the folder of the file; None if it was not listed.
        others: other metadata.json files that were read to find the current one.
        called: kind and name of the catalog that names the file.
        previous: URIs of the metadata.json files at which catalogs pointed before.
        two_lines: for a refused table the two lines to which two catalogs commit; empty otherwise.
    """

    file: File | None = None
    metadata: Metadata | None = None
    named: bool = False
    doubt: str | None = None
    elsewhere: str | None = None
    """Why files below the table's location may belong to another table: its catalog names another place."""
    folder: Folder | None = None
    others: tuple[tuple[File, Content], ...] = ()
    called: str = ""
    two_lines: str = ""
    previous: tuple[str, ...] = ()

    @property
    def identity(self) -> str:
        """Identify the exact file."""
        return "" if self.file is None else f"{self.file.place.uri} {self.file.etag or self.file.size}"


def manifest_of(table: Table) -> IcebergManifest:
    """Return the table's Iceberg manifest in the lake file."""
    return next(manifest for manifest in table.manifests if isinstance(manifest, IcebergManifest))


def read_metadata(clients: Clients, file: File) -> Content:
    """Read the content, or why it cannot be used.

    Raises:
        SourceError: the store sends an error, except for an archived file.
    """
    uri = file.place.uri
    try:
        content = read_bytes(clients, file.place, size=file.size)
    except SourceError as error:
        if error.what != ARCHIVED_WORDS:
            raise
        return UnreadMetadata(str(error), ARCHIVED)
    if content is None:
        return UnreadMetadata(f"{uri}: it is missing", ABSENT)
    try:
        return parse_metadata(content).written_by(file.modified_at)
    except NotSupported as error:
        return UnreadMetadata(f"{uri}: {error}")
    except NotReadable as error:
        return UnreadMetadata(f"{uri}: {error}", TORN)
