"""Describe the fields that storage does not report: reasons of undecided files by table, and a warning by bucket."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from lakeaudit.checks.unnamed_file_fields import CLASS, of_verdicts
from lakeaudit.collect.evidence import Evidence
from lakeaudit.formatting import number
from lakeaudit.keys import is_azure, uri_of
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Rows


@dataclass(frozen=True)
class UnnamedFields:
    """Reasons of undecided files by table and axis; `warnings`: one line for each bucket and report."""

    reasons: Mapping[tuple[str, str], str]
    warnings: tuple[str, ...]


def unnamed_fields(
    evidence: Evidence, counted: Iterable[Mapping[str, Any]], remaining: Rows
) -> UnnamedFields:
    """Describe, for coverage, the fields of undecided files that storage does not report.

    Args:
        evidence: the evidence of the run.
        counted: UNNAMED_FIELDS rows of the tasks.
        remaining: verdict rows after the live check.
    """
    rows = [*counted, *duck.rows_of(of_verdicts(evidence.con, remaining))]
    infos = {info.id: info for info in evidence.observed.infos}
    gaps: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    fields: dict[tuple[str, str], dict[str, None]] = defaultdict(dict)
    for row in sorted(rows, key=lambda row: str(tuple(row.values()))):
        bucket, info = row["bucket"], infos[row["source"]]
        at = _endpoint(evidence, bucket)
        gaps[row["judged_table"], row["axis"]][_gap(row, f"{info.kind} {info.location}{at}")] += row["files"]
        if row["storage_class"] is None:
            # a live audit lists each table by itself, and the store is the same for all
            source = info.kind if evidence.context.live else f"{info.kind} {info.location}"
            fields[bucket, f"{source}{at}"][row["field"]] = None
    reasons = {
        about: "; ".join(f"{number(files, 'file')} undecided: {gap}" for gap, files in counts.most_common())
        for about, counts in gaps.items()
    }
    warnings = (
        f"{uri_of(bucket, '').rstrip('/') or '/'}: {source} does not name {', '.join(names)}: files that need it"
        " are undecided"
        for (bucket, source), names in fields.items()
    )
    return UnnamedFields(reasons, tuple(warnings))


def _gap(row: Mapping[str, Any], source: str) -> str:
    if row["field"] == CLASS and row["storage_class"] is not None:
        return (
            f"it is unknown whether files of the storage class {row['storage_class']} must be restored "
            "before reading"
        )
    return f"{source} does not name {row['field']}"


def _endpoint(evidence: Evidence, bucket: str) -> str:
    """Return the endpoint that the lake file names for a bucket, in brackets; empty for AWS, and outside of S3."""
    named = evidence.context.clients.endpoint(bucket).endpoint if bucket and not is_azure(bucket) else None
    return f" (at {named})" if named else ""
