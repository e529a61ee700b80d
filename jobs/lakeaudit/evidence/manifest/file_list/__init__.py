"""Define `file_list`, the plain writer manifest: lists of files that jobs wrote, removed or replaced.

A list is JSON Lines, CSV or Parquet by its suffix (.jsonl .json .csv .parquet, each also .gz), with one file in each
row: `path` (raw; a key below the table's location, or a full URI), `size`, and optionally `etag`, `version_id`,
`checksum` (algorithm:hex), `committed_at`, `job_id`, `records`, `action` (add, remove, replace) and `scope`.
`lakeaudit.emit` writes them. `fold` describes how they become claims.
"""

from typing import Literal

from lakeaudit.config.field_types import Flag, Place
from lakeaudit.config.sources import ManifestSource
from lakeaudit.evidence.kind import KEY_ROWS, TO_ALL, ManifestKind, RowKind, deferred
from lakeaudit.keys import Location


class FileListManifest(ManifestSource):
    """Declares lists of files, each written once, in a folder or one file."""

    kind: Literal["file_list"]
    location: Place
    complete: Flag = False

    @property
    def places(self) -> tuple[Location, ...]:
        return (self.location,)


FOLDED_ROWS = {"events": KEY_ROWS, "acts": RowKind(TO_ALL)}
"""The kinds of row that `fold` turns into claims."""

KIND = ManifestKind(
    name="file_list",
    title="plain lists",
    model=FileListManifest,
    read=deferred("lakeaudit.evidence.manifest.file_list.reader:read"),
    changes=deferred("lakeaudit.evidence.manifest.file_list.reader:changes"),
    look_up=deferred("lakeaudit.evidence.manifest.file_list.point_lookup:read"),
    counts_rows=True,
    rows=FOLDED_ROWS,
)
