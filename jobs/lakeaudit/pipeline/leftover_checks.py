"""Leftovers that a first reading found, less what a live look found gone and what belongs to others' tables."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import pyarrow as pa

from lakeaudit.compare import coverage, findings
from lakeaudit.compare.coverage import Tallies
from lakeaudit.compare.prefix_match import attach_label
from lakeaudit.keys import Location
from lakeaudit.pipeline.audit_context import AuditContext
from lakeaudit.pipeline.first_reading import FirstReading, tallied
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Relation


@dataclass(frozen=True)
class LeftoverChecks:
    """LEFTOVER_FILES rows, what goes from the tallies, and what to say of tables that nobody named."""

    files: Relation
    tallies: Tallies
    warnings: tuple[str, ...]


def leftover_checks(audit: AuditContext, first: FirstReading, answers: pa.Table) -> LeftoverChecks:
    """The leftovers of the tables in scope, and uploads that were never completed."""
    there, gone = _there(audit, first.leftovers, answers)
    own, elsewhere = _own(audit, there, first.nested)
    rows = findings.leftover_files(audit.con, duck.union(audit.con, [own, first.uploads]), audit.stamp)
    return LeftoverChecks(
        duck.hold_any(audit.con, rows), coverage.together(gone, elsewhere), tuple(_unnamed(first.nested))
    )


def _there(audit: AuditContext, leftovers: Relation, answers: pa.Table) -> tuple[Relation, Tallies]:
    """The leftovers that a live look has not found gone, and what goes from the tallies with the others."""
    gone = "SELECT bucket, key FROM answers WHERE l_confirmation = 'live' AND l_presence = 'absent'"
    sql = "SELECT input.* FROM input {} JOIN ({}) gone USING (bucket, key)"
    removed = duck.made_of(audit.con, sql.format("SEMI", gone), leftovers, answers=answers)
    kept = duck.made_of(audit.con, sql.format("ANTI", gone), leftovers, answers=answers)
    return kept, tallied(coverage.uncounted(audit.con, removed, "finding", "size"))


def _own(audit: AuditContext, leftovers: Relation, nested: Collection[Location]) -> tuple[Relation, Tallies]:
    """Without the files of tables that nobody named and that lie inside; and what goes from the tallies with these."""
    labels = {place: place.uri for place in nested}
    marked = duck.hold_any(audit.con, attach_label(audit.con, leftovers, labels, "nested_root"))
    theirs = duck.made_of(audit.con, "SELECT * FROM input WHERE nested_root IS NOT NULL", marked)
    own = duck.made_of(
        audit.con, "SELECT * EXCLUDE (nested_root) FROM input WHERE nested_root IS NULL", marked
    )
    return own, tallied(coverage.uncounted(audit.con, theirs, "finding", "size"))


NAMED = 10


def _unnamed(nested: Collection[Location]) -> Iterator[str]:
    """What to say of tables inside others that the lake file does not name."""
    for place in sorted(nested)[:NAMED]:
        yield f"{place.uri} is a table of its own that the lake file does not name: its files are not judged"
    if len(nested) > NAMED:
        yield f"and {len(nested) - NAMED} more such tables"
