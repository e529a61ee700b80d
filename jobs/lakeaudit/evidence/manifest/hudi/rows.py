"""What travels between the steps of reading Hudi tables: what instants did to files, and what each file is by that."""

import pyarrow as pa

STEPS = "hudi_steps"
"""The kind of row that STEP rows travel as: what meets is all that was done to one file group."""

STEP = pa.schema(
    [
        ("table_name", pa.string()),
        ("reading", pa.int64()),  # which reading of the table it belongs to
        ("file_group", pa.string()),  # folder below the table's location, and id of the file group
        ("folder", pa.string()),
        ("bucket", pa.string()),
        ("key", pa.string()),  # null: the whole group
        ("act", pa.string()),  # wrote | replaced | cleaned | undone | planned | failed | saved
        ("kind", pa.string()),  # base | log | changes
        ("slice", pa.string()),  # in order of time: the base file it is, or goes with
        ("at", pa.timestamp("us")),  # when the instant was completed
        ("size", pa.int64()),
        ("least_size", pa.int64()),
        ("records", pa.int64()),
        ("before", pa.string()),  # the instant of the base file that it was made from
        ("grown", pa.int64()),  # how many more rows it has than that one; null: its writer does not say
        ("commit_id", pa.string()),
        ("archived", pa.bool_()),  # the instant is in the archive
    ]
)
"""What one instant did to one file, or to one file group as a whole.

`undone` are files that a rollback removed, `planned` those that a clean or rollback under way may have removed,
`failed` log files of writes that failed, which nobody needs and nobody removes, `saved` those of a savepoint.
"""

FILES = "hudi_files"
"""The kind of row that FILE rows travel as."""

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
        ("at", pa.timestamp("us")),  # when it was written; of a gone one when it was removed
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
        ),  # an instant of the timeline replaced its file group, so no reader takes its files
    ]
)
"""What a table's timeline makes of one file.

A `stray` file was removed or replaced, and is the newest one of its file group to readers that list folders, if it is
still there: its instant counts as completed, and no instant of the timeline hides its group.
"""
