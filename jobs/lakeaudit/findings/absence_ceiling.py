"""Ceiling: so much is missing that the evidence itself must be doubted, and what a live sample says of it. Pure.

A lifecycle rule that wipes a table and an inventory report that lacks half of it look the same from afar.
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
"""Kinds that rest on something not being there, and the role that should hold it."""

LEAST = 100
"""Below so many there is no ceiling: all of them are looked at."""

NEARLY_ALL, NEARLY_NONE = 0.9, 0.1

REAL, BAD, UNSURE = "real", "bad", "unsure"


@dataclass(frozen=True)
class Missing:
    """What one source lacks of a table: `files` of `of` that another role claims.

    `whole`: it lacks every file of the table. `among` names the tables in words where the numbers are those of several.
    """

    table: str
    source: str
    role: str
    files: int
    of: int
    label: str = ""
    """What people know the source by."""
    among: str = ""
    whole: bool = False

    def over(self, share: float) -> bool:
        """Whether a sample has to be looked at before any of it is believed."""
        return self.files >= LEAST and self.files > share * self.of

    @property
    def message(self) -> str:
        """What is missing, in a sentence's first half."""
        of = self.among or self.table
        what = "the entries of " if self.role == "metastore" else ""
        return f"{self.label or self.source} lacks {what}{self.files:,} of {self.of:,} files of {of}"


def over_ceiling(
    missing: Sequence[Missing], should_hold: Mapping[tuple[str, str], int], share: float
) -> list[Missing]:
    """What needs a sample: tables over the share on their own, then the other tables of a source that is over it.

    A source that lacks a little of every small table is over its ceiling though no table is. `should_hold` counts files
    by table and source.
    """
    alone = [each for each in missing if each.over(share)]
    told = {(each.table, each.source) for each in alone}
    rest: dict[str, list[Missing]] = defaultdict(list)
    for each in missing:
        if (each.table, each.source) not in told:
            rest[each.source].append(each)
    held = {
        source: [n for of, n in should_hold.items() if of[1] == source and of not in told] for source in rest
    }
    together = [each for source, pool in rest.items() for each in _pooled(pool, held[source])]
    return [*alone, *(each for each in together if each.over(share))]


def _pooled(pool: Sequence[Missing], held: Sequence[int]) -> Iterator[Missing]:
    files = sum(each.files for each in pool)
    for each in pool:
        yield replace(each, files=files, of=sum(held), among=f"{len(held):,} tables")


@dataclass(frozen=True)
class SampleCheck:
    """A sample of what is missing: so many were asked for, so many answers were had, so many are missing indeed."""

    missing: Missing
    asked: int = 0
    answered: int = 0
    gone: int = 0

    @property
    def verdict(self) -> str:
        """real: it is a loss; bad: the evidence is; unsure: neither is clear."""
        if not self.asked:
            return BAD
        if self.answered * 2 < self.asked:
            return UNSURE
        share = self.gone / self.answered
        return REAL if share >= NEARLY_ALL else BAD if share <= NEARLY_NONE else UNSURE

    @property
    def message(self) -> str:
        """One line for people."""
        if not self.asked:
            return f"{self.missing.message}, and storage may not be asked (confirm.mode)"
        entries = self.missing.role == "metastore"
        state = "are in storage and lack their entry" if entries else "are gone"
        looked = f"of {self.answered:,} looked at now {self.gone:,} {state}"
        if self.verdict == REAL:
            return f"{MASS_LOSS}{'of entries, not of files: ' if entries else ''}{self.missing.message}, and {looked}"
        unanswered = self.asked - self.answered
        more = f" ({unanswered:,} more were not answered)" if unanswered else ""
        return f"{self.missing.message}, but {looked}{more}"


def doubts(sample_checks: Iterable[SampleCheck]) -> list[SampleCheck]:
    """Those after which the evidence is not believed."""
    return [check for check in sample_checks if check.verdict != REAL]


def losses(sample_checks: Iterable[SampleCheck]) -> list[SampleCheck]:
    """Those after which it is."""
    return [check for check in sample_checks if check.verdict == REAL]


def uncovered_tables(sample_checks: Iterable[SampleCheck]) -> list[str]:
    """Tables of which storage has every file looked at, and a source of storage none: it does not name their place."""
    return [
        check.missing.table
        for check in sample_checks
        if check.missing.whole and check.missing.role == "storage" and check.answered and not check.gone
        and check.verdict == BAD
    ]  # fmt: skip


def of_table(sample_checks: Sequence[SampleCheck], table: str, axis: str) -> list[SampleCheck]:
    """The sample_checks whose source this axis of a table rests on: a metadata store is asked on its own axes alone."""
    of_store = axis.startswith("metastore")
    return [
        check for check in sample_checks
        if check.missing.table == table and (of_store or check.missing.role == "storage")
    ]  # fmt: skip
