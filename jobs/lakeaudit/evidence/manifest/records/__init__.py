"""Read records that writers leave of their writes, in small files: the parts that all kinds of records share.

`find` locates them, `read_records` turns them into events in tasks, and `reader` makes claims of those, which fold as
those of `file_list` do. A kind defines where its records are and how to parse one.
"""

from lakeaudit.evidence.kind import BY_TAG, RowKind
from lakeaudit.evidence.manifest.file_list import FOLDED_ROWS

RECORD_ROWS = {**FOLDED_ROWS, "tagged": RowKind(BY_TAG)}
"""The kinds of row that the reader of records emits."""
