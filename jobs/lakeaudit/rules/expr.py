"""Defines a small language for facts with two evaluators: plain Python values and DuckDB SQL.

Nulls behave as in SQL on both sides: a comparison with null is null, AND and OR are three-valued. A test walks every
fact and rule on both evaluators and demands agreement.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from lakeaudit.runtime import duck

if TYPE_CHECKING:
    from datetime import timedelta

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Expr:
    """A column (`op` "col"), a literal ("lit") or an operation on other expressions."""

    op: str
    args: tuple[Any, ...]

    @cached_property
    def sql(self) -> str:
        """Cached, because most expressions are constants that many statements contain."""
        return _to_sql(self)

    @cached_property
    def of_row(self) -> Callable[[Row], Any]:
        """Return the expression as a function of one plain row."""
        return _function(self)

    def __getstate__(self) -> dict[str, Any]:
        """Drop the cached function, which cannot be pickled."""
        return {"op": self.op, "args": self.args}

    def __and__(self, other: "Expr") -> "Expr":
        return Expr("and", (self, other))

    def __or__(self, other: "Expr") -> "Expr":
        return Expr("or", (self, other))

    def __invert__(self) -> "Expr":
        return Expr("not", (self,))

    def __add__(self, other: "Expr | timedelta") -> "Expr":
        return Expr("add", (self, _expr(other)))

    def __sub__(self, other: "Expr | timedelta") -> "Expr":
        return Expr("sub", (self, _expr(other)))

    def __le__(self, other: Any) -> "Expr":
        return Expr("le", (self, _expr(other)))

    def __gt__(self, other: Any) -> "Expr":
        return Expr("gt", (self, _expr(other)))

    def is_(self, other: Any) -> "Expr":
        return Expr("eq", (self, _expr(other)))

    def differs(self, other: Any) -> "Expr":
        return Expr("ne", (self, _expr(other)))

    def among(self, *values: str) -> "Expr":
        return Expr("in", (self, *(lit(value) for value in values)))

    def matches(self, pattern: str) -> "Expr":
        """Search the text for a regular expression that Python and RE2 both know, see `duck.pattern`."""
        return Expr("matches", (self, lit(pattern)))

    def is_known(self) -> "Expr":
        return Expr("known", (self,))

    def sure(self) -> "Expr":
        """Turn null into false, so that the result is never null."""
        return Expr("coalesce", (self, lit(False)))


def col(name: str) -> Expr:
    """Return a column of the row."""
    return Expr("col", (name,))


def lit(value: Any) -> Expr:
    """Return a constant."""
    return Expr("lit", (value,))


def latest(*parts: Expr) -> Expr:
    """Return the greatest part that is not null."""
    return Expr("greatest", parts)


def earliest(*parts: Expr) -> Expr:
    """Return the least part that is not null."""
    return Expr("least", parts)


def first_known(*parts: Any) -> Expr:
    """Return the first part that is not null."""
    return Expr("coalesce", tuple(_expr(part) for part in parts))


def algorithm(checksum: Expr) -> Expr:
    """Return the algorithm of a checksum: `md5` for `md5:0cc1...`."""
    return Expr("algorithm", (checksum,))


def concat(*parts: Any) -> Expr:
    """Join texts; the result is null if a part is null."""
    return Expr("concat", tuple(_expr(part) for part in parts))


def _expr(value: Any) -> Expr:
    return value if isinstance(value, Expr) else lit(value)


def columns_of(expr: Expr) -> set[str]:
    """Return the names of the columns that an expression reads."""
    if expr.op == "col":
        return {expr.args[0]}
    return set().union(*(columns_of(arg) for arg in expr.args if isinstance(arg, Expr)))


def evaluate(expr: Expr, row: Row) -> Any:
    """Evaluate the expression for one plain row."""
    return expr.of_row(row)


def duck_sql(expr: Expr) -> str:
    """Return the expression as DuckDB SQL."""
    return expr.sql


def _to_sql(expr: Expr) -> str:
    if expr.op == "col":
        return duck.quoted(expr.args[0])
    if expr.op == "lit":
        return duck.literal(expr.args[0])
    if expr.op == "matches":
        text, regex = expr.args
        return f"regexp_matches({duck_sql(text)}, {duck.pattern(regex.args[0])})"
    return _SQL[expr.op](*(duck_sql(arg) for arg in expr.args))


def _function(expr: Expr) -> Callable[[Row], Any]:
    if expr.op == "col":
        return itemgetter(expr.args[0])
    if expr.op == "lit":
        value = expr.args[0]
        return lambda _: value
    parts = [arg.of_row for arg in expr.args]
    if expr.op in _DECIDED_BY:
        return _first_decides(_DECIDED_BY[expr.op], *parts)
    operation = _PYTHON[expr.op]
    return lambda row: operation(*[part(row) for part in parts])


def _first_decides(
    decision: bool, left: Callable[[Row], Any], right: Callable[[Row], Any]
) -> Callable[[Row], Any]:
    """Evaluate AND or OR with three values: a side equal to `decision` decides, else both sides must be known."""

    def either(row: Row) -> bool | None:
        first: bool | None = left(row)
        if first is decision:
            return decision
        second: bool | None = right(row)
        if second is decision:
            return decision
        return None if first is None or second is None else not decision

    return either


_DECIDED_BY = {"and": False, "or": True}


def _null_if_any_null(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *values: None if None in values else function(*values)


def _of_known(choose: Callable[..., Any]) -> Callable[..., Any]:
    def choose_known(*values: Any) -> Any:
        known = [value for value in values if value is not None]
        return choose(known) if known else None

    return choose_known


_PYTHON: dict[str, Callable[..., Any]] = {
    "not": _null_if_any_null(lambda value: not value),
    "add": _null_if_any_null(lambda left, right: left + right),
    "sub": _null_if_any_null(lambda left, right: left - right),
    "le": _null_if_any_null(lambda left, right: left <= right),
    "gt": _null_if_any_null(lambda left, right: left > right),
    "eq": _null_if_any_null(lambda left, right: left == right),
    "ne": _null_if_any_null(lambda left, right: left != right),
    "in": _null_if_any_null(lambda value, *allowed: value in allowed),
    "matches": _null_if_any_null(lambda text, pattern: re.search(pattern, text) is not None),
    "known": lambda value: value is not None,
    "coalesce": lambda *values: next((value for value in values if value is not None), None),
    "greatest": _of_known(max),
    "least": _of_known(min),
    "algorithm": _null_if_any_null(lambda text: text.partition(":")[0]),
    "concat": _null_if_any_null(lambda *parts: "".join(parts)),
}

_SQL: dict[str, Callable[..., str]] = {
    "and": "({} AND {})".format,
    "or": "({} OR {})".format,
    "not": "(NOT {})".format,
    "add": "({} + {})".format,
    "sub": "({} - {})".format,
    "le": "({} <= {})".format,
    "gt": "({} > {})".format,
    "eq": "({} = {})".format,
    "ne": "({} <> {})".format,
    "in": lambda value, *allowed: f"({value} IN ({', '.join(allowed)}))",
    "known": "({} IS NOT NULL)".format,
    "coalesce": lambda *parts: f"coalesce({', '.join(parts)})",
    "greatest": lambda *parts: f"greatest({', '.join(parts)})" if len(parts) > 1 else parts[0],
    "least": lambda *parts: f"least({', '.join(parts)})" if len(parts) > 1 else parts[0],
    # DuckDB 2.0 fails if split_part of a column that is always null is compared with a constant
    "algorithm": "string_split({}, ':')[1]".format,
    "concat": lambda *parts: f"({' || '.join(parts)})",
}
