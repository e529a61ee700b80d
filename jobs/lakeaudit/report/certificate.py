"""Certifies that an audit judged everything and that nothing is lost, and lists the evidence. Pure.

If there are reasons against a certificate, the reasons are returned instead, one line each. The `digest` is the
SHA-256 of all other fields as JSON with sorted keys and no spaces, so that a stored certificate can be checked.
"""

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from lakeaudit import formatting, judged
from lakeaudit.kinds import OPEN_OUTCOMES, axis_words

Row = Mapping[str, Any]
FORMAT = 1
_EXPECTED = "expected ("
_COUNTS = ("files", "bytes", "consistent", "ignored", "out_of_window", "moved_on")
_SOURCE = ("role", "kind", "location", "identity", "cut_from", "cut_to", "rows", "rejected")


@dataclass(frozen=True)
class CertificateBasis:
    """Holds the rows from which a certificate is made.

    Attributes:
        run: the last published run, a row of `runs`.
        coverage: its rows of `coverage`.
        open_findings: number of pending or open discrepancies by table, axis and kind: on the axis content all,
            accepted or not, on the other axes those of severity critical or error that nobody accepted.
        tables: every table that the lake file names.
        exclusions: settings of the lake file that exclude files, as they are written there.
        lost_states: tables with a state that is lost, or older than an audited one, ignored or not.
    """

    run: Row
    coverage: Sequence[Row]
    open_findings: Mapping[tuple[str, str, str], int]
    tables: Collection[str]
    exclusions: Mapping[str, Any] = field(default_factory=dict)
    lost_states: Collection[str] = ()


def refusals(basis: CertificateBasis) -> list[str]:
    """Return the reasons against a certificate, one line each."""
    return [*_of_run(basis), *_of_tables(basis), *_of_findings(basis)]


def _of_run(basis: CertificateBasis) -> Iterator[str]:
    run = basis.run
    if run["status"] != "complete":
        yield f"the audit {run['run_id']} is {run['status']}, not complete"
    if (run["tables_audited"] or 0) < (run["tables_expected"] or 0):
        yield f"the audit covers {run['tables_audited']} of {run['tables_expected']} tables"
    for source in run["sources"] or ():
        if source["rejected"]:
            yield f"{source['location']}: {formatting.number(source['rejected'], 'row')} could not be read"
    for broken in run["gates"] or ():
        yield f"an expectation is not met: {broken}"


def _of_tables(basis: CertificateBasis) -> Iterator[str]:
    covered = {row["table_name"] for row in basis.coverage if row["axis"] == "content"}
    for name in sorted(set(basis.tables) - covered):
        yield f"{name}: the audit did not check this table"
    for row in basis.coverage:
        if not _is_expected(row):
            yield from (f"{row['table_name']}: {axis_words(row['axis'])}: {why}" for why in _undecided(row))
    for name in sorted(basis.lost_states):
        yield f"{name}: a version of the table is lost, so the audit may have read an older version"
    for row in basis.coverage:
        mine = (other for other in basis.coverage if other["table_name"] == row["table_name"])
        if (
            row["axis"] == judged.CONTENT
            and judged.axis_state(row) == judged.EMPTY
            and judged.has_files(mine)
        ):
            yield f"{row['table_name']}: {axis_words(judged.CONTENT)}: no file is listed, but the table has files"


def _undecided(row: Row) -> Iterator[str]:
    """Yield what is not decided on one axis of a table."""
    if row["status"] in ("partial", "overtaken"):
        yield str(row["reason"])
    elif row["axis"] == "content" and row["status"] == "off":
        yield f"no file is compared: {row['reason']}"
    for outcome in OPEN_OUTCOMES:
        if row[outcome]:
            yield f"{formatting.number(row[outcome], 'file')} {formatting.OUTCOMES[outcome]}"
    if row["axis"] == judged.CONTENT and row["files"] and not judged.files_judged(row):
        yield "no file could be judged yet"


def _of_findings(basis: CertificateBasis) -> Iterator[str]:
    for row in basis.coverage:
        if row["axis"] == "content" and row["findings"]:
            files = formatting.number(row["findings"], "file")
            yield f"{row['table_name']}: {axis_words(judged.CONTENT)}: {files} with a finding"
    for (table, axis, kind), number in sorted(basis.open_findings.items()):
        about = f"{table}: {axis_words(axis)}" if table else axis_words(axis)
        noun = "discrepancy" if number == 1 else "discrepancies"
        yield f"{about}: {formatting.count(number)} pending or open {noun} of kind {kind}"


def _is_expected(row: Row) -> bool:
    return row["status"] == "partial" and str(row["reason"] or "").startswith(_EXPECTED)


def certificate(basis: CertificateBasis, now: datetime, version: str) -> dict[str, Any]:
    """Return the certificate of an audit without refusals."""
    run = basis.run
    evidence = [{name: _plain(source[name]) for name in _SOURCE} for source in run["sources"] or ()]
    content = [row for row in basis.coverage if row["axis"] == "content" and not _is_expected(row)]
    stated = {
        "format": FORMAT,
        "lake": run["lake"],
        "run_id": run["run_id"],
        "as_of": _plain(run["as_of"]),
        "made_at": _plain(now),
        "version": version,
        "evidence": evidence,
        "evidence_digest": _digest(evidence),
        "through": _plain(_through(content)),
        "tables": len(content),
        "files_agreed": sum(row["consistent"] or 0 for row in content),
        "files": sum(row["files"] or 0 for row in content),
        "files_too_young": sum(map(judged.files_young, content)),
        "bytes": sum(row["bytes"] or 0 for row in content),
        "coverage": [_covered(row) for row in basis.coverage],
        "exclusions": {
            **basis.exclusions,
            "out_of_window": _left_out(content, "out_of_window"),
            "ignored": _left_out(basis.coverage, "ignored"),
            "expected": {row["table_name"]: row["reason"] for row in basis.coverage if _is_expected(row)},
        },
    }
    return stated | {"digest": _digest(stated)}


def _through(content: Sequence[Row]) -> datetime | None:
    """Return the time up to which the certificate holds: the oldest storage snapshot of the content checks."""
    return min((row["storage_cut_from"] for row in content if row["storage_cut_from"]), default=None)


def _covered(row: Row) -> dict[str, Any]:
    named = {
        "table": row["table_name"],
        "axis": row["axis"],
        "status": row["status"],
        "reason": row["reason"] or "",
    }
    cuts = {name: _plain(row[name]) for name in ("table_version", "storage_cut_from", "storage_cut_to")}
    return named | {name: row[name] or 0 for name in _COUNTS} | {"findings": row["findings"] or 0} | cuts


def _left_out(coverage: Sequence[Row], outcome: str) -> dict[str, int]:
    counts = {f"{row['table_name']}: {row['axis']}": row[outcome] for row in coverage}
    return {name: files for name, files in counts.items() if files}


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return value


def _digest(stated: object) -> str:
    text = json.dumps(stated, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return f"sha256:{hashlib.sha256(text.encode(errors='surrogateescape')).hexdigest()}"
