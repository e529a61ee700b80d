"""Witnesses that name states of a table besides the state that was read."""

from lakeaudit.evidence.lineage import CLAIMS_ABOUT_STATES
from tests.builders.group_scenario import GroupScenario, claimed, group

LOST = "missing_metadata"


def state(name: str, verdict: str, claim: str, **given: object) -> GroupScenario:
    return group("lineage", name, verdict, claimed(claim, **given))


SCENARIOS = (
    # healthy
    *(state(f"{claim}, which an operation of the format explains", "ok", claim, proved=True, explained=True)
      for claim in CLAIMS_ABOUT_STATES),
    state("a newer state of a table that was created again since", "ok", "lost_state", proved=True, recreated=True),
    # cannot be told
    state("one data file is named after a newer instant", "undecided", "lost_state", built_on=1),
    state("one newer metadata.json that no other one follows", "undecided", "lost_state"),
    state("two metadata files, neither an ancestor of the other", "undecided", "rival_line", proved=True),
    state("the log of a table that was only discovered is gone", "undecided", "missing_table", known=False),
    state("data files are older than the timeline, and nothing is archived", "undecided", "cut_history"),
    state("a log that another location has as its own", "undecided", "foreign_state"),
    # lost
    state("the last audit read a newer state", LOST, "lost_state", proved=True),
    state("two data files are named after a newer instant", LOST, "lost_state", built_on=2),
    state("the log of a table that the lake file names is gone", "table_missing", "missing_table"),
    state("a checkpoint lists less than the commits", LOST, "short_checkpoint"),
    state("an unchanged state lists fewer files than the last audit counted", LOST, "less_listed"),
    state("a hint names a checkpoint that is gone", "missing_metadata:warning", "broken_hint"),
    state("a file of Hudi's metadata table is gone", "missing_metadata:error", "broken_metadata_table"),
    state("an append lacks files that its parent lists", "lost_commit", "dropped_by_append"),
    # commits
    state("the file of a state was written twice", "overwritten_commit", "replaced_state"),
    state("a commit or a summary counts more than the state holds", "incomplete_commit", "unmet_counts"),
    state("a removal of a path that was not listed", "ineffective_removal", "idle_removal"),
    state("two overwrites of one state", "ineffective_removal", "rival_overwrites"),
    state("a compaction that loses rows", "rows_changed_by_rewrite", "changed_rows"),
    state("one batch committed twice", "duplicate_commit", "repeated_batch"),
    # pointers
    state("two catalogs, each with a line of its own", "stale_pointer", "two_lines"),
    state("a catalog that points at another table's state", "stale_pointer:critical", "foreign_state", proved=True),
    state("a hint that names an older state", "stale_pointer:warning", "lagging_hint"),
    state("another format that is behind", "stale_pointer:warning", "lagging_format"),
    # entries
    state("a manifest listed twice", "duplicate_entry", "repeated_manifest"),
)  # fmt: skip
