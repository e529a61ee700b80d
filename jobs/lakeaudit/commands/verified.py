"""Answer `lakeaudit verified`: up to which time are the commits of tables verified? Only the result tables are read."""

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TextIO

from lakeaudit.commands.option_values import duration_option, pattern_option, time_option
from lakeaudit.config import Lake
from lakeaudit.errors import BadInput, CannotAudit
from lakeaudit.formatting import iso, iso_or_null, number, second, visible
from lakeaudit.json_documents import VerifiedAnswer, VerifiedSummary, VerifiedTable
from lakeaudit.results.read import Results, Row
from lakeaudit.results.summaries.discovered_tables import present_tables
from lakeaudit.results.summaries.table_answers import UNKNOWN
from lakeaudit.results.summaries.verified_tables import CLOCK_STEP, current_watermarks
from lakeaudit.results.watermark import stopped_by

FORMAT = 1
YES: VerifiedAnswer = "yes"
NO: VerifiedAnswer = "no"
SHOWN = 3
"""Ids that the text names."""


def demanded_time(lake: Lake, through: str | None, within: str | None, now: datetime) -> datetime:
    """Return the time up to which commits must be verified; default: `overdue` of the lake file before now.

    Raises:
        BadInput: both options are given, or a value is not a time or duration.
    """
    if through is not None and within is not None:
        raise BadInput("--through", "does not combine with --within", "give one of them")
    if through is not None:
        return time_option("--through", through)
    return now - (lake.overdue if within is None else duration_option("--within", within, "24h"))


@dataclass(frozen=True)
class Verified:
    """The answer for a table: `answer` is yes, no or unknown; `row` is its newest row of `verified`, or None."""

    table: str
    answer: VerifiedAnswer
    reason: str
    row: Row | None = None

    @property
    def through(self) -> datetime | None:
        """Return the time up to which its commits are verified; None: none is."""
        return self.row["verified_through"] if self.row else None

    def plain(self) -> VerifiedTable:
        """Return the object of the JSON document."""
        row = self.row or {}
        return {
            "table": self.table,
            "answer": self.answer,
            "reason": self.reason,
            "verified_through": iso_or_null(self.through),
            "as_of": iso_or_null(row.get("as_of")),
            "run_id": row.get("run_id"),
            "open_discrepancies": row.get("open_discrepancies"),
            "blocked_by": list(row.get("blocked_by") or ()),
        }


def verified(
    lake: Lake, results: Results, patterns: Sequence[str], through: datetime, now: datetime
) -> list[Verified]:
    """Answer for each table that a name or pattern selects, by default for all tables.

    Raises:
        BadInput: a pattern is not valid.
    """
    try:
        present = present_tables(results, now, now + CLOCK_STEP) if lake.finds_tables else set()
        rows = current_watermarks(results, lake, now, present, named=True)
    except CannotAudit as error:
        return [Verified(pattern, UNKNOWN, str(error)) for pattern in patterns or (lake.name,)]
    names = {name: table.name for table in lake.tables for name in (table.name, *table.also)}
    names |= {name: name for name in (*_discovered(lake, rows, now), *sorted(present)) if name not in names}
    if not patterns:
        return [_answer(name, rows.get(name), through) for name in sorted({*names.values()})]
    found = {pattern: _matching(pattern, names) for pattern in dict.fromkeys(patterns)}
    chosen = dict.fromkeys(name for matching in found.values() for name in matching)
    missing = [
        Verified(pattern, UNKNOWN, "no table has this name") for pattern, few in found.items() if not few
    ]
    return [*(_answer(name, rows.get(name), through) for name in chosen), *missing]


def _discovered(lake: Lake, rows: Mapping[str, Row], now: datetime) -> list[str]:
    """Return the tables of the last audits, if audits discover tables."""
    newest = max((row["as_of"] for row in rows.values() if row["as_of"] <= now + CLOCK_STEP), default=now)
    return [name for name, row in rows.items() if row["as_of"] >= newest - lake.overdue and lake.finds_tables]


def _matching(pattern: str, names: Mapping[str, str]) -> list[str]:
    if pattern in names:
        return [names[pattern]]
    regex = pattern_option("--table", pattern)
    return sorted({table for name, table in names.items() if re.match(regex, name)})


def _answer(name: str, row: Row | None, through: datetime) -> Verified:
    if row is None:
        return Verified(
            name, UNKNOWN, "no audit has judged the table since this version of lakeaudit is used"
        )
    at = row["verified_through"]
    if at is not None and at >= through:
        return Verified(name, YES, f"verified through {second(at)}", row)
    until = "no commit is verified" if at is None else f"verified only through {second(at)}"
    if row["open_discrepancies"]:
        return Verified(name, NO, f"{until}: {stopped_by(row)} ({_few(row['blocked_by'])})", row)
    why = stopped_by(row) or "no later audit has judged the table"
    return Verified(name, UNKNOWN, f"{until}: {why} (last audit: {second(row['as_of'])})", row)


def _few(ids: Sequence[str]) -> str:
    return ", ".join([each[:12] for each in ids[:SHOWN]] + (["..."] if len(ids) > SHOWN else []))


def exit_code(answers: Sequence[Verified]) -> int:
    """Return 1 if the answer for a table is no, else 3 if one is unknown, else 0."""
    found = {each.answer for each in answers}
    return 1 if NO in found else 3 if UNKNOWN in found or not found else 0


def write(lake: Lake, answers: Sequence[Verified], through: datetime, out: TextIO, form: str) -> str:
    """Print the answers as one JSON document or as one line each; return the verdict."""
    if form == "json":
        print(json.dumps(document(lake, answers, through)), file=out)
    else:
        for each in answers:
            print(f"{each.answer:<7}  {visible(each.table)}: {visible(each.reason)}", file=out)
    counts = Counter(each.answer for each in answers)
    numbers = [
        f"{answer} for {number(counts[answer], 'table')}" for answer in (YES, NO, UNKNOWN) if counts[answer]
    ]
    return f"all commits up to {second(through)} are verified: {', '.join(numbers)}"


def document(lake: Lake, answers: Sequence[Verified], through: datetime) -> VerifiedSummary:
    """Return the JSON document of `--format json`."""
    code = exit_code(answers)
    return {
        "format": FORMAT,
        "lake": lake.name,
        "through": iso(through),
        "answer": NO if code == 1 else UNKNOWN if code == 3 else YES,
        "tables": [each.plain() for each in answers],
    }
