"""Turn log files into parts of a source: runs of many small files, read at once, and large checkpoints, read on demand.

The driver receives the facts that it needs as NOTE rows, see `notes`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakeaudit.errors import SourceError
from lakeaudit.evidence.files import File, fetched, read_bytes
from lakeaudit.evidence.manifest.delta.log import actions as acts
from lakeaudit.evidence.manifest.delta.log import paths
from lakeaudit.evidence.manifest.delta.log.checkpoints import FileSummary, summarize_rows, summary_columns
from lakeaudit.evidence.manifest.delta.log.lines import SHORT, UNREAD, LineFile, commit_moment, read_lines
from lakeaudit.evidence.manifest.delta.log.log_files import CommitFiles, LogFile, Pieces, each, runs, weight
from lakeaudit.evidence.manifest.delta.state.batches import KIND as BATCHES
from lakeaudit.evidence.manifest.delta.state.batches import batches
from lakeaudit.evidence.manifest.delta.state.commit_sums import KIND as SUMS
from lakeaudit.evidence.manifest.delta.state.commit_sums import commit_sums
from lakeaudit.evidence.manifest.delta.state.entry_sums import TableSums
from lakeaudit.evidence.manifest.delta.state.notes import DAMAGED, GONE, NO_PARQUET, Notes, parquet_problem
from lakeaudit.evidence.manifest.delta.witnesses.commit_counts import CommitCounts
from lakeaudit.evidence.protocol import Batches, Part, identity_of
from lakeaudit.keys import Aliases
from lakeaudit.runtime import duck
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.duck import Connection
from lakeaudit.runtime.failures import IN_MEMORY as _IN_MEMORY
from lakeaudit.runtime.failures import damage_of
from lakeaudit.runtime.lru_cache import LruCache
from lakeaudit.schemas import plain_time

_THREADS = 16
_SETTLED = timedelta(minutes=10)
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


def runs_of(files: Iterable[CommitFiles | LogFile], source: str, clients: Clients) -> list[Part]:
    """Return parts of many files each, which are read now."""
    return [Part(source, partial(read_run, run, source, clients), weight(run)) for run in runs(files)]


def sums_of(files: Iterable[CommitFiles], source: str, clients: Clients) -> list[Part]:
    """Return parts of commits whose entries are summed, without rows."""
    return [Part(source, partial(read_sums, run, source, clients), weight(run)) for run in runs(files)]


def checkpoints_of(files: Iterable[LogFile], source: str, clients: Clients, now: datetime) -> list[Part]:
    """Return parts of large Parquet checkpoints, which are read on demand; each is written once."""
    return [
        Part(
            source,
            partial(read_large, run, source, clients),
            weight(run),
            _identity(run, source, clients, now),
        )
        for run in runs(files)
    ]


def _identity(run: Pieces, source: str, clients: Clients, now: datetime) -> str:
    """Identify files by sizes and times, once they are old enough that another write would change their times."""
    if any(file.file.modified_at > now - _SETTLED for file in each(run)):
        return ""
    return identity_of("delta checkpoints", run, source, clients.names)


def read_run(pieces: Pieces, source: str, clients: Clients, con: Connection) -> Batches:
    """Yield STEP, BATCH and COMMIT_SUMS rows of all these files, and NOTE rows for the driver."""
    files = each(pieces)
    notes = Notes(source, files)
    lines = [LineFile(n, f.file.place, f.file.size) for n, f in enumerate(files) if not f.is_parquet]
    in_blocks = {line.number for line in lines if line.in_blocks}
    counts, sums = CommitCounts(in_blocks), TableSums(files)
    for block in read_lines(lines, clients) if lines else ():
        for number, problem in block.problems:
            notes.problem(number, problem)
        parsed = acts.parse_lines(con, block.rows)
        notes.of_lines(con, parsed)
        notes.of_recent(con, parsed, block.in_commit_ms)
        counts.add(con, parsed)
        about = about_files(files, block.in_commit_ms)
        yield BATCHES, batches(con, parsed, about, in_blocks)
        yield SUMS, commit_sums(con, parsed, about, in_blocks)
        actions = acts.on_files(con, parsed)
        sums.add(con, actions)
        yield from _steps(con, actions, about, notes, clients.names)
    commits = [n for n, file in enumerate(files) if not file.checkpoint and not notes.has_problem(n)]
    for number, unmet in counts.problems(commits):
        notes.problem(number, unmet.reason, lacks=[unmet.files, unmet.rows])
    if len(lines) < len(files):
        actions = _small_checkpoints(con, files, clients, notes)
        sums.add(con, actions)
        yield from _steps(con, actions, about_files(files, {}), notes, clients.names)
    notes.of_entries(sums)
    yield "notes", notes.table()


def read_sums(pieces: Pieces, source: str, clients: Clients, con: Connection) -> Batches:
    """Yield NOTE rows of the entries of commits; without rows of a damaged commit, whose sums stay unknown."""
    files = each(pieces)
    notes, sums = Notes(source, files), TableSums(files, earlier=True)
    faulty: set[int] = set()
    for block in read_lines([LineFile(n, f.file.place, f.file.size) for n, f in enumerate(files)], clients):
        parsed = acts.parse_lines(con, block.rows)
        kinds = parsed.filter(pc.equal(parsed.column("kind"), "torn"))
        faulty |= {number for number, _ in block.problems} | set(kinds.column("file").to_pylist())
        sums.add(con, acts.on_files(con, parsed))
    notes.of_entries(sums, frozenset(faulty))
    yield "notes", notes.table()


def _steps(con: Connection, actions: pa.Table, files: pa.Table, notes: Notes, aliases: Aliases) -> Batches:
    if not actions.num_rows:
        return
    path, has_vectors = actions.column("path"), pc.any(actions.column("has_vector")).as_py()
    if has_vectors or path.null_count or pc.any(pc.match_substring(path, "%")).as_py():
        for number, count in paths.undecodable(con, actions, files).items():
            notes.add(number, "undecodable", count=count)
    if pc.any(pc.or_(pc.starts_with(path, "/"), pc.match_substring(path, ":"))).as_py():
        for root in paths.roots_elsewhere(con, actions, files, aliases):
            notes.root(root["table_name"], root["bucket"], root["key"])
    yield paths.KIND, paths.file_steps(con, actions, files, aliases)
    if has_vectors:
        yield paths.KIND, paths.vector_steps(con, actions, files, aliases)


def _small_checkpoints(con: Connection, files: Sequence[LogFile], clients: Clients, notes: Notes) -> pa.Table:
    """Return ACTION rows of the Parquet files among these; files of one schema are parsed together."""
    numbers = [number for number, file in enumerate(files) if file.is_parquet]
    by_schema: dict[str, list[tuple[int, pa.Table]]] = {}
    with ThreadPoolExecutor(_THREADS) as pool:
        contents = pool.map(lambda n: _fetch(files[n], clients), numbers)
        # decoded here, one by one: threads that decode wait for each other more than they gain
        for number, content in zip(numbers, contents, strict=True):
            rows = content if isinstance(content, str) else _decode(content, files[number])
            if isinstance(rows, str):
                notes.problem(number, rows)
                continue
            actions, seen = rows
            for kind, text in seen.state.items():
                notes.newest(number, kind, text)
            if seen.sidecars and not files[number].summarized:
                notes.sidecars(number)
            by_schema.setdefault(str(actions.schema), []).append((number, actions))
    tables = [table for group in by_schema.values() for table in _actions(con, group, notes)]
    return pa.concat_tables([acts.ACTION.empty_table(), *tables])


def _fetch(file: LogFile, clients: Clients) -> bytes | str:
    """Return the content of a small checkpoint file, or why it cannot be read."""
    try:
        content = read_bytes(clients, file.file.place, size=file.file.size)
    except SourceError as error:
        return UNREAD + error.what
    return GONE if content is None else content


def _decode(content: bytes, file: LogFile) -> tuple[pa.Table, FileSummary] | str:
    """Return the actions of a small checkpoint file and its summary, or why it cannot be read."""
    fault = NO_PARQUET
    try:
        opened = pq.ParquetFile(pa.BufferReader(content))
        more = [] if file.summarized else summary_columns(opened)
        fault = DAMAGED
        rows = acts.read_parquet(opened, more)
        rows.validate(full=True)  # text that is not UTF-8 would fail in any later use
        return rows.select([name for name in ("add", "remove") if name in rows.column_names]), summarize_rows(
            [rows]
        )
    except acts.TooLargeError as error:
        return f"{UNREAD}{error} ({len(content)} bytes are stored)"
    except (pa.ArrowException, OSError, ValueError, TypeError, LookupError, AttributeError) as error:
        return parquet_problem(error, fault)


def _actions(con: Connection, group: Sequence[tuple[int, pa.Table]], notes: Notes) -> Iterator[pa.Table]:
    """Yield ACTION rows of files of one schema; a file whose values have impossible types becomes a problem."""
    rows = pa.concat_tables(
        [
            table.append_column("file", pa.repeat(pa.scalar(n, pa.int64()), table.num_rows))
            for n, table in group
        ]
    )
    try:
        yield duck.table(acts.checkpoint_actions(con, rows.schema, "file", "rows", rows=rows))
    except duck.DuckError:
        if len(group) == 1:
            notes.problem(group[0][0], DAMAGED)
            return
        for one in group:
            yield from _actions(con, [one], notes)


def read_large(pieces: Pieces, source: str, clients: Clients, con: Connection) -> Batches:
    """Yield STEP rows of large checkpoints, each as one relation that reads only the columns that a query uses.

    The paths of a file are surveyed before. Damage elsewhere in the file fails later, when a query reads it: then
    `throw` the error into this iterator, which reports it as an evidence gap, too.
    """
    files = each(pieces)
    notes = Notes(source, files)
    for number, file in enumerate(files):
        yield from _large(con, number, file, clients, notes)
    yield "notes", notes.table()


def _large(con: Connection, number: int, file: LogFile, clients: Clients, notes: Notes) -> Batches:
    about = about_files([file], {})
    try:
        with fetched(clients, file.file.place) as path:
            if path is None:
                notes.lost_base(number, DAMAGED)
                return
            if path.stat().st_size < file.file.size:
                notes.lost_base(number, SHORT)
                return
            schema = pq.read_schema(path)
            actions = partial(
                acts.checkpoint_actions, con, schema, "0", f"read_parquet({duck.literal(path)})"
            )
            rows = actions()
            survey = _SURVEYS.get(file.file, partial(paths.survey, con, rows, about))
            notes.unknown(number, survey.undecodable)
            if survey.plain:
                yield paths.KIND, paths.plain_steps(con, actions, about.to_pylist()[0], clients.names)
                return
            yield paths.KIND, paths.file_steps(con, rows, about, clients.names)
            if survey.has_vectors:
                yield paths.KIND, paths.vector_steps(con, rows, about, clients.names)
    except SourceError as error:
        notes.lost_base(number, error.what)
    except (pa.ArrowException, duck.DuckError, OSError, ValueError) as error:
        why = damage_of(error)
        in_words = f"{why} ({file.file.size} bytes are stored)" if _IN_MEMORY in why else None
        notes.lost_base(number, in_words or parquet_problem(error, DAMAGED))


_SURVEYS: LruCache[File, paths.Survey] = LruCache(10_000)
"""By large checkpoint what its paths are like, so that the second pass does not check them again."""


def about_files(files: Sequence[LogFile], in_commit_ms: Mapping[int, int]) -> pa.Table:
    """Return the columns that the steps of each of these files share, by the number of the file."""
    rows = [
        (number, f.table, f.reading, f.version, plain_time(f.time),
         plain_time(commit_moment(in_commit_ms.get(number), f.time)), f.checkpoint, f.root.bucket, f.root.prefix)
        for number, f in enumerate(files)
    ]  # fmt: skip
    return duck.small(_FILE, rows)
