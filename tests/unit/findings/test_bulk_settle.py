"""Bulk changes and the ledger: archived and hidden tables are one finding, and their members are settled with it."""

import json
import os
from collections import ChainMap, Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from lakeaudit.audit.plan import Options
from lakeaudit.audit.run import audit
from lakeaudit.config import load_lake
from lakeaudit.engine.local import InProcessEngine
from lakeaudit.findings import finding_rows
from lakeaudit.findings.bulk_changes import ALIKE, ENOUGH, group_bulk_changes, members, with_own_subjects
from lakeaudit.findings.coverage import Tallies, Tally
from lakeaudit.findings.finding_rows import RunStamp
from lakeaudit.keys import Location
from lakeaudit.kinds import KINDS
from lakeaudit.ledger.axis_observation import AxisObservation
from lakeaudit.ledger.update_ledger import Changes, RunFindings, update_ledger
from lakeaudit.results.read import Results
from lakeaudit.runtime import duck
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.duck import Connection, Relation
from lakeaudit.runtime.progress import SilentProgress
from lakeaudit.schemas import DISCREPANCIES, without_zone
from tests.builders.connections import connection
from tests.builders.delta_lake import Log, add, metadata, protocol, remove

Row = dict[str, Any]
WORDS = pa.schema([("discrepancy_id", pa.string()), ("n_resolution", pa.string()), ("n_live", pa.bool_()),
                   ("n_words", pa.string())])  # fmt: skip
NEVER_FOUND = pa.schema([("discrepancy_id", pa.string()), ("l_found_at", pa.timestamp("us"))])


def at(hour: float) -> datetime:
    return datetime(2026, 11, 1, tzinfo=UTC) + timedelta(hours=hour)


STAMP = RunStamp("tonight", "shop", at(40))


@pytest.fixture(scope="module")
def con() -> Iterator[Connection]:
    opened = connection()
    yield opened
    opened.close()


def wrong(kind: str, number: int, first: int = 0, of: str = "orders", **given: Any) -> list[Row]:
    """Findings about so many files."""
    known = KINDS[kind]
    return [
        {"table_name": of, "axis": known.axis, "kind": kind, "severity": known.severity, "files": 1,
         "bytes_at_stake": 5, "subject_type": "file", "subject": f"s3://lake/{of}/{n}", "bucket": "lake",
         "key": f"{of}/{n}", "confirmation": "none", "manifest_size": 5, "storage_size": 5} | given
        for n in range(first, first + number)
    ]  # fmt: skip


def tallies(files: int, axis: str = "content", of: str = "orders") -> Tallies:
    return {(of, axis): Tally({"consistent": files})}


def single(con: Connection, rows: Sequence[Row]) -> Relation:
    return duck.hold(con, finding_rows.from_plain(con, rows, STAMP))


def fold(con: Connection, rows: Sequence[Row], every: Tallies) -> list[Row]:
    return duck.rows_of(group_bulk_changes(con, single(con, rows), every, STAMP))


def subjects_and_kinds(rows: Sequence[Mapping[str, Any]]) -> Counter[tuple[str, str, int]]:
    return Counter((row["subject_type"], row["kind"], row["files"]) for row in rows)


def renamed(rows: Sequence[Row], name: str) -> list[Row]:
    """The findings as those of another table: the cases of one question are tables of one audit."""
    return [row | {"table_name": name, "subject": f"{name}: {row['subject']}"} for row in rows]


def by_table(rows: Sequence[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        found[row["table_name"]].append(row)
    return found


# --- what is folded ------------------------------------------------------------------------------------------

SHARES = [
    (ENOUGH, 199, True),
    (ENOUGH, 200, False),
    (ENOUGH - 1, 0, False),
    (150, 299, True),
    (150, 300, False),
]


@pytest.fixture(scope="module")
def shares(con: Connection) -> Mapping[str, Sequence[Row]]:
    """The findings of a table for each kind and share."""
    cases = [
        (f"{kind} {number} {files}", kind, number, files) for kind in ALIKE for number, files, _ in SHARES
    ]
    rows = [row for name, kind, number, _ in cases for row in wrong(kind, number, of=name)]
    every = [tallies(files, KINDS[kind].axis, of=name) for name, kind, _, files in cases]
    return by_table(fold(con, rows, dict(ChainMap(*every))))


@pytest.mark.parametrize("kind", ALIKE)
@pytest.mark.parametrize(("number", "files", "bulk"), SHARES)
def test_more_than_half_of_a_table_and_at_least_a_hundred_are_one_finding(
    shares: Mapping[str, Sequence[Row]], kind: str, number: int, files: int, bulk: bool
) -> None:
    rows = shares[f"{kind} {number} {files}"]
    assert subjects_and_kinds(rows) == ({("table", kind, number): 1} if bulk else {("file", kind, 1): number})


@pytest.mark.parametrize(
    ("kind", "words"), [("archived", "must be restored"), ("hidden", "have no entry in the metadata store")]
)
def test_the_explanation_of_a_table_whose_files_are_all_equal(con: Connection, kind: str, words: str) -> None:
    (row,) = fold(con, wrong(kind, 120), tallies(120, KINDS[kind].axis))
    expected = {"table_name": "orders", "axis": KINDS[kind].axis, "kind": kind, "severity": KINDS[kind].severity,
                "subject": "orders", "bytes_at_stake": 600, "confirmation": "none", "key": None}  # fmt: skip
    assert {name: row[name] for name in expected} == expected
    assert row["explanation"].startswith("120 files, more than half of the table, ")
    assert words in row["explanation"]


def test_files_of_any_size_are_archived_alike(con: Connection) -> None:
    rows = [row | {"storage_size": n, "manifest_size": None} for n, row in enumerate(wrong("archived", 120))]
    assert subjects_and_kinds(fold(con, rows, tallies(120))) == {("table", "archived", 120): 1}


def in_days(kind: str, *numbers: int) -> list[Row]:
    """So many files of each of these days."""
    days = [day for day, number in enumerate(numbers) for _ in range(number)]
    rows = wrong(kind, len(days))
    return [row | {"partition_path": f"day={day}"} for row, day in zip(rows, days, strict=True)]


def test_archived_files_are_reported_by_partition_unless_the_whole_table_is_archived(
    con: Connection,
) -> None:
    before = single(con, in_days("archived", 200, 10, 9))
    after = group_bulk_changes(con, before, tallies(1000), STAMP)
    rows = duck.rows_of(after)
    assert subjects_and_kinds(rows) == {
        ("partition", "archived", 200): 1,
        ("partition", "archived", 10): 1,
        ("file", "archived", 1): 9,
    }
    first = max(rows, key=lambda row: row["files"])
    assert (first["subject"], first["partition_path"], first["bytes_at_stake"]) == (
        "day=0#archived",
        "day=0",
        1000,
    )
    assert first["explanation"].startswith("200 files of the partition are in an archive storage class")
    ids = {row["discrepancy_id"]: row["subject"] for row in rows if row["subject_type"] == "partition"}
    spoken = members(con, before, after)
    assert spoken is not None
    assert Counter(ids[row["spoken_by"]] for row in duck.rows_of(spoken)) == {
        "day=0#archived": 200,
        "day=1#archived": 10,
    }


def test_a_table_speaks_for_its_partitions(con: Connection) -> None:
    rows = fold(con, in_days("archived", 80, 80), tallies(200))
    assert subjects_and_kinds(rows) == {("table", "archived", 160): 1}
    assert subjects_and_kinds(fold(con, in_days("hidden", 80), tallies(900, "metastore"))) == {
        ("file", "hidden", 1): 80
    }


LONGER: Row = {"storage_size": 12}


def of_days(kind: str, *numbers: int, of: str = "orders", **given: Any) -> list[Row]:
    """The same with the table's name, so that files of several calls are apart."""
    return [
        row | given | {"subject": f"{row['subject']}-{kind}", "table_name": of}
        for row in in_days(kind, *numbers)
    ]


@dataclass(frozen=True)
class Days:
    """Findings about files of days, the number of files of the days, and the reported findings."""

    rows: Sequence[Row]
    files: Mapping[int, int]
    told: Mapping[tuple[str, str, int], int]


FEW = 10_000
"""Files of the table: what is wrong is few of them."""
IN_PARTITIONS: dict[str, Days] = {
    "a day rewritten at the same size": Days(
        of_days("overwritten", 120), {0: 120}, {("partition", "overwritten", 120): 1}
    ),
    "a day off by one difference": Days(
        of_days("size_mismatch", 120, **LONGER), {0: 200}, {("partition", "size_mismatch", 120): 1}
    ),
    "a day without entries": Days(of_days("hidden", 150), {0: 299}, {("partition", "hidden", 150): 1}),
    "each day is measured by itself": Days(
        of_days("overwritten", 120, 120, 30), {0: 130, 1: 240, 2: 30},
        {("partition", "overwritten", 120): 1, ("file", "overwritten", 1): 150},
    ),
    "two kinds in two days": Days(
        [*of_days("overwritten", 120), *of_days("hidden", 0, 110)], {0: 120, 1: 110},
        {("partition", "overwritten", 120): 1, ("partition", "hidden", 110): 1},
    ),
}  # fmt: skip
HEALTHY_ENOUGH: dict[str, Days] = {
    "half of a day": Days(of_days("overwritten", 120), {0: 240}, {("file", "overwritten", 1): 120}),
    "less than a hundred": Days(of_days("hidden", 99), {0: 99}, {("file", "hidden", 1): 99}),
    "a day that was compacted is mostly history": Days(
        of_days("overwritten", 120), {0: 2000}, {("file", "overwritten", 1): 120}
    ),
    "rewritten, each to a size of its own": Days(
        [row | {"storage_size": 200 + n} for n, row in enumerate(of_days("size_mismatch", 150))], {0: 150},
        {("file", "size_mismatch", 1): 150},
    ),
    "two differences, neither of most files": Days(
        [*of_days("size_mismatch", 110, **LONGER), *of_days("overwritten", 110)], {0: 240},
        {("file", "size_mismatch", 1): 110, ("file", "overwritten", 1): 110},
    ),
    "sizes that nobody knows": Days(
        of_days("overwritten", 150, storage_size=None), {0: 150}, {("file", "overwritten", 1): 150}
    ),
    "nobody knows how many files the day has": Days(
        of_days("hidden", 150), {}, {("file", "hidden", 1): 150}
    ),
    "other kinds are never folded": Days(
        [*of_days("dropped", 150), *of_days("content_mismatch", 150), *of_days("metastore_stale", 150)], {0: 150},
        {("file", "dropped", 1): 150, ("file", "content_mismatch", 1): 150, ("file", "metastore_stale", 1): 150},
    ),
    "spread over days": Days(
        of_days("overwritten", *[30] * 10), dict.fromkeys(range(10), 30), {("file", "overwritten", 1): 300}
    ),
    "no partitions at all": Days(
        [row | {"partition_path": ""} for row in of_days("overwritten", 300)], {}, {("file", "overwritten", 1): 300}
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def partitions(con: Connection) -> tuple[Mapping[str, Sequence[Row]], Mapping[str, Sequence[str]]]:
    """The reported findings by case, and the ids that include its files; each case is a table."""
    cases = {**IN_PARTITIONS, **HEALTHY_ENOUGH}
    before = single(con, [row for name, case in cases.items() for row in renamed(case.rows, name)])
    every = [tallies(FEW, axis, of=name) for name in cases for axis in ("content", "metastore")]
    known = {(name, f"day={day}"): files for name, case in cases.items() for day, files in case.files.items()}

    def count(wanted: Collection[tuple[str, str]]) -> dict[tuple[str, str], int]:
        return {partition: known[partition] for partition in wanted if partition in known}

    after = group_bulk_changes(con, before, dict(ChainMap(*every)), STAMP, count)
    spoken = members(con, before, after)
    assert spoken is not None
    tables = {row["discrepancy_id"]: row["table_name"] for row in duck.rows_of(before)}
    speakers: dict[str, list[str]] = defaultdict(list)
    for row in duck.rows_of(spoken):
        speakers[tables[row["discrepancy_id"]]].append(row["spoken_by"])
    return by_table(list(duck.rows_of(after))), speakers


@pytest.mark.parametrize("name", [*IN_PARTITIONS, *HEALTHY_ENOUGH])
def test_most_files_of_a_partition_are_one_finding(
    partitions: tuple[Mapping[str, Sequence[Row]], Mapping[str, Sequence[str]]], name: str
) -> None:
    case = {**IN_PARTITIONS, **HEALTHY_ENOUGH}[name]
    rows, speakers = partitions[0][name], partitions[1].get(name, ())
    assert subjects_and_kinds(rows) == Counter(case.told)
    folds = [row for row in rows if row["subject_type"] == "partition"]
    assert Counter(speakers) == Counter({row["discrepancy_id"]: row["files"] for row in folds})


@pytest.mark.parametrize(
    ("rows", "asked"),
    [
        (of_days("overwritten", 120, 99), {("orders", "day=0")}),
        ([*of_days("hidden", 0, 120), *of_days("hidden", 120, of="copy")], {("orders", "day=1"), ("copy", "day=0")}),
        (of_days("archived", 120), None),
        (of_days("dropped", 120), None),
        (of_days("overwritten", 99), None),
    ],
)  # fmt: skip
def test_only_days_with_very_many_alike_are_counted(
    con: Connection, rows: Sequence[Row], asked: set[tuple[str, str]] | None
) -> None:
    wanted: list[set[tuple[str, str]]] = []

    def count(partitions: Collection[tuple[str, str]]) -> dict[tuple[str, str], int]:
        wanted.append({*partitions})
        return {}

    group_bulk_changes(con, single(con, rows), tallies(FEW), STAMP, count)
    assert wanted == ([asked] if asked else [])


def test_the_explanation_of_a_partition(con: Connection) -> None:
    files = lambda wanted: dict.fromkeys(wanted, 150)  # noqa: E731
    before = single(con, [*of_days("overwritten", 120, confirmation="live"), *of_days("hidden", 0, 110)])
    rows = {r["kind"]: r for r in duck.rows_of(group_bulk_changes(con, before, tallies(FEW), STAMP, files))}
    one, other = rows["overwritten"], rows["hidden"]
    assert (one["subject"], one["partition_path"], one["files"], one["bytes_at_stake"], one["confirmation"]) == (
        "day=0#overwritten", "day=0", 120, 600, "live"
    )  # fmt: skip
    assert one["explanation"] == (
        "120 files of the partition, more than half of the partition, were rewritten with the same size: probably one "
        "cause, a copy or a re-encoding of the whole partition"
    )
    assert (other["subject"], other["axis"]) == ("day=1#hidden", "metastore")
    assert (
        "110 files of the partition, more than half of the partition, have no entry in the metadata store"
        in other["explanation"]
    )


def test_a_table_speaks_for_its_partitions_whatever_they_are(con: Connection) -> None:
    rows = [*of_days("overwritten", 120), *of_days("overwritten", 0, 120)]
    folds = group_bulk_changes(
        con, single(con, rows), tallies(400), STAMP, lambda wanted: dict.fromkeys(wanted, 120)
    )
    assert subjects_and_kinds(duck.rows_of(folds)) == {("table", "overwritten", 240): 1}


def test_padded_sizes_of_a_partition_are_one_finding(con: Connection) -> None:
    rows = [row | {"partition_path": "day=0"} for row in padded(160, 1, 16)]
    folds = duck.rows_of(
        group_bulk_changes(
            con, single(con, rows), tallies(FEW), STAMP, lambda wanted: dict.fromkeys(wanted, 160)
        )
    )
    assert subjects_and_kinds(folds) == {("partition", "size_mismatch", 160): 1}
    assert "client-side encryption" in folds[0]["explanation"]


def padded(number: int, least: int, most: int, first: int = 0) -> list[Row]:
    """Files that are larger than recorded, by each number of bytes in turn."""
    sizes = [5 + least + n % (most - least + 1) for n in range(number)]
    rows = wrong("size_mismatch", number, first)
    return [row | {"storage_size": size} for row, size in zip(rows, sizes, strict=True)]


PADS = [
    (1, 16, 160, 300, True), (16, 64, 160, 300, True), (1, 16, 150, 300, False), (1, 16, 99, 120, False),
    (0, 16, 119, 120, True), (1, 65, 130, 130, True), (100, 130, 160, 160, False),
]  # fmt: skip


@pytest.fixture(scope="module")
def padded_tables(con: Connection) -> Mapping[str, Sequence[Row]]:
    rows = [row for at, pad in enumerate(PADS) for row in renamed(padded(pad[2], pad[0], pad[1]), f"t{at}")]
    every = [tallies(files, of=f"t{at}") for at, (*_, files, _) in enumerate(PADS)]
    return by_table(fold(con, rows, dict(ChainMap(*every))))


@pytest.mark.parametrize("at", range(len(PADS)), ids=[str(pad) for pad in PADS])
def test_sizes_that_grew_by_a_padding_are_one_finding(
    padded_tables: Mapping[str, Sequence[Row]], at: int
) -> None:
    _, _, number, _, bulk = PADS[at]
    rows = padded_tables[f"t{at}"]
    tables = [row for row in rows if row["subject_type"] == "table"]
    assert len(tables) == bulk
    if bulk:
        assert "client-side encryption" in tables[0]["explanation"]
        assert tables[0]["files"] + len(rows) - 1 == number


def test_most_files_of_a_padded_table_may_have_one_pad(con: Connection) -> None:
    sixteen = [row | {"storage_size": 21} for row in wrong("size_mismatch", 120)]
    rows = fold(con, [*sixteen, *padded(60, 1, 15, first=500)], tallies(200))
    assert subjects_and_kinds(rows) == {("table", "size_mismatch", 180): 1}


def test_every_kind_is_measured_by_its_own_axis(con: Connection) -> None:
    every = tallies(120) | tallies(1000, "metastore")
    rows = fold(con, [*wrong("archived", 120), *wrong("hidden", 120)], every)
    assert subjects_and_kinds(rows) == {("table", "archived", 120): 1, ("file", "hidden", 1): 120}


def test_severities_are_measured_apart(con: Connection) -> None:
    trusted = wrong("hidden", 150, severity="error")
    rows = fold(con, [*trusted, *wrong("hidden", 20, first=500)], tallies(200, "metastore"))
    assert subjects_and_kinds(rows) == {("table", "hidden", 150): 1, ("file", "hidden", 1): 20}
    assert {row["severity"] for row in rows if row["subject_type"] == "table"} == {"error"}


def test_other_kinds_are_never_folded(con: Connection) -> None:
    kinds = ("dropped", "content_mismatch", "phantom", "tombstoned")
    every = [tallies(200, KINDS[kind].axis, of=kind) for kind in kinds]
    rows = by_table(
        fold(con, [r for kind in kinds for r in wrong(kind, 200, of=kind)], dict(ChainMap(*every)))
    )
    assert {kind: subjects_and_kinds(rows[kind]) for kind in kinds} == {
        kind: {("file", kind, 1): 200} for kind in kinds
    }


# --- who speaks for whom -------------------------------------------------------------------------------------


def test_members_are_the_files_that_were_folded(con: Connection) -> None:
    rows = [*wrong("archived", 120), *wrong("dropped", 3, first=500), *wrong("archived", 40, of="copy")]
    before = single(con, rows)
    after = group_bulk_changes(con, before, tallies(130) | tallies(500, of="copy"), STAMP)
    spoken = members(con, before, after)
    assert spoken is not None
    ids = {row["discrepancy_id"]: row for row in duck.rows_of(before)}
    (speaker,) = (row for row in duck.rows_of(after) if row["subject_type"] == "table")
    found = duck.rows_of(spoken)
    assert {row["spoken_by"] for row in found} == {speaker["discrepancy_id"]}
    assert Counter((ids[row["discrepancy_id"]]["table_name"], ids[row["discrepancy_id"]]["kind"]) for row in found) == {
        ("orders", "archived"): 120
    }  # fmt: skip


def test_without_a_bulk_change_there_are_no_members(con: Connection) -> None:
    before = single(con, wrong("archived", 120))
    assert members(con, before, group_bulk_changes(con, before, tallies(500), STAMP)) is None


def test_two_findings_about_a_table_are_never_one_discrepancy(con: Connection) -> None:
    swept: Row = {"table_name": "orders", "axis": "content", "kind": "dropped_history", "severity": "info",
                  "subject_type": "table", "subject": "orders", "files": 7}  # fmt: skip
    others: list[Row] = [swept | {"table_name": "copy", "subject": "copy"},
                         swept | {"axis": "source", "table_name": None},
                         swept | {"subject_type": "file", "subject": "s3://lake/orders/_delta_log/1.json"}]  # fmt: skip
    about_files = group_bulk_changes(con, single(con, wrong("archived", 120)), tallies(120), STAMP)
    rows = [*with_own_subjects(con, [swept, *others], about_files)]
    assert rows == [swept | {"subject": "orders#dropped_history"}, *others]
    every = duck.union(con, [about_files, finding_rows.from_plain(con, rows, STAMP)])
    ids = [row["discrepancy_id"] for row in duck.rows_of(every)]
    assert len(set(ids)) == len(ids)
    assert [*with_own_subjects(con, [swept], single(con, wrong("archived", 3)))] == [swept]


# --- what becomes of members in the ledger ---------------------------------------------------------------------

COMPLETE = AxisObservation("orders", "content", "complete", at(36), at(35))
PARTIAL = AxisObservation("orders", "content", "partial", at(36), at(35))


def ledger_row(row: Row, state: str = "open", **given: Any) -> Row:
    """The ledger's row of a finding, last found at 10 o'clock."""
    opened = {"opened_at": at(11)} if state != "pending" else {}
    return row | {"state": state, "first_seen_at": at(1), "last_evidence_at": at(10), "reopened": 0,
                  "first_run_id": "first", "last_run_id": "last"} | opened | given  # fmt: skip


@cache
def archived(con: Connection, number: int, **given: Any) -> tuple[Relation, Relation]:
    """Findings about so many archived files of a table of 120, before they are folded and after."""
    before = single(con, wrong("archived", number, **given))
    return before, group_bulk_changes(con, before, tallies(120), STAMP)


class Night:
    """A run that finds files archived, of a table of 120."""

    def __init__(self, con: Connection, number: int = 120, **given: Any) -> None:
        self.con = con
        self.before, self.after = archived(con, number, **given)
        self.files = list(duck.rows_of(self.before))
        self.speaker = next((row for row in duck.rows_of(self.after) if row["subject_type"] == "table"), None)

    def settles(
        self, ledger: Sequence[Row], look: AxisObservation = COMPLETE, *, live: bool = False
    ) -> dict[str, Row]:
        """The rows that change, by id."""
        known = {row["discrepancy_id"] for row in ledger}
        words = [
            (row["discrepancy_id"], None, live, None) for row in self.files if row["discrepancy_id"] in known
        ]
        self.changes = self._changes(ledger, duck.small(WORDS, words), look)
        return {
            row["discrepancy_id"]: row
            for row in duck.rows_of(duck.relation(self.con, self.changes.discrepancies))
        }

    def _changes(self, ledger: Sequence[Row], words: pa.Table, look: AxisObservation) -> Changes:
        rows = [{name: _plain(row.get(name)) for name in DISCREPANCIES.names} for row in ledger]
        table = pa.Table.from_pylist(rows, without_zone(DISCREPANCIES))
        seen = RunFindings(self.after, words, [look], {"orders"}, members(self.con, self.before, self.after))
        nothing = NEVER_FOUND.empty_table()
        return update_ledger(self.con, table, seen, STAMP, at(40), lambda *_: nothing)

    @property
    def transitions(self) -> Counter[tuple[str, str]]:
        rows = duck.rows_of(duck.relation(self.con, self.changes.transitions))
        return Counter((row["transition"], row["reason"].split(" ")[0]) for row in rows)


def _plain(value: Any) -> Any:
    return value.replace(tzinfo=None) if isinstance(value, datetime) else value


def test_members_are_retired_when_their_table_is_opened(con: Connection) -> None:
    night = Night(con, confirmation="live")
    first, second, third, fourth = night.files[:4]
    accepted: Row = {"ack_by": "ann", "ack_reason": "known", "ack_until": at(99)}
    ledger = [ledger_row(first), ledger_row(second, "pending"), ledger_row(third, kind="dropped", severity="critical"),
              ledger_row(fourth, **accepted)]  # fmt: skip
    rows = night.settles(ledger, live=True)
    assert night.speaker is not None
    assert rows.pop(night.speaker["discrepancy_id"])["state"] == "open"
    assert rows.keys() == {row["discrepancy_id"] for row in ledger}
    assert {(row["state"], row["resolution"], row["resolved_at"]) for row in rows.values()} == {
        ("resolved", "retired", _plain(at(40)))
    }  # fmt: skip
    assert night.changes.counts == {"open": 1, "resolve": 3, "discard": 1}
    assert night.transitions == {("opened", "found"): 1, ("resolved", "one"): 3}, (
        "the pending one was not reported"
    )


def test_members_stay_while_their_table_is_only_pending(con: Connection) -> None:
    night = Night(con)
    rows = night.settles([ledger_row(row) for row in night.files[:5]])
    assert night.speaker is not None
    assert {name: row["state"] for name, row in rows.items()} == {night.speaker["discrepancy_id"]: "pending"}


@pytest.mark.parametrize(
    ("state", "last", "changed"), [("pending", 10, 6), ("pending", 36, 0), ("open", 10, 5)]
)
def test_members_go_with_the_second_picture_of_their_table(
    con: Connection, state: str, last: int, changed: int
) -> None:
    night = Night(con)
    assert night.speaker is not None
    table = ledger_row(night.speaker, state, last_evidence_at=at(last))
    rows = night.settles([table, *(ledger_row(row) for row in night.files[:5])])
    assert len(rows) == changed
    assert all(rows[row["discrepancy_id"]]["resolution"] == "retired" for row in night.files[:5] if rows)


def test_members_are_retired_in_a_table_that_was_read_with_gaps(con: Connection) -> None:
    night = Night(con, confirmation="live")
    rows = night.settles([ledger_row(night.files[0])], PARTIAL)
    assert rows[night.files[0]["discrepancy_id"]]["resolution"] == "retired"


def test_older_evidence_retires_nothing(con: Connection) -> None:
    night = Night(con, confirmation="live")
    rows = night.settles([ledger_row(night.files[0], last_evidence_at=at(37))])
    assert night.files[0]["discrepancy_id"] not in rows


def test_files_without_a_group_stay(con: Connection) -> None:
    night = Night(con, confirmation="live")
    lost = finding_rows.from_plain(con, wrong("dropped", 1, first=900, confirmation="live"), STAMP)
    (other,) = duck.rows_of(lost)
    night.after = duck.union(con, [night.after, lost])
    rows = night.settles([ledger_row(other), ledger_row(night.files[0])])
    assert other["discrepancy_id"] not in rows
    assert rows[night.files[0]["discrepancy_id"]]["state"] == "resolved"


def test_members_are_open_again_when_their_table_is_no_longer_wrong_as_a_whole(con: Connection) -> None:
    before, night = Night(con), Night(con, 50, confirmation="live")
    assert before.speaker is not None
    assert night.speaker is None
    retired = [
        ledger_row(row, "resolved", resolved_at=at(11), resolution="retired") for row in night.files[:3]
    ]
    rows = night.settles([ledger_row(before.speaker), *retired], live=True)
    assert rows[before.speaker["discrepancy_id"]]["state"] == "resolved"
    assert [rows[row["discrepancy_id"]]["state"] for row in retired] == ["open"] * 3
    assert rows[retired[0]["discrepancy_id"]]["reopened"] == 1
    assert sum(number for (word, _), number in night.transitions.items() if word == "reopened") == 3


def test_the_same_run_again_changes_nothing(con: Connection) -> None:
    night = Night(con, confirmation="live")
    rows = night.settles([ledger_row(row) for row in night.files[:5]], live=True)
    assert night.settles([*rows.values()], live=True) == {}


# --- two audits of a table in a folder -------------------------------------------------------------------------


def grown(table: Path, files: Sequence[str]) -> None:
    """Seven bytes more in each of these files."""
    for name in files:
        with (table / name).open("ab") as file:
            file.write(b"7 bytes")


def audited(tmp_path: Path, run_id: str) -> dict[str, Counter[tuple[str, str, str, str | None]]]:
    """Return the ledger rows of each table after an audit of `orders` and `days` in `lake`."""
    file = tmp_path / "lake.yaml"
    tables = ", ".join(
        f"{{name: {name}, location: {tmp_path}/lake/{name}, manifests: [{{kind: delta}}]}}"
        for name in ("orders", "days")
    )
    file.write_text(
        f"{{version: 1, lake: shop, results: {{location: {tmp_path}/results, keep: 0s}}, defaults: {{grace: 0s}}, "
        f"inventories: [{{kind: listing, location: {tmp_path}/lake}}], tables: [{tables}]}}"
    )
    lake = load_lake(file, {})
    outcome = audit(lake, Options(run_id=run_id), engine=InProcessEngine(), clients=Clients(),
                    clock=lambda: datetime.now(UTC), progress=SilentProgress())  # fmt: skip
    assert outcome.warnings == ()
    ledger = Results(lake.results, Clients(), "shop").discrepancies()
    found = by_table([row for batch in ledger for row in batch.to_pylist()])
    return {
        name: Counter((r["subject_type"], r["kind"], r["state"], r["resolution"]) for r in rows)
        for name, rows in found.items()
    }


_BY_DAY = json.dumps(
    {"type": "struct", "fields": [{"name": "day", "type": "string", "nullable": True, "metadata": {}}]}
)


def days_of(table: Path) -> dict[int, list[str]]:
    """The files of three days of 130, 20 of which were compacted away on the first one."""
    days = {day: [f"day={day}/{n}.parquet" for n in range(130)] for day in (1, 2, 3)}
    log = Log(table).commit(0, protocol(), metadata("day", schema=_BY_DAY), when=at(0))
    log.commit(1, *(add(name, size=50, partitionValues={"day": f"{day}"}) for day in days for name in days[day]),
               when=at(1))  # fmt: skip
    now = datetime.now(UTC)
    log.commit(2, *(remove(name, removed=now) for name in days[1][110:]), when=now)
    for name in (*days[1], *days[2], *days[3]):
        (table / name).parent.mkdir(exist_ok=True)
        (table / name).write_bytes(b"12345" * 10)
        os.utime(table / name, (at(1).timestamp(), at(1).timestamp()))
    return days


def orders_of(table: Path) -> list[str]:
    """The files of a table with one in each partition."""
    rows = pa.table({"n": pa.array(range(120), pa.int64()), "part": [f"{n}" for n in range(120)]})
    write_deltalake(table, rows, partition_by=["part"])
    files = sorted(str(path.relative_to(table)) for path in table.rglob("part-*.parquet"))
    assert len(files) == 120
    return files


@pytest.mark.soak
def test_what_breaks_file_by_file_and_then_as_a_whole(tmp_path: Path) -> None:
    """All of `orders` grows; of `days` the first one does, and the next one is written again at the same size."""
    orders, days = tmp_path / "lake" / "orders", tmp_path / "lake" / "days"
    of_orders, of_days = orders_of(orders), days_of(days)
    assert audited(tmp_path, "r0") == {}
    grown(orders, of_orders[:40])
    grown(days, of_days[1][:40])
    by_file = {("file", "size_mismatch", "open", None): 40}
    assert audited(tmp_path, "r1") == {"orders": by_file, "days": by_file}

    grown(orders, of_orders[40:])
    grown(days, of_days[1][40:110])
    for name in of_days[2]:
        (days / name).write_bytes(b"54321" * 10)
    table = {("table", "size_mismatch", "open", None): 1}
    partitions = {
        ("partition", "size_mismatch", "open", None): 1,
        ("partition", "overwritten", "open", None): 1,
    }
    retired = {("file", "size_mismatch", "resolved", "retired"): 40}
    assert audited(tmp_path, "r2") == {"orders": table | retired, "days": partitions | retired}
    results = Results(Location.parse(f"{tmp_path}/results"), Clients(), "shop")
    found = [row for batch in results.findings("r2") for row in batch.to_pylist()]
    assert {(row["subject"], row["files"]) for row in found if row["table_name"] == "days"} == {
        ("day=1#size_mismatch", 110),
        ("day=2#overwritten", 130),
    }
    assert [run["run_id"] for run in results.runs()] == ["r2"], "keep: 0s"
    assert results.coverage("r1") == []
    assert audited(tmp_path, "r3") == {"orders": table, "days": partitions}, "what is over goes too"
