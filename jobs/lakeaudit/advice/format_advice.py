"""What to do about a kind of finding in the terms of one table format. docs/kinds.md is tested against this.

`kinds.Kind.do` is the advice for every format, so it names no format's own commands.
"""

from collections.abc import Mapping

PLAIN = "plain"
FORMATS = {
    "delta": "delta",
    "iceberg": "iceberg",
    "hudi": "hudi",
    "spark_sink": "spark_sink",
    **dict.fromkeys(
        (
            *("previous", "file_list", "spark_event_log", "s3a_committer", "manifest_committer"),
            *("redshift_unload", "symlink", "listing", "s3_inventory"),
        ),
        PLAIN,
    ),
}
"""By kind of manifest the format in whose terms a person works on the table."""

NAMES = {
    "delta": "Delta",
    "iceberg": "Iceberg",
    "hudi": "Hudi",
    "spark_sink": "Spark's sink",
    PLAIN: "plain folders",
}

DO: Mapping[str, Mapping[str, str]] = {
    "dropped": {
        PLAIN: "If the explanation names another file with the same bytes, a rename stopped half way: move the file "
        "back from there, or finish the move; never restore it beside the other. Else bring it back by its delete "
        "marker or an older version, where there is one and while it lasts (`recoverable_until`), or write the rows "
        "again from the source. What was removed on purpose is accepted by `lakeaudit ack`.",
    },
    "dropped_history": {
        "delta": "Bring it back while a version is left, or accept it (`lakeaudit ack`). If VACUUM runs below the "
        "promise, shorten `delta.deletedFileRetentionDuration` accordingly.",
        "iceberg": "Bring it back while a version is left, or accept it (`lakeaudit ack`). Snapshots that nobody reads "
        "are ended by expire_snapshots, which removes their files in the right order.",
        "hudi": "Bring it back while a version is left, or accept it (`lakeaudit ack`). What removes files must be the "
        "table's own cleaner (`hoodie.cleaner.commits.retained`).",
    },
    "missing_metadata": {
        "delta": "Bring each file back from the version that the finding names (`recovery_version_id`), but not over a "
        "commit that was written twice: there follow `overwritten_commit`. Set a checkpoint aside that is torn, and "
        "delete the hint `_last_checkpoint`: readers then begin at an older one. Without any version, write the rows "
        "of the lost commits again from their source in new commits, on the newest state that can be read. Do this "
        "before any other repair of the table.",
        "iceberg": "Bring each file back from the version that the finding names (`recovery_version_id`). Without any "
        "version, roll the table back to a snapshot that can be read (rollback_to_snapshot, `register_table` with an "
        "older metadata.json), and write the rows of later snapshots again. Do this before any other repair of the "
        "table. If it is a file of statistics, compute it again (ANALYZE).",
        "hudi": "Bring each file back from the version that the finding names (`recovery_version_id`), before the next "
        "writer starts: it would roll the write back. Without any version, write the rows of that instant again from "
        "their source. Do this before any other repair of the table. A metadata table without versions of its files is "
        "built again: delete it (`metadata delete` of hudi-cli), and the next writer makes it.",
        "spark_sink": "Bring the file back that is named (`N.compact` holds all batches up to N) from the version that "
        "the finding names (`recovery_version_id`). Without any version, write it again: the line `v1`, then the lines "
        "of all files that the batches committed. Do this before the query runs again.",
    },
    "table_missing": {
        "delta": "Restore the files of `_delta_log` first, all that storage keeps (the explanation names what is "
        "known of the last version). Write nothing to the location until then: a writer would begin another table "
        "there. If the table was dropped on purpose, take it out of the lake file.",
        "iceberg": "Restore the metadata.json that the explanation names, or register an older one (`register_table`): "
        "rows of later snapshots are missing then. Write nothing to the location and run no remove_orphan_files until "
        "then. If the table was dropped on purpose, take it out of the lake file.",
        "hudi": "Restore the folder `.hoodie` first, `hoodie.properties` and the timeline together (the explanation "
        "names what is known of the last instant). Write nothing to the location until then: a writer would begin "
        "another table there. If the table was dropped on purpose, take it out of the lake file.",
    },
    "overwritten_commit": {
        "delta": "Do what the lost version did (`recovery_version_id` of the log's file) again, by the format's own "
        "API and in a new commit: add the files that it added, remove those that it removed. Do not copy the old "
        "version over the new one, unless the explanation says that the newer one is not whole. Then give writers a "
        "log store that puts only where nothing is.",
        "iceberg": "If it is a metadata.json, read its older version (`recovery_version_id`), and run the writes of "
        "the snapshots that the table lacks again, or append their files; do not copy the older version over the "
        "newer one. If it is a manifest, bring back the version that has the length in its list. Run no "
        "remove_orphan_files before that. Then let all writers go through one catalog, which compares before it swaps.",
        "hudi": "Stop the writers. Read what the lost content listed: the older version of the instant's file "
        "(`recovery_version_id`), or the data files that bear the instant. Write rows that readers do not get "
        "again, in a new write. Where two files complete one instant, do the same for the one that readers "
        "ignore. Then give all writers one lock provider.",
    },
    "stale_pointer": {
        "delta": "Point the catalog at the table's location (ALTER TABLE ... SET LOCATION), or drop the table from "
        "it. If the metadata of another format lags behind the log, run its conversion again (UniForm: `MSCK REPAIR "
        "TABLE ... SYNC METADATA`; XTable: its sync).",
        "iceberg": "Point the catalog at this table's own newest metadata.json (`register_table`), or drop the table "
        "from it. If two catalogs write to the table, stop one of them, and write the rows that only its line has "
        "again through the other. If `version-hint.text` lags, delete it: readers then list the folder. If the table "
        "is converted from another format that is ahead, run the conversion again.",
    },
    "rows_changed_by_rewrite": {
        "delta": "Compare the rows before and after this version (VERSION AS OF). If rows are lost, write them again "
        "from the version before in a new commit, and run no VACUUM until then; RESTORE takes back all later commits, "
        "too. Run OPTIMIZE with another writer version.",
        "iceberg": "Compare the rows of the snapshot and of its parent, which the explanation names (VERSION AS OF). "
        "If rows are lost, write them again from the parent in a new snapshot, and expire no snapshots until then; "
        "rollback_to_snapshot takes back all later snapshots, too. Run rewrite_data_files with another writer version.",
        "hudi": "Stop the table's cleaner while the replaced file groups are there, and compare the rows before and "
        "after the instant by time travel (`as.of.instant`). If rows are lost, upsert them, or roll the clustering "
        "back while it is the newest write (`rollback_to_instant`).",
    },
    "ineffective_removal": {
        "delta": "Compare the rows of the commits that the explanation names. If rows are there twice, remove the "
        "files that were meant to be replaced by their paths, in a new commit: a DELETE by predicate takes both "
        "copies.",
        "iceberg": "Compare the rows of the snapshots that the explanation names. If rows are there twice, remove the "
        "files that were meant to be replaced by their paths (DeleteFiles of the API): a DELETE by predicate takes "
        "both copies.",
        "hudi": "Compare the rows of the instants that the explanation names. If rows are there twice, write the "
        "partitions again with the right rows (`insert_overwrite`): a delete by key takes both copies. Then give all "
        "writers one lock provider.",
    },
    "lost_commit": {
        "delta": "Add the files through the format's own API if they are whole, or run the job again; run no VACUUM "
        "until then. Then look for a second writer without a log store lock.",
        "iceberg": "Read the snapshot that the explanation names by time travel while it is retained, and write again "
        "what main lacks of it (cherrypick_snapshot, or an append of its files). If main has no current snapshot, set "
        "it (set_current_snapshot). Expire no snapshots and run no remove_orphan_files until then. Then let all "
        "writers go through one catalog.",
        "hudi": "Stop the table's cleaner (`hoodie.clean.automatic=false`) while the base files of the lost write are "
        "there. Read its rows by time travel (`as.of.instant`) and upsert those that later writes did not change. Then "
        "give all writers one lock provider (`hoodie.write.concurrency.mode=optimistic_concurrency_control`).",
    },
    "incomplete_commit": {
        "delta": "If the commit's file can come back from an older version (`recovery_version_id`), bring that one "
        "back: it begins with what is there now and holds more. Otherwise compare the log with the job's own record, "
        "and write the rows that are missing again from their source in a new commit. Where a checksum (`N.crc`) "
        "counts otherwise than the log, one of the two is wrong: count the files first. Run no VACUUM before that, "
        "since files that no state lists may belong to this commit.",
        "iceberg": "Compare the snapshot's summary with its manifests and with the job's own record, and write the "
        "rows that are missing again from their source in a new snapshot. Run no remove_orphan_files before that, "
        "since files that no snapshot lists may belong to this one.",
    },
    "duplicate_commit": {
        "delta": "Compare the rows of both commits (`commit_id`, and `related_key` for the older one). If they are one "
        "batch, remove the younger commit's files through the table; make the job's append idempotent (`txnAppId` and "
        "`txnVersion`).",
        "iceberg": "Compare the rows of both snapshots, which the explanation names. If they are one batch, remove the "
        "younger snapshot's files by their paths (DeleteFiles of the API); let the job find its own batch before it "
        "writes.",
        "hudi": "Compare the rows of both instants, which the explanation names. If they are one batch, roll the "
        "younger instant back while it is the newest one (`rollback_to_instant`); later, remove one row of each key "
        "(`repair_deduplicate`, a dry run first). A delete by key takes both rows. Let the job write by `upsert`.",
    },
    "duplicate_content": {
        PLAIN: "Remove the file that is named (`aws s3 rm`): the other one (`related_key`) holds the same bytes. If a "
        "later audit reports one of the two as `dropped`, accept that (`lakeaudit ack`).",
    },
    "stale_visible": {
        "hudi": "Readers that list the table's folders take these files now. Compare their rows with the table's: rows "
        "that it lacks belong into it by a write of their own. Then move the files out of the table's folders, all of "
        "them at once. If every reader lists by the metadata table, say so (`readers: metadata_table`).",
    },
    "uncommitted": {
        "delta": "Look for `lost_commit`, `overwritten_commit` and failed jobs of that time first: the files may "
        "be all that is left of a commit. If nobody needs them, VACUUM takes them (FULL, not LITE).",
        "iceberg": "Look for `lost_commit`, `missing_metadata` and failed jobs of that time first: the files may "
        "be all that is left of a commit. If nobody needs them, remove_orphan_files takes them.",
        "hudi": "Look for `missing_metadata` and failed writes of that time first: the files may be all that is left "
        "of an instant. If nobody needs them, the table's own rollback and cleaner take them.",
    },
    "unvacuumed": {
        "delta": "Run VACUUM.",
        "iceberg": "Run expire_snapshots.",
        "hudi": "Run the table's cleaner.",
    },
    "unreferenced": {
        "delta": "Run VACUUM (FULL, not LITE); it is safe once the table's readers are younger than the file's "
        "removal.",
        "iceberg": "Run remove_orphan_files; it is safe once the table's readers are younger than the file's removal.",
        "hudi": "Run the table's cleaner; the remaining files may be removed once no reader and no timeline is older.",
    },
}  # fmt: skip
"""By kind and format the advice that stands for the general one."""

NOT_BACK: Mapping[str, Mapping[str, str]] = {
    "dropped_history": {
        "delta": "Accept it (`lakeaudit ack`). If VACUUM runs below the promise, shorten "
        "`delta.deletedFileRetentionDuration` accordingly.",
        "iceberg": "Accept it (`lakeaudit ack`), or end the snapshots that need it by expire_snapshots.",
        "hudi": "Accept it (`lakeaudit ack`). What removes files must be the table's own cleaner.",
    },
    "missing_metadata": {
        "delta": "Write the rows of the lost commits again from their source in new commits, on the newest state that "
        "can be read. Do this before any other repair of the table. If it is a checkpoint, set it aside and delete "
        "the hint `_last_checkpoint`: readers then begin at an older one, if the commits since then are there.",
        "iceberg": "Roll the table back to a snapshot that can be read (rollback_to_snapshot, register_table with an "
        "older metadata.json), and write the rows of later snapshots again. Do this before any other repair of the "
        "table. If it is a file of statistics, compute it again (ANALYZE).",
        "hudi": "Write the rows of that instant again from their source. Do this before any other repair of the "
        "table. A metadata table is built again: delete it (`metadata delete` of hudi-cli), and the next writer makes "
        "it.",
        "spark_sink": "Write the file again: the line v1, then the lines of all files that the batches committed. Do "
        "this before the query runs again.",
    },
}  # fmt: skip
"""The same where nothing of the file is left."""


def format_of(manifest_kind: str | None) -> str | None:
    """The format of a table by the kind of its manifest; None where it is not known."""
    return FORMATS.get(manifest_kind or "")
