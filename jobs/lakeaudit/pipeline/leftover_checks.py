"""Leftovers that a first reading found, less what a live look found gone and what belongs to others' tables."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from lakeaudit.compare import coverage, findings
from lakeaudit.compare.coverage import Tallies
from lakeaudit.compare.prefix_match import attach_label
from lakeaudit.config import Table
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
    unnamed = unnamed_roots(first.nested, audit.lake.tables)
    own, elsewhere = _own(audit, there, unnamed)
    rows = findings.leftover_files(audit.con, duck.union(audit.con, [own, first.uploads]), audit.stamp)
    return LeftoverChecks(
        duck.hold_any(audit.con, rows), coverage.together(gone, elsewhere), tuple(_unnamed(unnamed))
    )


def _there(audit: AuditContext, leftovers: Relation, answers: pa.Table) -> tuple[Relation, Tallies]:
    """The leftovers that a live look has not found gone, and what goes from the tallies with the others."""
    gone = "SELECT bucket, key FROM answers WHERE l_confirmation = 'live' AND l_presence = 'absent'"
    sql = "SELECT input.* FROM input {} JOIN ({}) gone USING (bucket, key)"
    removed = duck.made_of(audit.con, sql.format("SEMI", gone), leftovers, answers=answers)
    kept = duck.made_of(audit.con, sql.format("ANTI", gone), leftovers, answers=answers)
    return kept, tallied(coverage.uncounted(audit.con, removed, "finding", "size"))


@dataclass(frozen=True)
class UnnamedRoot:
    """A table of these formats that the lake file does not name; `beside` are tables that it names at its place."""

    place: Location
    formats: tuple[str, ...]
    beside: tuple[str, ...] = ()


def unnamed_roots(roots: Mapping[Location, Collection[str]], tables: Sequence[Table]) -> list[UnnamedRoot]:
    """Roots of tables in tables' folders whose metadata lists files, and which the lake file does not name."""
    found = []
    for place, formats in sorted(roots.items()):
        here = [table for table in tables if table.location == place]
        kinds = {manifest.kind for table in here for manifest in table.manifests}
        if unread := sorted({*formats} - kinds):
            found.append(UnnamedRoot(place, tuple(unread), tuple(table.name for table in here)))
    return found


def _own(
    audit: AuditContext, leftovers: Relation, unnamed: Sequence[UnnamedRoot]
) -> tuple[Relation, Tallies]:
    """Without the files of tables that nobody named; and what goes from the tallies with these.

    Such a table lies inside, or it shares its place with a table: then it may list any file there.
    """
    labels = {root.place: root.place.uri for root in unnamed if not root.beside}
    shared = [name for root in unnamed for name in root.beside]
    marked = duck.hold_any(audit.con, attach_label(audit.con, leftovers, labels, "nested_root"))
    foreign = f"(nested_root IS NOT NULL OR coalesce(judged_table IN ({duck.literals(shared)}), false))"
    theirs = duck.made_of(audit.con, f"SELECT * FROM input WHERE {foreign}", marked)
    own = duck.made_of(audit.con, f"SELECT * EXCLUDE (nested_root) FROM input WHERE NOT {foreign}", marked)
    return own, tallied(coverage.uncounted(audit.con, theirs, "finding", "size"))


NAMED = 10


def _unnamed(roots: Sequence[UnnamedRoot]) -> Iterator[str]:
    """Messages about tables inside others, or at their places, that the lake file does not name."""
    for root in roots[:NAMED]:
        if root.beside:
            yield (
                f"{root.place.uri} also holds metadata of {' and '.join(root.formats)}, which the lake file does not"
                " name: no file there is reported as unused. Add a table with this location and kind, both with"
                " same_location: alias"
            )
        else:
            yield f"{root.place.uri} is a table of its own that the lake file does not name: its files are not judged"
    if len(roots) > NAMED:
        yield f"and {len(roots) - NAMED} more such tables"
