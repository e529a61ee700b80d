"""Turn records into parts: rows of kind `events`, `acts` and `notes`. Runs in tasks."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial

import pyarrow as pa
from botocore.exceptions import BotoCoreError, ClientError

from lakeaudit.errors import SourceError
from lakeaudit.evidence.files import File, read_bytes
from lakeaudit.evidence.manifest.file_list.fold import EVENT
from lakeaudit.evidence.manifest.file_list.list_part import Summaries, Summary, event_table
from lakeaudit.evidence.manifest.file_list.parse_rows import Event, event
from lakeaudit.evidence.manifest.file_list.read_lines import Fault, Line, ListFile, Row
from lakeaudit.evidence.manifest.records.record import LARGEST, Declared, Record, Understand
from lakeaudit.evidence.manifest.records.totals import JOBS
from lakeaudit.evidence.protocol import Batches, Part
from lakeaudit.keys import owner_of, place_by_name, without_dots
from lakeaudit.runtime import duck
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.connections.aws_failures import explain
from lakeaudit.runtime.duck import Connection
from lakeaudit.schemas import plain_time

A_PART = 256
"""Records in one part: each costs a request."""
_ROWS = 32_768
_OWN, _KEY, _FAULT = (list(EVENT).index(name) for name in ("own_root", "key", "fault"))


def parts(
    records: Sequence[Record], understand: Understand, clients: Clients, source: str, until: datetime | None
) -> list[Part]:
    """Return parts of several records each. Events after `until` (naive UTC) are left out; None: all count."""
    cuts = range(0, len(records), A_PART)
    return [
        Part(
            source,
            partial(
                _read, records=tuple(records[at : at + A_PART]), first=at, understand=understand,
                clients=clients, source=source, until=until,
            ),
            sum(record.file.size for record in records[at : at + A_PART]),
        )
        for at in cuts
    ]  # fmt: skip


def _read(
    con: Connection,  # noqa: ARG001
    records: Sequence[Record],
    first: int,
    understand: Understand,
    clients: Clients,
    source: str,
    until: datetime | None,
) -> Batches:
    lists = {n: record.listed(n, clients.names) for n, record in enumerate(records, first)}
    summaries = Summaries(lists, source, {number: Summary() for number in lists})
    jobs: list[tuple[Record, Declared]] = []
    for rows in _tables(records, first, understand, clients, jobs):
        yield "events", summaries.accept(rows, until)
    yield "jobs", _jobs(jobs, until)
    # a record adds files and retires none, so one with a fault does not make other records uncertain
    yield "notes", summaries.notes()


def _jobs(jobs: Sequence[tuple[Record, Declared]], until: datetime | None) -> pa.Table:
    """Return totals.JOBS rows of jobs that have ended by then."""
    rows = [
        (
            record.table,
            job.job,
            *job.path,
            plain_time(job.ended_at),
            job.files,
            job.bytes,
            job.tag,
            job.marker,
        )
        for record, job in jobs
    ]
    return duck.small(JOBS, [row for row in rows if until is None or row[4] <= until])


def _tables(
    records: Sequence[Record],
    first: int,
    understand: Understand,
    clients: Clients,
    jobs: list[tuple[Record, Declared]],
) -> Iterator[pa.Table]:
    held: list[Event] = []
    for number, record in enumerate(records, first):
        for each in events_of(record, number, understand, clients):
            if isinstance(each, Declared):
                jobs.append((record, each))
                continue
            held.append(each)
            if len(held) >= _ROWS:
                yield event_table(held)
                held = []
    if held:
        yield event_table(held)


def events_of(
    record: Record, number: int, understand: Understand, clients: Clients
) -> Iterator[Event | Declared]:
    """Yield the events of a record, in the order of fold.EVENT, and its totals; invalid content becomes a fault."""
    listed = record.listed(number, clients.names)
    line = 0
    try:
        for row in understand(record, partial(content, clients)):
            if isinstance(row, Declared):
                yield row
                continue
            line += 1
            table = _table_of(row, record, listed) if record.homes else listed
            if table is not None:
                yield _own(event(Line(line, row), table), table)
    except Fault as fault:
        yield event(Line(line, fault), listed)


def _table_of(row: Row, record: Record, listed: ListFile) -> ListFile | None:
    """Return the table that a row is about; None if it is not among the requested ones."""
    named = place_by_name(listed.aliases, str(row.get("path")))
    homes = dict(record.homes)
    owner = None if named is None else owner_of(homes, named[0], without_dots(named[1]))
    place = next((place for place, name in record.homes if name == owner), None)
    return None if owner is None or place is None else replace(listed, table=owner, home=place)


def _own(row: Event, listed: ListFile) -> Event:
    """Check that a record names only files of its own table."""
    if row[_FAULT] is None and row[_KEY] is not None and row[_OWN] is not True:
        raise Fault(f"names {str(row[_KEY])[:200]!r}, which is not a file of {listed.home.uri}")
    return row


def content(clients: Clients, file: File) -> bytes:
    """Read the bytes of a record.

    Raises:
        Fault: it is too large, it is missing, or it cannot be read.
    """
    if file.size > LARGEST:
        raise Fault(f"cannot be read: it has {file.size} bytes, which no such record has")
    try:
        read = read_bytes(clients, file.place, size=file.size)
    except SourceError as error:
        raise Fault(f"cannot be read: {error.what}") from error
    except (ClientError, BotoCoreError) as error:
        raise Fault(f"cannot be read: {explain(error)[0]}") from error
    if read is None:
        raise Fault("cannot be read: it is not there any more")
    return read
