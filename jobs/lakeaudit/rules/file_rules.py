"""Defines the rules about files: an ordered table per axis, whose first match wins; the last row is `unclassified`.

A rule's conditions are names of facts; a leading "!" negates one. A condition that earlier rules already imply is not
repeated. The verdict is a kind of finding or an outcome (consistent, out_of_window, undecided, uncovered, none).
`none` means that the axis does not judge the row. `group_rules` has the rules about commits, clones, pairs of folders
and lifecycle rules.
"""

from collections.abc import Mapping

from lakeaudit.rules.expr import Expr, Row, evaluate
from lakeaudit.rules.file_facts import ALL_FACTS, TREE_FACTS
from lakeaudit.rules.group_rules import GROUP_FACTS, GROUPS
from lakeaudit.rules.rule import (
    CONSISTENT,
    NONE,
    OUT,
    OUTCOMES,
    UNCOVERED,
    UNDECIDED,
    Rule,
    holds,
    judge,
    ordered,
)

__all__ = [
    "CONSISTENT",
    "GROUPS",
    "GROUP_FACTS",
    "NONE",
    "OUT",
    "OUTCOMES",
    "UNCOVERED",
    "UNDECIDED",
    "Rule",
    "holds",
    "judge",
]

CONTENT = ordered(
    "content",
    ("event_lost", "event_live !ever_listed !log_holed event_within_horizon event_in_window", "lost_commit",
     "a writer recorded this file as written, but no readable version of the table since then lists it"),
    ("event_young", "event_live !ever_listed !log_holed event_within_horizon", OUT),
    ("event_untold", "event_live !ever_listed", UNDECIDED),
    ("no_claim", "!live !history", NONE),
    ("uncovered", "!covered", UNCOVERED),
    ("unclear", "!present !absent", UNDECIDED),
    ("absent_unsure", "absent !certain", UNDECIDED),
    ("history_explained", "history explained", CONSISTENT),
    ("absent_young", "absent !claim_in_window", OUT),
    ("absent_hole", "absent storage_hole !confirmed", UNDECIDED),
    ("history_vacuumed", "absent history vacuum_assumed", CONSISTENT),
    ("metadata_table_file_gone", "live absent is_log of_metadata_table", "missing_metadata:error",
     "storage lacks a file of Hudi's metadata table: query engines that use this metadata table fail or miss files"),
    ("missing_metadata", "live absent is_log", "missing_metadata",
     "storage lacks a metadata file that the newest version of the table needs"),
    ("statistics_gone", "absent is_statistics", "missing_metadata:warning",
     "storage lacks a statistics file that the table's metadata names: no row is lost; ANALYZE computes it again"),
    ("dropped", "live absent", "dropped",
     "the newest version of the table lists this file, but storage has no current object for it"),
    ("dropped_history", "absent", "dropped_history",
     "an older, still readable version of the table lists this file; storage lacks it, and no clean-up explains that"),
    ("size_unsure", "size_differs !certain", UNDECIDED),
    ("size_young", "size_differs !claim_in_window", OUT),
    # undecided, and not too young: the commit is old, and a file of an old commit that nobody judged is not verified
    ("size_unsettled", "size_differs !object_settled", UNDECIDED),
    ("size_of_history", "size_differs history", "size_mismatch:warning",
     "an older, still readable version of the table lists this file; the stored object has another size"),
    ("size_of_metadata_table", "size_differs is_log of_metadata_table", "size_mismatch:error",
     "a file of Hudi's metadata table has another size than its instant records: query engines may miss files"),
    ("size_mismatch", "size_differs", "size_mismatch",
     "the stored object has another size than the writer recorded"),
    ("unreadable_unsure", "too_short !certain", UNDECIDED),
    ("unreadable_young", "too_short !claim_in_window", OUT),
    ("unreadable_history", "too_short history", "unreadable_content:warning",
     "an older, still readable version of the table lists this file; it is shorter than any file of its format"),
    ("unreadable", "too_short", "unreadable_content",
     "the file is shorter than any file of its format, so no program can read it"),
    ("content_unsure", "content_differs !certain", UNDECIDED),
    ("content_young", "content_differs !claim_in_window", OUT),
    ("content_unsettled", "content_differs !object_settled", UNDECIDED),
    ("content_of_history", "content_differs history", "content_mismatch:warning",
     "an older, still readable version of the table lists this file; the stored object has other content"),
    ("content_mismatch", "content_differs", "content_mismatch",
     "the stored object has the recorded size, but not the content that the writer recorded"),
    ("archived_unsure", "archived !certain", UNDECIDED),
    ("archived_young", "archived !claim_in_window", OUT),
    ("archived_history", "archived history", "archived:info",
     "only an older version of the table lists this file; its storage class must be restored before reading"),
    ("archived", "archived", "archived",
     "the object is in an archive storage class: it must be restored before it can be read"),
    ("history_present", "history", CONSISTENT),
    ("same_content", "content_same class_told", CONSISTENT),
    ("same_untold", "content_same", UNDECIDED),
    ("replaced_unsure", "other_object !certain", UNDECIDED),
    ("replaced_young", "other_object !claim_in_window", OUT),
    ("replaced_unsettled", "other_object !object_settled", UNDECIDED),
    ("replaced", "other_object", "overwritten",
     "the ETag or version id is not the one that the writer recorded; no checksum shows whether the content changed"),
    ("rewritten_unsure", "modified_after_claim !certain", UNDECIDED),
    ("rewritten_young", "modified_after_claim !claim_in_window", OUT),
    ("rewritten_unsettled", "modified_after_claim !object_settled", UNDECIDED),
    ("rewritten", "modified_after_claim", "overwritten",
     "the object was written again after the commit that lists it; no checksum shows whether the content changed"),
    ("untold", "!told", UNDECIDED),
    ("same", "", CONSISTENT),
)  # fmt: skip

LEFTOVER = ordered(
    "leftover",
    ("not_stored", "!present", NONE),
    ("needed", "needed", CONSISTENT),
    ("promised", "promised !read_as_data", CONSISTENT),
    ("untold", "!time_told", UNDECIDED),
    ("young", "!leftover_in_window", OUT),
    ("listed_since", "!unlisted_since_cut", OUT),
    ("references_incomplete", "references_incomplete", UNDECIDED),
    ("temporary", "temporary_name", "temporary",
     "the file has a name that writers use for uncommitted work, and its last write is older than leftover_age"),
    ("log", "live_log_name", CONSISTENT),
    ("marker", "marker_name", CONSISTENT),
    ("retired_lately", "read_as_data !retired_in_window", OUT),
    ("retired_visible", "read_as_data removed_or_history", "stale_visible",
     "a manifest recorded the removal of these files, but programs that list the folder still read them as data"),
    ("unvacuumed", "past_retention", "unvacuumed",
     "the table removed these files, its retention has passed, and storage still has them"),
    ("removed", "removed", CONSISTENT),
    ("incomplete", "!complete", CONSISTENT),
    ("others", "others_name", CONSISTENT),
    ("unlisted_visible", "read_as_data", "stale_visible",
     "no manifest ever listed these files, but programs that list the folder read them as data"),
    ("slice_of_index", "slice_listed by_index", "stale_visible:info",
     "no write of the timeline lists these files; a query engine that does not use the metadata table would read them"),
    ("slice_visible", "slice_listed", "stale_visible:warning",
     "no write of the timeline lists these files, but query engines that list the table's folders read them"),
    ("uncommitted", "within_horizon data_or_deletes", "uncommitted",
     "no readable version of any table lists these files; if a commit had added them, the audit would have seen that"),
    ("unreferenced", "", "unreferenced",
     "nothing that can be read lists these files: a job removed them long ago, or never committed them"),
)  # fmt: skip

METASTORE = ordered(
    "metastore",
    ("unscoped", "!tombstone !file_entry !opaque_entry !no_entry", NONE),
    ("nothing", "no_entry !present", NONE),
    ("marker", "marker_name", NONE),
    ("not_addressable", "not_addressable", UNDECIDED),
    ("expired", "expired", CONSISTENT),
    ("uncovered", "!covered", UNCOVERED),
    ("unclear", "!present !absent", UNDECIDED),
    ("young", "!entry_in_window", OUT),
    ("tombstone_absent", "tombstone absent", CONSISTENT),
    ("tombstone_removed", "tombstone removed_or_history !needed", CONSISTENT),
    ("tombstone_untold", "tombstone references_incomplete", UNDECIDED),
    ("tombstoned", "tombstone", "tombstoned",
     "storage has this file, but the metadata store says that it is deleted (the tombstone has not expired)"),
    ("needed_absent", "absent needed", CONSISTENT),
    ("opaque_absent", "absent opaque_entry", UNDECIDED),
    ("temporary_absent", "absent named_entry temporary_name", CONSISTENT),
    ("named_open", "absent named_entry !closed_in_window", OUT),
    ("phantom_untold", "absent references_incomplete", UNDECIDED),
    ("phantom_hole", "absent storage_hole !confirmed", UNDECIDED),
    ("phantom", "absent", "phantom",
     "the metadata store lists this file, but storage has no object for it, and no table's newest version lists it"),
    ("opaque_older", "opaque_entry !entered_since", UNDECIDED),
    ("stale", "entry_differs", "metastore_stale",
     "the size, ETag or version in the metadata store's entry differs from the stored object"),
    ("untold", "!entry_told", UNDECIDED),
    ("same", "!no_entry", CONSISTENT),
    ("not_needed", "manifest !needed", CONSISTENT),
    ("temporary", "temporary_name", CONSISTENT),
    ("pruned", "outlived_ttl !honoured", CONSISTENT),
    ("hole", "metastore_hole", UNDECIDED),
    ("hidden_trusted", "honoured", "hidden:error",
     "storage has this file, but the metadata store, the only list that query engines trust here, has no entry for it"),
    ("hidden", "", "hidden",
     "storage has this file, but the metadata store has no entry for it"),
)  # fmt: skip

DUPLICATE = ordered(
    "duplicate",
    ("not_in_use", "!live !unclaimed", NONE),
    ("not_stored", "unclaimed !present", NONE),
    ("listed_twice", "listed_twice", "duplicate_entry",
     "the newest version of the table lists this file more than once"),
    ("conflict_untold", "conflict references_incomplete", UNDECIDED),
    ("conflict", "conflict", "conflicting_owner",
     "two tables list this file as their own; neither is a clone of the other, and neither declares `shares`"),
    ("uncovered", "!covered", UNCOVERED),
    ("untold", "present !time_told", UNDECIDED),
    ("young", "present !object_settled", OUT),
    ("single", "", CONSISTENT),
)  # fmt: skip

TREE = ordered(
    "metastore_tree",
    ("tombstone", "entry_tombstone", NONE),
    ("expired", "entry_expired", CONSISTENT),
    ("not_addressable", "entry_not_addressable", UNDECIDED),
    ("young", "!tree_in_window", OUT),
    ("parent_young", "!parent_in_window", OUT),
    ("parent_untold", "has_parent !parent_found tree_hole", UNDECIDED),
    ("parent_missing", "has_parent !parent_found", "metastore_broken",
     "the metadata store has no entry for the parent folder of this path"),
    ("parent_tombstone", "parent_tombstone", "metastore_broken",
     "the metadata store says that the parent folder of this path is deleted"),
    ("parent_file", "parent_file", "metastore_broken",
     "the metadata store lists the parent folder of this path as a file"),
    ("keys_below", "!is_folder keys_below", "metastore_broken",
     "the metadata store has this path as a file, but storage has keys under it"),
    ("object_there", "object_there", "metastore_broken",
     "the metadata store has this path as a folder, but storage has a file there"),
    ("children_untold", "children_missing tree_hole", UNDECIDED),
    ("children_missing", "children_missing", "metastore_broken",
     "query engines trust the metadata store's list of this folder, but the list lacks files that storage has"),
    ("field_absent", "!is_folder field_absent", "metastore_broken",
     "this entry lacks a field that the clients of the metadata store need"),
    ("sound", "", CONSISTENT),
)  # fmt: skip

PAIR_AXES: Mapping[str, tuple[Rule, ...]] = {
    "content": CONTENT,
    "leftover": LEFTOVER,
    "metastore": METASTORE,
    "duplicate": DUPLICATE,
}
AXES: Mapping[str, tuple[Rule, ...]] = {**PAIR_AXES, "metastore_tree": TREE}
OTHER = (
    Rule(
        "duplicate.same_content",
        (),
        "duplicate_content",
        "another visible file of the partition has the same content",
    ),
    Rule("duplicate.alike", (), UNDECIDED),
    Rule(
        "leftover.unfinished_upload",
        (),
        "unfinished_upload",
        "a multipart upload was started and never completed",
    ),
)
"""Verdicts that are not about one PAIR row: groups of files with the same content, and uploads."""

TABLES: Mapping[str, tuple[Rule, ...]] = {**AXES, **GROUPS}
"""All ordered tables by name: those of AXES by axis, and those of GROUPS."""
FACTS_OF: Mapping[str, Mapping[str, Expr]] = {
    **dict.fromkeys(PAIR_AXES, ALL_FACTS),
    "metastore_tree": TREE_FACTS,
    **GROUP_FACTS,
}
"""The facts that each table's conditions name."""

UNSETTLED = tuple(rule.id for rule in CONTENT if "!object_settled" in rule.when)
"""Rules of the content axis for files that differ, and whose object was written after the edge of the snapshot."""

RULES: Mapping[str, Rule] = {rule.id: rule for rules in TABLES.values() for rule in rules} | {
    r.id: r for r in OTHER
}


def facts_of(row: Row, facts: Mapping[str, Expr] = ALL_FACTS) -> dict[str, bool]:
    """Evaluate every fact for one plain row."""
    return {name: evaluate(fact, row) for name, fact in facts.items()}
