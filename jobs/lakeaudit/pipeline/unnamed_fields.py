"""What storage does not name, in words: why files of a table are undecided, and one warning a bucket."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from lakeaudit.compare.unnamed_fields import CLASS, of_verdicts
from lakeaudit.formatting import number
from lakeaudit.keys import is_azure, uri_of
from lakeaudit.pipeline.audit_context import AuditContext
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Rows

Place = tuple[str, str]
"""Id of a source and a bucket."""


@dataclass(frozen=True)
class UnnamedFields:
    """By table and axis why files are undecided; `warnings`: one line a source and bucket."""

    reasons: Mapping[tuple[str, str], str]
    warnings: tuple[str, ...]


def unnamed_fields(
    audit: AuditContext, counted: Iterable[Mapping[str, Any]], remaining: Rows
) -> UnnamedFields:
    """Describe, for coverage, what storage does not name of undecided files.

    Args:
        audit: the run.
        counted: UNNAMED_FIELDS rows of the kernel.
        remaining: verdict rows after the live look.
    """
    rows = [*counted, *duck.rows_of(of_verdicts(audit.con, remaining))]
    gaps: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    fields: dict[Place, dict[str, None]] = defaultdict(dict)
    for row in sorted(rows, key=lambda row: str(tuple(row.values()))):
        place = row["source"], row["bucket"]
        gaps[row["judged_table"], row["axis"]][_gap(audit, row, place)] += row["files"]
        if row["storage_class"] is None:
            fields[place][row["field"]] = None
    reasons = {
        about: "; ".join(f"{number(files, 'file')} undecided: {gap}" for gap, files in found.most_common())
        for about, found in gaps.items()
    }
    warnings = (
        f"{_bucket(place[1])}: {_source(audit, place)} does not name {', '.join(names)}: rules that need it"
        " leave files undecided"
        for place, names in fields.items()
    )
    return UnnamedFields(reasons, tuple(warnings))


def _gap(audit: AuditContext, row: Mapping[str, Any], place: Place) -> str:
    if row["field"] == CLASS and row["storage_class"] is not None:
        return f"it is not known whether the storage class {row['storage_class']} has to be restored"
    return f"{_source(audit, place)} does not name {row['field']}"


def _bucket(bucket: str) -> str:
    return uri_of(bucket, "").rstrip("/") or "/"


def _source(audit: AuditContext, place: Place) -> str:
    """The source, and the endpoint that answers for it."""
    source, bucket = place
    label = next(
        (f"{info.kind} {info.location}" for info in audit.observed.infos if info.id == source), source
    )
    in_s3 = bucket and not is_azure(bucket)
    endpoint = audit.context.clients.endpoint(bucket).endpoint if in_s3 else None
    return f"{label} (at {endpoint})" if endpoint else label
