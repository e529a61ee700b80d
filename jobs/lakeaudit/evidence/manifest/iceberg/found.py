"""A table's metadata.json as it was found, and how one is read."""

from dataclasses import dataclass
from datetime import datetime

from lakeaudit.config import IcebergManifest, Table
from lakeaudit.evidence.files import File, read_bytes
from lakeaudit.evidence.manifest.iceberg.metadata import Metadata, NotReadable, parsed
from lakeaudit.runtime.aws import Clients


@dataclass(frozen=True)
class Found:
    """One table's metadata as it was found at `read_at`; it is None where `refused` says why.

    `named`: the lake file or a catalog says which file it is. `doubt` says why another file may be current.
    """

    table: Table
    read_at: datetime
    file: File | None = None
    metadata: Metadata | None = None
    refused: str | None = None
    named: bool = False
    doubt: str | None = None

    @property
    def identity(self) -> str:
        """Pins exactly which file it is."""
        return "" if self.file is None else f"{self.file.place.uri} {self.file.etag or self.file.size}"


def manifest_of(table: Table) -> IcebergManifest:
    """What the lake file says of the table's metadata."""
    return next(manifest for manifest in table.manifests if isinstance(manifest, IcebergManifest))


def read_metadata(clients: Clients, file: File) -> Metadata | str:
    """The content, or why it cannot be used."""
    content = read_bytes(clients, file.place)
    if content is None:
        return f"{file.place.uri}: it is gone"
    try:
        return parsed(content).written_by(file.modified_at)
    except NotReadable as error:
        return f"{file.place.uri}: {error}"
