"""Bulk changes: whether a change is one finding depends on all files of its table, not on the suspects alone."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import Any

import pytest

from lakeaudit.compare import coverage, findings
from lakeaudit.compare.bulk_changes import ENOUGH, folded
from lakeaudit.compare.coverage import Tallies, Tally
from lakeaudit.compare.evidence_for_tables import Evidence, source_facts
from lakeaudit.compare.findings import Stamp
from lakeaudit.compare.kernel import Kernel
from lakeaudit.compare.verdicts import words
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection
from tests.builders.connections import connection
from tests.builders.evidence import CUT, ago, claim, claims_of, folded_objects, stored, stored_of
from tests.builders.scenario import table
from tests.builders.shares import shared

Row = dict[str, Any]
STAMP = Stamp("r1", "shop", CUT)
FILES = 250

SAME: Row = {}
REWRITTEN: Row = {"modified_at": ago(24)}
LONGER: Row = {"size": 107}
SHORTER: Row = {"size": 97}


@pytest.fixture
def con() -> Iterator[Connection]:
    opened = connection()
    yield opened
    opened.close()


def files(*changes: tuple[int, Row], of: str = "orders") -> list[Row]:
    """Objects of a table, so many of each change."""
    every = [change for number, change in changes for _ in range(number)]
    return [stored(f"{of}/{at:04d}", **change) for at, change in enumerate(every)]


def found(
    con: Connection, objects: Sequence[Row], *, whole: bool = True, confirmation: str = "none"
) -> list[Row]:
    """The findings of an audit of these objects, all of which are claimed; not `whole`: of a partition."""
    facts = [table(name) for name in sorted({row["key"].partition("/")[0] for row in objects})]
    tables = [fact.table for fact in facts]
    claims = claims_of([claim(row["key"], row["key"].partition("/")[0]) for row in objects], ())
    evidence = Evidence([claims], [stored_of([row for row in objects if not row.get("lost")])], [], {})
    sources = replace(source_facts(evidence, tables, facts), objects=folded_objects)
    kernel = Kernel(sources, words(tables, (), date(2026, 11, 20)), {}, metastores=False)
    given = [*claims.rows, *(source.rows for source in evidence.storage)]
    parts = [part for rows in given if isinstance(rows, tuple) for part in rows]
    answers = shared(parts, kernel.stages, 1).answers
    suspects = f"""
        SELECT * REPLACE ({duck.literal(confirmation)} AS l_confirmation), NULL::VARCHAR AS related_key,
            NULL::VARCHAR AS group_id, false AS versions_known,
            NULL::TIMESTAMP AS recoverable_until, NULL::VARCHAR AS kept_words
        FROM input
    """
    rows = duck.hold(con, duck.query(con, suspects, input=answers["suspects"]))
    settled = coverage.tallies(answers["tallies"].to_pylist())
    every = coverage.together(settled, coverage.tallies(duck.rows_of(coverage.count(con, rows))))
    about_files = findings.file_findings(con, rows, STAMP)
    return duck.rows_of(folded(con, about_files, every if whole else {}, STAMP))


def told(rows: Sequence[Mapping[str, Any]]) -> Counter[tuple[str, str, int]]:
    """How often a finding is about a file or a table, of which kind and of how many files."""
    return Counter((row["subject_type"], row["kind"], row["files"]) for row in rows)


def test_a_table_rewritten_whole_at_the_same_size_is_one_finding(con: Connection) -> None:
    (row,) = found(con, files((FILES, REWRITTEN)))
    expected = {
        "run_id": "r1", "lake": "shop", "table_name": "orders", "axis": "content", "kind": "overwritten",
        "severity": "warning", "subject_type": "table", "subject": "orders", "files": FILES,
        "bytes_at_stake": 100 * FILES, "rows_at_stake": 10 * FILES, "confirmation": "none", "bucket": None,
        "key": None, "storage_time": ago(24).replace(tzinfo=None),
        "explanation": "250 files, more than half of the table, were rewritten at the same size: one cause, "
        "most likely a copy or a re-encoding of the whole table",
    }  # fmt: skip
    assert {name: row[name] for name in expected} == expected
    assert len(row["discrepancy_id"]) == 32


def test_the_most_common_cause_of_its_files_is_said_as_such(con: Connection) -> None:
    late, early = ago(1).replace(tzinfo=None), ago(2).replace(tzinfo=None)
    copied = "overwritten by a copy (REST.COPY.OBJECT)"
    by_job: dict[str, object] = {"cause": copied, "cause_principal": "job", "cause_at": late}
    by_ann = by_job | {"cause_principal": "ann", "cause_at": early}
    causes: list[dict[str, object]] = [by_job] * 60 + [by_ann] * 20 + [{}] * 40
    row: dict[str, object] = {
        "table_name": "t",
        "axis": "content",
        "kind": "hidden",
        "severity": "info",
        "subject_type": "file",
    }
    rows = [row | {"subject": f"f{n}", "key": f"f{n}"} | cause for n, cause in enumerate(causes)]
    every = {("t", "content"): coverage.Tally({"finding": 120})}
    (one,) = duck.rows_of(folded(con, findings.from_plain(con, rows, STAMP), every, STAMP))
    assert (one["cause"], one["cause_principal"], one["cause_at"]) == (
        f"{copied}, the most common cause of its files",
        "job",
        early,
    )


SHARES = [
    # changed at the same size, left alone, findings
    (105, 145, {("file", "overwritten", 1): 105}),  # 42 %, and all that is suspected
    (125, 125, {("file", "overwritten", 1): 125}),
    (126, 124, {("table", "overwritten", 126): 1}),
    (ENOUGH - 1, 0, {("file", "overwritten", 1): 99}),
    (ENOUGH, 0, {("table", "overwritten", 100): 1}),
    (ENOUGH, ENOUGH, {("file", "overwritten", 1): 100}),
]


@pytest.mark.parametrize(("changed", "same", "expected"), SHARES)
def test_a_bulk_change_is_more_than_half_of_all_files_and_at_least_a_hundred(
    con: Connection, changed: int, same: int, expected: dict[tuple[str, str, int], int]
) -> None:
    assert told(found(con, files((changed, REWRITTEN), (same, SAME)))) == expected


@pytest.mark.parametrize(("change", "apart"), [(LONGER, "+7"), (SHORTER, "-3")])
def test_one_constant_difference_in_size_is_one_finding(con: Connection, change: Row, apart: str) -> None:
    (row,) = found(con, files((FILES, change)))
    assert (row["kind"], row["files"]) == ("size_mismatch", FILES)
    assert f"were rewritten each by {apart} bytes" in row["explanation"]


def test_sizes_that_differ_each_by_its_own_are_findings_of_files(con: Connection) -> None:
    each = [(1, {"size": 101 + at}) for at in range(FILES)]
    assert told(found(con, files(*each))) == {("file", "size_mismatch", 1): FILES}


def test_of_two_kinds_in_one_table_the_smaller_keeps_its_files(con: Connection) -> None:
    rows = found(con, files((130, LONGER), (120, REWRITTEN)))
    assert told(rows) == {("table", "size_mismatch", 130): 1, ("file", "overwritten", 1): 120}


def test_of_two_kinds_in_one_table_neither_may_have_more_than_half(con: Connection) -> None:
    rows = found(con, files((110, LONGER), (110, REWRITTEN), (30, SAME)))
    assert told(rows) == {("file", "size_mismatch", 1): 110, ("file", "overwritten", 1): 110}


def test_of_two_differences_in_one_table_the_smaller_keeps_its_files(con: Connection) -> None:
    rows = found(con, files((130, LONGER), (120, SHORTER)))
    assert told(rows) == {("table", "size_mismatch", 130): 1, ("file", "size_mismatch", 1): 120}
    assert {row["storage_size"] for row in rows if row["subject_type"] == "file"} == {97}


def test_findings_of_other_kinds_and_tables_stay_as_they_are(con: Connection) -> None:
    lost = [stored(f"orders/lost-{at}", lost=True) for at in range(3)]
    objects = [*files((FILES, REWRITTEN)), *lost, *files((40, REWRITTEN), of="copy")]
    rows = found(con, objects)
    assert told(rows) == {
        ("table", "overwritten", FILES): 1, ("file", "dropped", 1): 3, ("file", "overwritten", 1): 40
    }  # fmt: skip
    assert {row["table_name"] for row in rows if row["kind"] == "overwritten"} == {"orders", "copy"}


def test_files_that_are_lost_are_files_of_the_table_too(con: Connection) -> None:
    lost = [stored(f"orders/lost-{at:03d}", lost=True) for at in range(120)]
    rows = found(con, [*files((120, REWRITTEN)), *lost])
    assert told(rows) == {("file", "overwritten", 1): 120, ("file", "dropped", 1): 120}


def test_every_table_is_judged_by_its_own_files(con: Connection) -> None:
    rows = found(con, [*files((120, REWRITTEN)), *files((120, REWRITTEN), (180, SAME), of="copy")])
    assert told(rows) == {("table", "overwritten", 120): 1, ("file", "overwritten", 1): 120}
    assert {row["table_name"] for row in rows if row["subject_type"] == "file"} == {"copy"}


def test_of_a_part_of_a_table_nothing_is_said_about_the_whole(con: Connection) -> None:
    rows = found(con, files((FILES, REWRITTEN)), whole=False)
    assert told(rows) == {("file", "overwritten", 1): FILES}


@pytest.mark.parametrize("confirmation", ["live", "none", "limit"])
def test_it_is_confirmed_where_one_of_its_files_was_looked_at(con: Connection, confirmation: str) -> None:
    (row,) = found(con, files((FILES, REWRITTEN)), confirmation=confirmation)
    assert row["confirmation"] == ("live" if confirmation == "live" else "none")


def test_only_files_judged_by_content_count_as_files_of_the_table(con: Connection) -> None:
    rows = [
        {"table_name": "orders", "axis": "content", "kind": "overwritten", "severity": "warning", "files": 1,
         "subject_type": "file", "subject": f"s3://lake/orders/{at}", "manifest_size": 5, "storage_size": 5}
        for at in range(ENOUGH)
    ]  # fmt: skip
    about_files = findings.from_plain(con, rows, STAMP)
    tallies: Tallies = {
        ("orders", "content"): Tally({"finding": ENOUGH}),
        ("orders", "leftover"): Tally({"consistent": 10 * ENOUGH}),
    }
    assert told(duck.rows_of(folded(con, about_files, tallies, STAMP))) == {
        ("table", "overwritten", ENOUGH): 1
    }
