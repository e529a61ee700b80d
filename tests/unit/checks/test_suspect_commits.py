"""Commits that are suspected: what a suspicion is made of, which have to be read, and one verdict for each commit."""

from dataclasses import replace
from datetime import date, datetime, timedelta
from typing import Any

import pytest

from lakeaudit.checks.commits.commits import Loss, RewrittenCommit
from lakeaudit.checks.commits.repeated_batches import LiveBatch
from lakeaudit.checks.commits.suspect_commits import (
    Batches,
    ComparedVersions,
    JudgedSuspect,
    Suspect,
    judge_suspects,
    one_a_commit,
    suspects,
)
from lakeaudit.config import Ignore, Table
from lakeaudit.evidence.protocol import CommitFile, CommitLogs, Doubt
from lakeaudit.keys import Location
from lakeaudit.matching.verdicts import FindingPolicy, finding_policy
from tests.builders.connections import connection

NOON = datetime(2026, 11, 20, 12)  # noqa: DTZ001 - times inside an audit have no zone
ORDERS = Location("lake", "orders")
HOUR = timedelta(hours=1)


def file(version: int, table: str = "orders") -> CommitFile:
    place = Location("lake", f"{table}/_delta_log/{version:020}.json")
    return CommitFile(table, Location("lake", table), version, place)


def nothing(*_: Any) -> Any:
    raise AssertionError("nothing is read")


WRITTEN = {("orders", version): NOON + version * HOUR for version in range(10)}
LOGS = CommitLogs(
    {"orders": 0}, {"orders": 9}, lambda table, version: file(version, table),
    lambda table, version: WRITTEN.get((table, version)), nothing, nothing,
)  # fmt: skip


def rewritten(version: int, lost: str = "v1") -> RewrittenCommit:
    where, at = file(version), NOON
    return RewrittenCommit(
        "orders", ORDERS, version, where.place, lost, at, "a", "v9", at + HOUR / 60, "b", sure=True
    )


def doubt(version: int, *, sure: bool = False) -> Doubt:
    return Doubt(file(version), "it is late", sure)


def pair(older: int, younger: int) -> dict[str, Any]:
    times = {"older_at": NOON, "younger_at": NOON + HOUR, "transaction": None, "same_sums": True}
    return {"table_name": "orders", "older": older, "younger": younger, "files": 3, **times}


def test_what_is_suspected_of_one_commit_is_one_suspect() -> None:
    found = suspects([rewritten(4), rewritten(3)], [doubt(4), doubt(2)], [pair(1, 4), pair(4, 5)], LOGS)
    told = [
        (one.file.version, one.other is not None, one.doubt is not None, one.repeats is not None)
        for one in found
    ]
    assert told == [
        (4, True, True, True),
        (3, True, False, False),
        (2, False, True, False),
        (5, False, False, True),
    ]
    assert found[0].written == (NOON + 3 * HOUR, NOON + 5 * HOUR)
    assert found[3].repeats is not None
    assert found[3].repeats.older == file(4)


def test_a_commit_that_lost_two_versions_has_two_suspects() -> None:
    found = suspects([rewritten(4, "v2"), rewritten(4, "v1")], [], [], LOGS)
    assert [one.other.lost_version_id for one in found if one.other] == ["v2", "v1"]


def test_versions_of_a_log_that_was_copied_over_another_are_not_read() -> None:
    race = rewritten(4)
    copied = replace(race, written_at=NOON + 5 * HOUR)
    assert [one.is_rewritten for one in suspects([race], [doubt(3)], [], LOGS)] == [True, False]
    assert [one.is_rewritten for one in suspects([copied], [], [], LOGS)] == [False]


SPOKEN = finding_policy([Table(name="orders", location=ORDERS)], (), date(2026, 11, 20))


def verdicts(*each: Suspect, spoken: FindingPolicy = SPOKEN) -> list[JudgedSuspect]:
    return judge_suspects(connection(), each, spoken)


LOST = ComparedVersions(Loss(2, 10, 5))
KNOWN = [
    (Suspect(file(4)), "commit.sound", None),
    (Suspect(file(4), rewritten(4), compared=LOST), "commit.lost", "critical"),
    (Suspect(file(4), rewritten(4), compared=ComparedVersions()), "commit.sound", None),
    (
        Suspect(file(4), rewritten(4), compared=ComparedVersions(unread="no such key")),
        "commit.unreadable",
        "critical",
    ),
    (
        Suspect(file(4), rewritten(4), compared=ComparedVersions(unread="too many", requested=False)),
        "commit.versions_untold",
        None,
    ),
    (Suspect(file(4), doubt=doubt(4)), "commit.doubted", "warning"),
    (Suspect(file(4), doubt=doubt(4, sure=True)), "commit.proved", "critical"),
]


@pytest.mark.parametrize(("suspect", "rule", "severity"), KNOWN)
def test_what_is_known_of_a_suspect_decides(suspect: Suspect, rule: str, severity: str | None) -> None:
    (found,) = verdicts(suspect)
    assert (found.rule, found.severity) == (rule, severity)


def test_batches_that_are_live_and_not_live() -> None:
    (alike,) = suspects([], [], [pair(1, 4)], LOGS)
    live, gone = LiveBatch(3, 3, 30, 300), LiveBatch(3)
    each = (alike, *(Suspect(alike.file, repeats=alike.repeats, batches=both) for both in (
        Batches(live, live), Batches(gone, live), Batches(live, live, "torn"))))  # fmt: skip
    found = ("batches_untold", "repeated", "sound", "batches_untold")
    assert [one.rule for one in verdicts(*each)] == [f"commit.{name}" for name in found]


def test_a_commit_that_the_lake_file_ignores_is_counted_as_such() -> None:
    ignored = Ignore(paths=("_delta_log/**",), kinds=("overwritten_commit",), reason="known")
    spoken = finding_policy([Table(name="orders", location=ORDERS)], (ignored,), date(2026, 11, 20))
    (found,) = verdicts(Suspect(file(4), rewritten(4), compared=LOST), spoken=spoken)
    assert found.outcome == "ignored"


def test_one_verdict_a_commit_that_of_the_first_rule() -> None:
    whole, lost = (
        Suspect(file(4), rewritten(4), compared=ComparedVersions()),
        Suspect(file(4), rewritten(4), compared=LOST),
    )
    again = Suspect(file(4), rewritten(4, "v0"), compared=LOST)
    other = Suspect(file(3), doubt=doubt(3))
    found = one_a_commit(verdicts(whole, lost, again, other))
    assert [(one.suspect.file.version, one.rule, one.more) for one in found] == [
        (4, "commit.lost", 1),
        (3, "commit.doubted", 0),
    ]
    assert found[0].suspect is lost


def test_why_a_suspect_could_not_be_judged() -> None:
    place = file(4).place.uri
    told = [
        Suspect(file(4), compared=ComparedVersions(unread="gone")).unread,
        Suspect(file(4), compared=ComparedVersions(unread="too many", requested=False)).unread,
        Suspect(file(4), batches=Batches(unread="torn")).unread,
        Suspect(file(4)).unread,
    ]
    assert told == [f"{place} has two versions that cannot be compared: gone", "too many", "torn", ""]
