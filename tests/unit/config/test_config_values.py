"""Durations, sizes, endpoints and globs of the lake file."""

import re
from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeaudit.config import format_duration, format_size, glob_to_regex, parse_duration, parse_size
from lakeaudit.config.parsers import LONGEST, parse_day, parse_endpoint, parse_location
from lakeaudit.keys import Location


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("0s", 0), ("90s", 90), ("30m", 1800), ("24h", 86_400), ("7d", 604_800), ("36500d", 3_153_600_000)],
)
def test_duration_is_read(text: str, seconds: int) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)


BAD_DURATIONS = [
    "",
    "5",
    "h",
    "1 h",
    " 1h",
    "1h\n",
    "-1h",
    "1.5h",
    "1w",
    "1H",
    "1h30m",
    "36501d",
    "9" * 11 + "s",
    "\u0661h",
]


@pytest.mark.parametrize("text", BAD_DURATIONS)
def test_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a duration"):
        parse_duration(text)


@given(st.integers(0, int(LONGEST.total_seconds())))
def test_duration_round_trip(seconds: int) -> None:
    assert parse_duration(format_duration(timedelta(seconds=seconds))) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0s"), (60, "1m"), (3600, "1h"), (86_400, "1d"), (86_401, "86401s")]
)
def test_duration_is_written_shortest(seconds: int, text: str) -> None:
    assert format_duration(timedelta(seconds=seconds)) == text


@pytest.mark.parametrize(
    ("text", "size"),
    [("0B", 0), ("1B", 1), ("4KiB", 4096), ("8MiB", 8 << 20), ("2GiB", 2 << 30), ("1TiB", 1 << 40)],
)
def test_size_is_read(text: str, size: int) -> None:
    assert parse_size(text) == size
    assert format_size(size) == text


@pytest.mark.parametrize(
    "text", ["", "4", "4KB", "4kib", "4 KiB", "4KiB\n", "-1B", "1.5MiB", "KiB", "9223372036854775808B"]
)
def test_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a size"):
        parse_size(text)


@given(st.integers(0, (1 << 63) - 1))
def test_size_round_trip(size: int) -> None:
    assert parse_size(format_size(size)) == size


def test_day() -> None:
    assert parse_day("2027-06-01") == date(2027, 6, 1)
    for text in ("2027-6-1", "20270601", "2027-02-30", "tomorrow", "2027-W01-1"):
        with pytest.raises(ValueError):  # noqa: PT011 - the reason differs
            parse_day(text)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("s3://lake/wh/orders/", Location("lake", "wh/orders")),
        ("s3a://lake/wh/orders", Location("lake", "wh/orders")),
        ("s3://lake", Location("lake", "")),
        ("s3://lake/a//b%20c", Location("lake", "a//b%20c")),
        ("/data/lake", Location("", "data/lake")),
        ("file:///data/lake/", Location("", "data/lake")),
    ],
)
def test_location_is_read_raw(text: str, place: Location) -> None:
    assert parse_location(text) == place


@pytest.mark.parametrize(
    "text", ["", "lake/wh", "./wh", "hdfs://lake", "s3://", "s3:///wh", "s3://la ke/x", "s3://u:p/x@lake"]
)
def test_location_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the reason differs
        parse_location(text)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("http://127.0.0.1:5000", "http://127.0.0.1:5000"),
        ("https://s3.eu-west-1.amazonaws.com/", "https://s3.eu-west-1.amazonaws.com"),
        ("http://[::1]:9000", "http://[::1]:9000"),
    ],
)
def test_endpoint_is_read(text: str, kept: str) -> None:
    assert parse_endpoint(text) == kept


BAD_ENDPOINTS = [
    "",
    "localhost:5000",
    "s3://b",
    "http://",
    "http://h:99999",
    "http://h:x",
    "http://u@h",
    "http://h/path",
    "http://h?q",
    "http://h h",
]


@pytest.mark.parametrize("text", BAD_ENDPOINTS)
def test_endpoint_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the reason differs
        parse_endpoint(text)


GLOBS = [
    # pattern, key, matches
    ("a.parquet", "a.parquet", True),
    ("a.parquet", "aXparquet", False),
    ("a.parquet", "a.parquet\n", False),
    ("*", "part-1", True),
    ("*", "", True),
    ("*", "a/b", False),
    ("*.tmp", "x.tmp", True),
    ("*.tmp", "d/x.tmp", False),
    ("**", "a/b\nc", True),
    ("**/*.tmp", "x.tmp", True),
    ("**/*.tmp", "a/b/x.tmp", True),
    ("**/_x/**", "_x/a", True),
    ("**/_x/**", "d/_x/a/b", True),
    ("**/_x/**", "_x", False),
    ("**/_x/**", "d_x/a", False),
    ("a/**/b", "a/b", True),
    ("a/**/b", "a/c/d/b", True),
    ("a/**/b", "ab", False),
    ("a/**/**/b", "a/b", True),
    ("a**b", "a/x/b", True),
    ("**b", "a/b", True),
    ("dt=?", "dt=1", True),
    ("dt=?", "dt=/", False),
    ("dt=?", "dt=", False),
    ("[abc]", "b", True),
    ("[abc]", "d", False),
    ("[a-c]x", "bx", True),
    ("[!a-c]", "d", True),
    ("[!a-c]", "b", False),
    ("[!a]", "/", False),
    ("[+-9]", "/", False),
    ("[a-]", "-", True),
    ("[]]", "]", True),
    ("[!]]", "]", False),
    ("[^a]", "^", True),
    ("[[&&]", "&", True),
    ("[\\d]", "\\", True),
    ("[\\d]", "5", False),
    ("[*]", "*", True),
    ("[*]", "a", False),
    ("[a", "[a", True),
    ("a+b(c)|$^{1}", "a+b(c)|$^{1}", True),
    ("a\\b", "a\\b", True),
    ("sales.*", "sales.orders", True),
    ("sales.*", "salesXorders", False),
    ("größe-*", "größe-😀", True),
]


@pytest.mark.parametrize(("pattern", "key", "matches"), GLOBS)
def test_glob(pattern: str, key: str, matches: bool) -> None:
    assert (re.search(glob_to_regex(pattern), key) is not None) is matches


def test_glob_refuses_a_backward_range() -> None:
    with pytest.raises(ValueError, match="runs backwards"):
        glob_to_regex("[z-a]")


@given(st.text(st.characters(exclude_characters="*?["), max_size=20), st.text(max_size=20))
def test_glob_without_wildcards_is_the_text_itself(text: str, other: str) -> None:
    found = re.compile(glob_to_regex(text))
    assert found.search(text)
    assert bool(found.search(other)) is (other == text)


@given(st.lists(st.sampled_from(["a", "b", "/", "*", "**", "?"]), max_size=6), st.text("ab/", max_size=6))
def test_glob_agrees_with_the_definition(parts: list[str], key: str) -> None:
    pattern = re.sub(r"\*{3,}", "**", "".join(parts))
    assert bool(re.search(glob_to_regex(pattern), key)) is matches_by_definition(pattern, key)


def matches_by_definition(pattern: str, key: str, part_start: bool = True) -> bool:
    """The words of the module, one character at a time."""
    if not pattern:
        return not key
    if pattern.startswith("**/") and part_start:
        cuts = [0, *(at + 1 for at, char in enumerate(key) if char == "/")]
        return any(matches_by_definition(pattern[3:], key[at:]) for at in cuts)
    if pattern.startswith("**"):
        return any(matches_by_definition(pattern[2:], key[at:], False) for at in range(len(key) + 1))
    if pattern[0] == "*":
        reach = len(key.split("/", 1)[0])
        return any(matches_by_definition(pattern[1:], key[at:], False) for at in range(reach + 1))
    if not key or (key[0] == "/" if pattern[0] == "?" else key[0] != pattern[0]):
        return False
    return matches_by_definition(pattern[1:], key[1:], pattern[0] == "/")
