"""Version checksums of Delta logs: how many files and bytes a writer says that the table has at a version.

"Version Checksum File" of the Delta protocol: `<version>.crc`, one JSON object, of which `numFiles` and
`tableSizeBytes` are required. It is written after the commit and may be missing, which says nothing.
"""

import json

from lakeaudit.errors import SourceError
from lakeaudit.evidence.files import read_bytes
from lakeaudit.evidence.manifest.delta.log import Log
from lakeaudit.evidence.protocol import DeclaredState
from lakeaudit.runtime.aws import Clients


def declared(log: Log, clients: Clients) -> DeclaredState | None:
    """What the checksum of the newest version counts; None: that version has none."""
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
    """`numFiles` and `tableSizeBytes`; None of what is no such number."""
    try:
        said = json.loads(content)
    except (ValueError, RecursionError):
        return None, None
    said = said if isinstance(said, dict) else {}
    files, size = (_number(said.get(name)) for name in ("numFiles", "tableSizeBytes"))
    return files, size


def _number(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63 else None
