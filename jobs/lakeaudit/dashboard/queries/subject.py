"""One discrepancy, or one file: its claims, how it is recoverable, its history, the files behind a group."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from lakeaudit.advice.next_steps import LOST_COMMIT
from lakeaudit.formatting import CLAIMS, SIDES, table_label
from lakeaudit.kinds import rank
from lakeaudit.results.lake_standing import PUBLISHED_RUNS
from lakeaudit.results.read import Results, Row
from lakeaudit.results.sql import ask, text, texts

ABOUT_FILES = ("file", "commit")
LEFTOVERS = 200
"""Files of a group that are named; the rest is a number."""


@dataclass(frozen=True)
class Subject:
    """What the results hold of one subject.

    `rows` are its rows of the ledger, the worst first and of these the one asked for; `findings` are the last
    published run's about the same file; `history` has the transitions of all `rows`, oldest first; `steps` are those of
    plans; `files` are those behind a group of leftovers, the largest first, of `files_known` that the last runs named.
    """

    rows: Sequence[Row]
    findings: Sequence[Row]
    history: Sequence[Row]
    steps: Sequence[Row]
    files: Sequence[Row]
    files_known: int


def row_of(results: Results, discrepancy_id: str) -> Row | None:
    """The ledger's row of that id; None where it has none."""
    return next(iter(_rows(results, f"discrepancy_id = {text(discrepancy_id)}")), None)


def subject_of(results: Results, asked: Row) -> Subject:
    """What is known of a row of the ledger: of its file, where it is about one, or about the commit that one holds."""
    if asked["subject_type"] not in ABOUT_FILES or not asked["key"]:
        return _subject(results, [asked], [])
    return file_of(results, asked["bucket"], asked["key"], asked["discrepancy_id"])


def file_of(results: Results, bucket: str, key: str, first: str = "") -> Subject:
    """What is known of a file, whatever discrepancies it has."""
    about = f"bucket = {text(bucket)} AND key = {text(key)}"
    rows = sorted(
        _rows(results, about),
        key=lambda row: _worst_first(row, first),
    )
    run = results.last_published()
    findings = _findings(results, run["run_id"], about) if run else []
    return _subject(results, rows, findings)


def _worst_first(row: Row, asked: str) -> tuple[bool, int, bool]:
    """What is resolved comes last, but for what was asked for."""
    other = row["discrepancy_id"] != asked
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
    """The rows of a table about some discrepancies."""
    if not ids:
        return []
    return ask(results, f"SELECT * FROM {table} WHERE discrepancy_id IN ({texts(ids)}) {more}", table)


def _behind(results: Results, groups: tuple[str, ...]) -> tuple[list[Row], int]:
    """The files behind groups, as published runs have written them; a run that failed has left its own beside them."""
    files = f"""FROM leftover_files WHERE discrepancy_id IN ({texts(groups)})
        AND run_id NOT IN (SELECT run_id FROM runs WHERE NOT ({PUBLISHED_RUNS}))"""
    counted = ask(results, f"SELECT count(*) AS known {files}", "leftover_files", "runs")
    sql = f"""SELECT bucket, key, size, modified_at, category {files}
        ORDER BY size DESC NULLS LAST, key LIMIT {LEFTOVERS}"""
    return ask(results, sql, "leftover_files", "runs"), sum(row["known"] for row in counted)


def claims(row: Row) -> dict[str, dict[str, object]]:
    """By what is claimed (size, etag ...) what each side says; only what any of them says."""
    told = {what: {side: row[f"{side}_{what}"] for side in SIDES} for what in CLAIMS}
    return {what: said for what, said in told.items() if any(value is not None for value in said.values())}


@dataclass(frozen=True)
class Event:
    """Something that happened to a file, or will; `by` is who says so."""

    at: datetime
    what: str
    by: str


def life(rows: Sequence[Row], history: Sequence[Row], steps: Sequence[Row] = ()) -> tuple[Event, ...]:
    """What is known to have happened to one subject, the oldest first, and the end of its way back."""
    named = len({row["table_name"] for row in rows}) > 1
    told = [event for row in rows for event in _of_row(row, named=named)]
    unseen = _UNSEEN if any(map(_went_unseen, rows)) else ""
    told += [
        Event(
            change["at"],
            change["transition"] + (unseen if change["transition"] == "opened" else ""),
            _by(change),
        )
        for change in history
        if change["at"]
    ]
    told += [Event(step["done_at"], _done(step), f"plan {step['plan_id']}") for step in steps]
    return tuple(sorted(dict.fromkeys(told), key=lambda event: (event.at, event.what)))


def _done(step: Row) -> str:
    """What a plan did, by the words of its status: a step is told once, as it stands now."""
    became = _BECAME.get(step["status"], step["status"].replace("_", " "))
    return f"{step['action'].replace('_', ' ')}: {became}"


_BECAME = {"applied": "done", "undone": "taken back"}


_LOST = ("dropped", "dropped_history")


def _went_unseen(row: Row) -> bool:
    return row["kind"] in _LOST and not row["cause_at"]


_UNSEEN = ": it was gone by then, and nobody recorded since when"


def _by(change: Row) -> str:
    """What bears no run a person did, but for what only audits do."""
    if change["run_id"]:
        return f"run {change['run_id']}"
    return "an audit" if change["transition"] in _OF_AUDITS else "a person"


_OF_AUDITS = ("opened", "reopened", "escalated", "reclassified")


def _of_row(row: Row, *, named: bool) -> Iterator[Event]:
    """`named`: several tables tell of the file, each of a commit of its own."""
    table = f" by {table_label(row['table_name'])}" if named else ""
    commit = f"{table}, commit {row['commit_id']}" if row["commit_id"] is not None else table
    if row["manifest_time"]:
        yield Event(row["manifest_time"], f"listed{commit}", row["manifest_kind"] or "its manifest")
    if row["metastore_time"]:
        yield Event(row["metastore_time"], "entered", "the metadata store")
    if row["storage_time"]:
        yield Event(row["storage_time"], _stored(row), "storage")
    if row["cause_at"] and row["cause"]:
        yield Event(row["cause_at"], row["cause"], row["cause_principal"] or "a log of requests")
    elif row["cause_at"]:
        yield Event(row["cause_at"], "a delete marker was written over it", "storage")
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
