"""Compares the parts of a certificate with each other: sums, digests and tables must be those of its coverage. Pure.

A signature shows only that the owner of a key states a content, not that lakeaudit computed it.
"""

from collections.abc import Iterator

from lakeaudit.certificate.content import content_rows, digest_of, exclusions, totals
from lakeaudit.certificate.refusals import CertificateBasis, refusals
from lakeaudit.json_documents import Certificate

_WITHOUT_FAULTS = {
    "status": "complete",
    "tables_expected": 0,
    "tables_audited": 0,
    "gates": (),
}


def contradiction(stated: Certificate) -> str:
    """Return the first contradiction in a certificate, as the end of a sentence; empty: there is none."""
    return next(_contradictions(stated), "")


def _contradictions(stated: Certificate) -> Iterator[str]:
    if stated["evidence_digest"] != digest_of(stated["evidence"]):
        yield "its evidence_digest does not match its evidence"
    try:
        sums = totals(stated["coverage"])
    except (ValueError, TypeError):
        yield "a time in it is not a time"
        return
    for name, value in sums.items():
        if stated[name] != value:  # type: ignore[literal-required]
            yield f"{name} is {stated[name]}, but its coverage gives {value}"  # type: ignore[literal-required]
    for name, value in exclusions(stated["coverage"]).items():
        if stated["exclusions"].get(name) != value:
            yield f"exclusions.{name} does not match its coverage"
    tables = sorted({row["table"] for row in content_rows(stated["coverage"])})
    if [each["table"] for each in stated["table_states"]] != tables:
        yield "its table_states are not those of the tables of its coverage"
    yield from (f"it has a reason against a certificate: {why}" for why in _reasons_against(stated))


def _reasons_against(stated: Certificate) -> list[str]:
    rows = [{**row, "table_name": row["table"]} for row in stated["coverage"]]
    run = {**_WITHOUT_FAULTS, "run_id": stated["run_id"], "sources": stated["evidence"]}
    return refusals(CertificateBasis(run, rows, open_findings={}, tables=()))
