"""Write the facts about log files that tasks send to the driver, as NOTE rows.

Their `data` is a JSON object: kind (protocol, metaData, sidecars, vacuum, commits, entries, problem, undecodable, root,
gap), table, reading, version, and by kind text (JSON of the action), time (of the commit), commits (version, time,
operation, files added, files removed of each), what and the fields of `EntrySums`, bucket and key (of a folder), hides
and finding (kind of finding), lacks (files and rows that a commit counts and does not hold).
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa

from lakeaudit.evidence.manifest.delta.log.lines import SHORT, commit_moment
from lakeaudit.evidence.manifest.delta.log.log_files import LogFile
from lakeaudit.evidence.manifest.delta.state.entry_sums import TableSums
from lakeaudit.evidence.manifest.delta.witnesses.commit_counts import UNMET
from lakeaudit.evidence.protocol import EvidenceGap
from lakeaudit.kinds import UNREADABLE
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection
from lakeaudit.schemas import NOTE

TORN = "a line of it is incomplete or is not a Delta action"
DAMAGED = "it is damaged or missing"
NO_PARQUET = "it is not a complete Parquet file"
GONE = "it is missing"
OWN_READER = "lakeaudit's own Parquet reader cannot read it, which says nothing against the file: "
"""Prefix of the reason if a feature of the format is not supported here."""
LOST = frozenset((DAMAGED, NO_PARQUET, GONE))


def is_passed_over(reason: str) -> bool:
    """Return whether a checkpoint file with this problem is skipped once the problem is known."""
    return reason in LOST or reason.startswith(OWN_READER)


def kind_of(reason: str) -> str:
    """Return the kind of finding for a log file with this problem: it is lost, or only this audit cannot read it.

    Empty for a commit that falls short of its own counts: a witness reports it.
    """
    if reason.startswith(UNMET):
        return ""
    not_lost = reason == SHORT or reason.startswith(OWN_READER)
    return UNREADABLE if not_lost else "missing_metadata"


def parquet_problem(error: Exception, otherwise: str) -> str:
    """Return why a Parquet file cannot be read: this reader lacks support for it, or the file has a fault."""
    text = " ".join(str(error).split())[:200]
    unsupported = isinstance(error, pa.ArrowNotImplementedError) or any(mark in text for mark in _UNSUPPORTED)
    return f"{OWN_READER}{text}" if unsupported else otherwise


_UNSUPPORTED = (
    "Exceeded size limit",
    "no decryption",
    "ncrypted footer",
    "not built with",
    "ot yet implemented",
)
"""Parts of pyarrow's messages for valid files: limits of Thrift, encrypted files, codecs and encodings."""
_LONGEST = 60
"""Most characters of a commit's operation, which may be any text."""


@dataclass
class _CommitFacts:
    """Counts the actions of a commit in the blocks that were read."""

    at: datetime
    operation: str | None = None
    added: int = 0
    removed: int = 0

    def values(self) -> tuple[str, str | None, int, int]:
        operation = None if self.operation is None else self.operation[:_LONGEST]
        return self.at.isoformat(), operation, self.added, self.removed


class Notes:
    """Collects NOTE rows of some log files, which are identified by their number."""

    def __init__(self, source: str, files: Sequence[LogFile]) -> None:
        self._source = source
        self._files = files
        self._rows: list[dict[str, Any]] = []
        self._newest: dict[tuple[str, str], tuple[int, str]] = {}
        self._recent = [number for number, file in enumerate(files) if file.recent]
        self._facts: dict[int, _CommitFacts] = {}
        self._faulty: set[int] = set()

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
        """Note torn lines, the newest protocol and metaData of each table, and records of vacuums."""
        selected = """SELECT file, kind, text FROM parsed
            WHERE kind IN ('protocol', 'metaData') OR (kind = 'commitInfo' AND text IS NOT NULL)
            UNION ALL SELECT DISTINCT file, kind, NULL FROM parsed WHERE kind = 'torn'"""
        for row in duck.rows_of(duck.query(con, selected, parsed=parsed)):
            number, kind, text = row["file"], row["kind"], row["text"]
            if kind == "torn":
                self.problem(number, TORN)
            elif kind != "commitInfo":
                self.newest(number, kind, text)
            elif _operation(text) == "VACUUM START":
                self.add(number, "vacuum", text=text, time=self._files[number].time.isoformat())

    def of_recent(self, con: Connection, parsed: pa.Table, in_commit_ms: Mapping[int, int]) -> None:
        """Add the actions of the newest commits; a large one comes in several blocks."""
        if not self._recent:
            return
        sql = f"""SELECT file, max(operation) AS operation, count(*) FILTER (kind = 'add') AS added,
                count(*) FILTER (kind = 'remove') AS removed
            FROM parsed WHERE file IN ({", ".join(map(str, self._recent))}) GROUP BY file"""
        for row in duck.rows_of(duck.query(con, sql, parsed=parsed)):
            facts = self._facts.setdefault(row["file"], _CommitFacts(self._files[row["file"]].time))
            facts.operation = facts.operation or row["operation"]
            facts.added += row["added"]
            facts.removed += row["removed"]
            facts.at = commit_moment(in_commit_ms.get(row["file"]), self._files[row["file"]].time) or facts.at

    def of_entries(self, sums: TableSums, without: frozenset[int] = frozenset()) -> None:
        """Note the sums of the entries of each table."""
        for number, data in sums.notes(without | frozenset(self._faulty)):
            self.add(number, "entries", **data)

    def newest(self, number: int, kind: str, text: str) -> None:
        """Note a protocol or metaData: only the last of many changes is kept."""
        table = self._files[number].table
        known = self._newest.get((table, kind))
        if known is None or self._files[known[0]].version <= self._files[number].version:
            self._newest[table, kind] = (number, text)

    def problem(self, number: int, reason: str, **data: Any) -> None:
        """Note that some content of a file could not be understood, or that it could not be read whole."""
        self._faulty.add(number)
        self.add(number, "problem", reason, 1, **data)

    def has_problem(self, number: int) -> bool:
        """Return whether a file is known to be damaged or cut short."""
        return number in self._faulty

    def sidecars(self, number: int) -> None:
        """Note that a small checkpoint has its files in sidecars, so that these are listed before it is read."""
        self.add(number, "sidecars")

    def root(self, table: str, bucket: str, key: str) -> None:
        """Note a folder elsewhere that holds files of the table."""
        number = next(at for at, file in enumerate(self._files) if file.table == table)
        self.add(number, "root", bucket=bucket, key=key)

    def lost_base(self, number: int, reason: str) -> None:
        """Note that the checkpoint that is the base of its table was lost after the log was read."""
        hides = "every file that the table lists"
        self.add(number, "gap", reason, 1, hides=hides, finding=kind_of(reason))

    def unknown(self, number: int, count: int) -> None:
        """Note that paths of a checkpoint that is read late cannot be understood."""
        if count:
            reason = f"{count} paths or deletion vectors in the log cannot be understood"
            self.add(number, "gap", reason, count, hides="the files that they name", finding=UNREADABLE)

    def table(self) -> pa.Table:
        for (_, kind), (number, text) in self._newest.items():
            self.add(number, kind, text=text)
        by_table: dict[str, list[int]] = {}
        for number in self._facts:
            by_table.setdefault(self._files[number].table, []).append(number)
        for numbers in by_table.values():
            commits = [(self._files[number].version, *self._facts[number].values()) for number in numbers]
            self.add(numbers[0], "commits", commits=commits)
        return pa.Table.from_pylist(self._rows, NOTE)


def gap_of(note: Mapping[str, Any]) -> EvidenceGap | None:
    """Return the evidence gap in a NOTE row of a checkpoint that is read late; None for all other notes."""
    data = json.loads(note["data"]) if note["data"] else {}
    if data.get("kind") != "gap":
        return None
    values = (
        note["source"],
        note["reason"],
        note["subject"],
        data["table"],
        data["hides"],
        note["count"],
        data["finding"],
    )
    return EvidenceGap(*values)


def _operation(commit_info: str) -> object:
    try:
        found = json.loads(commit_info)
    except (ValueError, RecursionError):
        return None
    return found.get("operation") if isinstance(found, dict) else None
