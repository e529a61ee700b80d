"""Runs the contenders one after the other, each in its own process, and records every figure."""

import json
import os
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from lakeaudit.demo.server import own_credentials
from tests.bench import check, contenders, guarded, live
from tests.bench.server import serving, serving_live
from tests.bench.spec import OF_THE_STORE, ROOT, Spec
from tests.bench.watch import ProcessUsage, run_watched

SESSION, PASS, DUCK, AUDIT = "Spark session", "Spark pass", "DuckDB", "audit"
DUCK_OF_TWO, AUDIT_OF_TWO = "DuckDB, two sources", "audit, two sources"
"""The same lake without its metadata store: the tables' own logs and an inventory."""
CONTENDERS = (SESSION, PASS, DUCK, AUDIT, DUCK_OF_TWO, AUDIT_OF_TWO)
GUARD = "guard of all files, two sources"
SAME, SECOND = "second audit, same report and export", "second audit, new report and export"
LIVE, REPAIR = "live audit of a table", "delta-rs repair"
RUNS_OF_SMALL, SMALL = 3, 5_000_000


@dataclass
class Measured:
    """All runs of every contender, and the runs that did not find exactly the faults of the lake."""

    runs: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: defaultdict(list))
    wrong: dict[str, list[str]] = field(default_factory=dict)

    def add(self, name: str, done: ProcessUsage, wrong: Sequence[str] = ()) -> None:
        """Record the figures of a run."""
        figures = {key: value for key, value in asdict(done).items() if key not in ("out", "err")}
        stages = contenders.stages(done.err)
        self.runs[name].append(figures | ({"stages": stages} if stages else {}))
        if wrong:
            self.wrong[name] = [*wrong]

    def middle(self) -> dict[str, dict[str, Any]]:
        """Return by contender the run whose seconds are the median."""
        return {name: _middle(runs) for name, runs in self.runs.items()}


def _middle(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    wanted = median(run["seconds"] for run in runs)
    return min(runs, key=lambda run: abs(run["seconds"] - wanted))


@dataclass(frozen=True)
class Selection:
    """The selected measurements; `only` names contenders, empty means all."""

    runs: int
    second: bool = False
    live: bool = False
    guard: bool = False
    only: tuple[str, ...] = ()

    def wants(self, name: str) -> bool:
        return not self.only or name in self.only


def runs_of(spec: Spec) -> int:
    """Return the default number of runs."""
    return RUNS_OF_SMALL if spec.files < SMALL else 1


def measure(spec: Spec, selection: Selection, tell: Callable[[str], None]) -> Measured:
    """Measure every selected contender in turn, the selected number of times."""
    all_of_it = Measured()
    work = ROOT / "build" / "bench-run"
    with own_credentials():
        for number in range(selection.runs):
            shutil.rmtree(work, ignore_errors=True)
            for name, done, wrong in _in_turn(spec, selection, work):
                all_of_it.add(name, done, wrong)
                tell(_line(number, name, done, wrong))
    shutil.rmtree(work, ignore_errors=True)
    return all_of_it


Turn = Iterator[tuple[str, ProcessUsage, Sequence[str]]]


def _in_turn(spec: Spec, selection: Selection, work: Path) -> Turn:
    first = spec.folder / "first"
    if selection.wants(SESSION):
        yield SESSION, _run(contenders.module("spark_session"), work / "session"), ()
    if selection.wants(PASS) and spec.format == "delta":
        yield PASS, _run(contenders.module("spark_pass", str(first)), work / "pass"), ()
    if selection.wants(DUCK):
        done = _run(contenders.module("duck_compare", spec.format, str(first)), work / "duck")
        yield DUCK, done, _same_counts(json.loads(done.out), check.counts(first / "truth.parquet"))
    if selection.wants(AUDIT):
        yield from _audits(spec, work, second=selection.second)
    yield from _of_two(spec, selection, work)
    if selection.live:
        yield from _live(work / "live")


def _of_two(spec: Spec, selection: Selection, work: Path) -> Turn:
    first = spec.folder / "first"
    if selection.wants(DUCK_OF_TWO):
        done = _run(contenders.module("duck_compare", spec.format, "--two", str(first)), work / "duck")
        yield DUCK_OF_TWO, done, _same_counts(json.loads(done.out), _without_store(first))
    if selection.wants(AUDIT_OF_TWO):
        yield _audit_of_two(spec, work)
    if selection.guard:
        yield _guard(spec, work / "guard")


def _without_store(folder: Path) -> dict[str, int]:
    counts = check.counts(folder / "truth.parquet")
    return {kind: count for kind, count in counts.items() if kind not in OF_THE_STORE}


def _audit_of_two(spec: Spec, work: Path) -> tuple[str, ProcessUsage, Sequence[str]]:
    folder = spec.folder / "first"
    with serving(str(folder)) as endpoint:
        audit = contenders.prepare(work / "two", folder, endpoint, spec.format, store=False)
        return AUDIT_OF_TWO, *_audited(audit, folder / "truth.parquet", [*_without_store(folder)])


def _guard(spec: Spec, work: Path) -> tuple[str, ProcessUsage, Sequence[str]]:
    folder = spec.folder / "first"
    listed = guarded.write_list(folder, work / "delete.txt")
    with serving(str(folder)) as endpoint:
        lake_file = contenders.prepare(work, folder, endpoint, spec.format, store=False).lake_file
        done = _run(guarded.command(lake_file, work / "delete.txt"), work / "logs", contenders.AUDITED)
    return GUARD, done, guarded.differences(done.out, listed)


def _audits(spec: Spec, work: Path, *, second: bool) -> Turn:
    truth = spec.folder / "first" / "truth.parquet"
    folders = [spec.folder / name for name in ("first", "second")[: 2 if second else 1]]
    with serving(str(folders[0])) as endpoint:
        audit = contenders.prepare(work / "audit", folders[0], endpoint, spec.format)
        yield AUDIT, *_audited(audit, truth)
    if second:  # the logs have moved on by 1 %; then the evidence beside them is of the next day as well
        with serving(*map(str, folders)) as endpoint:
            yield SAME, *_audited(contenders.prepare_again(audit, folders[0], endpoint, "same"), truth)
            yield SECOND, *_audited(contenders.prepare_again(audit, folders[1], endpoint, "second"), truth)


def _audited(
    audit: contenders.Audit, truth: Path, kinds: Sequence[str] = ()
) -> tuple[ProcessUsage, list[str]]:
    done = _run(audit.command, audit.lake_file.parent / "logs", contenders.AUDITED)
    return done, check.differences(audit.results, audit.run_id, truth, kinds)


def _live(work: Path) -> Turn:
    with serving_live(live.FILES) as endpoint:
        done = _run(contenders.prepare_live(work, endpoint), work / "logs", contenders.AUDITED)
        yield LIVE, done, check.differences_live(work / "results", "live", live.TABLES[0])
        done = _run(contenders.module("delta_repair", endpoint), work / "repair")
        lost = int(done.out)
        yield REPAIR, done, [] if lost == live.FAULTS["dropped"] else [f"{lost} files instead"]


def _run(command: Sequence[str], logs: Path, allowed: Sequence[int] = (0,)) -> ProcessUsage:
    return run_watched(command, os.environ, logs, allowed=allowed)


def _same_counts(found: dict[str, int], truth: dict[str, int]) -> list[str]:
    return [
        f"{kind}: {found.get(kind)} for {count}" for kind, count in truth.items() if found.get(kind) != count
    ]


def _line(number: int, name: str, done: ProcessUsage, wrong: Sequence[str]) -> str:
    memory = f"{done.pss / 2**30:.2f} GiB (RSS {done.rss / 2**30:.2f})"
    cpu = ", ".join(f"{kind} {seconds:.1f}" for kind, seconds in sorted(done.cpu_of.items()))
    took = f"{done.seconds:8.1f} s  CPU {done.cpu:7.1f} s ({cpu})"
    load = f"load {done.load[0]:.1f} to {done.load[1]:.1f}"
    faults = "".join(f"\n    NOT EXACT: {line}" for line in wrong)
    return f"run {number + 1}  {name:22} {took}  {memory}  {load}{faults}"
