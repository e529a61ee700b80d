"""A month of nights at a lake of 500 tables: the messages of each night, as one receiver reads them."""

import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lakeaudit.alerts.dispatch import round_of
from lakeaudit.alerts.notice_rows import AlertContext
from lakeaudit.config import load_lake
from lakeaudit.keys import Location
from lakeaudit.results.read import Results, Row
from lakeaudit.runtime.connections.aws import Clients
from tests.builders.catcher import Catcher, catching
from tests.builders.results import LAKE, covered, discrepancy, finding, lake_file, publish, run, transition

pytestmark = pytest.mark.variant

FIRST = datetime.fromisoformat("2026-11-01T05:00:00+00:00")
OWNERS = [{"match": f"{owner}.*", "owner": owner} for owner in ("sales", "finance", "logistics", "web")]
TABLES = [f"{entry['owner']}.t{n:03}" for entry in OWNERS for n in range(125)]
UNREAD = (
    "no storage source could be read (s3://audit-inventory/lake/daily: no complete inventory report made by "
    "{}; wait for its manifest.checksum, or correct the location)"
)


@dataclass
class Month:
    """The open discrepancies by (table, kind), and the messages of each night."""

    folder: Path
    caught: Catcher
    open: dict[tuple[str, str], Row] = field(default_factory=dict)
    messages: dict[int, list[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.place = Location.parse(str(self.folder / "results"))
        tables = [{"name": t, "location": f"s3://lake/{t}", "manifests": [{"kind": "delta"}]} for t in TABLES]
        route = {"kind": "apprise", "url_env": "TO", "repeat": "7d"}
        self.file = lake_file(self.folder, self.place, tables=tables, alerts=[route], owners=OWNERS,
                              dashboard_url="https://lakeaudit.example.com")  # fmt: skip

    def night(
        self, number: int, new: Mapping[tuple[str, str], Row] = {}, over: Iterator[tuple[str, str]] | tuple[()] = (),
        status: str = "complete", error: str | None = None,
    ) -> None:  # fmt: skip
        """Publish the audit of a night with these changes, and send its alerts."""
        at, id_ = FIRST + timedelta(days=number), f"night-{number:02}"
        ended = {each: self.open.pop(each) for each in over}
        self.open |= new
        shutil.rmtree(Path(self.place.join("discrepancies").spark_path), ignore_errors=True)
        rows = [(row, "open", id_ if each in new else "earlier") for each, row in self.open.items()]
        rows += [(row, "resolved", id_) for row in ended.values()]
        publish(
            self.place, runs=[run(id_, status, finished_at=at, error=error)],
            coverage=[covered(run_id=id_, table_name=name) for name in TABLES],
            discrepancies=[discrepancy(row, state, last_run_id=last, opened_at=at, first_seen_at=row["cause_at"] or at,
                                       resolution="restored" if state == "resolved" else None)
                           for row, state, last in rows],
            transitions=[transition(row, how, run_id=id_, transition_id=f"{id_}{row['table_name']}{row['kind']}")
                         for rows, how in ((new, "opened"), (ended, "resolved")) for row in rows.values()],
        )  # fmt: skip
        self.send(number, at)

    def send(self, number: int, at: datetime) -> None:
        """Send what is due at a time, and keep the messages."""
        before = len(self.caught.posts)
        env = {"TO": f"json://127.0.0.1:{self.caught.port}/"}
        results = Results(self.place, Clients(), LAKE)
        lake = load_lake(self.file, {})
        footer = "Run commands on etl-1, where the lake file has this path"
        round_of(
            AlertContext(
                lake, "/opt/lakes/shop.yaml", results, Clients(), env, at + timedelta(minutes=9), footer
            )
        )
        self.messages.setdefault(number, []).extend(
            f"{post['title']}\n\n{post['message']}" for post in self.caught.posts[before:]
        )


def at(number: int) -> datetime:
    return FIRST + timedelta(days=number)


def dropped(table: str, night: int, **columns: Any) -> Row:
    known: dict[str, Any] = {"rows_at_stake": 8_000, "bytes_at_stake": 12 << 20, "recoverable": "yes",
             "recoverable_until": at(night + 7), "recovery": "delete_marker", "recovery_version_id": "v1",
             "storage_version_id": "m1", "cause": "expired by a lifecycle rule", "cause_at": at(night - 1)}  # fmt: skip
    return finding("dropped", f"{table}/day=2026-11-0{night % 9}/part-0", table_name=table,
                   partition_path=f"day=2026-11-0{night % 9}", **(known | columns))  # fmt: skip


def blind(table: str, night: int) -> Row:
    return finding("coverage_lost", table, table_name=table, axis="coverage", subject_type="table", severity="error",
                   cause=UNREAD.format(f"{at(night):%Y-%m-%dT%H:%MZ}"), cause_at=at(night - 1), files=9)  # fmt: skip


def stale(table: str) -> Row:
    return finding("stale_pointer", f"{table}/metadata", table_name=table, axis="pointer", severity="error",
                   cause_at=at(16),
                   explanation="the catalog names version 7, and the table has version 12")  # fmt: skip


def by_kind(kind: str, rows: list[Row]) -> dict[tuple[str, str], Row]:
    return {(row["table_name"], kind): row for row in rows}


def live_through(month: Month) -> None:
    """Run thirty nights."""
    month.night(1)
    month.night(2, by_kind("dropped", [dropped("sales.t000", 2), dropped("finance.t007", 2, cause=None)]))
    month.night(3)
    month.night(4, over=iter([("sales.t000", "dropped"), ("finance.t007", "dropped")]))
    month.night(5, by_kind("coverage_lost", [blind(table, 5) for table in TABLES[:480]]))
    month.night(6)
    month.night(7)
    month.night(8, by_kind("coverage_lost", [blind(table, 8) for table in TABLES[480:]]))
    for quiet in (9, 10, 11):
        month.night(quiet)
    month.night(12, over=iter([(table, "coverage_lost") for table in TABLES]))
    storm = [table for table in TABLES if table.endswith(("1", "3", "5"))][:120]
    month.night(13, by_kind("dropped", [dropped(table, 13) for table in storm]))
    month.night(14, over=iter([(table, "dropped") for table in storm[:60]]))
    month.night(15, over=iter([(table, "dropped") for table in storm[60:]]))
    month.night(16)
    month.night(17, by_kind("stale_pointer", [stale(table) for table in TABLES[125:205]]))
    month.night(18, over=iter([(table, "stale_pointer") for table in TABLES[125:204]]))
    month.night(19)
    month.send(21, at(21))  # two nights without an audit: the results store does not answer
    month.night(22, status="failed", error="s3://results: the store does not answer (ConnectTimeoutError)")
    month.night(23)
    month.night(24)
    month.night(25)
    month.night(26, over=iter([(TABLES[204], "stale_pointer")]))
    month.night(27)
    half = "the inventory s3://audit-inventory/lake/daily lacks 61 % of the files of web.t003, but a live check found 0"
    month.night(28, status="suspect", error=f"{half} missing")
    month.night(29)
    month.night(30)


@pytest.fixture(scope="module")
def month(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Month]:
    with catching() as caught:
        lived = Month(tmp_path_factory.mktemp("month"), caught)
        live_through(lived)
        if folder := os.environ.get("LAKEAUDIT_MESSAGES"):
            for number, messages in lived.messages.items():
                (Path(folder) / f"night-{number:02}.txt").write_text(
                    "\n\n=====\n\n".join(messages) or "no message\n"
                )
        yield lived


def test_each_night_has_at_most_one_message_and_quiet_nights_none(month: Month) -> None:
    with_message = {number for number, messages in month.messages.items() if messages}
    assert all(len(messages) <= 1 for messages in month.messages.values())
    assert with_message == {2, 4, 5, 8, 12, 13, 14, 15, 17, 18, 21, 22, 23, 24, 26, 28, 29}


TITLES = {
    2: "CRITICAL: 1 file dropped in finance.t007; CRITICAL: 1 file dropped in sales.t000",
    5: "COVERAGE LOST (error) in 480 tables of 4 owners: no storage source could be read",
    8: "COVERAGE LOST (error) in 20 tables of 1 owner, 500 in all: no storage source could be read",
    12: "RESOLVED: 500 losses of coverage in 500 tables of 4 owners",
    13: "CRITICAL: 120 files dropped in 120 tables of 4 owners, 960,000 rows, recoverable: 120 of 120, until 2026-",
    14: "RESOLVED: 60 files dropped in 60 tables of 2 owners; still open: 60 critical in 60 tables",
    17: "ERROR: 80 stale pointers in 80 tables of 1 owner",
    21: "no audit was published for too long: the last one was published 2026-11-20 05:00:00Z, 2 d",
    22: "the audit failed: s3://results: the store does not answer",
    23: "audits work again",
    24: "STILL OPEN: ERROR: 1 stale pointer in finance.t079",
    28: "the evidence is suspect",
}


@pytest.mark.parametrize("number", TITLES)
def test_the_title_of_a_night_states_the_problem(month: Month, number: int) -> None:
    (message,) = month.messages[number]
    assert message.splitlines()[0].startswith(f"lakeaudit shop: {TITLES[number]}")
