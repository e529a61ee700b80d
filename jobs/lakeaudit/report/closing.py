"""The last words of an audit: what it changed in the ledger, and what to type next."""

from collections.abc import Iterable, Mapping
from typing import Any

from lakeaudit import formatting, next_steps
from lakeaudit.command_lines import operand
from lakeaudit.report import broken, summary
from lakeaudit.report.page_data import PageData
from lakeaudit.results import recovery

Row = Mapping[str, Any]


def closing(page: PageData) -> str:
    """2 new, 1 resolved (restored), 7 still open: what the run changed, and what stays as it was."""
    changes = page.history.changes if page.history else ()
    of: dict[str, int] = {}
    for row in changes:
        of[row["transition"]] = of.get(row["transition"], 0) + row["number"]
    held = {name: _number(page.standing, name) for name in ("open", "accepted", "pending")}
    held["open"] -= sum(of.get(name, 0) for name in ("opened", "reopened"))
    told = [f"{formatting.count(of[name])} {formatting.happened(name)}" for name in _CHANGED if of.get(name)]
    told += [f"{formatting.count(of['resolved'])} resolved ({_ends(changes)})"] if of.get("resolved") else []
    told += [
        f"{formatting.count(max(held[name], 0))} {words}" for name, words in _HELD.items() if held[name] > 0
    ]
    return ", ".join(told) or "nothing new, nothing open"


def pressing(page: PageData) -> str:
    """Open now: 5 critical, 2 error; recoverable: 9 of 13, until ... Empty where nothing above info is open."""
    held = [row for row in broken.pressing(page.standing) if row["severity"] in summary.AT_STAKE]
    lines = [line for line in summary.by_severity(held) if line.stake.findings]
    told = ", ".join(f"{formatting.count(line.stake.findings)} {line.name}" for line in lines)
    recovered = recovery.losses(recovery.Recovery.of_sums(held))
    return "; ".join(filter(None, (f"open now: {told}", recovered))) if told else ""


_CHANGED = ("opened", "reopened", "escalated", "reclassified")
_HELD = {"open": "still open", "pending": formatting.PENDING, "accepted": formatting.ACCEPTED}


def _number(standing: Iterable[Row], name: str) -> int:
    return sum(row["findings"] for row in standing if row["standing"] == name)


def _ends(changes: Iterable[Row]) -> str:
    """How what was resolved ended: restored, or 2 restored, 1 closed and not restored."""
    ends: dict[str, int] = {}
    for row in changes:
        if row["transition"] == "resolved":
            how = next_steps.ended(row)
            ends[how] = ends.get(how, 0) + row["number"]
    return (
        next(iter(ends))
        if len(ends) == 1
        else ", ".join(f"{formatting.count(n)} {how}" for how, n in ends.items())
    )


def next_commands(page: PageData) -> list[str]:
    """The two commands that lead on from here, with the lake file as it was typed."""
    lake = operand(page.lake)
    told = [f"lakeaudit doctor {lake}"] if page.run["status"] == "failed" else []
    told += [next_steps.learn_more(page.lake, page.run["run_id"], row) for row in page.findings[:1]]
    if any(row["standing"] == "open" for row in page.standing):
        told.append(f"lakeaudit discrepancies {lake}")
    return [*told, f"lakeaudit report {lake}", f"lakeaudit dashboard {lake}"][:2]
