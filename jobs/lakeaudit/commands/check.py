"""Answer `lakeaudit check`: may tables be used? Only the result tables are read; there is no lease and no audit."""

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TextIO

from lakeaudit.commands.option_values import duration_option, pattern_option, time_option
from lakeaudit.config import Lake
from lakeaudit.config.globs import is_pattern
from lakeaudit.errors import BadInput, CannotAudit
from lakeaudit.formatting import iso, iso_or_null, second, visible
from lakeaudit.json_documents import Answer as Verdict
from lakeaudit.json_documents import CheckSummary
from lakeaudit.kinds import SEVERITIES
from lakeaudit.results.read import Results
from lakeaudit.results.summaries.table_answers import (
    DISCREPANCIES,
    OK,
    UNKNOWN,
    Answer,
    Demand,
    answer_for,
    summary,
)
from lakeaudit.results.summaries.table_records import (
    Audits,
    TableRecord,
    covered_tables,
    read_audits,
    table_records,
)

FORMAT = 1
EXIT_CODES: Mapping[Verdict, int] = {OK: 0, DISCREPANCIES: 1, UNKNOWN: 3}


def demand_of(
    lake: Lake, min_severity: str, judged: str | None, max_age: str | None, after: str | None
) -> Demand:
    """Return the demands of the options; the lake file's `overdue` is the default of `max_age`.

    Raises:
        BadInput: a value is not a severity, a share, a duration or a time.
    """
    if min_severity not in SEVERITIES:
        raise BadInput("--min-severity", f"no severity {min_severity}", f"one of {', '.join(SEVERITIES)}")
    return Demand(
        max_age=lake.overdue if max_age is None else duration_option("--max-age", max_age, "36h"),
        min_severity=min_severity,
        judged=1.0 if judged is None else _share(judged),
        after=None if after is None else time_option("--after", after),
    )


def _share(text: str) -> float:
    form = re.fullmatch(r"([0-9]{1,3}(?:\.[0-9]{1,6})?)\s?%", text)
    value = float(form[1]) / 100 if form else 0.0
    if not 0 < value <= 1:
        raise BadInput(f"--judged {text}", "is not a share above 0 % and up to 100 %", "write 99% or 99.9%")
    return value


def check(
    lake: Lake, results: Results, patterns: Sequence[str], demand: Demand, now: datetime
) -> list[Answer]:
    """Answer for each table that a name or pattern selects; results that cannot be read make every answer unknown.

    Raises:
        BadInput: a pattern is not valid.
    """
    regexes = {pattern: pattern_option("--table", pattern) for pattern in dict.fromkeys(patterns)}
    try:
        audits = read_audits(results, now - demand.max_age)
        tables = _tables(lake, covered_tables(results, audits) if lake.finds_tables else {})
        selection = {pattern: tables.matching(pattern, regex) for pattern, regex in regexes.items()}
        names = list(dict.fromkeys(name for selected in selection.values() for name in selected))
        present = [name for name in names if name not in tables.absent]
        records, moved = table_records(results, audits, present, now), _moved(lake, results)
        answers = [answer_for(_with_doubt(each, moved.get(each.table)), demand, now) for each in records]
    except CannotAudit as error:
        return [_unknown(pattern, str(error)) for pattern in regexes]
    unknown = [name for name in names if name in tables.absent]
    unknown += [pattern for pattern, selected in selection.items() if not selected]
    return [*answers, *(_unknown(name, tables.reason(name, audits)) for name in unknown)]


def _moved(lake: Lake, results: Results) -> dict[str, str]:
    """Return the tables that the last audits read at other locations than the lake file names, with the reason."""
    read: dict[str, set[str]] = {}
    for row in results.states():
        if row["standing"] == "read" and row["location"]:
            read.setdefault(row["table_name"], set()).add(row["location"].rstrip("/"))
    found = {}
    for table in lake.tables:
        own = {place.rstrip("/") for place in (table.location.uri, table.location.path_or_uri)}
        if (places := read.get(table.name)) and own.isdisjoint(places):
            found[table.name] = f"no audit has judged {table.location.uri}: the last one read {min(places)}"
    return found


def _with_doubt(record: TableRecord, doubt: str | None) -> TableRecord:
    return record if doubt is None else replace(record, doubts=(*record.doubts, doubt))


def _unknown(pattern: str, reason: str) -> Answer:
    return Answer(TableRecord(pattern), UNKNOWN, (reason,))


@dataclass(frozen=True)
class _Tables:
    """The tables by each of their names; a later audit no longer contains those that are `absent`."""

    names: Mapping[str, str]
    absent: frozenset[str]

    def matching(self, pattern: str, regex: str) -> list[str]:
        """Return the table of this name, or else all tables with a name that matches."""
        if pattern in self.names:
            return [self.names[pattern]]
        return list(dict.fromkeys(table for name, table in self.names.items() if re.match(regex, name)))

    def reason(self, pattern: str, audits: Audits) -> str:
        """Return why nothing is known about a table, or nothing matches."""
        if pattern in self.absent:
            return "a later audit no longer contains this table, and the lake file does not name it"
        noun = "table matches this pattern" if is_pattern(pattern) else "table has this name"
        return f"no {noun} in the lake file or in an audit since {second(audits.since)}"


def _tables(lake: Lake, covered: Mapping[str, bool]) -> _Tables:
    declared = {name: table.name for table in lake.tables for name in (table.name, *table.also)}
    discovered = covered.keys() - declared.keys() - {place.name for place in lake.watched}
    absent = frozenset(name for name in discovered if covered[name])
    return _Tables(declared | {name: name for name in sorted(discovered)}, absent)


def exit_code(answers: Sequence[Answer]) -> int:
    """Return 1 if a table has discrepancies, else 3 if nobody can tell about a table, else 0."""
    codes = {EXIT_CODES[each.answer] for each in answers}
    return next((code for code in (1, 3) if code in codes), 0 if codes else 3)


def write(
    lake: Lake, answers: Sequence[Answer], demand: Demand, out: TextIO, form: str, now: datetime
) -> str:
    """Print the answers as one JSON document or as one line each; return the verdict."""
    if form == "json":
        print(json.dumps(document(lake, answers, demand, now)), file=out)
    else:
        for each in answers:
            print(f"{each.answer:<13}  {visible(each.record.table)}: {visible(each.line())}", file=out)
    return summary(Counter(each.answer for each in answers))


def document(lake: Lake, answers: Sequence[Answer], demand: Demand, now: datetime) -> CheckSummary:
    """Return the JSON document of `--format json`."""
    worst = next(name for name, code in EXIT_CODES.items() if code == exit_code(answers))
    return {
        "format": FORMAT,
        "lake": lake.name,
        "checked_at": iso(now),
        "answer": worst,
        "min_severity": demand.min_severity,
        "judged": demand.judged,
        "max_age_seconds": round(demand.max_age.total_seconds()),
        "after": iso_or_null(demand.after),
        "tables": [each.plain() for each in answers],
    }
