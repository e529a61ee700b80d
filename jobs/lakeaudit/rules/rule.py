"""Defines a rule (conditions that are names of facts, and a verdict) and ordered tables of rules."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

CONSISTENT, OUT, UNDECIDED, UNCOVERED, NONE = "consistent", "out_of_window", "undecided", "uncovered", "none"
OUTCOMES = (CONSISTENT, OUT, UNDECIDED, UNCOVERED, NONE)
"""Verdicts without a finding; `none` means that the axis does not judge the row."""


@dataclass(frozen=True)
class Rule:
    """A condition with its verdict; `because` explains the verdict, `severity` overrides the kind's default."""

    id: str
    when: tuple[str, ...]
    verdict: str
    because: str = ""
    severity: str | None = None

    @property
    def axis(self) -> str:
        return self.id.partition(".")[0]

    @property
    def is_finding(self) -> bool:
        return self.verdict not in OUTCOMES


def ordered(
    axis: str, *rows: tuple[str, str, str] | tuple[str, str, str, str], last: str = "unclassified"
) -> tuple[Rule, ...]:
    """Make rules of (id, conditions, verdict or kind:severity, reason); add `unclassified` with the id `last`."""
    made = []
    for row in rows:
        name, when, verdict = row[:3]
        kind, _, severity = verdict.partition(":")
        made.append(
            Rule(
                f"{axis}.{name}", tuple(when.split()), kind, row[3] if len(row) > 3 else "", severity or None
            )
        )
    return (*made, Rule(f"{axis}.{last}", (), "unclassified", "no rule matched this combination of facts"))


def holds(condition: str, facts: Mapping[str, bool]) -> bool:
    """Whether one condition of a rule holds."""
    return not facts[condition[1:]] if condition.startswith("!") else facts[condition]


def judge(rules: Iterable[Rule], facts: Mapping[str, bool]) -> Rule:
    """Return the first rule whose conditions all hold; the plain twin of `classify.first_rule`."""
    return next(rule for rule in rules if all(holds(condition, facts) for condition in rule.when))
