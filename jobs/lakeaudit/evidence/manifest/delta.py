"""The Delta reader: what a table's own log says of every file it listed, lists, or removed.

All Delta tables of a lake are read together: logs are listed on the driver, their actions go from storage to Spark
partitions, and the fold is one plan over all of them. Only protocol, metadata and vacuum records (a few rows a table)
come to the driver. The reader knows nothing of storage: whether an unlogged VACUUM is assumed is decided elsewhere.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakeaudit.config import Table
from lakeaudit.evidence.manifest import delta_fold
from lakeaudit.evidence.manifest.delta_actions import time_of
from lakeaudit.evidence.manifest.delta_holes import NO_HOLE, holes, last_hole, nothing_left, warnings
from lakeaudit.evidence.manifest.delta_listing import Clock, list_logs, utc_now
from lakeaudit.evidence.manifest.delta_log import base_time, commit_times
from lakeaudit.evidence.manifest.delta_meta import (
    Meta,
    NotReadable,
    check_protocol,
    understand,
    vacuum_retention,
)
from lakeaudit.evidence.manifest.delta_reading import Reading, Readings, read_commits, read_logs
from lakeaudit.evidence.manifest.delta_schemas import TABLE
from lakeaudit.evidence.protocol import Changes, Claims, Context, Cut, Hole, SourceInfo, TableState


def read(tables: Sequence[Table], ctx: Context, source_id: str, clock: Clock = utc_now) -> Claims:
    """The claims of all these tables, in their newest state at `ctx.as_of`, or now when the run is live.

    A table whose log cannot be interpreted is refused with one line in its `TableState`; the others go on.
    """
    begun = clock()
    readings = read_logs(list_logs(tables, ctx, clock), ctx, clock)
    metas, refusals = _metas(readings)
    vacuums = _vacuums(readings.events, metas)
    rows = [_table_row(r, metas[r.listed.name], vacuums) for r in readings.tables if r.listed.name in metas]
    holed = any(last_hole(reading) > NO_HOLE for reading in readings.tables)
    known = ctx.spark.createDataFrame(rows, TABLE)
    states = {r.listed.name: _state(r, metas.get(r.listed.name), refusals) for r in readings.tables}
    return Claims(
        info=_info(source_id, tables, states, Cut(begun, clock()) if ctx.live else Cut(ctx.as_of, ctx.as_of)),
        frame=delta_fold.claims(readings.events, known, source_id, holed=holed),
        states=states,
        holes=tuple(hole for reading in readings.tables for hole in _holes(reading, source_id, ctx)),
        warnings=tuple(line for reading in readings.tables for line in warnings(reading)),
    )


def changes(claims: Claims, tables: Sequence[Table], ctx: Context, clock: Clock = utc_now) -> Changes:
    """What commits newer than the judged state did; a table whose newer commits cannot all be read is unsure."""
    judged = {name: state.version for name, state in claims.states.items() if state.version is not None}
    listed = list_logs([table for table in tables if table.name in judged], ctx, clock)
    readings = read_commits([(one, judged[one.name]) for one in listed], ctx)
    protocols = _newest(readings.events)
    unsure = {}
    for reading in readings.tables:
        name = reading.listed.name
        why = _why_unsure(reading, judged[name], protocols.get((name, "protocol")))
        if why is not None:
            unsure[name] = why
    sure = [reading for reading in readings.tables if reading.listed.name not in unsure]
    rows = [_table_row(r, Meta(claims.states[r.listed.name].retention or timedelta(0)), {}) for r in sure]
    return Changes(delta_fold.newest(readings.events, ctx.spark.createDataFrame(rows, TABLE)), unsure)


def _why_unsure(reading: Reading, judged: int, protocol: str | None) -> str | None:
    if reading.refused is not None or reading.listed.log is None:
        return reading.refused or "its log cannot be listed"
    newest, newer = reading.log.newest, reading.plan.commits if reading.plan else ()
    if newest is None or newest < judged:
        return f"its newest version is {newest} now, and was {judged}"
    if newer != tuple(range(judged + 1, newest + 1)):
        return f"not every commit from {judged + 1} to {newest} is there"
    if reading.torn or reading.undecodable:
        return "a commit since then cannot be understood"
    try:
        check_protocol(protocol or '{"minReaderVersion": 1}')
    except NotReadable as error:
        return str(error)
    return None


def _metas(readings: Readings) -> tuple[dict[str, Meta], dict[str, str]]:
    """The meaning of each table's newest metadata, and the tables whose metadata this reader must refuse."""
    newest = _newest(readings.events)
    metas, refused = {}, {}
    for reading in readings.tables:
        name = reading.listed.name
        if reading.refused is not None or reading.plan is None:
            continue
        try:
            metas[name] = understand(newest.get((name, "protocol")), newest.get((name, "metaData")))
        except NotReadable as error:
            refused[name] = f"{reading.listed.location.uri}: {error}"
    return metas, refused


def _newest(events: DataFrame) -> Mapping[tuple[str, str], str]:
    """JSON text of each table's newest protocol and metaData: two rows a table."""
    asked = events.filter(F.col("kind").isin("protocol", "metaData"))
    rows = asked.groupBy("table_name", "kind").agg(F.max_by("text", "version").alias("text")).collect()
    return {(row["table_name"], row["kind"]): row["text"] for row in rows}


def _vacuums(events: DataFrame, metas: Mapping[str, Meta]) -> dict[str, list[tuple[int, datetime]]]:
    """(version, what was removed up to when) of every vacuum that a log records, by table."""
    operation = F.get_json_object("text", "$.operation")
    asked = events.filter((F.col("kind") == "commitInfo") & (operation == "VACUUM START"))
    own_time = time_of(F.get_json_object("text", "$.timestamp").try_cast("bigint"))
    # stores give commit times in whole seconds: a vacuum's commit may seem older than what it removed
    at = F.greatest(F.col("time") + F.expr("interval '1' second"), own_time)
    found: dict[str, list[tuple[int, datetime]]] = {}
    for row in asked.select("table_name", "version", at.alias("at"), "text").collect():
        if meta := metas.get(row["table_name"]):
            cutoff = row["at"].replace(tzinfo=UTC) - vacuum_retention(row["text"], meta.retention)
            found.setdefault(row["table_name"], []).append((row["version"], cutoff))
    return found


def _table_row(
    reading: Reading, meta: Meta, vacuums: Mapping[str, Sequence[tuple[int, datetime]]]
) -> tuple[Any, ...]:
    listed, plan = reading.listed, reading.plan
    if plan is None:
        raise ValueError(f"{listed.name} has no state")
    return (
        *(listed.name, plan.newest, plan.base_version, last_hole(reading)),
        *(listed.read_at, _horizon(reading), meta.retention, meta.in_commit_times_from),
        *(list(meta.columns), list(vacuums.get(listed.name, ()))),
        *(listed.location.bucket, listed.location.prefix),
    )


def _horizon(reading: Reading) -> datetime | None:
    times = commit_times(reading.log)
    whole = reading.plan is not None and (reading.plan.base is not None or 0 in times)
    return base_time(reading.plan, times) if whole and reading.plan else None


def _state(reading: Reading, meta: Meta | None, refusals: Mapping[str, str]) -> TableState:
    name, read_at = reading.listed.name, reading.listed.read_at
    if meta is None or reading.plan is None:
        no_state = f"{reading.log.folder.uri}: no state can be rebuilt from what is left of the log"
        refused = reading.refused or refusals.get(name) or no_state
        return TableState(name, read_at, None, refused=refused, complete=False)
    whole = last_hole(reading) == NO_HOLE and not reading.undecodable
    return TableState(name, read_at, _horizon(reading), reading.plan.newest, meta.retention, complete=whole)


def _holes(reading: Reading, source: str, ctx: Context) -> list[Hole]:
    if reading.refused is not None or reading.listed.log is None:
        return []
    if reading.plan is None:
        return nothing_left(reading, source, ctx.clients)
    return holes(reading, source)


def _info(source: str, tables: Sequence[Table], states: Mapping[str, TableState], cut: Cut) -> SourceInfo:
    pinned = sorted(f"{name}@{state.version}" for name, state in states.items())
    identity = pinned[0] if len(pinned) == 1 else f"sha256:{_digest(pinned)}"
    location = tables[0].location.uri if len(tables) == 1 else f"{len(tables)} tables"
    return SourceInfo(source, "manifest", "delta", location, identity, cut)


def _digest(lines: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()
