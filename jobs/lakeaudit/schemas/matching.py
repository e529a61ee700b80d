"""Rows that rules are asked of, and their verdicts. Presence is spelled out, never inferred from a null."""

import pyarrow as pa

from lakeaudit.schemas.columns import row

PAIR = row(
    bucket="string",
    key="string",
    relative="string",  # the key below its owner's location
    table_name="string",  # the table whose manifest claims the key; null where none does
    owner="string",  # the table with the longest declared location that holds the key; null where none does
    first="bool",  # of the rows of one key, the one that stands for the object
    category="string",
    partition_path="string",
    c_state="string",  # the claim of table_name's state manifest: live | history | gone; null: none
    c_certain="bool",
    c_size="long",
    c_least_size="long",
    c_etag="string",
    c_version_id="string",
    c_checksum="string",
    c_records="long",
    c_claimed_at="time",
    c_removed_at="time",
    c_explained="bool",
    c_listed="long",
    c_commit_id="string",
    c_table_version="long",
    c_kind="string",
    e_state="string",  # the claim of an event manifest beside a state manifest: live | gone; null: none
    e_claimed_at="time",
    r_live="bool",  # references over all tables of the lake
    r_history="bool",
    r_gone="bool",
    r_removed_at="time",  # the last readable removal, promised states among them
    r_conflict="bool",  # live in two tables, each under its own root, not shared
    s_presence="string",  # present | absent | unclear | uncovered
    s_source="string",
    s_size="long",
    s_etag="string",
    s_version_id="string",
    s_modified_at="time",
    s_storage_class="string",
    s_archived="bool",
    s_multipart="bool",
    s_encryption="string",
    s_checksum="string",
    s_delete_marker="bool",
    s_older_version_id="string",
    s_older_size="long",
    s_older_since="time",  # when the next version or marker was written; null: unknown
    s_older_newer="long",  # newer versions and markers that are not current; null: unknown
    s_older_matches="bool",  # it was current at the claim, with the claim's size and ETag; null: nobody looked
    s_older_beneath_marker="bool",  # only the newest delete marker hides it; null: nobody looked
    s_versus_claimed="string",  # content now against that current at the claim: same | differs; null: unknown
    s_from="time",
    s_to="time",
    s_margin="span",
    m_state="string",  # file | dir | tombstone | none (in scope, no entry) | unscoped
    m_source="string",
    m_expired="bool",
    m_honoured="bool",  # readers trust the store alone here
    m_size="long",
    m_etag="string",
    m_version_id="string",
    m_mod_time="time",
    m_last_updated="time",
    m_from="time",
    m_margin="span",
    m_ttl="span",  # after so long without an update an entry expires, and may be pruned; null: never
    t_grace="span",  # of table_name
    t_archived_after="span",  # older objects are archived on purpose; null: none is
    t_read_at="time",
    t_horizon="time",
    t_holed="bool",  # its own log has a hole
    o_grace="span",  # of owner
    o_leftover_age="span",
    o_max_upload="span",
    o_retention="span",
    o_manifest="bool",  # has a manifest
    o_complete="bool",  # and its manifests are whole
    o_logged="bool",  # keeps a log below its location
    o_by_folder="bool",  # its readers read whatever lies visible in its folders
    o_horizon="time",
    h_storage="bool",  # the deciding storage source has a hole
    h_references="bool",  # a manifest that could list the key has a hole
    h_metastore="bool",
    v_assumed="bool",  # an unlogged vacuum explains the removal
    l_confirmation="string",  # live | sample | second_cut | none | denied | error | limit
)
"""What all sources say of one key: one row per (bucket, key) and claiming table, or per unclaimed key."""

TABLE_FACTS = row(
    name="string",
    root_length="long",  # characters of what every key below its location begins with
    grace="span",
    leftover_age="span",
    max_upload="span",
    retention="span",
    stateful="bool",  # has a manifest that says what the table is
    manifest="bool",
    complete="bool",
    logged="bool",  # keeps a log below its location
    by_folder="bool",  # its readers read whatever lies visible in its folders
    read_at="time",
    horizon="time",
    holed="bool",
    shares="strings",  # tables that may list the same files
    min_duplicate_size="long",
    archived_after="span",
)
"""What holds for one table of the lake as a whole."""

CUT = row(source="string", start="time", end="time", margin="span")
"""The window of one source's picture."""

OLDER_VERSIONS = row(
    bucket="string",
    key="string",
    version_id="string",
    size="long",
    since="time",  # when the next version or marker was written; null: unknown
    newer="long",  # newer versions and markers that are not current; null: unknown
)
"""An older version that can bring something back."""

VERSION_RULES = row(
    bucket="string",
    prefix="string",
    rule="string",
    days="long",  # after the next version was written
    newer="long",  # so many newer versions that are not current must there be
    larger_than="long",  # bytes, exclusive; null: any
    smaller_than="long",
    tags="bool",  # only objects with certain tags
    unread="string",  # why the bucket's rules are not known (then only bucket is filled beside it)
)
"""A lifecycle rule that deletes older versions, or a bucket of which no rules are known."""

KNOWN = row(
    axis="string",
    judged_table="string",
    bucket="string",
    key="string",
    known_as="string",  # id of the discrepancy; null: it is resolved
    known_at="time",  # the evidence that showed it to another run; null: this run alone has seen it; to come: refuted
    known_claim="time",  # of when the claim was by then
    known_back="time",  # it was lost: an object of the claimed size written up to then is the file put back
)
"""A file that the ledger holds pending or open."""

TREE = row(
    source="string",
    bucket="string",
    key="string",
    parent="string",
    is_dir="bool",
    tombstone="bool",
    expired="bool",
    size="long",
    etag="string",
    touched_at="time",  # null: long ago
    parent_found="bool",
    parent_is_tombstone="bool",
    parent_is_file="bool",
    parent_touched_at="time",
    keys_below="bool",
    object_there="bool",
    children_missing="bool",
    field_absent="bool",
    grace="span",
    tree_edge="time",
    h_metastore="bool",
    owner="string",
    relative="string",
)
"""One entry of a metadata store among its neighbours."""

LEFTOVERS = row(
    judged_table="string",
    axis="string",
    rule="string",
    kind="string",
    severity="string",
    bucket="string",
    key="string",
    relative="string",
    partition_path="string",
    category="string",
    size="long",
    records="long",  # of its claim, where it had one
    by_log="bool",  # readers go by a log of the table, so it costs storage only
    etag="string",
    version_id="string",
    modified_at="time",
)
"""A leftover verdict that is a finding."""

VERDICT = pa.schema(
    [
        *PAIR,
        *row(
            axis="string",
            judged_table="string",
            rule="string",
            outcome="string",  # consistent | finding | ignored | out_of_window | undecided | uncovered | moved_on
            kind="string",  # of a finding
            severity="string",
            manifest_claimed_at="time",  # of content: the claim's time, whatever was put back since
            known_as="string",  # the discrepancy that is still open there
            known_at="time",
            suspected="bool",  # the first reading called it a finding
        ),
    ]
)
"""What a rule says of one PAIR row on one axis, for one table."""

COPY = pa.schema([*VERDICT, *row(related_key="string", group_id="string")])
"""A redundant copy: a verdict with the key that it repeats."""

TREE_VERDICT = pa.schema(
    [
        *TREE,
        *row(mostly_etags="bool", judged_table="string", axis="string", rule="string", outcome="string"),
        *row(kind="string", severity="string"),
    ]
)
"""What a rule says of one TREE row, for either habit of its store."""
