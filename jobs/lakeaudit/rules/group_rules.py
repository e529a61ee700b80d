"""Defines rules about commits, writes, attempts, clones, pairs of folders, lifecycle rules and watched places.

Each table has its own facts and judges its own kind of row (schemas.COMMIT, WRITE, ATTEMPT, CLONE_FILE, FOLDER_PAIR,
EXPIRING, LINEAGE, WATCHED_PREFIX). The first part of a rule's id is the axis of its verdicts.
"""

from collections.abc import Mapping
from datetime import timedelta

from lakeaudit.rules.expr import Expr, col, first_known, lit
from lakeaudit.rules.lineage_rules import LINEAGE, LINEAGE_FACTS
from lakeaudit.rules.pointer_rules import POINTER_FACTS, POINTER_TABLES
from lakeaudit.rules.rule import CONSISTENT, NONE, OUT, UNCOVERED, UNDECIDED, Rule, ordered

RACE = timedelta(hours=1)
"""Two writers of one commit write within this time; a later write may be a copy of a whole log."""
COPY = timedelta(minutes=10)
"""Neighbouring commits that were written within this time of a late commit were copied with it."""
FEWEST = 2
"""From this number of files on, equal names that may repeat are not a coincidence."""


def _near(neighbour: Expr) -> Expr:
    """Whether a neighbouring commit was written within COPY of this one."""
    written = col("written_at")
    return (written <= neighbour + COPY) & (neighbour <= written + COPY)


def _mostly(live: Expr, files: Expr) -> Expr:
    """Whether more than half of the files are live: a few may have been rewritten since."""
    return live + live > files


def _sure(facts: Mapping[str, Expr]) -> dict[str, Expr]:
    return {name: fact.sure() for name, fact in facts.items()}


COMMIT_FACTS = _sure(
    {
        "other_version": col("lost_at").is_known(),
        "versions_differ": col("differs"),
        "copied_with_log": (col("written_at") > col("lost_at") + RACE)
        & (_near(col("before_at")) | _near(col("after_at"))),
        "versions_asked": col("versions_asked"),
        "versions_read": col("versions_read"),
        "something_lost": (col("lost_files") > lit(0))
        | (col("lost_removals") > lit(0))
        | col("lost_of_table"),
        "log_doubts": col("doubted"),
        "log_proves": col("doubted") & col("proved"),
        "looks_repeated": col("alike"),
        "batches_read": col("batches_read"),
        "both_live": col("batches_read")
        & _mostly(col("older_live"), col("older_files"))
        & _mostly(col("live"), col("files")),
    }
)

COMMIT = ordered(
    "commit",
    ("lost", "versions_read something_lost", "overwritten_commit",
     "another content replaced this commit, and no later version of the table contains the lost changes"),
    ("unreadable", "versions_asked !versions_read versions_differ", "overwritten_commit",
     "another version with other content replaced it, and one of the two versions cannot be read"),
    ("proved", "!versions_read log_proves", "overwritten_commit",
     "the checksum file of this commit belongs to another transaction"),
    ("doubted", "!versions_read log_doubts", "overwritten_commit:warning",
     "the file of this commit was written after the file of the next commit, and no copy explains that"),
    ("repeated", "both_live", "duplicate_commit",
     "another commit has the same transaction or seems to add the same rows, and both batches are live"),
    ("versions_untold", "other_version !copied_with_log !versions_read", UNDECIDED),
    ("batches_untold", "looks_repeated !batches_read", UNDECIDED),
    ("sound", "", CONSISTENT),
)  # fmt: skip


def _has_counts(what: str) -> Expr:
    """Whether a number was declared and the number in storage is known."""
    return col(what).is_known() & col(f"{what}_there").is_known()


def _lacks(what: str) -> Expr:
    """Whether storage has less than was declared, apart from files that are listed by name."""
    return col(what) > col(f"{what}_there") + first_known(col(f"{what}_named"), 0)


CHECKSUM_FACTS = _sure(
    {
        "checksum_log_holed": col("holed"),
        "checksum_files_differ": col("files").differs(col("files_listed")),
        "checksum_bytes_differ": col("bytes").differs(col("bytes_listed")),
    }
)

CHECKSUMS = ordered(
    "commit",
    ("checksum_untold", "checksum_log_holed", UNDECIDED),
    ("checksum_of_files", "checksum_files_differ", "incomplete_commit",
     "the checksum beside the newest commit counts other files than the log lists"),
    ("checksum_of_bytes", "checksum_bytes_differ", "incomplete_commit",
     "the checksum beside the newest commit counts other bytes than the log lists"),
    ("checksum_met", "", CONSISTENT),
    last="checksum_unclassified",
)  # fmt: skip


WRITE_FACTS = _sure(
    {
        "write_replaced": col("replaced").is_("whole"),
        "write_partly_replaced": col("replaced").is_("partly"),
        "write_told": ~col("untold").is_known()
        & (_has_counts("files") | _has_counts("rows") | _has_counts("bytes")),
        "write_short": _lacks("files") | _lacks("rows") | _lacks("bytes"),
        "write_logged": col("logged"),
        "write_covered": col("edge").is_known(),
        "write_in_window": col("ended_at") + col("grace") <= col("edge"),
        "writes_holed": col("holed"),
    }
)

WRITES = ordered(
    "commit",
    ("write_replaced", "write_replaced", CONSISTENT),
    ("write_whole", "write_told !write_short", CONSISTENT),
    ("write_logged", "write_logged", NONE),
    ("write_uncovered", "!write_covered", UNCOVERED),
    ("write_too_young", "!write_in_window", OUT),
    ("write_partly_replaced", "write_partly_replaced", UNDECIDED),
    ("write_untold", "!write_told", UNDECIDED),
    ("writes_holed", "writes_holed", UNDECIDED),
    ("write_short", "", "incomplete_commit",
     "the names of the missing files are not recorded"),
    last="write_unclassified",
)  # fmt: skip

ATTEMPT_FACTS = _sure(
    {
        "attempt_read": col("by_folder"),
        "attempt_covered": col("edge").is_known(),
        # the job that counts may still be about to clean up
        "attempt_in_window": (col("modified_at") <= col("edge"))
        & (col("ended_at") + col("grace") <= col("edge")),
    }
)

ATTEMPTS = ordered(
    "duplicate",
    ("attempt_unread", "!attempt_read", NONE),
    ("attempt_uncovered", "!attempt_covered", UNCOVERED),
    ("attempt_young", "!attempt_in_window", OUT),
    ("attempt", "", "duplicate_attempt",
     "by the writer's own record both files are the same part of one job; programs that list the folder read both"),
    last="attempt_unclassified",
)  # fmt: skip

_IN_WINDOW = ~col("touched_at").is_known() | (col("touched_at") + col("grace") <= col("edge"))
_UNFINISHED = ~col("complete") & col("temp_there")

LOG_ENTRY_FACTS = _sure(
    {
        "commit_past": col("past"),
        "commit_in_window": _IN_WINDOW,
        "commit_entered": col("entered"),
        "commit_differs": col("differs"),
        "commit_unfinished": ~col("logged") & _UNFINISHED,
        "commit_prepared": col("prepared") | col("copied"),
    }
)

LOG_ENTRIES = ordered(
    "commit",
    ("entry_past", "commit_past", CONSISTENT),
    ("entry_young", "!commit_in_window", OUT),
    ("entry_replaced", "commit_differs", "overwritten_commit",
     "the log has another commit than the one that the log store accepted"),
    ("entry_unfinished", "commit_unfinished", "incomplete_commit",
     "the log store accepted this commit, but the commit never reached the log; its temporary file exists"),
    ("entry_missing", "!commit_entered !commit_prepared", "overwritten_commit:warning",
     "the writer of this commit did not use the log store, so this commit or another one may be lost"),
    ("entry_sound", "", CONSISTENT),
    last="entry_unclassified",
)  # fmt: skip

LOST_ENTRY_FACTS = _sure(
    {
        "let_through_logged": col("logged"),
        "let_through_past": col("past"),
        "let_through_unfinished": _UNFINISHED,
        "let_through_in_window": _IN_WINDOW,
    }
)

LOST_ENTRIES = ordered(
    "content",
    ("entry_logged", "let_through_logged", NONE),
    ("entry_was", "let_through_past", NONE),
    ("entry_to_finish", "let_through_unfinished", NONE),
    ("entry_fresh", "!let_through_in_window", OUT),
    ("entry_lost", "", "lost_commit",
     "the log store accepted this commit, but the log does not have it"),
    last="entry_unclassified",
)  # fmt: skip

CLONE_FACTS = _sure(
    {
        "clone_file_lost": col("s_presence").is_("absent"),
        "clone_certain": col("c_certain"),
        "source_lists": col("x_state").is_("live"),
        "source_knows": col("x_state").is_known(),
        "source_certain": col("x_certain"),
        "source_logged": col("o_logged"),
        "source_whole": col("o_complete") & ~col("h_references"),
    }
)

CLONES = ordered(
    "hazard",
    ("clone_file_lost", "clone_file_lost", NONE),
    ("clone_unsure", "!clone_certain", UNDECIDED),
    ("source_lists", "source_lists", CONSISTENT),
    ("source_unsure", "source_knows !source_certain", UNDECIDED),
    ("source_removed", "source_knows", "clone_at_risk",
     "the table that owns this folder has removed the file"),
    ("source_without_log", "!source_logged", CONSISTENT),
    ("source_untold", "!source_whole", UNDECIDED),
    ("source_forgot", "", "clone_at_risk",
     "the complete log of the table that owns this folder does not list the file"),
    last="clone_unclassified",
)  # fmt: skip

FOLDER_FACTS = _sure(
    {
        "names_unrepeated": col("unrepeated"),
        "files_several": col("files") > lit(FEWEST - 1),
        "folders_dated": col("dated"),
    }
)

FOLDERS = ordered(
    "duplicate",
    ("by_chance", "!names_unrepeated !files_several", CONSISTENT),
    ("delivered_again", "!names_unrepeated folders_dated", CONSISTENT),
    ("half_moved", "", "half_moved",
     "another folder contains files with the same names, sizes and contents, as after a rename that stopped halfway"),
    last="folders_unclassified",
)  # fmt: skip

LIFECYCLE_FACTS = _sure(
    {
        "rules_unread": col("unread").is_known(),
        "files_concerned": col("files") > lit(0),
        "asks_for_tags": col("tags"),
        "archived_on_purpose": col("does").is_("archives") & (col("archived_after_days") <= col("days")),
    }
)

LIFECYCLE = ordered(
    "hazard",
    ("rules_unread", "rules_unread", UNDECIDED),
    ("spared", "!files_concerned", CONSISTENT),
    ("on_purpose", "archived_on_purpose", CONSISTENT),
    ("tagged", "asks_for_tags", UNDECIDED),
    ("will_expire", "", "will_expire", "a lifecycle rule of the bucket deletes or archives live files"),
    last="rule_unclassified",
)  # fmt: skip

ACCESS_FACTS = _sure(
    {
        "access_writes": col("deed").is_("write"),
        "access_reads": col("deed").is_("read"),
        "access_after_removal": col("found").is_("removed"),
        "access_after_miss": col("found").is_("missing"),
        "access_weak": col("weak"),
    }
)

ACCESS = ordered(
    "hazard",
    ("reused_name", "access_writes access_after_removal", "reused_name",
     "an object was removed, and another object was written under the same name"),
    ("overwrite_in_place", "access_writes !access_after_miss", "overwrite_in_place",
     "an object replaced another one of the same name, without a removal between them"),
    ("strong_store", "!access_weak", CONSISTENT),
    ("probe_before_put", "access_writes", "probe_before_put",
     "a key was requested before it was first written, and the store may have cached the answer 404"),
    ("list_after_put", "!access_reads", "list_after_put",
     "a folder was listed within a minute after a write to it, and listings of the store are delayed"),
    ("stale_read", "", "stale_read",
     "an object was read within a minute after it was replaced or removed, and the store may serve the old one"),
    last="access_unclassified",
)  # fmt: skip

WATCHED_FACTS = _sure(
    {
        "watched_named": col("named"),
        "watched_table": col("format").is_known(),
        # a young table may still be added to the lake file or to a catalog
        "watched_settled": (col("files") > lit(0)) & (~col("format").is_known() | col("signed")),
        "watched_untold": col("untold"),
    }
)

WATCHED = ordered(
    "leftover",
    ("watched_named", "watched_named", CONSISTENT),
    ("watched_young", "!watched_settled", OUT),
    ("watched_untold", "watched_untold", UNDECIDED),
    ("watched_table", "watched_table", "unregistered_table",
     "these files look like a table, but neither the lake file nor a catalog names it"),
    ("watched_files", "", "unowned", "no table of the lake file or of a catalog owns or lists these files"),
    last="watched_unclassified",
)  # fmt: skip

GROUPS: Mapping[str, tuple[Rule, ...]] = {
    "commit": COMMIT,
    "checksums": CHECKSUMS,
    "writes": WRITES,
    "attempts": ATTEMPTS,
    "log_entries": LOG_ENTRIES,
    "lost_entries": LOST_ENTRIES,
    "clones": CLONES,
    "folders": FOLDERS,
    "lifecycle": LIFECYCLE,
    "access": ACCESS,
    "watched": WATCHED,
    "lineage": LINEAGE,
    **POINTER_TABLES,
}
GROUP_FACTS: Mapping[str, Mapping[str, Expr]] = {
    "commit": COMMIT_FACTS,
    "checksums": CHECKSUM_FACTS,
    "writes": WRITE_FACTS,
    "attempts": ATTEMPT_FACTS,
    "log_entries": LOG_ENTRY_FACTS,
    "lost_entries": LOST_ENTRY_FACTS,
    "clones": CLONE_FACTS,
    "folders": FOLDER_FACTS,
    "lifecycle": LIFECYCLE_FACTS,
    "access": ACCESS_FACTS,
    "watched": WATCHED_FACTS,
    "lineage": LINEAGE_FACTS,
    **POINTER_FACTS,
}
