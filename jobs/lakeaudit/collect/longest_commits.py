"""Measures how long the newest commits of tables took, from the first written file to the commit.

A job that writes for three hours has files for three hours that no state lists yet. A file that is younger than the
longest observed commit may belong to a running commit, whatever `leftover_age` says.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, datetime, timedelta

from botocore.exceptions import BotoCoreError, ClientError

from lakeaudit.collect.claim_lookups import query_claims
from lakeaudit.config import Table
from lakeaudit.engine.local import AuditEngine
from lakeaudit.evidence import registry
from lakeaudit.evidence.protocol import Claims, CommitLogs
from lakeaudit.evidence.s3_responses import head_response
from lakeaudit.runtime import duck
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.duck import Connection, Relation, Rows
from lakeaudit.runtime.threads import beside

COMMITS, FILES = 5, 10
"""The most commits that are read per table, and the most files that are requested."""
THREADS = 8
_NOT_WRITTEN = ("RESTORE", "CLONE", "CONVERT", "REORG", "UPGRADE")
"""Prefixes of operations that list files that were written long before."""

Committed = tuple[str, str, str, datetime]
"""Table, bucket and key of a file, and the time of its commit."""


def longest_commits(
    engine: AuditEngine, claims: Sequence[Claims], tables: Collection[Table], clients: Clients
) -> dict[str, timedelta]:
    """Return by table the longest time from a file to its commit among the newest; tables without one are left out."""
    names = {table.name for table in tables}
    files = [file for read in claims for file in _newest(engine, read, names & read.states.keys(), clients)]
    samples: dict[str, list[Committed]] = defaultdict(list)
    for file in sorted(files, key=lambda file: file[3], reverse=True):
        if len(samples[file[0]]) < FILES:
            samples[file[0]].append(file)
    longest: dict[str, timedelta] = {}
    with beside(THREADS) as pool:
        some = [file for of_table in samples.values() for file in of_table]
        for (table, *_), took in zip(some, pool.map(lambda file: _took(clients, file), some), strict=True):
            if took is not None:
                longest[table] = max(took, longest.get(table, timedelta(0)))
    return longest


def _newest(
    engine: AuditEngine, read: Claims, names: Collection[str], clients: Clients
) -> Iterator[Committed]:
    if read.commits is not None:
        for name in names:
            version = read.states[name].version
            if version is not None and name in read.commits.since:
                yield from _of_log(read.commits, name, version, clients)
    elif read.info.kind in registry.dated_kinds() and names:
        for batch in query_claims(engine, [read], sorted(names), _last_claimed):
            for row in batch.to_pylist():
                yield row["table_name"], row["bucket"], row["key"], row["claimed_at"].replace(tzinfo=UTC)


def _of_log(logs: CommitLogs, name: str, version: int, clients: Clients) -> Iterator[Committed]:
    """Yield files that the newest commits of a log added."""
    numbers = range(max(logs.since[name] + 1, version - COMMITS + 1), version + 1)
    written = {number: at for number in numbers if (at := logs.written_at(name, number)) is not None}
    contents = logs.read([logs.file(name, number) for number in written], clients)
    times = [*written.values()]
    others = {n for n, one in enumerate(contents.commits) if one.operation.upper().startswith(_NOT_WRITTEN)}
    for row in contents.files.to_pylist():
        if row["added"] and row["number"] not in others and row["bucket"]:
            yield name, row["bucket"], row["key"], times[row["number"]]


def _last_claimed(con: Connection, claims: Rows) -> Relation:
    sql = f"""SELECT table_name, bucket, key, claimed_at FROM input
        WHERE state = 'live' AND claimed_at IS NOT NULL
        QUALIFY row_number() OVER (PARTITION BY table_name ORDER BY claimed_at DESC) <= {FILES}"""
    return duck.query(con, sql, input=claims)


def _took(clients: Clients, file: Committed) -> timedelta | None:
    """Return the time from the file to its commit; None if it is unknown or the file was written again."""
    _, bucket, key, at = file
    try:
        written = head_response(clients.s3(bucket, key).head_object(Bucket=bucket, Key=key)).modified_at
    except (ClientError, BotoCoreError):
        return None
    return None if written is None or written > at else at - written
