"""What to do about a kind of finding in the terms of one table format. docs/kinds.md is tested against this.

`kinds.Kind.do` is the advice for every format, so it names no format's own commands.
"""

from collections.abc import Mapping

from lakeaudit.evidence.kind import PLAIN
from lakeaudit.evidence.registry import MANIFESTS

NAMES = {
    "delta": "Delta",
    "iceberg": "Iceberg",
    "hudi": "Hudi",
    "spark_sink": "Spark's sink",
    PLAIN: "plain folders",
}
"""By format in whose terms a person works on a table (`ManifestKind.advice`): its name in docs/kinds.md."""

_RESTORE_OR_ACCEPT = (
    "Restore each file of which storage still has an older version, or accept the discrepancy "
    "(`lakeaudit ack`)."
)

DO: Mapping[str, Mapping[str, str]] = {
    "dropped": {
        PLAIN: "If the explanation names another file with the same content, a rename stopped halfway: move that "
        "file back, or finish the rename. Do not restore the file next to that copy. Otherwise restore the "
        "file while an older version of it exists (`recoverable_until`), or write the rows again from their "
        "source. If the file was removed on purpose, accept the discrepancy (`lakeaudit ack`).",
    },
    "dropped_history": {
        "delta": f"{_RESTORE_OR_ACCEPT} If VACUUM runs with a shorter retention than the table declares, set "
        "`delta.deletedFileRetentionDuration` to the retention of VACUUM.",
        "iceberg": f"{_RESTORE_OR_ACCEPT} To end snapshots that nobody reads, run expire_snapshots: it removes "
        "their files in the right order.",
        "hudi": f"{_RESTORE_OR_ACCEPT} Let only the table's own cleaner remove files "
        "(`hoodie.cleaner.commits.retained`).",
    },
    "missing_metadata": {
        "delta": "Restore each file from the version that the finding names (`recovery_version_id`). If the same "
        "file also has the finding `overwritten_commit`, follow the advice of that finding instead. If a "
        "checkpoint is damaged or contradicts its commits, rename the checkpoint and delete the hint "
        "`_last_checkpoint`: query engines then begin at an older checkpoint. If storage keeps no version "
        "of a commit, write the rows of the lost commits again from their source, in new commits. Repair "
        "the metadata of a table before anything else in it.",
        "iceberg": "Restore each file from the version that the finding names (`recovery_version_id`). If storage "
        "keeps no version of a file, roll the table back to a readable snapshot (rollback_to_snapshot, "
        "or `register_table` with an older metadata.json), and write the rows of later snapshots again. "
        "Repair the metadata of a table before anything else in it. If the file contains statistics, "
        "compute them again (ANALYZE).",
        "hudi": "Restore each file from the version that the finding names (`recovery_version_id`). Do this before "
        "the next writer starts, because a writer would roll the write back. If storage keeps no version "
        "of the file, write the rows of that instant again from their source. Repair the metadata of a "
        "table before anything else in it. If storage keeps no version of a file of the metadata table, delete the "
        "metadata table (`metadata delete` of hudi-cli): the next writer builds it again.",
        "spark_sink": "Restore the file from the version that the finding names (`recovery_version_id`). If "
        "storage keeps no version of the file, write the file again: first the line `v1`, then one "
        "line for each file that the batches committed. A file `N.compact` contains all batches up "
        "to N. Do this before the query runs again.",
    },
    "table_missing": {
        "delta": "Restore all files of `_delta_log` that storage keeps (`lakeaudit explain` prints the last known "
        "version of the table). Write nothing to the location before that: a writer would create another "
        "table there. If the table was dropped on purpose, remove it from the lake file.",
        "iceberg": "Restore the metadata.json that the explanation names. Or register an older metadata.json with "
        "`register_table`; the rows of later snapshots are then missing. Before that, write nothing to "
        "the location and do not run remove_orphan_files. If the table was dropped on purpose, remove "
        "it from the lake file.",
        "hudi": "Restore the folder `.hoodie`: `hoodie.properties` and the timeline together (the explanation "
        "names the last known instant). Write nothing to the location before that: a writer would create "
        "another table there. If the table was dropped on purpose, remove it from the lake file.",
    },
    "overwritten_commit": {
        "delta": "Apply the changes of the lost version (`recovery_version_id` of the log's file) again in a new "
        "commit, with the API of Delta: add the files that the lost version added, and remove the "
        "files that it removed. Do not copy the lost version over the new version, because this would "
        "lose the second commit. There is one exception: if the explanation says that the newer version is "
        "incomplete, restore the lost version. In both cases, also configure the writers so that they cannot overwrite "
        "a file of the log (Delta Lake: the setting LogStore).",
        "iceberg": "If the file is a metadata.json, read its older version (`recovery_version_id`). Then run the "
        "writes of the snapshots that the table lacks again, or append the files of these snapshots. Do "
        "not copy the older version over the newer version. If the file is a manifest, restore the "
        "version whose length the manifest list records. Do not run remove_orphan_files before that. "
        "Then let all writers use one catalog, which compares the current metadata before it replaces "
        "it.",
        "hudi": "Stop the writers. Find the files that the lost content listed: read the older version of the "
        "instant's file (`recovery_version_id`), or list the data files with this instant in their names. "
        "Write the rows that query engines do not see again, in a new write. If two files complete one "
        "instant, do this for the file that query engines ignore. Then give all writers one lock provider.",
    },
    "stale_pointer": {
        "delta": "If the metadata of another format is older than the Delta log, run its conversion again "
        "(UniForm: `MSCK REPAIR TABLE ... SYNC METADATA`; XTable: its sync). If a catalog points at the "
        "wrong place, let it point at the table's location (ALTER TABLE ... SET LOCATION), or drop the "
        "table from the catalog.",
        "iceberg": "If the table is converted from another format, and the other format is newer, run the "
        "conversion again. If `version-hint.text` is too old, delete it: query engines then list the "
        "folder. If a catalog points at the wrong metadata.json, let it point at the newest "
        "metadata.json of this table with `register_table`, or drop the table from the catalog. If two "
        "catalogs write to the table, stop one of them, and write the rows that only this catalog has "
        "again through the other one.",
    },
    "rows_changed_by_rewrite": {
        "delta": "Compare the rows before and after this version (VERSION AS OF). If rows are lost, write them "
        "again from the version before, in a new commit. Do not run VACUUM before that. RESTORE would "
        "also undo all later commits. Run OPTIMIZE with another version of the writer.",
        "iceberg": "Compare the rows of the snapshot and of its parent, which the explanation names (VERSION AS "
        "OF). If rows are lost, write them again from the parent, in a new snapshot. Do not expire "
        "snapshots before that. rollback_to_snapshot would also undo all later snapshots. Run "
        "rewrite_data_files with another version of the writer.",
        "hudi": "Stop the table's cleaner while the replaced file groups exist. Compare the rows before and after "
        "the instant by time travel (`as.of.instant`). If rows are lost, upsert them. Or roll the "
        "clustering back with `rollback_to_instant`, if it is still the newest write.",
    },
    "ineffective_removal": {
        "delta": "Compare the rows of the commits that the explanation names. If rows exist twice, make a new "
        "commit that removes, by path, the files that should have been replaced. Do not use a DELETE with "
        "a predicate: it removes both copies.",
        "iceberg": "Compare the rows of the snapshots that the explanation names. If rows exist twice, remove, by "
        "path, the files that should have been replaced (DeleteFiles of the API). Do not use a DELETE "
        "with a predicate: it removes both copies.",
        "hudi": "Compare the rows of the instants that the explanation names. If rows exist twice, write the "
        "partitions again with the right rows, with `insert_overwrite`. Do not delete by key: this removes "
        "both copies. Then give all writers one lock provider.",
    },
    "lost_commit": {
        "delta": "If the files are complete, add them with the API of Delta. Otherwise run the job again. "
        "Do not run VACUUM before that. Then look for a second writer whose log store takes no lock.",
        "iceberg": "Read the snapshot that the explanation names by time travel while it is retained. Write its "
        "changes that the branch main lacks again (cherrypick_snapshot, or an append of its files). If "
        "main has no current snapshot, set it (set_current_snapshot). Before that, do not expire "
        "snapshots and do not run remove_orphan_files. Then let all writers use one catalog.",
        "hudi": "Stop the table's cleaner (`hoodie.clean.automatic=false`) while the base files of the lost write "
        "exist. Read the rows of the lost write by time travel (`as.of.instant`). Upsert the rows that "
        "later writes did not change. Then give all writers one lock provider "
        "(`hoodie.write.concurrency.mode=optimistic_concurrency_control`).",
    },
    "incomplete_commit": {
        "delta": "If an older version of the commit's file is recoverable (`recovery_version_id`), restore it: it "
        "begins with the current content and contains more. Otherwise compare the log with the job's own "
        "record, and write the missing rows again from their source in a new commit. If a checksum file "
        "(`N.crc`) counts other files than the log, one of the two is wrong: count the files first. Do "
        "not run VACUUM before that, because files that no version of the table lists may belong to this "
        "commit.",
        "iceberg": "Compare the snapshot's summary with its manifests and with the job's own record. Write the "
        "missing rows again from their source in a new snapshot. Do not run remove_orphan_files before "
        "that, because files that no snapshot lists may belong to this snapshot.",
    },
    "duplicate_commit": {
        "delta": "Compare the rows of both commits (`commit_id`, and `related_key` for the older one). If both "
        "commits added the same batch, remove the files of the younger commit through the table. Make the "
        "job's append idempotent (`txnAppId` and `txnVersion`).",
        "iceberg": "Compare the rows of both snapshots, which the explanation names. If both snapshots added the "
        "same batch, remove the files of the younger snapshot by path (DeleteFiles of the API). Let the "
        "job look for its own batch before it writes.",
        "hudi": "Compare the rows of both instants, which the explanation names. If both instants added the same "
        "batch, roll the younger instant back with `rollback_to_instant`, if it is still the newest "
        "instant. Otherwise remove one row of each key with `repair_deduplicate`, with a dry run first. Do "
        "not delete by key: this removes both rows. Let the job write with `upsert`.",
    },
    "duplicate_content": {
        PLAIN: "Remove the file of this finding (`aws s3 rm`), and keep the other file (`related_key`): it has the "
        "same content. If a later audit reports one of the two files as `dropped`, accept that discrepancy "
        "(`lakeaudit ack`).",
    },
    "stale_visible": {
        "hudi": "Query engines that list the table's folders read these files now. Compare the rows of the files "
        "with the rows of the table. If the table lacks rows, write them to the table in a new write. Then "
        "move all of the files out of the table's folders together. If every query engine uses the "
        "metadata table, say so in the lake file (`readers: metadata_table`).",
    },
    "uncommitted": {
        "delta": "First look for `lost_commit`, `overwritten_commit` and failed jobs of that time: the files may "
        "be the only remains of a commit. If nobody needs the files, run VACUUM (FULL, not LITE).",
        "iceberg": "First look for `lost_commit`, `missing_metadata` and failed jobs of that time: the files may "
        "be the only remains of a commit. If nobody needs the files, run remove_orphan_files.",
        "hudi": "First look for `missing_metadata` and failed writes of that time: the files may be the only "
        "remains of an instant. If nobody needs the files, the table's own rollback and cleaner remove "
        "them.",
    },
    "unvacuumed": {
        "delta": "First repair the findings `lost_commit`, `overwritten_commit` and `missing_metadata` of the "
        "table: a lost version may need the file. Then run VACUUM.",
        "iceberg": "First repair the findings `lost_commit` and `missing_metadata` of the table: a lost version may "
        "need the file. Then run expire_snapshots.",
        "hudi": "First repair the findings `missing_metadata` of the table: a lost instant may need the file. Then "
        "run the table's cleaner.",
    },
    "unreferenced": {
        "delta": "Run VACUUM (FULL, not LITE). This is safe if every running query and job started after the file "
        "was removed from the table.",
        "iceberg": "Run remove_orphan_files. This is safe if every running query and job started after the file "
        "was removed from the table.",
        "hudi": "Run the table's cleaner. Remove the remaining files only if every running query started after the "
        "files were replaced, and the timeline no longer needs them.",
    },
}  # fmt: skip
"""By kind and format the advice that replaces the general one."""

NOT_BACK: Mapping[str, Mapping[str, str]] = {
    "dropped": {
        PLAIN: "Write the rows again from their source. If the file was removed on purpose, accept the discrepancy "
        "(`lakeaudit ack`).",
        "delta": "Write the rows again from their source. Only after that, remove the lost file from the log of the "
        "table: plan this with the command `lakeaudit reconcile plan LAKE_FILE --table TABLE --allow "
        "remove_reference`.",
    },
    "dropped_history": {
        "delta": "Accept the finding (`lakeaudit ack`). If VACUUM runs with a shorter retention than the table "
        "declares, set `delta.deletedFileRetentionDuration` to the retention of VACUUM.",
        "iceberg": "Accept the finding (`lakeaudit ack`), or end the snapshots that need the file with "
        "expire_snapshots.",
        "hudi": "Accept the finding (`lakeaudit ack`). Let only the table's own cleaner remove files.",
    },
    "missing_metadata": {
        "delta": "Write the rows of the lost commits again from their source, in new commits. Repair the metadata "
        "of a table before anything else in it. If the file is a checkpoint that exists but cannot be read, rename "
        "it and delete the hint `_last_checkpoint`: query engines then begin at an older checkpoint, if the commits "
        "since that checkpoint exist.",
        "iceberg": "Roll the table back to a readable snapshot (rollback_to_snapshot, or register_table with an "
        "older metadata.json), and write the rows of later snapshots again. Repair the metadata of a "
        "table before anything else in it. If the file contains statistics, compute them again (ANALYZE).",
        "hudi": "Write the rows of that instant again from their source. Repair the metadata of a table before "
        "anything else in it. If the file belongs to the metadata table, delete the metadata table (`metadata delete` "
        "of hudi-cli): the next writer builds it again.",
        "spark_sink": "Write the file again: first the line v1, then one line for each file that the batches "
        "committed. Do this before the query runs again.",
    },
}  # fmt: skip
"""The same for files that are not recoverable."""

DIFFERING_CHECKPOINT = (
    "Rename the checkpoint and delete the hint `_last_checkpoint`: query engines then begin at an older checkpoint, "
    "and read the commits since then. Repair the metadata of a table before anything else in it."
)
"""The advice for a checkpoint that contradicts its commits; it replaces the advice for its kind."""


def format_of(manifest_kind: str | None) -> str | None:
    """The format of a table by the kind of its manifest; None where it is not known."""
    return MANIFESTS[manifest_kind].advice if manifest_kind and manifest_kind in MANIFESTS else None
