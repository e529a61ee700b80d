"""Compares the findings of a run with the faults of the breaker, in both directions."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from lakeaudit.demo.breaker import Expected, Fault
from lakeaudit.formatting import count, number
from lakeaudit.results.read import Results, Row


class Subject(NamedTuple):
    """The subject of a finding, named the same by breaker and audit. `key` is "" for a whole table or a source."""

    axis: str
    kind: str
    table: str
    key: str


@dataclass(frozen=True)
class Difference:
    """One difference in words; `act` is its fault, or "" for a finding without a fault."""

    act: str
    words: str


@dataclass(frozen=True)
class Comparison:
    """The result of a comparison; `missed` are faults with missing findings, `differences` are ordered by fault."""

    faults: tuple[Fault, ...]
    missed: tuple[Fault, ...]
    differences: tuple[Difference, ...]

    @property
    def matched(self) -> bool:
        """Return whether the audit found exactly the faults."""
        return not self.differences

    @property
    def summary(self) -> str:
        """Return the result in one line."""
        made, traps = len(self.faults), sum(fault.is_trap for fault in self.faults)
        extra = sum(not difference.act for difference in self.differences)
        noun = "finding or gap" if extra == 1 else "findings and gaps"
        others = f"{count(extra)} {noun} without a change" if extra else "nothing else"
        harmless = f", {count(traps)} of them harmless" if traps else ""
        judged = f"{count(made - len(self.missed))} of {number(made, 'change')}"
        return (
            f"The demo made {number(made, 'change')}{harmless}. "
            f"The audit judged {judged} correctly and reported {others}."
        )


def compare(
    faults: Sequence[Fault], findings: Iterable[Row], unused: Iterable[Row], gaps: Collection[str]
) -> Comparison:
    """Compare the breaker's faults with a run's findings; groups of unused files are compared file by file.

    Args:
        faults: the faults, each with its expected findings.
        findings: all rows of `findings` of the run.
        unused: the rows of `leftover_files`, the files of the grouped findings.
        gaps: names of tables whose content was not fully judged.
    """
    rows = [row for row in findings if row["axis"] != "leftover"]
    found = {subject: row for row in rows for subject in [_subject(row)]}
    found |= {_leftover(row): row for row in unused}
    expected = {_expected_subject(each) for fault in faults for each in fault.expected}
    lacking = [(fault, list(_lacking(fault, found, gaps))) for fault in faults]
    differences = [difference for _, missing in lacking for difference in missing]
    differences += [
        Difference("", f"not caused: {' '.join(subject)}") for subject in sorted(found.keys() - expected)
    ]
    differences += [
        Difference("", f"not caused: a gap of {table}")
        for table in sorted({*gaps} - {fault.gap for fault in faults})
    ]
    if len(rows) != len({_subject(row) for row in rows}):
        differences.append(Difference("", "one subject has two findings of one kind"))
    return Comparison(
        tuple(faults), tuple(fault for fault, missing in lacking if missing), tuple(differences)
    )


def _lacking(fault: Fault, found: dict[Subject, Row], gaps: Collection[str]) -> Iterator[Difference]:
    if fault.gap and fault.gap not in gaps:
        yield Difference(fault.act, f"not found: a gap of {fault.gap} ({fault.what})")
    for expected in fault.expected:
        subject = _expected_subject(expected)
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


def _expected_subject(expected: Expected) -> Subject:
    return Subject(expected.axis, expected.kind, expected.table, expected.key)


def _subject(row: Row) -> Subject:
    whole = row["subject_type"] in ("table", "source")
    return Subject(row["axis"], row["kind"], row["table_name"] or "", "" if whole else row["key"] or "")


def _leftover(row: Row) -> Subject:
    return Subject("leftover", row["kind"], row["table_name"], row["key"])


def read_run(results: Results, run_id: str) -> tuple[list[Row], list[Row], set[str]]:
    """Return all findings, unused files and tables with gaps of one run; the demo has a few hundred."""
    findings = [row for batch in results.findings(run_id) for row in batch.to_pylist()]
    unused = [row for batch in results.leftover_files(run_id) for row in batch.to_pylist()]
    partial = [
        row for row in results.coverage(run_id) if row["axis"] == "content" and row["status"] == "partial"
    ]
    return findings, unused, {row["table_name"] for row in partial}
