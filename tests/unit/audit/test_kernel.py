"""The kernel's stages: how keys are shared out changes no answer, and every verdict is counted once."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from lakeaudit.audit.kernel import Kernel
from lakeaudit.audit.task_functions import kernel_with
from lakeaudit.engine.local import InProcessEngine
from lakeaudit.evidence.protocol import Part
from lakeaudit.findings import coverage
from lakeaudit.keys import Location
from lakeaudit.matching.share import TaskFacts
from lakeaudit.matching.verdicts import verdicts
from lakeaudit.runtime import duck
from lakeaudit.schemas import KNOWN
from tests.builders.evidence import CUT, part_of, rows_table
from tests.builders.scenario_lake import Lake, matched, numbered, with_rules
from tests.builders.shares import Shared, shared
from tests.scenarios import SCENARIOS

MANY = 2
SUMMED = {"tallies": ("files", "bytes", "unconfirmed", "refuted"), "claimed": ("files",),
          "etag_habits": ("live_files", "with_etag"),
          "tree_tallies": ("files", "bytes", "unconfirmed", "refuted")}  # fmt: skip
"""Answers of which every share gives a part of the sum."""


@pytest.fixture(scope="module")
def lake() -> Iterator[Lake]:
    lake = Lake(numbered(SCENARIOS))
    yield lake
    lake.con.close()


@pytest.fixture(scope="module")
def judged(lake: Lake) -> list[dict[str, Any]]:
    """The verdict rows of all keys together."""
    rows = duck.hold(lake.con, verdicts(lake.con, with_rules(lake.con, matched(lake)), lake.policy))
    columns = "judged_table, axis, outcome, coalesce(s_size, c_size, 0) AS size"
    return duck.rows_of(duck.query(lake.con, f"SELECT {columns} FROM input", input=rows))


@pytest.fixture(scope="module")
def kernel(lake: Lake) -> Kernel:
    return kernel_with(TaskFacts(lake.sources, lake.policy, {}, metastores=True))


@pytest.fixture(scope="module")
def parts(lake: Lake) -> list[Part]:
    """All observations, and an open discrepancy of every third claim."""
    evidence = lake.evidence()
    sources = [*(s.rows for s in evidence.storage), *(s.rows for s in evidence.metastores)]
    sources += [rows for read in evidence.claims for rows in read.rows]
    given = [part for rows in sources if isinstance(rows, tuple) for part in rows]
    return [*given, *part_of({"known": _open_rows(lake)})]


def _open_rows(lake: Lake) -> pa.Table:
    claimed = [each.row(claim) for each in lake.scenarios for claim in each.scenario.claims]
    places = sorted({(row["table_name"], row["bucket"], row["key"]) for row in claimed})[::3]
    rows = [
        {"axis": "content", "judged_table": name, "bucket": bucket, "key": key, "known_as": f"d{number}",
         "known_at": CUT}
        for number, (name, bucket, key) in enumerate(places)
    ]  # fmt: skip
    return rows_table(KNOWN, rows)


@pytest.fixture(scope="module")
def whole(kernel: Kernel, parts: list[Part]) -> Shared:
    return shared(parts, kernel.stages, 1)


@pytest.fixture(scope="module")
def cut_up(kernel: Kernel, parts: list[Part]) -> Shared:
    return shared(parts, kernel.stages, MANY)


def row_counts(kind: str, table: pa.Table | None) -> Counter[str]:
    """Count the rows of an answer; partial sums are added first."""
    rows = [] if table is None else table.to_pylist()
    if kind in SUMMED:
        return Counter(map(repr, sorted(_sums(rows, SUMMED[kind]).items(), key=repr)))
    return Counter(repr(sorted(row.items())) for row in rows)


def _sums(rows: Iterable[Mapping[str, Any]], numbers: tuple[str, ...]) -> dict[Any, tuple[int, ...]]:
    sums: dict[Any, list[int]] = {}
    for row in rows:
        group = tuple(value for name, value in row.items() if name not in numbers)
        held = sums.setdefault(group, [0] * len(numbers))
        for at, name in enumerate(numbers):
            held[at] += row[name]
    return {group: tuple(values) for group, values in sums.items()}


KINDS = ("tallies", "suspects", "leftovers", "copies", "uploads", "claimed", "etag_habits", "tree_tallies",
         "tree_suspects")  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_how_keys_are_shared_out_changes_no_answer(kind: str, whole: Shared, cut_up: Shared) -> None:
    expected = row_counts(kind, whole.answers[kind])
    assert expected, f"no {kind}, so this proves nothing"
    assert row_counts(kind, cut_up.answers.get(kind)) == expected


def test_what_a_vacuum_would_explain_is_known_from_all_shares_together(whole: Shared, cut_up: Shared) -> None:
    assert _vacuums(cut_up) == _vacuums(whole) != {}


def _vacuums(of: Shared) -> dict[str, tuple[Any, Any, int]]:
    """By table the oldest removed file that is there, the youngest that is not, and how many are not."""
    found: dict[str, tuple[list[Any], list[Any], int]] = {}
    for row in of.answers["removals"].to_pylist():
        present, absent, files = found.get(row["table_name"], ([], [], 0))
        found[row["table_name"]] = (
            [*present, row["present_from"]], [*absent, row["absent_until"]], files + row["absent_files"]
        )  # fmt: skip
    return {
        name: (min(filter(None, present), default=None), max(filter(None, absent), default=None), files)
        for name, (present, absent, files) in found.items()
    }


def test_the_keys_were_indeed_shared_out(whole: Shared, cut_up: Shared) -> None:
    assert (whole.filled, cut_up.filled) == (1, MANY)


def test_the_engine_of_this_process_answers_the_same(
    kernel: Kernel, parts: list[Part], whole: Shared
) -> None:
    held: dict[str, list[pa.RecordBatch]] = {}
    for kind, batch in InProcessEngine(2).run(parts, kernel.stages):
        held.setdefault(kind, []).append(batch)
    found = {kind: pa.Table.from_batches(batches) for kind, batches in held.items()}
    assert found.keys() == whole.answers.keys()
    assert {k: row_counts(k, found[k]) for k in KINDS} == {k: row_counts(k, whole.answers[k]) for k in KINDS}


def test_every_verdict_is_tallied_or_a_suspect_and_none_is_both(
    judged: list[dict[str, Any]], kernel: Kernel, parts: list[Part]
) -> None:
    found = shared(parts, kernel.stages[:1], 1).answers
    assert _settled_and_suspected(found) == _one_by_one(judged)


def _settled_and_suspected(answers: Mapping[str, pa.Table]) -> Counter[tuple[str, str, str]]:
    """Files by table, axis and outcome."""
    files: Counter[tuple[str, str, str]] = Counter()
    for row in answers["tallies"].to_pylist():
        files[row["judged_table"], row["axis"], row["outcome"]] += row["files"]
    files.update((row["judged_table"], row["axis"], row["outcome"]) for row in _rows(answers["suspects"]))
    return files


def _one_by_one(judged: list[dict[str, Any]]) -> Counter[tuple[str, str, str]]:
    return Counter((row["judged_table"], row["axis"], row["outcome"]) for row in judged)


def _rows(table: pa.Table) -> list[dict[str, Any]]:
    names = ["judged_table", "axis", "outcome", "known_as", "suspected", "bucket", "key"]
    rows: list[dict[str, Any]] = table.select(names).to_pylist()
    return rows


def test_suspects_are_findings_and_what_the_ledger_holds_open(whole: Shared) -> None:
    rows = _rows(whole.answers["suspects"])
    assert all(row["suspected"] or row["known_as"] for row in rows)
    assert {row["axis"] for row in rows} == {"content", "metastore", "duplicate"}
    assert {(row["suspected"], row["known_as"] is None) for row in rows} == {
        (True, True), (True, False), (False, False)
    }  # fmt: skip


def test_what_is_open_already_comes_with_its_own_discrepancy(lake: Lake, whole: Shared) -> None:
    known = {(r["judged_table"], r["bucket"], r["key"]): r["known_as"] for r in _open_rows(lake).to_pylist()}
    suspects = _rows(whole.answers["suspects"])
    content = [row for row in suspects if row["axis"] == "content"]
    assert {row["known_as"] for row in suspects if row["axis"] != "content"} == {None}
    wrong = [
        row
        for row in content
        if row["known_as"] != known.get((row["judged_table"], row["bucket"], row["key"]))
    ]
    assert wrong == []


def test_a_redundant_copy_is_counted_once(judged: list[dict[str, Any]], whole: Shared) -> None:
    """It was counted as consistent by the rules about single files; so was one that nobody can compare."""
    copies = Counter(row["judged_table"] for row in whole.answers["copies"].to_pylist())
    ordinary = _one_by_one(judged)
    tallied = _settled_and_suspected(whole.answers)
    assert copies
    for table in {name for name, _, _ in tallied}:
        findings = (table, "duplicate", "finding")
        consistent = (table, "duplicate", "consistent")
        unsure = tallied[table, "duplicate", "undecided"] - ordinary[table, "duplicate", "undecided"]
        assert unsure >= 0
        assert tallied[findings] == ordinary[findings] + copies[table]
        assert tallied[consistent] == ordinary[consistent] - copies[table] - unsure


def test_tallies_count_bytes_of_storage_else_of_the_claim(
    judged: list[dict[str, Any]], whole: Shared
) -> None:
    tallies = coverage.tallies(whole.answers["tallies"].to_pylist())
    again = [row for row in whole.answers["suspects"].to_pylist() if not row["suspected"]]
    for axis in ("content", "metastore"):
        settled = sum(tally.bytes for (_, of), tally in tallies.items() if of == axis)
        unsettled = sum(_size(row) for row in again if row["axis"] == axis)
        assert settled + unsettled == sum(
            row["size"] for row in judged if row["axis"] == axis and row["outcome"] != "finding"
        )


def _size(row: Mapping[str, Any]) -> int:
    size = row["c_size"] if row["s_size"] is None else row["s_size"]
    return int(size or 0)


def test_an_audit_of_partitions_judges_nothing_else(kernel: Kernel, parts: list[Part]) -> None:
    buckets = [Location("lake0", "orders"), Location("lake3", "orders"), Location("lake3", "orders/none")]
    asked = {place: place.uri for place in buckets}
    found = shared(parts, replace(kernel, facts=replace(kernel.facts, partitions=asked)).stages, MANY).answers
    tables = {row["judged_table"] for kind in ("tallies", "suspects") for row in found[kind].to_pylist()}
    assert tables == {"0/orders", "3/orders"}
    assert {row["partition_uri"] for row in found["partitions"].to_pylist()} - {None} == {
        "s3://lake0/orders", "s3://lake3/orders"
    }  # fmt: skip


def test_without_any_evidence_nothing_is_answered(lake: Lake) -> None:
    kernel = kernel_with(TaskFacts(lake.sources, lake.policy, {}, metastores=True))
    assert shared([], kernel.stages, MANY) == Shared({}, 0)
