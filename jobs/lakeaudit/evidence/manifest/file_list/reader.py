"""Read the claims of plain writer manifests: their lists are located here and read in tasks, once.

A table whose lists are missing or all unreadable is refused in its state; a row or list that cannot be understood is an
evidence gap of its table.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, cast

import pyarrow as pa

from lakeaudit.config import Table
from lakeaudit.evidence.lineage import ABSENT, ARCHIVED, LastState, LastStates, MissingState
from lakeaudit.evidence.manifest import list_lineage
from lakeaudit.evidence.manifest.file_list import fold
from lakeaudit.evidence.manifest.file_list.discover import TableLists, digest, find, manifests_of, numbered
from lakeaudit.evidence.manifest.file_list.list_part import parts
from lakeaudit.evidence.manifest.file_list.read_lines import UNREAD_REST, ListFile
from lakeaudit.evidence.manifest.list_lineage import ListedTable
from lakeaudit.evidence.protocol import (
    BufferedRows,
    Changes,
    Claims,
    Clock,
    Context,
    EvidenceGap,
    Fold,
    SnapshotWindow,
    SourceInfo,
    TableState,
    utc_now,
)
from lakeaudit.runtime import duck
from lakeaudit.runtime.connections.aws_failures import ARCHIVED as ARCHIVED_WORDS
from lakeaudit.runtime.duck import Connection, Relation, task_connection
from lakeaudit.schemas import plain_time

MOST_GAPS = 1000
"""Most lists with faulty rows that are named one by one; the rest is one gap for each table."""

Summary = Mapping[str, Any]
"""A list_part.Summary of one list, with its table_name and list_no."""


def read(tables: Sequence[Table], ctx: Context, source_id: str, clock: Clock = utc_now) -> Claims:
    """Return the claims of all tables that have file_list manifests, folded over all lists of each.

    If the run is not live, events after its as_of are left out.
    """
    start = clock()
    return _claims(find(tables, ctx.clients), tables, ctx, source_id, start, clock)


def _claims(
    table_lists: Sequence[TableLists],
    tables: Sequence[Table],
    ctx: Context,
    source_id: str,
    start: datetime,
    clock: Clock,
) -> Claims:
    """Return the claims of lists that were located from `start` on."""
    lists = numbered(table_lists, ctx.clients.names)
    until = None if ctx.live else plain_time(ctx.as_of)
    kept = ctx.engine.keep(parts(lists, ctx.clients, source_id, until, max(ctx.parallelism, 1) * 4))
    summaries = [json.loads(str(note["data"])) for note in kept.notes]
    cut = SnapshotWindow(start, clock()) if ctx.live else SnapshotWindow(ctx.as_of, ctx.as_of)
    unread = _all_unread(summaries, lists)
    rows = sum(each["rows"] for each in summaries)
    listed = _listed_tables(table_lists, summaries)
    lost, unlisted = list_lineage.compare_lists(fold.KIND, listed, ctx)
    return Claims(
        SourceInfo(source_id, "manifest", fold.KIND, _place(tables), digest(table_lists), cut, rows, None),
        rows=(kept,),
        fold=partial(fold.claims, source=source_id, left_out=tuple(sorted(unread))),
        states=_states(listed, table_lists, unread, ctx.last_states, cut.start),
        holes=tuple(_evidence_gaps(summaries, lists, source_id)),
        warnings=tuple(warning for each in table_lists for warning in each.warnings),
        witnesses=lost,
        unlisted=unlisted,
    )


def changes(claims: Claims, tables: Sequence[Table], ctx: Context, clock: Clock = utc_now) -> Changes:
    """Return the changes in the lists since `claims` were read; none if the lists are the same.

    A path that no list names any more is gone from the table's state.
    """
    start = clock()
    found = find(tables, ctx.clients)
    if digest(found) == claims.info.identity:
        return Changes(fold.CHANGED.empty_table())
    return changes_between(
        claims, _claims(found, tables, replace(ctx, live=True), claims.info.id, start, clock)
    )


def changes_between(claims: Claims, newest: Claims) -> Changes:
    """Return the changes between two sets of an event manifest's claims, and the tables that are uncertain."""
    uncertain = {name: state.refused for name, state in newest.states.items() if state.refused}
    uncertain |= {hole.table: hole.reason for hole in newest.holes if hole.table and hole not in claims.holes}
    return Changes(_changed_paths(claims, newest), uncertain)


_CHANGED_SQL = """
SELECT table_name, bucket, key, coalesce(b.state, 'gone') AS state
FROM old AS a FULL JOIN new AS b USING (table_name, bucket, key)
WHERE row(a.state, a.claimed_at, a.removed_at, a.size, a.etag, a.version_id, a.checksum)
    IS DISTINCT FROM row(b.state, b.claimed_at, b.removed_at, b.size, b.etag, b.version_id, b.checksum)
"""


def _changed_paths(old: Claims, new: Claims) -> pa.Table:
    """Return one row for each path whose entry in the lists changed: table_name, bucket, key, state."""
    with task_connection("2GiB") as con:
        return duck.table(
            duck.query(con, _CHANGED_SQL, old=_grouped_claims(con, old), new=_grouped_claims(con, new))
        )


def _grouped_claims(con: Connection, claims: Claims) -> Relation:
    (kept,) = claims.rows
    return fold_kept(con, cast("BufferedRows", kept), claims.fold)


def fold_kept(con: Connection, kept: BufferedRows, fold_rows: Fold) -> Relation:
    """Return the claims of rows that were read already, all shares together; they can be computed once."""
    rows = {
        kind: pa.RecordBatchReader.from_batches(schema, kept.batches(kind))
        for kind, schema in (("events", fold.EVENTS), ("acts", fold.ACTS))
    }
    return fold_rows(con, rows)


def _evidence_gaps(
    summaries: Sequence[Summary], lists: Sequence[ListFile], source_id: str
) -> list[EvidenceGap]:
    faulty = sorted((each for each in summaries if each["faults"]), key=lambda each: each["list_no"])
    named = [_evidence_gap(each, lists[each["list_no"]].place.uri, source_id) for each in faulty[:MOST_GAPS]]
    more = Counter[str]()
    for each in faulty[MOST_GAPS:]:
        more[each["table_name"]] += each["faults"]
    rest = "rows of further lists cannot be understood"
    return named + [
        EvidenceGap(source_id, rest, table=table, hides=_HIDES, count=count) for table, count in more.items()
    ]


_HIDES = "files that were written, removed or replaced"


def _evidence_gap(each: Summary, uri: str, source_id: str) -> EvidenceGap:
    line, fault = each["first"]
    reason = fault if line in (0, UNREAD_REST) else f"line {line}: {fault}"
    return EvidenceGap(source_id, reason, uri, table=each["table_name"], hides=_HIDES, count=each["faults"])


def _all_unread(summaries: Sequence[Summary], lists: Sequence[ListFile]) -> dict[str, str]:
    """Return the tables none of whose lists could be read, and why not."""
    readable = {each["table_name"] for each in summaries if not each["unread"]}
    unread = sorted(
        (e for e in summaries if e["table_name"] not in readable), key=lambda each: -each["list_no"]
    )
    return {e["table_name"]: f"{lists[e['list_no']].place.uri} {e['first'][1]}" for e in unread}


def _listed_tables(table_lists: Sequence[TableLists], summaries: Sequence[Summary]) -> list[ListedTable]:
    """Return the tables as later audits compare them."""
    oldest: dict[str, datetime] = {}
    for each in summaries:
        if each["oldest"] is not None:
            at = datetime.fromisoformat(each["oldest"]).replace(tzinfo=UTC)
            oldest[each["table_name"]] = min(at, oldest.get(each["table_name"], at))
    return [
        ListedTable(
            lists.table,
            tuple(file for _, file in lists.files),
            None,
            oldest.get(lists.table.name),
            complete=_is_complete(lists.table),
        )
        for lists in table_lists
    ]


def _is_complete(table: Table) -> bool:
    return all(manifest.complete for manifest in manifests_of(table))


def _states(
    listed: Sequence[ListedTable],
    table_lists: Sequence[TableLists],
    unread: Mapping[str, str],
    last: LastStates,
    read_at: datetime,
) -> dict[str, TableState]:
    states = {}
    for each, lists in zip(listed, table_lists, strict=True):
        name = each.table.name
        known = last.get((fold.KIND, name)) if each.complete else None
        missing = _missing_state(lists, unread.get(name, ""), known)
        refused = lists.refused or unread.get(name)
        states[name] = TableState(
            name,
            read_at,
            each.oldest,
            refused=refused,
            complete=each.complete,
            missing=missing.cause if missing else "",
            missing_state=missing,
            state=None if refused else each.state,
            changed_at=each.changed_at,
        )
    return states


def _missing_state(lists: TableLists, unread: str, known: LastState | None) -> MissingState | None:
    """Return why nobody can read any list; None if one is readable, or if this is unknown.

    A folder without lists proves this only if an audit has read some there (`known`).
    """
    if lists.empty is not None:
        return None if known is None else MissingState(ABSENT, known.state.name or lists.empty.uri)
    if ARCHIVED_WORDS in unread and _is_complete(lists.table):
        return MissingState(ARCHIVED, lists.files[0][1].place.uri)
    return None


def _place(tables: Sequence[Table]) -> str:
    places = sorted({manifest.location.uri for table in tables for manifest in manifests_of(table)})
    return places[0] if len(places) == 1 else f"{len(places)} places"
