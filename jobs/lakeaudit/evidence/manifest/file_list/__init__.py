"""`file_list`, the plain writer manifest: lists of files that jobs wrote, removed or replaced, folded to claims.

A list is JSON Lines, CSV or Parquet by its suffix (.jsonl .json .csv .parquet, each also .gz), one file a row: `path`
(raw; a key below the table's location, or a full URI), `size`, and where known `etag`, `version_id`, `checksum`
(algorithm:hex), `committed_at`, `job_id`, `records`, `action` (add, remove, replace) and `scope`. `lakeaudit.emit`
writes them. How they fold is said in `fold`.
"""

from lakeaudit.evidence.manifest.file_list.fold import KIND
from lakeaudit.evidence.manifest.file_list.reader import changes, read

__all__ = ["KIND", "changes", "read"]
