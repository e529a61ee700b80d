"""Sum the entries of a state: how many files it lists, and digests that do not depend on their order.

A commit adds the entries that it lists and subtracts those that it removes, so the sums of a checkpoint and of the
commits after it are those of a later checkpoint. They differ as well if a commit lists an entry once more, or removes
one that is not listed: different sums are a reason to compare rows, but prove nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from lakeaudit.evidence.manifest.delta.log.log_files import LogFile
from lakeaudit.evidence.manifest.delta.state.commit_sums import ENTRY, MODULUS
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Rows

BASE, COMMITS, EARLIER = "base", "commits", "earlier"
"""Summed entries: of the checkpoint from which the state is read, of commits after it, and of commits up to it."""


@dataclass(frozen=True)
class EntrySums:
    """Holds sums of entries.

    Attributes:
        files: how many entries there are.
        entries: sum of paths and deletion vectors, modulo 2 ** 62.
        sized: the same sum, in which each entry includes the file's size.
        unsized: removals and entries without a size; with any, `sized` is not compared.
        commits: how many commits are summed.
    """

    files: int = 0
    entries: int = 0
    sized: int = 0
    unsized: int = 0
    commits: int = 0

    def plus(self, other: "EntrySums") -> "EntrySums":
        """Add two sums."""
        return EntrySums(
            self.files + other.files,
            (self.entries + other.entries) % MODULUS,
            (self.sized + other.sized) % MODULUS,
            self.unsized + other.unsized,
            self.commits + other.commits,
        )

    def differs_from(self, other: "EntrySums") -> bool:
        """Return whether these may be the sums of other entries."""
        of_sizes = not self.unsized and not other.unsized and self.sized != other.sized
        return (self.files, self.entries) != (other.files, other.entries) or of_sizes


NOTHING = EntrySums()


def _total(entry: str) -> str:
    return f"CAST(coalesce(sum(sign * ({entry} % {MODULUS})::HUGEINT), 0) % {MODULUS} AS BIGINT)"


_SUMS = f"""SELECT number, coalesce(sum(sign), 0)::BIGINT AS files, {_total(ENTRY)} AS entries,
        {_total(f"hash({ENTRY}, size)")} AS sized, count(*) FILTER (size IS NULL) AS unsized
    FROM (SELECT *, CASE action WHEN 'add' THEN 1 ELSE -1 END AS sign FROM actions JOIN groups USING (file)
        WHERE action = 'add' OR (action = 'remove' AND NOT checkpoint))
    GROUP BY number"""
_GROUP = pa.schema([("file", pa.int64()), ("number", pa.int64()), ("checkpoint", pa.bool_())])


def entry_sums(con: Connection, actions: Rows, groups: pa.Table) -> dict[int, EntrySums]:
    """Return the sums of ACTION rows by the `number` of their file's group, without a checkpoint's own removals."""
    rows = duck.rows_of(duck.query(con, _SUMS, actions=actions, groups=groups))
    return {row.pop("number"): NOTHING.plus(EntrySums(**row)) for row in rows}


def of_checkpoint(con: Connection, actions: Rows) -> EntrySums:
    """Return the sums of the ACTION rows of one file of a checkpoint, whose number is 0."""
    return entry_sums(con, actions, duck.small(_GROUP, [(0, 0, True)])).get(0, NOTHING)


@dataclass
class TableSums:
    """Sums entries over the blocks of some log files, by table; only of files that are `summed`."""

    files: Sequence[LogFile]
    earlier: bool = False
    """Whether the commits are those up to the base."""
    _groups: dict[tuple[str, int, str], int] = field(default_factory=dict)
    _sums: dict[int, EntrySums] = field(default_factory=dict)
    _known: pa.Table | None = None

    def add(self, con: Connection, actions: pa.Table) -> None:
        """Count the actions of a block."""
        groups = self._of_files()
        if groups.num_rows and actions.num_rows:
            for number, sums in entry_sums(con, actions, groups).items():
                self._sums[number] = self._sums.get(number, NOTHING).plus(sums)

    def notes(self, without: frozenset[int] = frozenset()) -> list[tuple[int, Mapping[str, Any]]]:
        """Return one note per table: the number of a file, and the sums; files `without` were not read whole."""
        self._of_files()
        read: dict[int, list[int]] = {}
        for number, file in enumerate(self.files):
            if file.summed and number not in without:
                read.setdefault(self._groups[self._key(file)], []).append(number)
        kinds = {number: key[2] for key, number in self._groups.items()}
        return [
            (numbers[0], {"what": kinds[group], **vars(self._of_group(group, len(numbers)))})
            for group, numbers in read.items()
        ]

    def _of_group(self, group: int, commits: int) -> EntrySums:
        return self._sums.get(group, NOTHING).plus(EntrySums(commits=commits))

    def _key(self, file: LogFile) -> tuple[str, int, str]:
        return file.table, file.reading, BASE if file.checkpoint else EARLIER if self.earlier else COMMITS

    def _of_files(self) -> pa.Table:
        if self._known is None:
            rows = [
                (n, self._groups.setdefault(self._key(file), len(self._groups)), file.checkpoint)
                for n, file in enumerate(self.files) if file.summed
            ]  # fmt: skip
            self._known = duck.small(_GROUP, rows)
        return self._known
