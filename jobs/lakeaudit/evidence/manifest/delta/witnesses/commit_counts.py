"""Check that commits hold at least one action, and as many as they record about themselves.

A commit that was emptied, or cut at the end of a line, parses without an error. Only its own counts show the loss:
`commitInfo.operationMetrics` of Spark and delta-rs. Each count is a lower bound. A count is used only if its writer
counts the very actions that it commits.
"""

from collections.abc import Collection, Iterator
from dataclasses import astuple, dataclass, field

import pyarrow as pa

from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection

EMPTY = "it contains no Delta action, so its changes are unknown"
UNMET = "it holds less than its own counts say"
"""How the reason begins for a commit whose counts are not met; `words_of_commit` makes a sentence of it."""

_ADDED = (
    "num_added_files",
    "num_target_files_added",
    "numFilesAdded",
    "numAddedFiles",
    "numTargetFilesAdded",
)
_REMOVED = ("num_removed_files", "num_target_files_removed", "numFilesRemoved", "numRemovedFiles",
            "numTargetFilesRemoved")  # fmt: skip
_ROWS = ("num_added_rows", "numOutputRows")
_COUNTED = ("WRITE", "STREAMING UPDATE", "DELETE", "UPDATE", "MERGE", "OPTIMIZE")
"""Operations that count their own actions. RESTORE, CLONE and others count the files that they read."""
_APPENDS = ("WRITE", "STREAMING UPDATE")
"""Operations that count the rows of the files that they add; a write that records changes counts those, too."""
_RECOUNTS = "Databricks"
"""An engine that may resolve a conflict with other actions after it counted."""


def _most(names: Collection[str]) -> str:
    """Return SQL for the largest of some metrics; null if the writer recorded none of them."""
    return f"greatest({', '.join(f'''TRY_CAST(metrics ->> '$.{name}' AS BIGINT)''' for name in names)})"


_SUMS = f"""
    WITH sums AS (
        SELECT file, count(*) FILTER (kind <> 'torn') AS acts, count(*) FILTER (kind = 'add') AS added,
            count(*) FILTER (kind = 'remove') AS removed, count(*) FILTER (kind = 'cdc') AS changes,
            count(*) FILTER (kind = 'add' AND records IS NULL) AS unsaid,
            coalesce(sum(records) FILTER (kind = 'add'), 0)::BIGINT AS rows,
            any_value(operation) FILTER (kind = 'commitInfo') AS operation,
            any_value(metrics) FILTER (kind = 'commitInfo') AS metrics,
            any_value(engine) FILTER (kind = 'commitInfo') AS engine
        FROM parsed GROUP BY file),
    counted AS (
        SELECT *, operation IN ({duck.literals(_COUNTED)}) AND NOT starts_with(coalesce(engine, ''), '{_RECOUNTS}')
            AND metrics IS NOT NULL AS counts
        FROM sums)
    SELECT file, acts, added, removed, changes, unsaid, rows,
        CASE WHEN counts THEN {_most(_ADDED)} END AS said_added,
        CASE WHEN counts THEN {_most(_REMOVED)} END AS said_removed,
        CASE WHEN counts AND operation IN ({duck.literals(_APPENDS)}) THEN {_most(_ROWS)} END AS said_rows
    FROM counted
"""
_SHORT = """changes = 0 AND (coalesce(added < said_added, false) OR coalesce(removed < said_removed, false)
    OR (unsaid = 0 AND removed = 0 AND coalesce(rows < said_rows, false)))"""


@dataclass(frozen=True)
class CommitProblem:
    """Says why a commit is not whole; `files` and `rows` are how many more added ones it records than it holds."""

    reason: str
    files: int | None = None
    rows: int | None = None


def words_of_commit(version: int, reason: str) -> str:
    """Return the reason why a commit is empty or falls short of its counts, as a sentence about the commit."""
    return f"commit {version} {reason.removeprefix('it ')}"


@dataclass
class _Counts:
    """Holds counts of one commit's actions, and the counts that it records; None if it records none."""

    acts: int = 0
    added: int = 0
    removed: int = 0
    changes: int = 0
    unsaid: int = 0
    rows: int = 0
    said_added: int | None = None
    said_removed: int | None = None
    said_rows: int | None = None

    def plus(self, other: "_Counts") -> "_Counts":
        both = zip(astuple(self), astuple(other), strict=True)
        return _Counts(*(b if a is None else a if b is None else a + b for a, b in both))

    @property
    def short(self) -> tuple[tuple[str, int, int], ...]:
        """Return the kinds of actions it lacks: name, how many it holds and records; empty unless `_SHORT` holds."""
        if self.changes:
            return ()
        counted = [
            ("added files", self.added, self.said_added),
            ("removed files", self.removed, self.said_removed),
        ]
        if not self.unsaid and not self.removed:
            counted.append(("added rows", self.rows, self.said_rows))
        return tuple((what, held, said) for what, held, said in counted if said is not None and held < said)

    @property
    def problem(self) -> CommitProblem:
        """Return why a commit that lacks actions is not whole."""
        lacks = {what: said - held for what, held, said in self.short}
        words = (f"{held:,} of {said:,} {what}" for what, held, said in self.short)
        return CommitProblem(
            f"{UNMET}: {', '.join(words)}", lacks.get("added files"), lacks.get("added rows")
        )


@dataclass
class CommitCounts:
    """Counts actions over the blocks of some files; the lines of files `in_blocks` come in several blocks."""

    in_blocks: Collection[int]
    _acting: set[int] = field(default_factory=set)
    _short: dict[int, _Counts] = field(default_factory=dict)
    _large: dict[int, _Counts] = field(default_factory=dict)

    def add(self, con: Connection, parsed: pa.Table) -> None:
        """Count the parsed lines of a block."""
        sums = duck.table(duck.query(con, f"SELECT *, {_SHORT} AS short FROM ({_SUMS})", parsed=parsed))
        acts, files = sums.column("acts").to_pylist(), sums.column("file").to_pylist()
        self._acting.update(file for file, count in zip(files, acts, strict=True) if count)
        short = _by_file(sums.filter(sums.column("short")))
        self._short.update((file, each) for file, each in short if file not in self.in_blocks)
        for file, each in _by_file(sums) if self.in_blocks else ():
            if file in self.in_blocks:
                self._large[file] = self._large.get(file, _Counts()).plus(each)

    def problems(self, commits: Collection[int]) -> Iterator[tuple[int, CommitProblem]]:
        """Yield those of these files, all read, that hold no action or fewer than they record."""
        short = self._short | {file: counts for file, counts in self._large.items() if counts.short}
        for file in commits:
            if file not in self._acting:
                yield file, CommitProblem(EMPTY)
            elif file in short:
                yield file, short[file].problem


def _by_file(sums: pa.Table) -> Iterator[tuple[int, _Counts]]:
    for row in sums.drop_columns(["short"]).to_pylist():
        yield row.pop("file"), _Counts(**row)
