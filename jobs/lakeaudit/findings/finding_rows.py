"""Turns verdict rows with outcome `finding` into rows of the tables `findings` and `leftover_files`.

Times stay without a zone until they are written.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache

import pyarrow as pa

from lakeaudit.evidence import registry
from lakeaudit.kinds import (
    CONTENT_LOST,
    DELETED_IN_STORE,
    LIVE_AXES,
    NO_LIVE_LOOKS,
    STATE_LOST,
    STATE_LOST_FROM_ERROR,
)
from lakeaudit.rules import file_rules
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation, Rows
from lakeaudit.schemas import FINDINGS, LEFTOVER_FILES, LEFTOVERS, without_zone

FINDING_ROWS = without_zone(FINDINGS)
LEFTOVER_ROWS = without_zone(LEFTOVER_FILES)


@dataclass(frozen=True)
class RunStamp:
    """The values that every row of one run contains."""

    run_id: str
    lake: str
    as_of: datetime


def file_findings(con: Connection, rows: Rows, stamp: RunStamp) -> Relation:
    """Make FINDINGS about single files, from verdict rows of the content, metastore and duplicate axes.

    They state until when an older version is retained, see `restorable_until.with_ends`.
    """
    sides = (("manifest", "c"), ("metastore", "m"), ("storage", "s"))
    given = {
        f"{role}_{name}": f"{side}_{name}" for role, side in sides for name in ("size", "etag", "version_id")
    }
    given |= {
        name: f"CASE WHEN NOT {_TOMBSTONE} THEN {value} END"
        for name, value in given.items()
        if name.startswith("metastore")
    }
    given |= {
        "subject_type": "'file'",
        "subject": uri("bucket", "key"),
        "files": "1",
        "rows_at_stake": "c_records",
        "bytes_at_stake": "coalesce(c_size, s_size, m_size)",
        "table_version": "c_table_version",
        "commit_id": "c_commit_id",
        "manifest_kind": "c_kind",
        "manifest_time": "coalesce(c_claimed_at, e_claimed_at)",
        "metastore_time": "coalesce(m_last_updated, m_mod_time)",
        "storage_time": "s_modified_at",
        "storage_class": f"CASE WHEN {_FROM_ARCHIVE} THEN s_older_class ELSE s_storage_class END",
        "confirmation": _CONFIRMATION,
        "explanation": f"concat_ws('; ', {_by_lister(because())}, {', '.join(_DETAILS)})",
    }
    return finished(con, rows, given | _RECOVERY, stamp)


_AS_ENTERED = {
    "table_name": "judged_table",
    "files": "1",
    "confirmation": "'not_needed'",
    "recoverable": "'unknown'",
}
_ABSENT_FIELD = """CASE WHEN rule = 'metastore_tree.field_absent' THEN ': ' || coalesce(nullif(concat_ws(', ',
    CASE WHEN size IS NULL THEN 'file_length' END, CASE WHEN mostly_etags AND etag IS NULL THEN 'etag' END), ''),
    'mod_time or last_updated') ELSE '' END"""
"""SQL for the fields that an entry lacks; an entry that has length and ETag lacks its time."""
_OF_PARENT = {
    "metastore_tree.parent_missing": "the metadata store has no entry for this folder",
    "metastore_tree.parent_tombstone": "the metadata store says that this folder is deleted",
    "metastore_tree.parent_file": "the metadata store lists this folder as a file",
}


_LISTED = "the newest version of the table lists this file"


def _by_lister(reason: str) -> str:
    """Return SQL for a rule's reason that names the lister: a table version, an earlier snapshot, or a record."""
    listed = duck.literal(_LISTED)
    return f"""replace({reason}, {listed}, CASE
        WHEN c_kind IN ({duck.literals(registry.snapshot_kinds())}) THEN 'an earlier storage snapshot has this file'
        WHEN c_kind IN ({duck.literals(registry.state_kinds())}) OR c_kind IS NULL THEN {listed}
        ELSE 'according to a record of the table''s writer this file exists' END)"""


def tree_findings(con: Connection, rows: Rows, stamp: RunStamp) -> Relation:
    """Make FINDINGS about entries of a metadata store, and one about each parent at fault."""
    slashed = "key || CASE WHEN is_dir THEN '/' ELSE '' END"
    given = _AS_ENTERED | {
        "subject_type": "CASE WHEN is_dir THEN 'prefix' ELSE 'file' END",
        "key": slashed,
        "subject": uri("bucket", f"({slashed})"),
        "metastore_size": "size",
        "metastore_etag": "etag",
        "metastore_time": "touched_at",
        "explanation": f"{because()} || {_ABSENT_FIELD}",
    }
    entries = finished(con, rows, given, stamp)
    of_parents = _AS_ENTERED | {
        "subject_type": "'prefix'",
        "subject": uri("bucket", "key"),
        "explanation": "fault || ', although it still lists entries under this folder'",
    }
    return duck.union(con, [entries, finished(con, parents_at_fault(con, rows), of_parents, stamp)])


def parents_at_fault(con: Connection, rows: Rows) -> Relation:
    """Return parent folders at fault, by the verdict rows of their entries, each once.

    Columns: axis, outcome, kind, severity, judged_table, bucket, key, size (null), fault.
    """
    faults = " ".join(
        f"WHEN {duck.literal(rule)} THEN {duck.literal(fault)}" for rule, fault in _OF_PARENT.items()
    )
    sql = f"""
        SELECT DISTINCT axis, outcome, kind, severity, judged_table, bucket, parent || '/' AS key,
            CAST(NULL AS BIGINT) AS size, CASE rule {faults} END AS fault
        FROM input WHERE rule IN ({duck.literals([*_OF_PARENT])})
    """
    return duck.made_of(con, sql, rows)


def leftover_row(con: Connection, rows: Rows) -> Relation:
    """Return the few columns of an unused-file verdict that its finding needs."""
    renamed = {
        "size": "s_size",
        "records": "c_records",
        "by_log": "o_logged AND NOT o_by_folder",
        "etag": "s_etag",
        "version_id": "s_version_id",
        "modified_at": "s_modified_at",
    }
    return duck.conform(con, rows, LEFTOVERS, renamed)


def leftover_files(con: Connection, rows: Rows, stamp: RunStamp) -> Relation:
    """Add the group of each unused file: subject_type, subject, place, discrepancy_id.

    Files of failed tasks are spread over a table and one command removes them: they are one group per table.
    """
    grouped = f"""
        SELECT *, judged_table AS table_name,
            CASE WHEN {_PER_TABLE} THEN 'table' WHEN partition_path <> '' THEN 'partition' ELSE 'prefix' END
                AS subject_type,
            CASE WHEN {_PER_TABLE} THEN judged_table WHEN partition_path <> '' THEN partition_path
                ELSE {uri("bucket", "place")} END || '#' || kind AS subject
        FROM (SELECT *, {_PLACE} AS place FROM input)
    """
    rows = duck.made_of(con, grouped, rows)
    return duck.made_of(con, f"SELECT *, {_stamped(stamp)} FROM input", rows)


_PER_TABLE = "kind = 'uncommitted'"

# the first folder below the table, or the table itself where a partition is named
_PLACE = """left(key, length(key) - length(relative))
    || CASE WHEN partition_path = '' THEN regexp_extract(relative, '^([^/]+/)', 1) ELSE '' END"""


_DEBRIS = duck.literal(
    "; query engines use the table's metadata, so an unlisted file only costs storage; "
    "the format's own clean-up removes it"
)
"""For Delta the clean-up is VACUUM, not VACUUM LITE, which reads the log (Delta Lake docs, "Remove old files")."""
_COPIES = """
    '; ' || copies || ' of ' || files || CASE copies WHEN 1
        THEN ' has the name or the size of a lost file of the table, and may be the only copy of that file: '
            || 'do not delete it before that file is restored'
        ELSE ' have the name or the size of a lost file of the table, and may be the only copies of lost files: '
            || 'do not delete them before the lost files are restored' END
"""


def with_possible_copies(con: Connection, files: Rows, judged: Rows) -> Relation:
    """Add `may_be_copy` to `leftover_files` rows: the file has the name or the size of a live file that is lost.

    `judged` are verdict rows. `reconcile` leaves these files (`reconcile.plans.lost_content`).
    """
    kinds = duck.literals(CONTENT_LOST)
    lost = f"SELECT key, c_size AS size FROM input WHERE outcome = 'finding' AND kind IN ({kinds})"
    name = "regexp_extract(key, '[^/]*$')"
    sql = f"""
        SELECT input.*, {name} IN (SELECT {name} FROM lost)
            OR coalesce(size IN (SELECT size FROM lost WHERE size > 0), false) AS may_be_copy
        FROM input
    """
    return duck.made_of(con, sql, files, lost=duck.hold_any(con, duck.made_of(con, lost, judged)))


def leftover_findings(con: Connection, files: Rows, stamp: RunStamp) -> Relation:
    """Make one finding per (table, partition or prefix, kind), with files and bytes."""
    by = "table_name, axis, kind, severity, subject_type, subject, partition_path, bucket, by_log"
    groups = f"""
        SELECT {by}, min(place) AS place, count(*) AS files, CAST(sum(size) AS BIGINT) AS bytes_at_stake,
            CASE WHEN kind = 'stale_visible' AND count(records) = count(*) THEN CAST(sum(records) AS BIGINT) END
                AS rows_at_stake,
            min(modified_at) AS storage_time, max(category) AS category, max(rule) AS rule,
            count(*) FILTER (may_be_copy) AS copies
        FROM (SELECT * REPLACE (CASE WHEN NOT {_PER_TABLE} THEN partition_path END AS partition_path) FROM input)
        GROUP BY {by}
    """
    cost = f"CASE WHEN copies > 0 THEN {_COPIES} WHEN {_PER_TABLE} AND by_log THEN {_DEBRIS} ELSE '' END"
    given = {
        "key": "CASE WHEN subject_type = 'prefix' THEN place END",
        "confirmation": "'not_needed'",
        "explanation": f"{_group_reason(because())} || {cost}",
    }
    return finished(con, duck.made_of(con, groups, files), given, stamp)


def _group_reason(reason: str) -> str:
    """Return SQL for the number of files in a group and its reason; a single file is `this file` and `it`."""
    single = f"replace(replace({reason}, 'these files', 'this file'), ' them', ' it')"
    return f"CASE files WHEN 1 THEN '1 file; ' || {single} ELSE files || ' files; ' || {reason} END"


_LOSES_STATE = (
    f"kind IN ({duck.literals(STATE_LOST)})"
    f" OR (kind IN ({duck.literals(STATE_LOST_FROM_ERROR)}) AND coalesce(severity, '') NOT IN ('warning', 'info'))"
)
"""SQL for a finding that loses a state, which may list unlisted files; the twin of `kinds.loses_state`."""


def with_losses(con: Connection, findings: Rows) -> Relation:
    """Change the explanation of `uncommitted` files of a table that has lost a state: they may be needed."""
    sql = f"""
        SELECT input.* REPLACE (CASE WHEN kind = 'uncommitted' AND losing IS NOT NULL
            THEN replace(explanation, {_DEBRIS}, '') || '; a version of the table is lost, and may list files '
                || 'that look unused: first repair the findings ' || kinds || ' of the table'
            ELSE explanation END AS explanation)
        FROM input LEFT JOIN (
            SELECT table_name AS losing, string_agg(DISTINCT kind, ', ' ORDER BY kind) AS kinds
            FROM input WHERE {_LOSES_STATE} GROUP BY table_name) lost
            ON table_name = losing
    """
    return replace(duck.made_of(con, sql, findings), schema=findings.schema)


def as_leftover_rows(con: Connection, files: Rows) -> Relation:
    """Exactly the columns of LEFTOVER_FILES."""
    return duck.conform(con, files, LEFTOVER_ROWS)


def from_plain(con: Connection, rows: Sequence[Mapping[str, object]], stamp: RunStamp) -> Relation:
    """FINDINGS from a few rows made on the driver: sources, logs, tables."""
    plain = [{name: _plain(row.get(name)) for name in FINDING_ROWS.names} for row in rows]
    table = pa.Table.from_pylist(plain, FINDING_ROWS)
    return finished(con, table, {}, stamp)


def _plain(value: object) -> object:
    return value.replace(tzinfo=None) if isinstance(value, datetime) else value


def finished(con: Connection, rows: Rows, given: Mapping[str, str], stamp: RunStamp) -> Relation:
    """Exactly the columns of FINDINGS: `given` as SQL over the rows, else the rows' own, else null.

    The owner is null until `with_owners`.
    """
    if duck.is_empty(rows):
        return duck.relation(con, FINDING_ROWS.empty_table())
    there = set(duck.relation(con, rows).columns)
    table = "judged_table" if "judged_table" in there else "table_name"
    day = duck.literal(stamp.as_of.date())
    named = {"table_name": table} | dict(given) | {"as_of_date": day, "owner": "NULL"}
    columns = {
        name: named[name] if name in named else duck.quoted(name) if name in there else "NULL"
        for name in _BARE.names
    }
    bare = duck.conform(con, rows, _BARE, columns)
    stamped = ", ".join(map(duck.quoted, FINDING_ROWS.names))
    sql = f"SELECT {stamped} FROM (SELECT *, {_stamped(stamp)} FROM input)"
    return Relation(con, sql, {"input": bare}, FINDING_ROWS)


def with_owners(con: Connection, findings: Rows, owners: pa.Table) -> Relation:
    """Return FINDINGS with the owners of their tables, from rows of OWNER."""
    sql = """
        SELECT input.* REPLACE (owners.owner AS owner)
        FROM input LEFT JOIN owners ON input.table_name = owners.table_name
    """
    return replace(duck.made_of(con, sql, findings, owners=owners), schema=findings.schema)


_STAMPED = ("run_id", "lake", "discrepancy_id")
_BARE = pa.schema([field for field in FINDING_ROWS if field.name not in _STAMPED])


def uri(bucket: str, key: str) -> str:
    """Return SQL for the URI of a key; the twin of `keys.uri_of`."""
    azure = f"contains({bucket}, '@') AND NOT contains({bucket}, '/')"
    return (
        f"CASE WHEN {bucket} = '' THEN '/' || {key} "
        f"WHEN {azure} THEN 'abfss://' || {bucket} || '.dfs.core.windows.net/' || {key} "
        f"ELSE 's3://' || {bucket} || '/' || {key} END"
    )


def digest(*parts: str) -> str:
    """Return SQL for the first half of the SHA-256 of the parts, separated by NUL; the twin of `keys.digest`."""
    return f"sha256({' || chr(0) || '.join(parts)})[1:32]"


def _stamped(stamp: RunStamp) -> str:
    """Return SQL for run_id, lake and discrepancy_id, which identifies a subject over all runs."""
    lake = duck.literal(stamp.lake)
    parts = [f"coalesce({name}, '')" for name in ("table_name", "axis", "subject_type", "subject")]
    return f"{duck.literal(stamp.run_id)} AS run_id, {lake} AS lake, {digest(lake, *parts)} AS discrepancy_id"


@cache
def because() -> str:
    """Return SQL over `rule` for the rule's reason."""
    cases = " ".join(
        f"WHEN {duck.literal(rule.id)} THEN {duck.literal(rule.because)}"
        for rule in file_rules.RULES.values()
        if rule.is_finding
    )
    return f"CASE rule {cases} ELSE '' END"


def _time(name: str) -> str:
    return f"strftime({name}, '%Y-%m-%dT%H:%M:%SZ')"


_CONFIRMATION = f"""
    CASE WHEN axis NOT IN ({duck.literals(LIVE_AXES)}) OR kind = 'lost_commit' THEN 'not_needed' ELSE l_confirmation END
"""

_LOST = "kind IN ('dropped', 'dropped_history', 'missing_metadata', 'size_mismatch', 'content_mismatch', 'overwritten')"
_MATCHES = "coalesce(s_older_matches, s_older_size = c_size, false)"
_REMOVED = "kind IN ('dropped', 'dropped_history', 'missing_metadata')"
_MARKED = "coalesce(s_older_beneath_marker, s_delete_marker, false)"
"""SQL for whether a delete marker hides the older version."""
COMES_BACK = f"({_LOST} AND s_older_version_id IS NOT NULL AND {_MATCHES})"
"""SQL over verdict rows for whether an older version has the recorded content."""

_FROM_ARCHIVE = f"coalesce({COMES_BACK} AND s_older_class IS NOT NULL, false)"
"""SQL over verdict rows for whether the version to restore must be taken from an archive first."""

_RECOVERY = {
    "recoverable": f"""CASE WHEN {_LOST} THEN CASE WHEN {COMES_BACK} THEN 'yes'
        WHEN coalesce(versions_known, false) AND s_older_version_id IS NULL THEN 'no' ELSE 'unknown' END END""",
    "recovery": f"""CASE WHEN {_LOST} AND s_older_version_id IS NOT NULL THEN
        CASE WHEN {_MARKED} THEN 'delete_marker'
            ELSE 'older_version' END END""",
    "recovery_version_id": f"CASE WHEN {_LOST} THEN s_older_version_id END",
    "cause_at": f"CASE WHEN {_REMOVED} AND {_MARKED} THEN s_older_since END",
}
"""SQL for the recovery columns; `recoverable` is `yes` only for a version that matches the claim."""

_TOMBSTONE = "coalesce(m_state = 'tombstone' AND kind <> 'tombstoned', false)"
"""SQL: the metadata store says that the file is deleted, and the finding is about something else."""
_DETAILS = (
    f"CASE WHEN {_TOMBSTONE} THEN {duck.literal(DELETED_IN_STORE)} END",
    f"CASE WHEN c_kind = 'previous' THEN 'written ' ELSE 'listed by the table since ' END || {_time('c_claimed_at')}",
    """CASE WHEN c_kind = 'previous'
        THEN 'this was so in the ' || c_commit_id || ', and changed since then' END""",
    "CASE WHEN c_size <> s_size THEN 'recorded size ' || c_size || ' bytes, stored size ' || s_size || ' bytes' END",
    """CASE WHEN s_size < c_least_size
        THEN 'the deletion vectors need ' || c_least_size || ' bytes, stored size ' || s_size || ' bytes' END""",
    "s_footer_fault",
    f"CASE WHEN {_REMOVED} AND {_MARKED} THEN 'hidden by a delete marker since ' || {_time('s_older_since')} END",
    f"CASE WHEN NOT ({_REMOVED} AND {_MARKED}) THEN 'stored object written at ' || {_time('s_modified_at')} END",
    f"'storage as of ' || {_time('s_from')} || CASE l_confirmation WHEN 'live' THEN ' (live check)' ELSE '' END",
    f"""CASE WHEN {_LOST} AND NOT {_MATCHES} THEN 'the newest older version, ' || s_older_version_id || ', has '
        || s_older_size || ' bytes; it is unknown whether it is the recorded content' END""",
    "kept_words",
    "recheck_words",
    f"CASE WHEN {_CONFIRMATION.strip()} = 'none' THEN {duck.literal(NO_LIVE_LOOKS)} END",
    (
        f"CASE WHEN {_FROM_ARCHIVE} THEN "
        "'the version to restore is in ' || s_older_class || ' and must be restored first' END"
    ),
    f"'same content as ' || {uri('bucket', 'related_key')}",
)
"""SQL for the times and sizes of an explanation; nulls are left out."""
