"""The states of a discrepancy: by a table, and over random histories compared with the true state."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeaudit.kinds import SEVERITIES
from lakeaudit.ledger.settle import NEXT, RULES, TRANSITIONS, action_of, settled


def at(hour: float | None) -> datetime | None:
    return None if hour is None else datetime(2026, 11, 1, tzinfo=UTC) + timedelta(hours=hour)


HELD: dict[str, dict[str, Any]] = {
    "nothing": dict.fromkeys(NEXT),
    "pending": {"state": "pending", "last_evidence_at": at(10)},
    "pending again": {"state": "pending", "last_evidence_at": at(10), "opened_at": at(2)},
    "open": {"state": "open", "last_evidence_at": at(10), "opened_at": at(11)},
    "resolved": {"state": "resolved", "last_evidence_at": at(10), "opened_at": at(2), "resolved_at": at(11)},
    "discarded": {"state": "resolved", "last_evidence_at": at(10), "resolved_at": at(11)},
}
"""Evidence is of 10 o'clock."""


def row(held: str, **given: Any) -> dict[str, Any]:
    """A SETTLE row of a complete run at 40 o'clock, whose cut began at 36, with a margin of an hour."""
    known = (
        {"kind": "dropped", "severity": "error", "reopened": 0, "first_seen_at": at(1)}
        if held != "nothing"
        else {}
    )
    ledger = dict.fromkeys(NEXT) | known | HELD[held]
    rest = dict.fromkeys(("l_found_at", "l_rank", "r_rank", "n_resolution", "n_evidence_at"))
    rest |= dict.fromkeys(("r_evidence_at", "r_confirmed", "r_kind", "r_severity"))
    rest |= {
        "r_grown": False,
        "r_larger": False,
        "r_much_larger": False,
        "n_live": False,
        "n_folded": False,
        "a_audited": True,
        "a_complete": True,
        "a_edge": at(35),
        "a_refuted_at": None,
    }
    rest |= {"now": at(40), "run_id": "r"} | dict.fromkeys(("p_ack_by", "p_ack_reason", "p_ack_until"))
    return ranked({f"l_{name}": value for name, value in ledger.items()} | rest | given)


def ranked(row: dict[str, Any]) -> dict[str, Any]:
    """The row with the ranks of its severities, 0 for the worst."""
    ranks = {
        f"{side}_rank": SEVERITIES.index(row[f"{side}_severity"]) for side in "lr" if row[f"{side}_severity"]
    }
    return row | ranks


def finding(
    cut: float = 36, *, confirmed: bool = False, kind: str = "dropped", severity: str = "error"
) -> dict[str, Any]:
    return {"r_evidence_at": at(cut), "r_confirmed": confirmed, "r_kind": kind, "r_severity": severity}


ACCEPTED = {"l_ack_until": at(99), "l_ack_by": "ann"}
LARGER = {"r_grown": True, "r_larger": True}
WARNED = finding(severity="warning") | {"l_severity": "warning"}
UNCOMMITTED = {"l_kind": "uncommitted", "r_kind": "uncommitted"}
LIVE = finding(40, confirmed=True)
FINE = {"n_resolution": "restored", "n_evidence_at": at(36)}
FINE_NOW = {"n_resolution": "restored", "n_evidence_at": at(40), "n_live": True}
FOLDED = {"n_resolution": "retired", "n_evidence_at": at(36), "n_folded": True}

TABLE: list[tuple[str, dict[str, Any], str]] = [
    ("nothing", finding(), "new"),
    ("nothing", LIVE, "new_confirmed"),
    ("nothing", LIVE | {"a_audited": False}, "not_audited"),
    ("nothing", LIVE | {"a_complete": False}, "new_confirmed"),
    ("pending", finding(10), "same_cut"),
    ("pending", finding(), "second"),
    ("pending", LIVE, "second"),
    ("pending", finding(10, confirmed=True), "second"),
    ("pending", finding() | {"a_refuted_at": at(10)}, "refuted"),
    ("pending", finding() | {"a_refuted_at": at(9)}, "second"),
    ("pending", finding(10) | {"a_refuted_at": at(20)}, "same_cut"),
    ("pending", LIVE | {"a_refuted_at": at(20)}, "second"),
    ("pending again", finding() | {"a_refuted_at": at(20)}, "refuted"),
    ("open", finding() | {"a_refuted_at": at(20)}, "still"),
    ("resolved", finding() | {"a_refuted_at": at(20)}, "back"),
    ("pending again", LIVE, "again"),
    ("pending again", finding(), "again"),
    ("open", finding(), "still"),
    ("open", LIVE, "still"),
    ("open", finding(9, kind="size_mismatch", severity="critical"), "older"),
    ("open", finding(severity="critical"), "worse"),
    ("open", finding(severity="warning"), "other"),
    ("open", finding() | {"r_grown": True}, "grown"),
    ("open", finding(10) | {"r_grown": True}, "older"),
    ("open", finding() | LARGER | ACCEPTED, "outgrown"),
    ("open", finding(severity="critical") | LARGER | ACCEPTED | {"l_severity": "critical"}, "outgrown"),
    ("open", finding() | LARGER | {"l_ack_until": at(39)}, "grown"),
    ("open", finding() | LARGER, "grown"),
    ("open", finding() | {"r_grown": True} | ACCEPTED, "grown"),
    ("open", WARNED | LARGER | ACCEPTED, "within"),
    ("open", WARNED | LARGER | ACCEPTED | {"r_much_larger": True}, "far_outgrown"),
    ("open", WARNED | LARGER | {"r_much_larger": True}, "grown"),
    ("open", WARNED | ACCEPTED, "still"),
    ("open", WARNED | LARGER | ACCEPTED | UNCOMMITTED, "outgrown"),
    (
        "open",
        finding(severity="info") | LARGER | ACCEPTED | {"l_severity": "info", "r_much_larger": True},
        "grown",
    ),
    ("open", finding(severity="critical") | LARGER | ACCEPTED, "worse"),
    ("open", finding(10) | LARGER | ACCEPTED, "older"),
    ("open", finding(kind="size_mismatch"), "other"),
    ("open", finding(kind="size_mismatch", severity="critical"), "worse"),
    ("resolved", finding(), "back"),
    # within the margin of an hour after the evidence of its resolution
    ("resolved", finding(10.5), "back"),
    ("resolved", finding(10.5, confirmed=True), "back_confirmed"),
    ("discarded", finding(10.5), "back"),
    ("resolved", finding(10), "stale"),
    ("resolved", finding(9), "stale"),
    ("resolved", finding(9, confirmed=True), "stale"),
    ("resolved", LIVE, "back_confirmed"),
    ("discarded", LIVE, "late"),
    ("discarded", finding(), "back"),
    ("nothing", FINE_NOW, "nothing"),
    ("resolved", {}, "closed"),
    ("resolved", FINE_NOW, "closed"),
    ("pending", {}, "unanswered"),
    ("open", {}, "unanswered"),
    ("open", {"a_complete": False}, "unanswered"),
    ("nothing", FOLDED, "nothing"),
    ("resolved", FOLDED, "closed"),
    ("pending", FOLDED, "discard_folded"),
    ("open", FOLDED, "folded"),
    ("open", FOLDED | {"n_live": True, "n_evidence_at": at(40), "a_complete": False}, "folded"),
    ("open", FOLDED | {"a_complete": False}, "folded"),
    ("open", FOLDED | {"a_audited": False}, "not_audited"),
    ("open", FOLDED | {"n_evidence_at": at(10), "a_edge": at(9)}, "too_early"),
    ("pending", FINE_NOW, "discard_live"),
    ("open", FINE_NOW | {"a_complete": False}, "live"),
    ("open", FINE_NOW | {"a_audited": False}, "not_audited"),
    ("open", FINE | {"a_complete": False}, "partial"),
    ("open", FINE | {"a_edge": at(10)}, "too_early"),
    ("open", FINE | {"l_found_at": at(35)}, "too_early"),
    ("open", FINE | {"a_edge": None}, "too_early"),
    ("pending", FINE, "discard"),
    ("open", FINE, "resolve"),
    ("open", FINE | {"n_resolution": "reference_removed"}, "resolve"),
]


@pytest.mark.parametrize(("held", "said", "rule"), TABLE)
def test_each_case_is_decided_by_its_rule(held: str, said: dict[str, Any], rule: str) -> None:
    assert action_of(row(held, **said)).id == f"settle.{rule}"


def test_every_rule_has_its_case() -> None:
    assert {f"settle.{rule}" for _, _, rule in TABLE} == {rule.id for rule in RULES}


@pytest.mark.parametrize(("held", "said", "_rule"), TABLE)
def test_the_same_run_again_changes_and_reports_nothing(held: str, said: dict[str, Any], _rule: str) -> None:
    """So a run that was killed after some of its rows were written can be run again."""
    given = row(held, **said)
    once = settled(given)
    again = ranked(given | {f"l_{name}": value for name, value in once.items()})
    assert (settled(again), action_of(again).verdict) == (once, "no_change")


# --- random histories --------------------------------------------------------------------------------------

KINDS = (None, ("size_mismatch", "warning"), ("dropped", "critical"))
"""The states of a file: intact, or one of two faults."""


@dataclass
class Run:
    """An audit: the start of its evidence and its margin, in hours before it; and its abilities."""

    age: int
    margin: int
    picture: int
    live: bool
    complete: bool
    decided: bool


@dataclass
class History:
    """A file's true state by the hour, the ledger's one row, and its transitions."""

    truth: list[int] = field(default_factory=lambda: [0])
    ledger: dict[str, Any] = field(default_factory=lambda: dict.fromkeys(NEXT))
    told: list[str] = field(default_factory=list)
    found_at: int | None = None
    seen_bad: int = -1

    @property
    def now(self) -> int:
        return len(self.truth) - 1

    def audit(self, run: Run) -> None:
        cut = max(0, self.now - run.age)
        seen = max(0, cut - min(run.picture, run.margin))
        given = row("nothing", now=at(self.now), a_edge=at(cut - run.margin), a_complete=run.complete)
        given |= {f"l_{name}": value for name, value in self.ledger.items()} | {
            "l_found_at": at(self.found_at)
        }
        given = ranked(given | self._resolution(run, cut, seen))
        rule = action_of(given)
        self._check(rule.verdict, given, run)
        self.ledger = settled(given)
        if given["r_evidence_at"] is not None:
            hour = self.now if given["r_confirmed"] else cut
            self.found_at = max(hour, -1 if self.found_at is None else self.found_at)
            self.seen_bad = max(self.seen_bad, self.now if given["r_confirmed"] else seen)
        if rule.verdict in TRANSITIONS:
            self.told.append(TRANSITIONS[rule.verdict])

    def _resolution(self, run: Run, cut: int, seen: int) -> dict[str, Any]:
        """The live check runs for files that the snapshot shows as wrong, and for open ones."""
        asked = run.live and (self.truth[seen] != 0 or self.ledger["state"] in ("open", "pending"))
        state = KINDS[self.truth[self.now if asked else seen]]
        if state is not None:
            return finding(self.now if asked else cut, confirmed=asked, kind=state[0], severity=state[1])
        if asked:
            return FINE_NOW | {"n_evidence_at": at(self.now)}
        return FINE | {"n_evidence_at": at(cut)} if run.decided else {}

    def _check(self, action: str, given: dict[str, Any], run: Run) -> None:
        if action in ("resolve", "discard"):
            assert 0 in self.truth[self.seen_bad + 1 :], "resolved, and it never was well since"
            assert given["n_live"] or run.complete
        if action in ("open", "reopen") and given["r_confirmed"]:
            assert self.truth[self.now] != 0, "told of a file that is well"


runs = st.builds(
    Run,
    age=st.integers(0, 6), margin=st.integers(0, 3), picture=st.integers(0, 3),
    live=st.booleans(), complete=st.booleans(), decided=st.booleans(),
)  # fmt: skip
steps = st.lists(st.one_of(st.integers(0, 2), runs), max_size=40)


@settings(max_examples=500)
@given(steps)
def test_random_histories(history: list[int | Run]) -> None:
    """An integer is an hour with the file in that state."""
    lived = History()
    for step in history:
        if isinstance(step, Run):
            lived.audit(step)
            check_row(lived)
        else:
            lived.truth.append(step)
    check_transitions(lived.told)


def check_row(lived: History) -> None:
    held = lived.ledger
    if held["state"] is None:
        assert lived.told == []
        return
    assert held["first_seen_at"] <= held["last_evidence_at"] <= at(lived.now)
    assert (
        (held["resolved_at"] is not None) == (held["state"] == "resolved") == (held["resolution"] is not None)
    )
    assert (held["opened_at"] is not None) == bool(lived.told)
    assert (held["reopened"] or 0) == lived.told.count("reopened")


def check_transitions(told: list[str]) -> None:
    """Opened once, first; resolved only what is open; reopened only what is resolved."""
    is_open = False
    for number, word in enumerate(told):
        assert (word == "opened") == (number == 0)
        assert is_open == (word in ("escalated", "reclassified", "resolved"))
        is_open = word != "resolved"
