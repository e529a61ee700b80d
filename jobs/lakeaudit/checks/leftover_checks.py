"""Select the unused files to report: without files that are gone now and files that belong to other tables."""

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

NOT_JUDGED = "its files are not judged"
"""End of the warning about a table that only discovery knows."""


@dataclass(frozen=True)
class LeftoverChecks:
    """LEFTOVER_FILES rows, corrections of the tallies, and warnings about tables that the lake file does not name."""

    files: Relation
    tallies: Tallies
    warnings: tuple[str, ...]
    others: ListerChecks
    """Files that other formats and other tables list."""


def leftover_checks(
    evidence: Evidence, engine: AuditEngine, matched: MatchResult, answers: pa.Table, renamed: pa.Table
) -> LeftoverChecks:
    """Return unused files of the tables in scope, and uploads that were never completed.

    `renamed` has objects (bucket, key) that count as files of other names.
    """
    present, of_absent = _present(evidence, matched.leftovers, answers, renamed)
    present, of_slices = with_listed_slices(evidence, present)
    unnamed = unnamed_roots(matched.nested, evidence.lake.tables)
    own, elsewhere = _own(evidence, present, unnamed)
    logs = {(name, kind) for root in unnamed for name in root.beside for kind in root.formats}
    others = lister_checks(evidence, engine, own, logs, matched.few("marked_states"))
    others = replace(others, unknown={**hosts_of_absent(evidence, own, matched.nested), **others.unknown})
    own, listed = _without_listed_files(evidence, own, others)
    rows = finding_rows.leftover_files(
        evidence.con, duck.union(evidence.con, [own, matched.uploads]), evidence.stamp
    )
    return LeftoverChecks(
        duck.hold_any(evidence.con, rows),
        coverage.together(of_absent, of_slices, elsewhere, listed),
        tuple(_unnamed_warnings(unnamed)),
        others,
    )


def _without_listed_files(
    evidence: Evidence, leftovers: Relation, others: ListerChecks
) -> tuple[Relation, Tallies]:
    """Remove files that other tables list or may list; return the rest, and the changes of the tallies."""
    if not (others.listed.num_rows or others.undecided):
        return leftovers, {}
    sql = f"""SELECT input.*, CASE WHEN listed.key IS NOT NULL THEN 'consistent'
            WHEN judged_table IN ({duck.literals(sorted(others.undecided))}) THEN 'undecided' END AS instead
        FROM input LEFT JOIN listed USING (bucket, key)"""
    marked = duck.hold_any(evidence.con, duck.made_of(evidence.con, sql, leftovers, listed=others.listed))
    unused = duck.made_of(evidence.con, "SELECT * EXCLUDE (instead) FROM input WHERE instead IS NULL", marked)
    cleared_sql = "SELECT * EXCLUDE (instead), instead AS outcome FROM input WHERE instead IS NOT NULL"
    cleared = duck.hold_any(evidence.con, duck.made_of(evidence.con, cleared_sql, marked))
    counts = (
        coverage.uncounted(evidence.con, cleared, "finding", "size"),
        coverage.count_others(evidence.con, cleared, "size"),
    )
    return unused, coverage.together(*map(tallies_of, counts))


def _present(
    evidence: Evidence, leftovers: Relation, answers: pa.Table, renamed: pa.Table
) -> tuple[Relation, Tallies]:
    """Remove files that are gone now or renamed; return the rest, and the changes of the tallies."""
    absent = """SELECT bucket, key FROM answers WHERE l_confirmation = 'live' AND l_presence = 'absent'
        UNION SELECT bucket, key FROM renamed"""
    sql = "SELECT input.* FROM input {} JOIN ({}) absent USING (bucket, key)"
    removed = duck.made_of(
        evidence.con, sql.format("SEMI", absent), leftovers, answers=answers, renamed=renamed
    )
    present = duck.made_of(
        evidence.con, sql.format("ANTI", absent), leftovers, answers=answers, renamed=renamed
    )
    return present, tallies_of(coverage.uncounted(evidence.con, removed, "finding", "size"))


@dataclass(frozen=True)
class UnnamedRoot:
    """A table that the lake file does not name, with its formats; `beside` has the tables that it names there."""

    place: Location
    formats: tuple[str, ...]
    beside: tuple[str, ...] = ()


def unnamed_roots(roots: Mapping[Location, Collection[str]], tables: Sequence[Table]) -> list[UnnamedRoot]:
    """Return roots of tables inside tables' folders that have metadata and that the lake file does not name."""
    unnamed = []
    for place, formats in sorted(roots.items()):
        here = [table for table in tables if table.location == place]
        kinds = {manifest.kind for table in here for manifest in table.manifests}
        if unread := sorted({*formats} - kinds):
            unnamed.append(UnnamedRoot(place, tuple(unread), tuple(table.name for table in here)))
    return unnamed


def _own(evidence: Evidence, leftovers: Relation, unnamed: Sequence[UnnamedRoot]) -> tuple[Relation, Tallies]:
    """Remove the files of unnamed tables inside other tables; return the rest, and the changes of the tallies."""
    labels = {root.place: root.place.uri for root in unnamed if not root.beside}
    marked = duck.hold_any(evidence.con, attach_label(evidence.con, leftovers, labels, "nested_root"))
    theirs = duck.made_of(evidence.con, "SELECT * FROM input WHERE nested_root IS NOT NULL", marked)
    own = duck.made_of(
        evidence.con, "SELECT * EXCLUDE (nested_root) FROM input WHERE nested_root IS NULL", marked
    )
    return own, tallies_of(coverage.uncounted(evidence.con, theirs, "finding", "size"))


NAMED = 10


def _unnamed_warnings(roots: Sequence[UnnamedRoot]) -> Iterator[str]:
    """Yield messages about tables inside others, or at their locations, that the lake file does not name."""
    for root in roots[:NAMED]:
        if root.beside:
            yield (
                f"{root.place.uri} also holds metadata of {' and '.join(root.formats)}, which the lake file does not"
                " name: files that it lists are not reported as unused, and it is not audited itself. To audit it, add"
                f" a table with this location and manifests: [{{kind: {root.formats[0]}}}]"
            )
        else:
            yield f"{root.place.uri} is a table of its own that the lake file does not name: {NOT_JUDGED}"
    if len(roots) > NAMED:
        yield f"and {len(roots) - NAMED} more such tables"
