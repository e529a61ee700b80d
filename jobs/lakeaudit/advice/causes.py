"""Words the causes of a group of discrepancies, and the question to answer before files are restored. Pure."""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from lakeaudit.advice.next_steps import EXPIRED
from lakeaudit.formatting import count, number, visible

MOST = 3
"""Number of causes, and of names in a question; the others are counted."""
_BY = ", by "
_NAME = re.compile(r"arn:[^:]*:(?:iam|sts)::\d*:(?:role|user|federated-user)/(?:.*/)?([^/]+)$")
_ROLE = re.compile(r"arn:[^:]*:sts::\d*:assumed-role/([^/]+)/")
_REPLACED = frozenset({"size_mismatch", "content_mismatch"})

ByCause = Mapping[str, int]
"""Known causes, each with its principal after `, by `, and the number of discrepancies that have it."""


def added(groups: Iterable[ByCause]) -> dict[str, int]:
    """Return the causes of several groups together, the most common first."""
    sums: Counter[str] = Counter()
    for each in groups:
        sums.update(each)
    return {cause: sums[cause] for cause in sorted(sums, key=lambda cause: (-sums[cause], cause))}


def cause_of(cause: str, principal: str | None) -> str:
    """Return a cause with its principal."""
    return f"{cause}{_BY}{principal}" if principal else cause


def counted_causes(rows: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Return the known causes of rows with cause, cause_principal and the number of their discrepancies."""
    return added(
        {cause_of(row["cause"], row["cause_principal"]): row["number"]} for row in rows if row["cause"]
    )


def causes_of_all(by_cause: ByCause, total: int) -> tuple[str, ...]:
    """Return the causes, if every discrepancy has a known one; see `next_steps.may_be_meant`."""
    return tuple(by_cause) if sum(by_cause.values()) >= total else ()


def causes_in_words(by_cause: ByCause, total: int) -> str:
    """Return the cause that all have, or how many have which: `4 of 7: deleted, by etl; 3 of 7: not known`.

    It is empty if no cause is known. A cause is never stated for discrepancies that do not have it.
    """
    causes = list(added([by_cause]).items())
    if not causes:
        return ""
    if len(causes) == 1 and causes[0][1] >= total:
        return causes[0][0]
    others, known = causes[MOST:], sum(many for _, many in causes)
    parts = [(many, cause) for cause, many in causes[:MOST]]
    parts += [(sum(many for _, many in others), number(len(others), "other cause"))] if others else []
    parts += [(total - known, "not known")] if known < total else []
    return "; ".join(f"{count(many)} of {count(total)}: {words}" for many, words in parts)


def purpose_question(kinds: Collection[str], by_cause: ByCause, total: int) -> str:
    """Return the question to answer before files are restored: `Did nightly-etl remove them on purpose?`.

    Args:
        kinds: kinds of the lost or changed files.
        by_cause: their known causes; files that a lifecycle rule expired do not count.
        total: number of the files.
    """
    asked = {cause: many for cause, many in by_cause.items() if not cause.startswith(EXPIRED)}
    left = total - sum(many for cause, many in by_cause.items() if cause not in asked)
    names = list(dict.fromkeys(name for cause in added([asked]) if (name := _name(cause))))
    named = sum(many for cause, many in asked.items() if _name(cause))
    more = len(names) - MOST
    who = [*names[:MOST], *([number(more, "other principal")] if more > 0 else [])]
    who += ["somebody else" if who else "somebody"] if named < left or not who else []
    them = "it" if left == 1 else "them"
    return f"Did {_or(who)} {_verb(kinds)} {them} on purpose?"


def _verb(kinds: Collection[str]) -> str:
    replaced, removed = _REPLACED.intersection(kinds), {*kinds} - _REPLACED
    return " or ".join([*(["remove"] if removed else []), *(["replace"] if replaced else [])]) or "remove"


def _or(names: list[str]) -> str:
    return " or ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _name(cause: str) -> str:
    """Return the short name of the principal of a cause: the role or the user of an ARN; empty: none is known."""
    principal = cause.rpartition(_BY)[2] if _BY in cause else ""
    found = _ROLE.match(principal) or _NAME.match(principal)
    return visible(found[1] if found else principal)
