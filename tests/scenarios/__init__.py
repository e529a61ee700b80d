"""Hand-written scenarios: observations in, verdicts out. Both rule evaluators are held against them."""

from tests.scenarios import changed, content, duplicates, gaps, leftovers, metastore, time_rule, tree, untold

SCENARIOS = (
    *changed.SCENARIOS,
    *content.SCENARIOS,
    *duplicates.SCENARIOS,
    *gaps.SCENARIOS,
    *leftovers.SCENARIOS,
    *metastore.SCENARIOS,
    *time_rule.SCENARIOS,
    *tree.SCENARIOS,
    *untold.SCENARIOS,
)
