"""Reads what the results record about the use of tables: the last audit of each table, and what is unresolved.

`runs` is read first and the ledger last: a run writes its row of `runs` after its changes of the ledger, so the ledger
is never older than the last run that is read here.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pyarrow.compute as pc

from lakeaudit import judged
from lakeaudit.errors import one_line
from lakeaudit.formatting import count, second
from lakeaudit.kinds import COVERAGE_LOST, OPEN_OUTCOMES, SEVERITIES, rank
from lakeaudit.results.read import PUBLISHED, UNRESOLVED, Results, Row

MOST_IDS = 20
"""Number of ids that a record has for each severity."""

_RUN = ("run_id", "as_of", "finished_at", "status", "error", "tables_expected")
_COVERAGE = (
    *("table_name", "run_id", "axis", "status", "reason", "storage_cut_from", "files", "decided_share"),
    *("consistent", "findings", "ignored", "out_of_window", "undecided", "uncovered"),
)
_LEDGER = ("table_name", "severity", "state", "ack_until", "discrepancy_id")
_OF_FILES = pc.field("kind") != COVERAGE_LOST
"""Lost coverage is not damage: the answer for a table that audits cannot judge is unknown."""


@dataclass(frozen=True)
class Audits:
    """The published audits as of `since` or later, newest first, and at least the last one.

    `doubtful` is the newest finished audit that failed or has suspect evidence, if any: it leaves a doubt about every
    table that no later audit has judged.
    """

    published: tuple[Row, ...]
    since: datetime
    doubtful: Row | None = None

    def doubt(self, judged_by: Row | None) -> str:
        """Return the doubt that the last audits leave about a table; empty: an audit after them has judged it."""
        last = self.doubtful
        if last is None or (judged_by is not None and _order(judged_by) >= _order(last)):
            return ""
        return _doubt(last)


@dataclass(frozen=True)
class TableRecord:
    """The record of one table.

    Attributes:
        run_id: the newest published audit that judged the whole table, with its `as_of`.
        through: time of the storage snapshot with which that audit compared the files of the table.
        judged_share: judged files of those that are not too young (axis content); None if it is not known.
        remark: reason of the audit why not every file is judged.
        doubts: reasons why the answer is unknown, whatever a caller demands.
        open: open discrepancies by severity that nobody has accepted; `ids` names at most MOST_IDS for each.
        pending: the same for discrepancies that nothing has confirmed yet.
        accepted_until: when the first acceptance of an unresolved discrepancy ends.
    """

    table: str
    run_id: str | None = None
    as_of: datetime | None = None
    through: datetime | None = None
    judged_share: float | None = None
    remark: str = ""
    doubts: tuple[str, ...] = ()
    open: Mapping[str, int] = field(default_factory=dict)
    pending: Mapping[str, int] = field(default_factory=dict)
    ids: Mapping[str, Sequence[str]] = field(default_factory=dict)
    accepted_until: datetime | None = None


def read_audits(results: Results, since: datetime) -> Audits:
    """Return the published audits as of `since` or later.

    Raises:
        CannotAudit: the results cannot be read.
    """
    batches = results.batches("runs", pc.field("finished_at").is_valid(), _RUN)
    runs = [row for batch in batches for row in batch.to_pylist()]
    runs.sort(key=_order, reverse=True)
    published = [run for run in runs if run["status"] in PUBLISHED]
    recent = [run for run in published[1:] if run["as_of"] >= since]
    doubtful = next((run for run in runs if run["status"] in ("failed", "suspect")), None)
    return Audits((*published[:1], *recent), since, doubtful)


def _order(run: Row) -> tuple[datetime, str]:
    return run["finished_at"], run["run_id"]


def _doubt(last: Row) -> str:
    what = "failed" if last["status"] == "failed" else "has suspect evidence"
    return f"the last audit ({last['run_id']}) {what}" + (
        f": {one_line(last['error'], 300)}" if last["error"] else ""
    )


def covered_tables(results: Results, audits: Audits) -> dict[str, bool]:
    """Return the tables of these audits, and for each whether a later audit shows that it no longer exists.

    Results do not record whether an audit was limited to some tables. A later audit without the table counts if it
    judged more than half as many tables.

    Raises:
        CannotAudit: the results cannot be read.
    """
    newest: dict[str, int] = {}
    positions = {run["run_id"]: at for at, run in enumerate(audits.published)}
    condition = (pc.field("axis") == judged.CONTENT) & pc.field("run_id").isin(list(positions))
    for batch in results.batches("coverage", condition, ("table_name", "run_id"), rows=1 << 16):
        names, ids = batch.column(0).to_pylist(), batch.column(1).to_pylist()
        for name, run_id in zip(names, ids, strict=True):
            newest[name] = min(newest.get(name, len(positions)), positions[run_id])
    sizes = [run["tables_expected"] or 0 for run in audits.published]
    return {name: any(2 * size > sizes[at] for size in sizes[:at]) for name, at in newest.items()}


def table_records(
    results: Results, audits: Audits, tables: Sequence[str], now: datetime
) -> list[TableRecord]:
    """Return the record of each table, in the same order.

    Raises:
        CannotAudit: the results cannot be read.
    """
    coverage = _newest_coverage(results, audits.published, tables)
    unresolved = _unresolved(results, tables, now)
    return [
        TableRecord(table=name, **_judged(coverage.get(name), audits), **unresolved.get(name, {}))
        for name in tables
    ]


def _newest_coverage(
    results: Results, published: Sequence[Row], tables: Collection[str]
) -> dict[str, tuple[Row, Row]]:
    """Return by table the newest run that judged the whole table, and its row of coverage for the axis content."""
    newest: dict[str, tuple[Row, Row]] = {}
    for runs in (published[:1], published[1:]):  # the last run has most tables
        missing = sorted({*tables} - newest.keys())
        rows = _content_rows(results, runs, missing) if runs and missing else []
        order = {run["run_id"]: (at, run) for at, run in enumerate(runs)}
        for row in sorted(rows, key=lambda row: order[row["run_id"]][0]):
            newest.setdefault(row["table_name"], (order[row["run_id"]][1], row))
    return newest


def _content_rows(results: Results, runs: Sequence[Row], tables: Sequence[str]) -> list[Row]:
    mine = pc.field("run_id").isin([run["run_id"] for run in runs]) & pc.field("table_name").isin(tables)
    condition = mine & (pc.field("axis") == judged.CONTENT)
    rows = [row for b in results.batches("coverage", condition, _COVERAGE) for row in b.to_pylist()]
    return [row for row in rows if row["status"] != "overtaken" and not judged.is_part(row["reason"] or "")]


def _judged(audit: tuple[Row, Row] | None, audits: Audits) -> dict[str, Any]:
    """Return the columns of a record about the last audit of a table."""
    later = audits.doubt(audit[0] if audit else None)
    doubts = [later] if later else []
    if audit is None:
        none = f"no audit since {second(audits.since)} judged the table"
        return {"doubts": (*doubts, none if audits.published else "no audit was published")}
    run, row = audit
    share, doubt = _share(row)
    suspect = _doubt(run) if run["status"] == "suspect" else ""
    return {
        "run_id": run["run_id"],
        "as_of": run["as_of"],
        "through": row["storage_cut_from"],
        "judged_share": share,
        "remark": row["reason"] or "",
        "doubts": (*doubts, *filter(None, (doubt, suspect))),
    }


def _share(row: Row) -> tuple[float | None, str]:
    """Return the judged share of files that are not too young, or None with the reason why it is not known."""
    state, reason = judged.axis_state(row), f": {row['reason']}" if row["reason"] else ""
    if state == judged.WHOLE:
        return 1.0, ""
    if state == judged.PART and any(judged.count_of(row, outcome) for outcome in OPEN_OUTCOMES):
        return row["decided_share"], ""
    return None, f"{_STATES[state]}{reason}"


_STATES = {
    judged.OFF: "its files are not compared",
    judged.EMPTY: "it lists no file",
    judged.YOUNG: "no file is old enough to be judged",
    judged.NOTHING: "none of its files was judged",
    judged.PART: "not all of its files are known",
}


def _unresolved(results: Results, tables: Sequence[str], now: datetime) -> dict[str, dict[str, Any]]:
    """Return by table the columns of a record about unresolved discrepancies."""
    if not tables:
        return {}
    condition = pc.field("state").isin(UNRESOLVED) & pc.field("table_name").isin(list(tables)) & _OF_FILES
    records: dict[str, dict[str, Any]] = {}
    for batch in results.batches("discrepancies", condition, _LEDGER, rows=1 << 16):
        columns = (batch.column(name).to_pylist() for name in _LEDGER)
        for table, severity, state, until, id_ in zip(*columns, strict=True):
            record = records.setdefault(table, {"open": {}, "pending": {}, "ids": {}, "accepted_until": None})
            if until is not None and until > now:
                record["accepted_until"] = min(record["accepted_until"] or until, until)
                continue
            name = severity or "unknown"
            record[state][name] = record[state].get(name, 0) + 1
            if state == "open":
                _add_id(record["ids"].setdefault(name, []), id_)
    return records


def _add_id(ids: list[str], id_: str) -> None:
    if len(ids) < MOST_IDS:
        ids.append(id_)


def by_rank(numbers: Mapping[str, int]) -> dict[str, int]:
    """Return numbers by severity, worst first."""
    return {name: numbers[name] for name in sorted(numbers, key=lambda name: (rank(name), name))}


def at_or_above(numbers: Mapping[str, int], severity: str) -> dict[str, int]:
    """Return the numbers of severities at or above one, worst first; an unknown severity counts as above."""
    below: Iterable[str] = SEVERITIES[SEVERITIES.index(severity) + 1 :]
    return {name: number for name, number in by_rank(numbers).items() if name not in below}


def in_words(numbers: Mapping[str, int]) -> str:
    """Return text such as `2 critical, 1 error`."""
    return ", ".join(f"{count(number)} {name}" for name, number in numbers.items())
