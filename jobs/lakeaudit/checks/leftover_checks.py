"""Leftovers that a first reading found, less what a live look found gone and what belongs to others' tables."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from lakeaudit.checks.lineage.host_doubts import hosts_of_absent
from lakeaudit.checks.listed_slices import with_listed_slices
from lakeaudit.checks.lister_checks import ListerChecks, lister_checks
from lakeaudit.collect.evidence import Evidence
from lakeaudit.collect.match_result import MatchResult
from lakeaudit.config import Table
from lakeaudit.engine.answers import tallies_of
from lakeaudit.engine.local import AuditEngine
from lakeaudit.findings import coverage, finding_rows
from lakeaudit.findings.coverage import Tallies
from lakeaudit.keys import Location
from lakeaudit.matching.prefix_match import attach_label
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Relation


@dataclass(frozen=True)
class LeftoverChecks:
    """LEFTOVER_FILES rows, what goes from the tallies, and what to say of tables that nobody named."""

    files: Relation
    tallies: Tallies
    warnings: tuple[str, ...]
    others: ListerChecks
    """What else lists files of the tables."""


def leftover_checks(
    evidence: Evidence, engine: AuditEngine, matched: MatchResult, answers: pa.Table, renamed: pa.Table
) -> LeftoverChecks:
    """The leftovers of the tables in scope, and uploads that were never completed.

    `renamed` are objects (bucket, key) that count as files of other names.
    """
    there, gone = _there(evidence, matched.leftovers, answers, renamed)
    there, of_slices = with_listed_slices(evidence, there)
    unnamed = unnamed_roots(matched.nested, evidence.lake.tables)
    own, elsewhere = _own(evidence, there, unnamed)
    logs = {(name, kind) for root in unnamed for name in root.beside for kind in root.formats}
    others = lister_checks(evidence, engine, own, logs, matched.few("marked_states"))
    others = replace(others, unknown={**hosts_of_absent(evidence, own, matched.nested), **others.unknown})
    own, listed = _unlisted(evidence, own, others)
    rows = finding_rows.leftover_files(
        evidence.con, duck.union(evidence.con, [own, matched.uploads]), evidence.stamp
    )
    return LeftoverChecks(
        duck.hold_any(evidence.con, rows),
        coverage.together(gone, of_slices, elsewhere, listed),
        tuple(_unnamed(unnamed)),
        others,
    )


def _unlisted(evidence: Evidence, leftovers: Relation, others: ListerChecks) -> tuple[Relation, Tallies]:
    """Without the files that others list, and those of which nobody can tell; and what that changes in the tallies."""
    if not (others.listed.num_rows or others.undecided):
        return leftovers, {}
    sql = f"""SELECT input.*, CASE WHEN listed.key IS NOT NULL THEN 'consistent'
            WHEN judged_table IN ({duck.literals(sorted(others.undecided))}) THEN 'undecided' END AS instead
        FROM input LEFT JOIN listed USING (bucket, key)"""
    marked = duck.hold_any(evidence.con, duck.made_of(evidence.con, sql, leftovers, listed=others.listed))
    kept = duck.made_of(evidence.con, "SELECT * EXCLUDE (instead) FROM input WHERE instead IS NULL", marked)
    cleared_sql = "SELECT * EXCLUDE (instead), instead AS outcome FROM input WHERE instead IS NOT NULL"
    cleared = duck.hold_any(evidence.con, duck.made_of(evidence.con, cleared_sql, marked))
    counts = (
        coverage.uncounted(evidence.con, cleared, "finding", "size"),
        coverage.count_others(evidence.con, cleared, "size"),
    )
    return kept, coverage.together(*map(tallies_of, counts))


def _there(
    evidence: Evidence, leftovers: Relation, answers: pa.Table, renamed: pa.Table
) -> tuple[Relation, Tallies]:
    """The leftovers that a live look has not found gone, and what goes from the tallies with the others."""
    gone = """SELECT bucket, key FROM answers WHERE l_confirmation = 'live' AND l_presence = 'absent'
        UNION SELECT bucket, key FROM renamed"""
    sql = "SELECT input.* FROM input {} JOIN ({}) gone USING (bucket, key)"
    removed = duck.made_of(
        evidence.con, sql.format("SEMI", gone), leftovers, answers=answers, renamed=renamed
    )
    kept = duck.made_of(evidence.con, sql.format("ANTI", gone), leftovers, answers=answers, renamed=renamed)
    return kept, tallies_of(coverage.uncounted(evidence.con, removed, "finding", "size"))


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


def _own(evidence: Evidence, leftovers: Relation, unnamed: Sequence[UnnamedRoot]) -> tuple[Relation, Tallies]:
    """Without the files of tables inside others that nobody named; and what goes from the tallies with these."""
    labels = {root.place: root.place.uri for root in unnamed if not root.beside}
    marked = duck.hold_any(evidence.con, attach_label(evidence.con, leftovers, labels, "nested_root"))
    theirs = duck.made_of(evidence.con, "SELECT * FROM input WHERE nested_root IS NOT NULL", marked)
    own = duck.made_of(
        evidence.con, "SELECT * EXCLUDE (nested_root) FROM input WHERE nested_root IS NULL", marked
    )
    return own, tallies_of(coverage.uncounted(evidence.con, theirs, "finding", "size"))


NAMED = 10


def _unnamed(roots: Sequence[UnnamedRoot]) -> Iterator[str]:
    """Messages about tables inside others, or at their places, that the lake file does not name."""
    for root in roots[:NAMED]:
        if root.beside:
            yield (
                f"{root.place.uri} also holds metadata of {' and '.join(root.formats)}, which the lake file does not"
                " name: files that it lists are not reported as unused, and it is not audited itself. To audit it, add"
                f" a table with this location and manifests: [{{kind: {root.formats[0]}}}]"
            )
        else:
            yield f"{root.place.uri} is a table of its own that the lake file does not name: its files are not judged"
    if len(roots) > NAMED:
        yield f"and {len(roots) - NAMED} more such tables"
