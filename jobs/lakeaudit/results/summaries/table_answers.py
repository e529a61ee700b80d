"""Answers whether a table may be used, from its record and the demands of a caller. Pure.

`dags/lake_gate.py` answers alike in Airflow, from the check file; a test compares both.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from lakeaudit.formatting import count, duration, iso_or_null, number, second, share
from lakeaudit.json_documents import Answer as Verdict
from lakeaudit.json_documents import AuditedAnswer, TableAnswer
from lakeaudit.results.summaries.table_records import TableRecord, at_or_above, by_rank, in_words

OK: Final = "ok"
DISCREPANCIES: Final = "discrepancies"
UNKNOWN: Final = "unknown"


@dataclass(frozen=True)
class Demand:
    """The demands of a caller: the severity from which discrepancies count, and what the last audit must have judged.

    `judged` is the least share of files that are not too young. `max_age` limits the age of the audit. The audit must
    have compared the table with a storage snapshot at or after `after`.
    """

    max_age: timedelta
    min_severity: str = "error"
    judged: float = 1.0
    after: datetime | None = None


@dataclass(frozen=True)
class Answer:
    """The answer for one table: ok, discrepancies or unknown, with the reasons for the last two."""

    record: TableRecord
    answer: Verdict
    reasons: tuple[str, ...] = ()

    def line(self) -> str:
        """Return the reasons, or for a table that may be used the evidence."""
        record = self.record
        evidence = f"{share(record.judged_share or 0)} judged as of {second(record.through or record.as_of)}"
        return "; ".join(self.reasons) or f"{evidence} by run {record.run_id}"

    def in_short(self) -> AuditedAnswer:
        """Return the answer as the summary of an audit has it."""
        record = self.record
        return {
            "answer": self.answer,
            "reasons": list(self.reasons),
            "run_id": record.run_id,
            "through": iso_or_null(record.through),
            "open": by_rank(record.open),
        }

    def plain(self) -> TableAnswer:
        """Return the answer as the JSON document of `check` has it."""
        record = self.record
        return {
            **self.in_short(),
            "table": record.table,
            "as_of": iso_or_null(record.as_of),
            "judged_share": record.judged_share,
            "pending": by_rank(record.pending),
            "ids": {severity: list(record.ids[severity]) for severity in by_rank(record.open)},
        }


def answer_for(record: TableRecord, demand: Demand, now: datetime) -> Answer:
    """Return the answer for one table.

    An audit that is not after `demand.after` answers nothing. Else open discrepancies come first, and whatever is not
    known is never ok.
    """
    doubts = tuple(_doubts(record, demand, now))
    early = tuple(_too_early(record.through, demand.after))
    if bad := at_or_above(record.open, demand.min_severity):
        noun = "discrepancy is" if sum(bad.values()) == 1 else "discrepancies are"
        reasons = (*early, f"{in_words(bad)} {noun} open", *doubts)
        return Answer(record, UNKNOWN if early else DISCREPANCIES, reasons)
    return Answer(record, UNKNOWN if early or doubts else OK, (*early, *doubts))


def _doubts(record: TableRecord, demand: Demand, now: datetime) -> Iterator[str]:
    yield from record.doubts
    if pending := at_or_above(record.pending, demand.min_severity):
        yield f"{in_words(pending)} pending: nothing has confirmed or cleared this yet"
    if record.judged_share is not None and record.judged_share < demand.judged:
        remark = f" ({record.remark})" if record.remark else ""
        yield f"{share(record.judged_share)} of its files are judged, less than {share(demand.judged)}{remark}"
    if record.as_of is not None and record.as_of < now - demand.max_age:
        yield f"its last audit is {duration(now - record.as_of)} old, more than {duration(demand.max_age)}"
    if record.accepted_until is not None and record.accepted_until <= now:
        yield f"the acceptance of a discrepancy ended at {second(record.accepted_until)}"


def _too_early(through: datetime | None, after: datetime | None) -> Iterator[str]:
    if after is not None and (through is None or through < after):
        snapshot = "no storage snapshot" if through is None else f"the storage snapshot of {second(through)}"
        yield f"its last audit used {snapshot}, not one after {second(after)}"


def summary(answers: Mapping[str, int]) -> str:
    """Return text such as `3 tables: 1 ok, 1 with discrepancies, 1 unknown`."""
    labels = {OK: OK, DISCREPANCIES: f"with {DISCREPANCIES}", UNKNOWN: UNKNOWN}
    parts = [f"{count(answers[name])} {label}" for name, label in labels.items() if answers.get(name)]
    return f"{number(sum(answers.values()), 'table')}: {', '.join(parts)}"
