"""Sums up the state of a lake after a run: unresolved discrepancies, and findings that the ledger does not follow.

Headlines are made from these sums, not from the findings of one run: after an audit of one table, the discrepancies of
the other tables are still open.
"""

from datetime import datetime

from lakeaudit.advice.next_steps import EXPIRED, LOST_COMMIT, LOST_LOG, STALE_POINTER
from lakeaudit.kinds import CONTENT_LOST, COVERAGE_LOST, SERIOUS, STATE_LOST, STATE_LOST_FROM_ERROR
from lakeaudit.results.blind_since import SQL as BLIND_SINCE
from lakeaudit.results.read import PUBLISHED, Results, Row
from lakeaudit.results.sql import ask, moment, text, texts

PUBLISHED_RUNS = f"status IN ({texts(PUBLISHED)})"

UNKNOWN_PARTS = "files IS NULL, rows_at_stake IS NULL, bytes_at_stake IS NULL"
"""Part of GROUP BY, so that unknown numbers are not summed with known ones."""

NEEDS_ALLOW = f"""count(*) FILTER (WHERE cause IS NULL OR NOT starts_with(cause, '{EXPIRED}'))"""
"""SQL for the number of lost files that no lifecycle rule expired: a plan restores them only with `--allow restore`."""

_SUMS = f"""count(*) AS findings, {NEEDS_ALLOW} AS needs_allow, sum(files) AS files,
    sum(rows_at_stake) AS rows_at_stake, sum(bytes_at_stake) AS bytes_at_stake,
    min(recoverable_until) AS recoverable_until"""
_BY = "kind, severity, table_name, recoverable"
BY_HAND = f"""CASE WHEN kind = '{LOST_LOG}' AND storage_size IS NOT NULL
    THEN CASE WHEN twice_key IS NULL THEN '' ELSE '{LOST_COMMIT}' END
    WHEN kind = '{STALE_POINTER}' AND category = 'log' THEN '' END"""
"""SQL for findings that no plan repairs although plans repair their kind (`next_steps.is_by_hand`); else null.

It is the kind of the finding about the same file that describes the repair, or an empty text.
"""


def with_commits(table: str, condition: str) -> str:
    """Return SQL that joins rows of a result table with the lost commits among them, for `BY_HAND`."""
    twice = f"SELECT DISTINCT bucket AS twice_bucket, key AS twice_key FROM {table}"
    return f"""LEFT JOIN ({twice} WHERE kind = '{LOST_COMMIT}' AND {condition}) AS twice
        ON twice_bucket = {table}.bucket AND twice_key = {table}.key"""


def standing(now: datetime) -> str:
    """Return SQL for the state of a ledger row at a time: open, accepted (until later), pending or resolved."""
    accepted = f"state <> 'resolved' AND ack_until > {moment(now)}"
    return f"CASE WHEN {accepted} THEN 'accepted' ELSE state END"


SINCE = f"""CASE WHEN kind = '{COVERAGE_LOST}' THEN coalesce({BLIND_SINCE}, first_seen_at)
    ELSE coalesce(cause_at, first_seen_at) END"""
"""SQL for the time since when a fault exists: that of its cause, if it is known, else that of its first evidence.

The time of the cause of lost coverage is that of the last audit which judged the table: it counts from the end of the
evidence of that audit.
"""


def lake_standing(results: Results, run: Row, now: datetime, *, past: bool) -> list[Row]:
    """Return sums by standing, kind, severity, table, whether it is recoverable, and `BY_HAND`.

    `standing` is open, pending or accepted, from the ledger; or found: a finding of the run that the ledger does not
    follow, as in a suspect run. In a run that is `past` (see `is_past`) every finding is `found`: the ledger no longer
    has its state at that time. Each row has findings, files, rows_at_stake, bytes_at_stake and recoverable_until.
    """
    if past or results.delta("discrepancies") is None:
        return _unfollowed_findings(results, run["run_id"], "")
    unresolved = "state <> 'resolved'"
    held = f"""SELECT {_BY}, {BY_HAND} AS by_hand, {standing(now)} AS standing, {_SUMS}
        FROM discrepancies {with_commits("discrepancies", unresolved)} WHERE {unresolved}
        GROUP BY {_BY}, {BY_HAND}, standing, {UNKNOWN_PARTS}"""
    known = "LEFT ANTI JOIN held ON held.discrepancy_id = findings.discrepancy_id"
    return ask(results, held, "discrepancies") + _unfollowed_findings(results, run["run_id"], known)


def lost_states(results: Results) -> dict[str, str]:
    """Return by table the kind of an unresolved discrepancy that loses one of its states, see `kinds.loses_state`.

    A state that the last audit of a table reported as lost counts even if the lake file ignores the finding or changes
    its severity.

    Raises:
        CannotAudit: the results cannot be read.
    """
    grave = f"kind IN ({texts(STATE_LOST_FROM_ERROR)}) AND severity IN ({texts(SERIOUS)})"
    sql = f"""SELECT table_name, min(kind) AS kind FROM discrepancies
        WHERE state <> 'resolved' AND table_name IS NOT NULL AND (kind IN ({texts(STATE_LOST)}) OR {grave})
        GROUP BY table_name"""
    of_ledger = {row["table_name"]: row["kind"] for row in ask(results, sql, "discrepancies")}
    return dict.fromkeys(files_of_lost_states(results), "missing_metadata") | of_ledger


def files_of_lost_content(results: Results, most: int) -> list[Row]:
    """Return `key` and committed `size` of live files that are lost according to the ledger, at most `most`.

    Raises:
        CannotAudit: the ledger cannot be read.
    """
    lost = f"kind IN ({texts(CONTENT_LOST)}) AND key IS NOT NULL"
    sql = f"""SELECT DISTINCT manifest_size AS size, key FROM discrepancies
        WHERE state <> 'resolved' AND {lost} LIMIT {most}"""
    return ask(results, sql, "discrepancies")


def files_of_lost_states(results: Results) -> dict[str, tuple[str, ...]]:
    """Return by table the file names of its lost states, oldest first, from the last audit of each table.

    Raises:
        CannotAudit: the results cannot be read.
    """
    published = {run["run_id"]: run["as_of"] for run in results.runs() if run["status"] in PUBLISHED}
    rows = [row for row in results.states() if row["run_id"] in published]
    last: dict[str, str] = {}
    for row in sorted(rows, key=lambda row: (row["as_of"], row["run_id"])):
        last[row["table_name"]] = row["run_id"]
    lost = [row for row in rows if row["standing"] == "lost" and last[row["table_name"]] == row["run_id"]]
    found: dict[str, list[Row]] = {}
    for row in sorted(lost, key=lambda row: row["number"] or 0):
        found.setdefault(row["table_name"], []).append(row)
    return {table: tuple(row["state"] for row in each if row["state"]) for table, each in found.items()}


def is_past(results: Results, run: Row) -> bool:
    """Return whether another run was published after this one: the ledger has only the current state."""
    runs = results.runs()
    ids = [each["run_id"] for each in runs]
    later = runs[ids.index(run["run_id"]) + 1 :] if run["run_id"] in ids else []
    return any(each["status"] in PUBLISHED for each in later)


def _unfollowed_findings(results: Results, run_id: str, but_for: str) -> list[Row]:
    held = ", held AS (SELECT discrepancy_id FROM discrepancies)" if but_for else ""
    tables = ("findings", "discrepancies") if but_for else ("findings",)
    of_run = f"run_id = {text(run_id)}"
    sql = f"""{held} SELECT {_BY}, {BY_HAND} AS by_hand, 'found' AS standing, {_SUMS}
        FROM findings {but_for} {with_commits("findings", of_run)}
        WHERE {of_run} GROUP BY {_BY}, {BY_HAND}, {UNKNOWN_PARTS}"""
    return ask(results, sql, *tables)
