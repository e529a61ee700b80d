"""Read single commits of Delta logs, and find those that seem to have been written twice.

Only the few suspicious commits are read, on the driver. Version checksums (`*.crc`) carry the `txnId` of their commit,
as its commitInfo does ("Version Checksum File" of the Delta protocol).
"""

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from itertools import islice
from typing import Any

import pyarrow as pa

from lakeaudit.errors import SourceError
from lakeaudit.evidence.files import File, read_bytes
from lakeaudit.evidence.manifest.delta.log import actions as acts
from lakeaudit.evidence.manifest.delta.log import paths
from lakeaudit.evidence.manifest.delta.log.layout import Log, written_late
from lakeaudit.evidence.manifest.delta.log.lines import EPOCH, LINE
from lakeaudit.evidence.manifest.delta.log.log_files import LogFile
from lakeaudit.evidence.manifest.delta.log.metadata import NO_ACTION
from lakeaudit.evidence.manifest.delta.state.parts import about_files
from lakeaudit.evidence.manifest.delta.state.readings import Reading
from lakeaudit.evidence.protocol import CommitContent, CommitContents, CommitFile, CommitLogs, Doubt
from lakeaudit.keys import Location
from lakeaudit.runtime import duck
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.duck import task_connection

FRESH = timedelta(minutes=1)
"""Longest time between the creation of a commit and the write of its file; a copy is written later."""
MOST = 500
"""Most commits that are checked for copies in one run."""
_THREADS = 16
_OF_TABLE = ("metaData", "protocol")
_ACTIONS = pa.schema(
    [
        *[("number", pa.int64()), ("bucket", pa.string()), ("key", pa.string())],
        *[("added", pa.bool_()), ("data_change", pa.bool_()), ("size", pa.int64()), ("records", pa.int64())],
    ]
)


def commit_logs(readings: Sequence[Reading]) -> CommitLogs:
    """Return the functions that look up single commits of these tables."""
    known = {r.listed.name: r for r in readings if r.plan is not None and r.refused is None}
    since = {name: reading.plan.base_version for name, reading in known.items() if reading.plan}
    late = (
        _Late(name, reading.listed.location, reading.log, version)
        for name, reading in known.items() for version in written_late(reading.log, since[name])
    )  # fmt: skip
    counts = {name: len(reading.plan.commits) for name, reading in known.items() if reading.plan}
    doubts = partial(_doubts, [*islice(late, MOST)])
    declared = {name: r.listed.declared for name, r in known.items() if r.listed.declared is not None}
    return CommitLogs(
        since, counts, partial(_file, known), partial(_written_at, known), read_commit_files, doubts, declared
    )


def _file(known: Mapping[str, Reading], table: str, version: int) -> CommitFile:
    reading = known[table]
    return CommitFile(table, reading.listed.location, version, reading.log.commit_place(version))


def _written_at(known: Mapping[str, Reading], table: str, version: int) -> datetime | None:
    return known[table].log.commits.written_at(version) if table in known else None


def read_commit_files(files: Sequence[CommitFile], clients: Clients) -> CommitContents:
    """Read these commits; the content of one that cannot be read says why."""
    with ThreadPoolExecutor(_THREADS) as pool:
        found = list(pool.map(partial(_lines_of, clients), files))
    contents = tuple(_content(lines) for lines in found)
    rows = [
        (number, line) for number, lines in enumerate(found) for line in lines if not isinstance(lines, str)
    ]
    about = [
        LogFile(f.table, f.root, f.version, EPOCH, False, File(f.place, 0, EPOCH), number)
        for number, f in enumerate(files)
    ]
    with task_connection() as con:
        parsed = acts.parse_lines(con, duck.small(LINE, rows))
        named = paths.file_actions(con, acts.on_files(con, parsed), about_files(about, {}), clients.names)
        return CommitContents(contents, duck.table(duck.conform(con, named, _ACTIONS, {"number": "reading"})))


def _lines_of(clients: Clients, file: CommitFile) -> list[str] | str:
    """Return the lines of a commit's file, or why it cannot be read."""
    try:
        content = read_bytes(clients, file.place, file.version_id)
    except SourceError as error:
        return error.what
    return "it is missing" if content is None else content.decode("utf-8", "replace").split("\n")


def _content(lines: list[str] | str) -> CommitContent:
    if isinstance(lines, str):
        return CommitContent(unread=lines)
    found = [action for line in lines if any(f'"{kind}"' in line for kind in ("commitInfo", "txn", *_OF_TABLE))
             if (action := _json(line))]  # fmt: skip
    info: Mapping[str, Any] = next(
        (a["commitInfo"] for a in found if isinstance(a.get("commitInfo"), dict)), {}
    )
    changes = [json.dumps(action, sort_keys=True) for action in found if action.keys() & set(_OF_TABLE)]
    transactions = [action["txn"] for action in found if isinstance(action.get("txn"), dict)]
    applications = frozenset(str(each["appId"]) for each in transactions if each.get("appId"))
    operation = str(info.get("operation") or "")
    return CommitContent(operation, _made_at(info), tuple(sorted(changes)), applications=applications)


def _json(text: str) -> dict[str, Any]:
    """Parse the text as a JSON object; an empty dict if it is not one."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _made_at(info: Mapping[str, Any]) -> datetime | None:
    """Return when its writer made a commit, by the writer's clock."""
    try:
        return EPOCH + timedelta(milliseconds=int(info["timestamp"]))
    except NO_ACTION:
        return None


@dataclass(frozen=True)
class _Late:
    """Names a commit whose file was written later than that of the next one."""

    table: str
    root: Location
    log: Log
    version: int

    def beside(self, version: int) -> CommitFile:
        return CommitFile(self.table, self.root, version, self.log.commit_place(version))


def _doubts(late: Sequence[_Late], clients: Clients) -> list[Doubt]:
    """Return a doubt for each late commit that is not a copy of itself."""
    if not late:
        return []
    with ThreadPoolExecutor(_THREADS) as pool:
        return [doubt for doubt in pool.map(partial(_doubt, clients), late) if doubt is not None]


def _doubt(clients: Clients, late: _Late) -> Doubt | None:
    """Compare the checksum's transaction with the commit's; without both, both files must be recent for a doubt."""
    here, following = late.beside(late.version), late.beside(late.version + 1)
    why = f"its file was written after that of commit {following.version}"
    info, crc = _info(clients, here), _checksum(clients, late)
    if info.get("txnId") and crc.get("txnId"):
        other = f"{why}, and the checksum beside it was computed of another transaction"
        return None if info["txnId"] == crc["txnId"] else Doubt(here, other, sure=True)
    if all(
        _is_fresh(late.log, file, made)
        for file, made in ((here, info), (following, _info(clients, following)))
    ):
        return Doubt(
            here, f"{why}, as a copy of it would not have been so soon after it was made", sure=False
        )
    return None


def _info(clients: Clients, file: CommitFile) -> dict[str, Any]:
    lines = _lines_of(clients, file)
    found = [_json(line) for line in lines if '"commitInfo"' in line] if isinstance(lines, list) else []
    return next((one["commitInfo"] for one in found if isinstance(one.get("commitInfo"), dict)), {})


def _checksum(clients: Clients, late: _Late) -> dict[str, Any]:
    try:
        content = read_bytes(clients, late.log.folder.join(f"{late.version:020}.crc"))
    except SourceError:
        return {}
    return _json((content or b"").decode("utf-8", "replace"))


def _is_fresh(log: Log, file: CommitFile, info: Mapping[str, Any]) -> bool:
    """Return whether a commit's file was written as soon as its writer had made the commit."""
    made, written = _made_at(info), log.commits.written_at(file.version)
    return made is not None and written is not None and abs(written - made) <= FRESH
