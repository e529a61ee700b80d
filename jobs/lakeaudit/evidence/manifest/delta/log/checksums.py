"""Read version checksums of Delta logs: the number of files and bytes that a writer records for a version.

"Version Checksum File" of the Delta protocol: `<version>.crc` is one JSON object, in which `numFiles` and
`tableSizeBytes` are required. It is written after the commit and may be missing, which proves nothing.
"""

import json

from lakeaudit.errors import SourceError
from lakeaudit.evidence.files import read_bytes
from lakeaudit.evidence.manifest.delta.log.layout import Log
from lakeaudit.evidence.protocol import DeclaredState
from lakeaudit.runtime.connections.aws import Clients


def declared_state(log: Log, clients: Clients) -> DeclaredState | None:
    """Return the counts in the checksum of the newest version; None if that version has none."""
    version = log.newest
    if version is None or log.checksum != version:
        return None
    place = log.folder.join(f"{version:020}.crc")
    try:
        content = read_bytes(clients, place)
    except SourceError as error:
        return DeclaredState(version, place, unread=error.what)
    if content is None:
        return None
    files, size = counts(content)
    unread = "" if files is not None or size is not None else "it cannot be understood"
    return DeclaredState(version, place, files, size, unread)


def counts(content: bytes) -> tuple[int | None, int | None]:
    """Return `numFiles` and `tableSizeBytes`; None for a value that is not such a number."""
    try:
        checksum = json.loads(content)
    except (ValueError, RecursionError):
        return None, None
    checksum = checksum if isinstance(checksum, dict) else {}
    files, size = (_number(checksum.get(name)) for name in ("numFiles", "tableSizeBytes"))
    return files, size


def _number(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63 else None
