"""Patterns of access that lose data, request by request, in stores that keep their word and in those that lag."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any

import pytest

from lakeaudit.checks.hazards.access_hazards import access_hazards, watched_tables
from lakeaudit.checks.hazards.access_patterns import (
    OTHERS,
    PATTERNS,
    PRINCIPALS,
    WatchedTables,
    merge_patterns,
    of_tables,
    patterns,
)
from lakeaudit.config import Lake
from lakeaudit.keys import Location
from lakeaudit.matching.verdicts import finding_policy
from lakeaudit.runtime import duck
from lakeaudit.schemas import REQUEST
from tests.builders.connections import connection
from tests.builders.evidence import BUCKET
from tests.builders.scenario import table

NOON = datetime(2026, 11, 20, 12)  # noqa: DTZ001 - times inside an audit have no zone
ETL = "arn:aws:sts::1:assumed-role/etl"
TABLES = [table().table, table("copy").table]


@dataclass(frozen=True)
class Did:
    """A request, so many seconds after noon."""

    what: str
    key: str
    seconds: float
    by: str = f"{ETL}/run-1"
    status: int = 200
    version: str | None = None

    def row(self, number: int) -> tuple[Any, ...]:
        at = NOON + timedelta(seconds=self.seconds)
        ok = 200 <= self.status < 300
        return ("e", BUCKET, self.key, self.version, self.what, at, None, self.by, f"R{number}", self.what, None,
                self.status, ok, None)  # fmt: skip


def finding_rows(did: Iterable[Did], *, weak: bool = False, shares: int = 1) -> list[dict[str, Any]]:
    """Return FINDINGS rows for these requests; the keys are spread over `shares` shares."""
    con = connection()
    rows = duck.small(REQUEST, [each.row(n) for n, each in enumerate(did)])
    watch = WatchedTables({t.location: t.name for t in TABLES}, (BUCKET,) if weak else ())
    told: list[dict[str, Any]] = []
    of_kind = {kind: duck.hold(con, seen) for kind, seen in of_tables(watch, con, rows)}
    for share in range(shares):
        mine = {
            kind: duck.query(con, f"SELECT * FROM input WHERE hash({by}) % {shares} = {share}", input=seen)
            for kind, seen in of_kind.items()
            for by in ["bucket, folder" if kind == "folder_accesses" else "bucket, key"]
        }
        told += [row for _, answer in patterns(con, mine) for row in duck.rows_of(duck.relation(con, answer))]
    return list(access_hazards(con, told, TABLES, finding_policy(TABLES, (), date(2026, 11, 20))))


def kinds(did: Iterable[Did], *, weak: bool = False) -> dict[str, int]:
    """By kind how many files."""
    return {row["kind"]: row["files"] for row in finding_rows(did, weak=weak)}


A, B = "orders/day=1/a.parquet", "orders/day=1/b.parquet"
MARK, POINTER = "orders/_SUCCESS", "orders/_delta_log/_last_checkpoint"
HOUR = 3600
CASES: dict[str, tuple[Sequence[Did], dict[str, int], dict[str, int]]] = {
    # what was done, what it means where storage keeps its word, and where its listings lag
    "files of new names": ([Did("put", A, 0), Did("put", B, HOUR)], {}, {}),
    "a write that is tried again": ([Did("put", A, 0), Did("put", A, 20)], {}, {}),
    "overwritten": ([Did("put", A, 0), Did("put", A, HOUR)], {"overwrite_in_place": 1}, {"overwrite_in_place": 1}),
    "overwritten in parts": (
        [Did("put", A, 0), Did("put", A, HOUR), Did("put", A, 2 * HOUR), Did("put", B, 0), Did("put", B, HOUR)],
        {"overwrite_in_place": 2}, {"overwrite_in_place": 2}),
    "removed and written again": (
        [Did("put", A, 0), Did("delete", A, HOUR), Did("put", A, 2 * HOUR)], {"reused_name": 1}, {"reused_name": 1}),
    "expired and written again": (
        [Did("put", A, 0), Did("expire", A, HOUR), Did("put", A, 2 * HOUR)], {"reused_name": 1}, {"reused_name": 1}),
    "an old version was removed in between": (
        [Did("put", A, 0), Did("delete", A, HOUR, version="v0"), Did("put", A, 2 * HOUR)],
        {"overwrite_in_place": 1}, {"overwrite_in_place": 1}),
    "removed and written within one second": (
        [Did("put", A, 0), Did("delete", A, HOUR), Did("put", A, HOUR)], {}, {}),
    "copied over, as a restore and a re-encryption do": ([Did("put", A, 0), Did("copy", A, HOUR)], {}, {}),
    "a write that was refused": ([Did("put", A, 0), Did("put", A, HOUR, status=403)], {}, {}),
    "markers and pointers, which are written again by design": (
        [Did("put", k, n * HOUR) for k in (MARK, POINTER) for n in range(3)], {}, {}),
    "another place": ([Did("put", "elsewhere/a", 0), Did("put", "elsewhere/a", HOUR)], {}, {}),
    "asked for and then written": (
        [Did("head", A, 0, status=404), Did("put", A, 5)], {}, {"probe_before_put": 1}),
    "asked for long before": ([Did("head", A, 0, status=404), Did("put", A, HOUR)], {}, {}),
    "asked for and there": ([Did("head", A, 0), Did("put", A, 5)], {}, {}),
    "asked for in vain, and written before": (
        [Did("put", A, 0), Did("head", A, HOUR, status=404), Did("put", A, HOUR + 5)],
        {"overwrite_in_place": 1}, {"overwrite_in_place": 1}),
    "listed just after a write": ([Did("put", A, 0), Did("list", "orders/", 5)], {}, {"list_after_put": 1}),
    "listed just after a write, in its partition": (
        [Did("put", A, 0), Did("list", "orders/day=1/", 5)], {}, {"list_after_put": 1}),
    "listed by the beginning of names": (
        [Did("put", A, 0), Did("list", "orders/day=1/a", 5)], {}, {"list_after_put": 1}),
    "listed without the last slash": ([Did("put", A, 0), Did("list", "orders", 5)], {}, {"list_after_put": 1}),
    "another partition is listed": ([Did("put", A, 0), Did("list", "orders/day=2/", 5)], {}, {}),
    "another table is listed": ([Did("put", A, 0), Did("list", "copy/", 5)], {}, {}),
    "listed later": ([Did("put", A, 0), Did("list", "orders/", 120)], {}, {}),
    "listed before": ([Did("list", "orders/", 0), Did("put", A, 5)], {}, {}),
    "read just after it was overwritten": (
        [Did("put", A, 0), Did("put", A, HOUR), Did("get", A, HOUR + 9)],
        {"overwrite_in_place": 1}, {"overwrite_in_place": 1, "stale_read": 1}),
    "read just after it was removed": (
        [Did("delete", A, 0), Did("get", A, 9)], {}, {"stale_read": 1}),
    "sought just after it was removed": ([Did("delete", A, 0), Did("get", A, 9, status=404)], {}, {}),
    "read just after it was first written": ([Did("put", A, 0), Did("get", A, 9)], {}, {}),
    "read long after": ([Did("put", A, 0), Did("put", A, HOUR), Did("get", A, 2 * HOUR)],
                        {"overwrite_in_place": 1}, {"overwrite_in_place": 1}),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_what_requests_mean(name: str) -> None:
    did, strong, weak = CASES[name]
    assert kinds(did) == strong
    assert kinds([*reversed(did)], weak=True) == weak


def test_sessions_of_a_role_are_one_principal_and_samples_are_three() -> None:
    did = [
        Did("put", f"orders/{n}", again * HOUR, f"{ETL}/run-{again}") for n in range(5) for again in range(3)
    ]
    for shares in (1, 4):
        (row,) = finding_rows(did, shares=shares)
        assert (row["subject"], row["files"], row["subject_type"], row["table_name"], row["severity"]) == (
            f"overwrite_in_place#{ETL}", 5, "table", "orders", "info",
        )  # fmt: skip
        assert row["explanation"] == (
            f"{ETL} overwrote 5 files in place, 10 times from 2026-11-20 13:00:00Z to 2026-11-20 14:00:00Z, such as "
            f"s3://{BUCKET}/orders/0, s3://{BUCKET}/orders/1, s3://{BUCKET}/orders/2"
        )


def test_of_very_many_principals_the_last_are_one_row() -> None:
    did = [
        Did("put", f"orders/{n}-{m}", again * HOUR, f"user-{n:03}")
        for n in range(PRINCIPALS + 5)
        for m in range(2 if n < PRINCIPALS else 1)
        for again in range(2)
    ]
    rows = finding_rows(did)
    assert len(rows) == PRINCIPALS + 1
    (rest,) = [row for row in rows if row["cause_principal"] == OTHERS]
    assert (rest["files"], rest["explanation"].startswith(f"{OTHERS} overwrote 5 files in place")) == (
        5,
        True,
    )


def test_requests_that_are_recorded_twice_are_one() -> None:
    con = connection()
    rows = duck.small(
        REQUEST, [Did("put", A, 0).row(1), Did("put", A, 0).row(1), Did("put", A, HOUR).row(2)] * 2
    )
    seen = dict(of_tables(WatchedTables({TABLES[0].location: "orders"}), con, rows))
    (row,) = merge_patterns(
        row for _, told in patterns(con, seen) for row in duck.rows_of(duck.relation(con, told))
    )
    assert (row["files"], row["requests"]) == (1, 1)


def test_keys_are_of_the_innermost_table() -> None:
    con = connection()
    nested = {Location(BUCKET, "orders"): "orders", Location(BUCKET, "orders/day=1"): "inner"}
    places = nested | {Location(BUCKET, f"t{n}"): f"t{n}" for n in range(20)}
    rows = duck.small(REQUEST, [Did("put", A, n * HOUR).row(n) for n in range(2)])
    for tables in (nested, places):
        seen = dict(of_tables(WatchedTables(tables), con, rows))
        told = [row for _, each in patterns(con, seen) for row in duck.rows_of(duck.relation(con, each))]
        assert [row["judged_table"] for row in told] == ["inner"]


def test_nothing_is_watched_where_every_kind_is_off() -> None:
    def lake(*off: str) -> Lake:
        tables = tuple(t.model_copy(update={"severities": dict.fromkeys(off, "off")}) for t in TABLES)
        return Lake(name="l", results=Location("", "r"), tables=tables)

    some, none = lake("stale_read"), lake(*PATTERNS)
    assert watched_tables(some, some.tables) == WatchedTables({t.location: t.name for t in TABLES})
    assert watched_tables(none, none.tables) is None
