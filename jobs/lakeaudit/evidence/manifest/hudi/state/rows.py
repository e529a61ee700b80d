"""Define the rows between the steps of reading Hudi tables: changes by instants, and the resulting state of files."""

import pyarrow as pa

STEPS = "hudi_steps"
"""The kind of row that carries STEP rows, which are grouped by file group."""

STEP = pa.schema(
    [
        ("table_name", pa.string()),
        ("reading", pa.int64()),  # the reading of the table to which it belongs
        ("file_group", pa.string()),  # folder below the table's location, and id of the file group
        ("folder", pa.string()),
        ("bucket", pa.string()),
        ("key", pa.string()),  # null: the whole group
        ("act", pa.string()),  # wrote | replaced | cleaned | undone | planned | failed | saved
        ("kind", pa.string()),  # base | log | changes
        ("slice", pa.string()),  # in order of time: the base file itself, or the one to which it belongs
        ("at", pa.timestamp("us")),  # when the instant was completed
        ("size", pa.int64()),
        ("least_size", pa.int64()),
        ("records", pa.int64()),
        ("before", pa.string()),  # the instant of the base file that it was made from
        (
            "grown",
            pa.int64(),
        ),  # how many more rows it has than that one; null if its writer does not record it
        ("commit_id", pa.string()),
        ("archived", pa.bool_()),  # the instant is in the archive
    ]
)
"""A change by one instant to one file, or to one file group as a whole.

`undone` are files that a rollback removed, `planned` those that a clean or rollback under way may have removed,
`failed` log files of writes that failed, which readers do not need and writers do not remove, `saved` those of a
savepoint.
"""

FILES = "hudi_files"
"""The kind of row that carries FILE rows."""

FILE = pa.schema(
    [
        ("table_name", pa.string()),
        ("reading", pa.int64()),
        ("bucket", pa.string()),
        ("key", pa.string()),
        ("state", pa.string()),  # live | history | gone | stray
        ("explained", pa.bool_()),  # it may be absent
        ("category", pa.string()),  # data | changes | index (a file of the metadata table)
        ("folder", pa.string()),
        ("at", pa.timestamp("us")),  # when it was written, or removed if it is gone
        ("replaced_at", pa.timestamp("us")),  # when its file group was replaced
        ("size", pa.int64()),
        ("least_size", pa.int64()),
        ("records", pa.int64()),
        ("commit_id", pa.string()),  # the instant that wrote it
        ("file_group", pa.string()),
        ("slice", pa.string()),
        (
            "hidden",
            pa.bool_(),
        ),  # an instant of the timeline replaced its file group, so no reader uses its files
    ]
)
"""The state of one file, by its table's timeline.

A `stray` file was removed or replaced, but for readers that list folders it is the newest one of its file group if it
still exists: its instant counts as completed, and no instant of the timeline hides its group.
"""
