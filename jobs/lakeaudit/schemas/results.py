"""The result tables: the contract that dashboards and runbooks are written against. Times carry their zone."""

import pyarrow as pa

from lakeaudit.schemas.columns import result, row

SOURCE_OF_RUN = result(
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
        *result(
            run_id="string",
            lake="string",
            as_of="time",
            started_at="time",
            finished_at="time",
            status="string",  # running | complete | partial | suspect | failed; of `follow`: following | followed
        ),
        ("sources", pa.list_(pa.struct(list(SOURCE_OF_RUN)))),
        *result(
            tables_expected="long",
            tables_audited="long",
            error="string",
            version="string",
            gates="strings",  # what did not hold, in words
        ),
    ]
)

COVERAGE = result(
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

FINDINGS = result(
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
    owner="string",  # of the table
)

LEFTOVER_FILES = result(
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

COMMITS = result(
    run_id="string",
    lake="string",
    table_name="string",
    manifest_kind="string",
    version="long",
    commit_id="string",  # as findings name it
    committed_at="time",
    operation="string",
    files_added="long",  # null: its log does not say
    files_removed="long",
)

STATES = result(
    run_id="string",
    lake="string",
    table_name="string",
    manifest_kind="string",
    as_of="time",
    location="string",  # of the table; where standing is `elsewhere`, of the other table
    number="long",  # Delta version, number of the metadata.json, Hudi instant
    state="string",  # name of the state's own file; null: it has none
    table_id="string",  # as the format names the table itself; null: it does not
    written_at="time",  # when the state's own file was written
    etag="string",  # of that file; null: the store gives none
    # read: the newest state that was read | lost: reported as lost
    # elsewhere: files of it lie in another table's folder | catalogued: beside that, a catalog names it
    standing="string",
    files="long",  # data files that it lists; null: not counted
    bytes="long",
)

TRANSITIONS = result(
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
    owner="string",  # of the table
)

LEDGER = result(
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

TABLES = result(
    lake="string",
    table_name="string",
    owner="string",
    location="string",
    format="string",  # delta | iceberg | hudi | hive; null: it has no state of its own
    catalog="string",  # the catalogs that name it
    first_run_id="string",
    first_audited_at="time",
    last_run_id="string",
    last_audited_at="time",
    version="long",
    files="long",
    bytes="long",
    rows="long",
)
"""The tables of a lake, with the first and the last published run that judged each; null: not known."""

VERIFIED = result(
    run_id="string",
    lake="string",
    table_name="string",
    location="string",
    as_of="time",
    verified_through="time",
    movement="string",  # forward | back | same
    open_discrepancies="long",
    blocked_by="strings",
)
"""The watermark of each table after each run that audited it."""

NOTICES = result(
    notice_id="string",
    lake="string",
    run_id="string",  # the run it tells of; of audit_overdue: the last that was published
    receiver="string",  # where it goes, without any secret
    table_name="string",  # null: the audit itself, or evidence of no table
    fingerprint="string",  # digest of lake, receiver and what it is about: the same in every run
    # discrepancies | mass_loss | coverage_lost | still_open | audit_suspect | audit_failed | audit_overdue
    # audit_recovered | route_added (the receiver gets messages from then on; it has no message)
    # runs_reported (`content` lists the runs that rounds have read; it has no receiver and no message)
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
    owner="string",  # of the table; null: no owner
    content="string",  # the notice as JSON, as a webhook gets it; null: written by an earlier version
)

PLANS = result(
    plan_id="string",
    lake="string",
    digest="string",  # of the plan's file
    lake_digest="string",  # of the lake file that it was made with
    created_by="string",
    created_at="time",
    expires_at="time",
    approved_by="string",
    status="string",  # planned | applying | applied | undoing | undone
    steps="long",  # without those that need a person
    for_person="long",
)

ACTIONS = result(
    plan_id="string",
    lake="string",
    action_id="string",
    batch="long",  # steps that were recorded and done together
    discrepancy_id="string",
    table_name="string",
    action="string",
    bucket="string",
    key="string",
    precondition="string",  # JSON
    reversibility="string",  # reversible | compensable | final
    status="string",  # see reconcile.execution.journal
    undo="string",  # JSON: what its undo has to know
    error="string",  # why it is not done, or not taken back
    done_at="time",
)

RESULTS: dict[str, pa.Schema] = {
    "runs": RUNS,
    "coverage": COVERAGE,
    "leftover_files": LEFTOVER_FILES,
    "commits": COMMITS,
    "states": STATES,
    "findings": FINDINGS,
    "transitions": TRANSITIONS,
    "discrepancies": DISCREPANCIES,
    "verified": VERIFIED,
    "tables": TABLES,
    "notices": NOTICES,
}
"""The result tables in their order of writing, `runs` first and again last but for `tables` and `notices`."""

RECONCILE_RESULTS: dict[str, pa.Schema] = {"plans": PLANS, "actions": ACTIONS}
"""What `reconcile` writes; no audit opens them."""

RESULT_SCHEMAS: dict[str, pa.Schema] = RESULTS | RECONCILE_RESULTS
"""All result tables."""

VACUUM_INVENTORY = row(path="string", length="long", isDir="bool", modificationTime="long")
"""What Delta's `VACUUM ... USING INVENTORY` takes: raw paths as Hadoop writes them, bytes, epoch milliseconds.

The names, types and order are compared as a whole (delta-io/delta, VacuumCommand.INVENTORY_SCHEMA).
"""

ICEBERG_FILE_LIST = result(file_path="string", last_modified="time")
"""What Iceberg's `remove_orphan_files` takes as `file_list_view` (Iceberg documentation, Spark procedures)."""
