"""Defines rules about lineage: evidence that names another state of a table than the state that was read.

The rows are those of schemas.LINEAGE. The rules of this table have verdicts on several axes.
"""

from collections.abc import Mapping

from lakeaudit.evidence import lineage
from lakeaudit.rules.expr import Expr, col, lit
from lakeaudit.rules.rule import CONSISTENT, UNDECIDED, Rule, ordered

FEWEST_BUILT_ON = 2
"""Data files named after a state that prove the state: one file may come from a failed write."""

_CLAIMS = [name for name in lineage.CLAIMS_ABOUT_STATES if name != lineage.REPEATED_MANIFEST]

LINEAGE_FACTS: Mapping[str, Expr] = {
    name: fact.sure()
    for name, fact in {
        "claim_explained": col("recreated") | col("explained"),
        "claim_proved": col("proved") | (col("built_on") > lit(FEWEST_BUILT_ON - 1)),
        "table_known": col("known"),
        **{f"claims_{name}": col("claim").is_(name) for name in _CLAIMS},
    }.items()
}

_Row = tuple[str, str, str] | tuple[str, str, str, str]


def _rules(axis: str, *rows: _Row) -> tuple[Rule, ...]:
    """Return the rules of one axis, without the last row of a table."""
    return ordered(axis, *rows)[:-1]


LINEAGE: tuple[Rule, ...] = (
    *_rules("content",
        ("state_explained", "claim_explained", CONSISTENT),
        ("state_lost", "claims_lost_state claim_proved", "missing_metadata",
         "a newer state of the table existed, and readers get an older one"),
        ("state_doubted", "claims_lost_state", UNDECIDED),
        ("line_doubted", "claims_rival_line", UNDECIDED),
        ("table_doubted", "claims_foreign_state !claim_proved", UNDECIDED),
        ("table_missing", "claims_missing_table table_known", "table_missing",
         "no state of the table can be read any more"),
        ("table_unknown", "claims_missing_table", UNDECIDED),
        ("checkpoint_short", "claims_short_checkpoint", "missing_metadata",
         "readers begin at this checkpoint and get other files than the commits list"),
        ("state_lists_less", "claims_less_listed", "missing_metadata",
         "a state never changes: its files were lost or replaced"),
        ("hint_broken", "claims_broken_hint", "missing_metadata:warning",
         "readers that go by it cannot open the table"),
        ("metadata_table_broken", "claims_broken_metadata_table", "missing_metadata:error",
         "readers that list by the metadata table cannot read, or miss files"),
        ("history_cut", "claims_cut_history", UNDECIDED),
        ("parent_files_dropped", "claims_dropped_by_append", "lost_commit",
         "a state lacks what the one before it lists, and no operation removed that"),
    ),
    *_rules("commit",
        ("state_replaced", "claims_replaced_state", "overwritten_commit",
         "the file of this state was written again, and readers get the new content"),
        ("counts_unmet", "claims_unmet_counts", "incomplete_commit",
         "the missing files were lost, or were never committed"),
        ("removal_idle", "claims_idle_removal", "ineffective_removal",
         "if the files that it meant to replace are still read, readers get their rows twice"),
        ("overwrites_rival", "claims_rival_overwrites", "ineffective_removal",
         "each overwrite replaced the same state, so readers get the rows of both"),
        ("rewrite_changed_rows", "claims_changed_rows", "rows_changed_by_rewrite",
         "it declares that it changes no rows"),
        ("batch_repeated", "claims_repeated_batch", "duplicate_commit",
         "both are live, so readers may get the rows of one batch twice"),
    ),
    *_rules("pointer",
        ("lines_two", "claims_two_lines", "stale_pointer",
         "each catalog commits to a line of metadata that the other one lacks"),
        ("state_foreign", "claims_foreign_state", "stale_pointer:critical",
         "readers get the rows of another table"),
        ("hint_lags", "claims_lagging_hint", "stale_pointer:warning",
         "readers that go by the hint get an older state"),
        ("format_lags", "claims_lagging_format", "stale_pointer:warning",
         "readers of the other format get an older state"),
    ),
    *ordered("duplicate",
        ("manifest_repeated", "", "duplicate_entry",
         "readers get the rows of its files twice"),
        last="lineage_unclassified",
    ),
)  # fmt: skip
