"""Computes the version of the rules: a digest of everything in the rule tables that decides about a verdict."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from lakeaudit.certificate.content import digest_of
from lakeaudit.kinds import KINDS
from lakeaudit.rules.expr import Expr
from lakeaudit.rules.file_facts import TIME_RULE
from lakeaudit.rules.file_rules import FACTS_OF, OTHER, TABLES
from lakeaudit.rules.rule import Rule


def rules_version() -> str:
    """Return the digest of all rules in their order, of their facts, and of the severities of the kinds.

    Explanations do not count: they change no verdict.
    """
    stated = {
        "rules": {name: _rules(rules) for name, rules in TABLES.items()} | {"other": _rules(OTHER)},
        "facts": {
            table: {name: _plain(fact) for name, fact in facts.items()} for table, facts in FACTS_OF.items()
        },
        "times": {name: _plain(fact) for name, fact in TIME_RULE.items()},
        "kinds": {name: [kind.axis, kind.severity] for name, kind in KINDS.items()},
    }
    return digest_of(stated)


def _rules(rules: Iterable[Rule]) -> list[Any]:
    return [[rule.id, rule.when, rule.verdict, rule.severity] for rule in rules]


def _plain(value: Any) -> Any:
    """Return an expression as lists and plain values.

    Raises:
        TypeError: a literal has a type that JSON does not know.
    """
    if isinstance(value, Expr):
        return [value.op, *map(_plain, value.args)]
    if isinstance(value, timedelta):
        return {"seconds": value.total_seconds()}
    if value is None or isinstance(value, str | int | float):
        return value
    raise TypeError(f"a rule compares with a {type(value).__name__}")
