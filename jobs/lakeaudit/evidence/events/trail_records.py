"""Parse the records of one CloudTrail file one after the other, with few of them in memory at a time."""

import json
import re
from collections.abc import Generator, Iterable, Iterator

_HEAD = re.compile(r'\s*\{\s*"Records"\s*:\s*\[')
_BETWEEN = re.compile(r"[\s,]*")
_END = re.compile(r"\s*\]\s*(,|\}\s*$)", re.DOTALL)
LONGEST = 16 << 20
"""The most characters of a record; CloudTrail's own limit for an event is 256 KB."""
_DECODER = json.JSONDecoder()


class NoRecordsError(Exception):
    """The file is not one of CloudTrail, or it is damaged; `str` is the message."""


def records(texts: Iterable[str], longest: int = LONGEST) -> Iterator[object]:
    """Yield the records of a file whose text comes in blocks.

    Raises:
        NoRecordsError: after the records that could be read.
    """
    held, begun, read = "", False, 0
    for text in texts:
        held += text
        read += len(text)
        if not begun and (head := _HEAD.match(held)):
            held, begun = held[head.end() :], True
        if begun:
            held = yield from _whole(held)
        if len(held) > longest:
            raise NoRecordsError(_too_long(longest, read))
    if not begun or not _END.match(held):
        raise NoRecordsError("is not a file of CloudTrail: it has no list of records")


def _whole(held: str) -> Generator[object, None, str]:
    """Yield the complete records at the start of a text; return the rest."""
    at = 0
    while (begin := _BETWEEN.match(held, at)) is not None:
        at = begin.end()
        if held.startswith("]", at):
            break
        try:
            record, end = _DECODER.raw_decode(held, at)
        except RecursionError:
            raise NoRecordsError("has a record that is nested too deeply") from None
        except ValueError:
            break
        if end == len(held) and not held.endswith(("}", "]", '"')):
            break  # a number may go on in the next block
        yield record
        at = end
    return held[at:]


def _too_long(longest: int, read: int) -> str:
    return f"has a record of more than {longest >> 20} MiB, or a damaged one; {read >> 20} MiB were read"
