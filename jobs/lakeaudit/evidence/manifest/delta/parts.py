"""Log files as parts of a source: runs of many small ones, read at once, and large checkpoints, read as they are asked.

What the driver has to know comes as NOTE rows, whose `data` is a JSON object: kind (protocol, metaData, vacuum,
problem, undecodable, hole), table, reading, version, time (UTC), text.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakeaudit.errors import SourceError
from lakeaudit.evidence.files import File, fetched, read_bytes
from lakeaudit.evidence.manifest.delta import actions as acts
from lakeaudit.evidence.manifest.delta.lines import EPOCH, UNREAD, LineFile, read_lines
from lakeaudit.evidence.protocol import Batches, Part
from lakeaudit.keys import Location
from lakeaudit.runtime import duck
from lakeaudit.runtime.aws import Clients
from lakeaudit.runtime.duck import Connection
from lakeaudit.schemas import NOTE

TORN = "a line of it is torn or no Delta action"
DAMAGED = "it is damaged inside, or gone"
_TASK_BYTES = 32 << 20
_TASK_FILES = 256
_SMALL_PARQUET = 1 << 20
_MANY_STATISTICS = 256 << 20
_FILE = pa.schema(
    [
        ("file", pa.int64()),
        ("table_name", pa.string()),
        ("reading", pa.int64()),
        ("version", pa.int64()),
        ("time", pa.timestamp("us")),
        ("in_commit_time", pa.timestamp("us")),
        ("checkpoint", pa.bool_()),
        ("root_bucket", pa.string()),
        ("root_prefix", pa.string()),
    ]
)


@dataclass(frozen=True)
class LogFile:
    """A log file to read: `time` is its commit's, by the file; `reading` tells repeated readings of a table apart."""

    table: str
    root: Location
    version: int
    time: datetime
    checkpoint: bool
    file: File
    reading: int = 0

    @property
    def is_parquet(self) -> bool:
        return self.file.name.endswith(".parquet")

    @property
    def is_large(self) -> bool:
        """Whether it is read only when its rows are asked for."""
        return self.is_parquet and self.file.size > _SMALL_PARQUET


def runs_of(files: Iterable[LogFile], source: str, clients: Clients) -> list[Part]:
    """Parts of many files each, to be read now."""
    return [Part(source, partial(read_run, run, source, clients), _weight(run)) for run in _runs(files)]


def checkpoints_of(files: Iterable[LogFile], source: str, clients: Clients) -> list[Part]:
    """Parts of large Parquet checkpoints, to be read when they are asked for."""
    return [Part(source, partial(read_large, run, source, clients), _weight(run)) for run in _runs(files)]


def _weight(run: Sequence[LogFile]) -> int:
    return sum(each.file.size for each in run)


def _runs(files: Iterable[LogFile]) -> Iterator[tuple[LogFile, ...]]:
    run: list[LogFile] = []
    for file in files:
        if run and (len(run) == _TASK_FILES or _weight(run) + file.file.size > _TASK_BYTES):
            yield tuple(run)
            run = []
        run.append(file)
    if run:
        yield tuple(run)


def read_run(files: Sequence[LogFile], source: str, clients: Clients, con: Connection) -> Batches:
    """STEP rows of all these files, and NOTE rows of what the driver has to know of them."""
    notes = _Notes(source, files)
    lines = [LineFile(n, f.file.place, f.file.size) for n, f in enumerate(files) if not f.is_parquet]
    for block in read_lines(lines, clients) if lines else ():
        for number, problem in block.problems:
            notes.problem(number, problem)
        parsed = acts.parse_lines(con, block.rows)
        notes.of_lines(con, parsed)
        yield from _steps(con, acts.on_files(con, parsed), _files(files, block.in_commit_ms), notes)
    tables = [
        table for n, f in enumerate(files) if f.is_parquet if (table := _small(con, n, f, clients, notes))
    ]
    if tables:
        yield from _steps(con, pa.concat_tables(tables), _files(files, {}), notes)
    yield "notes", notes.table()


def _steps(con: Connection, actions: pa.Table, files: pa.Table, notes: "_Notes") -> Batches:
    if not actions.num_rows:
        return
    for number, count in acts.undecodable(con, actions, files).items():
        notes.add(number, "undecodable", count=count)
    yield acts.KIND, acts.file_steps(con, actions, files)
    if pc.any(actions.column("has_vector")).as_py():
        yield acts.KIND, acts.vector_steps(con, actions, files)


def _small(con: Connection, number: int, file: LogFile, clients: Clients, notes: "_Notes") -> pa.Table | None:
    try:
        content = read_bytes(clients, file.file.place)
        if content is not None:
            rows = acts.read_parquet(content)
            return duck.table(acts.checkpoint_actions(con, rows.schema, number, "rows", rows=rows))
        notes.problem(number, DAMAGED)
    except SourceError as error:
        notes.problem(number, UNREAD + error.what)
    except (pa.ArrowException, duck.DuckError, OSError, ValueError, LookupError):
        notes.problem(number, DAMAGED)
    return None


def read_large(files: Sequence[LogFile], source: str, clients: Clients, con: Connection) -> Batches:
    """STEP rows of large checkpoints, each as one relation that reads no more columns than are asked of it.

    A file is read through once before, so that one that is damaged gives a hole. What that look does not decode (see
    `_survey`) may fail when it is asked for: then `throw` the error into this iterator, which makes it a hole as well.
    """
    notes = _Notes(source, files)
    for number, file in enumerate(files):
        yield from _large(con, number, file, clients, notes)
    yield "notes", notes.table()


def _large(con: Connection, number: int, file: LogFile, clients: Clients, notes: "_Notes") -> Batches:
    about = _files([file], {})
    try:
        with fetched(clients, file.file.place) as path:
            if path is None:
                notes.hole(number, DAMAGED)
                return
            metadata = pq.read_metadata(path)
            rows = acts.checkpoint_actions(
                con, metadata.schema.to_arrow_schema(), 0, f"read_parquet({duck.literal(path)})"
            )
            survey = acts.survey(
                con, rows, about, records=_bytes_of(metadata, "add.stats") <= _MANY_STATISTICS
            )
            notes.unknown(number, survey.undecodable)
            yield acts.KIND, acts.file_steps(con, rows, about)
            if survey.has_vectors:
                yield acts.KIND, acts.vector_steps(con, rows, about)
    except SourceError as error:
        notes.hole(number, error.what)
    except (pa.ArrowException, duck.DuckError, OSError, ValueError):
        notes.hole(number, DAMAGED)


def _bytes_of(metadata: pq.FileMetaData, column: str) -> int:
    """How large a column is when it is decompressed."""
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    chunks = [group.column(index) for group in groups for index in range(group.num_columns)]
    return sum(chunk.total_uncompressed_size for chunk in chunks if chunk.path_in_schema == column)


def _files(files: Sequence[LogFile], in_commit_ms: Mapping[int, int]) -> pa.Table:
    """What the steps of these files have in common, by the number of the file."""
    rows = [
        (number, f.table, f.reading, f.version, _naive(f.time), _time_of(in_commit_ms.get(number)), f.checkpoint,
         f.root.bucket, f.root.prefix)
        for number, f in enumerate(files)
    ]  # fmt: skip
    return duck.small(_FILE, rows)


def _naive(time: datetime) -> datetime:
    return time.astimezone(UTC).replace(tzinfo=None)


def _time_of(epoch_ms: int | None) -> datetime | None:
    """None outside the years 1 to 9999, which no clock gave."""
    try:
        return None if epoch_ms is None else _naive(EPOCH + timedelta(milliseconds=epoch_ms))
    except OverflowError:
        return None


class _Notes:
    """NOTE rows of some log files, named by their number."""

    def __init__(self, source: str, files: Sequence[LogFile]) -> None:
        self._source = source
        self._files = files
        self._rows: list[dict[str, Any]] = []
        self._newest: dict[tuple[str, str], tuple[int, str]] = {}

    def add(
        self, number: int, kind: str, reason: str | None = None, count: int | None = None, **data: Any
    ) -> None:
        file = self._files[number]
        known = {"kind": kind, "table": file.table, "reading": file.reading, "version": file.version}
        text = json.dumps(known | data)
        self._rows.append(
            {
                "source": self._source,
                "subject": file.file.place.uri,
                "reason": reason,
                "count": count,
                "data": text,
            }
        )

    def of_lines(self, con: Connection, parsed: pa.Table) -> None:
        """Torn lines, the newest protocol and metaData of each table, and records of vacuums."""
        wanted = """SELECT file, kind, text FROM parsed
            WHERE kind IN ('protocol', 'metaData') OR (kind = 'commitInfo' AND text IS NOT NULL)
            UNION ALL SELECT DISTINCT file, kind, NULL FROM parsed WHERE kind = 'torn'"""
        for row in duck.rows_of(duck.query(con, wanted, parsed=parsed)):
            number, kind, text = row["file"], row["kind"], row["text"]
            if kind == "torn":
                self.problem(number, TORN)
            elif kind != "commitInfo":
                self._newest_of(number, kind, text)
            elif _operation(text) == "VACUUM START":
                self.add(number, "vacuum", text=text, time=self._files[number].time.isoformat())

    def _newest_of(self, number: int, kind: str, text: str) -> None:
        """Of many schema changes only the last is kept."""
        table = self._files[number].table
        known = self._newest.get((table, kind))
        if known is None or self._files[known[0]].version <= self._files[number].version:
            self._newest[table, kind] = (number, text)

    def problem(self, number: int, reason: str) -> None:
        """Something of a file could not be understood, or all of it could not be read."""
        self.add(number, "problem", reason, 1)

    def hole(self, number: int, reason: str) -> None:
        """A checkpoint that stands for the base of its table is lost after the log was read."""
        self.add(number, "hole", reason, 1, hides="every file that the table lists", hole="missing_metadata")

    def unknown(self, number: int, count: int) -> None:
        """Paths of a checkpoint that is read late cannot be understood."""
        if count:
            reason = f"{count} paths or deletion vectors in the log cannot be understood"
            self.add(number, "hole", reason, count, hides="the files they name", hole="unreadable_evidence")

    def table(self) -> pa.Table:
        for (_, kind), (number, text) in self._newest.items():
            self.add(number, kind, text=text)
        return pa.Table.from_pylist(self._rows, NOTE)


def _operation(commit_info: str) -> object:
    found = json.loads(commit_info)
    return found.get("operation") if isinstance(found, dict) else None
