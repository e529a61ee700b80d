"""Faults put into rule tables and facts on purpose: each must change the verdict of at least one scenario."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from lakeaudit.rules.expr import Expr, lit
from lakeaudit.rules.file_rules import Rule
from lakeaudit.rules.lineage_rules import LINEAGE_FACTS

Table = tuple[Rule, ...]


def negated(condition: str) -> str:
    return condition.removeprefix("!") if condition.startswith("!") else f"!{condition}"


def rule_mutants(table: Table) -> Iterator[tuple[str, Table]]:
    """Each rule but the last (`unclassified`) left out; each condition left out, and turned round."""
    for at, rule in enumerate(table[:-1]):
        yield f"without {rule.id}", table[:at] + table[at + 1 :]
        for n, condition in enumerate(rule.when):
            rest = (*rule.when[:n], *rule.when[n + 1 :])
            turned = (*rule.when[:n], negated(condition), *rule.when[n + 1 :])
            yield f"{rule.id} without {condition}", _with(table, at, replace(rule, when=rest))
            yield f"{rule.id} with {negated(condition)}", _with(table, at, replace(rule, when=turned))


def swaps(table: Table) -> Iterator[tuple[int, int, Table]]:
    """The table with two rules of different verdicts in each other's place, for every such pair."""
    for low in range(len(table) - 1):
        for high in range(low + 1, len(table) - 1):
            if outcome(table[low]) != outcome(table[high]):
                yield low, high, _with(_with(table, low, table[high]), high, table[low])


def outcome(rule: Rule) -> tuple[str, str | None]:
    return rule.verdict, rule.severity


def _with(table: Table, at: int, rule: Rule) -> Table:
    return (*table[:at], rule, *table[at + 1 :])


# --- what can be together --------------------------------------------------------------------------------------------

EXCLUSIVE: tuple[frozenset[str], ...] = (
    frozenset({"live", "history"}),  # one state of one claim
    frozenset({"present", "absent", "!covered"}),  # one word for presence
    frozenset({"is_log", "is_statistics"}),  # one category of a file
    frozenset({"tombstone", "file_entry", "opaque_entry", "no_entry"}),  # one kind of entry
    frozenset({"parent_tombstone", "parent_file"}),  # one parent
    frozenset({"write_replaced", "write_partly_replaced"}),  # one word for what became of it
    frozenset({"commit_differs", "commit_unfinished"}),  # the log has it, or lacks it
    frozenset(name for name in LINEAGE_FACTS if name.startswith("claims_")),  # one claim of one witness
)
IMPLIED: tuple[tuple[str, str], ...] = (
    # a claim with a state was listed
    ("commit_unfinished", "commit_entered"), ("commit_differs", "commit_entered"),  # by its entry it is known
    ("live", "ever_listed"), ("history", "ever_listed"), ("listed_twice", "ever_listed"),
    ("unclaimed", "!live"), ("unclaimed", "!history"), ("unclaimed", "!ever_listed"),  # nobody claims it
    ("conflict", "live"),  # conflicts are between live claims
    ("live", "needed"), ("history", "promised"),
    ("removed", "removed_or_history"), ("promised", "removed_or_history"),
    ("read_as_data", "data_or_deletes"), ("by_index", "!read_as_data"),  # one word for what readers go by
    *((name, "!read_as_data") for name in ("temporary_name", "marker_name", "live_log_name")),
    ("named_entry", "file_entry"),
    ("expired", "!no_entry"),  # only an entry expires
    ("entry_differs", "!no_entry"),  # only an entry differs
    *((fact, "present") for fact in (  # only a present object has a size, a content and a class
        "size_differs", "content_differs", "archived")),
    ("parent_tombstone", "parent_found"), ("parent_file", "parent_found"), ("parent_found", "has_parent"),
    ("!parent_in_window", "parent_found"),
    ("object_there", "is_folder"), ("children_missing", "is_folder"),
    ("source_lists", "source_knows"), ("log_proves", "log_doubts"), ("both_live", "batches_read"),
)  # fmt: skip
"""Combinations that the columns exclude; all others may occur. Checked against random rows in test_expr."""


_IMPLIED = (
    *IMPLIED,
    *((negated(other), negated(one)) for one, other in IMPLIED),
    *((one, negated(other)) for group in EXCLUSIVE for one in group for other in group - {one}),
)


_FOLLOWING: dict[str, list[str]] = defaultdict(list)
for _one, _other in _IMPLIED:
    _FOLLOWING[_one].append(_other)


def closed(facts: dict[str, bool]) -> dict[str, bool] | None:
    """The facts with all that follows from them; None where they cannot hold together."""
    known = dict(facts)
    unread = [name if holds else f"!{name}" for name, holds in facts.items()]
    while unread:
        for condition in _FOLLOWING.get(unread.pop(), ()):
            holds = _holds(condition, known)
            if holds is False:
                return None
            if holds is None:
                known[condition.removeprefix("!")] = not condition.startswith("!")
                unread.append(condition)
    return known


def _holds(condition: str, facts: dict[str, bool]) -> bool | None:
    name = condition.removeprefix("!")
    if name not in facts:
        return None
    return facts[name] != condition.startswith("!")


def meeting(table: Table, low: int, high: int) -> dict[str, bool] | None:
    """Facts under which `low` is the first rule to match and `high` would match as well; None where there are none."""
    start: dict[str, bool] = {}
    for condition in (*table[low].when, *table[high].when):
        if _holds(condition, start) is False:
            return None
        start[condition.removeprefix("!")] = not condition.startswith("!")
    return _without(start, [rule.when for rule in table[:low]])


def _without(facts: dict[str, bool], others: Sequence[tuple[str, ...]]) -> dict[str, bool] | None:
    """The facts, completed so that none of the other rules matches."""
    known = closed(facts)
    if known is None:
        return None
    open_ = [when for when in others if all(_holds(c, known) is not False for c in when)]
    if not open_:
        return known
    for condition in open_[0]:
        if _holds(condition, known) is None:
            broken = known | {condition.removeprefix("!"): condition.startswith("!")}
            found = _without(broken, open_[1:])
            if found is not None:
                return found
    return None


# --- facts -----------------------------------------------------------------------------------------------------------


def fact_mutants(expr: Expr) -> Iterator[tuple[str, Expr]]:
    """The expression with one fault in one node: boundaries, summands, and/or, negations, choices."""
    for what, mutant in _faults(expr):
        yield what, mutant
    for n, part in enumerate(expr.args):
        if isinstance(part, Expr):
            for what, mutant in fact_mutants(part):
                yield what, Expr(expr.op, (*expr.args[:n], mutant, *expr.args[n + 1 :]))


BOOLEAN = frozenset({"and", "or", "le", "gt", "eq", "ne", "in", "matches", "known"})


def _faults(expr: Expr) -> Iterator[tuple[str, Expr]]:
    if expr.op in BOOLEAN:
        yield f"not {show(expr)}", ~expr
    if expr.op == "not":
        yield f"without not: {show(expr)}", expr.args[0]
    yield from _OF[expr.op](expr) if expr.op in _OF else ()


def _boundary(expr: Expr) -> Iterator[tuple[str, Expr]]:
    left, right = expr.args
    if expr.op == "le":
        yield f"< in {show(expr)}", ~(right <= left)
    else:
        yield f">= in {show(expr)}", right <= left


def _summand(expr: Expr) -> Iterator[tuple[str, Expr]]:
    yield f"without {show(expr.args[1])} in {show(expr)}", expr.args[0]


def _junction(expr: Expr) -> Iterator[tuple[str, Expr]]:
    other = "or" if expr.op == "and" else "and"
    yield f"{other} in {show(expr)}", Expr(other, expr.args)


def _choice(expr: Expr) -> Iterator[tuple[str, Expr]]:
    """A choice with one of its parts left out, or that chooses the other way."""
    for n, part in enumerate(expr.args):
        rest = (*expr.args[:n], *expr.args[n + 1 :])
        if rest and not (expr.op == "in" and n == 0):
            yield f"without {show(part)} in {show(expr)}", Expr(expr.op, rest)
    if expr.op in ("greatest", "least"):
        yield (
            f"the other way in {show(expr)}",
            Expr("least" if expr.op == "greatest" else "greatest", expr.args),
        )


def _literal(expr: Expr) -> Iterator[tuple[str, Expr]]:
    if isinstance(expr.args[0], bool):
        yield f"not {show(expr)}", lit(not expr.args[0])


_OF: dict[str, Any] = {
    "le": _boundary, "gt": _boundary, "add": _summand, "sub": _summand, "and": _junction, "or": _junction,
    "greatest": _choice, "least": _choice, "in": _choice, "lit": _literal,
}  # fmt: skip


def show(expr: Expr) -> str:
    """The expression for people."""
    if expr.op in ("col", "lit"):
        return str(expr.args[0])
    return f"{expr.op}({', '.join(show(arg) if isinstance(arg, Expr) else str(arg) for arg in expr.args)})"
