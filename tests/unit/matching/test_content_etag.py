"""Which ETags of storage tell the bytes of an object."""

import re

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeaudit.matching.duplicates import content_etag
from lakeaudit.rules.file_facts import MD5_TEXT, PARTS_TEXT
from lakeaudit.runtime import duck

MD5 = "0cc175b9c0f1b6a831c399e269772661"
TELLS, NOTHING = True, False


def tells(etag: str, multipart: bool | None = None, encryption: str | None = None) -> bool:
    """The answer of DuckDB for one object."""
    schema = pa.schema([("etag", pa.string()), ("multipart", pa.bool_()), ("encryption", pa.string())])
    with duck.task_connection() as con:
        sql = f"SELECT {content_etag('etag', 'multipart', 'encryption')} AS tells FROM input"
        rows = duck.query(con, sql, input=duck.small(schema, [(etag, multipart, encryption)]))
        (row,) = duck.rows_of(rows)
    return bool(row["tells"])


@pytest.mark.parametrize(
    ("etag", "multipart", "encryption", "expected"),
    [
        (MD5, None, None, TELLS),
        (MD5, False, "NONE", TELLS),
        (MD5, False, "SSE-S3", TELLS),
        (MD5, False, "SSE-KMS", NOTHING),
        (MD5, True, None, NOTHING),  # parts, although its number is missing
        (f"{MD5}-12", True, None, TELLS),
        (f"{MD5}-", None, None, NOTHING),
        (f"{MD5}\n", None, None, NOTHING),
        (f"{MD5[:31]}\n", None, None, NOTHING),
        (MD5.upper(), None, None, NOTHING),
        (MD5[:31], None, None, NOTHING),
        (f"{MD5[:30]}é", None, None, NOTHING),  # 32 bytes of UTF-8
        ("0x8DC1A2B3C4D5E6F", None, None, NOTHING),  # Azure
        ("", None, None, NOTHING),
    ],
)
def test_an_etag_tells_the_bytes_of_an_object(
    etag: str, multipart: bool | None, encryption: str | None, expected: bool
) -> None:
    assert tells(etag, multipart, encryption) is expected


@given(st.text(alphabet="09afgAF-\n\0é", min_size=29, max_size=36) | st.from_regex(MD5_TEXT) | st.text())
def test_the_answer_is_that_of_the_patterns(etag: str) -> None:
    expected = re.search(MD5_TEXT, etag) or re.search(PARTS_TEXT, etag)
    assert tells(etag) is bool(expected)
