"""The records of CloudTrail files, however their text is cut into blocks."""

import json
from itertools import islice

import pytest

from lakeaudit.evidence.events.trail_records import NoRecordsError, records

RECORDS = [{"eventName": "PutObject", "n": n, "key": 'a"]},{é'} for n in range(5)]
NONE = "is not a file of CloudTrail: it has no list of records"


def blocks_of(text: str, size: int) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


@pytest.mark.parametrize("size", [1, 2, 7, 64, 10_000])
@pytest.mark.parametrize("indent", [None, 2])
def test_records_come_one_by_one(size: int, indent: int | None) -> None:
    text = json.dumps({"Records": [*RECORDS, 17, "x", None]}, indent=indent)
    assert list(records(blocks_of(text, size))) == [*RECORDS, 17, "x", None]


@pytest.mark.parametrize("text", ['{"Records": []}', '{"Records":[],"more":1}', ' { "Records" : [ ] } \n'])
def test_a_text_without_records_is_refused(text: str) -> None:
    assert list(records([text])) == []


WHOLE = json.dumps({"Records": RECORDS})


@pytest.mark.parametrize(
    ("text", "before", "why"),
    [
        ("", 0, NONE),
        ("[]", 0, NONE),
        ('{"Other": []}', 0, NONE),
        ('{"Records": 5}', 0, NONE),
        (WHOLE[:-2], 5, NONE),
        (WHOLE[:-20], 4, NONE),
        (WHOLE + WHOLE, 5, NONE),
        ('{"Records": [{"a": 1}, {broken}]}', 1, NONE),
        ('{"Records": [' + "[" * 200_000, 0, "has a record that is nested too deeply"),
    ],
)
def test_an_incomplete_file_raises_after_its_complete_records(text: str, before: int, why: str) -> None:
    found = records(blocks_of(text, 1000))
    assert len(list(islice(found, before))) == before
    with pytest.raises(NoRecordsError, match=why):
        list(found)


def test_a_record_that_is_too_long_ends_the_reading_with_its_size() -> None:
    text = '{"Records": [{"a": 1}, {"a": "' + "x" * (3 << 20)
    found = records(blocks_of(text, 1 << 16), longest=1 << 20)
    assert next(found) == {"a": 1}
    with pytest.raises(
        NoRecordsError, match="has a record of more than 1 MiB, or a damaged one; 1 MiB were read"
    ):
        list(found)
