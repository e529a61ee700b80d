"""Every table that lakeaudit passes between its rooms or writes, in one place, as Arrow schemas.

Observations are what one source claims about one (bucket, key); results are the contract that dashboards and
runbooks are written against. Inside an audit times are UTC without a zone (`time`), so that DuckDB compares them
without a calendar; in the result tables they carry their zone (`instant`). Presence is spelled out, never inferred
from a null.
"""

from datetime import UTC, datetime
from typing import overload

import pyarrow as pa

_TYPES: dict[str, pa.DataType] = {
    "string": pa.string(),
    "long": pa.int64(),
    "double": pa.float64(),
    "bool": pa.bool_(),
    "time": pa.timestamp("us"),
    "instant": pa.timestamp("us", "UTC"),
    "date": pa.date32(),
    "span": pa.duration("us"),
    "strings": pa.list_(pa.string()),
}


def _row(**columns: str) -> pa.Schema:
    return pa.schema([(name, _TYPES[kind]) for name, kind in columns.items()])


def _result(**columns: str) -> pa.Schema:
    """A result table's columns: times with their zone."""
    return _row(**{name: "instant" if kind == "time" else kind for name, kind in columns.items()})


CLAIM = _row(
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

VERSION = _row(
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
    reject="string",  # null, or why this row could not be understood (then nothing else but source is filled)
)
"""One version of one object, as storage readers see it before they reduce it to a STORED row."""

STORED = _row(
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
)
"""What one storage source says of one key: one row per (source, bucket, key)."""

UPLOAD = _row(source="string", bucket="string", key="string", upload_id="string", initiated_at="time")
"""A multipart upload that was begun and not completed."""

NOTE = _row(
    source="string",
    subject="string",  # what of the source it is about: a URI, a folder, a line
    reason="string",  # null, or what is wrong with it
    count="long",  # rows that are missing for it
    data="string",  # what else the reader wants to be told on the driver, as JSON; null: nothing
)
"""What a task tells the driver of a part: few rows, never one per file of a table."""

ENTRY = _row(
    source="string",
    bucket="string",
    key="string",  # of the file or folder, without trailing slash
    parent="string",  # key of the parent folder; "" is the bucket's root
    is_dir="bool",
    tombstone="bool",
    expired="bool",  # past its ttl at the store's own cut, outside honoured authoritative paths
    honoured="bool",  # under a path where readers trust the store alone
    authoritative="bool",  # a directory whose listing the store calls complete
    size="long",
    etag="string",
    version_id="string",
    mod_time="time",
    last_updated="time",  # null where absent or 0
    last_updated_given="bool",  # the field exists (0 counts as given)
    reject="string",
)
"""One entry of a metadata store: one row per (source, bucket, key)."""

PAIR = _row(
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

TABLE_FACTS = _row(
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

CUT = _row(source="string", start="time", end="time", margin="span")
"""The window of one source's picture."""

KNOWN = _row(
    axis="string",
    judged_table="string",
    bucket="string",
    key="string",
    known_as="string",  # id of the discrepancy; null: it is resolved
    known_at="time",  # the evidence that first showed it to another run; null: this run alone has seen it
    known_claim="time",  # of when the claim was by then
    known_back="time",  # it was lost: an object of the claimed size written up to then is the file put back
)
"""A file that the ledger holds pending or open."""

TREE = _row(
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

LEFTOVERS = _row(
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
        *_row(
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

COPY = pa.schema([*VERDICT, *_row(related_key="string", group_id="string")])
"""A redundant copy: a verdict with the key that it repeats."""

TREE_VERDICT = pa.schema(
    [
        *TREE,
        *_row(mostly_etags="bool", judged_table="string", axis="string", rule="string", outcome="string"),
        *_row(kind="string", severity="string"),
    ]
)
"""What a rule says of one TREE row, for either habit of its store."""

TALLY = _row(
    judged_table="string",
    axis="string",
    outcome="string",
    files="long",
    bytes="long",
    unconfirmed="long",
    refuted="long",
)
"""Files by outcome for one table and axis, of a share of the keys."""

BATCH = _row(
    table_name="string",
    reading="long",  # which reading of the table's log it belongs to
    version="long",
    time="time",
    operation="string",  # null: not in these lines
    appends="bool",  # these lines add data files and nothing else, each with statistics
    files="long",
    rows="long",
    bytes="long",
    digest="long",  # of sizes, partitions and statistics, whatever their order: adds up, modulo 2 ** 62
    varied="bool",  # some column has more than one value
)
"""What the lines of one commit append, or a part of them."""

REPEATED = _row(
    table_name="string", older="long", older_at="time", younger="long", younger_at="time", files="long"
)
"""Two commits that appended what looks the same."""

CLONED = _row(
    table_name="string",
    source="string",  # the table below whose root the files lie
    files="long",
    rows="long",
    bytes="long",
    removed_at="time",  # the first removal that can be read
    sample="string",
)
"""Live files of a clone that its source has removed."""

LOG_VERSIONS = _row(
    source="string",
    bucket="string",
    key="string",
    version_id="string",
    is_latest="bool",
    is_delete_marker="bool",
    size="long",
    etag="string",
    modified_at="time",
    md5="bool",  # the ETag is an MD5, so another one is another content
)
"""A version of a commit of a Delta log that has several."""

MOVES = _row(
    **dict.fromkeys(("judged_table", "axis", "rule", "outcome", "kind", "severity", "bucket"), "string"),
    folder="string",
    other_folder="string",
    files="long",
    bytes="long",
    modified_at="time",  # the newest of the files, in either folder
    other_modified_at="time",
    unrepeated="bool",  # a file has a name that no two writers give
)
"""Two folders with the same files, of a share of the names."""

ANSWERS: dict[str, pa.Schema] = {
    "tallies": TALLY,
    "suspects": VERDICT,
    "fresh": VERDICT,
    "leftovers": LEFTOVERS,
    "copies": COPY,
    "moves": MOVES,
    "uploads": UPLOAD,
    "claimed": _row(judged_table="string", source="string", files="long"),
    "nested": _row(bucket="string", key="string"),
    "log_versions": LOG_VERSIONS,
    "repeated": REPEATED,
    "cloned": CLONED,
    "removals": _row(table_name="string", present_from="time", absent_until="time", absent_files="long"),
    "tree_tallies": pa.schema([*TALLY, *_row(source="string", mostly_etags="bool")]),
    "tree_suspects": TREE_VERDICT,
    "siblings_judged": pa.schema(
        [
            *_row(judged_table="string", axis="string", outcome="string", files="long", bytes="long"),
            *_row(source="string", bucket="string", parent="string"),
        ]
    ),
    "settled": _row(name="string", files="long", bytes="long"),
}
"""What the kernel answers, by kind of row."""

ASKED = _row(
    bucket="string",
    key="string",
    claimed_at="time",  # what is claimed of it: see `evidence.storage.object_versions.Claimed`
    claimed_until="time",
    size="long",
    etag="string",
    fresh="bool",  # its versions matter only where it is not what was claimed
)
"""A key that storage is asked about now."""

LIVE = _row(
    bucket="string",
    key="string",
    l_confirmation="string",  # live (answered) | denied | error
    l_presence="string",  # present | absent; null when not answered
    l_size="long",
    l_etag="string",
    l_version_id="string",
    l_modified_at="time",
    l_storage_class="string",
    l_archived="bool",
    l_multipart="bool",
    l_encryption="string",
    l_checksum="string",
    l_delete_marker="bool",
    l_older_version_id="string",
    l_older_size="long",
    l_older_matches="bool",
    l_older_beneath_marker="bool",
    l_versus_claimed="string",
    l_versions_known="bool",  # older versions were asked for and answered
    l_at="time",
)
"""What storage answers now about one (bucket, key)."""

SOURCE_OF_RUN = _result(
    role="string",
    kind="string",
    location="string",
    identity="string",
    cut_from="time",
    cut_to="time",
    rows="long",
    rejected="long",
    seconds="double",
)
"""One element of runs.sources."""

RUNS = pa.schema(
    [
        *_result(
            run_id="string",
            lake="string",
            as_of="time",
            started_at="time",
            finished_at="time",
            status="string",  # running | complete | partial | suspect | failed
        ),
        ("sources", pa.list_(pa.struct(list(SOURCE_OF_RUN)))),
        *_result(
            tables_expected="long",
            tables_audited="long",
            error="string",
            version="string",
            gates="strings",  # what did not hold, in words
        ),
    ]
)

COVERAGE = _result(
    run_id="string",
    lake="string",
    table_name="string",
    axis="string",
    status="string",  # complete | partial | off | overtaken
    reason="string",
    table_version="long",
    storage_cut_from="time",
    storage_cut_to="time",
    history_horizon="time",
    files="long",
    bytes="long",
    consistent="long",
    findings="long",
    ignored="long",
    out_of_window="long",
    undecided="long",
    moved_on="long",
    uncovered="long",
    unconfirmed="long",
    refuted="long",
    decided_share="double",
)

FINDINGS = _result(
    run_id="string",
    as_of_date="date",
    lake="string",
    table_name="string",
    axis="string",
    kind="string",
    severity="string",
    subject_type="string",
    subject="string",
    bucket="string",
    key="string",
    group_id="string",
    related_key="string",
    category="string",
    partition_path="string",
    table_version="long",
    commit_id="string",
    manifest_kind="string",
    rows_at_stake="long",
    bytes_at_stake="long",
    files="long",
    manifest_size="long",
    metastore_size="long",
    storage_size="long",
    manifest_etag="string",
    metastore_etag="string",
    storage_etag="string",
    manifest_version_id="string",
    metastore_version_id="string",
    storage_version_id="string",
    manifest_time="time",
    metastore_time="time",
    storage_time="time",
    storage_class="string",
    recoverable="string",
    recovery="string",
    recovery_version_id="string",
    recoverable_until="time",
    confirmation="string",
    cause="string",
    cause_at="time",
    cause_principal="string",
    explanation="string",
    discrepancy_id="string",
)

LEFTOVER_FILES = _result(
    run_id="string",
    lake="string",
    table_name="string",
    kind="string",
    partition_path="string",
    bucket="string",
    key="string",
    size="long",
    etag="string",
    version_id="string",
    modified_at="time",
    category="string",
    discrepancy_id="string",
)

TRANSITIONS = _result(
    transition_id="string",
    run_id="string",  # null where a person changed it
    lake="string",
    discrepancy_id="string",
    transition="string",  # opened | escalated | reclassified | resolved | reopened | acknowledged
    from_kind="string",
    to_kind="string",
    from_severity="string",
    to_severity="string",
    at="time",
    reason="string",
)

LEDGER = _result(
    discrepancy_id="string",
    state="string",  # pending | open | resolved
    first_seen_at="time",  # of the evidence, as last_evidence_at
    last_evidence_at="time",
    opened_at="time",
    resolved_at="time",
    resolution="string",  # restored | reference_removed | metastore_mended | accepted | retired
    reopened="long",
    first_run_id="string",
    last_run_id="string",  # the run that changed the row last
    ack_by="string",
    ack_reason="string",
    ack_until="time",
)

_OF_RUN = ("run_id", "as_of_date", "discrepancy_id")
OF_FINDING = pa.schema([field for field in FINDINGS if field.name not in _OF_RUN])
"""What a discrepancy keeps of its latest finding."""

DISCREPANCIES = pa.schema([*LEDGER, *OF_FINDING])

NOTICES = _result(
    notice_id="string",
    lake="string",
    run_id="string",  # the run it tells of; of audit_overdue: the last that was published
    receiver="string",  # where it goes, without any secret
    table_name="string",  # null: the audit itself, or evidence of no table
    fingerprint="string",  # digest of lake, receiver and what it is about: the same in every run
    # discrepancies | mass_loss | still_open | audit_suspect | audit_failed | audit_overdue | audit_recovered
    kind="string",
    transition="string",  # the most pressing one that it tells of
    severity="string",
    discrepancies="long",  # how many it tells of
    over="bool",  # nothing of it is open any more
    message="string",
    status="string",  # due | sent | failed
    attempts="long",
    error="string",
    made_at="time",
    sent_at="time",
)

RESULTS: dict[str, pa.Schema] = {
    "runs": RUNS,
    "coverage": COVERAGE,
    "leftover_files": LEFTOVER_FILES,
    "findings": FINDINGS,
    "transitions": TRANSITIONS,
    "discrepancies": DISCREPANCIES,
    "notices": NOTICES,
}
"""The result tables in their order of writing, `runs` first and again last but for `notices`."""


def without_zone(schema: pa.Schema) -> pa.Schema:
    """A result table's columns as an audit holds them until they are written."""
    instant, time = _TYPES["instant"], _TYPES["time"]
    return pa.schema([field.with_type(time) if field.type == instant else field for field in schema])


@overload
def plain_time(time: datetime) -> datetime: ...
@overload
def plain_time(time: datetime | None) -> datetime | None: ...
def plain_time(time: datetime | None) -> datetime | None:
    """A moment as `time` columns hold it: UTC without a zone; one without a zone is UTC already."""
    return time if time is None or time.tzinfo is None else time.astimezone(UTC).replace(tzinfo=None)
