"""Words the last lines of an audit: its changes of the ledger, and the next commands."""

from collections.abc import Iterable, Mapping
from typing import Any

from lakeaudit import formatting
from lakeaudit.advice import next_steps
from lakeaudit.advice.command_lines import operand
from lakeaudit.report import broken, summary
from lakeaudit.report.page_data import PageData
from lakeaudit.results import recovery

Row = Mapping[str, Any]


def closing(page: PageData) -> str:
    """Return the changes of the run and the unchanged rest, as in `2 new, 1 resolved (restored), 7 still open`."""
    changes = page.history.changes if page.history else ()
    of: dict[str, int] = {}
    for row in changes:
        of[row["transition"]] = of.get(row["transition"], 0) + row["number"]
    rest = {name: _number(page.standing, name) for name in ("open", "accepted", "pending")}
    rest["open"] -= sum(of.get(name, 0) for name in ("opened", "reopened"))
    parts = [f"{formatting.count(of[name])} {formatting.happened(name)}" for name in _CHANGED if of.get(name)]
    parts += [f"{formatting.count(of['resolved'])} resolved ({_ends(changes)})"] if of.get("resolved") else []
    parts += [
        f"{formatting.count(max(rest[name], 0))} {words}" for name, words in _REST.items() if rest[name] > 0
    ]
    return ", ".join(parts) or "nothing new, nothing open"


def pressing(page: PageData) -> str:
    """Return a text like `Open now: 5 critical, 9 error. 2 lost or changed files cannot be restored`.

    It is empty if nothing above info is open.
    """
    rows = broken.pressing(page.standing)
    serious = [row for row in rows if row["severity"] in summary.AT_STAKE]
    lines = [line for line in summary.by_severity(rows) if line.stake.findings]
    counts = ", ".join(f"{formatting.count(line.stake.findings)} {line.name}" for line in lines if serious)
    recoverable = _recoverable(recovery.Recovery.of_sums(serious))
    return " ".join(filter(None, (f"Open now: {counts}.", recoverable))) if counts else ""


def _recoverable(known: recovery.Recovery) -> str:
    """Return how many lost or changed files can be restored and until when; empty if no file was lost."""
    if not known.losses:
        return ""
    statements = filter(None, (recovery.counted_losses(known), recovery.expiry(known)))
    return " ".join(f"{statement[:1].upper()}{statement[1:]}." for statement in statements)


_CHANGED = ("opened", "reopened", "escalated", "reclassified")
_REST = {"open": "still open", "pending": formatting.PENDING, "accepted": formatting.ACCEPTED}


def _number(standing: Iterable[Row], name: str) -> int:
    return sum(row["findings"] for row in standing if row["standing"] == name)


def _ends(changes: Iterable[Row]) -> str:
    """Return how discrepancies were resolved: `restored`, or `2 restored, 1 closed, not restored`."""
    ends: dict[str, int] = {}
    for row in changes:
        if row["transition"] == "resolved":
            how = next_steps.resolution_text(row)
            ends[how] = ends.get(how, 0) + row["number"]
    return (
        next(iter(ends))
        if len(ends) == 1
        else ", ".join(f"{formatting.count(n)} {how}" for how, n in ends.items())
    )


def next_commands(page: PageData) -> list[str]:
    """Return the next two commands, with the lake file as the user typed it."""
    lake = operand(page.lake)
    commands = [f"lakeaudit doctor {lake}"] if page.run["status"] == "failed" else []
    commands += [next_steps.learn_more(page.lake, page.run["run_id"], row) for row in page.findings[:1]]
    if any(row["standing"] == "open" for row in page.standing):
        commands.append(f"lakeaudit discrepancies {lake}")
    return [*commands, f"lakeaudit report {lake}", f"lakeaudit dashboard {lake}"][:2]


def purposes(commands: Iterable[str]) -> str:
    """Return what these commands of `next_commands` do, as in `explain the worst finding, list open discrepancies`."""
    return ", ".join(_PURPOSES[command.split()[1]] for command in commands)


_PURPOSES = {
    "doctor": "check what prevents an audit",
    "explain": "explain the worst finding",
    "findings": "list the findings of the worst kind",
    "discrepancies": "list all open discrepancies",
    "report": "write the report page",
    "dashboard": "show the results as web pages",
}
