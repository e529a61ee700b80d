"""Read how the newest state of an Iceberg table lists one file, and which snapshots led to that state."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakeaudit.config import Table
from lakeaudit.errors import SourceError
from lakeaudit.evidence.manifest.iceberg.current.discover import find
from lakeaudit.evidence.manifest.iceberg.state.claimed_files import OfTable
from lakeaudit.evidence.manifest.iceberg.state.lists import read_lists
from lakeaudit.evidence.manifest.iceberg.state.manifests import read_manifests
from lakeaudit.evidence.manifest.iceberg.state.metadata import Metadata, Snapshot
from lakeaudit.evidence.manifest.iceberg.state.rows import KIND, Manifest
from lakeaudit.evidence.protocol import utc_now
from lakeaudit.runtime import duck
from lakeaudit.runtime.connections.aws import Clients

Row = dict[str, Any]
_AT_ONCE = 16


@dataclass(frozen=True)
class ListedFile:
    """Holds the entries of a file in the newest state.

    Attributes:
        metadata: of the table.
        entries: size, records and snapshot of each entry of the current snapshot that lists it as data.
        elsewhere: branches and tags of another state that lists it, too.
        has_deletes: whether the current snapshot has delete files or deletion vectors, for any file.
    """

    metadata: Metadata
    entries: tuple[Row, ...]
    elsewhere: tuple[str, ...]
    has_deletes: bool

    @property
    def past(self) -> Iterator[Snapshot]:
        """Yield the current snapshot and its ancestors, newest first, as far as they are retained."""
        known = {snapshot.id: snapshot for snapshot in self.metadata.snapshots}
        at = self.metadata.current
        while at in known:
            snapshot = known.pop(at)
            yield snapshot
            at = snapshot.parent


def read(table: Table, clients: Clients, bucket: str, key: str) -> ListedFile:
    """Read the entries of one file; every manifest of each branch and tag is read.

    Raises:
        SourceError: the state cannot be read.
    """
    (found,) = find([table], clients, None, utc_now)
    metadata = found.metadata
    if metadata is None or found.doubt or found.elsewhere:
        raise SourceError(
            table.name, str(found.refused or found.doubt or found.elsewhere), "see `lakeaudit explain`"
        )
    lists = read_lists([metadata], clients)
    manifests, unread = lists.manifests, lists.unread
    heads = [snapshot for snapshot in metadata.snapshots if snapshot.heads]
    needed = [unread_one.path for unread_one in unread if unread_one.snapshot in {each.id for each in heads}]
    if needed:
        raise SourceError(table.name, f"{needed[0]} cannot be read", "bring it back first")
    main = next((number for number, each in enumerate(heads) if each.id == metadata.current), None)
    live = [each for each in manifests if each.heads]
    rows = [row for row in _rows(table, metadata, live, clients, bucket, key) if row["state"] == "live"]
    others = {number for row in rows for number in row["heads"]} - {main}
    return ListedFile(
        metadata,
        tuple(
            {"size": row["size"], "records": row["records"], "snapshot": row["commit_id"]}
            for row in rows
            if main in row["heads"] and row["category"] == "data"
        ),
        tuple(chain.from_iterable(heads[number].heads for number in sorted(others))),
        any(each.deletes for each in live if main in each.heads),
    )


def _rows(
    table: Table, metadata: Metadata, manifests: list[Manifest], clients: Clients, bucket: str, key: str
) -> Iterator[Row]:
    about = {0: OfTable(table.name, 0, metadata.times)}
    selection = (pc.field("bucket") == bucket) & (pc.field("key") == key)
    for start in range(0, len(manifests), _AT_ONCE):
        some = tuple(manifests[start : start + _AT_ONCE])
        with duck.task_connection() as con:
            for kind, rows in read_manifests(con, some, about, "", clients):
                if kind == KIND and isinstance(rows, pa.Table):
                    yield from rows.filter(selection).to_pylist()
                elif isinstance(rows, pa.Table):
                    note = rows.to_pylist()[0]
                    raise SourceError(
                        table.name, f"{note['subject']} {note['reason']}", "bring it back first"
                    )
