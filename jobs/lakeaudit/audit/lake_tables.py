"""Updates the result table `tables`: one row for each table of the lake, with its first and its last audit.

It is written after the run was published, so that it names only published runs.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from lakeaudit.audit.judge import Judgement
from lakeaudit.audit.outcome import Outcome
from lakeaudit.collect.evidence import Evidence
from lakeaudit.collect.pointed_tables import CatalogedTable
from lakeaudit.config import Table
from lakeaudit.errors import one_line
from lakeaudit.judged import CONTENT, NOTHING, OFF, TO_COME, axis_state
from lakeaudit.results.read import PUBLISHED, Results
from lakeaudit.results.sql import ask, text, texts
from lakeaudit.results.write import ResultsWriter
from lakeaudit.schemas import TABLES

Row = dict[str, Any]

_FIRST = ("first_run_id", "first_audited_at")
_LAST = ("last_run_id", "last_audited_at", "version", "files", "bytes", "rows")


def put_tables(
    writer: ResultsWriter, evidence: Evidence, judgement: Judgement, outcome: Outcome
) -> tuple[str, ...]:
    """Update the rows of the tables in scope in one commit; an audit of some partitions changes none.

    Return a warning if that fails: everything else is published already.
    """
    if evidence.partitions:
        return ()
    try:
        before = writer.results.tables() or _from_coverage(writer.results, evidence.stamp.run_id)
        rows = updated_rows(before, list(_rows_of_run(evidence, judgement, outcome)))
        if rows != before:
            writer.put_all("tables", rows)
    except Exception as error:  # noqa: BLE001 - see above
        cause = one_line(str(error), 200) or type(error).__name__
        return (f"the result table `tables` was not updated ({cause}): the next audit updates it",)
    return ()


def _from_coverage(results: Results, this_run: str) -> list[Row]:
    """Return rows for the tables that earlier runs judged, where an older version wrote no `tables`.

    Location, format and counts of a table that has left the lake file are not known.
    """
    sql = f"""
        SELECT table_name, first_value(c.run_id ORDER BY r.as_of, r.run_id) AS first_run_id,
            min(r.as_of) AS first_audited_at, last_value(c.run_id ORDER BY r.as_of, r.run_id) AS last_run_id,
            max(r.as_of) AS last_audited_at, last_value(table_version ORDER BY r.as_of, r.run_id) AS version
        FROM coverage c JOIN runs r ON c.run_id = r.run_id
        WHERE c.axis = {text(CONTENT)} AND c.run_id <> {text(this_run)} AND r.status IN ({texts(PUBLISHED)})
            AND c.status <> {text(OFF)} AND (c.status = 'complete' OR consistent + findings + ignored > 0)
        GROUP BY table_name"""
    unknown = dict.fromkeys(TABLES.names)
    return [unknown | {"lake": results.lake} | row for row in ask(results, sql, "coverage", "runs")]


def updated_rows(before: Sequence[Row], now: Sequence[Row]) -> list[Row]:
    """Return the rows after a run, by name; tables that the run did not audit keep their row.

    Args:
        before: rows of `tables`.
        now: rows of the run: with its id as first and last run, or without audits for a table that it did not judge.
    """
    rows = {row["table_name"]: row for row in before}
    for row in now:
        rows[row["table_name"]] = _updated(rows.get(row["table_name"]), row)
    return [rows[name] for name in sorted(rows)]


def _updated(before: Row | None, now: Row) -> Row:
    """Return the row with the earlier first and the later last audit, by the times at which the lake was judged."""
    if before is None:
        return now
    return now | _earlier_or_later(min, before, now, _FIRST) | _earlier_or_later(max, before, now, _LAST)


def _earlier_or_later(of_two: Callable[..., Row], before: Row, now: Row, columns: Sequence[str]) -> Row:
    """Return the columns of the earlier or later audit; a repeated run replaces its own."""
    run, at = columns[:2]
    if now[run] is None:
        chosen = before
    elif before[run] in (None, now[run]):
        chosen = now
    else:
        chosen = of_two(before, now, key=lambda row: (row[at], row[run]))
    return {name: chosen[name] for name in columns}


def _rows_of_run(evidence: Evidence, judgement: Judgement, outcome: Outcome) -> Iterator[Row]:
    """Yield a row for each table in scope; without audits if it was not judged or the run not published."""
    entries: dict[str, list[CatalogedTable]] = defaultdict(list)
    for each in evidence.pointed.named if evidence.pointed else ():
        entries[each.table.name].append(each)
    audits = _audits(evidence, judgement) if outcome.status in PUBLISHED else {}
    for table in evidence.scope:
        about = {
            "lake": evidence.stamp.lake,
            "table_name": table.name,
            "owner": table.owner,
            "location": table.location.uri,
            "format": _format(table, entries[table.name]),
            "catalog": _catalogs(table, entries[table.name]),
        }
        yield about | dict.fromkeys((*_FIRST, *_LAST)) | audits.get(table.name, {})


def _audits(evidence: Evidence, judgement: Judgement) -> dict[str, Row]:
    """Return by table the columns of this run as first and last audit, for tables that it judged."""
    times: Row = dict.fromkeys(("first_run_id", "last_run_id"), evidence.stamp.run_id)
    times |= dict.fromkeys(("first_audited_at", "last_audited_at"), evidence.stamp.as_of)
    content = [row for row in judgement.coverage_rows if row["axis"] == CONTENT]
    versions = {row["table_name"]: row["table_version"] for row in content}
    counts = _counts(evidence.scope, judgement)
    return {
        name: times | {"version": versions.get(name)} | counts.get(name, {})
        for name in _judged(judgement.coverage_rows)
    }


def _judged(coverage: Sequence[Row]) -> Iterator[str]:
    """Yield the tables whose content was judged, or another axis where the content is off."""
    states: dict[str, dict[str, str]] = defaultdict(dict)
    for row in coverage:
        if row["axis"] != TO_COME:
            states[row["table_name"]][row["axis"]] = axis_state(row)
    for name, by_axis in states.items():
        content = by_axis.get(CONTENT, OFF)
        deciding = by_axis.values() if content == OFF else [content]
        if any(state not in (OFF, NOTHING) for state in deciding):
            yield name


def _counts(tables: Sequence[Table], judgement: Judgement) -> dict[str, Row]:
    """Return by table files, bytes and rows, as far as they are known."""
    files = {name: number for name, number in judgement.stored.items() if number is not None}
    counts: dict[str, Row] = {
        table.name: {"files": files.get(table.name)} for table in tables if not table.state_manifests
    }
    for name, (number, size) in judgement.counted.items():
        rows = judgement.counted_rows.get(name) if number else 0
        counts[name] = {"files": number, "bytes": size, "rows": rows}
    return counts


def _format(table: Table, entries: Sequence[CatalogedTable]) -> str | None:
    """Return the format of the table's state, else that of its entries in catalogs."""
    kinds = [manifest.kind for manifest in table.state_manifests]
    return next(iter(kinds + [each.by.format for each in entries if each.by.format != "unknown"]), None)


def _catalogs(table: Table, entries: Sequence[CatalogedTable]) -> str | None:
    """Return the kinds and names of the catalogs that name a table."""
    stores = [pointer.store for manifest in table.manifests for pointer in manifest.catalog_pointers]
    names = {each.catalog for each in entries} | {f"{store.kind} {store.name}" for store in stores}
    return ", ".join(sorted(names)) or None
