"""Hand-written scenarios: observations in, verdicts out. Tests compare both rule evaluators with them."""

from tests.scenarios import (
    access,
    attempts,
    changed,
    checksums,
    clones,
    commits,
    content,
    copies,
    duplicates,
    folders,
    gaps,
    leftovers,
    lifecycle,
    lineage,
    log_entries,
    metastore,
    names_alone,
    pointers,
    read_by_folder,
    time_rule,
    tree,
    unclear,
    watched,
    writes,
)

SCENARIOS = (
    *changed.SCENARIOS,
    *content.SCENARIOS,
    *copies.SCENARIOS,
    *duplicates.SCENARIOS,
    *gaps.SCENARIOS,
    *leftovers.SCENARIOS,
    *metastore.SCENARIOS,
    *names_alone.SCENARIOS,
    *read_by_folder.SCENARIOS,
    *time_rule.SCENARIOS,
    *tree.SCENARIOS,
    *unclear.SCENARIOS,
)
"""Scenarios of single files."""

GROUP_SCENARIOS = (
    *commits.SCENARIOS,
    *clones.SCENARIOS,
    *folders.SCENARIOS,
    *lifecycle.SCENARIOS,
    *log_entries.SCENARIOS,
    *access.SCENARIOS,
    *writes.SCENARIOS,
    *attempts.SCENARIOS,
    *pointers.SCENARIOS,
    *watched.SCENARIOS,
    *checksums.SCENARIOS,
    *lineage.SCENARIOS,
)
"""Scenarios of other subjects than single files."""
