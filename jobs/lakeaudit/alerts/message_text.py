"""Words: a notice as a person reads it who reads nothing else."""

from collections.abc import Iterator, Sequence
from datetime import datetime

from lakeaudit.alerts.decide import FAILED, MASS_LOSS, OVERDUE, RECOVERED, STILL_OPEN, SUSPECT, Notice
from lakeaudit.formatting import count, happened, second, shell_word, size, visible
from lakeaudit.kinds import KINDS
from lakeaudit.results.change_summary import Change

MOST_SECTIONS = 12
"""Tables told in one message; the rest is a number."""

_OF_AUDIT = {
    SUSPECT: "evidence is suspect: nothing that rests on it is believed, and nothing was opened or resolved by it",
    FAILED: "the audit failed",
    OVERDUE: "no audit was published for too long",
    RECOVERED: "audits work again",
}
_ENDS = {
    "restored": "resolved: as it should be again",
    "reference_removed": "closed, NOT restored: the table does not list it any more; given up: {}",
    "metastore_mended": "resolved: the metadata store agrees again",
    "accepted": "closed: the lake file says to ignore it",
    "retired": "closed: it is not followed on its own any more",
}
_GIVEN_UP = "reference_removed"

_SIGNS = str.maketrans({"<": "\u2039", "@": "\uff20"})
"""Chats make mentions and links of what stands after these: a key must not call everybody."""


def headline(notice: Notice) -> str:
    """What and where, in a line."""
    if notice.kind in _OF_AUDIT:
        return _OF_AUDIT[notice.kind]
    where = f" in {_tame(notice.table)}" if notice.table else ""
    if not notice.bad:
        given_up = any(change.resolution == _GIVEN_UP for change in notice.changes)
        end = "CLOSED, NOT RESTORED" if given_up else "RESOLVED"
        return f"{end}: {_number(notice.changes)}{where}{'' if notice.over else '; more is open'}"
    first = {MASS_LOSS: "MASS LOSS: ", STILL_OPEN: "STILL OPEN: "}.get(notice.kind, "")
    return f"{first}{notice.severity.upper()}: {_number(notice.bad)}{where}"


def _number(changes: Sequence[Change]) -> str:
    kinds: dict[str, int] = {}
    for change in changes:
        kinds[change.kind] = kinds.get(change.kind, 0) + change.number
    return ", ".join(f"{count(number)} {kind.replace('_', ' ')}" for kind, number in kinds.items())


def text(notice: Notice, lake_file: str, run_id: str, *, redact: bool) -> str:
    """The headline, and below it each change with all that is needed to act."""
    lines = [headline(notice)]
    if notice.words:
        lines.append(f"  {_tame(notice.words)}")
    for change in notice.changes:
        lines += [f"  {line}" for line in _change(change, lake_file, run_id, redact=redact)]
    return "\n".join(lines)


def _change(change: Change, lake_file: str, run_id: str, *, redact: bool) -> Iterator[str]:
    kind, number = change.kind.replace("_", " "), count(change.number)
    if change.transition == "resolved":
        yield f"{number} {kind} {_ENDS.get(change.resolution or '', 'resolved').format(_stake(change))}"
        yield from _where(change, redact=redact)
        yield f"known since {_time(change.since)}"
        return
    means = KINDS[change.kind].words if change.kind in KINDS else "of a kind that this version does not know"
    yield f"{number} {kind} ({change.severity}), {happened(change.transition)}: {means}"
    yield f"at stake: {_stake(change)}"
    yield from _where(change, redact=redact)
    yield f"since {_time(change.since)}; {f'cause: {change.cause}' if change.cause else 'cause not known'}"
    if change.recoverable:
        yield _comeback(change)
    yield f"more: {_command(change, lake_file, run_id, redact=redact)}"


def _where(change: Change, *, redact: bool) -> Iterator[str]:
    if change.partitions and not redact:
        more = f" and {count(change.more_partitions)} more" if change.more_partitions else ""
        yield f"in {', '.join(map(_tame, change.partitions))}{more}"


def _stake(change: Change) -> str:
    parts = [(change.files, "file"), (change.rows, "row")]
    known = [f"{count(number)} {what}{'' if number == 1 else 's'}" for number, what in parts if number]
    if change.bytes:
        known.append(size(change.bytes))
    return ", ".join(known) or "not known"


def _comeback(change: Change) -> str:
    said = {"yes": "{} can come back", "no": "{} cannot", "unknown": "of {} it is not known"}
    parts = [
        words.format(count(change.recoverable[a])) for a, words in said.items() if change.recoverable.get(a)
    ]
    if change.recoverable.get("yes"):
        parts.append(f"the soonest only until {second(change.until)}" if change.until else "no end is known")
    return "; ".join(parts)


def _command(change: Change, lake_file: str, run_id: str, *, redact: bool) -> str:
    lake = shell_word(lake_file)
    if change.example and not redact and _tame(change.example) == change.example:
        return f"lakeaudit explain {lake} {shell_word(change.example)}"
    plain = change.table and _tame(change.table) == change.table
    table = f" --table {shell_word(change.table)}" if change.table and plain else ""
    return f"lakeaudit findings {lake} --run-id {shell_word(run_id)} --kind {change.kind}{table}"


def _tame(text: str) -> str:
    return visible(text).translate(_SIGNS)


def _time(at: datetime | None) -> str:
    return second(at) if at else "an unknown time"


def title(lake: str, headlines: Sequence[str]) -> str:
    """The first line of a message with these sections, the worst first."""
    more = f" (and {count(len(headlines) - 1)} more)" if len(headlines) > 1 else ""
    return f"lakeaudit {lake}: {headlines[0]}{more}"


def late(section: str) -> str:
    """A section that has been overtaken by a newer one in the same message."""
    return f"Earlier, and not delivered until now: {section}"


def body(sections: Sequence[str]) -> str:
    """The sections of a message, capped."""
    left = len(sections) - MOST_SECTIONS
    rest = [f"... and {count(left)} more: see the report"] if left > 0 else []
    return "\n\n".join([*sections[:MOST_SECTIONS], *rest])
