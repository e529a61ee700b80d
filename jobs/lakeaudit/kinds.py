"""Define the kinds of finding with axis, default severity, meaning and advice. A test compares docs/kinds.md."""

from dataclasses import dataclass

SEVERITIES = ("critical", "error", "warning", "info")
"""Worst first."""


def rank(severity: str) -> int:
    """Return the rank of a severity, 0 for the worst; unknown severities come last."""
    return SEVERITIES.index(severity) if severity in SEVERITIES else len(SEVERITIES)


LIVE_AXES = ("content", "metastore")
"""Axes whose suspects and open files every run checks live, each with its own verdict."""

WATCHED_KINDS = ("unregistered_table", "unowned")
"""Kinds of unused files in watched locations, which are known by prefix and not file by file."""

MASS_LOSS = "mass loss: "
"""Beginning of the reason of a complete axis if a sample has confirmed that much of the table is lost."""

WHOLE_PARTITION = "the whole partition is gone: "
"""Beginning of the explanation of a dropped file if all files of its partition are dropped."""

NEWER_TORN = "the newer version is not whole: bring the lost version back"
"""Part of the explanation of a commit that was written twice if the second content is incomplete."""
SET_ASIDE = "no file: the state was rebuilt from older ones, but readers begin here"
"""Part of the explanation of an unreadable checkpoint that the table does not need: it can be renamed."""

TABLE_MISSING = "table_missing"
SEVERAL_STATES = "states are lost together"
"""Part of the explanation of a lost state if older states, which it may need, are lost as well."""

NO_LIVE_LOOKS = "not confirmed: live looks are off"
"""Part of the explanation of a finding that no request to storage has confirmed."""

FILE_AXES = ("content", "metastore", "metastore_tree", "leftover", "duplicate")
AXES = (*FILE_AXES, "commit", "pointer", "source", "hazard")
COVERED_AXES = (*FILE_AXES, "commit", "pointer", "hazard")
"""Axes that have a row of coverage for every table."""

JUDGED_OUTCOMES = ("consistent", "finding", "ignored")
"""A file is judged on an axis if it has one of these outcomes; see `lakeaudit.judged`."""
YOUNG_OUTCOME = "out_of_window"
OPEN_OUTCOMES = ("undecided", "uncovered")

_AXIS_WORDS = {
    "content": "files of the table",
    "metastore": "metadata store",
    "metastore_tree": "folders of the metadata store",
    "leftover": "unused files",
    "duplicate": "duplicates",
    "commit": "commits",
    "pointer": "catalog pointers",
    "hazard": "upcoming losses",
}


def axis_words(axis: str) -> str:
    """Return the name of an axis for people; an axis is one question that is judged for every file."""
    return _AXIS_WORDS.get(axis, axis.replace("_", " "))


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
        "the table lists the file; storage has no current object",
        "Bring it back by its delete marker or an older version, where there is one and while it lasts "
        "(`recoverable_until`). Otherwise write the rows again from the source; repair the log only "
        "last.",
    ),
    Kind(
        "dropped_history", "content", "warning",
        "a state still promised to readers lists it; storage does not have it",
        "Bring it back while a version is left, or accept it (`lakeaudit ack`). If the table's clean-up removes files "
        "before the promise ends, shorten the promise accordingly.",
    ),
    Kind(
        "missing_metadata", "content", "critical",
        "a log or metadata file the table's state needs cannot be read",
        "Bring each file back from the version that the finding names (`recovery_version_id`), but not over a commit "
        "that was written twice: there follow `overwritten_commit`. Without any version, write the rows of the lost "
        "state again from their source. Do this before any other repair of the table.",
    ),
    Kind(
        "table_missing", "content", "critical",
        "no state of the table can be read any more: its log is gone, archived or torn",
        "Restore the table's log first (the explanation names what is known of its last version); write nothing to the "
        "location until then. If the table was dropped on purpose, take it out of the lake file.",
    ),
    Kind(
        "size_mismatch", "content", "critical",
        "the stored object has another size than its writer recorded",
        "Find who wrote it (`storage_time`), bring the recorded version back, or rewrite the file "
        "through the table.",
    ),
    Kind(
        "content_mismatch", "content", "critical",
        "same size, but checksum or MD5-class ETag are not the writer's",
        "Find who wrote it (`storage_time`), bring the recorded version back, or rewrite the file "
        "through the table; trust no result since then.",
    ),
    Kind(
        "overwritten", "content", "warning",
        "written again after its commit; what changed is unknown",
        "Compare it with an older version or with a recorded checksum before anything is put back; have "
        "writers record checksums (`lakeaudit.emit` does).",
    ),
    Kind(
        "archived", "content", "error",
        "in a storage class that must be restored before reading",
        "Restore it from the archive (`aws s3api restore-object`), then correct the lifecycle rule that "
        "moves live files.",
    ),
    Kind(
        "unreadable_content", "content", "critical",
        "the file is shorter than any file of its format: no reader can read it",
        "Find what wrote it (`commit_id`) and read its rows again from their source. Remove the file from the table "
        "through the format's own API once they are back.",
    ),
    Kind(
        "lost_commit", "content", "critical",
        "a writer recorded it; no readable state since then lists it",
        "Add the files through the format's own API if they are whole, or run the job again; then look "
        "for a second writer that takes no lock.",
    ),
    Kind(
        "overwritten_commit", "commit", "critical",
        "a state of the table was written twice: readers get the second one alone",
        "Do what the lost version did (`recovery_version_id`) again, by the format's own API: add the files that it "
        "added, remove those that it removed. Do not copy the old version over the new one, unless the explanation "
        "says that the newer one is not whole. Then let writers take a lock, or put a state only where nothing is.",
    ),
    Kind(
        "incomplete_commit", "commit", "error",
        "storage has less of a write than its writer committed",
        "Read the rows of this write (`commit_id`) from its source again and write them once more; do not trust its "
        "`_SUCCESS` marker or the job's own report. Nobody knows the names of the missing files.",
    ),
    Kind(
        "duplicate_commit", "commit", "warning",
        "two commits of a table append what looks like one batch, and both are live",
        "Compare the rows of both commits (`commit_id`, and `related_key` for the older one). If they are one batch, "
        "remove the younger commit's files through the table; make the job's append idempotent.",
    ),
    Kind(
        "ineffective_removal", "commit", "warning",
        "a commit removed what the state before it does not list: readers may get rows twice",
        "Compare the rows of the commits that the explanation names. If rows are there twice, remove the files that "
        "were meant to be replaced, by the format's own API.",
    ),
    Kind(
        "rows_changed_by_rewrite", "commit", "error",
        "a commit that declares that it changes no rows changes their number",
        "Compare the rows of the table before and after this version by time travel. If rows are lost, write them "
        "again from the version before while its files are there; a roll-back to it takes back all later writes, too. "
        "Run the compaction with another writer version.",
    ),
    Kind(
        "will_expire", "hazard", "error",
        "a lifecycle rule of the bucket will delete or archive live files",
        "Take the table's place out of the rule (a prefix, or a tag that only temporary objects have) before the "
        "day that is named; `lakeaudit hazards` lists rules, tables and partitions.",
    ),
    Kind(
        "clone_at_risk", "hazard", "error",
        "a table lists files in another table's folder that the other one has removed or never listed",
        "Make the clone a table of its own before the source's next VACUUM: a deep clone, or a table "
        "of its rows that are written again. Until then keep the source from being vacuumed.",
    ),
    Kind(
        "overwrite_in_place", "hazard", "info",
        "somebody writes files of the table over themselves, under the same names",
        "Have the writer give each file a name of its own (a UUID), and let the table's log say which are valid.",
    ),
    Kind(
        "reused_name", "hazard", "info",
        "somebody removes files of the table and writes others under their names",
        "Have the writer give each file a name of its own (a UUID): what has cached the old file, or its absence, "
        "does not see the new one.",
    ),
    Kind(
        "probe_before_put", "hazard", "info",
        "a writer asks for a key before it first writes it, in a store that may remember the 404",
        "Write without looking first: `fs.s3a.create.performance`, or a conditional PUT; `hadoop fs -put` asks twice.",
    ),
    Kind(
        "list_after_put", "hazard", "info",
        "somebody lists folders just after files were written there, in a store whose listings lag",
        "Let readers take names from a log or a manifest and not from a listing; commit by a committer that does not "
        "list (`magic`, a table format).",
    ),
    Kind(
        "stale_read", "hazard", "info",
        "somebody reads files just after they were replaced or removed, in a store that may serve the old ones",
        "Never replace a file that is read: write under a new name and switch readers over by the table's log.",
    ),
    Kind(
        "hidden", "metastore", "info",
        "storage has the file; the metadata store has no entry",
        "Import the path into the store (`hadoop s3guard import`).",
    ),
    Kind(
        "tombstoned", "metastore", "error",
        "storage has it, a table lists it or none removed it; the store says deleted",
        "Import the path into the store (`hadoop s3guard import`), or delete the tombstone; find the "
        "delete that was undone outside the store.",
    ),
    Kind(
        "phantom", "metastore", "error",
        "the store lists a file that storage lacks and no table's newest state needs",
        "Take the entry out of the store; where an older state needs the file (`dropped_history`), bring it back "
        "first, since the entry may say which version.",
    ),
    Kind(
        "metastore_stale", "metastore", "error",
        "size, ETag or version of the entry is not what storage serves",
        "Where the table's manifest agrees with the entry and not with storage, bring the object back first. Else "
        "import the path into the store again (`hadoop s3guard import`).",
    ),
    Kind(
        "metastore_broken", "metastore_tree", "warning",
        "the store's own tree contradicts itself or storage",
        "Import the folder that is named into the store (`hadoop s3guard import`); take out what storage "
        "does not have.",
    ),
    Kind(
        "stale_pointer", "pointer", "error",
        "a catalog points at a state of the table that is gone or left behind",
        "Point the catalog at the table's newest state (ALTER TABLE ... SET LOCATION), or drop the table from it; find "
        "the writer or the move that did not update the catalog.",
    ),
    Kind(
        "unregistered_partition", "pointer", "error",
        "a plain Hive table's folder has data files, and no registered partition holds it",
        "Register the partition (ALTER TABLE ... ADD PARTITION, MSCK REPAIR TABLE), or remove the folder if its rows "
        "are not meant to be read.",
    ),
    Kind(
        "empty_partition", "pointer", "info",
        "a plain Hive table's registered partition holds no file",
        "Drop the partition (ALTER TABLE ... DROP PARTITION) if its data was removed on purpose; else look for who "
        "removed or moved the files.",
    ),
    Kind(
        "duplicate_entry", "duplicate", "error",
        "one state of the table lists the same file twice",
        "Put a copy in its place, in one commit: copy the file under a new name; then remove the path, which removes "
        "all of its entries, and add the copy in the same commit of the format's own API. A commit that only removes "
        "the path loses its rows. Find the writer that does not deduplicate its adds.",
    ),
    Kind(
        "duplicate_attempt", "duplicate", "error",
        "two visible files are one split of one job, by the writer's own record",
        "Move the file that is named out of the folder (or below a name that begins with `_`); `related_key` is the "
        "one that counts. Give the job a committer that shows nothing before it is whole.",
    ),
    Kind(
        "duplicate_content", "duplicate", "warning",
        "two visible files of one partition hold the same bytes",
        "Compare `commit_id` of both: a retried job added its output twice. Remove the file that is named through the "
        "table, in a commit of its own; the other one (`related_key`) holds the same bytes.",
    ),
    Kind(
        "half_moved", "duplicate", "warning",
        "two folders of one table hold the same files: a rename stopped half way",
        "Finish the move or take it back: compare both folders whole, copy what only one has, then remove the one that "
        "no reader needs.",
    ),
    Kind(
        "conflicting_owner", "duplicate", "error",
        "two tables list the same file as their own",
        "Copy the file into one of the tables, or declare `shares` if it is meant.",
    ),
    Kind(
        "stale_visible", "leftover", "error",
        "readers of the folder read it as data, and no manifest lists it any more, or ever did",
        "Compare with the manifests' last word, then move it out of the folder (or below a name that begins with "
        "`_`); find the job that retired or wrote it and did not clean up.",
    ),
    Kind(
        "uncommitted", "leftover", "warning",
        "no state that this audit could read lists it, though its commit would be visible",
        "Look for `lost_commit`, `overwritten_commit`, `missing_metadata` and failed jobs of that time first: the "
        "files may be all that is left of a commit. If nobody needs them, the format's own clean-up of files that no "
        "state lists takes them.",
    ),
    Kind(
        "unvacuumed", "leftover", "info",
        "removed longer ago than the table's retention, still in storage",
        "Run the clean-up of the table's own format.",
    ),
    Kind(
        "unreferenced", "leftover", "info",
        "older than the log can tell: removed long ago or never committed",
        "Run the format's own clean-up of files that no state lists; it is safe once the table's readers are younger "
        "than the file's removal.",
    ),
    Kind(
        "temporary", "leftover", "info",
        "work of a writer that never finished or never cleaned up",
        "Delete it once no job of that age can still be running.",
    ),
    Kind(
        "unfinished_upload", "leftover", "info",
        "parts of an upload begun long ago and never completed",
        "Abort it (`aws s3api abort-multipart-upload`); set a lifecycle rule that does.",
    ),
    Kind(
        "unregistered_table", "leftover", "warning",
        "a table in a watched place that neither the lake file nor a catalog names",
        "Enter it into the lake file (or the catalog that its readers go by), or have its owner remove it; "
        "`ignore` keeps it out.",
    ),
    Kind(
        "unowned", "leftover", "info",
        "files in a watched place that no table owns",
        "Ask who writes there: enter their table into the lake file, `ignore` the prefix, or have the files removed.",
    ),
    Kind(
        "unreadable_evidence", "source", "warning",
        "part of a source could not be understood",
        "Look at the samples; fetch the report again, or correct the rights (`lakeaudit doctor`).",
    ),
    Kind(
        "unclassified", "any", "error",
        "no rule matched: a fault of lakeaudit, please report it",
        "Please report it, with the row.",
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
    "unreadable_evidence",
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
