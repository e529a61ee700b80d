"""Format numbers, sizes, times, shares and untrusted text for people."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from itertools import groupby
from operator import itemgetter
from typing import Any

from lakeaudit.keys import uri_of
from lakeaudit.kinds import COVERAGE_LOST, DELETED_IN_STORE, NO_LIVE_LOOKS

UNKNOWN = "\u2014"
"""Placeholder for an unknown value; it never means zero, and never means that all is well."""

_BLANK_LETTERS = frozenset("\u115f\u1160\u2800\u3164\uffa0")
"""Characters that are printable by category, but invisible."""


_NAMED = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}


def visible(text: str) -> str:
    r"""Return the text with every character that is invisible, or moves others, escaped as `\n` or `\u202e`.

    Object keys may contain any Unicode; a reader must not mistake one key for another (Unicode TR36, bidirectional
    spoofing).
    """
    return "".join(part for _, part in pieces(text))


def pieces(text: str) -> Iterator[tuple[bool, str]]:
    """Yield the text in runs: (False, unchanged) and (True, escaped). Spaces at either end are escaped too."""
    inner = text.strip(" ")
    if inner == text and _plain(text):
        yield False, text
        return
    start = len(text) - len(text.lstrip(" "))
    marks = (not (_plain(char) and start <= at < start + len(inner)) for at, char in enumerate(text))
    for odd, run in groupby(zip(marks, text, strict=True), key=itemgetter(0)):
        yield odd, "".join(_spelled(char) if odd else char for _, char in run)


def without_signatures(text: str) -> str:
    """Return the text without passwords in addresses, and without queries of addresses that sign a request."""
    for pattern, instead in _SIGNED:
        text = pattern.sub(instead, text)
    return text


_SIGNED = (
    (re.compile(r"(://[^/?#\s@:]*):[^/?#\s@]*@"), r"\1:...@"),
    (re.compile(r"(?i)(https?://[^\s?]+)\?\S+"), r"\1?..."),
    (re.compile(r"(?i)\?(?=\S*(?:x-(?:amz|goog)-|signature=|sig=|accesskeyid=|token=))\S+"), "?..."),
)


def _plain(text: str) -> bool:
    return text.isprintable() and _BLANK_LETTERS.isdisjoint(text)


def _spelled(char: str) -> str:
    if char in _NAMED:
        return _NAMED[char]
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def shortened(text: str, most: int = 90) -> str:
    """Return a long text without its middle: both ends of a key identify it."""
    return text if len(text) <= most else f"{text[: most // 3]}\u2026{text[-(most - most // 3) :]}"


def count(value: int | None) -> str:
    """Return 1,234; a dash for an unknown value."""
    return UNKNOWN if value is None else f"{value:,}"


def size(value: int | None) -> str:
    """Return 3.2 GiB: three figures, binary units; a dash for an unknown value."""
    if value is None:
        return UNKNOWN
    power = min(max((abs(value).bit_length() - 1) // 10, 0), 6)
    if power == 0:
        return f"{value} B"
    scaled = value / 1024**power
    return f"{scaled:,.{0 if scaled >= 100 else 1}f} {'KMGTPE'[power - 1]}iB"


def number(value: int | None, noun: str) -> str:
    """Return 1 file, 2 files."""
    return f"{count(value)} {noun}{'' if value == 1 else 's'}"


def number_of(value: int | None, noun: str, plural: str) -> str:
    """Return 1 discrepancy, 2 discrepancies."""
    return f"{count(value)} {noun if value == 1 else plural}"


def amounts(files: int | None, rows: int | None, bytes_: int | None) -> str:
    """Return known amounts such as `12 files, 600 rows, 4.1 MiB`; `not known` without any."""
    known = [number(many, what) for many, what in ((files, "file"), (rows, "row")) if many]
    known += [size(bytes_)] if bytes_ else []
    return ", ".join(known) or "not known"


def first_names(names: Sequence[str], most: int) -> str:
    """Return the first names, and the number of the others: `a, b and 3 more`."""
    more = f" and {count(len(names) - most)} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"


def exact_size(value: int | None) -> str:
    """Return the exact number of bytes, with the rounded size if it differs."""
    if value is None or value < 1024:
        return size(value)
    return f"{value:,} B ({size(value)})"


def moment(value: datetime | None) -> str:
    """Return 2026-11-21 07:36:02Z, with the fraction if there is one."""
    return UNKNOWN if value is None else in_utc(value).replace(tzinfo=None).isoformat(sep=" ") + "Z"


def value(known: object) -> str:
    """Format a time with `moment`, a truth value as yes or no, and anything else with `str`."""
    if isinstance(known, bool):
        return "yes" if known else "no"
    return moment(known) if isinstance(known, datetime) else str(known)


def second(value: datetime | None) -> str:
    """Return 2026-11-21 07:36:02Z, without the fraction."""
    return moment(None if value is None else value.replace(microsecond=0))


def day_end(value: datetime | None) -> str:
    """Return `the end of 2026-11-21 (UTC)` for midnight, else the time as `second` does."""
    if value is None or in_utc(value).time() != time.min:
        return second(value)
    return f"the end of {(in_utc(value) - timedelta(days=1)).date()} (UTC)"


_ISO = re.compile(r"(?<!\S)(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d(?:\.\d+)?)Z(?=[\s,.;:)]|$)")


def times(sentence: str) -> str:
    """Return a sentence with its times in the form of `moment`; times inside a key are not changed."""
    return _ISO.sub(r"\1 \2Z", sentence)


def clauses(row: Mapping[str, Any]) -> list[str]:
    """Return the facts of a finding's explanation; an explanation is not divided if a key contains the separator."""
    explanation = times(row["explanation"] or "")
    is_divisible = _SEPARATOR not in f"{row['key']} {row['subject']} {row['related_key']}"
    return explanation.split(_SEPARATOR) if is_divisible else [explanation]


_SEPARATOR = "; "


def age(then: datetime | None, now: datetime) -> str:
    """Return the time since `then` in the two largest units of d, h, min and s; a dash if `then` is unknown.

    A later time, by another clock or within the same second, counts as now.
    """
    if then is None:
        return UNKNOWN
    return duration(max(in_utc(now) - in_utc(then), timedelta(0)))


def duration(span: timedelta) -> str:
    """Return 3 d 4 h, or 12 min 5 s; a negative span begins with `-`."""
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
    """Return a short duration: 23 min, 15 h, 3 d 4 h, 16 d."""
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


def iso_or_null(value: datetime | None) -> str | None:
    """Format a time as `iso` does; None stays None."""
    return None if value is None else iso(value)


def in_utc(at: datetime) -> datetime:
    """Convert a time to UTC; a time without a zone is in UTC already."""
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)


NO_TABLE = "(no table)"


def table_label(name: str | None) -> str:
    """Return the table's name; a finding about a source has none."""
    return NO_TABLE if name is None else name


def share(value: float) -> str:
    """Return a share in per cent, rounded down, so that only the whole is 100 %."""
    floored = math.floor(value * 1000 + 1e-9) / 10
    if value > 0 and floored == 0:
        return "under 0.1 %"
    return f"{floored:.0f} %" if floored in {0.0, 100.0} else f"{floored:.1f} %"


_BARE = re.compile(r"[A-Za-z0-9_./:@%+,][A-Za-z0-9_./:@%+=,-]*")


def shell_word(text: str) -> str:
    r"""Return the text as one word of bash, zsh or ksh, quoted if needed.

    Invisible characters become octal bytes in `$'...'`.
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
    """Return the URI of the finding's file or prefix; None for a whole table, a group or a source."""
    return None if finding["key"] is None else uri_of(finding["bucket"] or "", finding["key"])


_TRANSITIONS = {
    "opened": "new",
    "reopened": "back again",
    "escalated": "worse",
    "reclassified": "of another kind",
    "open": "still open",
    "acceptance_ended": "no longer accepted",
}


def happened(transition: str, resolution: str | None = None) -> str:
    """Return the transition of a discrepancy in two or three words."""
    if transition == "resolved" and resolution == "reference_removed":
        return "closed, not restored"
    return _TRANSITIONS.get(transition, transition.replace("_", " "))


PENDING, ACCEPTED = "pending confirmation", "accepted"
"""Discrepancies that one audit reported and the next has to confirm, and those that a person has accepted."""

CONFIRMED = {
    "live": "confirmed by a live check",
    "sample": "part of a mass loss; a live check of a sample confirmed the loss",
    "second_cut": "found in two consecutive storage snapshots",
    "not_needed": "no live check was needed",
    "limit": "not confirmed: the limit of live checks was reached",
    "denied": "not confirmed: the live check was denied",
    "error": "not confirmed: the live check failed",
    "none": NO_LIVE_LOOKS,
}

OUTCOMES = {
    "finding": "finding",
    "consistent": "consistent",
    "ignored": "ignored",
    "out_of_window": "too young to judge",
    "undecided": "undecided",
    "moved_on": "changed during the audit",
    "uncovered": "not covered by the inventory",
}

_STEPS = {
    **{status: status for status in ("applied", "undone", "purged")},
    "moved_on": "no longer needed",
    "changed": "changed since the plan was made",
    "unknown": "undecided",
    "needs_person": "left to a person",
    "failed": "refused by the store",
    "started": "started without a known result",
    "undoing": "undo started without a known result",
    "waiting": "not started",
    "kept": "not undone",
}


def steps_in_words(numbers: Mapping[str, int]) -> str:
    """Return the numbers of a plan's steps by status: 3 applied, 1 refused by the store."""
    words = _STEPS | {status: status.replace("_", " ") for status in numbers if status not in _STEPS}
    return ", ".join(
        f"{count(numbers[status])} {text}" for status, text in words.items() if numbers.get(status)
    )


SIDES = ("manifest", "metastore", "storage")
SIDE_LABELS = {"metastore": "metadata store"}
"""Names for people of the sources that are named otherwise in columns."""
CLAIMS = ("size", "etag", "version_id", "time")
PRESENT = {"manifest": "listed", "metastore": "listed", "storage": "found"}
"""By source what is printed of a file that it has."""
DELETED = "deleted"
"""What is printed of a file whose entry in the metadata store is a tombstone."""
DELETE_MARKER = "no object, but a delete marker"
_ABSENT = {
    **{kind: {"storage": "no object"} for kind in ("dropped", "dropped_history", "phantom")},
    "hidden": {"metastore": "no entry"},
    "tombstoned": {"metastore": DELETED},
}
"""By kind the sources that answered without an object or entry, as opposed to sources that were not queried."""


def presence(row: Mapping[str, Any]) -> dict[str, str | None]:
    """Return the presence of the file by side; None: no answer. It is empty for kinds that are not about presence."""
    absent = _ABSENT.get(row["kind"])
    if absent is None:
        return {}
    if DELETED_IN_STORE in (row["explanation"] or ""):
        absent = {**absent, "metastore": DELETED}
    version = row["storage_version_id"]
    if (
        absent.get("storage")
        and row["storage_size"] is None
        and version not in (None, row["recovery_version_id"])
    ):
        absent = {**absent, "storage": DELETE_MARKER}
    claimed = {side: any(row[f"{side}_{what}"] is not None for what in CLAIMS) for side in SIDES}
    return {side: absent.get(side) or (PRESENT[side] if claimed[side] else None) for side in SIDES}


def side_label(side: str) -> str:
    """Return the name of a source's role for people."""
    return SIDE_LABELS.get(side, side)


def cause(row: Mapping[str, Any]) -> str:
    """Return cause, actor and time from a row of findings or of the ledger; empty if the cause is not known.

    The time of lost coverage is that of the last audit which judged the table.
    """
    if not row["cause"]:
        return ""
    if row.get("kind") == COVERAGE_LOST:
        judged = f"; last judged at {second(row['cause_at'])}" if row["cause_at"] else ""
        return f"{row['cause']}{judged}"
    by = f", by {row['cause_principal']}" if row["cause_principal"] else ""
    at = f", at {second(row['cause_at'])}" if row["cause_at"] else ""
    return f"{row['cause']}{by}{at}"
