"""Write rows as SARIF 2.1.0 for code scanning: one rule for each kind, one result for each row.

The document is ASCII, and its texts have no invisible characters, so that strict readers accept every key.
"""

import json
from collections.abc import Iterable, Iterator
from typing import Any, TextIO
from urllib.parse import quote

from lakeaudit import __version__
from lakeaudit.advice.next_steps import with_names
from lakeaudit.explain.formats.listing import (
    ACCEPTED,
    JUDGED,
    NOT_JUDGED,
    PENDING,
    RESOLVED,
    Listing,
    Row,
    TableCoverage,
    reason,
    standing,
    subject,
)
from lakeaudit.formatting import iso, table_label, uri, visible
from lakeaudit.kinds import KINDS, Kind

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
LEVELS = {"critical": "error", "error": "error", "warning": "warning", "info": "note"}
_RULES = {name: at for at, name in enumerate(KINDS)}
_RESULT_KINDS = {PENDING: "open", RESOLVED: "pass"}
"""SARIF's kinds of result for discrepancies that are not open; such a result has the level `none`."""
_AT_STAKE = ("severity", "axis", "files", "rows_at_stake", "bytes_at_stake", "recoverable", "cause")


def write(rows: Iterable[Row], out: TextIO, listing: Listing) -> int:
    """Write the document, its results as they arrive; return the number of rows."""
    run = json.dumps(_run(listing), default=iso)
    out.write(f'{{"$schema": "{SCHEMA}", "version": "2.1.0", "runs": [{run[:-1]}, "results": [')
    number = 0
    for number, row in enumerate(rows, 1):
        out.write((",\n" if number > 1 else "\n") + json.dumps(_result(row, listing), default=iso))
    out.write("\n]}]}\n")
    return number


def _run(listing: Listing) -> dict[str, Any]:
    """Return the run without its results."""
    run = listing.run
    driver = {
        "name": "lakeaudit",
        "version": __version__,
        "rules": [_rule(kind, listing.lake_file) for kind in KINDS.values()],
    }
    invocation = {
        "executionSuccessful": run["status"] != "failed",
        "startTimeUtc": run["started_at"],
        "endTimeUtc": run["finished_at"],
        "toolExecutionNotifications": [*_notifications(listing)],
    }
    return {
        "tool": {"driver": driver},
        "automationDetails": {"id": f"lakeaudit/{run['lake']}/{run['run_id']}"},
        "invocations": [{name: value for name, value in invocation.items() if value is not None}],
        "properties": {"lake": run["lake"], "status": run["status"], "coverage": listing.extent},
    }


def _rule(kind: Kind, lake_file: str) -> dict[str, Any]:
    do = with_names(kind.do, lake_file)
    return {
        "id": kind.name,
        "shortDescription": {"text": _message(kind.words)},
        "help": {"text": _message(do), "markdown": do},
        "defaultConfiguration": {"level": LEVELS[kind.severity]},
        "properties": {"tags": [kind.axis], "severity": kind.severity},
    }


def _notifications(listing: Listing) -> Iterator[dict[str, Any]]:
    """Yield the doubts about the run, and each table that was not fully judged."""
    level = "error" if listing.is_doubtful else "warning"
    yield from ({"level": level, "message": {"text": _message(doubt)}} for doubt in listing.all_doubts)
    for table in listing.tables:
        if table.state != JUDGED:
            yield {
                "level": "error" if table.state == NOT_JUDGED else "warning",
                "message": {"text": _message(_gap(table))},
                "locations": [_location(table.name, listing.locations.get(table.name))],
            }


def _gap(table: TableCoverage) -> str:
    return f"{table.state}: {table.name}: {table.extent}: {'; '.join(table.gaps)}"


def _result(row: Row, listing: Listing) -> dict[str, Any]:
    state, known = standing(row, listing.now)
    kind, rule = _RESULT_KINDS.get(state, "fail"), _RULES.get(row["kind"])
    identity = visible(row["discrepancy_id"] or "")
    fault = f"{subject(row)}: {reason(row)}"
    place = uri(row) or listing.locations.get(row["table_name"])
    result = {
        "ruleId": row["kind"],
        "ruleIndex": rule,
        "kind": kind,
        "level": LEVELS.get(row["severity"], "warning") if kind == "fail" else "none",
        "message": {"text": _message(f"{fault}; {known}" if known else fault)},
        "locations": [_location(table_label(row["table_name"]), place)],
        "fingerprints": {"discrepancyId/v1": identity} if identity else None,
        "partialFingerprints": {"primaryLocationLineHash": identity} if identity else None,
        "suppressions": [_suppression(known)] if state == ACCEPTED else None,
        "properties": {name: _visible(row[name]) for name in _AT_STAKE if row[name] is not None},
    }
    return {name: value for name, value in result.items() if value is not None}


def _suppression(justification: str) -> dict[str, Any]:
    return {"kind": "external", "status": "accepted", "justification": visible(justification)}


def _location(table: str, place: str | None) -> dict[str, Any]:
    """Return the table, and the URI of its file or of itself."""
    logical: dict[str, Any] = {
        "logicalLocations": [{"fullyQualifiedName": visible(table), "kind": "resource"}]
    }
    return (
        logical
        if place is None
        else logical | {"physicalLocation": {"artifactLocation": {"uri": _uri(place)}}}
    )


def _uri(place: str) -> str:
    """Return a valid URI; a local path is a file's. Keys are raw, so that a percent sign is a character of the key."""
    scheme = "file://" if place.startswith("/") else ""
    return scheme + quote(place, safe="/:@!$&'()*+,;=~", errors="surrogatepass")


def _message(text: str) -> str:
    """Return visible text in which SARIF replaces nothing and sees no link."""
    return visible(text).replace("{", "{{").replace("}", "}}").replace("](", "\\](")


def _visible(value: object) -> object:
    return visible(value) if isinstance(value, str) else value
