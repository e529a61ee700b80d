"""Find inserts that look like one batch written twice: equal row counts first, then footers with equal columns.

Hudi's own columns hold the instant and the file's name, so that files of equal rows differ in size by a few bytes. The
statistics of the other columns in the footers decide. See `manifest.repeated_appends`.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pyarrow as pa

from lakeaudit.errors import SourceError
from lakeaudit.evidence.avro.blocks import Torn
from lakeaudit.evidence.files import read_bytes
from lakeaudit.evidence.lineage import Stake, Witness
from lakeaudit.evidence.manifest.hudi.state.readings import Reading, TableReading
from lakeaudit.evidence.manifest.hudi.state.rows import FILES
from lakeaudit.evidence.manifest.hudi.timeline.appends import AppendedFile, files_of
from lakeaudit.evidence.manifest.hudi.timeline.instants import Instant
from lakeaudit.evidence.manifest.hudi.timeline.payload import record_of
from lakeaudit.evidence.manifest.repeated_appends import Append, candidates, witness
from lakeaudit.evidence.protocol import Context
from lakeaudit.evidence.storage.footers import Columns, columns_of
from lakeaudit.runtime import duck
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.duck import Connection, Rows

MOST_FILES = 50
"""Most files of one append whose footers are read; a larger one is not reported."""
_OWN = "_hoodie_"
_THREADS = 16
_LIVE = "hudi_live_counts"
_COMMIT = pa.schema([("table_name", pa.string()), ("reading", pa.int64()), ("commit_id", pa.string())])
_COUNT = pa.schema([*_COMMIT, ("files", pa.int64())])

Pair = tuple[Append, Append]


def repeated_appends(reading: Reading, ctx: Context) -> tuple[Witness, ...]:
    """Return pairs of live inserts of these tables that added files with equal rows and columns."""
    pairs = [(read, pair) for read in reading.tables for pair in candidates(_appends(read))]
    if not pairs or not ctx.live:
        return ()
    live = live_files(
        reading, ctx, {(read.name, read.number, each.name) for read, pair in pairs for each in pair}
    )
    return tuple(
        witness(read.name, *pair, "instants", "row counts, with equal columns")
        for read, pair in pairs
        if all(live.get((read.name, each.name)) == each.stake.files for each in pair)
        and _is_repeated(read, pair, ctx.clients)
    )


def _appends(read: TableReading) -> Iterator[Append]:
    for each in read.found.writes:
        what = read.appended.get(each.begin)
        if what is not None and what.files <= MOST_FILES:
            stake = Stake(what.files, what.rows, what.bytes)
            yield Append(each.begin, each.at, what.digest, stake, each.file.place.uri, int(each.begin))


def live_files(
    reading: Reading, ctx: Context, commits: Collection[tuple[str, int, str]]
) -> Mapping[tuple[str, str], int]:
    """Return by table and instant how many of its files are live; `commits` are table, reading and instant."""
    selected = duck.small(_COMMIT, sorted(commits))
    met = ctx.engine.meet(reading.kept, partial(_of_commits, selected), _count_by_commit)
    found: Counter[tuple[str, str]] = Counter()
    for batch in met.batches(_LIVE):
        for row in batch.to_pylist():
            found[row["table_name"], row["commit_id"]] += row["files"]
    return found


def _of_commits(selected: pa.Table, con: Connection, kind: str, rows: Rows) -> Iterator[tuple[str, Rows]]:
    if kind == FILES:
        sql = """SELECT input.* FROM input SEMI JOIN selected USING (table_name, reading, commit_id)
            WHERE state = 'live'"""
        yield kind, duck.query(con, sql, input=rows, selected=selected)


def _count_by_commit(con: Connection, rows: Mapping[str, Rows]) -> Iterator[tuple[str, Rows]]:
    if FILES in rows:
        sql = "SELECT table_name, reading, commit_id, count(*) AS files FROM input GROUP BY ALL"
        yield _LIVE, duck.conform(con, duck.query(con, sql, input=rows[FILES]), _COUNT)


def _is_repeated(read: TableReading, pair: Pair, clients: Clients) -> bool:
    """Return whether both appends hold files with equal columns, of which some has more than one value."""
    instants = {each.begin: each for each in read.found.writes}
    first, second = (_features(read, instants[each.name], clients) for each in pair)
    return bool(first) and first == second


def _features(read: TableReading, instant: Instant, clients: Clients) -> Counter[tuple[str, Columns]] | None:
    """Count partition, row count and columns of an append's files; None if they are unknown, or no column varies."""
    try:
        files = files_of(instant.action, record_of(read_bytes(clients, instant.file.place) or b""))
    except (SourceError, Torn, AttributeError, TypeError, ValueError):
        return None
    with ThreadPoolExecutor(_THREADS) as pool:
        columns_of_files = list(pool.map(partial(_columns, read, clients), files))
    known = [each for each in columns_of_files if each is not None]
    if len(known) < len(files) or not any(columns.varied for columns in known):
        return None
    folders = (file.path.rpartition("/")[0] for file in files)
    return Counter(zip(folders, known, strict=True))


def _columns(read: TableReading, clients: Clients, file: AppendedFile) -> Columns | None:
    place = read.found.table.location.join(*file.path.split("/"))
    columns = columns_of(clients, place, file.size)
    return None if columns is None else columns.without(_OWN)
