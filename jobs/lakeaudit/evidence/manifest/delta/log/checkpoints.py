"""Read which files a checkpoint has, its protocol, metaData and sidecars, and which of its files cannot be read.

Only footers and these few rows are read, in tasks. Sidecars: "V2 Spec" and "Sidecar File Information" of the Delta
protocol.
"""

import json
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from botocore.exceptions import BotoCoreError, ClientError

from lakeaudit.errors import SourceError
from lakeaudit.evidence.files import File, list_files, read_bytes, seekable
from lakeaudit.evidence.manifest.delta.log import actions as acts
from lakeaudit.evidence.manifest.delta.log.checkpoint_runs import Checkpoint
from lakeaudit.evidence.manifest.delta.log.layout import SIDECARS, Log
from lakeaudit.evidence.manifest.delta.state.entry_sums import NOTHING, EntrySums, of_checkpoint
from lakeaudit.evidence.manifest.delta.state.notes import GONE, NO_PARQUET, TORN, parquet_problem
from lakeaudit.evidence.protocol import Context
from lakeaudit.keys import Location
from lakeaudit.runtime import duck
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.connections.aws_failures import explain, is_missing
from lakeaudit.runtime.duck import Connection
from lakeaudit.runtime.scratch import scratch_root

STATE = ("protocol", "metaData")
_THREADS = 16
_TASK_FILES = 64
_SMALL = 8 << 20
"""Most bytes of a file that is fetched whole, and whose entries are summed."""
_LEAVES = {
    "sidecar": ("path", "sizeInBytes"),
    "protocol": ("minReaderVersion", "minWriterVersion", "readerFeatures", "writerFeatures"),
    "metaData": ("schemaString", "partitionColumns", "configuration"),
}


@dataclass(frozen=True)
class FileSummary:
    """Holds the content of a Parquet file of a checkpoint, without its file actions.

    `sidecars` have their recorded sizes. `state` are protocol and metaData as JSON text, `problem` is why the file
    cannot be read, `refused` the error of the store.
    """

    sidecars: tuple[tuple[str, int | None], ...] = ()
    state: Mapping[str, str] = field(default_factory=dict)
    problem: str | None = None
    refused: str | None = None
    adds: int | None = None
    """File entries that it holds, by its statistics; None if they do not count them."""
    sums: EntrySums | None = None
    """Sums of its file entries; None if it is too large for that."""
    rows: int | None = None
    """Actions that it holds; None if it is not Parquet."""


@dataclass(frozen=True)
class Content:
    """Holds the files of a checkpoint, and its protocol and metaData where Parquet files hold them.

    `broken` are files that cannot be read, `refused` is the error of the store.
    """

    files: tuple[File, ...] = ()
    state: Mapping[str, str] = field(default_factory=dict)
    broken: Mapping[Location, str] = field(default_factory=dict)
    refused: str | None = None
    adds: int | None = None
    """File entries of all its files; None if unknown."""
    sums: EntrySums | None = None
    """Sums of these entries; None if unknown."""
    rows: int | None = None
    """Actions of all its files; None if unknown."""


def read_contents(
    checkpoints: Collection[tuple[Log, Checkpoint]], ctx: Context
) -> dict[frozenset[Location], Content]:
    """Return the content of each checkpoint by its `places`."""
    summaries = _summaries(
        [part for _, point in checkpoints if not point.is_json for part in point.parts], ctx
    )
    with ThreadPoolExecutor(_THREADS) as pool:
        tops = list(pool.map(lambda one: _top(one[1], summaries, ctx.clients), checkpoints))
        found = list(pool.map(lambda one, top: _with_sidecars(one[0], top, ctx.clients), checkpoints, tops))
    summaries |= _summaries([file for _, files in found for file in files.values() if file], ctx)
    return {
        point.places: _content(point, top, files, summaries)
        for (_, point), (top, files) in zip(checkpoints, found, strict=True)
    }


def _summaries(files: Sequence[File], ctx: Context) -> dict[Location, FileSummary]:
    distinct = list({file.place: file for file in files}.values())
    groups = [distinct[start : start + _TASK_FILES] for start in range(0, len(distinct), _TASK_FILES)]
    found = ctx.engine.map(partial(_summarize_all, ctx.clients), groups) if groups else []
    return {
        file.place: summary
        for group, of in zip(groups, found, strict=True)
        for file, summary in zip(group, of, strict=True)
    }


def _summarize_all(clients: Clients, files: Sequence[File]) -> list[FileSummary]:
    with ThreadPoolExecutor(_THREADS) as pool, duck.task_connection() as con:
        return list(pool.map(lambda file: summarize(clients, file, con), files))


def summarize(clients: Clients, file: File, con: Connection | None = None) -> FileSummary:
    """Read the rows of a Parquet file that describe the table as a whole; with a connection, sum its entries."""
    try:
        with _open(clients, file) as stream:
            if stream is None:
                return FileSummary(problem=GONE)
            content = pq.ParquetFile(stream)
            found = read_summary(content)
            if con is None or file.size > _SMALL:
                return found
            return replace(found, sums=_sums(con.cursor(), stream, content.schema_arrow))
    except SourceError as error:
        return FileSummary(refused=str(error))
    except ClientError as error:
        place = file.place.uri
        return (
            FileSummary(problem=GONE)
            if is_missing(error)
            else FileSummary(refused=str(SourceError(place, *explain(error))))
        )
    except BotoCoreError as error:
        return FileSummary(refused=str(SourceError(file.place.uri, *explain(error))))
    except (pa.ArrowException, OSError, ValueError, TypeError, LookupError, AttributeError) as error:
        return FileSummary(problem=parquet_problem(error, NO_PARQUET))


@contextmanager
def _open(clients: Clients, file: File) -> Iterator[Any]:
    if file.place.is_local or file.size <= _SMALL:
        content = read_bytes(clients, file.place, size=file.size)
        yield None if content is None else pa.BufferReader(content)
    else:
        yield pa.PythonFile(seekable(clients, file.place, file.size), mode="r")


def _sums(con: Connection, content: pa.BufferReader, schema: pa.Schema) -> EntrySums | None:
    """Return the sums of the entries of one file; None if they are unknown."""
    content.seek(0)
    with tempfile.NamedTemporaryFile(dir=scratch_root(), prefix="lakeaudit-") as copy:
        copy.write(content.read())
        copy.flush()
        source = f"read_parquet({duck.literal(copy.name)})"
        try:
            return of_checkpoint(con, acts.checkpoint_actions(con, schema, "0", source))
        except duck.DuckError:
            return None


def read_summary(file: pq.ParquetFile) -> FileSummary:
    """Summarize a file that is already open."""
    leaves = summary_columns(file)
    groups = [number for number in range(file.num_row_groups) if leaves and _has_values(file, number)]
    found = file.iter_batches(row_groups=groups, columns=leaves, use_threads=False) if groups else ()
    return replace(summarize_rows(found), adds=_adds(file), rows=file.metadata.num_rows)


def _adds(file: pq.ParquetFile) -> int | None:
    """Count the rows that have an `add` action, by the statistics of its path; None if the statistics lack it."""
    if "add" not in file.schema_arrow.names:
        return 0
    counted = 0
    for number in range(file.num_row_groups):
        group = file.metadata.row_group(number)
        columns = (group.column(index) for index in range(group.num_columns))
        known = next((each.statistics for each in columns if each.path_in_schema == "add.path"), None)
        if known is None or not known.has_null_count:
            return None
        counted += known.num_values
    return counted


def summary_columns(file: pq.ParquetFile) -> list[str]:
    """Return the columns of a file that `summarize_rows` takes."""
    there = file.schema_arrow.names
    return [f"{name}.{leaf}" for name, fields in _LEAVES.items() if name in there for leaf in fields]


def summarize_rows(batches: Iterable[pa.RecordBatch | pa.Table]) -> FileSummary:
    """Return sidecars, protocol and metaData of a checkpoint's rows."""
    sidecars: list[tuple[str, int | None]] = []
    state: dict[str, str] = {}
    for batch in batches:
        sidecars += [_sidecar(row) for row in _rows(batch, "sidecar")]
        for name in STATE:
            for row in _rows(batch, name):
                state[name] = json.dumps(_plain(row), default=str)
    return FileSummary(tuple(sidecars), state)


def _sidecar(row: Mapping[str, Any]) -> tuple[str, int | None]:
    size = row.get("sizeInBytes")
    return str(row["path"]), size if isinstance(size, int) else None


def _has_values(file: pq.ParquetFile, number: int) -> bool:
    """Return whether a row group has a value in these columns; true if its statistics do not show it."""
    group = file.metadata.row_group(number)
    for index in range(group.num_columns):
        column = group.column(index)
        if column.path_in_schema.partition(".")[0] in _LEAVES:
            known = column.statistics
            if known is None or not known.has_null_count or known.num_values:
                return True
    return False


def _rows(batch: pa.RecordBatch | pa.Table, name: str) -> list[dict[str, Any]]:
    if name not in batch.schema.names or batch.column(name).null_count == batch.num_rows:
        return []
    rows: list[dict[str, Any]] = batch.column(name).drop_null().to_pylist()
    return rows


def _plain(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the row with a dict for `configuration`: Parquet's maps are pairs."""
    settings = row.get("configuration")
    return {**row, "configuration": dict(settings)} if settings is not None else dict(row)


def _top(checkpoint: Checkpoint, summaries: Mapping[Location, FileSummary], clients: Clients) -> FileSummary:
    """Summarize the top-level files of a checkpoint as one; `_content` collects their problems."""
    if checkpoint.is_json:
        return _json_top(checkpoint.parts[0].place, clients)
    parts = [summaries[part.place] for part in checkpoint.parts]
    state = {name: text for part in parts for name, text in part.state.items()}
    return FileSummary(tuple(each for part in parts for each in part.sidecars), state)


def _json_top(place: Location, clients: Clients) -> FileSummary:
    try:
        content = read_bytes(clients, place)
        actions = [json.loads(line) for line in (content or b"").splitlines() if line.strip()]
        sidecars = tuple(_sidecar(action["sidecar"]) for action in actions if action.get("sidecar"))
    except SourceError as error:
        return FileSummary(refused=str(error))
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return FileSummary(problem=TORN)
    return FileSummary(sidecars, problem=None if actions else "it is empty or missing")


def _with_sidecars(
    log: Log, top: FileSummary, clients: Clients
) -> tuple[FileSummary, dict[Location, File | None]]:
    """Return the summary and the files of its sidecars; `refused` is set if they cannot all be listed."""
    try:
        return top, _sidecar_files(log, top, clients)
    except SourceError as error:
        return replace(top, refused=str(error)), {}


def _sidecar_files(log: Log, top: FileSummary, clients: Clients) -> dict[Location, File | None]:
    """Return the sidecars that a checkpoint names, with None for one that is missing."""
    if not top.sidecars:
        return {}
    folder = log.folder.join(SIDECARS)
    there = {file.place: file for file in list_files(clients, folder, flat=True)}
    named = [folder.join(unquote(name.rpartition("/")[2])) for name, _ in top.sidecars]
    return {place: there.get(place) for place in named}


def _content(
    checkpoint: Checkpoint,
    top: FileSummary,
    sidecars: Mapping[Location, File | None],
    summaries: Mapping[Location, FileSummary],
) -> Content:
    broken = {checkpoint.parts[0].place: top.problem} if top.problem else {}
    broken |= {place: GONE for place, file in sidecars.items() if file is None}
    broken |= dict(_of_other_sizes(top, sidecars))
    files = [*checkpoint.parts, *(file for file in sidecars.values() if file)]
    seen = [(file.place, summaries[file.place]) for file in files if file.place in summaries]
    broken |= {place: summary.problem for place, summary in seen if summary.problem}
    refused = next((summary.refused for _, summary in seen if summary.refused), top.refused)
    unknown = checkpoint.is_json or bool(broken)
    adds, rows = (
        None if unknown else _total(counts)
        for counts in ([summary.adds for _, summary in seen], [summary.rows for _, summary in seen])
    )
    sums = None
    if not checkpoint.is_json and not broken and all(summary.sums is not None for _, summary in seen):
        sums = reduce(
            EntrySums.plus, (summary.sums for _, summary in seen if summary.sums is not None), NOTHING
        )
    return Content(tuple(files), top.state, broken, refused, adds, sums, rows)


def _total(counts: Iterable[int | None]) -> int | None:
    known = list(counts)
    return None if None in known else sum(count for count in known if count is not None)


def _of_other_sizes(
    top: FileSummary, sidecars: Mapping[Location, File | None]
) -> Iterator[tuple[Location, str]]:
    """Yield the sidecars whose size differs from the one that their checkpoint records: they were replaced."""
    recorded = {unquote(name.rpartition("/")[2]): size for name, size in top.sidecars}
    for place, file in sidecars.items():
        size = recorded.get(place.key.rpartition("/")[2])
        if file is not None and size is not None and file.size != size:
            yield place, f"it has {file.size} bytes, and its checkpoint records {size}"
