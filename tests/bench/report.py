"""Reports the figures: on the terminal, as JSON below build/bench, and in docs/benchmark.md."""

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from tests.bench.goals import GIB, GOALS, Goal, load_figures, verdict_columns
from tests.bench.measure import (
    AUDIT,
    AUDIT_OF_TWO,
    DUCK,
    DUCK_OF_TWO,
    GUARD,
    LIVE,
    PASS,
    REPAIR,
    SAME,
    SECOND,
    SESSION,
    Measured,
)
from tests.bench.plot import plot
from tests.bench.spec import FIGURES, FORMATS, ROOT, Spec

DOCUMENT = ROOT / "docs" / "benchmark.md"
PLOT = ROOT / "docs" / "images" / "bench.svg"
BEGIN, END = "<!-- bench:begin -->", "<!-- bench:end -->"
BEGIN_FORMATS, END_FORMATS = "<!-- bench-formats:begin -->", "<!-- bench-formats:end -->"

Rows = Sequence[Sequence[str]]


def store_figures(spec: Spec, measured: Measured) -> None:
    """Add the figures of this run to build/bench/<size>-<profile>-<tables>.json; new figures replace old ones."""
    FIGURES.mkdir(parents=True, exist_ok=True)
    path = FIGURES / f"{spec.name}.json"
    before = json.loads(path.read_text()) if path.exists() else {"runs": {}, "median": {}, "wrong": {}}
    wrong = {name: lines for name, lines in before["wrong"].items() if name not in measured.runs}
    figures = {
        "size": spec.size, "profile": spec.profile, "tables": spec.tables, "files": spec.files,
        "inventory": spec.inventory, "format": spec.format, "measured_at": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
        "machine": machine(),
        "runs": before["runs"] | measured.runs, "median": before["median"] | measured.middle(),
        "wrong": wrong | measured.wrong,
    }  # fmt: skip
    path.write_text(json.dumps(figures, indent=1))


def machine() -> str:
    """Describe the cores and the memory of this machine."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / GIB
    return f"{len(os.sched_getaffinity(0))} cores, {memory:.0f} GiB"


def terminal_text(spec: Spec) -> str:
    """Return the figures of the measured lake, and the goals."""
    figures = _figures()
    mine = {name: one for name, one in figures.items() if name == spec.name}
    tables = [
        _markdown(*_costs_of_two(mine)),
        _markdown(*_costs(mine)),
        _markdown(*_stages(mine)),
        _markdown(*_others(mine)),
        _markdown(*_goals(lambda goal: _of_delta(goal) == (spec.format == "delta"))),
    ]
    return "\n\n".join(table for table in tables if table)


def update_document() -> None:
    """Write all figures into docs/benchmark.md, and the plot next to it.

    A section without figures on this machine is not changed.
    """
    figures = _figures()
    of_delta = {name: one for name, one in figures.items() if _format(one) == "delta"}
    others = {name: one for name, one in figures.items() if name not in of_delta}
    if of_delta:
        PLOT.write_text(plot(_points(of_delta)))
        _replace(BEGIN, _section(of_delta), END)
    if others:
        _replace(BEGIN_FORMATS, _section_of_formats(others), END_FORMATS)


def _replace(begin: str, content: str, end: str) -> None:
    text = DOCUMENT.read_text()
    section = f"{begin}\n{content}\n{end}"
    if begin in text:
        text = re.sub(f"{begin}.*{end}", lambda _: section, text, flags=re.DOTALL)
    else:
        text = f"{text.rstrip()}\n\n{section}\n"
    DOCUMENT.write_text(text)


def _figures() -> dict[str, dict[str, Any]]:
    every = [json.loads(path.read_text()) for path in FIGURES.glob("*.json")]
    every.sort(key=lambda one: (one["profile"], one["tables"], one["inventory"], one["files"]))
    return {_name(one): one for one in every}


def _name(one: Mapping[str, Any]) -> str:
    csv = "-csv" if one["inventory"] == "CSV" else ""
    of = "" if _format(one) == "delta" else f"-{_format(one)}"
    return f"{one['size']}-{one['profile']}-{one['tables']}{csv}{of}"


def _format(one: Mapping[str, Any]) -> str:
    found: str = one.get("format", "delta")
    return found


def _section(figures: Mapping[str, Mapping[str, Any]]) -> str:
    machines = "; ".join(sorted({one["machine"] for one in figures.values()}))
    parts = [
        _INTRODUCTION.format(machine=machines),
        "Tables whose files only their logs and an inventory list, as nearly all lakes have them:",
        _markdown(*_costs_of_two(figures)),
        "With an export of a metadata store, the third source:",
        _markdown(*_costs(figures)),
        "![Seconds over files](images/bench.svg)",
        "Seconds of an audit by stage; `outside` is the start and the end of its processes:",
        _markdown(*_stages(figures)),
        "Beside these:",
        _markdown(*_others(figures)),
        _PROMISED,
        _markdown(*_goals(_of_delta)),
    ]
    return "\n\n".join(part for part in parts if part)


def _section_of_formats(figures: Mapping[str, Mapping[str, Any]]) -> str:
    parts = [
        _FORMATS,
        _markdown(*_costs(figures)),
        _markdown(*_stages(figures)),
        _markdown(*_goals(lambda goal: not _of_delta(goal))),
    ]
    return "\n\n".join(part for part in parts if part)


def _of_delta(goal: Goal) -> bool:
    return not goal.of[0].endswith(FORMATS[1:])


_FORMATS = """## The bench on Iceberg and Hudi

`make bench SIZE=1m MORE="--format iceberg"` (or hudi) lays the same files, faults, inventory and export under tables
of that format, whose metadata is listed in inventory and export as well. Iceberg: manifests of 30,000 files with
statistics of four columns, and 25 commits a table, all retained. Hudi: timelines of 1.0 with 25 commits a table, and
an archive of commits of 2,000 files. DuckDB reads no Avro: what the newest states list is
decoded into Arrow first, in DuckDB's process and by functions of the audit. Columns are those of the bench. Written by
the bench."""


_INTRODUCTION = """## The bench

`make bench SIZE=10m PROFILE=clean` (sizes 10k, 1m, 10m, 100m; profiles clean and real) generates a lake with 600 faults
and runs, in turn and each in a process of its own: a bare Spark session, a bare Spark pass that hashes the columns an
audit reads of the same files, `lakeaudit audit` as a whole command, and DuckDB comparing the same files in one process.
An audit must find every fault and nothing else. Profile real: of the objects 30 % are removed and not vacuumed, 5 %
unreferenced, 1 % too young to judge, and 15 % as many are noncurrent versions; one table has 40 % of all files.

Inventory and export lie in local folders, the Delta logs on the bench's own S3 server. Memory is the highest sum of the
proportional set sizes of a command's processes. Seconds are those of the whole command, and in brackets the CPU seconds
of all its processes; load is the load average of the machine when a run began and when it ended: where that exceeds the
cores, others ran beside it, and CPU seconds say more. Measured on {machine}. This section is written by the bench."""
_PROMISED = """What was promised, and the newest figures of it. `kept` names the better of the two bounds that is kept,
`by CPU` is the same measure of CPU seconds, and a figure is marked as loaded where others kept the cores busy when its
runs began."""


def _costs(figures: Mapping[str, Mapping[str, Any]]) -> tuple[Sequence[str], Rows]:
    others = [word for name in (SESSION, PASS, DUCK) for word in (name, "x")]
    head = ("files x 3", "profile", "tables", "audit", *others, "audit's memory", "DuckDB's", "load", "exact")
    return head, [_cost(one) for one in figures.values() if AUDIT in one["median"]]


def _cost(one: Mapping[str, Any]) -> list[str]:
    runs = one["median"]
    audit = runs[AUDIT]
    row = [*_which(one), _seconds(audit)]
    for name in (SESSION, PASS, DUCK):
        row += [_seconds(runs.get(name)), _times(audit, runs.get(name))]
    return [*row, _memory_text(audit), _memory_text(runs.get(DUCK)), _load(audit), _exact(one, AUDIT)]


def _costs_of_two(figures: Mapping[str, Mapping[str, Any]]) -> tuple[Sequence[str], Rows]:
    head = (
        "files x 2",
        "profile",
        "tables",
        "audit",
        DUCK,
        "x",
        "audit's memory",
        "DuckDB's",
        "load",
        "exact",
    )
    return head, [_cost_of_two(one) for one in figures.values() if AUDIT_OF_TWO in one["median"]]


def _cost_of_two(one: Mapping[str, Any]) -> list[str]:
    audit, duck = one["median"][AUDIT_OF_TWO], one["median"].get(DUCK_OF_TWO)
    times = [_seconds(audit), _seconds(duck), _times(audit, duck)]
    return [
        *_which(one),
        *times,
        _memory_text(audit),
        _memory_text(duck),
        _load(audit),
        _exact(one, AUDIT_OF_TWO),
    ]


def _times(audit: Mapping[str, Any], other: Mapping[str, Any] | None) -> str:
    """Return the audit's seconds and CPU seconds divided by those of the other contender."""
    if not other:
        return ""
    seconds, cpu = (audit[what] / max(other[what], 0.01) for what in ("seconds", "cpu"))
    return f"{seconds:.1f} ({cpu:.1f})"


def _exact(one: Mapping[str, Any], name: str) -> str:
    return "no" if name in one["wrong"] else "yes"


def _stages(figures: Mapping[str, Mapping[str, Any]]) -> tuple[Sequence[str], Rows]:
    lakes = [one for one in figures.values() if AUDIT in one["median"]]
    stages = [stage for one in lakes[:1] for stage in one["median"][AUDIT]["stages"]]
    rows = []
    for one in lakes:
        audit = one["median"][AUDIT]
        seconds = [audit["stages"].get(stage, 0.0) for stage in stages]
        rows.append([*_which(one), *(f"{s:.1f}" for s in seconds), f"{audit['seconds'] - sum(seconds):.1f}"])
    return ("files x 3", "profile", "tables", *stages, "outside"), rows


def _others(figures: Mapping[str, Mapping[str, Any]]) -> tuple[Sequence[str], Rows]:
    rows = [
        [*_which(one), name, _seconds(run), _memory_text(run), _load(run), _exact(one, name)]
        for one in figures.values()
        for name, run in one["median"].items()
        if name in (SAME, SECOND, LIVE, REPAIR, GUARD)
    ]
    return ("files x 3", "profile", "tables", "what", "seconds", "memory", "load", "exact"), rows


def _goals(wanted: Callable[[Goal], bool]) -> tuple[Sequence[str], Rows]:
    figures = load_figures()
    rows = [
        [
            goal.measure,
            goal.format_value(goal.must),
            goal.format_value(goal.aim),
            *verdict_columns(goal, figures),
        ]
        for goal in GOALS
        if wanted(goal)
    ]
    return ("measure", "must", "aim", "now", "by CPU", "kept"), rows


def _points(figures: Mapping[str, Mapping[str, Any]]) -> dict[str, list[tuple[int, float]]]:
    """Return by contender (files, seconds) of the plain lakes."""
    plain = [
        one
        for one in figures.values()
        if (one["profile"], one["tables"], one["inventory"]) == ("clean", 8, "Parquet")
    ]
    return {
        name: [(one["files"], one["median"][name]["seconds"]) for one in plain if name in one["median"]]
        for name in (AUDIT, PASS, DUCK, SESSION, AUDIT_OF_TWO, DUCK_OF_TWO)
    }


def _which(one: Mapping[str, Any]) -> list[str]:
    csv = ", CSV" if one["inventory"] == "CSV" else ""
    of = "" if _format(one) == "delta" else f", {_format(one).title()}"
    return [f"{one['files']:,}", one["profile"] + csv + of, f"{one['tables']:,}"]


def _seconds(run: Mapping[str, Any] | None) -> str:
    return f"{run['seconds']:.1f} ({run['cpu']:.1f})" if run else ""


def _memory_text(run: Mapping[str, Any] | None) -> str:
    return f"{run['pss'] / GIB:.2f} GiB" if run else ""


def _load(run: Mapping[str, Any]) -> str:
    return f"{run['load'][0]:.1f} to {run['load'][1]:.1f}"


def _markdown(head: Sequence[str], rows: Rows) -> str:
    if not rows:
        return ""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
