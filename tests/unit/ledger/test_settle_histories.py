"""Random histories of a lake: settling against the book, and at their end the invariants of the ledger gate."""

from collections.abc import Mapping
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from lakeaudit.gates.expectation_suites import check
from lakeaudit.kinds import SEVERITIES
from lakeaudit.ledger.settle import NEXT, TRANSITIONS, action_of, settled
from tests.builders import book
from tests.builders.book import Look, RunFinding, Word

QUICK, SOAK = 25, 500
FILES = {"a": "orders", "b": "orders", "c": "customers"}
"""Each file's table."""
WELL = None
STATES = (WELL, ("size_mismatch", "warning"), ("dropped", "critical"), ("dropped", "error"))
HOURS = st.integers(0, 5)
CRASHES = (None, None, None, "before", "told")
"""A run may end before it writes anything of the ledger, or when only its transitions are written."""


def at(hour: float) -> datetime:
    return datetime(2026, 11, 1, tzinfo=UTC) + timedelta(hours=hour)


class Histories(RuleBasedStateMachine):
    """Hours pass and files change; audits see an older picture, or the present, and some of them crash."""

    def __init__(self) -> None:
        super().__init__()
        self.truth: list[dict[str, Any]] = [dict.fromkeys(FILES, WELL)]
        self.ledger: dict[str, dict[str, Any]] = {}
        self.book: dict[str, book.Entry] = {}
        self.transitions: set[tuple[str, str, str]] = set()
        self.told: list[tuple[str, str]] = []
        self.found_at: dict[str, datetime] = {}
        self.runs = 0
        self.crashed = False

    @property
    def now(self) -> int:
        return len(self.truth) - 1

    @rule(file=st.sampled_from(sorted(FILES)), state=st.sampled_from(STATES))
    def an_hour_passes(self, file: str, state: tuple[str, str] | None) -> None:
        self.truth.append(self.truth[-1] | {file: state})

    @rule(
        age=HOURS, margin=st.integers(0, 3), picture=st.integers(0, 3), live=st.booleans(), grown=st.booleans(),
        complete=st.booleans(), judged=st.sets(st.sampled_from(("orders", "customers")), min_size=1),
        crash=st.sampled_from(CRASHES), again=st.booleans(),
    )  # fmt: skip
    def an_audit(
        self, age: int, margin: int, picture: int, *, live: bool, grown: bool, complete: bool, judged: set[str],
        crash: str | None, again: bool,
    ) -> None:  # fmt: skip
        """One after a crash may be the same run once more, or the next one."""
        self._fail_abandoned_run()
        self.runs += not (self.crashed and again)
        cut = max(0, self.now - age)
        seen = max(0, cut - min(picture, margin))
        run = book.Run(f"run-{self.runs}", at(self.now))
        rows, told, entries, spoken = {}, set(), {}, []
        for file, table in FILES.items():
            look = Look(table in judged, complete, at(cut - margin))
            said = (
                self._result_for(file, cut, seen, live=live and look.judged, grown=grown)
                if look.judged
                else None
            )
            row = self._row(file, run, look, said)
            action = action_of(row).verdict
            if action != "no_change":
                rows[file] = settled(row)
            if action in TRANSITIONS:
                told.add((run.id, file, TRANSITIONS[action]))
            entry, word = book.settle(self.book.get(file), run, look, said, self.found_at.get(file))
            entries[file] = entry
            spoken += [(file, word)] if word else []
            if isinstance(said, RunFinding) and crash != "before":
                self.found_at[file] = max(said.at, self.found_at.get(file, said.at))
        self.crashed = crash is not None
        if crash != "before":
            self.transitions |= told
        if not crash:
            self.ledger |= rows
            self.book |= {file: entry for file, entry in entries.items() if entry}
            self.told += spoken

    @precondition(lambda self: any(row["state"] == "open" for row in self.ledger.values()))
    @rule(data=st.data())
    def a_person_accepts_one(self, data: st.DataObject) -> None:
        file = data.draw(
            st.sampled_from(sorted(f for f, row in self.ledger.items() if row["state"] == "open"))
        )
        held = replace(self.book[file], ack_by="ann", ack_reason="known", ack_until=at(self.now + 9))
        self.book[file] = held
        self.ledger[file] |= {name: value for name, value in asdict(held).items() if name.startswith("ack_")}

    @invariant()
    def the_ledger_says_what_the_book_says(self) -> None:
        assert self.ledger == {file: asdict(entry) for file, entry in self.book.items()}

    def teardown(self) -> None:
        self._fail_abandoned_run()
        assert sorted((file, word) for _, file, word in self.transitions) == sorted(self.told)
        profile = [*map(_profile, self.ledger.values()), {"subject": "all", "state": "open", "repeated": 0}]
        assert check("ledger", profile) == []

    def _fail_abandoned_run(self) -> None:
        """Transitions of a run that the ledger never knew never happened."""
        if self.crashed:
            known = {(row["last_run_id"], file) for file, row in self.ledger.items()}
            self.transitions = {t for t in self.transitions if t[:2] in known or t[0] != f"run-{self.runs}"}

    def _result_for(self, file: str, cut: int, seen: int, *, live: bool, grown: bool) -> RunFinding | Word:
        """Return the result for a file; the live check covers files that are wrong in the snapshot, and open ones."""
        unresolved = self.ledger.get(file, {}).get("state") in ("open", "pending")
        asked = live and (self.truth[seen][file] is not WELL or unresolved)
        state = self.truth[self.now if asked else seen][file]
        when = at(self.now if asked else cut)
        if state is WELL:
            return Word("restored", when, live=asked)
        kind, severity = state
        return RunFinding(kind, severity, when, confirmed=asked, grown=grown)

    def _row(self, file: str, run: book.Run, look: Look, said: RunFinding | Word | None) -> dict[str, Any]:
        """The SETTLE row of the file."""
        held = self.ledger.get(file) or dict.fromkeys(NEXT)
        found = said if isinstance(said, RunFinding) else None
        word = said if isinstance(said, Word) else None
        rank = SEVERITIES.index
        return {f"l_{name}": value for name, value in held.items()} | {
            "l_found_at": self.found_at.get(file),
            "l_rank": rank(held["severity"]) if held["severity"] else None,
            "r_rank": rank(found.severity) if found else None,
            "r_kind": found and found.kind, "r_severity": found and found.severity,
            "r_evidence_at": found and found.at,
            "r_confirmed": bool(found and found.confirmed), "r_grown": bool(found and found.grown), "r_larger": False,
            "r_much_larger": False,
            "n_resolution": word and word.resolution, "n_evidence_at": word and word.at,
            "n_live": bool(word and word.live), "n_folded": False,
            "a_audited": look.judged, "a_complete": look.complete, "a_edge": look.edge, "a_refuted_at": None,
            "now": run.now, "run_id": run.id, **dict.fromkeys(("p_ack_by", "p_ack_reason", "p_ack_until")),
        }  # fmt: skip


def _profile(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns of one row that the gate reads."""
    ended = row["resolved_at"] is not None and row["resolution"] is not None
    begun = row["resolved_at"] is None and row["resolution"] is None
    acks = sum(row[name] is not None for name in ("ack_by", "ack_reason", "ack_until"))
    wrong = {
        "ill_resolved": not (ended if row["state"] == "resolved" else begun),
        "never_opened": row["state"] == "open" and row["opened_at"] is None,
        "backwards": row["last_evidence_at"] < row["first_seen_at"],
        "ill_accepted": acks not in (0, 3),
        "ill_reopened": bool(row["reopened"]) and row["opened_at"] is None,
    }
    return {"subject": "a row", "state": row["state"]} | {name: int(broken) for name, broken in wrong.items()}


def _settings(histories: int) -> settings:
    return settings(max_examples=histories, stateful_step_count=40, deadline=None,
                    suppress_health_check=list(HealthCheck))  # fmt: skip


@pytest.mark.parametrize("histories", [QUICK, pytest.param(SOAK, marks=pytest.mark.soak)])
def test_settling_agrees_with_the_book(histories: int) -> None:
    from hypothesis.stateful import run_state_machine_as_test

    run_state_machine_as_test(Histories, settings=_settings(histories))
