"""Which files a checkpoint consists of, how many rows each has, and which of them cannot be read.

Row counts come from a first look that reads next to nothing; the actions read later must be as many. Sidecars: "V2
Spec" and "Sidecar File Information" of the Delta protocol.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from urllib.parse import unquote

from pyspark.errors import AnalysisException
from pyspark.sql import functions as F

from lakeaudit.errors import SourceError
from lakeaudit.evidence.files import File, list_files, read_bytes, stat
from lakeaudit.evidence.manifest.delta_log import Checkpoint, Log
from lakeaudit.evidence.manifest.delta_schemas import CHECKPOINT_SIDECARS
from lakeaudit.evidence.protocol import Context
from lakeaudit.keys import Location, identify
from lakeaudit.runtime.aws import Clients

_THREADS = 16
_TORN_LINE = "a line of it is torn or no Delta action"


@dataclass(frozen=True)
class Counted:
    """A Parquet file of a checkpoint: how Spark spells its path, its rows, the sidecars it names."""

    seen_as: str
    rows: int
    sidecars: tuple[str, ...]


@dataclass(frozen=True)
class Content:
    """A checkpoint looked into: its files, Parquet ones with their count.

    `broken` are files that cannot be read, `refused` says why the store would not answer.
    """

    files: tuple[tuple[File, Counted | None], ...] = ()
    broken: Mapping[Location, str] = field(default_factory=dict)
    refused: str | None = None


@dataclass(frozen=True)
class _Top:
    """The top level of one checkpoint: the names of its sidecars, its files that cannot be read."""

    sidecars: tuple[str, ...] = ()
    broken: Mapping[Location, str] = field(default_factory=dict)
    refused: str | None = None


def look_into(wanted: Collection[tuple[Log, Checkpoint]], ctx: Context) -> dict[frozenset[Location], Content]:
    """What each checkpoint holds, by its `places`."""
    clients = ctx.clients
    counted = _count([part for _, point in wanted if not point.is_json for part in point.parts], ctx)
    with ThreadPoolExecutor(_THREADS) as pool:
        tops = list(pool.map(lambda one: _top(one[1], counted, clients), wanted))
        listed = list(pool.map(lambda one, top: _sidecar_files(one[0], top, clients), wanted, tops))
    counted |= _count([file for files in listed for file in files.values() if file], ctx)
    looked = zip(wanted, tops, listed, strict=True)
    return {point.places: _content(point, top, files, counted) for (_, point), top, files in looked}


def _count(files: Sequence[File], ctx: Context) -> dict[Location, Counted]:
    """Only files that Spark can open are in the answer."""
    if not files:
        return {}
    tolerant = {"ignoreCorruptFiles": "true", "ignoreMissingFiles": "true"}
    reader = ctx.spark.read.schema(CHECKPOINT_SIDECARS).options(**tolerant)
    try:
        frame = reader.parquet(*dict.fromkeys(file.place.spark_path for file in files))
    except (
        AnalysisException
    ) as error:  # a file went away since the listing: every other one is asked for again
        if error.getCondition() != "PATH_NOT_FOUND":
            raise
        return _count([file for file in files if _there(file, ctx.clients)], ctx)
    rows = (
        frame.groupBy(F.col("_metadata.file_path").alias("seen_as"))
        .agg(F.count(F.lit(1)).alias("rows"), F.collect_list("sidecar.path").alias("sidecars"))
        .collect()
    )
    found = [Counted(row["seen_as"], row["rows"], tuple(row["sidecars"])) for row in rows]
    return {_place_of(one.seen_as): one for one in found}


def _place_of(seen_as: str) -> Location:
    identity = identify(unquote(seen_as))
    if identity is None:
        raise ValueError(f"Spark names a log file in a way that is not known here: {seen_as!r}")
    bucket, key = identity
    return Location(bucket, key.lstrip("/") if bucket == "" else key)


def _there(file: File, clients: Clients) -> bool:
    return stat(clients, file.place) is not None


def _top(checkpoint: Checkpoint, counted: Mapping[Location, Counted], clients: Clients) -> _Top:
    try:
        if checkpoint.is_json:
            return _json_top(checkpoint.parts[0].place, clients)
        unread = [part.place for part in checkpoint.parts if part.place not in counted]
        broken = {place: _why(place, clients) for place in unread}
    except SourceError as error:
        return _Top(refused=str(error))
    known = [counted[part.place] for part in checkpoint.parts if part.place in counted]
    return _Top(tuple(name for one in known for name in one.sidecars), broken)


def _json_top(place: Location, clients: Clients) -> _Top:
    content = read_bytes(clients, place)
    try:
        actions = [json.loads(line) for line in (content or b"").splitlines() if line.strip()]
        sidecars = tuple(action["sidecar"]["path"] for action in actions if action.get("sidecar"))
    except (ValueError, LookupError, TypeError, AttributeError):
        return _Top(broken={place: _TORN_LINE})
    return _Top(sidecars, {} if actions else {place: "it is empty or gone"})


def _why(place: Location, clients: Clients) -> str:
    """Why Spark found nothing in a file. A refusal is no damage, and is raised."""
    return "it is gone" if stat(clients, place) is None else "it is no whole Parquet file"


def _sidecar_files(log: Log, top: _Top, clients: Clients) -> dict[Location, File | None]:
    """The sidecars a checkpoint names, with None for one that is not there."""
    if not top.sidecars:
        return {}
    folder = log.folder.join("_sidecars")
    there = {file.place: file for file in list_files(clients, folder, flat=True)}
    named = [folder.join(unquote(name.rpartition("/")[2])) for name in top.sidecars]
    return {place: there.get(place) for place in named}


def _content(
    checkpoint: Checkpoint,
    top: _Top,
    sidecars: Mapping[Location, File | None],
    counted: Mapping[Location, Counted],
) -> Content:
    gone = {place: "it is gone" for place, file in sidecars.items() if file is None}
    there = [file for file in sidecars.values() if file]
    torn = {file.place: "it is no whole Parquet file" for file in there if file.place not in counted}
    files = [*checkpoint.parts, *there]
    found = tuple((file, counted.get(file.place)) for file in files)
    return Content(found, {**top.broken, **gone, **torn}, top.refused)
