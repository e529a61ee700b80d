"""Bulk changes: whether a change is one finding depends on all files of its table, not on the suspects alone."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from functools import cache
from typing import Any

import pyarrow as pa
import pytest

from lakeaudit.audit.task_functions import kernel_with
from lakeaudit.collect.source_facts import Sources, source_facts
from lakeaudit.findings import coverage, finding_rows
from lakeaudit.findings.bulk_changes import ENOUGH, group_bulk_changes
from lakeaudit.findings.coverage import Tallies, Tally
from lakeaudit.findings.finding_rows import RunStamp
from lakeaudit.matching.share import TaskFacts
from lakeaudit.matching.verdicts import finding_policy
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection
from tests.builders.connections import connection
from tests.builders.evidence import CUT, ago, claim, claims_of, folded_objects, stored, stored_of
from tests.builders.scenario import table
from tests.builders.shares import shared

Row = dict[str, Any]
STAMP = RunStamp("r1", "shop", CUT)
FILES = 250

SAME: Row = {}
REWRITTEN: Row = {"modified_at": ago(24)}
LONGER: Row = {"size": 107}
SHORTER: Row = {"size": 97}


@pytest.fixture(scope="module")
def con() -> Iterator[Connection]:
    opened = connection()
    yield opened
    opened.close()


def files(*changes: tuple[int, Row]) -> list[Row]:
    """The stored files, with a number of files for each change."""
    return [change for number, change in changes for _ in range(number)]


LOST: Row = {"lost": True}
SHARES: dict[str, tuple[int, int, dict[tuple[str, str, int], int]]] = {
    # changed at the same size, left alone, findings
    "42 %, and all that is suspected": (105, 145, {("file", "overwritten", 1): 105}),
    "half": (125, 125, {("file", "overwritten", 1): 125}),
    "more than half": (126, 124, {("table", "overwritten", 126): 1}),
    "all, but too few": (ENOUGH - 1, 0, {("file", "overwritten", 1): 99}),
    "all, and enough": (ENOUGH, 0, {("table", "overwritten", 100): 1}),
    "half, and enough": (ENOUGH, ENOUGH, {("file", "overwritten", 1): 100}),
}
TABLES: dict[str, list[Row]] = {
    "orders": files((FILES, REWRITTEN)),
    **{name: files((changed, REWRITTEN), (same, SAME)) for name, (changed, same, _) in SHARES.items()},
    "longer": files((FILES, LONGER)),
    "shorter": files((FILES, SHORTER)),
    "each by its own": files(*((1, {"size": 101 + at}) for at in range(FILES))),
    "two kinds": files((130, LONGER), (120, REWRITTEN)),
    "two kinds, neither of most": files((110, LONGER), (110, REWRITTEN), (30, SAME)),
    "two differences": files((130, LONGER), (120, SHORTER)),
    "some lost": files((FILES, REWRITTEN), (3, LOST)),
    "few": files((40, REWRITTEN)),
    "half lost": files((120, REWRITTEN), (120, LOST)),
    "all of few": files((120, REWRITTEN)),
    "less than half of many": files((120, REWRITTEN), (180, SAME)),
}
"""The files of every table, which one audit judges."""


@pytest.fixture(scope="module")
def answers() -> Mapping[str, pa.Table]:
    """Return the kernel's answers about these tables, all of whose files are claimed."""
    rows = [stored(f"{name}/{at:04d}", **each) for name, of in TABLES.items() for at, each in enumerate(of)]
    facts = [table(name) for name in TABLES]
    tables = [fact.table for fact in facts]
    claims = claims_of([claim(row["key"], row["key"].partition("/")[0]) for row in rows], ())
    evidence = Sources([claims], [stored_of([row for row in rows if not row.get("lost")])], [], {})
    sources = replace(source_facts(evidence, tables, facts), objects=folded_objects)
    facts_of_run = TaskFacts(sources, finding_policy(tables, (), date(2026, 11, 20)), {}, metastores=False)
    kernel = kernel_with(facts_of_run)
    given = [*claims.rows, *(source.rows for source in evidence.storage)]
    parts = [part for rows in given if isinstance(rows, tuple) for part in rows]
    return shared(parts, kernel.stages, 1).answers


Findings = Callable[..., list[Row]]


@pytest.fixture(scope="module")
def find(con: Connection, answers: Mapping[str, pa.Table]) -> Findings:
    """Return a function that finds rows about a table; `whole=False`: in an audit of a partition."""

    @cache
    def folds(whole: bool, confirmation: str) -> list[Row]:
        suspects = f"""
            SELECT * REPLACE ({duck.literal(confirmation)} AS l_confirmation), NULL::VARCHAR AS related_key,
                NULL::VARCHAR AS group_id, false AS versions_known,
                NULL::TIMESTAMP AS recoverable_until, NULL::VARCHAR AS kept_words, NULL::VARCHAR AS recheck_words
            FROM input
        """
        rows = duck.hold(con, duck.query(con, suspects, input=answers["suspects"]))
        settled = coverage.tallies(answers["tallies"].to_pylist())
        every = coverage.together(settled, coverage.tallies(duck.rows_of(coverage.count(con, rows))))
        about_files = finding_rows.file_findings(con, rows, STAMP)
        return duck.rows_of(group_bulk_changes(con, about_files, every if whole else {}, STAMP))

    def of(*names: str, whole: bool = True, confirmation: str = "none") -> list[Row]:
        return [row for row in folds(whole, confirmation) if row["table_name"] in names]

    return of


def count_by_kind(rows: Sequence[Mapping[str, Any]]) -> Counter[tuple[str, str, int]]:
    """Count the findings by subject type, kind and number of files."""
    return Counter((row["subject_type"], row["kind"], row["files"]) for row in rows)


def test_a_table_rewritten_whole_at_the_same_size_is_one_finding(find: Findings) -> None:
    (row,) = find("orders")
    expected = {
        "run_id": "r1", "lake": "shop", "table_name": "orders", "axis": "content", "kind": "overwritten",
        "severity": "warning", "subject_type": "table", "subject": "orders", "files": FILES,
        "bytes_at_stake": 100 * FILES, "rows_at_stake": 10 * FILES, "confirmation": "none", "bucket": None,
        "key": None, "storage_time": ago(24).replace(tzinfo=None), "manifest_time": ago(72).replace(tzinfo=None),
        "explanation": "250 files, more than half of the table, were rewritten with the same size: probably one "
        "cause, a copy or a re-encoding of the whole table",
    }  # fmt: skip
    assert {name: row[name] for name in expected} == expected
    assert len(row["discrepancy_id"]) == 32


def test_the_finding_has_the_most_common_cause_of_its_files(con: Connection) -> None:
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
    (one,) = duck.rows_of(group_bulk_changes(con, finding_rows.from_plain(con, rows, STAMP), every, STAMP))
    assert (one["cause"], one["cause_principal"], one["cause_at"]) == (
        f"{copied}, the most common cause of its files",
        "job",
        early,
    )


@pytest.mark.parametrize("name", SHARES)
def test_a_bulk_change_is_more_than_half_of_all_files_and_at_least_a_hundred(
    find: Findings, name: str
) -> None:
    assert count_by_kind(find(name)) == SHARES[name][2]


@pytest.mark.parametrize(("name", "apart"), [("longer", "+7"), ("shorter", "-3")])
def test_one_constant_difference_in_size_is_one_finding(find: Findings, name: str, apart: str) -> None:
    (row,) = find(name)
    assert (row["kind"], row["files"]) == ("size_mismatch", FILES)
    assert f"were rewritten with a size that differs by {apart} bytes" in row["explanation"]


def test_sizes_that_differ_each_by_its_own_are_findings_of_files(find: Findings) -> None:
    assert count_by_kind(find("each by its own")) == {("file", "size_mismatch", 1): FILES}


def test_of_two_kinds_in_one_table_the_smaller_keeps_its_files(find: Findings) -> None:
    assert count_by_kind(find("two kinds")) == {
        ("table", "size_mismatch", 130): 1,
        ("file", "overwritten", 1): 120,
    }


def test_of_two_kinds_in_one_table_neither_may_have_more_than_half(find: Findings) -> None:
    assert count_by_kind(find("two kinds, neither of most")) == {
        ("file", "size_mismatch", 1): 110, ("file", "overwritten", 1): 110
    }  # fmt: skip


def test_of_two_differences_in_one_table_the_smaller_keeps_its_files(find: Findings) -> None:
    rows = find("two differences")
    assert count_by_kind(rows) == {("table", "size_mismatch", 130): 1, ("file", "size_mismatch", 1): 120}
    assert {row["storage_size"] for row in rows if row["subject_type"] == "file"} == {97}


def test_findings_of_other_kinds_and_tables_stay_as_they_are(find: Findings) -> None:
    rows = find("some lost", "few")
    assert count_by_kind(rows) == {
        ("table", "overwritten", FILES): 1, ("file", "dropped", 1): 3, ("file", "overwritten", 1): 40
    }  # fmt: skip
    assert {row["table_name"] for row in rows if row["kind"] == "overwritten"} == {"some lost", "few"}


def test_files_that_are_lost_are_files_of_the_table_too(find: Findings) -> None:
    assert count_by_kind(find("half lost")) == {("file", "overwritten", 1): 120, ("file", "dropped", 1): 120}


def test_every_table_is_judged_by_its_own_files(find: Findings) -> None:
    rows = find("all of few", "less than half of many")
    assert count_by_kind(rows) == {("table", "overwritten", 120): 1, ("file", "overwritten", 1): 120}
    assert {row["table_name"] for row in rows if row["subject_type"] == "file"} == {"less than half of many"}


def test_an_audit_of_a_part_of_a_table_does_not_judge_the_whole(find: Findings) -> None:
    assert count_by_kind(find("orders", whole=False)) == {("file", "overwritten", 1): FILES}


@pytest.mark.parametrize("confirmation", ["live", "none", "limit"])
def test_it_is_confirmed_if_one_of_its_files_was_checked_live(find: Findings, confirmation: str) -> None:
    (row,) = find("orders", confirmation=confirmation)
    assert row["confirmation"] == ("live" if confirmation == "live" else "none")


def test_only_files_judged_by_content_count_as_files_of_the_table(con: Connection) -> None:
    rows = [
        {"table_name": "orders", "axis": "content", "kind": "overwritten", "severity": "warning", "files": 1,
         "subject_type": "file", "subject": f"s3://lake/orders/{at}", "manifest_size": 5, "storage_size": 5}
        for at in range(ENOUGH)
    ]  # fmt: skip
    about_files = finding_rows.from_plain(con, rows, STAMP)
    tallies: Tallies = {
        ("orders", "content"): Tally({"finding": ENOUGH}),
        ("orders", "leftover"): Tally({"consistent": 10 * ENOUGH}),
    }
    assert count_by_kind(duck.rows_of(group_bulk_changes(con, about_files, tallies, STAMP))) == {
        ("table", "overwritten", ENOUGH): 1
    }
