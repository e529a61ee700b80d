"""Rows about watched places: what lies in their folders and belongs to no table, and the prefixes it is grouped by."""

from lakeaudit.schemas.columns import row

UNOWNED_FOLDER = row(
    judged_table="string",  # the watched place
    bucket="string",
    folder="string",  # with a slash at its end; partitions and hidden folders count as the folder around them
    format="string",  # delta | iceberg | hudi | hive, by what a table of that format would have there; null: no table
    signed="bool",  # what tells the format is older than leftover_age
    skip_unowned="bool",  # the lake file ignores these files as `unowned`
    skip_table="bool",  # the lake file ignores these files as an `unregistered_table`
    files="long",  # older than leftover_age
    bytes="long",
    oldest="time",  # of `files`
    newest="time",
    examples="strings",  # keys of `files`, a few
    young="long",
    unsure="long",  # some table could list them, or storage does not say when they were written
    cut="time",  # when the picture of storage there was begun
)
"""What a folder of a watched place holds that no table owns or lists: a row per share, and one per folder at last."""

WATCHED_PREFIX = row(
    judged_table="string",  # the watched place
    relative="string",  # of the prefix, below the place
    bucket="string",
    key="string",  # with a slash at its end
    format="string",  # of the table that lies there; null: none does
    signed="bool",
    named="bool",  # a catalog names it, or the lake file as a place of its own evidence
    untold="bool",  # of the catalogs that could name it not all could be read
    files="long",
    bytes="long",
    oldest="time",
    newest="time",
    examples="strings",
    cut="time",
)
"""A prefix of a watched place: the root of a table that is not declared, or a folder that holds no table."""
