"""Reads one discrepancy or file: its claims, its recovery, its history, and the files of a group."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from lakeaudit.advice.next_steps import LOST_COMMIT
from lakeaudit.formatting import CLAIMS, DELETED, SIDES, presence, table_label
from lakeaudit.kinds import COVERAGE_LOST, rank
from lakeaudit.results.read import Results, Row
from lakeaudit.results.sql import ask, text, texts
from lakeaudit.results.summaries.lake_standing import PUBLISHED_RUNS

ABOUT_FILES = ("file", "commit")
GROUP_FILES = 200
"""Number of files of a group that are listed; the others are counted."""


@dataclass(frozen=True)
class Subject:
    """Everything that the results contain about one subject.

    `rows` are its rows of the ledger, worst first, and among equals the requested one first; `findings` are those of
    the last published run about the same file; `history` has the transitions of all `rows`, oldest first; `steps` are
    those of plans; `files` are the largest files of a group, of `files_known` in the last runs.
    """

    rows: Sequence[Row]
    findings: Sequence[Row]
    history: Sequence[Row]
    steps: Sequence[Row]
    files: Sequence[Row]
    files_known: int


def row_of(results: Results, discrepancy_id: str) -> Row | None:
    """Return the ledger's row with this id; None if there is none."""
    return next(iter(_rows(results, f"discrepancy_id = {text(discrepancy_id)}")), None)


def subject_of(results: Results, row: Row) -> Subject:
    """Return the subject of a ledger row: its file or the file of its commit, if it has one, else the row itself."""
    if row["subject_type"] not in ABOUT_FILES or not row["key"]:
        return _subject(results, [row], [])
    return file_of(results, row["bucket"], row["key"], row["discrepancy_id"])


def file_of(results: Results, bucket: str, key: str, first: str = "") -> Subject:
    """Return the subject of a file, with or without discrepancies."""
    about = f"bucket = {text(bucket)} AND key = {text(key)}"
    rows = sorted(
        _rows(results, about),
        key=lambda row: _worst_first(row, first),
    )
    run = results.last_published()
    findings = _findings(results, run["run_id"], about) if run else []
    return _subject(results, rows, findings)


def _worst_first(row: Row, requested: str) -> tuple[bool, int, bool]:
    """Return the sort key: resolved rows last, except the requested one."""
    other = row["discrepancy_id"] != requested
    return other and row["state"] == "resolved", rank(row["severity"]), other


def _rows(results: Results, where: str) -> list[Row]:
    return ask(results, f"SELECT * FROM discrepancies WHERE {where}", "discrepancies")


def _findings(results: Results, run_id: str, about: str) -> list[Row]:
    return ask(results, f"SELECT * FROM findings WHERE run_id = {text(run_id)} AND {about}", "findings")


def _subject(results: Results, rows: Sequence[Row], findings: Sequence[Row]) -> Subject:
    ids = tuple(row["discrepancy_id"] for row in rows)
    groups = tuple(row["discrepancy_id"] for row in rows if row["axis"] == "leftover")
    files, known = _behind(results, groups) if groups else ([], 0)
    history = _of(results, ids, "transitions", "ORDER BY at, transition_id")
    steps = _of(results, ids, "actions", "AND done_at IS NOT NULL")
    return Subject(rows, findings, history, steps, files, known)


def _of(results: Results, ids: tuple[str, ...], table: str, more: str) -> list[Row]:
    """Return the rows of a table about some discrepancies."""
    if not ids:
        return []
    return ask(results, f"SELECT * FROM {table} WHERE discrepancy_id IN ({texts(ids)}) {more}", table)


def _behind(results: Results, groups: tuple[str, ...]) -> tuple[list[Row], int]:
    """Return the files of groups that published runs wrote, without those of failed runs."""
    files = f"""FROM leftover_files WHERE discrepancy_id IN ({texts(groups)})
        AND run_id NOT IN (SELECT run_id FROM runs WHERE NOT ({PUBLISHED_RUNS}))"""
    counted = ask(results, f"SELECT count(*) AS known {files}", "leftover_files", "runs")
    sql = f"""SELECT bucket, key, size, modified_at, category {files}
        ORDER BY size DESC NULLS LAST, key LIMIT {GROUP_FILES}"""
    return ask(results, sql, "leftover_files", "runs"), sum(row["known"] for row in counted)


def claims(row: Row) -> dict[str, dict[str, object]]:
    """Return the claims (size, etag ...) with the value of each side, if any side has one."""
    every = {what: {side: row[f"{side}_{what}"] for side in SIDES} for what in CLAIMS}
    return {what: by for what, by in every.items() if any(value is not None for value in by.values())}


@dataclass(frozen=True)
class Event:
    """Something that happened to a file, or will; `by` is the source of this information."""

    at: datetime
    what: str
    by: str


def events(rows: Sequence[Row], history: Sequence[Row], steps: Sequence[Row] = ()) -> tuple[Event, ...]:
    """Return the known events of one subject, oldest first, with the end of its recovery."""
    named = len({row["table_name"] for row in rows}) > 1
    every = [event for row in rows for event in _of_row(row, named=named)]
    undated = _UNDATED if any(map(_has_undated_loss, rows)) else ""
    every += [
        Event(
            change["at"],
            change["transition"] + (undated if change["transition"] == "opened" else ""),
            _by(change),
        )
        for change in history
        if change["at"]
    ]
    every += [Event(step["done_at"], _step_text(step), f"plan {step['plan_id']}") for step in steps]
    return tuple(sorted(dict.fromkeys(every), key=lambda event: (event.at, event.what)))


def _step_text(step: Row) -> str:
    """Return the action of a step and its current status."""
    outcome = _OUTCOMES.get(step["status"], step["status"].replace("_", " "))
    return f"{step['action'].replace('_', ' ')}: {outcome}"


_OUTCOMES = {"applied": "done", "undone": "done earlier by the plan, and undone now"}


_LOST = ("dropped", "dropped_history")


def _has_undated_loss(row: Row) -> bool:
    return row["kind"] in _LOST and not row["cause_at"]


_UNDATED = ": the file was missing at that time; the time of the loss is not recorded"


def _by(change: Row) -> str:
    """Return who made a change; without a run id it was a person, except for transitions that only audits make."""
    if change["run_id"]:
        return f"run {change['run_id']}"
    return "an audit" if change["transition"] in _OF_AUDITS else "a person"


_OF_AUDITS = ("opened", "reopened", "escalated", "reclassified")


def _of_row(row: Row, *, named: bool) -> Iterator[Event]:
    """Yield the events of a row; `named`: with its table, since several tables list the file."""
    table = f" by {table_label(row['table_name'])}" if named else ""
    commit = f"{table}, commit {row['commit_id']}" if row["commit_id"] is not None else table
    if row["manifest_time"]:
        what = "listed" if row["subject_type"] == "file" else "the first of its files listed"
        yield Event(row["manifest_time"], f"{what}{commit}", row["manifest_kind"] or "its manifest")
    if row["metastore_time"]:
        what = "marked as deleted" if presence(row).get("metastore") == DELETED else "entered"
        yield Event(row["metastore_time"], what, "the metadata store")
    if row["storage_time"]:
        yield Event(row["storage_time"], _stored(row), "storage")
    if row["cause_at"] and row["kind"] == COVERAGE_LOST:
        yield Event(row["cause_at"], "judged by an audit for the last time", "an audit")
    elif row["cause_at"] and row["cause"]:
        yield Event(row["cause_at"], row["cause"], row["cause_principal"] or "a log of requests")
    elif row["cause_at"]:
        yield Event(row["cause_at"], "deleted: a delete marker became current", "storage")
    if row["recoverable_until"] and row["recoverable"] == "yes":
        what = (
            "the lost version is no longer readable"
            if row["kind"] == LOST_COMMIT
            else "the file is no longer recoverable"
        )
        yield Event(row["recoverable_until"], what, "the bucket's lifecycle rules")


def _stored(row: Row) -> str:
    """A delete marker has neither size nor ETag; a commit's row has no size."""
    if row["kind"] == LOST_COMMIT:
        return "written again"
    marker = row["storage_size"] is None and row["storage_etag"] is None
    return "replaced by a delete marker" if marker else "written"
