"""Rows to which the rules apply, and their verdicts. Presence has its own columns and is never inferred from a null."""

import pyarrow as pa

from lakeaudit.schemas.columns import row
from lakeaudit.schemas.evidence import DECLARED, SAME_SPLIT

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
    s_older_class="string",
    s_older_since="time",  # when the next version or marker was written; null: unknown
    s_older_newer="long",  # newer versions and markers that are not current; null: unknown
    s_older_matches="bool",  # it was current at the claim, with the claim's size and ETag; null: nobody looked
    s_older_beneath_marker="bool",  # only the newest delete marker hides it; null: nobody looked
    s_versus_claimed="string",  # content now against that current at the claim: same | differs; null: unknown
    s_footer_fault="string",  # why its ends show that it is not what was recorded; null: they do not, or nobody looked
    s_from="time",
    s_to="time",
    s_margin="span",
    m_state="string",  # file | named (bare) | opaque | dir | tombstone | none (in scope, no entry) | unscoped
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
    t_moved="bool",  # it was moved here: its files are copies
    o_grace="span",  # of owner
    o_leftover_age="span",
    o_max_upload="span",
    o_retention="span",
    o_manifest="bool",  # has a manifest
    o_complete="bool",  # and its manifests are whole
    o_logged="bool",  # keeps a log below its location
    o_by_folder="bool",  # its readers read whatever lies visible in its folders
    o_by_index="bool",  # its readers list it by Hudi's metadata table
    o_slice="bool",  # by its name readers that list the folders of its owner, a Hudi table, may take it
    o_horizon="time",
    h_storage="bool",  # the deciding storage source has a hole
    h_references="bool",  # a manifest that could list the key has a hole
    h_metastore="bool",
    v_assumed="bool",  # an unlogged vacuum explains the removal
    l_confirmation="string",  # live | sample | second_cut | none | denied | error | limit
)
"""The evidence of all sources about one key: one row per (bucket, key) and claiming table, or per unclaimed key."""

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
    moved="bool",  # it was moved here: its files are copies
    by_index="bool",  # its readers list it by Hudi's metadata table
    first_instant="string",  # of its Hudi timeline: readers that list folders take older ones for completed
)
"""The facts about one table of the lake as a whole."""

INSTANT = row(name="string", slice_instant="string")
"""A completed write of a table's Hudi timeline."""

CUT = row(source="string", start="time", end="time", margin="span")
"""The snapshot window of one source."""

OLDER_VERSIONS = row(
    bucket="string",
    key="string",
    version_id="string",
    size="long",
    since="time",  # when the next version or marker was written; null: unknown
    newer="long",  # newer versions and markers that are not current; null: unknown
)
"""An older version from which a file can be restored."""

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
"""A lifecycle rule that deletes older versions, or a bucket whose rules are not known."""

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

COMMIT = row(
    judged_table="string",
    bucket="string",
    key="string",  # of the file that holds the commit
    relative="string",
    version="long",
    lost_at="time",  # when another version of its file was written, which is lost; null: storage keeps none
    written_at="time",  # when the version was written that took its place
    before_at="time",  # when the files of the commits before and after it were written
    after_at="time",
    differs="bool",  # sizes or MD5s of both versions differ
    versions_asked="bool",  # both versions were asked for
    versions_read="bool",  # and read; null: not asked for
    lost_files="long",  # added by the lost version, and listed by no state since
    lost_removals="long",  # removed by the lost version, and listed still
    lost_of_table="bool",  # the lost version changed the table as a whole
    doubted="bool",  # by its log alone it may have been written twice
    proved="bool",  # by its log alone it was
    alike="bool",  # another commit added what looks the same
    batches_read="bool",  # both batches were read; null: not asked for
    older_files="long",  # files of the older batch, and those of them that are live; then of the younger one
    older_live="long",
    files="long",
    live="long",
)
"""The facts about one commit of a log that may be faulty."""

LINEAGE = row(
    judged_table="string",
    bucket="string",
    key="string",  # of the file of the state that is claimed
    relative="string",
    claim="string",  # see evidence.lineage
    proved="bool",  # one piece of its evidence is enough
    built_on="long",  # data files whose names carry the state
    recreated="bool",  # the table was created again since
    explained="bool",  # an operation of the format explains it
    known="bool",  # the lake file names the table, or an audit has read it before
)
"""The claim of a witness about a state of a table other than the one that was read."""

WRITE = pa.schema(
    [
        *DECLARED,
        *row(
            judged_table="string",
            key="string",  # the path with a slash at its end
            relative="string",
            edge="time",  # up to when storage is judged there; null: no source covers the place
            cut="time",  # when the picture of storage there was begun
            grace="span",
            logged="bool",  # a log says what the table is, and may have removed what was written
            holed="bool",  # of the writers' records or of storage there something could not be read
        ),
    ]
)
"""A write of which storage has less than its writer declared, or that cannot be compared."""

CHECKSUM = row(
    judged_table="string",
    relative="string",  # of the checksum's file
    bucket="string",
    key="string",
    table_version="long",
    files="long",  # that the checksum counts; null: it does not say
    bytes="long",
    files_listed="long",  # data files of that version, by the log
    bytes_listed="long",
    holed="bool",  # of the log something could not be read
)
"""The counts that a writer declared for a version of a table, and those of the log."""

ATTEMPT = pa.schema(
    [
        *SAME_SPLIT,
        *row(
            judged_table="string",
            relative="string",
            edge="time",  # up to when storage is judged there; null: no source covers the place
            cut="time",  # when the picture of storage there was begun
            grace="span",
            by_folder="bool",  # readers of the table read whatever lies visible in its folders
        ),
    ]
)
"""A file of a failed attempt, with the file that counts."""

LOG_ENTRY = row(
    judged_table="string",
    bucket="string",
    key="string",  # of the file that holds the commit, or should
    relative="string",
    version="long",
    edge="time",  # of the log store's picture
    grace="span",
    touched_at="time",  # the last of entered_at, temp_at and written_at; null: long ago
    entered="bool",  # the store has an entry of the commit
    complete="bool",  # and calls it complete
    entered_at="time",  # when it was completed
    past="bool",  # the log begins after it, or is another table's
    temp="string",  # the entry's temporary file, below `_delta_log/`
    temp_at="time",
    temp_there="bool",
    logged="bool",  # the log has the commit
    written_at="time",
    differs="bool",  # the commit has another content than its temporary file
    prepared="bool",  # without an entry: a temporary file is there that its writer may have made
    copied="bool",  # without an entry: its file was written long after the commit was made
)
"""A commit on which a log store and the log may not agree."""

CLONE_FILE = pa.schema(
    [
        *PAIR,
        *row(
            source="string",  # the table below whose root the file lies: the PAIR row's owner
            x_state="string",  # what that table claims of it: live | history | gone; null: nothing
            x_certain="bool",
            x_removed_at="time",
        ),
    ]
)
"""A live file of a table below another table's root."""

FOLDER_PAIR = row(
    judged_table="string",
    bucket="string",
    folder_from="string",  # the folder whose newest file is the older one
    folder_to="string",
    files="long",  # files of the same names, sizes and contents in both
    bytes="long",
    unrepeated="bool",  # a file has a name that no two writers give
    dated="bool",  # the folders differ in numbers or partition values alone
    ignored="bool",  # the lake file ignores these files
    storage_time="time",
)
"""Two folders of one table with the same files, none listed by a state."""

EFFECT = row(
    bucket="string",
    key="string",
    effect="string",  # gone | changed | archived
    claimed_at="time",  # null: what is requested at any time may be its cause
    until="time",  # when somebody looked
    written_at="time",  # of the stored object; null: not known
    version_id="string",  # that was recorded
)
"""A change of an object, and when it may have happened: the records of requests are searched for it."""

CAUSE = row(
    bucket="string",
    key="string",
    effect="string",
    action="string",  # as in REQUEST
    operation="string",
    cause_at="time",
    cause_principal="string",  # null: the source does not say
    request_id="string",
    job="string",  # in the client's own words
)
"""The request that caused an effect."""

SEEN = row(
    table_name="string",
    bucket="string",
    key="string",  # of a list the folder
    folder="string",  # of a list, and of a write for each folder around it; else null
    version_id="string",
    action="string",  # as in REQUEST
    at="time",
    principal="string",  # of a role without its session
    request_id="string",
    status="long",
    succeeded="bool",
    weak="bool",  # the bucket's listings may lag
    is_data="bool",  # no name that readers skip
)
"""A request about a table, from which patterns of access are derived."""

ACCESS = row(
    judged_table="string",
    bucket="string",
    deed="string",  # write | list | read
    found="string",  # of the key or folder before: written | removed (or replaced) | missing
    principal="string",
    weak="bool",  # the bucket's listings may lag
    files="long",
    requests="long",
    first_at="time",
    last_at="time",
    samples="strings",  # keys, three at most
)
"""A pattern of access to a table by one principal."""

EXPIRING = row(
    judged_table="string",
    bucket="string",
    partition_path="string",
    lifecycle_rule="string",  # as the bucket names it; null: its rules are not known
    unread="string",  # why they are not
    does="string",  # deletes | archives
    days="long",  # after which it acts; null: on a date
    tags="bool",  # it concerns only objects with certain tags
    archived_after_days="long",  # the table's older files are archived on purpose; null: none is
    files="long",  # live files that it concerns; with tags, or unknown rules: may concern
    bytes="long",
    records="long",
    oldest="time",  # when the oldest of them was claimed
    number="long",  # of the action among those of the run
    of_log="bool",  # the files are those of the table's own log that its newest state needs
)
"""The planned effect of a lifecycle rule on live files of one table and partition."""

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

SLICE = row(
    judged_table="string",
    bucket="string",
    key="string",
    taken="bool",  # readers that list its folder take it, or refuse its file group for it
    removed_at="time",  # when an instant removed or replaced it; null: none did
    records="long",  # of the instant that wrote it; null: not known
)
"""A base file that no state lists, among the files of its file group."""

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
"""The verdict of a rule on one PAIR row on one axis, for one table."""

RECHECKED = pa.schema([*VERDICT, *row(related_key="string", versions_known="bool", recheck_words="string")])
"""A verdict after storage and the newest states were read again."""

COPY = pa.schema([*VERDICT, *row(related_key="string", group_id="string")])
"""A redundant copy: a verdict with the key that it repeats."""

TREE_VERDICT = pa.schema(
    [
        *TREE,
        *row(mostly_etags="bool", judged_table="string", axis="string", rule="string", outcome="string"),
        *row(kind="string", severity="string"),
    ]
)
"""The verdict of a rule on one TREE row, for either kind of store."""
