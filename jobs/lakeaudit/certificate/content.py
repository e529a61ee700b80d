"""Builds a certificate: an audit judged everything, nothing is lost, and this is the evidence. Pure.

The `digest` is the SHA-256 of all other fields as JSON with sorted keys and no spaces, so that a stored certificate
can be checked. A signed certificate is the predicate of an in-toto Statement about the states of the tables.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, TypedDict

from lakeaudit import judged
from lakeaudit.certificate.refusals import CertificateBasis, is_expected
from lakeaudit.formatting import iso, iso_or_null
from lakeaudit.json_documents import (
    Certificate,
    CertificateCoverage,
    CertificateEvidence,
    CertificateStatement,
    CertificateTable,
)
from lakeaudit.kinds import SEVERITIES

Row = Mapping[str, Any]


class CertificateTotals(TypedDict):
    """The sums of a certificate over its rows of coverage, see `Certificate`."""

    through: str | None
    tables: int
    files_agreed: int
    files: int
    files_too_young: int
    bytes: int


FORMAT = 1
STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "urn:lakeaudit:certificate:1"
_DIGEST = re.compile(r"\b(?:md5:[0-9a-f]{32}|sha256:[0-9a-f]{64})\b")
LIVE_IDENTITY = re.compile(r"listed |scan of ")
"""Matches the identity of evidence that was read live and that nothing stores."""
NOT_STORED = "it was read live, and nobody can read it again"
NO_CHECKSUM = "the source has no checksum; `identity` names the version that was read"


def certificate(basis: CertificateBasis, now: datetime, version: str) -> Certificate:
    """Return the certificate of an audit without refusals."""
    run = basis.run
    evidence = [_evidence(source) for source in run["sources"] or ()]
    coverage = [covered(row) for row in basis.coverage]
    stated: Certificate = {
        "format": FORMAT,
        "lake": run["lake"],
        "run_id": run["run_id"],
        "as_of": iso(run["as_of"]),
        "started_at": iso_or_null(run["started_at"]),
        "finished_at": iso_or_null(run["finished_at"]),
        "made_at": iso(now),
        "version": version,
        "rules": basis.rules,
        "lake_file": basis.lake_file,
        "has_live_checks": basis.has_live_checks,
        "evidence": evidence,
        "evidence_digest": digest_of(evidence),
        **totals(coverage),
        "coverage": coverage,
        "table_states": list(basis.table_states),
        "open_discrepancies": {name: basis.open_severities.get(name, 0) for name in SEVERITIES},
        "exclusions": {
            **basis.exclusions,
            **exclusions(coverage),
        },
        "digest": "",
    }
    stated["digest"] = own_digest(stated)
    return stated


def statement(stated: Certificate) -> CertificateStatement:
    """Return the in-toto Statement of a certificate: its subjects are the states of the tables.

    The digest of a subject is that of its element of `table_states`, and of the evidence for a table that names no
    state.
    """
    return {
        "_type": STATEMENT_TYPE,
        "subject": [
            {"name": each["table"], "digest": {"sha256": _subject_digest(each, stated["evidence_digest"])}}
            for each in stated["table_states"]
        ],
        "predicateType": PREDICATE_TYPE,
        "predicate": stated,
    }


def own_digest(stated: Mapping[str, Any]) -> str:
    """Return the digest that a certificate must have."""
    return digest_of({name: value for name, value in stated.items() if name != "digest"})


def digest_of(stated: object) -> str:
    """Return the SHA-256 of a value as JSON with sorted keys and no spaces."""
    text = json.dumps(stated, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return f"sha256:{hashlib.sha256(text.encode(errors='surrogateescape')).hexdigest()}"


def _subject_digest(state: CertificateTable, evidence: str) -> str:
    named = {"table": state["table"], "location": state["location"], "states": state["states"]}
    whole = named if state["states"] else named | {"evidence": evidence}
    return digest_of(whole).removeprefix("sha256:")


def _evidence(source: Row) -> CertificateEvidence:
    identity = source["identity"] or ""
    digests = _DIGEST.findall(identity)
    why_none = NOT_STORED if LIVE_IDENTITY.match(identity) else NO_CHECKSUM
    return {
        "role": source["role"],
        "kind": source["kind"],
        "location": source["location"],
        "identity": identity,
        "cut_from": iso_or_null(source["cut_from"]),
        "cut_to": iso_or_null(source["cut_to"]),
        "rows": source["rows"],
        "rejected": source["rejected"],
        "digests": digests,
        "no_digest": None if digests else why_none,
    }


def content_rows(coverage: Sequence[CertificateCoverage]) -> list[CertificateCoverage]:
    """Return the rows about the files of tables, without evidence that the lake file expects to be unreadable."""
    return [row for row in coverage if row["axis"] == judged.CONTENT and not is_expected(row)]


def totals(coverage: Sequence[CertificateCoverage]) -> CertificateTotals:
    """Return the sums of a certificate over its rows of coverage.

    `through` is the time up to which it holds: the oldest storage snapshot of the content checks.

    Raises:
        ValueError: a text is not a time.
    """
    content = content_rows(coverage)
    cuts = [row["storage_cut_from"] for row in content if row["storage_cut_from"]]
    return {
        "through": min(cuts, key=datetime.fromisoformat, default=None),
        "tables": len(content),
        "files_agreed": sum(row["consistent"] for row in content),
        "files": sum(row["files"] for row in content),
        "files_too_young": sum(map(judged.files_young, content)),
        "bytes": sum(row["bytes"] for row in content),
    }


def exclusions(coverage: Sequence[CertificateCoverage]) -> dict[str, Any]:
    """Return the exclusions of a certificate that its rows of coverage state."""
    return {
        "out_of_window": _left_out(content_rows(coverage), "out_of_window"),
        "ignored": _left_out(coverage, "ignored"),
        "expected": {row["table"]: row["reason"] for row in coverage if is_expected(row)},
    }


def covered(row: Row) -> CertificateCoverage:
    """Return a row of coverage as a certificate has it."""
    return {
        "table": row["table_name"],
        "axis": row["axis"],
        "status": row["status"],
        "reason": row["reason"] or "",
        "files": row["files"] or 0,
        "bytes": row["bytes"] or 0,
        "consistent": row["consistent"] or 0,
        "findings": row["findings"] or 0,
        "ignored": row["ignored"] or 0,
        "out_of_window": row["out_of_window"] or 0,
        "undecided": row["undecided"] or 0,
        "uncovered": row["uncovered"] or 0,
        "moved_on": row["moved_on"] or 0,
        "table_version": row["table_version"],
        "storage_cut_from": iso_or_null(row["storage_cut_from"]),
        "storage_cut_to": iso_or_null(row["storage_cut_to"]),
    }


def _left_out(coverage: Sequence[CertificateCoverage], outcome: str) -> dict[str, int]:
    counts = {f"{row['table']}: {row['axis']}": judged.count_of(row, outcome) for row in coverage}
    return {name: files for name, files in counts.items() if files}
