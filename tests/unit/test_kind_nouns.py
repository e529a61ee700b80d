"""Counted kinds in the titles of messages: a noun in the singular and in the plural for every kind."""

import pytest

from lakeaudit.kind_nouns import counted_kind
from lakeaudit.kinds import KINDS


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_a_singular_and_a_plural(kind: str) -> None:
    one, many = counted_kind(kind, 1), counted_kind(kind, 2)
    assert one.removeprefix("1 ") != many.removeprefix("2 ")
    assert "_" not in one + many


@pytest.mark.parametrize(
    ("kind", "discrepancies", "files", "words"),
    [
        ("dropped", 1, 1, "1 file dropped"),
        ("dropped", 500, None, "500 files dropped"),
        # one discrepancy about a whole partition
        ("dropped", 1, 1_200, "1,200 files dropped"),
        ("stale_pointer", 1, None, "1 stale pointer"),
        ("duplicate_entry", 3, None, "3 duplicate entries"),
        ("stale_read", 2, None, "2 access patterns (stale read)"),
        # the files of a table that audits cannot judge are no losses
        ("coverage_lost", 4, 332, "4 losses of coverage"),
        # a kind of another version
        ("new_kind", 2, 9, "2 new kind"),
    ],
)
def test_files_are_counted_if_the_noun_is_a_file(
    kind: str, discrepancies: int, files: int | None, words: str
) -> None:
    assert counted_kind(kind, discrepancies, files) == words
