"""Store a storage snapshot with the results: one row for each file that should stay.

A folder holds Parquet files, written by the tasks that compared the last snapshot with storage, and `picture.json`,
which names them with their checksums. A run that has published replaces that file in a single write, and then removes
the files that it does not name any more: a run that was killed before leaves the last snapshot as it is.
"""

import hashlib
import json
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from botocore.exceptions import BotoCoreError, ClientError

from lakeaudit.errors import SourceError
from lakeaudit.evidence.files import list_files, put_bytes, read_bytes, remove_file
from lakeaudit.keys import Location
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.connections.aws_failures import explain
from lakeaudit.runtime.duck import BATCH_ROWS, Relation
from lakeaudit.runtime.scratch import scratch_root

FORMAT = 1
"""Incremented with every change of the format that this module writes."""
POINTER = "picture.json"

FILE = pa.schema(
    [
        ("table_name", pa.string()),
        ("bucket", pa.string()),
        ("key", pa.string()),
        ("size", pa.int64()),
        ("etag", pa.string()),
        ("modified_at", pa.timestamp("us")),
        ("first_seen_at", pa.timestamp("us")),  # the cutoff of the first snapshot that held it
        ("seen_at", pa.timestamp("us")),  # of the last one that held it as it is here
        ("ended", pa.bool_()),  # its folder was rewritten, if that snapshot was whole
    ]
)
"""A row is a file of a storage snapshot."""

FAILED = (OSError, SourceError, ClientError, BotoCoreError)


class TornError(Exception):
    """The stored data is not a storage snapshot that this version can read."""


@dataclass(frozen=True)
class SnapshotFile:
    """Names one file of a storage snapshot."""

    name: str
    sha256: str
    bytes: int
    rows: int


@dataclass(frozen=True)
class StorageSnapshot:
    """Describes a storage snapshot without its rows.

    `tables` are the tables that it covers, each with its location. `whole`: nothing of storage was missing from it.
    """

    run_id: str
    at: datetime
    whole: bool
    tables: Mapping[str, str]
    files: tuple[SnapshotFile, ...] = ()

    @property
    def identity(self) -> str:
        return f"picture of {self.at:%Y-%m-%dT%H:%M:%SZ} by run {self.run_id}"


def load(clients: Clients, folder: Location) -> StorageSnapshot | None:
    """Load the storage snapshot of a folder; None if there is none.

    Raises:
        TornError: the stored data is not whole, or of another version.
        SourceError: the folder cannot be read.
    """
    content = read_bytes(clients, folder.join(POINTER))
    if content is None:
        return None
    try:
        text, _, checksum = content.decode().rpartition("\n")
        if hashlib.sha256(text.encode()).hexdigest() != checksum:
            raise TornError(f"{POINTER} is not whole")
        written = json.loads(text)
        if written["format"] != FORMAT:
            raise TornError(f"{POINTER} has format {written['format']}; this version reads {FORMAT}")
        files = tuple(SnapshotFile(**each) for each in written["files"])
        at = datetime.fromisoformat(written["at"])
        return StorageSnapshot(written["run_id"], at, written["whole"], dict(written["tables"]), files)
    except (ValueError, KeyError, TypeError) as error:
        raise TornError(f"{POINTER} is not a storage snapshot: {type(error).__name__}") from error


def read_rows(clients: Clients, folder: Location, file: SnapshotFile) -> pa.Table:
    """Read the rows of one file, as FILE.

    Raises:
        TornError: it is missing, or not as it was written.
        SourceError: it cannot be read.
    """
    content = read_bytes(clients, folder.join(file.name))
    if content is None:
        raise TornError(f"{file.name} is missing")
    if hashlib.sha256(content).hexdigest() != file.sha256:
        raise TornError(f"{file.name} is not as it was written")
    return pq.read_table(pa.BufferReader(content)).cast(FILE)


def write_rows(clients: Clients, folder: Location, rows: Relation) -> SnapshotFile:
    """Write rows of FILE as a file that no storage snapshot names yet."""
    name = f"{uuid4().hex}.parquet"
    count = 0
    with tempfile.TemporaryDirectory(prefix="lakeaudit-", dir=scratch_root()) as scratch:
        path = Path(scratch, name)
        with pq.ParquetWriter(path, FILE, compression="zstd") as out:
            for batch in rows.to_arrow_reader(BATCH_ROWS):
                out.write_batch(batch.cast(FILE))
                count += batch.num_rows
        content = path.read_bytes()
    put_bytes(clients, folder.join(name), content)
    return SnapshotFile(name, hashlib.sha256(content).hexdigest(), len(content), count)


def publish(clients: Clients, folder: Location, picture: StorageSnapshot) -> None:
    """Replace the last storage snapshot, and remove the files that the new one does not name.

    Raises:
        SourceError: it cannot be written; the last one stays.
    """
    written = asdict(picture) | {"format": FORMAT, "at": picture.at.astimezone(UTC).isoformat()}
    text = json.dumps(written, sort_keys=True)
    place = folder.join(POINTER)
    try:
        put_bytes(clients, place, f"{text}\n{hashlib.sha256(text.encode()).hexdigest()}".encode())
    except OSError as error:
        raise SourceError(
            place.uri, error.strerror or type(error).__name__, "grant the right to write there"
        ) from error
    except (ClientError, BotoCoreError) as error:
        raise SourceError(place.uri, *explain(error)) from error
    _tidy(clients, folder, [each.name for each in picture.files])


def _tidy(clients: Clients, folder: Location, kept: Iterable[str]) -> None:
    """Remove unnamed files; those that cannot be removed now are removed by a later run."""
    named = {*kept, POINTER}
    with suppress(*FAILED):
        for file in list_files(clients, folder, flat=True):
            if file.name in named:
                continue
            remove_file(clients, file.place)


def rows_in(files: Sequence[SnapshotFile]) -> int:
    """Count the rows of some files."""
    return sum(each.rows for each in files)
