"""Define the kinds of finding with axis, default severity, meaning and advice. A test compares docs/kinds.md."""

from dataclasses import dataclass

SEVERITIES = ("critical", "error", "warning", "info")
"""Worst first."""
SERIOUS = ("critical", "error")
"""Severities of faults because of which a table returns wrong results, or may do so."""


def rank(severity: str) -> int:
    """Return the rank of a severity, 0 for the worst; unknown severities come last."""
    return SEVERITIES.index(severity) if severity in SEVERITIES else len(SEVERITIES)


LIVE_AXES = ("content", "metastore")
"""Axes whose suspects and open files every run checks live, each with its own verdict."""

WATCHED_KINDS = ("unregistered_table", "unowned")
"""Kinds of unused files in watched locations, which are known by prefix and not file by file."""

MASS_LOSS = "mass loss: "
"""Beginning of the reason of a complete axis if a sample has confirmed that much of the table is lost."""

PART_REQUESTED = " was requested and checked"
"""End of the reason of a partial axis if an audit was limited to partitions of the table."""
PART_UNKNOWN = "neither a manifest nor storage knows a file in"
"""Beginning of the reason of a partial axis if a requested partition has no file."""

WHOLE_PARTITION = "the whole partition is missing: "
"""Beginning of the explanation of a dropped file if all files of its partition are dropped."""

NEWER_TORN = "the newer version is incomplete: restore the lost version"
"""Part of the explanation of a commit that was written twice if the second content is incomplete."""
SET_ASIDE = "no file, because older files replace it; but query engines begin with this file"
"""Part of the explanation of an unreadable checkpoint that the table does not need: it can be renamed."""
CHECKPOINT_DIFFERS = (
    "query engines begin at this checkpoint, so they do not read the files that the commits name"
)
"""Part of the explanation of a checkpoint that contradicts its commits: it can be renamed, too."""

TABLE_MISSING = "table_missing"
WILL_EXPIRE = "will_expire"
COVERAGE_LOST = "coverage_lost"
"""The kind of a table that audits cannot judge any more."""
UNREADABLE = "unreadable_evidence"
"""The kind of a part of a source that could not be read or understood."""
SEVERAL_STATES = "versions of the table are lost together"
"""Part of the explanation of a lost state if older states, which it may need, are lost as well."""

DELETED_IN_STORE = "the metadata store says that it is deleted"
"""Part of the explanation of a finding about a file whose entry in the metadata store is a tombstone."""
NO_LIVE_LOOKS = "not confirmed: live checks are off"
"""Part of the explanation of a finding that no request to storage has confirmed."""

FILE_AXES = ("content", "metastore", "metastore_tree", "leftover", "duplicate")
COVERAGE_AXIS = "coverage"
"""The axis of findings about a table that audits cannot judge any more."""
AXES = (*FILE_AXES, "commit", "pointer", "source", "hazard", COVERAGE_AXIS)
COVERED_AXES = (*FILE_AXES, "commit", "pointer", "hazard")
"""Axes that have a row of coverage for every table."""

JUDGED_OUTCOMES = ("consistent", "finding", "ignored")
"""A file is judged on an axis if it has one of these outcomes; see `lakeaudit.judged`."""
YOUNG_OUTCOME = "out_of_window"
OPEN_OUTCOMES = ("undecided", "uncovered")

_AXIS_WORDS = {
    "content": "files of the table",
    "metastore": "metadata store",
    "metastore_tree": "folders in the metadata store",
    "leftover": "unused files",
    "duplicate": "duplicates",
    "commit": "commits",
    "pointer": "catalog pointers",
    "hazard": "upcoming losses",
}


def axis_words(axis: str) -> str:
    """Return the name of an axis for people; an axis is one question that is judged for every file."""
    return _AXIS_WORDS.get(axis, axis.replace("_", " "))


def check_words(axis: str) -> str:
    """Return the name of the check of an axis: files that were checked for duplicates are not duplicates."""
    words = axis_words(axis)
    return f"check for {words}" if axis in _SOUGHT else words


_SOUGHT = ("leftover", "duplicate", "hazard")
"""Axes whose name is that of their findings."""


@dataclass(frozen=True)
class Kind:
    """A verdict that a rule can give."""

    name: str
    axis: str
    severity: str
    words: str
    do: str
    """Advice: one or two sentences, with names in backticks."""


_ALL = (
    Kind(
        "dropped", "content", "critical",
        "the table lists the file, but storage has no current object for it",
        "Restore the file while an older version of it exists (`recoverable_until`): remove the delete marker, or "
        "copy the older version back. If no older version exists, write the rows again from their source, "
        "and then remove the lost file from the table with the API of the table format (Delta, Iceberg or Hudi).",
    ),
    Kind(
        "dropped_history", "content", "warning",
        "an older version of the table that can still be read lists the file, but storage does not have it",
        "Restore each file of which storage still has an older version, or accept the discrepancy (`lakeaudit ack`). "
        "If the table's clean-up removes files before the retention ends, shorten the retention.",
    ),
    Kind(
        "missing_metadata", "content", "critical",
        "a log or metadata file that the table needs is missing or cannot be read",
        "Restore each file from the version that the finding names (`recovery_version_id`). If the same file also "
        "has the finding `overwritten_commit`, follow the advice of that finding instead. If storage keeps no "
        "version of the file, write the rows of the lost table version again from their source. Repair the metadata of "
        "a table before anything else in it.",
    ),
    Kind(
        "table_missing", "content", "critical",
        "no version of the table can be read, because its log is missing, archived or damaged",
        "Restore the table's log first (`lakeaudit explain` prints the last known version of the table). Write nothing "
        "to the location before that. If the table was dropped on purpose, remove it from the lake file.",
    ),
    Kind(
        "size_mismatch", "content", "critical",
        "the stored object has another size than its writer recorded",
        "Find the writer of the stored object (`storage_time`). Then restore the recorded version, or write the "
        "rows of the file again from their source.",
    ),
    Kind(
        "content_mismatch", "content", "critical",
        "the size is right, but the checksum or the MD5 ETag is not the one that the writer recorded",
        "Find the writer of the stored object (`storage_time`). Then restore the recorded version, or write the "
        "rows of the file again from their source. Do not trust query results since "
        "that time.",
    ),
    Kind(
        "overwritten", "content", "warning",
        "the object was written again after its commit; no checksum shows whether the content changed",
        "Compare the object with an older version or with a recorded checksum before you restore anything. Let "
        "writers record checksums (`lakeaudit.emit` does), so that a later audit can compare the content.",
    ),
    Kind(
        "archived", "content", "error",
        "the file is in an archive storage class: it must be restored before it can be read",
        "Restore the object from the archive (`aws s3api restore-object`). Then correct the lifecycle rule that "
        "archives live files.",
    ),
    Kind(
        "unreadable_content", "content", "critical",
        "the file is shorter than any file of its format, so no program can read it",
        "Find the writer of the file (`commit_id`) and write its rows again from their source. After that, remove "
        "the file from the table with the API of the table format (Delta, Iceberg or Hudi).",
    ),
    Kind(
        "lost_commit", "content", "critical",
        "a writer recorded the file as written, but no readable version of the table since then lists it",
        "If the files are complete, add them with the API of the table format (Delta, Iceberg or Hudi). "
        "Otherwise run the job again. Then look for a second writer that takes no lock.",
    ),
    Kind(
        "overwritten_commit", "commit", "critical",
        "one version of the table was written twice, and query engines read only the second content",
        "Apply the changes of the lost version (`recovery_version_id`) again with the API of the table format "
        "(Delta, Iceberg or Hudi): add the files that the lost version added, and remove the files that it removed. "
        "Do not copy the lost version over the new version, because this would lose the second commit. Only if the "
        "explanation says that the newer version is incomplete, restore the lost version. Then let writers take a "
        "lock, or write a commit only if its file does not exist yet.",
    ),
    Kind(
        "incomplete_commit", "commit", "error",
        "storage has fewer files, rows or bytes of a write than its writer committed",
        "Read the rows of this write (`commit_id`) from their source and write them again. Do not trust the "
        "`_SUCCESS` marker of the write or the job's own report. The names of the missing files are not recorded.",
    ),
    Kind(
        "duplicate_commit", "commit", "warning",
        "two commits of a table seem to append the same batch, and the files of both are live",
        "Compare the rows of both commits (`commit_id`, and `related_key` for the older one). If both commits "
        "added the same batch, remove the files of the younger commit through the table. Make the job's append "
        "idempotent.",
    ),
    Kind(
        "ineffective_removal", "commit", "warning",
        "a commit removes files that the version before it does not list, so query engines may read rows twice",
        "Compare the rows of the commits that the explanation names. If rows exist twice, remove the files that "
        "should have been replaced. Do this with the API of the table format (Delta, Iceberg or Hudi).",
    ),
    Kind(
        "rows_changed_by_rewrite", "commit", "error",
        "a commit declares that it changes no rows, but the number of rows changes",
        "Compare the rows of the table before and after this version by time travel. If rows are lost, write them "
        "again from the version before, while the files of that version exist. A roll-back to that version also "
        "undoes all later writes. Run the compaction with another version of the writer.",
    ),
    Kind(
        "will_expire", "hazard", "error",
        "a lifecycle rule of the bucket will delete or archive live files",
        "Change the rule before the named day, so that the rule does not apply to the table. Limit the rule to "
        "another prefix, or to a tag that only temporary objects have. `lakeaudit hazards` lists rules, tables and "
        "partitions.",
    ),
    Kind(
        "clone_at_risk", "hazard", "error",
        "a table lists files in the folder of another table, which has removed these files or never listed them",
        "Copy the files into the clone before the next VACUUM of the source table: make a deep clone, or write the "
        "clone's rows to a new table. Do not run VACUUM on the source table before that.",
    ),
    Kind(
        "overwrite_in_place", "hazard", "info",
        "somebody overwrites files of the table under the same names",
        "Let the writer give each file a new name (with a UUID), and let the table's log say which files are valid.",
    ),
    Kind(
        "reused_name", "hazard", "info",
        "somebody removes files of the table and writes other files under the same names",
        "Let the writer give each file a new name (with a UUID). A program that has cached the old file, or its "
        "absence, does not see the new file.",
    ),
    Kind(
        "probe_before_put", "hazard", "info",
        "a writer requests a key before it first writes the key, and the store may cache the 404",
        "Write without a request before it: use `fs.s3a.create.performance`, or a conditional PUT. `hadoop fs "
        "-put` requests the key twice.",
    ),
    Kind(
        "list_after_put", "hazard", "info",
        "somebody lists folders just after files were written there, and listings of the store are delayed",
        "Take file names from a log or a manifest, not from a listing. Use a committer that does not list folders: "
        "`magic`, or the commit of a table format.",
    ),
    Kind(
        "stale_read", "hazard", "info",
        "somebody reads files just after they were replaced or removed, and the store may return the old content",
        "Never replace a file that programs read. Write a new file under a new name, and let the table's log list "
        "the new file.",
    ),
    Kind(
        "hidden", "metastore", "info",
        "storage has the file, but the metadata store has no entry for it",
        "If another finding says to remove this file, remove it. Otherwise import the path into the metadata store "
        "(S3Guard: `hadoop s3guard import`).",
    ),
    Kind(
        "tombstoned", "metastore", "error",
        "storage has the file, but the metadata store says that the file is deleted",
        "Import the path into the metadata store (S3Guard: `hadoop s3guard import`), or delete the tombstone. Then "
        "find the program that restored or wrote the file without the metadata store.",
    ),
    Kind(
        "phantom", "metastore", "error",
        "the metadata store lists a file that storage does not have and that no newest table version needs",
        "Remove the entry from the metadata store. If the file also has the finding `dropped_history`, restore the "
        "file first, because the entry may name the version to restore.",
    ),
    Kind(
        "metastore_stale", "metastore", "error",
        "the size, ETag or version in the metadata store's entry differs from the stored object",
        "If the entry differs from the stored object only in its version (same size, same ETag), import the path into "
        "the metadata store again (S3Guard: `hadoop s3guard import`). Otherwise find out which of the two is right. If "
        "the table's manifest agrees with the entry, restore the object or write its rows again; else import the path.",
    ),
    Kind(
        "metastore_broken", "metastore_tree", "warning",
        "entries of the metadata store contradict each other or storage",
        "Import the named file or folder into the metadata store (S3Guard: `hadoop s3guard import`). Remove entries of "
        "files that storage does not have.",
    ),
    Kind(
        "stale_pointer", "pointer", "error",
        "a catalog, a hint file or converted metadata points at a missing or old version of the table",
        "If a catalog points at the wrong place, let it point at the newest version of the table (ALTER TABLE ... "
        "SET LOCATION), or drop the table from the catalog. Then find the writer or the move that did not update "
        "the catalog.",
    ),
    Kind(
        "unregistered_partition", "pointer", "error",
        "a folder of a plain Hive table has data files, but no registered partition contains the folder",
        "Register the partition (ALTER TABLE ... ADD PARTITION, or MSCK REPAIR TABLE). If nobody should read the "
        "rows, remove the folder.",
    ),
    Kind(
        "empty_partition", "pointer", "info",
        "a registered partition of a plain Hive table has no files",
        "If the data was removed on purpose, drop the partition (ALTER TABLE ... DROP PARTITION). Otherwise find "
        "out who removed or moved the files.",
    ),
    Kind(
        "duplicate_entry", "duplicate", "error",
        "one version of the table lists the same file twice",
        "Copy the file under a new name. Then make one commit, with the API of the table format (Delta, Iceberg or "
        "Hudi), that removes the old path and adds the copy. A commit that removes the path removes each line with "
        "this path from the table's list, so without the copy the rows are lost. Then find the writer that adds the "
        "same file twice.",
    ),
    Kind(
        "duplicate_attempt", "duplicate", "error",
        "two visible files contain the same part of one job, as the writer's own record shows",
        "Move the named file out of the folder, or into a subfolder whose name begins with `_`. The other file "
        "(`related_key`) is the valid one. Use a committer that shows no file before the job is complete.",
    ),
    Kind(
        "duplicate_content", "duplicate", "warning",
        "two visible files of one partition have the same content",
        "Compare the times and commits of both files: probably a job ran again and added its output twice. Keep the "
        "other file (`related_key`), which has the same content. Remove the file of this finding in a separate commit "
        "that changes nothing else; if the table has no commits, move the file out of the folder.",
    ),
    Kind(
        "half_moved", "duplicate", "warning",
        "two folders of one table contain the same files, as after a rename that stopped halfway",
        "Compare both folders. Then finish the move or undo it: choose the folder that you keep, copy the missing "
        "files into it, and remove the other folder.",
    ),
    Kind(
        "conflicting_owner", "duplicate", "error",
        "two tables list the same file as their own",
        "Copy the file into the folder of one table, and let that table list the copy. If both tables should use "
        "the file, declare `shares` in the lake file.",
    ),
    Kind(
        "stale_visible", "leftover", "error",
        "programs that list the folder read the file as data, but no manifest lists it",
        "Compare the files with the newest manifests. Move files that do not belong to the table out of the "
        "folder, or into a subfolder whose name begins with `_`. Then find the job that left the files "
        "there: it recorded their removal and did not delete them, or it wrote them and did not record them.",
    ),
    Kind(
        "uncommitted", "leftover", "warning",
        "no readable version of any table lists the file; if a commit had added it, the audit would have seen that",
        "First look for `lost_commit`, `overwritten_commit`, `missing_metadata` and failed jobs of that time: the "
        "files may be the only remains of a commit. If nobody needs the files, run the format's own clean-up of "
        "unlisted files.",
    ),
    Kind(
        "unvacuumed", "leftover", "info",
        "the table removed the file, the table's retention has passed, and storage still has the file",
        "First repair the findings `lost_commit`, `overwritten_commit` and `missing_metadata` of the table: a lost "
        "version may need the file. Then run the clean-up of the table's own format.",
    ),
    Kind(
        "unreferenced", "leftover", "info",
        "nothing that can be read lists the file: it was removed long ago or never committed",
        "Run the format's own clean-up of unlisted files. This is safe if every running query and job started "
        "after the file was removed from the table.",
    ),
    Kind(
        "temporary", "leftover", "info",
        "temporary work of a writer that did not finish or did not clean up",
        "First make sure that the jobs that wrote these files have ended. Then delete the files.",
    ),
    Kind(
        "unfinished_upload", "leftover", "info",
        "parts of a multipart upload that began long ago and was never completed",
        "Abort the upload (`aws s3api abort-multipart-upload`). Set a lifecycle rule that aborts old uploads.",
    ),
    Kind(
        "unregistered_table", "leftover", "warning",
        "a table in a watched place that neither the lake file nor a catalog names",
        "Add the table to the lake file or to the catalog that its users read, or let its owner remove it. To "
        "leave it out of reports, use `ignore` in the lake file.",
    ),
    Kind(
        "unowned", "leftover", "info",
        "files in a watched place that belong to no table",
        "Ask who writes these files. Then add their table to the lake file, add the prefix to `ignore`, or have "
        "the files removed.",
    ),
    Kind(
        UNREADABLE, "source", "warning",
        "part of a source could not be read or understood",
        "Read the samples in the finding. If the source is stale, find out why no newer report arrives. Else repair "
        "the source: fetch the report again, correct the named rows, or "
        "correct the access rights (`lakeaudit doctor LAKE_FILE`).",
    ),
    Kind(
        COVERAGE_LOST, COVERAGE_AXIS, "error",
        "an earlier audit judged the table, and audits cannot judge it any more: problems of it stay hidden",
        "Repair the source that the cause names, and audit again; `lakeaudit doctor LAKE_FILE` checks all sources. If "
        "a report stopped arriving, check its configuration in the store and the right to write to its destination. "
        "Until then check important tables without it: `lakeaudit audit LAKE_FILE --live --table TABLE`.",
    ),
    Kind(
        "unclassified", "any", "error",
        "no rule matched: this is a bug of lakeaudit, please report it",
        "Please report the bug together with the row.",
    ),
)  # fmt: skip

KINDS: dict[str, Kind] = {kind.name: kind for kind in _ALL}

CONTENT_LOST = ("dropped", "size_mismatch", "content_mismatch", "unreadable_content")
"""Kinds of a live file whose committed content is not where the table lists it."""

STATE_LOST = (
    "lost_commit",
    "overwritten_commit",
    "table_missing",
    "incomplete_commit",
    UNREADABLE,
)
"""Kinds of a table that mean, whatever their severity: a state of it is lost or contradicts itself."""
STATE_LOST_FROM_ERROR = ("missing_metadata", "stale_pointer")
"""Kinds that mean the same from `error` on; below that they are about hints and followers of the current state."""


def loses_state(kind: str, severity: str | None = None) -> bool:
    """Whether a finding of a table means that files which no state lists may belong to a lost state.

    While one is open, nothing of the table is hidden, moved or removed. `severity` None: not known.
    """
    if kind in STATE_LOST_FROM_ERROR:
        return severity is None or rank(severity) <= rank("error")
    return kind in STATE_LOST


def says_loss(reason: str | None) -> bool:
    """Return whether a reason in coverage reports a mass loss."""
    return reason is not None and reason.startswith(MASS_LOSS)
