"""The fifteen questions of the documents, answered by DuckDB over ten days of hand-made results.

r1 and r2 were published ten and nine days ago, r3 (suspect) two days ago, and r4 yesterday; then a run failed.
"""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lakeaudit.config import load_lake
from lakeaudit.keys import Location
from lakeaudit.results.read import Results
from lakeaudit.results.summaries.verified_tables import current_watermarks
from lakeaudit.runtime.connections.aws import Clients
from tests.builders.questions import NAMED, Answers, questions
from tests.builders.results import covered, discrepancy, finding, group, lake_file, publish, run, transition

Row = dict[str, Any]
NOW = datetime.now(UTC).replace(microsecond=0)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
NIGHTS = {name: NOW - days * DAY for name, days in (("r1", 10), ("r2", 9), ("r3", 2), ("r4", 1), ("r5", 0.5))}
"""When the runs judged the lake; their storage snapshots began two hours before."""
CUT = {name: at - 2 * HOUR for name, at in NIGHTS.items()}
GIB = 1 << 30


class HoursSince:
    """Equals the hours from a time until now, within a minute: a query counts them when it runs."""

    def __init__(self, begun: datetime) -> None:
        self._begun = begun

    def __eq__(self, hours: object) -> bool:
        return hours == pytest.approx((datetime.now(UTC) - self._begun) / HOUR, abs=1 / 60)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"the hours since {self._begun}"


def runs() -> list[Row]:
    statuses = {"r1": "complete", "r2": "complete", "r3": "suspect", "r4": "partial", "r5": "failed"}
    of_shop = [
        run(name, status, as_of=NIGHTS[name], finished_at=NIGHTS[name] + HOUR)
        for name, status in statuses.items()
    ]
    return [*of_shop, run("q1", lake="quiet", as_of=NIGHTS["r4"], finished_at=NIGHTS["r4"])]


def judged(run_id: str, table: str, axis: str = "content", **given: Any) -> Row:
    """Coverage of ten files, all of them consistent."""
    usual: Row = dict.fromkeys(("findings", "ignored", "out_of_window", "undecided", "uncovered"), 0)
    return covered(table, axis, run_id, **(usual | {"storage_cut_from": CUT[run_id]} | given))


COVERAGE = [
    judged("r1", "orders"),
    judged("r1", "events", status="partial", consistent=4, findings=1, undecided=5),
    judged("r1", "events", "leftover"),
    judged("r2", "orders"),
    judged("r2", "events", consistent=8, out_of_window=2),
    judged("r3", "orders"),
    judged("r4", "orders", consistent=6, findings=4),
    judged("r4", "orders", "metastore", status="off", files=0, consistent=0, storage_cut_from=None),
    judged("r4", "zones", status="partial", files=5, consistent=0, undecided=5, reason="the log is torn"),
    judged("r4", "zones", "leftover", status="partial", files=5, consistent=0, undecided=5),
    judged("r4", "events", "leftover", status="partial", consistent=9, undecided=1),
    judged("r4", "events", status="overtaken", storage_cut_from=CUT["r1"]),
]


def loss(
    key: str, table: str, owner: str | None, state: str = "open", kind: str = "dropped", **given: Any
) -> Row:
    """A discrepancy that r4 found first by a live check, and opened."""
    about: Row = {
        "recoverable": "yes",
        "recoverable_until": NOW + 30 * DAY,
        "rows_at_stake": 10,
        "bytes_at_stake": 100,
    }
    first: Row = {"first_seen_at": NIGHTS["r4"], "opened_at": NIGHTS["r4"], "first_run_id": "r4"}
    return discrepancy(finding(kind, key, table_name=table, owner=owner, **about), state, **(first | given))


EARLY: Row = {"first_run_id": "r1", "first_seen_at": CUT["r1"], "opened_at": NIGHTS["r2"]}
A = loss("a", "orders", "ann", rows_at_stake=None, ack_by="ann", ack_until=NOW - DAY)
B = loss(
    "b", "orders", "ann", recoverable_until=NOW + 3 * DAY, rows_at_stake=50,
    cause="DELETE", cause_at=NOW - 3 * DAY, cause_principal="joe",
)  # fmt: skip
C = loss(
    "c", "events", "bob", "resolved", **EARLY, resolved_at=NIGHTS["r2"] + 24 * HOUR, resolution="restored",
    cause="PUT", cause_at=CUT["r1"], cause_principal="joe",
)  # fmt: skip
# retired by the last audit of its table, so that the fault is not one that nobody has looked at again
D = loss(
    "d",
    "events",
    "bob",
    "resolved",
    **EARLY,
    resolved_at=NOW,
    resolution="retired",
    last_run_id="r4",
    recoverable=None,
)
E = loss(
    "e", "orders", "ann", kind="size_mismatch", recoverable_until=NOW + 2 * DAY, cause_at=NOW,
    ack_by="eve", ack_reason="known", ack_until=NOW + 5 * DAY,
)  # fmt: skip
F = discrepancy(
    group("uncommitted", "day=1", 3, table_name="events", owner="bob", discrepancy_id="d-f"),
    **EARLY,
    reopened=3,
)
G = loss("g", "orders", "ann", "pending", opened_at=None)
H = loss(
    "h", "zones", None, rows_at_stake=None, bytes_at_stake=None, recoverable="unknown", recoverable_until=None
)


def changed(row: Row, word: str, run_id: str, number: int = 0) -> Row:
    at = NIGHTS[run_id] if run_id in NIGHTS else NOW - 40 * DAY
    given = {"run_id": run_id, "at": at, "to_severity": row["severity"], "owner": row["owner"]}
    return transition(row, word, transition_id=f"{run_id}-{row['discrepancy_id']}-{number}", **given)


TRANSITIONS = [
    *(changed(row, "opened", "r2") for row in (C, D, F)),
    *(changed(row, "reopened", name) for row, name in ((F, "r0"), (F, "r2"), (F, "r3"))),
    *(changed(row, "opened", "r4") for row in (A, B, E, H)),
]


def audited(name: str, owner: str | None, last: str | None) -> Row:
    first = {"first_run_id": "r1", "first_audited_at": NIGHTS["r1"]} if last else {}
    at = {"last_run_id": last, "last_audited_at": NIGHTS[last]} if last else {}
    return {
        "lake": "shop",
        "table_name": name,
        "owner": owner,
        "location": f"s3://lake/{name}",
        **first,
        **at,
    }


def verified(run_id: str, table: str, through: datetime | None, movement: str, *blocked: str) -> Row:
    return {
        "run_id": run_id, "lake": "shop", "table_name": table, "location": f"s3://lake/{table}",
        "as_of": NIGHTS[run_id], "verified_through": through, "movement": movement,
        "open_discrepancies": 0, "blocked_by": blocked,
    }  # fmt: skip


VERIFIED = [
    verified("r2", "orders", CUT["r2"], "forward"),
    verified("r2", "events", CUT["r2"], "forward"),
    verified("r2", "zones", CUT["r2"], "forward"),
    verified("r4", "orders", CUT["r2"], "same", "d-a"),
    verified("r4", "events", CUT["r4"], "forward"),
    verified("r4", "zones", None, "back", "d-h"),
    verified("r5", "events", NOW, "forward"),  # a failed run does not count
]


def unused(run_id: str, size: int) -> Row:
    return group("uncommitted", "day=1", 3, run_id, table_name="events", bytes_at_stake=size)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("results")
    publish(
        Location.parse(str(place)), runs=runs(), coverage=COVERAGE, discrepancies=[A, B, C, D, E, F, G, H],
        transitions=TRANSITIONS, findings=[unused("r1", 100), unused("r4", 2 * GIB), unused("r4", GIB)],
        tables=[audited("orders", "ann", "r4"), audited("events", "bob", "r4"), audited("zones", None, None)],
        verified=VERIFIED,
    )  # fmt: skip
    return place


@pytest.fixture(scope="module")
def answers(place: Path) -> Answers:
    return Answers(place)


DAYS = {name: at.date() for name, at in NIGHTS.items()}
EXPECTED: dict[str, list[tuple[Any, ...]]] = {
    "1": [("ann", 2, 1, NIGHTS["r4"]), (None, 1, 1, NIGHTS["r4"])],
    # dropped: a was whole at r2, since r3 is suspect and r4 itself found it; b has a cause, c too, d and h nothing
    "2": [
        ("dropped", 5, 3, 1, 48.0, 1, 24.0),
        ("size_mismatch", 1, 1, 1, 8 * 24 + 2.0, 0, None),
        ("uncommitted", 1, 0, 0, None, 0, None),
    ],
    "3": [("events", "bob", "uncommitted", "day=1#uncommitted", "open", 2, NIGHTS["r3"])],
    "3b": [("events", "bob", 2, 1)],
    "4": [
        (DAYS["r1"], "content", 0.75, 1, 1, 0),
        (DAYS["r2"], "content", 1.0, 2, 0, 0),
        (DAYS["r3"], "content", 1.0, 1, 0, 0),
        (DAYS["r4"], "content", 10 / 15, 1, 1, 0),
        (DAYS["r1"], "leftover", 1.0, 1, 0, 0),
        (DAYS["r4"], "leftover", 9 / 15, 0, 2, 0),
        (DAYS["r4"], "metastore", None, 0, 0, 1),
    ],
    "5": [
        (NIGHTS["r4"], "complete", None, None, None, None, None, 0, None),
        (NIGHTS["r4"], "partial", "opened", "critical", "dropped", "orders", "ann", 2, 2),
        (NIGHTS["r4"], "partial", "opened", "critical", "dropped", "zones", None, 1, 1),
        (NIGHTS["r4"], "partial", "opened", "critical", "size_mismatch", "orders", "ann", 1, 1),
    ],
    "6": [("ann", 50, 1, 200, 0, 2), (None, None, 1, None, 1, 1)],
    "7": [
        (NOW + 2 * DAY, "orders", "ann", "size_mismatch", "critical", "s3://lake/e", None, 10, NOW + 5 * DAY),
        (NOW + 3 * DAY, "orders", "ann", "dropped", "critical", "s3://lake/b", None, 50, None),
    ],
    "8": [(NOW + 5 * DAY, "eve", "known", "orders", "ann", "size_mismatch", "critical", "s3://lake/e", 10)],
    "9": [("zones", None, "s3://lake/zones", "partial", "the log is torn", NIGHTS["r4"])],
    "10": [
        ("zones", None, None, None),
        ("events", "bob", CUT["r2"], NIGHTS["r4"]),
        ("orders", "ann", CUT["r4"], NIGHTS["r4"]),
    ],
    "11": [
        ("events", "bob", 100, 3 * GIB, 3 * GIB - 100, pytest.approx(0.069), "partial"),
        ("orders", "ann", None, None, None, None, None),
        ("zones", None, None, None, None, None, None),
    ],
    "12": [
        (None, 3, 3, 10, 3, NOW, NOW, None),
        ("joe", 2, 2, 60, 1, CUT["r1"], NOW - 3 * DAY, "DELETE"),
    ],
    # the ledger as it is now: a, b, g and h have no time of a commit, c and d are resolved, e is accepted
    "13": [
        ("ann", "orders", None, None, 1, 1),
        (None, "zones", None, None, 1, 1),
        ("bob", "events", CUT["r4"], HoursSince(CUT["r4"]), 1, 0),
    ],
    "14": [
        ("orders", "ann", None, NIGHTS["r2"], "dropped", 3, NIGHTS["r4"], "d-a", ["d-a"]),
        ("zones", None, None, NIGHTS["r2"], "dropped", 1, NIGHTS["r4"], "d-h", ["d-h"]),
    ],
    "15": [(NIGHTS["r4"], "zones", None, "opened", "dropped", 1, None, "d-h")],
}


@pytest.mark.parametrize("question", questions())
def test_an_answer(question: str, answers: Answers) -> None:
    assert answers.to(question) == EXPECTED[question]


def test_the_view_of_verified_times_answers_as_the_command(place: Path, answers: Answers) -> None:
    location = Location.parse(str(place))
    tables = [
        {"name": name, "location": f"s3://lake/{name}", "manifests": [{"kind": "delta"}]}
        for name in ("orders", "events", "zones")
    ]
    lake = load_lake(lake_file(place, location, tables=tables), {})
    rows = current_watermarks(Results(location, Clients(), lake.name), lake, NOW)
    seen = {row["table_name"]: row["verified_through"] for row in answers.rows("FROM verified_now")}
    assert seen == {name: row["verified_through"] for name, row in rows.items()}


def test_there_are_fifteen_questions() -> None:
    assert [name.partition(".")[0] for name in NAMED] == [f"## {number}" for number in range(1, 16)]
    assert questions().keys() == EXPECTED.keys()
