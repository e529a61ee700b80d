"""Defines rules about lineage: evidence that names another state of a table than the state that was read.

The rows are those of schemas.LINEAGE. The rules of this table have verdicts on several axes.
"""

from collections.abc import Mapping

from lakeaudit.evidence import lineage
from lakeaudit.kinds import CHECKPOINT_DIFFERS
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
         "a newer version of the table existed, and query engines now read an older one"),
        ("state_doubted", "claims_lost_state", UNDECIDED),
        ("line_doubted", "claims_rival_line", UNDECIDED),
        ("table_doubted", "claims_foreign_state !claim_proved", UNDECIDED),
        ("table_missing", "claims_missing_table table_known", "table_missing",
         "no version of the table can be read"),
        ("table_unknown", "claims_missing_table", UNDECIDED),
        ("checkpoint_short", "claims_short_checkpoint", "missing_metadata",
         CHECKPOINT_DIFFERS),
        ("state_lists_less", "claims_less_listed", "missing_metadata",
         "a version of a table never changes, so its files were lost or replaced"),
        ("hint_broken", "claims_broken_hint", "missing_metadata:warning",
         "query engines that use this file cannot open the table"),
        ("metadata_table_broken", "claims_broken_metadata_table", "missing_metadata:error",
         "query engines that use the metadata table fail or miss files"),
        ("history_cut", "claims_cut_history", UNDECIDED),
        ("parent_files_dropped", "claims_dropped_by_append", "lost_commit",
         "this version of the table lacks files of the version before it, and no operation removed these files"),
    ),
    *_rules("commit",
        ("state_replaced", "claims_replaced_state", "overwritten_commit",
         "the file of this table version was written again, and query engines read the new content"),
        ("counts_unmet", "claims_unmet_counts", "incomplete_commit",
         "the missing files were lost or never committed"),
        ("removal_idle", "claims_idle_removal", "ineffective_removal",
         "if query engines still read the files that this commit should replace, they read rows twice"),
        ("overwrites_rival", "claims_rival_overwrites", "ineffective_removal",
         "both overwrites replaced the same version of the table, so query engines read the rows of both"),
        ("rewrite_changed_rows", "claims_changed_rows", "rows_changed_by_rewrite",
         "this commit declares that it changes no rows"),
        ("batch_repeated", "claims_repeated_batch", "duplicate_commit",
         "the files of both are live, so query engines may read the rows of one batch twice"),
    ),
    *_rules("pointer",
        ("lines_two", "claims_two_lines", "stale_pointer",
         "each catalog commits to a series of metadata files that the other catalog lacks"),
        ("state_foreign", "claims_foreign_state", "stale_pointer:critical",
         "query engines read the rows of another table"),
        ("hint_lags", "claims_lagging_hint", "stale_pointer:warning",
         "query engines that use the hint read an older version of the table"),
        ("format_lags", "claims_lagging_format", "stale_pointer:warning",
         "query engines that read the other format read an older version of the table"),
    ),
    *ordered("duplicate",
        ("manifest_repeated", "", "duplicate_entry",
         "query engines read the rows of its files twice"),
        last="lineage_unclassified",
    ),
)  # fmt: skip
