"""`file_list`, the plain writer manifest: lists of files that jobs wrote, removed or replaced, folded to claims.

A list is JSON Lines, CSV or Parquet by its suffix (.jsonl .json .csv .parquet, each also .gz), one file a row: `path`
(raw; a key below the table's location, or a full URI), `size`, and where known `etag`, `version_id`, `checksum`
(algorithm:hex), `committed_at`, `job_id`, `records`, `action` (add, remove, replace) and `scope`. `lakeaudit.emit`
writes them. How they fold is said in `fold`.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakeaudit.config import Table
from lakeaudit.evidence.manifest.fold import EVENT, KEY, fold, scope_depth
from lakeaudit.evidence.manifest.list_events import event_batches
from lakeaudit.evidence.manifest.list_files import TableLists, digest, find, manifests_of, numbered
from lakeaudit.evidence.manifest.list_lines import UNREAD_REST, ListFile
from lakeaudit.evidence.protocol import (
    Changes,
    Claims,
    Clock,
    Context,
    Cut,
    Hole,
    SourceInfo,
    TableState,
    utc_now,
)
from lakeaudit.keys import Location
from lakeaudit.runtime.aws import Clients
from lakeaudit.schemas import CLAIM, conform

KIND = "file_list"
MOST_HOLES = 1000
"""Lists named one by one where rows could not be understood; the rest is one hole a table."""


def read(tables: Sequence[Table], ctx: Context, source_id: str, clock: Clock = utc_now) -> Claims:
    """The claims of all tables that have file_list manifests, folded over all lists of each.

    A table whose lists are missing or all unreadable is refused in its state; a row or list that cannot be understood
    is a hole of its table. Where the run is not live, events after its as_of are left out.
    """
    start = clock()
    found = find(tables, ctx.clients)
    lists = numbered(found)
    events = _events(lists, ctx).persist(StorageLevel.MEMORY_AND_DISK)
    timely = events if ctx.live else events.filter((F.col("at") <= ctx.as_of) | F.col("fault").isNotNull())
    told = _told(timely)
    cut = Cut(start, clock()) if ctx.live else Cut(ctx.as_of, ctx.as_of)
    holes = _holes(told, lists, source_id)
    unread = _all_unread(told, lists)
    judged = timely.filter(~F.col("table_name").isin(list(unread))) if unread else timely
    depths = {depth for each in told for depth in each["depths"]}
    claims = fold(judged, depths).withColumns({"source": F.lit(source_id), "manifest_kind": F.lit(KIND)})
    states = _states(found, told, unread, cut.start if ctx.live else ctx.as_of)
    rows = sum(each["rows"] for each in told)
    info = SourceInfo(source_id, "manifest", KIND, _place(tables), digest(found), cut, rows, None)
    warnings = tuple(warning for each in found for warning in each.warnings)
    return Claims(info, conform(claims, CLAIM), states, tuple(holes), warnings)


def changes(claims: Claims, tables: Sequence[Table], ctx: Context) -> Changes:
    """What the lists say now that they did not say when `claims` were read; no list differs: nothing.

    A path that no list names any more is gone from the table's state.
    """
    empty = ctx.spark.createDataFrame([], "table_name string, bucket string, key string, state string")
    if digest(find(tables, ctx.clients)) == claims.info.identity:
        return Changes(empty)
    newest = read(tables, replace(ctx, live=True), claims.info.id)
    unsure = {name: state.refused for name, state in newest.states.items() if state.refused}
    unsure |= {hole.table: hole.reason for hole in newest.holes if hole.table and hole not in claims.holes}
    return Changes(_touched(claims.frame, newest.frame), unsure)


_TELLING = ("state", "claimed_at", "removed_at", "size", "etag", "version_id", "checksum")


def _touched(old: DataFrame, new: DataFrame) -> DataFrame:
    """One row per path of which the lists tell something else now."""
    before = old.select(*KEY, F.struct(*_TELLING).alias("before"))
    after = new.select(*KEY, F.struct(*_TELLING).alias("after"))
    joined = before.join(after, KEY, "full").filter(~F.col("before").eqNullSafe(F.col("after")))
    return joined.select(*KEY, F.coalesce("after.state", F.lit("gone")).alias("state"))


def _events(lists: Sequence[ListFile], ctx: Context) -> DataFrame:
    """fold.EVENT rows of all lists, read on executors, big lists first."""
    schema = ", ".join(f"{name} {kind}" for name, kind in EVENT.items())
    if not lists:
        return ctx.spark.createDataFrame([], schema)
    tasks = min(len(lists), max(ctx.parallelism, 1) * 4)
    named = ctx.spark.createDataFrame([_packed(listed) for listed in lists], _LIST_FILE).repartition(tasks)
    return named.mapInArrow(partial(_read_lists, clients=ctx.clients), schema)


_LIST_FILE = (
    "table string, home_bucket string, home_key string, bucket string, key string, number long, "
    "modified_at timestamp, etag string, whole boolean"
)


def _packed(listed: ListFile) -> tuple[Any, ...]:
    told = (listed.number, listed.modified_at, listed.etag, listed.whole)
    return (listed.table, *listed.home, *listed.place, *told)


def _read_lists(batches: Iterator[pa.RecordBatch], clients: Clients) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for row in batch.to_pylist():
            home = Location(row.pop("home_bucket"), row.pop("home_key"))
            place = Location(row.pop("bucket"), row.pop("key"))
            yield from event_batches([ListFile(home=home, place=place, **row)], clients)


def _told(events: DataFrame) -> list[dict[str, Any]]:
    """What must be known of every list before its rows may be judged: one row a list."""
    faulty = F.col("fault").isNotNull()
    seen = events.groupBy("table_name", "list_no").agg(
        F.count_if(~faulty).alias("rows"),
        F.count_if(faulty).alias("faults"),
        F.min(F.when(faulty, F.struct("line", "fault"))).alias("first"),
        F.max("unread").alias("unread"),
        F.min(F.when(~faulty, F.col("at"))).alias("oldest"),
        F.collect_set(scope_depth()).alias("depths"),
    )
    return [row.asDict() for row in seen.collect()]


def _holes(told: Sequence[Mapping[str, Any]], lists: Sequence[ListFile], source_id: str) -> list[Hole]:
    faulty = sorted((each for each in told if each["faults"]), key=lambda each: each["list_no"])
    named = [_hole(each, lists[each["list_no"]].place.uri, source_id) for each in faulty[:MOST_HOLES]]
    more = Counter[str]()
    for each in faulty[MOST_HOLES:]:
        more[each["table_name"]] += each["faults"]
    rest = "rows of further lists cannot be understood"
    return named + [
        Hole(source_id, rest, table=table, hides=_HIDES, count=count) for table, count in more.items()
    ]


_HIDES = "files that were written, removed or replaced"


def _hole(each: Mapping[str, Any], uri: str, source_id: str) -> Hole:
    line, fault = each["first"]
    reason = fault if line in (0, UNREAD_REST) else f"line {line}: {fault}"
    return Hole(source_id, reason, uri, table=each["table_name"], hides=_HIDES, count=each["faults"])


def _all_unread(told: Sequence[Mapping[str, Any]], lists: Sequence[ListFile]) -> dict[str, str]:
    """Tables of which no list at all could be read, and why not."""
    readable = {each["table_name"] for each in told if not each["unread"]}
    unread = sorted((e for e in told if e["table_name"] not in readable), key=lambda each: -each["list_no"])
    return {e["table_name"]: f"{lists[e['list_no']].place.uri} {e['first']['fault']}" for e in unread}


def _states(
    found: Sequence[TableLists],
    told: Sequence[Mapping[str, Any]],
    unread: Mapping[str, str],
    read_at: datetime,
) -> dict[str, TableState]:
    oldest: dict[str, datetime] = {}
    for each in told:
        if each["oldest"] is not None:
            at = each["oldest"].replace(tzinfo=UTC)
            oldest[each["table_name"]] = min(at, oldest.get(each["table_name"], at))
    return {
        name: TableState(
            name,
            read_at,
            oldest.get(name),
            refused=lists.refused or unread.get(name),
            complete=all(manifest.complete for manifest in manifests_of(lists.table)),
        )
        for lists in found
        for name in (lists.table.name,)
    }


def _place(tables: Sequence[Table]) -> str:
    places = sorted({manifest.location.uri for table in tables for manifest in manifests_of(table)})
    return places[0] if len(places) == 1 else f"{len(places)} places"
