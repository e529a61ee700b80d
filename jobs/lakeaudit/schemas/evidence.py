"""Rows that readers of evidence give: what one source claims about one (bucket, key). Presence is spelled out."""

from lakeaudit.schemas.columns import row

CLAIM = row(
    source="string",  # id of the source, as in runs.sources
    manifest_kind="string",  # delta, file_list
    table_name="string",
    bucket="string",
    key="string",
    state="string",  # live | history | gone
    certain="bool",  # false: a hole in this table's log may have changed it, so its absence proves nothing
    category="string",  # data | deletes | changes | log | statistics | marker | temporary | other
    partition_path="string",  # col=value/col=value, values as the writer meant them; "" when not partitioned
    size="long",  # bytes of the whole object; null where the manifest does not say
    least_size="long",  # bytes that it must have at least; null: nothing is said of that
    etag="string",  # without quotes
    version_id="string",
    checksum="string",  # "<algorithm>:<hex>", lower case
    records="long",
    claimed_at="time",  # commit time of the first add since which the table has listed it without a gap
    removed_at="time",  # history and gone: when it was removed
    explained="bool",  # history: the format's own record of a vacuum explains why it may be absent
    listed="long",  # how often the one newest state lists it; more than 1 is a duplicate entry
    own_root="bool",  # the key lies under a root that belongs to this table itself
    commit_id="string",
    table_version="long",
)
"""A manifest's claim: one row per (table, bucket, key) and source role."""

RECENT_COMMIT = row(
    table_name="string",
    manifest_kind="string",
    version="long",  # Delta: version; Iceberg: snapshot; Hudi: instant
    commit_id="string",  # as claims name it
    committed_at="time",
    operation="string",  # in the writer's words; null where it gives none
    files_added="long",  # null: its log does not say
    files_removed="long",
)
"""One of the newest commits of a table's log, as far as an audit reads it anyway."""

VERSION = row(
    source="string",  # id of the source, as in runs.sources
    bucket="string",
    key="string",
    version_id="string",  # null for the null version and for unversioned buckets
    is_latest="bool",  # null: the source does not say
    is_delete_marker="bool",  # null: the source does not say
    size="long",
    etag="string",
    modified_at="time",
    storage_class="string",
    archived="bool",
    multipart="bool",
    encryption="string",
    checksum="string",  # of the whole object, "<algorithm>:<hex>"; null where the store's report has none
    reject="string",  # null, or why this row could not be understood (then nothing else but source is filled)
)
"""One version of one object, as storage readers see it before they reduce it to a STORED row."""

STORED = row(
    source="string",
    bucket="string",
    key="string",
    presence="string",  # present | absent (the latest is a delete marker) | unclear (not exactly one latest)
    size="long",
    etag="string",  # without quotes
    version_id="string",  # null for the null version and for unversioned buckets
    modified_at="time",
    storage_class="string",
    archived="bool",  # must be restored before it can be read
    multipart="bool",  # null where unknown
    encryption="string",  # NONE | SSE-S3 | SSE-KMS | DSSE-KMS | SSE-C; null where unknown
    checksum="string",  # full-object checksum "<algorithm>:<hex>"; null where unknown
    delete_marker="bool",  # the latest version is a delete marker
    older_version_id="string",  # newest version that is neither latest nor a marker; "null" is the null version
    older_size="long",
    older_class="string",  # its storage class, where it has to be restored before reading
    older_since="time",  # when the next version or marker was written; null: unknown
)
"""What one storage source says of one key: one row per (source, bucket, key)."""

DECLARED = row(
    table_name="string",
    manifest_kind="string",
    commit_id="string",  # how the writer calls it
    bucket="string",
    path="string",  # key of the folder that it wrote, without a slash at its end
    ended_at="time",  # when it was committed; null: unknown
    files="long",  # what its writer declared of all that it wrote; null: it did not say
    rows="long",
    bytes="long",
    files_there="long",  # how much of that storage has; null: not known
    rows_there="long",
    bytes_there="long",
    files_named="long",  # of what storage lacks, what claims of the same manifest name: judged file by file
    rows_named="long",
    bytes_named="long",
    replaced="string",  # whether later writes have replaced what it wrote: no | partly | whole
    untold="string",  # why nobody can tell what of it is there; null: it can be told
    detail="string",  # more of what it lacks, in words; null: nothing
    marker="string",  # key of a marker beside it that calls it whole; null: none is known
)
"""What a writer declared of one write as a whole, and how much of it storage has: one row per write and place."""

SAME_SPLIT = row(
    table_name="string",
    manifest_kind="string",
    bucket="string",
    key="string",  # the file of the run or attempt that does not count
    related_key="string",  # the file of the one that does
    commit_id="string",  # the run of the file
    related_commit="string",
    ended_at="time",  # when the run that counts was committed
    modified_at="time",  # when the younger of both files was stored
    size="long",
    rows="long",  # of the file; null: not known
    why="string",  # what the writer's own record says of both, in words
)
"""Two files that storage has, which are one split of one job by the writer's own record: one row per file too many."""

UPLOAD = row(source="string", bucket="string", key="string", upload_id="string", initiated_at="time")
"""A multipart upload that was begun and not completed."""

REQUEST = row(
    source="string",
    bucket="string",
    key="string",  # raw; of a list the prefix that was listed
    version_id="string",  # that the request named; null: it named none
    action="string",  # put | copy | delete | expire | transition | restore | get | head | list
    at="time",  # when the store received it
    took="long",  # milliseconds until it was answered; null: unknown
    principal="string",  # who sent it; anonymous: nobody signed it; null: the source does not say
    request_id="string",
    operation="string",  # in the words of the source
    job="string",  # what the client says of itself: which job of whom; null: nothing
    status="long",  # of HTTP; null where there was no request, or the source does not say
    succeeded="bool",
    reject="string",
)
"""Who did what to a key, and when: one row per request and key. A source may give one twice, and may lack any."""

NOTE = row(
    source="string",
    subject="string",  # what of the source it is about: a URI, a folder, a line
    reason="string",  # null, or what is wrong with it
    count="long",  # rows that are missing for it
    data="string",  # what else the reader wants to be told on the driver, as JSON; null: nothing
)
"""What a task tells the driver of a part: few rows, never one per file of a table."""

ENTRY = row(
    source="string",
    bucket="string",
    key="string",  # of the file or folder, without trailing slash
    parent="string",  # key of the parent folder; "": the bucket's root, or the store has no folders
    is_dir="bool",
    tombstone="bool",
    expired="bool",  # past its ttl at the store's own cut, outside honoured authoritative paths
    honoured="bool",  # under a path where readers trust the store alone
    authoritative="bool",  # a directory whose listing the store calls complete
    bare="bool",  # its store knows names alone: no size and no ETag; null: no
    opaque="bool",  # whether it is of a file, of a folder or of a deletion only its writer can read; null: no
    size="long",
    etag="string",
    version_id="string",
    mod_time="time",
    last_updated="time",  # null where absent or 0
    last_updated_given="bool",  # the field exists (0 counts as given)
    reject="string",
)
"""One entry of a metadata store: one row per (source, bucket, key)."""

PARTITION = row(
    source="string",  # id of the catalog
    table_name="string",  # as the catalog calls it: namespace.table
    bucket="string",  # of its location; null with `key`: it is no place in a store
    key="string",  # the folder with a slash at its end
    values="strings",  # of the table's partition columns, as the catalog holds them, not escaped
    registered_at="time",  # when it was entered or last changed; null: the catalog does not say
    filled_said="bool",  # the catalog's own statistics say that it has rows or files; null: they say nothing
    rows_said="long",  # of those, the rows
    content_said="bool",  # they count rows or bytes
)
"""A partition of a plain Hive table as a catalog has it registered."""
