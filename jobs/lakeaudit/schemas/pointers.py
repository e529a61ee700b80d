"""Rows about what catalogs point at: what lies in folders of storage, and the subjects of the axis `pointer`."""

import pyarrow as pa

from lakeaudit.schemas.columns import row

FOLDER_FILES = row(
    source="string",
    bucket="string",
    folder="string",  # with a slash at its end
    objects="long",  # current objects that lie directly in it, markers and hidden ones among them
    visible="long",  # of those, what readers of folders see by its name
    files="long",  # of those, what has any bytes
    removed="long",  # delete markers that are current directly in it, of names that readers see
    bytes="long",
    oldest="time",  # of `files`
    newest="time",
)
"""What one storage source has directly in a folder: a row per share, and one per folder once they are summed."""

POINTED_OBJECT = row(bucket="string", key="string")
"""A location in a catalog that may be a single object."""

POINTED_TABLE = row(
    judged_table="string",
    root_bucket="string",  # of the lake's table
    root="string",  # the folder with a slash at its end
    catalog="string",  # its kind and name in the lake file, for people
    catalog_id="string",  # of the source
    table_name="string",  # as the catalog calls it: namespace.table
    bucket="string",  # of the place that it names; null: no place in a store
    key="string",
    format="string",
    columns="strings",  # that it is partitioned by
    changed_at="time",  # when the catalog last changed it; null: long ago
    partitioned="bool",  # its partitions are asked for, and judged
    filled_said="bool",  # the catalog's own statistics say that it has rows or files
    untold="bool",  # of its partitions some could not be read
    catalog_edge="time",  # up to when the catalog's word is judged
    grace="span",
    leftover_age="span",
)
"""A table of the lake as one catalog names it."""

_POINTER = row(
    judged_table="string",
    relative="string",  # of the place below the table's location
    catalog="string",  # its kind and name in the lake file, for people
    catalog_id="string",  # of the source
    table_name="string",  # as the catalog calls it: namespace.table
    bucket="string",  # of the place that is pointed at; null: it is no place in a store
    key="string",  # the folder with a slash at its end
    partition_path="string",  # col=value/col=value, values as the catalog means them; "" of whole tables
    files="long",
    bytes="long",
    edge="time",  # up to when storage is judged there; null: no source covers the place
    cut="time",  # when the picture of storage there was begun
    grace="span",
    storage_holed="bool",  # of the source that decides there something could not be read
    look="string",  # live | denied | error | limit; null: storage was not asked now
    look_there="bool",  # now something is there
)

PARTITION_POINTER = pa.schema(
    [
        *_POINTER,
        *row(
            registered_at="time",  # null: long ago
            visible="long",  # objects below it that readers see
            removed="long",  # delete markers below it, of names that readers see
            filled_said="bool",  # the catalog's own statistics say that it has rows or files
            rows_said="long",  # of those, the rows
            content_said="bool",  # they count rows or bytes
            table_said="bool",  # they say nothing of the partition, and that the table has rows or files
            with_content="long",  # of the visible objects those that have any bytes
            all_empty="bool",  # so is every other partition of the table, and there are others
        ),
    ]
)
"""A registered partition of a plain Hive table, and what storage has at its place."""

PARTITION_FOLDER = pa.schema(
    [
        *_POINTER,
        *row(
            oldest="time",
            newest="time",
            catalog_edge="time",  # up to when the catalog's word is judged
            leftover_age="span",
            named="bool",  # it is called as the partition of some values is (col=value/...)
            alike="bool",  # the registered partitions' folders have no such names, and look like this one
            registered="bool",  # a partition of the same values is registered, at another place
            registered_filled="bool",  # and there readers find something
            untold="bool",  # of the table's partitions some could not be read
        ),
    ]
)
"""A folder with data files of a plain Hive table that no registered partition of a catalog's holds."""

TABLE_POINTER = pa.schema(
    [
        *_POINTER,
        *row(
            format="string",
            changed_at="time",  # when the catalog last changed it; null: long ago
            objects="long",  # whatever lies at its place
            partitions_filled="long",  # registered ones where readers find something, or nobody knows
            filled_said="bool",  # the catalog's own statistics, of it or a partition, say that it has rows or files
            removed="long",  # delete markers below its place, of names that readers see
            aim="string",  # location | metadata: what is pointed at
            left_behind="string",  # the newer state that made it so; null: none did
        ),
    ]
)
"""A table as a catalog points at it, and what storage has at its place."""
