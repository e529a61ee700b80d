"""Records that writers leave of what they did, in small files: what all kinds of them share.

`find` finds them, `read_records` turns them into events in tasks, and `reader` makes claims of those, which fold as
those of `file_list` do. A kind says where its records lie and what the content of one means.
"""

from lakeaudit.evidence.kind import BY_TAG, RowKind
from lakeaudit.evidence.manifest.file_list import FOLDED_ROWS

RECORD_ROWS = {**FOLDED_ROWS, "tagged": RowKind(BY_TAG)}
"""The kinds of row that the reader of records emits."""
