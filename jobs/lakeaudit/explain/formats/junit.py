"""Write rows as JUnit XML for CI systems: a test suite for each table, a failed test case for each row.

A table passes a test case of its own if it was fully judged; else the case is an error or skipped. JUnit has no other
place for a table that nobody has judged, and a file without test cases is an error for most CI systems.

A suite contains its numbers before its cases, and rows arrive by severity. The cases go to a temporary file, and only
their positions stay in memory.
"""

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from tempfile import TemporaryFile
from typing import IO, TextIO
from xml.sax.saxutils import escape, quoteattr

from lakeaudit.advice.next_steps import with_names
from lakeaudit.explain.formats.listing import (
    ACCEPTED,
    JUDGED,
    NOT_JUDGED,
    OPEN,
    PENDING,
    Listing,
    Row,
    TableCoverage,
    reason,
    standing,
    subject,
)
from lakeaudit.formatting import in_utc, table_label, visible
from lakeaudit.kinds import KINDS
from lakeaudit.runtime.scratch import scratch_root

FAILURE, ERROR, SKIPPED, PASSED = "failure", "error", "skipped", "passed"
_COUNTS = {
    "tests": (FAILURE, ERROR, SKIPPED, PASSED),
    "failures": (FAILURE,),
    "errors": (ERROR,),
    "skipped": (SKIPPED,),
}
_RESULTS = {OPEN: FAILURE, PENDING: SKIPPED, ACCEPTED: SKIPPED}


def write(rows: Iterable[Row], out: TextIO, listing: Listing) -> int:
    """Write all test suites; return the number of rows."""
    with TemporaryFile(dir=scratch_root()) as spool:
        suites = _Suites(spool)
        _add_audit(suites, listing)
        for table in listing.tables:
            _add_coverage(suites, table)
        number = 0
        for number, row in enumerate(rows, 1):  # noqa: B007
            _add_row(suites, row, listing)
        out.writelines(suites.lines(listing))
    return number


@dataclass
class _Suite:
    positions: "array[int]" = field(default_factory=lambda: array("Q"))
    results: Counter[str] = field(default_factory=Counter)
    properties: dict[str, object] = field(default_factory=dict)


class _Suites:
    """Test suites by name, whose cases are in a file, one a line."""

    def __init__(self, spool: IO[bytes]) -> None:
        self._spool = spool
        self._suites: dict[str, _Suite] = {}

    def suite(self, name: str) -> _Suite:
        return self._suites.setdefault(name, _Suite())

    def add(
        self, suite: str, name: str, result: str, message: str, kind: str = "", lines: Sequence[str] = ()
    ) -> None:
        """Add a test case; `message`, `kind` and `lines` describe a result that is not `passed`."""
        of = self.suite(suite)
        of.positions.append(self._spool.tell())
        of.results[result] += 1
        about = {"message": message} | ({} if result == SKIPPED else {"type": kind or NOT_JUDGED})
        inner = "" if result == PASSED else _element(result, about, _text(lines))
        self._spool.write(_element("testcase", {"classname": suite, "name": name}, inner).encode() + b"\n")

    def lines(self, listing: Listing) -> Iterator[str]:
        """Yield the lines of the whole document."""
        total: Counter[str] = sum((suite.results for suite in self._suites.values()), Counter())
        name = f"lakeaudit {listing.name} of {listing.run['lake']}"
        yield '<?xml version="1.0" encoding="UTF-8"?>\n'
        yield f"<testsuites{_attributes({'name': name, **_numbers(total)})}>\n"
        at = in_utc(listing.run["as_of"]).replace(tzinfo=None, microsecond=0).isoformat()
        for name, suite in self._suites.items():
            yield f"<testsuite{_attributes({'name': name, **_numbers(suite.results), 'timestamp': at})}>\n"
            yield from _properties(suite)
            for position in suite.positions:
                self._spool.seek(position)
                yield self._spool.readline().decode()
            yield "</testsuite>\n"
        yield "</testsuites>\n"


def _add_audit(suites: _Suites, listing: Listing) -> None:
    """Add the suite of the audit itself, whose case fails if its rows are not the state of the lake."""
    run, doubts = listing.run, listing.all_doubts
    of = suites.suite("lakeaudit")
    of.properties |= {"run_id": run["run_id"], "status": run["status"], "coverage": listing.extent}
    result = ERROR if listing.is_doubtful else SKIPPED if doubts else PASSED
    suites.add("lakeaudit", "audit", result, "; ".join(doubts))


def _add_coverage(suites: _Suites, table: TableCoverage) -> None:
    of = suites.suite(table.name)
    of.properties |= {
        "files": table.files,
        "files_judged": table.files_judged,
        "evidence_gaps": len(table.gaps),
    }
    result = {JUDGED: PASSED, NOT_JUDGED: ERROR}.get(table.state, SKIPPED)
    message = f"{table.state}: {table.extent}: {'; '.join(table.gaps)}"
    suites.add(table.name, "coverage", result, message)


def _add_row(suites: _Suites, row: Row, listing: Listing) -> None:
    state, known = standing(row, listing.now)
    kind, why = KINDS.get(row["kind"]), reason(row)
    message = "; ".join(filter(None, (f"{row['severity']}: {why}", known)))
    do = [f"do: {with_names(kind.do, listing.lake_file, [row['table_name']])}"] if kind else []
    lines = [subject(row), message, *do, f"id: {row['discrepancy_id']}"]
    result, name = _RESULTS.get(state, PASSED), f"{row['kind']}: {subject(row)}"
    suites.add(table_label(row["table_name"]), name, result, message, row["kind"], lines)


def _numbers(results: Counter[str]) -> dict[str, object]:
    return {name: sum(results[each] for each in counted) for name, counted in _COUNTS.items()}


def _properties(suite: _Suite) -> Iterator[str]:
    if suite.properties:
        inner = "".join(_element("property", {"name": n, "value": v}) for n, v in suite.properties.items())
        yield _element("properties", {}, inner) + "\n"


def _element(name: str, attributes: Mapping[str, object], inner: str = "") -> str:
    return f"<{name}{_attributes(attributes)}>{inner}</{name}>"


def _attributes(values: Mapping[str, object]) -> str:
    return "".join(f" {name}={_ascii(quoteattr(visible(str(value))))}" for name, value in values.items())


def _text(lines: Sequence[str]) -> str:
    """Return lines as the content of an element, without line breaks of the file."""
    return "&#10;".join(_ascii(escape(visible(line))) for line in lines)


def _ascii(text: str) -> str:
    """Return a text that is valid in any encoding of stdout; `visible` text has no character that XML forbids."""
    return text.encode("ascii", "xmlcharrefreplace").decode()
