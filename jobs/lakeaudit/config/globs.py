"""Globs over keys and table names, as regular expressions that Python and RE2 (see `duck.pattern`) read alike.

`*` and `?` stay inside one path part, `**` crosses slashes, `**/` at the start of a part also stands for no
part at all, `[a-z]` and `[!a-z]` are one character other than a slash. Everything else stands for itself, a
backslash too.
"""

from collections.abc import Iterator

from lakeaudit.keys import END

ANYTHING = r"[\s\S]*"
NOTHING = r"[^\s\S]"


def glob_to_regex(pattern: str) -> str:
    """Return an anchored regex for a whole key; raises ValueError for a range that runs backwards."""
    return rf"\A{''.join(_parts(pattern))}{END}"


def is_pattern(text: str) -> bool:
    """Return whether a text is a pattern; names of buckets have no such character."""
    return any(sign in text for sign in "*?[")


def _parts(pattern: str) -> Iterator[str]:
    at = 0
    while at < len(pattern):
        regex, at = _part(pattern, at)
        yield regex


def _part(pattern: str, at: int) -> tuple[str, int]:
    char = pattern[at]
    if char == "*":
        return _stars(pattern, at)
    if char == "?":
        return "[^/]", at + 1
    if char == "[" and (end := pattern.find("]", at + (3 if pattern[at + 1 : at + 2] == "!" else 2))) > 0:
        return _one_of(pattern[at + 1 : end]), end + 1
    return _literal(char), at + 1


def _stars(pattern: str, at: int) -> tuple[str, int]:
    end = at + len(pattern[at:]) - len(pattern[at:].lstrip("*"))
    if end - at == 1:
        return "[^/]*", end
    starts_part = at == 0 or pattern[at - 1] == "/"
    if not starts_part or pattern[end : end + 1] != "/":
        return ANYTHING, end
    while pattern.startswith("**/", end + 1):  # more of the same adds nothing but backtracking
        end += 3
    return rf"(?:{ANYTHING}/)?", end + 1


def _one_of(body: str) -> str:
    """Return a character class without the slash, which no class may match."""
    negated, chars = body.startswith("!"), body.removeprefix("!")
    if negated:
        return f"[^{''.join(_members(chars))}/]"
    inside = "".join(_members(chars))
    return f"[{inside}]" if inside else NOTHING


def _members(chars: str) -> Iterator[str]:
    at = 0
    while at < len(chars):
        if chars[at + 1 : at + 2] == "-" and at + 2 < len(chars):
            if chars[at] > chars[at + 2]:
                raise ValueError(f"the range {chars[at : at + 3]!r} runs backwards")
            yield from _range(chars[at], chars[at + 2])
            at += 3
        else:
            yield from _range(chars[at], chars[at])
            at += 1


def _range(first: str, last: str) -> Iterator[str]:
    """Yield the characters from first to last except the slash."""
    parts = [(first, "."), ("0", last)] if first <= "/" <= last else [(first, last)]
    yield from (f"{_literal(low)}-{_literal(high)}" if low < high else _literal(low)
                for low, high in parts if low <= high)  # fmt: skip


def _literal(char: str) -> str:
    """Escape every ASCII sign: in both dialects a backslash before a sign means the sign itself."""
    return f"\\{char}" if char.isascii() and not char.isalnum() else char
