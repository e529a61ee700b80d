"""Compare the entries of the log store with the logs in storage now: in tasks, with a few listings for each table.

Only commits of the last days are compared: DynamoDB removes entries once they have expired.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pyarrow as pa

from lakeaudit.errors import SourceError
from lakeaudit.evidence.files import File, list_files, read_bytes, stat
from lakeaudit.evidence.manifest.delta.witnesses.commits import FRESH, read_commit_files
from lakeaudit.evidence.metastore.delta_log_store.items import ENTERED
from lakeaudit.evidence.protocol import CommitFile, note_row
from lakeaudit.keys import Location
from lakeaudit.runtime import duck
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.duck import Connection, Rows
from lakeaudit.schemas import LOG_ENTRY, plain_time

RECENT = timedelta(days=7)
"""The greatest age of a completed entry that is compared."""
REMADE = timedelta(hours=1)
"""A log whose first commit is younger than an entry by this much belongs to another table."""
MOST = 200
"""The most commits of one table that are reported, the newest first."""
LOOKED_INTO = 20
"""The most commits of one table whose content is read."""

_COMMIT = re.compile(r"^(\d{20})\.json$")
_PREPARED = re.compile(r"^(\d{20})\.json\.")
Row = dict[str, object]


@dataclass(frozen=True)
class Stores:
    """The two stages of the comparison: plain data that travels to the tasks. `tables` are names by location."""

    source: str
    tables: Mapping[Location, str]
    clients: Clients
    edge: datetime
    ttl: timedelta

    def project(self, con: Connection, kind: str, rows: Rows) -> Iterator[tuple[str, Rows]]:
        """Select the entries of the requested tables."""
        if kind == "entered":
            places = pa.table(
                {"bucket": [p.bucket for p in self.tables], "base": [p.key for p in self.tables]}
            )
            sql = "SELECT * FROM input SEMI JOIN places USING (bucket, base)"
            yield kind, duck.query(con, sql, input=rows, places=places.cast(_PLACES))

    def compare(self, con: Connection, rows: Mapping[str, Rows]) -> Iterator[tuple[str, Rows]]:
        """Yield LOG_ENTRY rows of entries and commits that may not agree."""
        known = duck.rows_of(duck.relation(con, rows.get("entered", ENTERED.empty_table())))
        by_place: dict[Location, list[Row]] = {}
        for row in known:
            by_place.setdefault(Location(str(row["bucket"]), str(row["base"])), []).append(row)
        for place, entries in by_place.items():
            try:
                found = [_row(place, self, each) for each in _Table(self, place, entries).suspects()]
            except SourceError as error:
                yield "notes", note_row(self.source, self.tables[place], str(error))
            else:
                yield "log_suspects", pa.Table.from_pylist(found, LOG_ENTRY)


_PLACES = pa.schema([("bucket", pa.string()), ("base", pa.string())])


def _row(place: Location, by: Stores, known: Row) -> Row:
    version = int(str(known["version"]))
    relative = f"_delta_log/{version:020}.json"
    return {
        "judged_table": by.tables[place],
        "bucket": place.bucket,
        "key": place.join(relative).key,
        "relative": relative,
        "edge": by.edge,
        "touched_at": max(
            (at for name in _TIMES if isinstance(at := known.get(name), datetime)), default=None
        ),
        **_PLAIN,
        **known,
    }


_TIMES = ("entered_at", "temp_at", "written_at")
_PLAIN = dict.fromkeys(("complete", "past", "temp_there", "logged", "differs", "prepared", "copied"), False)


class _Table:
    """The log of one table, and the store's entries of that table."""

    def __init__(self, by: Stores, place: Location, entries: list[Row]) -> None:
        self.by, self.place, self.log = by, place, place.join("_delta_log")
        self.entries = {int(str(each["version"])): each for each in entries}
        recent = [n for n, each in self.entries.items() if _is_recent(each, by.edge)]
        self.since = min(recent, default=None)

    def suspects(self) -> list[Row]:
        """Return commits whose entry and file may not agree, the newest first."""
        oldest = self._oldest()
        if self.since is None or oldest is None:
            return []
        commits, temps = self._commits(self.since), self._temps(self.since)
        known = [
            self._compare_entry(n, commits.get(n), temps, oldest) for n in self.entries if n >= self.since
        ]
        unknown = [
            self._unknown(n, commits[n], temps) for n in commits if self._should_be_known(n, commits[n])
        ]
        found = sorted([*filter(None, known), *unknown], key=lambda row: -int(str(row["version"])))
        return self._looked_into(found[:MOST])

    def _oldest(self) -> tuple[int, File] | None:
        """Return the oldest commit of the log."""
        found = (
            (_COMMIT.match(file.name), file) for file in list_files(self.by.clients, self.log, flat=True)
        )
        return next(((int(name[1]), file) for name, file in found if name), None)

    def _commits(self, since: int) -> dict[int, File]:
        listed = list_files(self.by.clients, self.log, start_after=f"{since:020}", flat=True)
        return {int(name[1]): file for file in listed if (name := _COMMIT.match(file.name))}

    def _temps(self, since: int) -> dict[str, File]:
        """Return temporary files of commits from this one on, by their paths below the log."""
        folder = self.log.join(".tmp")
        listed = list_files(self.by.clients, folder, start_after=f"{since:020}", flat=True)
        return {f".tmp/{file.name}": file for file in listed}

    def _compare_entry(
        self, version: int, commit: File | None, temps: Mapping[str, File], oldest: tuple[int, File]
    ) -> Row | None:
        """Compare an entry with its commit; None: log and store agree."""
        entry = self.entries[version]
        temp = self._temp(entry, commit, temps)
        if commit is not None and (temp is None or _same(commit, temp)):
            return None
        times = [at for at in (entry["entered_at"], plain_time(temp.modified_at) if temp else None) if at]
        began = plain_time(oldest[1].modified_at) if oldest[0] == 0 else None
        former = any(isinstance(at, datetime) and began and began > at + REMADE for at in times)
        return {
            "version": version,
            "entered": True,
            "complete": entry["complete"],
            "entered_at": entry["entered_at"],
            "past": version < oldest[0] or former,
            "temp": entry["temp"],
            "temp_at": plain_time(temp.modified_at) if temp else None,
            "temp_there": temp is not None,
            "logged": commit is not None,
            "written_at": plain_time(commit.modified_at) if commit else None,
            "differs": commit is not None,
        }

    def _temp(self, entry: Row, commit: File | None, temps: Mapping[str, File]) -> File | None:
        """Return the temporary file of an entry; if the commit is missing, another folder than `.tmp` counts too."""
        name = str(entry["temp"] or "")
        if name in temps or commit is not None or not name:
            return temps.get(name)
        return stat(self.by.clients, self.log.join(*name.split("/")))

    def _should_be_known(self, version: int, commit: File) -> bool:
        """Return whether a commit without entry should have one: its table used the store, and it is not expired."""
        first = min(self.entries, default=version)
        expires = plain_time(commit.modified_at) + self.by.ttl
        return first < version and version not in self.entries and expires > self.by.edge

    def _unknown(self, version: int, commit: File, temps: Mapping[str, File]) -> Row:
        prepared = {int(name[1]) for path in temps if (name := _PREPARED.match(path.removeprefix(".tmp/")))}
        return {
            "version": version,
            "entered": False,
            "logged": True,
            "written_at": plain_time(commit.modified_at),
            "prepared": version in prepared,
        }

    def _looked_into(self, found: list[Row]) -> list[Row]:
        """Read contents to find out whether a commit equals its temporary file, and whether its file is a copy."""
        lookups = 0
        for row in found:
            is_open = row.get("differs") or (row["entered"] is False and not row["prepared"])
            if is_open and lookups < LOOKED_INTO:
                lookups += 1
                row.update(self._compare_content(row))
        return [row for row in found if not (row["logged"] and row["entered"] and row["differs"] is False)]

    def _compare_content(self, row: Row) -> Row:
        place = self.log.join(f"{int(str(row['version'])):020}.json")
        if row["entered"]:
            temp = self.log.join(*str(row["temp"]).split("/"))
            contents = [read_bytes(self.by.clients, each) for each in (place, temp)]
            return {"differs": None not in contents and contents[0] != contents[1]}
        file = CommitFile(self.by.tables[self.place], self.place, int(str(row["version"])), place)
        made = plain_time(read_commit_files([file], self.by.clients).commits[0].made_at)
        written = row["written_at"]
        return {"copied": not (made and isinstance(written, datetime) and abs(written - made) <= FRESH)}


def _is_recent(entry: Row, edge: datetime) -> bool:
    at = entry["entered_at"]
    return not entry["complete"] or (isinstance(at, datetime) and at >= edge - RECENT)


def _same(commit: File, temp: File) -> bool:
    """Return whether a commit's file surely equals its temporary file; different ETags alone do not prove a change."""
    return commit.size == temp.size and commit.etag == temp.etag


def stores(
    source: str, clients: Clients, edge: datetime, ttl: timedelta, tables: Mapping[Location, str]
) -> Stores:
    """Return the stages that compare the entries of a store with the logs."""
    return Stores(source, tables, clients, plain_time(edge.astimezone(UTC)), ttl)
