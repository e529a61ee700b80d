"""Finds the reasons against a certificate of an audit, one line each. Pure."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lakeaudit import formatting, judged
from lakeaudit.json_documents import CertificateTable
from lakeaudit.kinds import OPEN_OUTCOMES, axis_words

Row = Mapping[str, Any]
_EXPECTED = "expected ("


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
        replaced_states: tables of whose states only those are stored that other runs read.
        table_states: the states of the tables that the run read.
        open_severities: number of pending and open discrepancies by severity, accepted or not.
        rules: version of the rules.
        lake_file: digest of the lake file.
        has_live_checks: the run may have asked storage about single files.
    """

    run: Row
    coverage: Sequence[Row]
    open_findings: Mapping[tuple[str, str, str], int]
    tables: Collection[str]
    exclusions: Mapping[str, Any] = field(default_factory=dict)
    lost_states: Collection[str] = ()
    replaced_states: Collection[str] = ()
    table_states: Sequence[CertificateTable] = ()
    open_severities: Mapping[str, int] = field(default_factory=dict)
    rules: str = ""
    lake_file: str = ""
    has_live_checks: bool = True


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
        if not is_expected(row):
            yield from (f"{row['table_name']}: {axis_words(row['axis'])}: {why}" for why in _undecided(row))
    for name in sorted(basis.lost_states):
        yield f"{name}: a version of the table is lost, so the audit may have read an older version"
    for name in sorted(basis.replaced_states):
        yield f"{name}: the results have no longer the state that the audit read: another audit has replaced it"
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


def is_expected(row: Row) -> bool:
    """Return whether the lake file expects that the evidence of this row of coverage cannot be read."""
    return row["status"] == "partial" and str(row["reason"] or "").startswith(_EXPECTED)
