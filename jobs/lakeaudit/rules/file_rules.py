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
     "a writer recorded this file as written, and no readable state of the table since then lists it"),
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
     "a file of Hudi's metadata table is not in storage: readers that list by it cannot read the table, or miss files"),
    ("missing_metadata", "live absent is_log", "missing_metadata",
     "a file of the table's own metadata that its newest state needs is not in storage"),
    ("statistics_gone", "absent is_statistics", "missing_metadata:warning",
     "statistics that the table's metadata names are not in storage: no row is lost; ANALYZE computes them again"),
    ("dropped", "live absent", "dropped",
     "the table's newest state, or its writer's record, has this file; storage has no current object under its key"),
    ("dropped_history", "absent", "dropped_history",
     "an older state that readers may still ask for lists this file; storage has it not, no vacuum explains it"),
    ("size_unsure", "size_differs !certain", UNDECIDED),
    ("size_young", "size_differs !claim_in_window", OUT),
    ("size_unsettled", "size_differs !object_settled", OUT),
    ("size_of_history", "size_differs history", "size_mismatch:warning",
     "an older state that readers may still ask for lists this file; the stored object has another size"),
    ("size_of_metadata_table", "size_differs is_log of_metadata_table", "size_mismatch:error",
     "a file of Hudi's metadata table has another size than its instant records: readers may miss files"),
    ("size_mismatch", "size_differs", "size_mismatch",
     "the stored object has another size than the writer recorded"),
    ("unreadable_unsure", "too_short !certain", UNDECIDED),
    ("unreadable_young", "too_short !claim_in_window", OUT),
    ("unreadable_history", "too_short history", "unreadable_content:warning",
     "an older state that readers may still ask for lists this file; it is shorter than any file of its format"),
    ("unreadable", "too_short", "unreadable_content",
     "the file is shorter than the shortest file of its format, so no reader can read it"),
    ("content_unsure", "content_differs !certain", UNDECIDED),
    ("content_young", "content_differs !claim_in_window", OUT),
    ("content_unsettled", "content_differs !object_settled", OUT),
    ("content_of_history", "content_differs history", "content_mismatch:warning",
     "an older state that readers may still ask for lists this file; the stored object has other content"),
    ("content_mismatch", "content_differs", "content_mismatch",
     "the stored object has the recorded size and another content than the writer recorded"),
    ("archived_unsure", "archived !certain", UNDECIDED),
    ("archived_young", "archived !claim_in_window", OUT),
    ("archived_history", "archived history", "archived:info",
     "only an older state lists this file; it lies in a storage class that has to be restored before it can be read"),
    ("archived", "archived", "archived",
     "the object lies in a storage class that has to be restored before it can be read"),
    ("history_present", "history", CONSISTENT),
    ("same_content", "content_same class_told", CONSISTENT),
    ("same_untold", "content_same", UNDECIDED),
    ("replaced_unsure", "other_object !certain", UNDECIDED),
    ("replaced_young", "other_object !claim_in_window", OUT),
    ("replaced_unsettled", "other_object !object_settled", OUT),
    ("replaced", "other_object", "overwritten",
     "ETag or version id differ from those that the writer recorded; it is unknown whether the content changed"),
    ("rewritten_unsure", "modified_after_claim !certain", UNDECIDED),
    ("rewritten_unsettled", "modified_after_claim !object_settled", OUT),
    ("rewritten", "modified_after_claim", "overwritten",
     "the object was written again after the commit that lists it; it is unknown whether the content changed"),
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
     "the name is one that writers use for work that is not committed, and its age exceeds leftover_age"),
    ("log", "live_log_name", CONSISTENT),
    ("marker", "marker_name", CONSISTENT),
    ("retired_lately", "read_as_data !retired_in_window", OUT),
    ("retired_visible", "read_as_data removed_or_history", "stale_visible",
     "a manifest retired it, and readers of the folder still read it as data"),
    ("unvacuumed", "past_retention", "unvacuumed",
     "the table removed it longer ago than its retention and it is still in storage"),
    ("removed", "removed", CONSISTENT),
    ("incomplete", "!complete", CONSISTENT),
    ("others", "others_name", CONSISTENT),
    ("unlisted_visible", "read_as_data", "stale_visible",
     "no manifest ever listed it although they are whole, and readers of the folder read it as data"),
    ("slice_of_index", "slice_listed by_index", "stale_visible:info",
     "no write of the timeline lists it, and readers that list folders, not the metadata table, would take it"),
    ("slice_visible", "slice_listed", "stale_visible:warning",
     "no write of the timeline lists it, and readers that list the table's folders take it now for one of its files"),
    ("uncommitted", "within_horizon data_or_deletes", "uncommitted",
     "no state of any table that this audit could read lists it, though a commit of it would be visible"),
    ("unreferenced", "", "unreferenced",
     "nothing that can be read lists it: removed long ago or never committed"),
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
     "storage has the file and a table lists it or none removed it, yet the store holds a tombstone not expired"),
    ("needed_absent", "absent needed", CONSISTENT),
    ("opaque_absent", "absent opaque_entry", UNDECIDED),
    ("temporary_absent", "absent named_entry temporary_name", CONSISTENT),
    ("named_open", "absent named_entry !closed_in_window", OUT),
    ("phantom_untold", "absent references_incomplete", UNDECIDED),
    ("phantom_hole", "absent storage_hole !confirmed", UNDECIDED),
    ("phantom", "absent", "phantom",
     "the metadata store lists the file as live; storage has no object and no newest state needs it"),
    ("opaque_older", "opaque_entry !entered_since", UNDECIDED),
    ("stale", "entry_differs", "metastore_stale",
     "size, ETag or version of the entry are not those that storage serves"),
    ("untold", "!entry_told", UNDECIDED),
    ("same", "!no_entry", CONSISTENT),
    ("not_needed", "manifest !needed", CONSISTENT),
    ("temporary", "temporary_name", CONSISTENT),
    ("pruned", "outlived_ttl !honoured", CONSISTENT),
    ("hole", "metastore_hole", UNDECIDED),
    ("hidden_trusted", "honoured", "hidden:error",
     "storage has the file and readers here trust the metadata store alone, which has no entry for it"),
    ("hidden", "", "hidden",
     "storage has the file and the metadata store has no entry for it"),
)  # fmt: skip

DUPLICATE = ordered(
    "duplicate",
    ("not_in_use", "!live !unclaimed", NONE),
    ("not_stored", "unclaimed !present", NONE),
    ("listed_twice", "listed_twice", "duplicate_entry",
     "the newest state of the table lists this file more than once"),
    ("conflict_untold", "conflict references_incomplete", UNDECIDED),
    ("conflict", "conflict", "conflicting_owner",
     "two tables list this file, each under its own root, and neither is a clone or declares to share it"),
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
    ("parent_missing", "has_parent !parent_found", "metastore_broken", "its parent folder has no entry"),
    ("parent_tombstone", "parent_tombstone", "metastore_broken", "its parent folder is a tombstone"),
    ("parent_file", "parent_file", "metastore_broken", "its parent is entered as a file"),
    ("keys_below", "!is_folder keys_below", "metastore_broken",
     "it is entered as a file and storage has keys below it"),
    ("object_there", "object_there", "metastore_broken",
     "it is entered as a folder and storage has an object there"),
    ("children_untold", "children_missing tree_hole", UNDECIDED),
    ("children_missing", "children_missing", "metastore_broken",
     "readers trust its listing as complete, and children that storage has are not entered"),
    ("field_absent", "!is_folder field_absent", "metastore_broken",
     "a live file entry lacks a field that its readers need"),
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
        "another visible file of the partition holds these bytes",
    ),
    Rule("duplicate.alike", (), UNDECIDED),
    Rule(
        "leftover.unfinished_upload",
        (),
        "unfinished_upload",
        "a multipart upload was begun and never completed",
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

RULES: Mapping[str, Rule] = {rule.id: rule for rules in TABLES.values() for rule in rules} | {
    r.id: r for r in OTHER
}


def facts_of(row: Row, facts: Mapping[str, Expr] = ALL_FACTS) -> dict[str, bool]:
    """Evaluate every fact for one plain row."""
    return {name: evaluate(fact, row) for name, fact in facts.items()}
