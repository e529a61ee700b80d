"""The rules by which a run's findings and coverage change each discrepancy of the ledger.

A SETTLE row has all facts about one discrepancy: its ledger row (`l_`), the run's finding (`r_`), the run's resolution
of a subject without a finding (`n_resolution`, `n_live`, `n_evidence_at`), whether it was found as one of many
(`n_folded`), the acceptance under the former name of its table (`p_`), and the observation of its table and axis
(`a_`). The rules are a table as in `rules/file_rules.py`: the first match wins, and its verdict is an action.
"""

from collections.abc import Mapping
from typing import Any

from lakeaudit.rules.expr import Expr, Row, col, evaluate, first_known, latest, lit
from lakeaudit.rules.rule import Rule, judge

NO_CHANGE, SET_PENDING, OPEN, REOPEN, REFRESH = "no_change", "set_pending", "open", "reopen", "refresh"
ESCALATE, RECLASSIFY, RESOLVE, DISCARD = "escalate", "reclassify", "resolve", "discard"

TRANSITIONS = {
    OPEN: "opened",
    REOPEN: "reopened",
    ESCALATE: "escalated",
    RECLASSIFY: "reclassified",
    RESOLVE: "resolved",
}
"""Transitions by action; any other action changes the ledger without a transition."""

FACTS: dict[str, Expr] = {
    name: fact.sure()
    for name, fact in {
        "audited": col("a_audited"),
        "complete": col("a_complete"),
        "known": col("l_state").is_known(),
        "pending": col("l_state").is_("pending"),
        "resolved": col("l_state").is_("resolved"),
        "opened_before": col("l_opened_at").is_known(),
        "found": col("r_evidence_at").is_known(),
        "confirmed": col("r_confirmed"),
        "newer": col("r_evidence_at") > col("l_last_evidence_at"),
        # a live check has refuted evidence of its table and axis that is as old as the first evidence for it
        "refuted": col("a_refuted_at") >= col("l_last_evidence_at"),
        "worse": col("l_rank") > col("r_rank"),
        "other": col("r_kind").differs(col("l_kind")) | col("r_severity").differs(col("l_severity")),
        "grown": col("r_grown"),
        "accepted": col("l_ack_until") > col("now"),
        "larger": col("r_larger"),
        "much_larger": col("r_much_larger"),
        # losses and faults are accepted as they are; so are files that may be the only remains of a lost commit
        "accepted_as_it_is": col("l_severity").among("critical", "error") | col("l_kind").is_("uncommitted"),
        "accepted_within": col("l_severity").is_("warning"),
        "answered": col("n_resolution").is_known(),
        # its file was found as one of many, which one open discrepancy covers
        "folded": col("n_folded") & (col("n_evidence_at") > col("l_last_evidence_at")),
        "answered_live": col("n_live"),
        # the snapshot window began, less its margin, after the discrepancy was last found
        "observed_since": col("a_edge") > latest(col("l_last_evidence_at"), col("l_found_at")),
    }.items()
}


def _rule(name: str, when: str, action: str, because: str) -> Rule:
    return Rule(f"settle.{name}", tuple(when.split()), action, because)


RULES = (
    _rule("not_audited", "!audited", NO_CHANGE, "this run did not judge its table and axis, or a newer one has"),
    _rule("new", "found !known !confirmed", SET_PENDING, "one snapshot alone may be wrong"),
    _rule("new_confirmed", "found !known", OPEN, "found for the first time, and it needs no second snapshot"),
    _rule("stale", "found resolved !newer", NO_CHANGE, "the evidence is not newer than its resolution"),
    # also within the margin of the source, where the snapshot may show the state before the resolution: never silent
    _rule("back", "found resolved !confirmed", SET_PENDING, "found again by one snapshot"),
    _rule("back_confirmed", "found resolved opened_before", REOPEN, "found again, and it needs no second snapshot"),
    _rule("late", "found resolved", OPEN, "found again and confirmed; it was not reported before"),
    _rule("same_cut", "found pending !confirmed !newer", NO_CHANGE, "a snapshot does not confirm itself"),
    _rule("refuted", "found pending !confirmed refuted", SET_PENDING,
          "a live check has refuted such evidence since: this snapshot is the first"),
    _rule("again", "found pending opened_before", REOPEN, "confirmed by a live check or a second snapshot"),
    _rule("second", "found pending", OPEN, "confirmed by a live check or a second snapshot"),
    _rule("older", "found !newer", NO_CHANGE, "the snapshot is not newer"),
    _rule("worse", "found worse", ESCALATE, "its severity is higher now"),
    _rule("other", "found other", RECLASSIFY, "its kind or severity is different now"),
    _rule("outgrown", "found accepted larger accepted_as_it_is", ESCALATE,
          "it became larger or has other files since it was accepted"),
    _rule("far_outgrown", "found accepted much_larger accepted_within", ESCALATE,
          "since it was accepted, it became larger by more than the lake file allows"),
    # the ledger keeps the amounts that were accepted, so that growth is measured from them
    _rule("within", "found accepted larger accepted_within", NO_CHANGE, "it grew by less than was accepted"),
    _rule("grown", "found grown", REFRESH, "its files, rows, bytes, cause or owner are others now"),
    _rule("still", "found", NO_CHANGE, "nothing changed"),
    _rule("nothing", "!known", NO_CHANGE, "it was never found"),
    _rule("closed", "resolved", NO_CHANGE, "it stays resolved"),
    _rule("discard_folded", "pending folded", DISCARD, "it was not reported, and another discrepancy includes it now"),
    _rule("folded", "folded", RESOLVE, "one discrepancy of its table or partition includes it now"),
    _rule("unanswered", "!answered", NO_CHANGE, "it was not judged: a missing finding proves nothing"),
    _rule("discard_live", "pending answered_live", DISCARD, "it was not reported before it disappeared"),
    _rule("live", "answered_live", RESOLVE, "a live check no longer shows it"),
    _rule("partial", "!complete", NO_CHANGE, "only a complete audit of the table may resolve it"),
    _rule("too_early", "!observed_since", NO_CHANGE, "the snapshot began before it was last found"),
    _rule("discard", "pending", DISCARD, "it was not reported before it disappeared"),
    _rule("resolve", "", RESOLVE, "a later storage snapshot no longer shows it"),
)  # fmt: skip

ENDED_BY_CUT = frozenset(("settle.discard", "settle.resolve"))
"""Rules that apply only if no newer evidence than the ledger's found it: `l_found_at` is loaded only for these."""

_NOTHING = lit(None)
FOUND = (SET_PENDING, OPEN, REOPEN, ESCALATE, RECLASSIFY, REFRESH)
"""Actions after which the ledger row shows the run's finding."""
_ENDS_ACCEPTANCE = (SET_PENDING, REOPEN, ESCALATE, RECLASSIFY)
"""Actions after which an earlier acceptance does not apply any more."""
_ENDED = (RESOLVE, DISCARD)


def _ack_changes(name: str) -> dict[str, Expr]:
    """Return an acknowledgement's column after each action; a renamed table takes it over from its former name."""
    former, own = col(f"p_{name}"), col(f"l_{name}")
    return dict.fromkeys(_ENDS_ACCEPTANCE, _NOTHING) | {
        SET_PENDING: former,
        REOPEN: former,
        OPEN: first_known(former, own),
    }


NEXT: dict[str, dict[str, Expr]] = {
    "state": {SET_PENDING: lit("pending")}
    | dict.fromkeys((OPEN, REOPEN, ESCALATE, RECLASSIFY), lit("open"))
    | dict.fromkeys(_ENDED, lit("resolved")),
    "kind": dict.fromkeys(FOUND, col("r_kind")),
    "severity": dict.fromkeys(FOUND, col("r_severity")),
    "first_seen_at": dict.fromkeys(FOUND, first_known(col("l_first_seen_at"), col("r_evidence_at"))),
    "last_evidence_at": dict.fromkeys(FOUND, col("r_evidence_at"))
    | dict.fromkeys(_ENDED, col("n_evidence_at")),
    "opened_at": dict.fromkeys((OPEN, REOPEN), col("now")),
    "resolved_at": dict.fromkeys(FOUND, _NOTHING) | dict.fromkeys(_ENDED, col("now")),
    "resolution": dict.fromkeys(FOUND, _NOTHING) | dict.fromkeys(_ENDED, col("n_resolution")),
    "reopened": {OPEN: first_known(col("l_reopened"), 0), REOPEN: first_known(col("l_reopened"), 0) + lit(1)},
    "first_run_id": dict.fromkeys(FOUND, first_known(col("l_first_run_id"), col("run_id"))),
    "last_run_id": dict.fromkeys((*FOUND, *_ENDED), col("run_id")),
    **{name: _ack_changes(name) for name in ("ack_by", "ack_reason", "ack_until")},
}
"""Ledger columns after an action; all others keep the value of the ledger row."""


def action_of(row: Row) -> Rule:
    """Return the rule that decides a SETTLE row."""
    return judge(RULES, {name: bool(evaluate(fact, row)) for name, fact in FACTS.items()})


def settled(row: Row) -> dict[str, Any]:
    """Return the ledger columns of a SETTLE row after its action."""
    action = action_of(row).verdict
    return {name: _after(row, name, changes, action) for name, changes in NEXT.items()}


def _after(row: Row, name: str, changes: Mapping[str, Expr], action: str) -> Any:
    return evaluate(changes[action], row) if action in changes else row[f"l_{name}"]
