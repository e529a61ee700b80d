"""The kinds of finding: their axis, default severity and meaning in words. docs/kinds.md is tested against this."""

from dataclasses import dataclass

SEVERITIES = ("critical", "error", "warning", "info")
LIVE_AXES = ("content", "metastore")
"""Axes whose suspects and open files every run looks at live, each with a verdict of its own."""
"""Worst first."""

FILE_AXES = ("content", "metastore", "metastore_tree", "leftover", "duplicate")
AXES = (*FILE_AXES, "commit", "pointer", "source", "hazard")


@dataclass(frozen=True)
class Kind:
    """A verdict that a rule can give."""

    name: str
    axis: str
    severity: str
    words: str


_ALL = (
    Kind("dropped", "content", "critical", "the table lists the file; storage has no current object"),
    Kind(
        "dropped_history",
        "content",
        "warning",
        "a state still promised to readers lists it; storage has it not",
    ),
    Kind(
        "missing_metadata",
        "content",
        "critical",
        "a log or metadata file the table's state needs cannot be read",
    ),
    Kind(
        "size_mismatch", "content", "critical", "the stored object has another size than its writer recorded"
    ),
    Kind(
        "content_mismatch",
        "content",
        "critical",
        "same size, but checksum or MD5-class ETag are not the writer's",
    ),
    Kind("overwritten", "content", "warning", "written again after its commit; what changed is unknown"),
    Kind("archived", "content", "error", "in a storage class that must be restored before reading"),
    Kind("lost_commit", "content", "critical", "a writer recorded it; no readable state since then lists it"),
    Kind("hidden", "metastore", "info", "storage has the file; the metadata store has no entry"),
    Kind(
        "tombstoned",
        "metastore",
        "error",
        "storage has it, a table lists it or none removed it; the store says deleted",
    ),
    Kind("phantom", "metastore", "error", "the store lists a file that storage lacks and no table needs"),
    Kind(
        "metastore_stale",
        "metastore",
        "error",
        "size, ETag or version of the entry is not what storage serves",
    ),
    Kind(
        "metastore_broken", "metastore_tree", "warning", "the store's own tree contradicts itself or storage"
    ),
    Kind("duplicate_entry", "duplicate", "error", "one state of the table lists the same file twice"),
    Kind(
        "duplicate_content", "duplicate", "warning", "two visible files of one partition hold the same bytes"
    ),
    Kind("conflicting_owner", "duplicate", "error", "two tables list the same file as their own"),
    Kind(
        "uncommitted",
        "leftover",
        "warning",
        "no readable state ever listed it, though its commit would be visible",
    ),
    Kind("unvacuumed", "leftover", "info", "removed longer ago than the table's retention, still in storage"),
    Kind(
        "unreferenced", "leftover", "info", "older than the log can tell: removed long ago or never committed"
    ),
    Kind("temporary", "leftover", "info", "work of a writer that never finished or never cleaned up"),
    Kind("unfinished_upload", "leftover", "info", "parts of an upload begun long ago and never completed"),
    Kind("unreadable_evidence", "source", "warning", "part of a source could not be understood"),
    Kind("unclassified", "any", "error", "no rule matched: a fault of lakeaudit, please report it"),
)

KINDS: dict[str, Kind] = {kind.name: kind for kind in _ALL}
