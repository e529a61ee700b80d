"""Find witnesses against Hudi tables: names of completed writes that the timeline lacks.

A write may leave the timeline in two ways: it is archived, or a rollback or restore takes it back. Any other one was
lost. Instants are compared by when they began, since an upgrade of the table changes the names of their files.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from lakeaudit.errors import SourceError
from lakeaudit.evidence.avro.blocks import Torn
from lakeaudit.evidence.files import read_bytes, stat
from lakeaudit.evidence.lineage import (
    CONTENT,
    CUT_HISTORY,
    DATA_FILES,
    LAST_AUDIT,
    LOST_STATE,
    REPLACED_STATE,
    RIVAL_LINE,
    TIMELINE,
    LastState,
    LastStates,
    LostContent,
    Stake,
    StateRef,
    Witness,
    with_moved,
)
from lakeaudit.evidence.manifest.hudi.state.lost_updates import lost_updates
from lakeaudit.evidence.manifest.hudi.state.readings import TableReading
from lakeaudit.evidence.manifest.hudi.timeline.instants import FOLDER, PROPERTIES, Instant
from lakeaudit.evidence.manifest.hudi.timeline.names import LENGTH, in_order, instant_named, instant_of
from lakeaudit.evidence.manifest.hudi.timeline.payload import Act, Reason, acts, record_of
from lakeaudit.evidence.manifest.hudi.timeline.properties import TableConfig
from lakeaudit.evidence.manifest.hudi.witnesses.contradictions import (
    double_completions,
    other_content,
    replacements,
    storage_explanations,
)
from lakeaudit.evidence.rewritten_files import is_rewritten, rewritten_words
from lakeaudit.formatting import number
from lakeaudit.keys import END, Location
from lakeaudit.runtime import duck
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.duck import Connection, Rows

KIND = "hudi"
SAMPLES = 3
MOST_NAMED = 100
"""Most instants of one table for which witnesses are made if only files name them."""
LEAST_WHOLE = 12
"""Bytes of the smallest Parquet file."""
_NAMES = (
    rf"/[^/_]+_[^/_]*_([0-9]{{14}}|[0-9]{{17}})\.(?:parquet|orc|hfile){END}",
    r"/\.[^/]+_([0-9]{14}|[0-9]{17})\.log\.[0-9]+(?:_[^/]*)?" + END,
)
"""Patterns for the instants in the keys of base files and log files."""


def state_of(read: TableReading) -> StateRef | None:
    """Return the newest completed write; None if there is none."""
    newest = read.found.writes[-1:]
    if not newest or len(newest[0].begin) != LENGTH:
        return None
    file = newest[0].file
    named = (int(newest[0].begin), file.name, table_id(read))
    return StateRef(*named, file.modified_at, file.etag or "", file.place.uri)


def table_id(read: TableReading) -> str:
    """Return the table's name and its first instant, which identify it; empty if the archive is unknown."""
    known = read.found.writes and read.is_known_whole
    return f"{read.config.name}@{_first(read)}" if known else ""


def witnesses(
    tables: Sequence[TableReading], last: LastStates, clients: Clients, *, live: bool
) -> tuple[Witness, ...]:
    """Return the writes that these tables lost; an older timeline does not show what was taken back since."""
    last = with_moved(last, KIND, ((read.name, state_of(read)) for read in tables))
    return tuple(
        witness
        for read in tables
        if live
        for witness in _of_table(read, last.get((KIND, read.name)), clients)
    )


def _of_table(read: TableReading, last: LastState | None, clients: Clients) -> Iterator[Witness]:
    """Yield lost and overwritten writes; with one, replacements are not judged: its replaced groups are unknown."""
    own = [*double_completions(read), *other_content(read)]
    yield from own
    if not read.is_known_whole:
        return
    updates = lost_updates(read.name, read.rivals, read.found.writes, read.fate.taken_back)
    lost = [*_of_last(read, last, clients), *_of_index(read)]
    yield from (*lost, *updates)
    if not own and all(one.explained or one.recreated for one in lost):
        yield from replacements(read)


def lost_content(place: Location, version: str, clients: Clients) -> LostContent | None:
    """Return the files that the older version of a completed write's file lists."""
    wrote = _wrote(place, clients, version)
    if wrote is None:
        return None
    sample = tuple(sorted(act.name for act in wrote if act.name)[:SAMPLES])
    return LostContent("", _stake(wrote), sample)


def _wrote(place: Location, clients: Clients, version: str | None = None) -> list[Act] | None:
    """Return the files that one version of a completed write's file lists; None if it cannot be understood."""
    name = instant_named(place.key.rpartition("/")[2])
    content = read_bytes(clients, place, version)
    if name is None or content is None:
        return None
    try:
        found = [*acts(name.action, False, record_of(content), Reason(name.begin, name.completed))]
    except (Torn, LookupError):
        return None
    return [act for act in found if act.act == "wrote" and act.kind != "changes"]


def replaced_state(table: str, place: Location, version: str, clients: Clients) -> Witness | None:
    """Return a witness if an older version of a completed write's file lists files that the current one lacks.

    Raises:
        SourceError: the store sends an error.
    """
    older, now = _wrote(place, clients, version), _wrote(place, clients)
    if older is None or now is None:
        return None
    names = {(act.folder, act.name) for act in now}
    lost = [act for act in older if (act.folder, act.name) not in names]
    if not lost:
        return None
    begin = in_order(place.key.rpartition("/")[2].partition(".")[0].partition("_")[0])
    words = (
        f"{place.uri} was written twice: its object version {version} lists {number(len(lost), 'file')} "
        "that the current "
        "version does not list"
    )
    claim = (table, REPLACED_STATE, (CONTENT,), place.uri, words, int(begin), _stake(lost))
    return Witness(
        *claim, version_id=version, sample=tuple(sorted(act.name for act in lost if act.name)[:SAMPLES])
    )


def _stake(wrote: Sequence[Act]) -> Stake:
    rows = [act.records for act in wrote if act.records is not None]
    sizes = [size for act in wrote if (size := act.size or act.least_size) is not None]
    complete = len(rows) == len(wrote)
    return Stake(
        len(wrote), sum(rows) if complete else None, sum(sizes) if len(sizes) == len(wrote) else None
    )


def _of_last(read: TableReading, last: LastState | None, clients: Clients) -> Iterator[Witness]:
    """Compare the timeline with the states that earlier audits read of it, or reported as lost."""
    location = read.found.table.location.uri
    if last is None or not last.is_of(location, table_id(read)):
        return
    known = last.description(location)
    if last.location == location:
        yield from _overwritten_write(read, last.state, known, clients)
    yield from _against(read, last.state, known, clients)
    for lost in last.lost:
        yield from _against(read, lost.state, lost.description, clients)


def _against(read: TableReading, state: StateRef, known: str, clients: Clients) -> Iterator[Witness]:
    if state.number is None:
        return
    begin = instant_of(state.number)
    if begin in _completed_instants(read) or begin in read.fate.archived:
        return
    place, now = timeline_of(read.found.table.location, read.config).join(state.name), table_id(read)
    words = f"write {begin} is missing from the timeline and from its archive: {known}{_rest(read, begin)}"
    other = bool(state.table_id and now and state.table_id != now)
    if other:
        words += f"; another table may be here now: name and first instant were {state.table_id}, and now are {now}"
    yield Witness(
        read.name,
        RIVAL_LINE if other or _is_there(place, clients) else LOST_STATE,
        (LAST_AUDIT,),
        place.uri,
        words,
        state.number,
        recreated=_is_recreated(read, begin, state, clients),
        explained=begin in read.fate.taken_back,
    )


def _overwritten_write(
    read: TableReading, state: StateRef, known: str, clients: Clients
) -> Iterator[Witness]:
    """Yield a completed write whose file has other content than before, or may have."""
    there = next((each.file for each in read.found.writes if each.file.name == state.name), None)
    if there is None:
        return
    rewritten = is_rewritten(clients, there, state.etag, state.written_at)
    if rewritten is not False:
        words = f"{rewritten_words(there.place.uri, surely=bool(rewritten))}: {known}"
        claim = REPLACED_STATE if rewritten else RIVAL_LINE
        yield Witness(read.name, claim, (LAST_AUDIT,), there.place.uri, words, state.number)


def _rest(read: TableReading, begin: str) -> str:
    """Describe the next step of Hudi for a write whose completed file alone is missing."""
    if begin not in read.found.pending:
        return ""
    return (
        "; its requested or inflight file exists, so the next writer will roll the write back and delete its "
        "files: stop the writers before that"
    )


def _is_there(place: Location, clients: Clients) -> bool:
    """Return whether the file exists although the listing left it out; true if this is unknown."""
    try:
        return stat(clients, place) is not None
    except SourceError:
        return True


def _is_recreated(read: TableReading, begin: str, state: StateRef, clients: Clients) -> bool:
    """Return whether the table began after that instant, because it was written again in place.

    The properties of a table without any write show when it was created.
    """
    done = (each.begin for each in read.found.instants)
    older = [each for each in (*done, *read.found.pending, read.fate.first) if each]
    if older:
        return min(older) > begin
    try:
        there = stat(clients, read.found.table.location.join(FOLDER, PROPERTIES[0]))
    except SourceError:
        return False
    return there is None or state.written_at is None or there.modified_at > state.written_at


def of_data_files(tables: Sequence[TableReading], con: Connection, leftovers: Rows) -> Iterator[Witness]:
    """Yield writes that files of the table name, but neither a timeline nor a rollback.

    Instants before the first known one are unknown. Later ones are lost. A savepoint keeps its own write in the
    timeline while later ones are archived, so with a savepoint no later one counts as lost. With an unknown instant,
    known replaced file groups prove nothing.
    """
    known = {read.name: read for read in tables if read.is_known_whole and read.found.writes}
    lacking = set()
    for row in _named_by_files(con, leftovers, known):
        read, begin = known[row["judged_table"]], row["instant"]
        saved = any(each.action == "savepoint" for each in read.found.instants) and read.found.archive
        lacking.add(read.name)
        if begin is None:
            yield _before_all(read, row)
        elif not saved and len(begin) == LENGTH and read.found.writes[0].begin < begin:
            yield _built_on(read, begin, row)
    yield from storage_explanations([*known.values()], lacking, con, leftovers)


def _first(read: TableReading) -> str:
    """Return the first known instant, in the archive or in the timeline."""
    return min(filter(None, (read.fate.first, read.found.writes[0].begin)))


def _named_by_files(
    con: Connection, leftovers: Rows, tables: Mapping[str, TableReading]
) -> list[dict[str, Any]]:
    """Return by table and unknown instant the whole data files that bear it, the newest instants first.

    Files before the first known instant are one row, without an instant; `oldest` is theirs.
    """
    accounted = [(name, instant) for name, read in tables.items() for instant in _accounted_instants(read)]
    first = [(name, _first(read)) for name, read in tables.items()]
    base, log = (f"regexp_extract(key, {duck.pattern(each)}, 1)" for each in _NAMES)
    sql = f"""
        WITH named AS (
            SELECT judged_table, key, size, coalesce(nullif({base}, ''), nullif({log}, '')) AS written,
                CASE length(written) WHEN 14 THEN written || '999' ELSE written END AS begin
            FROM input WHERE judged_table IN ({duck.literals(sorted(tables))}) AND size >= {LEAST_WHOLE}),
        unknown AS (
            SELECT named.*, CASE WHEN begin >= first.instant THEN written END AS instant
            FROM named JOIN first ON judged_table = first.of_table
            ANTI JOIN accounted ON judged_table = accounted.of_table AND begin = accounted.instant
            WHERE written IS NOT NULL)
        SELECT judged_table, instant, min(written) AS oldest, count(*) AS files, CAST(sum(size) AS BIGINT) AS bytes,
            list(parse_filename(key, false, 'forward_slash') ORDER BY key)[1:{SAMPLES}] AS sample
        FROM unknown GROUP BY judged_table, instant
        QUALIFY row_number() OVER (PARTITION BY judged_table ORDER BY instant DESC NULLS FIRST) <= {MOST_NAMED}
        ORDER BY judged_table, instant"""
    named = {"accounted": duck.small(_INSTANT, accounted), "first": duck.small(_INSTANT, first)}
    return duck.rows_of(duck.query(con, sql, input=leftovers, **named))


_INSTANT = pa.schema([("of_table", pa.string()), ("instant", pa.string())])


def _before_all(read: TableReading, row: Mapping[str, Any]) -> Witness:
    known = "its archive" if read.fate.first else "its timeline, which has no archive"
    words = (
        f"{number(row['files'], 'data file')} with instants since {row['oldest']} in the name: older "
        f"than {_first(read)}, the "
        f"first instant of {known}; these may be live files of removed instants, or files of an earlier table"
    )
    stake = Stake(row["files"], None, row["bytes"])
    claim = (read.name, CUT_HISTORY, (DATA_FILES,), read.found.table.location.uri, words)
    return Witness(*claim, stake=stake, sample=tuple(row["sample"]))


def _built_on(read: TableReading, begin: str, row: Mapping[str, Any]) -> Witness:
    have = "has" if row["files"] == 1 else "have"
    words = (
        f"{number(row['files'], 'data file')} {have} the instant {begin} in the name, but the timeline has no write "
        "and no rollback with this instant; a failed write would have left a `.requested` file or a rollback, "
        "and neither exists"
    )
    subject = timeline_of(read.found.table.location, read.config).join(f"{begin}.commit").uri
    stake, sample = Stake(row["files"], None, row["bytes"]), tuple(row["sample"])
    claim = (read.name, LOST_STATE, (DATA_FILES,), subject, words, int(begin))
    return Witness(*claim, stake, row["files"], sample=sample)


def _completed_instants(read: TableReading) -> set[str]:
    return {each.begin for each in read.found.writes}


def _of_index(read: TableReading) -> Iterator[Witness]:
    """Yield writes that the metadata table has, and the timeline lacks.

    The metadata table is written before a write completes, and was listed before the timeline. So a write that is
    under way has its requested file here, and one that failed has it until its rollback, which is read, too.
    """
    writes = read.found.writes
    if not writes:
        return
    accounted = _accounted_instants(read)
    for each in read.found.index_writes:
        if each.begin > writes[0].begin and each.begin not in accounted and not _is_of_its_own(read, each):
            yield _index_witness(read, each)


def _accounted_instants(read: TableReading) -> frozenset[str]:
    """Return instants in the timeline, and those that were archived or taken back."""
    there = {each.begin for each in read.found.instants} | read.found.pending
    return read.fate.taken_back | read.fate.archived | there


def _index_witness(read: TableReading, each: Instant) -> Witness:
    folder = timeline_of(read.found.table.location, read.config)
    words = (
        f"the metadata table's timeline has write {each.begin} ({each.file.place.uri}); the table's own timeline and "
        f"its archive lack this write, and no rollback removed it"
    )
    subject = folder.join(f"{each.begin}.commit").uri
    return Witness(read.name, LOST_STATE, (TIMELINE,), subject, words, int(each.begin))


def _is_of_its_own(read: TableReading, each: Instant) -> bool:
    """Return whether the metadata table may have written it itself (layout 2), while another instant was under way."""
    if read.config.layout == 1:
        return False
    spans = [(one.begin, one.completed) for one in read.found.instants]
    return any(begin < each.begin < (done or "9") for begin, done in spans) or any(
        begin < each.begin for begin in read.found.pending
    )


def timeline_of(location: Location, config: TableConfig) -> Location:
    """Return the folder of the active timeline."""
    home = location.join(FOLDER)
    return home.join(config.timeline) if config.timeline else home
