"""What was found against what was broken, finding by finding and in both directions."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from lakeaudit.demo.breaker import Expected, Fault
from lakeaudit.results.read import Results, Row


class Subject(NamedTuple):
    """What a finding is about, as breaker and audit both name it. `key` is "" for a whole table or a source."""

    axis: str
    kind: str
    table: str
    key: str


@dataclass(frozen=True)
class Difference:
    """One disagreement in words; `act` is the fault it belongs to, "" for a finding that nobody caused."""

    act: str
    words: str


@dataclass(frozen=True)
class Comparison:
    """`missed` are faults of which something was not found; `differences` all disagreements, faults first."""

    faults: tuple[Fault, ...]
    missed: tuple[Fault, ...]
    differences: tuple[Difference, ...]

    @property
    def matched(self) -> bool:
        """Whether the audit found what was broken and nothing else."""
        return not self.differences

    @property
    def words(self) -> str:
        """The one line that sums it up."""
        made, traps = len(self.faults), sum(fault.is_trap for fault in self.faults)
        harmless = f" ({traps} of them harmless, and rightly passed over)" if traps else ""
        extra = sum(not difference.act for difference in self.differences)
        told = f"{extra} findings and gaps that nobody caused" if extra else "nothing else"
        return f"{made} faults made{harmless}, {made - len(self.missed)} judged rightly, {told}"


def compare(
    faults: Sequence[Fault], findings: Iterable[Row], leftovers: Iterable[Row], gaps: Collection[str]
) -> Comparison:
    """Compare the breaker's own list with a run's findings; grouped leftovers are compared file by file.

    Args:
        faults: what was done, each with what it must cause.
        findings: all rows of `findings` of the run.
        leftovers: the rows of `leftover_files`, which stand for the grouped findings.
        gaps: names of tables whose content was not judged completely.
    """
    rows = [row for row in findings if row["axis"] != "leftover"]
    found = {subject: row for row in rows for subject in [_subject(row)]}
    found |= {_leftover(row): row for row in leftovers}
    wanted = {_wanted(expected): expected for fault in faults for expected in fault.expected}
    lacking = [(fault, list(_lacking(fault, found, gaps))) for fault in faults]
    differences = [difference for _, told in lacking for difference in told]
    differences += [
        Difference("", f"not caused: {' '.join(subject)}") for subject in sorted(found.keys() - wanted.keys())
    ]
    differences += [
        Difference("", f"not caused: a gap of {table}")
        for table in sorted({*gaps} - {fault.gap for fault in faults})
    ]
    if len(rows) != len({_subject(row) for row in rows}):
        differences.append(Difference("", "one subject has two findings of one kind"))
    return Comparison(tuple(faults), tuple(fault for fault, told in lacking if told), tuple(differences))


def _lacking(fault: Fault, found: dict[Subject, Row], gaps: Collection[str]) -> Iterator[Difference]:
    if fault.gap and fault.gap not in gaps:
        yield Difference(fault.act, f"not found: a gap of {fault.gap} ({fault.what})")
    for expected in fault.expected:
        subject = _wanted(expected)
        row = found.get(subject)
        if row is None:
            yield Difference(fault.act, f"not found: {' '.join(subject)} ({fault.what})")
            continue
        for name in ("severity", "recoverable"):
            value = getattr(expected, name)
            if value is not None and row[name] != value:
                yield Difference(
                    fault.act, f"{name} is {row[name]}, not {value}: {' '.join(subject)} ({fault.what})"
                )


def _wanted(expected: Expected) -> Subject:
    return Subject(expected.axis, expected.kind, expected.table, expected.key)


def _subject(row: Row) -> Subject:
    whole = row["subject_type"] in ("table", "source")
    return Subject(row["axis"], row["kind"], row["table_name"] or "", "" if whole else row["key"] or "")


def _leftover(row: Row) -> Subject:
    return Subject("leftover", row["kind"], row["table_name"], row["key"])


def read_run(results: Results, run_id: str) -> tuple[list[Row], list[Row], set[str]]:
    """All findings, leftover files and tables with gaps of one run; the demo has a few hundred."""
    findings = [row for batch in results.findings(run_id) for row in batch.to_pylist()]
    leftovers = [row for batch in results.leftover_files(run_id) for row in batch.to_pylist()]
    partial = [
        row for row in results.coverage(run_id) if row["axis"] == "content" and row["status"] == "partial"
    ]
    return findings, leftovers, {row["table_name"] for row in partial}
