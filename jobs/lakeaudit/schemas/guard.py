"""Rows of `guard`: the lines of a delete list, the objects that they may name, and what is known about each object."""

import pyarrow as pa

from lakeaudit.schemas.columns import row

LISTED = row(
    line="long",  # number in the list, from 1
    text="string",  # as the list has it; null: the line cannot be understood
    bucket="string",  # null: the text is a URI or a path
    encoded="bool",  # the text is percent-encoded, and cannot be anything else
    fault="string",  # why the line names no file; null: it may name one
)
"""One line of a delete list."""

NAMED_KEY = row(
    line="long",
    text="string",  # null: scheme, bucket and key are the text
    scheme="string",  # such as `s3a://`; null: the list names the bucket in a column of its own
    bucket="string",
    key="string",
    several="bool",  # the line may name other objects, too
    relative="bool",  # the line is a path below the location of a table
    fault="string",
)
"""An object that a line may name. A line may name several: `a%20b` is a key, and the key `a b` in another spelling."""

LISTED_KEY = row(
    id="long",
    bucket="string",
    key="string",
    line="long",  # the first line with this text
    lines="long",  # the number of lines with this text; if a line names several objects, each line has its own rows
    text="string",
    scheme="string",
    several="bool",
    relative="bool",
)
"""An object that the lines of one text may name."""

_REFERENCES = {
    "r_live_table": "string",  # a table whose newest state lists it, its own location around the key first
    "r_live_here": "bool",  # the key is below the own locations of that table
    "r_category": "string",
    "r_records": "long",
    "r_version": "long",
    "r_history_table": "string",  # a table of which an older state that is still promised to readers lists it
    "r_until": "time",  # when that promise ends, if it is known
    "r_gone": "bool",  # a state removed it, and its promise has ended
}
KEY_REFERENCES = row(id="long", **_REFERENCES)
"""The references of tables to a listed object; it has the id of its LISTED_KEY row."""

REFERENCED_KEY = pa.schema([*LISTED_KEY, *row(**_REFERENCES)])
"""A listed object with the references of tables."""

_OBJECT = {
    "presence": "string",  # present | absent; null: storage did not answer
    "size": "long",
    "etag": "string",
    "version_id": "string",
    "modified_at": "time",
    "by_parts": "bool",  # a multipart upload: it is dated by its end
    "is_folder": "bool",  # other objects have names that begin with it
}
FOUND_OBJECT = row(bucket="string", key="string", **_OBJECT)
"""A listed object in storage, by the storage sources or by a request."""

GUARDED = pa.schema(
    [
        *REFERENCED_KEY,
        *row(
            **_OBJECT,
            owner="string",  # the table whose location contains the key; null: no table
            name_category="string",  # the category by the name alone, as in CLAIM; null: a table lists it
            r_read="string",  # the last recorded read within the leftover_age
            r_unknown="string",  # why a table may need it that could not be read
            now="time",
            o_leftover_age="span",  # of the owner, as below
            o_max_upload="span",
            o_longest="span",  # the longest of its last commits; null: unknown
            o_by_folder="bool",  # its readers read all visible files in its folders
            o_by_outer_folder="bool",  # readers of another table around it read all visible files in its folders
            o_complete="bool",  # its manifests list all of its files
        ),
    ]
)
"""One object that a delete list may name, with all references to it."""

UNKNOWN_STORE = row(table_name="string", store="string")
"""A table with files in a store of which no location is known, such as `hdfs://nn:8020`."""
