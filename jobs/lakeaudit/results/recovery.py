"""States which data of a set of discrepancies can be restored, how, and until when, as one value and its wording.

The terminal, the report page, alerts and the dashboard render the same `Recovery`, so that they cannot differ. A lost
or altered file is recoverable (`yes`), not recoverable (`no`), or it is unknown. For other kinds no file has to be
restored: `reconcile` may repair them, or a person has to. A commit that was written twice is one of those: its lost
version can be read for some time, but must not be restored over the other.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from lakeaudit.advice.next_steps import BROUGHT_BACK, LOSS_KINDS, LOST_COMMIT, PLANNED
from lakeaudit.formatting import age, count, number, second, visible
from lakeaudit.kinds import KINDS

Row = Mapping[str, Any]

READABLE = "older object version readable"
NO_REPAIR = "no automatic repair"
REPAIRABLE = "reconcile may repair it; the plan decides"

_SOURCES = {
    "delete_marker": "by removing a delete marker",
    "older_version": "from an older version",
    "replica": "from a replica",
}


@dataclass(frozen=True)
class Recovery:
    """Counts how many of some discrepancies are recoverable, and until when.

    Attributes:
        total: number of discrepancies.
        answers: number of lost or changed files by `yes`, `no` and `unknown`; answers without files are left out.
        repairable: number of the other discrepancies that `reconcile plan` may repair.
        until: when the first recoverable file expires; None: no expiry is known.
        readable: number of commits that were written twice and whose lost version can be read.
        readable_until: when the first of these versions expires; None: no expiry is known.
        source: how the file of a single finding is restored.
        first_table: the table whose file expires first.
        plannable: the same as `answers`, but a file that no plan restores counts as `no`.
        followers: number of files that may be recoverable, and whose repair the finding `overwritten_commit` of the
            same file describes.
        needs_allow: number of files that can be restored, but by a plan only with `--allow restore`.
        by_default: number of files that a plan restores without `--allow restore`.
    """

    total: int = 0
    answers: Mapping[str, int] = field(default_factory=dict)
    repairable: int = 0
    until: datetime | None = None
    readable: int = 0
    readable_until: datetime | None = None
    source: str = ""
    first_table: str | None = None
    plannable: Mapping[str, int] = field(default_factory=dict)
    followers: int = 0
    needs_allow: int = 0
    by_default: int = 0

    @classmethod
    def of_sums(cls, rows: Sequence[Row], number: str = "findings") -> "Recovery":
        """Return the recovery of rows that sum up discrepancies.

        Args:
            rows: each with kind, recoverable, recoverable_until, their number, and perhaps table_name, `by_hand`
                (see `lake_standing.BY_HAND`) and `needs_allow` (see `lake_standing.NEEDS_ALLOW`).
            number: the column of the number.
        """
        answers: Counter[str] = Counter()
        plannable: Counter[str] = Counter()
        for row in rows:
            if answer := _answer(row):
                answers[answer] += row[number]
                plannable[answer if row.get("by_hand") is None else "no"] += row[number]
        others = [row for row in rows if not _answer(row)]
        if any(row.get("by_hand") is not None for row in others):
            for row in others:
                plannable["unknown" if row.get("by_hand") is None else "no"] += row[number]
        readable = [row for row in others if _is_readable(row)]
        following = [row for row in rows if row.get("by_hand") == LOST_COMMIT and _answer(row) != "no"]
        until = _first_end(row for row in rows if _answer(row) == "yes")
        return cls(
            total=sum(row[number] for row in rows),
            answers=answers,
            repairable=sum(
                row[number] for row in others if row["kind"] in PLANNED and row.get("by_hand") is None
            ),
            until=until,
            readable=sum(row[number] for row in readable),
            readable_until=_first_end(readable),
            first_table=_first_table(rows, until),
            plannable=plannable,
            followers=sum(row[number] for row in following),
            needs_allow=sum(row.get("needs_allow") or 0 for row in rows if _is_planned(row)),
            by_default=sum(
                row[number] - row["needs_allow"]
                for row in rows
                if _is_planned(row) and row.get("needs_allow") is not None
            ),
        )

    @classmethod
    def of_finding(cls, row: Row) -> "Recovery":
        """Return the recovery of one row of `findings` or `discrepancies`."""
        source = row["recovery"] if row["recoverable"] == "yes" else None
        found = cls.of_sums([{**row, "findings": 1}])
        return replace(found, source=_SOURCES.get(source or "", source or ""))

    @property
    def restorable(self) -> int:
        return self.answers.get("yes", 0)

    @property
    def losses(self) -> int:
        """Return the number of lost or changed files, recoverable or not."""
        return sum(self.answers.values())

    @property
    def label(self) -> str:
        """Name the possibility that ends at `end`."""
        return "recoverable" if self.losses else READABLE if self.readable else NO_REPAIR

    @property
    def end(self) -> datetime | None:
        return self.until if self.losses else self.readable_until

    @property
    def amount(self) -> str:
        """Return `9 of 13`; for a single file, or where all have the same answer but yes, `yes`, `no` or `unknown`."""
        if not self.losses:
            return _repair(self)
        if self.losses == 1 or (not self.restorable and len(self.answers) == 1):
            return next(iter(self.answers))
        unknown = self.answers.get("unknown", 0)
        doubt = f" ({count(unknown)} unknown)" if unknown else ""
        return f"{count(self.restorable)} of {count(self.losses)}{doubt}"

    @property
    def only_by_hand(self) -> int:
        """Return the number of files that can be restored, but by no plan."""
        return self.restorable - self.plannable.get("yes", 0) if self.plannable else 0

    @property
    def note(self) -> str:
        """Return which files another finding describes, and which a plan leaves out by default; empty if none."""
        by_hand = f"{self._which(self.followers)}only by hand (see the finding {LOST_COMMIT})"
        permitted = f"{self._which(self.needs_allow)}only with --allow restore"
        return "; ".join([*([by_hand] if self.followers else []), *([permitted] if self.needs_allow else [])])

    def plan_extent(self, *, restore: bool, scope: str = "") -> str:
        """Return how many files a plan repairs, with or without `--allow restore`; empty if both repair the same.

        `scope` says which files the plan covers, after a space.
        """
        if not self.needs_allow and not self.plannable.get("unknown"):
            return ""
        repaired = self.by_default + (self.needs_allow if restore else 0)
        how = f"{'With' if restore else 'Without'} --allow restore,"
        of = f"{number(self.losses, 'lost or changed file')}{scope}"
        unknown = self.plannable.get("unknown", 0)
        if unknown == self.losses:
            files = "file" if unknown == 1 else "files"
            return f"It is not known whether the plan below can repair the lost or changed {files}{scope}."
        doubt = f"; {_doubt(unknown, self.losses - repaired, self.losses)}" if unknown else ""
        return f"{how} the plan below repairs {count(repaired)} of {of}{doubt}."

    def _which(self, some: int) -> str:
        return "" if some in (self.losses, self.restorable) else f"{count(some)} of these "

    @property
    def without_end(self) -> str:
        """Return why no expiry is known, for a column with the end of the recovery."""
        if not self.losses:
            return NO_REPAIR if self.total > self.repairable else "no lost file"
        if self.restorable:
            return "expiry date not known"
        return "not known" if self.answers.get("unknown") else "no"


def add_recoveries(parts: Iterable[Recovery]) -> Recovery:
    """Return the numbers of files of several groups together, for `plan_extent`."""
    each = list(parts)
    answers, plannable = Counter[str](), Counter[str]()
    for part in each:
        answers.update(part.answers)
        plannable.update(part.plannable)
    return Recovery(
        total=sum(part.total for part in each),
        answers=answers,
        plannable=plannable,
        needs_allow=sum(part.needs_allow for part in each),
        by_default=sum(part.by_default for part in each),
    )


def brief(recovery: Recovery, now: datetime | None = None) -> str:
    """Return the text of a column: `9 of 13, until 2026-12-09 00:00:00Z`, or `no automatic repair`."""
    joint = ", " if recovery.losses else " "
    until = joint.join(filter(None, (recovery.amount, _until(recovery.end, now))))
    return "; ".join(filter(None, (until, recovery.note)))


def sentence(recovery: Recovery, now: datetime | None = None) -> str:
    """Return a sentence that counts every discrepancy; empty where there is none. Arguments: see `statements`."""
    return "; ".join(statements(recovery, now))


def statements(
    recovery: Recovery, now: datetime | None = None, *, with_table: bool = False, severity: str = ""
) -> list[str]:
    """Return statements that together count every discrepancy; none where there is none.

    Args:
        recovery: of any number of discrepancies.
        now: adds how long that is from now.
        with_table: names the table whose file expires first.
        severity: the only severity that `recovery` counts; named in the sentence.
    """
    others = recovery.total - recovery.losses
    if not recovery.losses:
        return [brief(recovery, now)] if others else []
    parts = [
        *_lost_files(recovery, now, with_table=with_table, severity=severity),
        f"reconcile may repair {_other(recovery.repairable, severity)} (the plan decides)"
        if recovery.repairable
        else "",
        without_repair(recovery, severity),
    ]
    return [*filter(None, parts)]


def without_repair(recovery: Recovery, severity: str = "") -> str:
    """Return how many discrepancies are not about a lost file and have no automatic repair; empty if none."""
    manual = recovery.total - recovery.losses - recovery.repairable
    return f"{_other(manual, severity)} {'has' if manual == 1 else 'have'} {NO_REPAIR}" if manual else ""


def undated(recovery: Recovery) -> str:
    """Return that files which can be restored have no known expiry date; empty if one is known."""
    if recovery.until is not None or not recovery.restorable:
        return ""
    return f"expiry date not known: restore {'this file' if recovery.restorable == 1 else 'these files'} soon"


def _lost_files(recovery: Recovery, now: datetime | None, *, with_table: bool, severity: str) -> list[str]:
    """Return how many of the lost or changed files can be restored, and until when at the earliest."""
    if recovery.total == 1:
        return [losses(recovery, now)]
    table = f" ({visible(recovery.first_table)})" if with_table and recovery.first_table else ""
    end = expiry(recovery, now)
    return [counted_losses(recovery, severity), f"{end}{table}" if end else ""]


def counted_losses(recovery: Recovery, severity: str = "") -> str:
    """Return `4 of 8 lost or changed files can be restored, and 3 cannot; for the other file, this is not known`.

    Args:
        recovery: of at least one lost or changed file.
        severity: the only severity that `recovery` counts; named in the text.
    """
    yes, no, unknown = (recovery.answers.get(answer, 0) for answer in ("yes", "no", "unknown"))
    of_severity = f" of severity {severity}" if severity else ""
    files = f"{number(recovery.losses, 'lost or changed file')}{of_severity}"
    whole = {
        yes: f"{files} can be restored{_by_hand(recovery)}",
        no: f"{files} cannot be restored",
        unknown: f"it is not known whether {files} can be restored",
    }
    if recovery.losses in whole:
        return whole[recovery.losses]
    parts = [f"{count(yes)} of {files} can be restored{_by_hand(recovery)}"] if yes else []
    parts += [f"{count(no)} cannot" if yes else f"{count(no)} of {files} cannot be restored"] if no else []
    doubt = f"; {_doubt(unknown, unknown, recovery.losses)}" if unknown else ""
    return f"{', and '.join(parts)}{doubt}"


def _doubt(files: int, rest: int, total: int) -> str:
    """Return that it is not known whether some of the `rest` can be restored or repaired."""
    others = "the other file" if files == 1 else f"the other {count(files)} files"
    which = others if files == rest else f"{count(files)} of {'these' if rest == total else 'the others'}"
    return f"for {which}, this is not known"


def _by_hand(recovery: Recovery) -> str:
    """Return how many of the files that can be restored no plan, or no default plan restores; empty if none."""
    ways = {
        "only by hand": recovery.only_by_hand,
        "only with reconcile plan --allow restore": recovery.needs_allow,
    }
    parts = [
        f"{'' if some == recovery.restorable else f'{count(some)} of them '}{way}"
        for way, some in ways.items()
        if some
    ]
    return f" ({', '.join(parts)})" if parts else ""


def expiry(recovery: Recovery, now: datetime | None = None) -> str:
    """Return `at least one file can be restored only until 2026-12-09 00:00:00Z`, or that no expiry is known."""
    if recovery.until is None:
        return undated(recovery)
    several = recovery.restorable > 1
    if now is not None and recovery.until <= now:
        return f"the version to restore{' of at least one file' if several else ''} expired at {second(recovery.until)}"
    left = "" if now is None else f" ({age(now, recovery.until)} left)"
    if several:
        return f"at least one file can be restored only until {second(recovery.until)}{left}"
    return f"restorable until {second(recovery.until)}{left}"


def _other(findings: int, severity: str) -> str:
    return number(findings, " ".join(filter(None, ("other", severity, "finding"))))


def losses(recovery: Recovery, now: datetime | None = None) -> str:
    """Return whether lost data is recoverable, from which copy and until when; empty where nothing is lost."""
    if not recovery.losses:
        return f"{READABLE} {_until(recovery.end, now)}".rstrip() if recovery.readable else ""
    how = f"recoverable: {_joined(recovery.amount, recovery.source, _until(recovery.until, now))}"
    return f"{how} ({hint})" if (hint := undated(recovery)) else how


def of_finding(row: Row, now: datetime | None = None) -> str:
    """Return whether the file of one finding is recoverable, as `losses` does."""
    return losses(Recovery.of_finding(row), now)


def _repair(recovery: Recovery) -> str:
    """Return how discrepancies without a lost file are repaired."""
    if recovery.readable > 1:
        first = ", the first one" if recovery.readable_until else ""
        return f"{NO_REPAIR}; the older object versions are readable{first}"
    if recovery.readable:
        return f"{NO_REPAIR}; the older object version is readable"
    if not recovery.repairable:
        return NO_REPAIR
    if recovery.repairable == recovery.total:
        return REPAIRABLE if recovery.total == 1 else REPAIRABLE.replace(" it;", " them;")
    some = f"{count(recovery.repairable)} of {count(recovery.total)}"
    return REPAIRABLE.replace(" it;", f" {some};")


def _joined(*parts: str) -> str:
    return ", ".join(filter(None, parts))


def _until(end: datetime | None, now: datetime | None) -> str:
    if end is None:
        return ""
    left = "" if now is None else f" ({age(now, end)} left)" if end > now else " (passed)"
    return f"until {second(end)}{left}"


def _answer(row: Row) -> str | None:
    """Return whether the file is recoverable: yes, no or unknown; None where the kind loses no file.

    Results of an earlier version leave the column empty for lost metadata, which counts as unknown.
    """
    kind, recoverable = row["kind"], row["recoverable"]
    if kind in LOSS_KINDS:
        return recoverable or "unknown"
    return None if kind in KINDS else recoverable


def _is_planned(row: Row) -> bool:
    """Return whether a plan may restore the files of a row."""
    return _answer(row) == "yes" and row["kind"] in BROUGHT_BACK and row.get("by_hand") is None


def _is_readable(row: Row) -> bool:
    return bool(row["kind"] == LOST_COMMIT and (row["recoverable"] == "yes" or row["recoverable_until"]))


def _first_end(rows: Iterable[Row]) -> datetime | None:
    return min((row["recoverable_until"] for row in rows if row["recoverable_until"]), default=None)


def _first_table(rows: Iterable[Row], until: datetime | None) -> str | None:
    """Return the first table that has a file which expires at this time."""
    tables = (
        row["table_name"]
        for row in rows
        if until and _answer(row) == "yes" and row["recoverable_until"] == until and row.get("table_name")
    )
    return min(tables, default=None)
