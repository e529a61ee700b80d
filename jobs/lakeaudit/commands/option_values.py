"""Parses times, durations and patterns of options; a value that cannot be read is one line with exit code 2."""

from datetime import UTC, datetime, timedelta

from lakeaudit.config import glob_to_regex
from lakeaudit.config.parsers import parse_duration
from lakeaudit.errors import BadInput
from lakeaudit.formatting import in_utc

EARLIEST, LATEST = datetime(1970, 1, 1, tzinfo=UTC), datetime(9800, 1, 1, tzinfo=UTC)
"""Times of options; the longest duration (a hundred years) can be added to each of them or subtracted."""
DAY = "2027-06-01"


def time_option(option: str, text: str) -> datetime:
    """Parse an ISO-8601 time from 1970 to 9799 into UTC; a time without a zone is UTC.

    Raises:
        BadInput: the text is not such a time.
    """
    return _time(option, text, "timestamp", "2026-11-21T08:00:00Z")


def end_option(option: str, text: str) -> datetime:
    """Parse a time as `time_option`, or a day such as 2027-06-01, which ends at its midnight (UTC). Raises the same."""
    whole_day = timedelta(days=1) if len(text) <= len(DAY) else timedelta(0)
    return _time(option, text, "date", DAY) + whole_day


def _time(option: str, text: str, noun: str, example: str) -> datetime:
    years = f"from {EARLIEST.year} to {LATEST.year - 1}"
    try:
        at = in_utc(datetime.fromisoformat(text))
    except ValueError:
        raise BadInput(f"{option} {text}", f"is not a {noun}", f"write {example}") from None
    except OverflowError:
        raise BadInput(f"{option} {text}", f"is not a {noun} {years}", f"write {example}") from None
    if not EARLIEST <= at < LATEST:
        raise BadInput(f"{option} {text}", f"is not a {noun} {years}", f"write {example}")
    return at


def duration_option(option: str, text: str, example: str) -> timedelta:
    """Parse a duration such as `36h`.

    Raises:
        BadInput: the text is not a duration of up to a hundred years.
    """
    try:
        return parse_duration(text)
    except ValueError:
        raise BadInput(f"{option} {text}", "is not a duration", f"write {example} or 2d") from None


def pattern_option(option: str, pattern: str) -> str:
    """Return the anchored regular expression of a pattern of table names.

    Raises:
        BadInput: the text is not a pattern.
    """
    try:
        return glob_to_regex(pattern)
    except ValueError as error:
        raise BadInput(f"{option} {pattern}", f"is not a pattern: {error}", "write sales.*") from error
