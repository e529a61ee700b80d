"""Compares missing files with a ceiling: above it a live sample decides whether the evidence is wrong. Pure.

A lifecycle rule that wipes a table and an inventory report that lacks half of it cannot be distinguished otherwise.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from lakeaudit.kinds import MASS_LOSS

ABSENCES = {
    "dropped": "storage",
    "dropped_history": "storage",
    "phantom": "storage",
    "hidden": "metastore",
}
"""Kinds of findings that depend on absence, and the role of the source that should contain the file."""

LEAST = 100
"""Below this number there is no ceiling: all files are checked."""

NEARLY_ALL, NEARLY_NONE = 0.9, 0.1

NAMED = 3
"""Number of tables that a message names."""

REAL, BAD, UNSURE = "real", "bad", "unsure"


@dataclass(frozen=True)
class Missing:
    """Files of a table that one source lacks: `files` of `of` that another role claims.

    `whole`: it lacks every file of the table. `among` describes the tables if the numbers are sums of several tables.
    """

    table: str
    source: str
    role: str
    files: int
    of: int
    label: str = ""
    """The source's name in messages."""
    among: str = ""
    whole: bool = False

    def over(self, share: float) -> bool:
        """Whether a sample has to be checked before any of the losses is reported."""
        return self.files >= LEAST and self.files > share * self.of

    @property
    def message(self) -> str:
        """Return the first half of a sentence: what is missing."""
        of = self.among or self.table
        what = "the entries of " if self.role == "metastore" else ""
        return f"{self.label or self.source} lacks {what}{self.files:,} of {self.of:,} files of {of}"


def over_ceiling(
    missing: Sequence[Missing], should_hold: Mapping[tuple[str, str], int], share: float
) -> list[Missing]:
    """Return the tables above the share, and the other tables of a source that is above it as a whole.

    A source that lacks few files of every small table can be above the ceiling although no table is. `should_hold`
    counts files by table and source.
    """
    alone = [each for each in missing if each.over(share)]
    reported = {(each.table, each.source) for each in alone}
    rest: dict[str, list[Missing]] = defaultdict(list)
    for each in missing:
        if (each.table, each.source) not in reported:
            rest[each.source].append(each)
    held = {
        source: [n for of, n in should_hold.items() if of[1] == source and of not in reported]
        for source in rest
    }
    together = [each for source, pool in rest.items() for each in _pooled(pool, held[source])]
    return [*alone, *(each for each in together if each.over(share))]


def _pooled(pool: Sequence[Missing], held: Sequence[int]) -> Iterator[Missing]:
    files = sum(each.files for each in pool)
    names = sorted({each.table for each in pool})
    more = f" and {len(names) - NAMED:,} more" if len(names) > NAMED else ""
    among = f"{len(held):,} tables (in {', '.join(names[:NAMED])}{more})"
    for each in pool:
        yield replace(each, files=files, of=sum(held), among=among)


@dataclass(frozen=True)
class SampleCheck:
    """The result of a live sample: files requested, answers received, and files that are missing indeed."""

    missing: Missing
    asked: int = 0
    answered: int = 0
    gone: int = 0

    @property
    def verdict(self) -> str:
        """Return `real` for a loss, `bad` for wrong evidence, `unsure` otherwise."""
        if not self.asked:
            return BAD
        if self.answered * 2 < self.asked:
            return UNSURE
        share = self.gone / self.answered
        return REAL if share >= NEARLY_ALL else BAD if share <= NEARLY_NONE else UNSURE

    @property
    def message(self) -> str:
        """Return one line for people."""
        if not self.asked:
            return f"{self.missing.message}, and confirm.mode forbids requests to storage"
        entries = self.missing.role == "metastore"
        state = "in storage without an entry" if entries else "missing"
        looked = f"a live check of {self.answered:,} found {self.gone:,} {state}"
        if self.verdict == REAL:
            return f"{MASS_LOSS}{'of entries, not of files: ' if entries else ''}{self.missing.message}, and {looked}"
        unanswered = self.asked - self.answered
        more = f" (no answer for {unanswered:,} more)" if unanswered else ""
        return f"{self.missing.message}, but {looked}{more}"


def doubts(sample_checks: Iterable[SampleCheck]) -> list[SampleCheck]:
    """Return the checks that do not confirm the evidence."""
    return [check for check in sample_checks if check.verdict != REAL]


def losses(sample_checks: Iterable[SampleCheck]) -> list[SampleCheck]:
    """Return the checks that confirm a loss."""
    return [check for check in sample_checks if check.verdict == REAL]


def uncovered_tables(sample_checks: Iterable[SampleCheck]) -> list[str]:
    """Return tables that a storage source does not cover: it lacks all files, and storage has the whole sample."""
    return [
        check.missing.table
        for check in sample_checks
        if check.missing.whole and check.missing.role == "storage" and check.answered and not check.gone
        and check.verdict == BAD
    ]  # fmt: skip


def of_table(sample_checks: Sequence[SampleCheck], table: str, axis: str) -> list[SampleCheck]:
    """Return the checks of sources that this axis of a table uses; metadata stores count on their own axes alone."""
    of_store = axis.startswith("metastore")
    return [
        check for check in sample_checks
        if check.missing.table == table and (of_store or check.missing.role == "storage")
    ]  # fmt: skip
