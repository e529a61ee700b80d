"""Effects of lifecycle rules on files: sums of shares, outcomes by file, and the parts that are read."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import date, datetime, timedelta
from functools import partial
from typing import Any

import pytest

from lakeaudit.checks.hazards import expiring_files
from lakeaudit.checks.hazards.expiring_files import Hazards, merge
from lakeaudit.checks.hazards.lifecycle_hazards import hazards, needs_logs
from lakeaudit.config.lake import Archived
from lakeaudit.engine.local import InProcessEngine
from lakeaudit.evidence.protocol import Batches, Part, Source
from lakeaudit.evidence.storage.lifecycle import ARCHIVES, DELETES, Action, Lifecycle
from lakeaudit.keys import Location
from lakeaudit.matching.table_facts import TableFacts
from lakeaudit.matching.verdicts import finding_policy
from lakeaudit.runtime.duck import Connection
from tests.builders.connections import connection
from tests.builders.evidence import BUCKET, claim, claims_of
from tests.builders.scenario import table

NOON = datetime(2026, 11, 1, 12)  # noqa: DTZ001 - times inside an audit have no zone
FILES = {"orders": 10, "copy": 4}
TABLES = [table(), table("copy")]
CLAIMS = [
    *(claim(f"orders/d={day}/{n}", partition_path=f"d={day}") for day in (1, 2) for n in range(3)),
    claim("orders/d=1/gone", state="gone", partition_path="d=1"),
    claim("copy/a", "copy"),
]


def action(below: str, rule: str = "old", does: str = DELETES, days: int = 30, **given: Any) -> Action:
    return Action(rule, does, Location(BUCKET, below), days, **given)


class Watched(InProcessEngine):
    """An engine that counts the parts it reads."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[int] = []

    def run(self, rows: Any, *given: Any) -> Any:
        self.asked.append(len(rows))
        return super().run(rows, *given)


def hazards_of(
    *actions: Action,
    unread: str = "",
    facts: Sequence[TableFacts] = TABLES,
    engine: InProcessEngine | None = None,
) -> Hazards:
    """Return the hazards from these lifecycle rules of the lake's bucket."""
    spoken = finding_policy([fact.table for fact in facts], (), date(2026, 11, 20))
    read = claims_of(CLAIMS, ())
    lifecycles = [Lifecycle(BUCKET, actions, unread)]
    return hazards(engine or InProcessEngine(), connection(), facts, [read], lifecycles, spoken, FILES)


ARCHIVED = Archived(expected_after=timedelta(days=365))
PATIENT = [table(archived=ARCHIVED), table("copy", archived=ARCHIVED)]
"""Tables whose files are archived on purpose after a year."""
OUTCOMES: dict[str, tuple[list[Action], dict[str, int]]] = {
    "no rule at all": ([], {"consistent": 10}),
    "a rule below another place": ([action("tmp/")], {"consistent": 10}),
    "a rule below a folder without live files": ([action("orders/d=3/")], {"consistent": 10}),
    "a rule that meets a partition": ([action("orders/d=1/")], {"finding": 3, "consistent": 7}),
    "a rule that meets the table": ([action("orders/")], {"finding": 6, "consistent": 4}),
    "two rules about the same files": ([action("orders/"), action("", "all")], {"finding": 6, "consistent": 4}),
    "two rules about different partitions": (
        [action("orders/d=1/"), action("orders/d=2/", "two")], {"finding": 6, "consistent": 4},
    ),
    "a rule by tags": ([action("orders/", tags=True)], {"undecided": 10}),
    "a rule by tags beside one that is sure": (
        [action("orders/d=1/"), action("", "tagged", tags=True)], {"finding": 3, "undecided": 7},
    ),
    "archived later than the lake file says": ([action("", does=ARCHIVES, days=400)], {"consistent": 10}),
    "of larger files alone": ([action("orders/", larger_than=1 << 30)], {"consistent": 10}),
}  # fmt: skip


@pytest.mark.parametrize("name", OUTCOMES)
def test_every_file_of_a_table_has_one_outcome(name: str) -> None:
    actions, expected = OUTCOMES[name]
    outcomes = {k: n for k, n in hazards_of(*actions, facts=PATIENT).outcomes["orders"].items() if n}
    assert outcomes == expected


def test_rules_that_cannot_be_read_leave_all_files_undecided() -> None:
    threats = hazards_of(unread="access denied")
    assert threats.outcomes == {
        name: {"finding": 0, "ignored": 0, "undecided": n} for name, n in FILES.items()
    }
    assert threats.all_reasons == (f"the lifecycle of s3://{BUCKET} cannot be read: access denied",)


def test_a_finding_a_partition_and_rule() -> None:
    rows = hazards_of(action("orders/"), action("orders/d=1/", "two", ARCHIVES)).rows
    told = [(row["partition_path"], row["subject"], row["files"], row["severity"]) for row in rows]
    assert told == [
        ("d=1", "d=1#will_expire#old#deletes", 3, "error"),
        ("d=2", "d=2#will_expire#old#deletes", 3, "error"),
        ("d=1", "d=1#will_expire#two#archives", 3, "error"),
    ]


QUIET = [
    [],
    [action("tmp/")],
    [action("orders/", tags=True)],
    [action("", does=ARCHIVES, days=400)],
]


@pytest.mark.parametrize("actions", QUIET, ids=["none", "elsewhere", "tags", "on purpose"])
def test_nothing_is_read_where_no_rule_can_concern_a_live_file_by_mistake(actions: list[Action]) -> None:
    engine = Watched()
    hazards_of(*actions, facts=PATIENT, engine=engine)
    assert engine.asked == []
    assert not needs_logs(PATIENT, [Lifecycle(BUCKET, tuple(actions))])


def test_only_what_may_be_about_the_tables_that_a_rule_meets_is_read() -> None:
    read: list[str] = []
    parts = {name: part_of(name) for name in FILES}

    def record_read(name: str, con: Connection) -> Batches:
        read.append(name)
        return parts[name].read(con)

    def rows_of(names: Collection[str]) -> tuple[Source, ...]:
        return (tuple(replace(parts[name], read=partial(record_read, name)) for name in sorted(names)),)

    claims = replace(claims_of(CLAIMS, ()), rows=(), rows_of=rows_of)
    spoken = finding_policy([fact.table for fact in TABLES], (), date(2026, 11, 20))
    lifecycles = [Lifecycle(BUCKET, (action("copy/"),))]
    threats = hazards(InProcessEngine(), connection(), TABLES, [claims], lifecycles, spoken, FILES)
    assert [(row["table_name"], row["files"]) for row in threats.rows] == [("copy", 1)]
    assert read == ["copy"]


def part_of(name: str) -> Part:
    (parts,) = claims_of([row for row in CLAIMS if row["table_name"] == name], ()).rows
    assert isinstance(parts, tuple)
    return parts[0]


def of_share(table_name: str, number: int, partition: str, files: int, hours: int) -> dict[str, Any]:
    sums = {"files": files, "bytes": 10 * files, "records": files, "oldest": NOON + timedelta(hours=hours)}
    return {"table_name": table_name, "number": number, "partition_path": partition} | sums


def test_sums_of_all_shares_are_one_row_a_partition() -> None:
    shares = [
        of_share("orders", 0, "d=1", 2, 5),
        of_share("orders", 0, "d=1", 3, 1),
        of_share("orders", 1, "d=1", 1, 0),
    ]
    told = [(row["number"], row["files"], row["bytes"], row["oldest"]) for row in merge(shares)]
    assert told == [(0, 5, 50, NOON + timedelta(hours=1)), (1, 1, 10, NOON)]


def test_what_is_not_known_of_a_file_is_not_known_of_all() -> None:
    shares = [of_share("orders", 0, "d=1", 2, 5), of_share("orders", 0, "d=1", 3, 1) | {"bytes": None}]
    assert [(row["files"], row["bytes"], row["records"]) for row in merge(shares)] == [(5, None, 5)]


def test_very_many_partitions_are_one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expiring_files, "PARTITIONS", 2)
    rows = list(merge([of_share("orders", 0, f"d={day}", 2, day) for day in range(3)]))
    assert [(row["partition_path"], row["files"], row["oldest"]) for row in rows] == [("", 6, NOON)]
