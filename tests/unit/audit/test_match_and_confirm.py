"""The loop of a run: which steps it repeats, and how often it reads all rows, by the gaps that each step shows."""

import json
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from lakeaudit.audit import match_and_confirm
from lakeaudit.config import load_lake
from lakeaudit.engine.local import InProcessEngine
from lakeaudit.runtime.progress import SilentProgress
from tests.builders.audits import audited


@dataclass(frozen=True)
class Gaps:
    """Evidence of which only the gaps are known."""

    gaps: frozenset[str] = frozenset()

    def with_uncovered(self, names: set[str]) -> "Gaps":
        return Gaps(self.gaps | names)


READ, MATCH, STATES, CONFIRM = "read", "match", "states", "confirm"
ALL = [READ, MATCH, STATES, CONFIRM]
REPEATED = {
    "nothing": ({}, ALL),
    "a lost log": ({READ: {"log"}}, [READ, *ALL]),
    "a lost state": ({STATES: {"state"}}, [READ, MATCH, STATES, READ, MATCH, CONFIRM]),
    "an uncovered table": ({CONFIRM: {"table"}}, [*ALL, *ALL]),
    "a log and a table": ({READ: {"log"}, CONFIRM: {"table"}}, [READ, *ALL, *ALL]),
    "everything": (
        {READ: {"log"}, STATES: {"state"}, CONFIRM: {"table"}},
        [READ, READ, MATCH, STATES, READ, MATCH, CONFIRM, *ALL],
    ),
}
"""By what proves incomplete: the step that shows it with the gap, and the steps that the run takes."""


@pytest.mark.parametrize("what", REPEATED)
def test_a_run_repeats_only_what_a_new_gap_makes_stale(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shown, expected = REPEATED[what]
    steps: list[str] = []

    def gaps_of(step: str) -> set[str]:
        return shown.get(step, set())

    def read(evidence: Gaps, _engine: object) -> object:
        steps.append(READ)
        return SimpleNamespace(evidence=evidence)

    def match(_read: object, _engine: object) -> object:
        steps.append(MATCH)
        return SimpleNamespace(tallies={})

    def check_states(evidence: Gaps, _engine: object, _first: object) -> Gaps:
        steps.append(STATES)
        return evidence.with_uncovered(gaps_of(STATES))

    def confirm(_evidence: Gaps, _first: object, _progress: object) -> None:
        steps.append(CONFIRM)

    patches = {
        "read_rows": read,
        "with_gaps_of_rows": lambda read: read.evidence.with_uncovered(gaps_of(READ)),
        "match": match,
        "_with_checked_states": check_states,
        "_confirm": confirm,
        "_uncovered_tables": lambda _evidence, _again: gaps_of(CONFIRM),
    }
    for name, step in patches.items():
        monkeypatch.setattr(match_and_confirm, name, step)
    done = match_and_confirm.match_and_confirm(cast("Any", Gaps()), InProcessEngine(), SilentProgress())
    assert steps == expected
    assert sorted(map(str, done.evidence.gaps)) == sorted(gap for gaps in shown.values() for gap in gaps)


def _differing_checksum(log: Path) -> None:
    (log / f"{2:020}.crc").write_text(json.dumps({"numFiles": 99}))


def _empty_commit(log: Path) -> None:
    (log / f"{1:020}.json").write_bytes(b"")


@pytest.mark.parametrize(
    ("damage", "passes"),
    [(lambda _log: None, 1), (_differing_checksum, 2), (_empty_commit, 1)],
    ids=["healthy", "checksum", "commit"],
)
def test_an_audit_reads_its_evidence_as_often_as_its_gaps_require(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: Any, passes: int
) -> None:
    place = tmp_path / "wh" / "orders"
    for rows in (3, 5, 7):
        write_deltalake(str(place), pa.table({"n": range(rows)}), mode="append")
    damage(place / "_delta_log")
    path = tmp_path / "lake.yaml"
    path.write_text(
        f"version: 1\nlake: shop\nresults: {tmp_path / 'results'}\n"
        f"inventories: [{{kind: listing, location: '{tmp_path}/wh'}}]\n"
        f"tables: [{{name: orders, location: '{place}', manifests: [{{kind: delta}}]}}]\n"
    )
    stages: list[int] = []
    run = InProcessEngine.run

    def record_run(self: InProcessEngine, rows: Any, of_run: Any, *reading: Any) -> Any:
        stages.append(len(of_run))
        return run(self, rows, of_run, *reading)

    monkeypatch.setattr(InProcessEngine, "run", record_run)
    audited(load_lake(path, {}))
    assert sum(number > 1 for number in stages) == passes
