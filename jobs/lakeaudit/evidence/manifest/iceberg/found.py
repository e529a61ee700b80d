"""A table's metadata.json as it was found, and how one is read."""

from dataclasses import dataclass
from datetime import datetime

from lakeaudit.config import Table
from lakeaudit.errors import SourceError
from lakeaudit.evidence.files import File, read_bytes
from lakeaudit.evidence.lineage import ABSENT, ARCHIVED, TORN, MissingState
from lakeaudit.evidence.manifest.iceberg import IcebergManifest
from lakeaudit.evidence.manifest.iceberg.folder import Folder
from lakeaudit.evidence.manifest.iceberg.metadata import Metadata, NotReadable, NotSupported, parsed
from lakeaudit.runtime.aws import Clients
from lakeaudit.runtime.aws_failures import ARCHIVED as ARCHIVED_WORDS


@dataclass(frozen=True)
class UnreadMetadata:
    """Why a metadata.json cannot be used; `cause` as of `MissingState` where storage proves it, else empty."""

    reason: str
    cause: str = ""


Content = Metadata | UnreadMetadata


@dataclass(frozen=True)
class Found:
    """One table's metadata as it was found at `read_at`; it is None where `refused` says why.

    Attributes:
        named: the lake file or a catalog says which file it is.
        doubt: why another file may be current.
        missing: why there is no state to read, where storage proves it.
        folder: what lies beside the file; None where nothing was listed.
        others: other metadata.json files that were read to tell which one is current.
        called: kind and name of the catalog that names the file.
        previous: URIs of the metadata.json files that catalogs pointed at before.
        two_lines: of a refused table what two catalogs that each commit to it point at; empty where none do.
    """

    table: Table
    read_at: datetime
    file: File | None = None
    metadata: Metadata | None = None
    refused: str | None = None
    named: bool = False
    doubt: str | None = None
    elsewhere: str | None = None
    """Why files below the table's location may be of another table: its catalog names another place."""
    missing: MissingState | None = None
    folder: Folder | None = None
    others: tuple[tuple[File, Content], ...] = ()
    called: str = ""
    two_lines: str = ""
    previous: tuple[str, ...] = ()

    @property
    def identity(self) -> str:
        """Pins exactly which file it is."""
        return "" if self.file is None else f"{self.file.place.uri} {self.file.etag or self.file.size}"


def manifest_of(table: Table) -> IcebergManifest:
    """What the lake file says of the table's metadata."""
    return next(manifest for manifest in table.manifests if isinstance(manifest, IcebergManifest))


def read_metadata(clients: Clients, file: File) -> Content:
    """The content, or why it cannot be used.

    Raises:
        SourceError: the store does not give it, for another reason than that it is archived.
    """
    uri = file.place.uri
    try:
        content = read_bytes(clients, file.place, size=file.size)
    except SourceError as error:
        if error.what != ARCHIVED_WORDS:
            raise
        return UnreadMetadata(str(error), ARCHIVED)
    if content is None:
        return UnreadMetadata(f"{uri}: it is gone", ABSENT)
    try:
        return parsed(content).written_by(file.modified_at)
    except NotSupported as error:
        return UnreadMetadata(f"{uri}: {error}")
    except NotReadable as error:
        return UnreadMetadata(f"{uri}: {error}", TORN)
