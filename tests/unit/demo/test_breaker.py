"""The breaker by itself: its reading of logs and rows, the draw, and the comparison with what was found."""

import json
import random
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from lakeaudit.demo import MOST_FAULTS
from lakeaudit.demo.breaker import CATALOGUE, Expected, Fault, NoVictim, Site, break_lake
from lakeaudit.demo.breaker.deltalog import key_of, replay
from lakeaudit.demo.breaker.lake_state import fold_lists
from lakeaudit.demo.compare import compare
from lakeaudit.demo.repairs import RepairOutcome
from lakeaudit.kinds import KINDS

T = "warehouse/t"


def commit(*actions: dict[str, Any]) -> str:
    return "".join(json.dumps(action) + "\n" for action in actions)


def add(path: str, **more: Any) -> dict[str, Any]:
    return {"add": {"path": path, "size": 1} | more}


def remove(path: str, at: int) -> dict[str, Any]:
    return {"remove": {"path": path, "deletionTimestamp": at}}


@pytest.mark.parametrize(
    ("path", "key"),
    [
        ("part-0.parquet", f"{T}/part-0.parquet"),
        ("p=a%20b/x", f"{T}/p=a b/x"),
        ("p=12%253A30/x", f"{T}/p=12%3A30/x"),
        ("p=50%2525+/x", f"{T}/p=50%25+/x"),
        ("s3a://lake/other/x%20y", "other/x y"),
        ("s3://lake/other/x", "other/x"),
    ],
)
def test_a_path_in_a_log_is_decoded_once_and_may_be_absolute(path: str, key: str) -> None:
    assert key_of(T, path) == key


def test_a_log_is_folded_in_order() -> None:
    log = replay(
        T, [(0, commit(add("a"), add("b"), add("c"))), (1, commit(remove("a", 7), remove("b", 7), add("b")))]
    )
    assert (set(log.live), log.removed, log.version) == ({f"{T}/b", f"{T}/c"}, {f"{T}/a": 7}, 1)


def test_a_deletion_vector_names_its_file() -> None:
    vector = {"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^", "offset": 4}
    inline = {"storageType": "i", "pathOrInlineDv": "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L"}
    log = replay(T, [(0, commit(add("x", deletionVector=vector), add("y", deletionVector=inline)))])
    # the example of the Delta protocol: Z85 of d2c639aa-8816-431a-aaf6-d3fe2512ff61 behind the folder "ab"
    assert log.vectors == {f"{T}/ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"}


LISTED = [
    ("written", [{"path": "t/a"}, {"path": "s3://lake/t/b"}], ["t/a", "t/b"]),
    ("removed", [{"path": "t/a"}, {"path": "t/b"}, {"path": "t/a", "action": "remove"}], ["t/b"]),
    ("removed and written again", [{"path": "t/a"}, {"path": "t/a", "action": "remove"}, {"path": "t/a"}], ["t/a"]),
    ("a folder replaced",
     [{"path": "t/d/a"}, {"path": "t/e/b"}, {"path": "t/d/c", "action": "replace", "scope": "t/d/"}],
     ["t/d/c", "t/e/b"]),
    ("an end line", [{"path": "t/a"}, {"end": True, "lines": 1}], ["t/a"]),
]  # fmt: skip


@pytest.mark.parametrize(("lines", "keys"), [case[1:] for case in LISTED], ids=[case[0] for case in LISTED])
def test_lists_are_folded_in_order(lines: list[dict[str, Any]], keys: list[str]) -> None:
    assert sorted(fold_lists("lake", lines)) == keys


class FakeSite:
    """Only what the draw itself needs."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)


def drawn_acts(monkeypatch: pytest.MonkeyPatch, able: dict[str, int], count: int, seed: int = 1) -> list[str]:
    """Names of acts drawn from acts that can be done so many times."""
    left = Counter(able)

    def act_of(name: str) -> Any:
        def act(_: Site) -> Fault:
            if not left[name]:
                raise NoVictim
            left[name] -= 1
            return Fault(name, "", ())

        return act

    monkeypatch.setattr("lakeaudit.demo.breaker.fault_draw.FIRST", act_of("done already"))
    monkeypatch.setattr("lakeaudit.demo.breaker.fault_draw.CATALOGUE", tuple(act_of(name) for name in able))
    return [fault.act for fault in break_lake(FakeSite(seed), count)]  # type: ignore[arg-type]


def test_acts_repeat_only_once_all_were_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    names = drawn_acts(monkeypatch, dict.fromkeys("abc", 9), 7)
    assert sorted(names[:3]) == sorted(names[3:6]) == ["a", "b", "c"]
    assert len(names) == 7


def test_acts_without_a_victim_leave_the_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Counter(drawn_acts(monkeypatch, {"a": 1, "b": 3}, 40)) == {"a": 1, "b": 3}


def test_a_seed_draws_the_same_acts_again(monkeypatch: pytest.MonkeyPatch) -> None:
    able = dict.fromkeys("abcdefgh", 3)
    assert drawn_acts(monkeypatch, able, 10, seed=5) == drawn_acts(monkeypatch, able, 10, seed=5)
    assert len({tuple(drawn_acts(monkeypatch, able, 10, seed=seed)) for seed in range(5)}) > 1


def test_no_faults_means_none(monkeypatch: pytest.MonkeyPatch) -> None:
    assert drawn_acts(monkeypatch, {"a": 1}, 0) == []


def test_the_catalogue_is_large_and_every_act_has_a_docstring() -> None:
    names = [act.__name__ for act in CATALOGUE]
    assert MOST_FAULTS >= len(names) == len(set(names)) >= 90
    assert all(act.__doc__ for act in CATALOGUE)


DROPPED = Expected("content", "dropped", "t", "t/a", recoverable="yes")
LOST = Fault("delete", "deleted t/a", (DROPPED,))
STRAY = Fault("stray", "wrote t/b", (Expected("leftover", "uncommitted", "t", "t/b"),))
GARBLED = Fault("garble", "garbled a row", (Expected("source", "unreadable_evidence", ""),))
SWEPT = Fault("sweep", "swept t", (Expected("content", "dropped_history", "t", severity="info"),))
TRAP = Fault("rewrite", "wrote t/c again", ())
CUT = Fault("cut", "cut off the listing of t", (), gap="t")


def finding(kind: str, key: str | None = None, table: str | None = "t", **more: Any) -> dict[str, Any]:
    return {
        "axis": KINDS[kind].axis,
        "kind": kind,
        "severity": KINDS[kind].severity,
        "table_name": table,
        "key": key,
        "subject_type": "file",
        "recoverable": None,
    } | more


FOUND = finding("dropped", "t/a", recoverable="yes")
CASES = [
    ("nothing made, nothing found", [], [], [], []),
    ("a file", [LOST], [FOUND], [], []),
    ("a leftover, by file", [STRAY], [finding("uncommitted", subject_type="prefix")], [finding("uncommitted", "t/b")],
     []),
    ("a source", [GARBLED], [finding("unreadable_evidence", table=None, subject_type="source")], [], []),
    ("a table", [SWEPT], [finding("dropped_history", subject_type="table", severity="info")], [], []),
    ("a trap passed over", [TRAP], [], [], []),
    ("missed", [LOST], [], [], ["not found: content dropped t t/a (deleted t/a)"]),
    ("another severity", [SWEPT], [finding("dropped_history", subject_type="table")], [],
     ["severity is warning, not info: content dropped_history t  (swept t)"]),
    ("another way back", [LOST], [FOUND | {"recoverable": "no"}], [],
     ["recoverable is no, not yes: content dropped t t/a (deleted t/a)"]),
    ("another table", [LOST], [FOUND | {"table_name": "u"}], [],
     ["not found: content dropped t t/a (deleted t/a)", "not caused: content dropped u t/a"]),
    ("a false alarm", [TRAP], [finding("overwritten", "t/c")], [], ["not caused: content overwritten t t/c"]),
    ("a false leftover", [], [], [finding("temporary", "t/d")], ["not caused: leftover temporary t t/d"]),
    ("found twice", [LOST], [FOUND, FOUND], [], ["one subject has two findings of one kind"]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("made", "found", "files", "told"), [case[1:] for case in CASES], ids=[c[0] for c in CASES]
)
def test_the_comparison_tells_every_difference(
    made: list[Fault], found: list[dict[str, Any]], files: list[dict[str, Any]], told: list[str]
) -> None:
    comparison = compare(made, found, files, set())
    assert [difference.words for difference in comparison.differences] == told
    assert comparison.matched is (not told)


GAPS = [
    ("a gap", [CUT], {"t"}, []),
    ("a gap of several acts", [CUT, replace(LOST, expected=(), gap="t")], {"t"}, []),
    ("missed", [CUT], set(), ["not found: a gap of t (cut off the listing of t)"]),
    ("not caused", [], {"t"}, ["not caused: a gap of t"]),
    ("not of this table", [CUT], {"u"}, ["not found: a gap of t (cut off the listing of t)", "not caused: a gap of u"]),
]  # fmt: skip


@pytest.mark.parametrize(("made", "gaps", "told"), [case[1:] for case in GAPS], ids=[c[0] for c in GAPS])
def test_gaps_are_compared_by_table(made: list[Fault], gaps: set[str], told: list[str]) -> None:
    assert [difference.words for difference in compare(made, [], [], gaps).differences] == told


def test_the_comparison_sums_up_in_one_line() -> None:
    assert compare([LOST, TRAP], [FOUND], [], set()).summary == (
        "The demo made 2 changes, 1 of them harmless. "
        "The audit judged 2 of 2 changes correctly and reported nothing else."
    )
    assert compare([LOST, CUT], [finding("phantom", "x")], [], {"u"}).summary == (
        "The demo made 2 changes. "
        "The audit judged 0 of 2 changes correctly and reported 2 findings and gaps without a change."
    )


def test_the_numbers_of_the_repairs_add_up() -> None:
    outcome = RepairOutcome(
        actions={"remove_entry": 2, "remove_delete_marker": 1},
        results={"applied": {"": 1}, "unknown": {"a; b": 1, "b; c; d": 1}},
        before=7,
        planned=3,
        for_person=4,
        applied=1,
        resolved=2,
        follows=("phantom s3://lake/a",),
        odd=(),
        differs=False,
        new_markers=True,
        for_both=1,
        restorable=3,
        unplanned={"torn": ["t"]},
        hiding=True,
        tables=("t", "u"),
    )
    files, other = "lost or changed files", "A person has to decide"
    explained = "(docs/reconcile-actions.md explains each)"
    checked = "2 steps were not applied, because a check could not be completed (status `unknown`)"
    assert list(outcome.lines) == [
        f"The plan has 3 steps for 3 of 7 findings: remove_delete_marker 1, remove_entry 2 {explained}.",
        "A person has to decide about 4 other findings, and about a part of 1 finding that has a step.",
        f"The plan restores 2 of the 3 {files} that can be restored. {other} about the other 1 file:",
        "- t: torn",
        "1 step was applied.",
        f"{checked}: a; b; c; and 1 more reason.",
        "The next audit resolved 2 discrepancies.",
        "This new finding follows from a repair: phantom s3://lake/a.",
        "After the undo, an audit reported the same 7 findings as before the repair.",
    ]


def test_the_repairs_say_why_files_were_not_hidden_and_what_else_a_step_repaired() -> None:
    outcome = RepairOutcome(
        actions={"hide_leftover": 2, "put_folder": 1},
        results={"unknown": {"u: no log; repeat the command; t: torn": 1, "t: torn": 1}},
        before=4,
        planned=3,
        for_person=3,
        person_repaired=2,
        applied=1,
        resolved=3,
        follows=(),
        odd=(),
        differs=False,
        new_markers=False,
        hiding=True,
        tables=("t", "u"),
    )
    lines = list(outcome.lines)
    assert lines[1:7] == [
        (
            "The 3 other findings had no step of their own: the steps of other findings repaired 2, and a person has "
            "to decide about 1."
        ),
        (
            "2 steps were not applied (status `unknown`). They would hide files or remove entries, but 2 tables that "
            "may list such a file could not be read completely before the repairs:"
        ),
        "- t: torn",
        "- u: no log; repeat the command",
        "The next audit resolved 3 discrepancies.",
        "After the undo, an audit reported the same 4 findings as before the repair.",
    ]
