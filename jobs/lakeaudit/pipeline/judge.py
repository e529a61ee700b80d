"""Judge: match everything, classify it, look again at suspects, and make findings and coverage of what remains.

Suspects are the verdict rows that a first reading calls findings. Only they are looked at again: gaps, assumed
vacuums, the live check and the tables' newest states can clear a suspect, never make one.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa

from lakeaudit.compare import coverage, findings, half_moved
from lakeaudit.compare.bulk_changes import apart, folded, members
from lakeaudit.compare.ceiling import Trial, uncovered
from lakeaudit.compare.clones import clone_findings
from lakeaudit.compare.coverage import Means, Tallies
from lakeaudit.compare.evidence_for_tables import means
from lakeaudit.compare.expected import mark_expected
from lakeaudit.compare.prefix_match import attach_label
from lakeaudit.evidence.protocol import Hole
from lakeaudit.keys import Location
from lakeaudit.ledger.axis_observation import AxisObservation, axis_observations
from lakeaudit.ledger.resolution import resolutions
from lakeaudit.pipeline import recheck
from lakeaudit.pipeline.audit_context import AuditContext
from lakeaudit.pipeline.commit_checks import commit_checks
from lakeaudit.pipeline.engine import AuditEngine
from lakeaudit.pipeline.evidence_gaps import gap_findings
from lakeaudit.pipeline.first_reading import Counts, FirstReading, first_reading, holed_sources, tallied
from lakeaudit.pipeline.hazards import Hazards, hazards, lifecycles_of
from lakeaudit.pipeline.lifecycles import with_ends
from lakeaudit.pipeline.partition_files import files_of_partitions
from lakeaudit.pipeline.partitions import as_asked, narrowed
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Relation, Rows
from lakeaudit.runtime.progress import Progress


@dataclass
class Judgement:
    """The result rows of one run, and the small facts its summary is made of."""

    holes: tuple[Hole, ...]
    counts: Counts
    coverage_rows: list[dict[str, Any]]
    findings: Relation
    leftover_files: Relation
    words: Relation
    observations: list[AxisObservation]
    trials: list[Trial]
    as_asked: frozenset[str] = frozenset()
    """Reasons of coverage that are no hindrance: only parts of the tables were asked for."""
    members: Relation | None = None
    """Of the files that one finding speaks for, see `bulk_changes.members`; None: there are no such."""
    warnings: tuple[str, ...] = ()


def judge(audit: AuditContext, engine: AuditEngine, progress: Progress) -> Judgement:
    """All findings, leftovers and the coverage of the tables in scope."""
    first, remaining, trials, answers = _readings(audit, engine, progress)
    with progress.stage("make findings"):
        again = tallied(coverage.count(audit.con, remaining))
        tallies = coverage.together(first.tallies, _as_young(audit, first.fresh), again)
        left, gone = _leftovers(audit, first.leftovers, answers)
        left, elsewhere = _own(audit, left, first.nested)
        moved, of_moved = _moved(audit, first.moves)
        tallies = coverage.together(tallies, gone, elsewhere, of_moved)
        left = duck.union(audit.con, [left, first.uploads])
        files = duck.hold(audit.con, findings.leftover_files(audit.con, left, audit.stamp))
        of_files, unsure_ends = _single(audit, remaining, first)
        single = duck.hold(audit.con, of_files)
        whole = {} if audit.partitions else tallies  # of a part nothing can be said about its table
        count = partial(files_of_partitions, engine, audit.observed.evidence.claims)
        about_files = folded(audit.con, single, whole, audit.stamp, count)
        clones = [] if audit.partitions else clone_findings(audit.con, first.cloned, audit.scope)
        checks = commit_checks(audit, engine, first.log_versions, first.repeated)
        threats = _hazards(audit, engine)
        others = [*checks.rows, *clones, *(threats.rows if threats else ())]
        rows = duck.hold(audit.con, _findings(audit, about_files, first, files, moved, others))
        able = replace(_means(audit, first, trials), fresh=_looked_at(audit, remaining))
        covered = coverage.rows(audit.facts_in_scope, tallies, able, audit.stamp.run_id, audit.stamp.lake)
        scope = [fact.table.name for fact in audit.facts_in_scope]
        told = mark_expected(covered, audit.lake.expected, scope, audit.stamp.as_of.date())
        covered = told.rows
    observations = axis_observations(
        covered,
        able,
        audit.stamp.as_of,
        all_sources=not audit.observed.listed,
        unsure_commits=checks.unsure,
        hazards=None if threats is None else not threats.untold,
        refuted=audit.memory.refuted,
    )
    words = duck.union(audit.con, [resolutions(audit.con, remaining), checks.words()])
    return Judgement(
        first.holes, first.counts, covered, rows, findings.as_leftover_rows(audit.con, files), words,
        observations, trials, as_asked(able.narrowed) | told.reasons, members(audit.con, single, about_files),
        tuple(dict.fromkeys([*_unnamed(first.nested), *checks.warnings(), *(threats.untold if threats else ()),
                             *unsure_ends, *told.stale])),
    )  # fmt: skip


def _readings(
    audit: AuditContext, engine: AuditEngine, progress: Progress
) -> tuple[FirstReading, Relation, list[Trial], pa.Table]:
    """What the first reading found, the suspects that remain, the trials, and the live answers.

    Where a source turns out not to cover a table that has no log to tell it by, all is read once more without it.
    """
    with progress.stage("match and classify") as log:
        first = first_reading(audit, engine)
        log.note(files=sum(tally.files for (_, axis), tally in first.tallies.items() if axis == "content"))
    with progress.stage("check findings again") as log:
        vacuumed = [row["vacuumed"] for row in first.vacuums]
        remaining, trials, answers = recheck.second_reading(
            audit, first.suspects, first.fresh, first.claimed, holed_sources(first.holes), vacuumed
        )
        remaining = duck.hold(audit.con, remaining)
        log.note(
            suspects=duck.count_of(first.suspects),
            fresh=duck.count_of(first.fresh),
            looked_at=answers.num_rows,
        )
    missed = set(uncovered(trials)) & {f.table.name for f in audit.facts if f.log_since is None}
    if not missed or audit.observed.listed:
        return first, remaining, trials, answers
    audit.miss(missed)
    return _readings(audit, engine, progress)


def _as_young(audit: AuditContext, fresh: Rows) -> Tallies:
    """What goes from the tallies: fresh files were counted as too young before anybody looked at them."""
    return tallied(coverage.uncounted(audit.con, fresh, "out_of_window", "coalesce(s_size, c_size)"))


def _leftovers(audit: AuditContext, leftovers: Relation, answers: pa.Table) -> tuple[Relation, Tallies]:
    """The leftovers that a live look has not found gone, and what goes from the tallies with the others."""
    gone = "SELECT bucket, key FROM answers WHERE l_confirmation = 'live' AND l_presence = 'absent'"
    sql = "SELECT leftovers.* FROM leftovers {} JOIN ({}) gone USING (bucket, key)"
    removed = duck.query(audit.con, sql.format("SEMI", gone), leftovers=leftovers, answers=answers)
    kept = duck.query(audit.con, sql.format("ANTI", gone), leftovers=leftovers, answers=answers)
    return kept, tallied(coverage.uncounted(audit.con, removed, "finding", "size"))


def _moved(audit: AuditContext, moves: Rows) -> tuple[Relation, Tallies]:
    """Pairs of folders that hold the same files, and what they change in the tallies."""
    moved = duck.hold(audit.con, half_moved.half_moved(audit.con, moves))
    return moved, tallied(half_moved.tally_rows(audit.con, moved))


def _own(audit: AuditContext, leftovers: Relation, nested: Collection[Location]) -> tuple[Relation, Tallies]:
    """Without the files of tables that nobody named and that lie inside; and what goes from the tallies with these."""
    labels = {place: place.uri for place in nested}
    marked = duck.hold(audit.con, attach_label(audit.con, leftovers, labels, "nested_root"))
    theirs = duck.query(audit.con, "SELECT * FROM input WHERE nested_root IS NOT NULL", input=marked)
    own = duck.query(
        audit.con, "SELECT * EXCLUDE (nested_root) FROM input WHERE nested_root IS NULL", input=marked
    )
    return own, tallied(coverage.uncounted(audit.con, theirs, "finding", "size"))


NAMED = 10


def _unnamed(nested: Collection[Location]) -> Iterator[str]:
    """What to say of tables inside others that the lake file does not name."""
    for place in sorted(nested)[:NAMED]:
        yield f"{place.uri} is a table of its own that the lake file does not name: its files are not judged"
    if len(nested) > NAMED:
        yield f"and {len(nested) - NAMED} more such tables"


def _single(audit: AuditContext, remaining: Rows, first: FirstReading) -> tuple[Relation, Sequence[str]]:
    """FINDINGS about single files, and what cannot be told of until when some can come back."""
    found = duck.query(audit.con, "SELECT * FROM input WHERE outcome = 'finding'", input=remaining)
    rows, unsure = with_ends(audit.con, duck.union(audit.con, [found, first.copies]), audit.lifecycles)
    return findings.file_findings(audit.con, rows, audit.stamp), unsure


def _findings(
    audit: AuditContext,
    about_files: Relation,
    first: FirstReading,
    files: Relation,
    moved: Relation,
    others: Sequence[dict[str, Any]],
) -> Relation:
    """FINDINGS of everything; `others` are rows that were made on the driver."""
    con, stamp = audit.con, audit.stamp
    rows = gap_findings(
        audit.lake, audit.scope, audit.observed.infos, first.holes, first.vacuums, stamp.as_of.date(), others
    )
    frames = [
        about_files,
        findings.tree_findings(con, first.entries, stamp),
        findings.leftover_findings(con, files, stamp),
        half_moved.findings(con, moved, stamp),
        findings.from_plain(con, [*apart(con, rows, about_files)], stamp),
    ]
    return duck.union(con, frames)


def _hazards(audit: AuditContext, engine: AuditEngine) -> Hazards | None:
    """What lifecycle rules will do to live files; None where nobody looked: of the past, or of partitions alone."""
    if not audit.context.live or audit.partitions:
        return None
    lifecycles = lifecycles_of(audit.scope, audit.lifecycles)
    return hazards(engine, audit.scope, audit.observed.evidence.claims, lifecycles)


def _looked_at(audit: AuditContext, remaining: Rows) -> dict[str, int]:
    """Small: by table how many fresh files a live look has answered for."""
    sql = f"""
        SELECT judged_table, count(*) AS files FROM input
        WHERE {recheck.FRESH} AND l_confirmation = 'live' GROUP BY judged_table
    """
    return {
        row["judged_table"]: row["files"] for row in duck.rows_of(duck.query(audit.con, sql, input=remaining))
    }


def _means(audit: AuditContext, first: FirstReading, trials: Sequence[Trial]) -> Means:
    able = means(
        audit.observed.evidence, audit.facts_in_scope, audit.lake.metastores, holed_sources(first.holes)
    )
    asked = narrowed(audit.partitions, first.partitions)
    return replace(able, overtaken=audit.memory.overtaken, trials=tuple(trials), narrowed=asked)
