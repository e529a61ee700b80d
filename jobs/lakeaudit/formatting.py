"""How values are put into words: numbers, sizes, times, shares and text that cannot be trusted."""

import math
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from itertools import groupby
from operator import itemgetter
from typing import Any

from lakeaudit.keys import uri_of
from lakeaudit.kinds import NO_LIVE_LOOKS

UNKNOWN = "\u2014"
"""Stands where a source says nothing. It never means zero, and never means fine."""

_BLANK_LETTERS = frozenset("\u115f\u1160\u2800\u3164\uffa0")
"""Printable by their category, and yet drawn as nothing."""


_NAMED = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}


def visible(text: str) -> str:
    r"""The text with every character that cannot be seen, or that moves others, written as `\n` or `\u202e`.

    Object keys may hold any Unicode; a reader must not take one key for another (Unicode TR36, bidirectional spoofing).
    """
    return "".join(part for _, part in pieces(text))


def pieces(text: str) -> Iterator[tuple[bool, str]]:
    """The text in runs: (False, as it is) and (True, spelled out). Spaces at either end are spelled out too."""
    inner = text.strip(" ")
    if inner == text and _plain(text):
        yield False, text
        return
    start = len(text) - len(text.lstrip(" "))
    marks = (not (_plain(char) and start <= at < start + len(inner)) for at, char in enumerate(text))
    for odd, run in groupby(zip(marks, text, strict=True), key=itemgetter(0)):
        yield odd, "".join(_spelled(char) if odd else char for _, char in run)


def _plain(text: str) -> bool:
    return text.isprintable() and _BLANK_LETTERS.isdisjoint(text)


def _spelled(char: str) -> str:
    if char in _NAMED:
        return _NAMED[char]
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def shortened(text: str, most: int = 90) -> str:
    """The text with its middle left out where it is long: both ends of a key say what it is."""
    return text if len(text) <= most else f"{text[: most // 3]}\u2026{text[-(most - most // 3) :]}"


def count(value: int | None) -> str:
    """1,234; a dash where unknown."""
    return UNKNOWN if value is None else f"{value:,}"


def size(value: int | None) -> str:
    """3.2 GiB: three figures, binary units; a dash where unknown."""
    if value is None:
        return UNKNOWN
    power = min(max((abs(value).bit_length() - 1) // 10, 0), 6)
    if power == 0:
        return f"{value} B"
    scaled = value / 1024**power
    return f"{scaled:,.{0 if scaled >= 100 else 1}f} {'KMGTPE'[power - 1]}iB"


def number(value: int | None, noun: str) -> str:
    """1 file, 2 files."""
    return f"{count(value)} {noun}{'' if value == 1 else 's'}"


def exact_size(value: int | None) -> str:
    """Every byte, and the round figure where that differs."""
    if value is None or value < 1024:
        return size(value)
    return f"{value:,} B ({size(value)})"


def moment(value: datetime | None) -> str:
    """2026-11-21 07:36:02Z, with the fraction where there is one."""
    return UNKNOWN if value is None else in_utc(value).replace(tzinfo=None).isoformat(sep=" ") + "Z"


def value(known: object) -> str:
    """A time as a moment, anything else as it is."""
    return moment(known) if isinstance(known, datetime) else str(known)


def second(value: datetime | None) -> str:
    """2026-11-21 07:36:02Z, without the fraction."""
    return moment(None if value is None else value.replace(microsecond=0))


_ISO = re.compile(r"(?<!\S)(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d(?:\.\d+)?)Z(?=[\s,.;:)]|$)")


def times(sentence: str) -> str:
    """A sentence of an audit, its times written as `moment` writes them; not those within a key."""
    return _ISO.sub(r"\1 \2Z", sentence)


def age(then: datetime | None, now: datetime) -> str:
    """How long before `now`: the two largest units of d, h, min and s; a dash where `then` is unknown.

    A time that is later, by another clock or within the same second, is no time ago.
    """
    if then is None:
        return UNKNOWN
    return duration(max(in_utc(now) - in_utc(then), timedelta(0)))


def duration(span: timedelta) -> str:
    """3 d 4 h, 12 min 5 s; a negative span says `-`."""
    seconds = abs(round(span.total_seconds()))
    days, rest = divmod(seconds, 86400)
    hours, rest = divmod(rest, 3600)
    minutes, rest = divmod(rest, 60)
    parts = [(days, "d"), (hours, "h"), (minutes, "min"), (rest, "s")]
    first = next((at for at, (number, _) in enumerate(parts) if number), 3)
    words = " ".join(
        f"{number} {unit}" for number, unit in parts[first : first + 2] if number or seconds == 0
    )
    return f"-{words}" if span < timedelta(0) else words


def rough(span: timedelta) -> str:
    """23 min, 15 h, 3 d 4 h, 16 d: no more than a reader in a hurry takes in."""
    seconds = abs(round(span.total_seconds()))
    days, rest = divmod(seconds, 86400)
    if days:
        return f"{days:,} d" + (f" {rest // 3600} h" if days < ROUGH_DAYS and rest >= 3600 else "")
    size, unit = next(
        ((size, unit) for size, unit in ((3600, "h"), (60, "min")) if seconds >= size), (1, "s")
    )
    return f"{seconds // size} {unit}"


ROUGH_DAYS = 10


def iso(value: object) -> str:
    """Format a time in UTC with Z, or a day, as JSON has it."""
    if isinstance(value, datetime):
        return in_utc(value).isoformat().replace("+00:00", "Z")
    if isinstance(value, date):
        return value.isoformat()
    raise TypeError(f"no JSON form for {type(value).__name__}")


def in_utc(at: datetime) -> datetime:
    """Convert a time to UTC; a time without a zone is in UTC already."""
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)


NO_TABLE = "(no table)"


def table_label(name: str | None) -> str:
    """Return the table's name; a finding about a source has none."""
    return NO_TABLE if name is None else name


def share(value: float) -> str:
    """A share in per cent, rounded down, so that only all of it is 100 %."""
    floored = math.floor(value * 1000 + 1e-9) / 10
    if value > 0 and floored == 0:
        return "under 0.1 %"
    return f"{floored:.0f} %" if floored in {0.0, 100.0} else f"{floored:.1f} %"


_BARE = re.compile(r"[A-Za-z0-9_./:@%+,][A-Za-z0-9_./:@%+=,-]*")


def shell_word(text: str) -> str:
    r"""The text as one word of bash, zsh or ksh, quoted where that is needed.

    What cannot be seen goes in as the octal bytes of `$'...'`.
    """
    if _BARE.fullmatch(text):
        return text
    if _plain(text):
        return "'" + text.replace("'", "'\\''") + "'"
    return "$'" + "".join(map(_ansi_c, text)) + "'"


def _ansi_c(char: str) -> str:
    if char in "\\'":
        return "\\" + char
    if _plain(char):
        return char
    return "".join(f"\\{byte:03o}" for byte in char.encode("utf-8", "surrogatepass"))


def uri(finding: Mapping[str, Any]) -> str | None:
    """Where the finding's file or prefix lies; None for a whole table, a group or a source."""
    return None if finding["key"] is None else uri_of(finding["bucket"] or "", finding["key"])


_TRANSITIONS = {
    "opened": "new",
    "reopened": "back again",
    "escalated": "worse",
    "reclassified": "of another kind",
    "open": "still open",
}


def happened(transition: str, resolution: str | None = None) -> str:
    """What became of a discrepancy, in two or three words."""
    if transition == "resolved" and resolution == "reference_removed":
        return "closed, not restored"
    return _TRANSITIONS.get(transition, transition.replace("_", " "))


PENDING, ACCEPTED = "pending confirmation", "accepted"
"""Discrepancies that one audit found and the next has to confirm, and those that a person has accepted."""

CONFIRMED = {
    "live": "confirmed by a live look",
    "sample": "part of a mass loss, of which a sample was confirmed by a live look",
    "second_cut": "found in two pictures of storage, taken one after the other",
    "not_needed": "needs no live look",
    "limit": "not confirmed: the limit of live looks was reached",
    "denied": "not confirmed: the live look was denied",
    "error": "not confirmed: the live look failed",
    "none": NO_LIVE_LOOKS,
}

OUTCOMES = {
    "finding": "finding",
    "consistent": "consistent",
    "ignored": "ignored",
    "out_of_window": "too young to judge",
    "undecided": "undecided",
    "moved_on": "changed by the table since the evidence",
    "uncovered": "not covered by the inventory",
}

_STEPS = {
    **{status: status for status in ("applied", "undone", "purged")},
    "moved_on": "no longer listed by their table",
    "changed": "changed since the plan was made",
    "unknown": "undecided",
    "needs_person": "for a person: the store has no conditional requests",
    "failed": "refused by the store",
    "started": "started, with no known result",
    "undoing": "with a started undo",
    "waiting": "not started",
    "kept": "kept, see the table `actions`",
}


def steps_in_words(numbers: Mapping[str, int]) -> str:
    """What became of the steps of a plan, by the statuses of `actions`: 3 applied, 1 refused by the store."""
    words = _STEPS | {status: status.replace("_", " ") for status in numbers if status not in _STEPS}
    return ", ".join(
        f"{count(numbers[status])} {told}" for status, told in words.items() if numbers.get(status)
    )


SIDES = ("manifest", "metastore", "storage")
CLAIMS = ("size", "etag", "version_id", "time")
THERE = "there"
_ABSENT = {
    **{kind: {"storage": "no object"} for kind in ("dropped", "dropped_history", "phantom")},
    "hidden": {"metastore": "no entry"},
    "tombstoned": {"metastore": "deleted"},
}
"""By kind what a source said by having none: an answer, and not that nothing was asked."""


def presence(row: Mapping[str, Any]) -> dict[str, str | None]:
    """What each side says of the file being there; None where it says nothing, empty where no kind is about that."""
    absent = _ABSENT.get(row["kind"])
    if absent is None:
        return {}
    claimed = {side: any(row[f"{side}_{what}"] is not None for what in CLAIMS) for side in SIDES}
    return {side: absent.get(side) or (THERE if claimed[side] else None) for side in SIDES}


def cause(row: Mapping[str, Any]) -> str:
    """What caused a finding, by whom and when, of a row of findings or of the ledger; "" where nobody knows."""
    if not row["cause"]:
        return ""
    by = f", by {row['cause_principal']}" if row["cause_principal"] else ""
    at = f", at {second(row['cause_at'])}" if row["cause_at"] else ""
    return f"{row['cause']}{by}{at}"
