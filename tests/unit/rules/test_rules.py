"""The rule tables against the hand-written scenarios: every verdict, rule, and single fault in a rule or fact."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import pytest

from lakeaudit.kinds import KINDS
from lakeaudit.rules import file_rules
from lakeaudit.rules.expr import Expr, evaluate
from lakeaudit.rules.file_facts import ALL_FACTS, TREE_FACTS
from tests.builders.group_scenario import GroupScenario
from tests.builders.mutants import fact_mutants, meeting, outcome, rule_mutants, swaps
from tests.builders.scenario import Row, Scenario
from tests.builders.twin import Subject, judged, subjects
from tests.builders.twin import verdict_text as spoken_rule
from tests.builders.twin_match import pair_rows
from tests.scenarios import GROUP_SCENARIOS, SCENARIOS

NOT_BY_A_RULE = {"unreadable_evidence", "coverage_lost", "unclassified"}
"""Said of sources; said by no scenario, since it would be our fault."""


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_a_scenario_is_judged_as_an_expert_would(scenario: Scenario) -> None:
    assert judged(scenario) == {
        subject: verdicts for subject, verdicts in scenario.verdicts.items() if verdicts
    }


@pytest.mark.parametrize("scenario", GROUP_SCENARIOS, ids=lambda scenario: scenario.name)
def test_subjects_other_than_files_are_judged_as_an_expert_would(scenario: GroupScenario) -> None:
    facts = file_rules.facts_of(scenario.row, file_rules.FACTS_OF[scenario.table])
    rule = file_rules.judge(file_rules.TABLES[scenario.table], facts)
    assert spoken_rule(rule) == scenario.verdict


def test_there_are_enough_scenarios_and_each_has_its_own_name() -> None:
    names = [*(scenario.name for scenario in SCENARIOS), *(scenario.name for scenario in GROUP_SCENARIOS)]
    assert len(set(names)) == len(names) >= 120


@dataclass(frozen=True)
class Question:
    """One row for one table of rules, with all of its final facts."""

    axis: str
    row: Row
    facts: dict[str, bool]

    def verdict(self, table: tuple[file_rules.Rule, ...]) -> tuple[str, str | None]:
        return outcome(file_rules.judge(table, self.facts))

    @cached_property
    def right(self) -> tuple[str, str | None]:
        """The verdict of the rules as they are."""
        return self.verdict(file_rules.TABLES[self.axis])


@pytest.fixture(scope="module")
def questions() -> list[Question]:
    of_files = [
        _question(asked) for scenario in SCENARIOS for asked in subjects(scenario, pair_rows(scenario))
    ]
    of_groups = [
        Question(s.table, s.row, file_rules.facts_of(s.row, file_rules.FACTS_OF[s.table]))
        for s in GROUP_SCENARIOS
    ]
    return [*of_files, *of_groups]


def _question(asked: Subject) -> Question:
    """The late facts are set everywhere; the last test of this file shows why that changes no verdict."""
    first = file_rules.judge(file_rules.AXES[asked.axis], asked.facts(asked.row))
    row = asked.again if first.is_finding else asked.known
    return Question(asked.axis, row, asked.facts(row))


def test_every_rule_fires_in_a_scenario_and_unclassified_in_none(questions: list[Question]) -> None:
    fired = {file_rules.judge(file_rules.TABLES[question.axis], question.facts).id for question in questions}
    assert fired == {rule.id for table in file_rules.TABLES.values() for rule in table[:-1]}


def test_every_kind_is_the_verdict_of_a_scenario() -> None:
    said = {
        verdict.partition(":")[0]
        for s in SCENARIOS
        for line in s.verdicts.values()
        for verdict in line.values()
    } | {scenario.verdict.partition(":")[0] for scenario in GROUP_SCENARIOS}
    assert said & set(KINDS) == set(KINDS) - NOT_BY_A_RULE


def test_kinds_and_rules_agree_on_axes() -> None:
    wrong = [rule.id for rule in file_rules.RULES.values() if rule.is_finding and not _on_axis(rule)]
    assert wrong == []


def _on_axis(rule: file_rules.Rule) -> bool:
    return KINDS[rule.verdict].axis in (rule.axis, "any")


@pytest.mark.parametrize("axis", file_rules.TABLES)
def test_no_rule_or_condition_can_be_left_out_or_turned_round(axis: str, questions: list[Question]) -> None:
    asked = [question for question in questions if question.axis == axis]
    survivors = [what for what, mutant in rule_mutants(file_rules.TABLES[axis]) if not _killed(asked, mutant)]
    assert survivors == []


@pytest.mark.parametrize("axis", file_rules.TABLES)
def test_no_two_rules_that_overlap_can_change_places(axis: str, questions: list[Question]) -> None:
    asked = [question for question in questions if question.axis == axis]
    table = file_rules.TABLES[axis]
    survivors = [
        f"{table[low].id} <-> {table[high].id} under {meeting(table, low, high)}"
        for low, high, mutant in swaps(table)
        if meeting(table, low, high) is not None
        and not _killed(sorted(asked, key=lambda each: each.right != outcome(table[low])), mutant)
    ]
    assert survivors == []


def _killed(asked: list[Question], mutant: tuple[file_rules.Rule, ...]) -> bool:
    return any(question.verdict(mutant) != question.right for question in asked)


EVERY_FACT = {name: fact for facts in file_rules.FACTS_OF.values() for name, fact in facts.items()}
USED = {
    axis: {c.removeprefix("!") for rule in table for c in rule.when}
    for axis, table in file_rules.TABLES.items()
}


@pytest.mark.parametrize("name", EVERY_FACT)
def test_no_fault_in_a_fact_goes_unseen(name: str, questions: list[Question]) -> None:
    fact = EVERY_FACT[name].args[0]
    asked = [question for question in questions if name in USED[question.axis]]
    survivors = [what for what, mutant in fact_mutants(fact) if not _is_detected(asked, name, mutant.sure())]
    assert survivors == []


def _is_detected(asked: list[Question], name: str, mutant: Expr) -> bool:
    for question in asked:
        changed = question.facts | {name: evaluate(mutant, question.row)}
        table = file_rules.TABLES[question.axis]
        if changed != question.facts and outcome(file_rules.judge(table, changed)) != question.verdict(table):
            return True
    return False


def test_every_fact_is_used_by_a_rule_and_every_rule_uses_facts_that_exist() -> None:
    pairs = set().union(*(USED[axis] for axis in file_rules.PAIR_AXES))
    assert pairs == set(ALL_FACTS)
    assert {name: USED[name] for name in file_rules.TABLES if name not in file_rules.PAIR_AXES} == {
        name: set(facts) for name, facts in file_rules.FACTS_OF.items() if name not in file_rules.PAIR_AXES
    }
    assert len(EVERY_FACT) == sum(map(len, (ALL_FACTS, TREE_FACTS, *file_rules.GROUP_FACTS.values())))


LATE = ("storage_hole", "metastore_hole", "vacuum_assumed")
"""Known only after everything was read, and then read only for suspects."""


@pytest.mark.parametrize("axis", file_rules.PAIR_AXES)
def test_what_is_known_late_takes_findings_back_and_changes_nothing_else(
    axis: str, questions: list[Question]
) -> None:
    table = file_rules.PAIR_AXES[axis]
    late = [dict(zip(LATE, values, strict=True)) for values in product((False, True), repeat=len(LATE))]
    for facts in _variations(axis, questions):
        early = file_rules.judge(table, facts)
        if not early.is_finding:
            for known in late[1:]:
                assert outcome(file_rules.judge(table, facts | known)) == outcome(early), facts | known


def _variations(axis: str, questions: list[Question]) -> Iterator[dict[str, bool]]:
    """The facts of every scenario with each single fact turned round, and no late fact."""
    early = [q.facts | dict.fromkeys(LATE, False) for q in questions if q.axis == axis]
    for facts in {tuple(sorted(facts.items())): facts for facts in early}.values():
        yield facts
        yield from (facts | {name: not facts[name]} for name in USED[axis] if name not in LATE)


def test_the_faults_are_many() -> None:
    """Guards the generators: without faults to kill, the tests above would be true of anything."""
    rule_faults = sum(1 for table in file_rules.TABLES.values() for _ in rule_mutants(table))
    order_faults = sum(
        meeting(t, low, high) is not None for t in file_rules.TABLES.values() for low, high, _ in swaps(t)
    )
    fact_faults = sum(1 for fact in EVERY_FACT.values() for _ in fact_mutants(fact.args[0]))
    assert rule_faults >= 350
    assert order_faults >= 600
    assert fact_faults >= 150
