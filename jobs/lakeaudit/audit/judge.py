"""Makes the findings and the coverage of a run from its confirmed suspects.

Suspects are the verdict rows that the match calls findings. Only suspects are confirmed: gaps, assumed vacuums, the
live check and the tables' newest states can clear a suspect but never add one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pyarrow as pa

from lakeaudit.audit.match_and_confirm import Confirmed
from lakeaudit.checks.folders.moved_bytes import with_other_places
from lakeaudit.checks.hazards.request_causes import Causes, add_causes, trace_causes
from lakeaudit.checks.leftover_checks import LeftoverChecks, leftover_checks
from lakeaudit.checks.lineage.host_doubts import Hosts, catalogued_tables, hosts_of
from lakeaudit.checks.lineage.lineage_checks import (
    lineage_findings,
    lineage_tallies,
    listed_less,
    missing_tables,
)
from lakeaudit.checks.lineage.lost_metadata import with_versions
from lakeaudit.checks.lineage.lost_states import (
    count_written_again,
    one_loss_a_table,
)
from lakeaudit.checks.lineage.state_counts import counted_whole
from lakeaudit.checks.lister_checks import ListerChecks
from lakeaudit.checks.protocol import CheckInput, CheckResult, run_checks
from lakeaudit.checks.registry import checks
from lakeaudit.checks.unnamed_fields import UnnamedFields, unnamed_fields
from lakeaudit.collect.evidence import Evidence
from lakeaudit.collect.evidence_gaps import gap_findings, sources_with_gaps, unread_sources
from lakeaudit.collect.lifecycles import with_ends
from lakeaudit.collect.match_result import Counts, Listed, MatchResult, SmallFiles
from lakeaudit.collect.partitions import requested_reasons, scope_reasons
from lakeaudit.collect.source_facts import availability
from lakeaudit.confirm import suspects
from lakeaudit.confirm.outside_files import not_compared, outside_files
from lakeaudit.confirm.partition_files import files_of_partitions
from lakeaudit.engine.answers import tallies_of
from lakeaudit.engine.local import AuditEngine
from lakeaudit.evidence.protocol import EvidenceGap
from lakeaudit.findings import coverage, finding_rows
from lakeaudit.findings.absence_ceiling import SampleCheck
from lakeaudit.findings.bulk_changes import group_bulk_changes, members, with_own_subjects
from lakeaudit.findings.coverage import Availability, Tallies, Tally, overtaken_reason
from lakeaudit.findings.expected_gaps import ExpectedReasons, mark_expected
from lakeaudit.findings.lineage import JudgedWitness
from lakeaudit.findings.one_per_subject import one_per_subject
from lakeaudit.findings.whole_partitions import with_whole_partitions
from lakeaudit.kinds import UNREADABLE
from lakeaudit.ledger.axis_observation import AxisObservation, axis_observations
from lakeaudit.ledger.resolution import RESTORED, resolutions
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Relation, Rows
from lakeaudit.runtime.progress import Progress
from lakeaudit.storage_classes import unknown_class_warnings


@dataclass(frozen=True)
class Judgement:
    """The result rows of one run, and the facts for its summary.

    Attributes:
        requested_reasons: reasons in coverage that are not faults: only parts of the tables were requested.
        members: the files of each bulk finding, see `bulk_changes.members`; None: there is no bulk finding.
        watched: names of watched places, which have coverage but are not tables.
        counted: by table the files of its newest state, for tables that were read completely.
        counted_rows: by table the rows of its live files, as far as they are recorded.
        lineage: judged witnesses of other states than those that were read.
        catalogued: tables that a catalog names.
        small_files: by table its small data files, see `MatchResult.small_files`.
    """

    gaps: tuple[EvidenceGap, ...]
    counts: Counts
    coverage_rows: Sequence[dict[str, Any]]
    findings: Relation
    leftover_files: Relation
    resolutions: Relation
    observations: Sequence[AxisObservation]
    sample_checks: tuple[SampleCheck, ...]
    requested_reasons: frozenset[str] = frozenset()
    members: Relation | None = None
    warnings: tuple[str, ...] = ()
    watched: frozenset[str] = frozenset()
    counted: Mapping[str, Listed] = field(default_factory=dict)
    counted_rows: Mapping[str, int] = field(default_factory=dict)
    lineage: tuple[JudgedWitness, ...] = ()
    hosts: Hosts = field(default_factory=dict)
    catalogued: frozenset[str] = frozenset()
    small_files: Mapping[str, SmallFiles] = field(default_factory=dict)

    @property
    def stored(self) -> dict[str, int | None]:
        """Return the number of judged files of each table that a storage source covers; None: no judged files."""
        content = [row for row in self.coverage_rows if row["axis"] == "content"]
        return {
            row["table_name"]: row["files"] or None for row in content if row["storage_cut_from"] is not None
        }


def judge(read: Confirmed, engine: AuditEngine, progress: Progress) -> Judgement:
    """Return all findings, unused files and the coverage of the tables in scope."""
    evidence = read.evidence
    causes = _trace_causes(evidence, engine, read, progress)
    with progress.stage("make findings"):
        tallies = _tallies(evidence, read)
        leftovers = leftover_checks(evidence, engine, read.matched, read.answers, read.again.renamed)
        checked = run_checks(checks(), CheckInput(evidence, engine, read.matched, tallies, causes))
        tallies = coverage.together(tallies, leftovers.tallies, checked.tallies, lineage_tallies(evidence))
        copies = read.matched.rows("copies") if checked.copies is None else checked.copies
        files = _about_files(evidence, engine, read, copies, tallies, causes)
        findings = _findings(evidence, read.matched, read.remaining, files.rows, leftovers, checked, causes)
        rows = duck.hold(evidence.con, finding_rows.with_owners(evidence.con, findings, evidence.owners))
        unnamed = unnamed_fields(evidence, read.matched.few("unnamed_fields"), read.remaining)
        available = _with_listers(_availability(evidence, read, checked, unnamed), leftovers.others)
        covered = _covered(evidence, coverage.together(tallies, _new_files(evidence)), available)
        rows_of_coverage = [*covered.rows, *checked.coverage_rows]
    return Judgement(
        (*read.matched.holes, *causes.holes),
        read.matched.counts,
        rows_of_coverage,
        rows,
        finding_rows.as_leftover_rows(evidence.con, leftovers.files),
        duck.union(evidence.con, [resolutions(evidence.con, read.remaining), _restored(checked.restored)]),
        _observations(evidence, rows_of_coverage, available),
        read.sample_checks,
        requested_reasons(available.narrowed) | not_compared(available.outside) | covered.reasons,
        files.members,
        tuple(
            dict.fromkeys(
                [
                    *_class_warnings(read.matched.counts),
                    *unnamed.warnings,
                    *leftovers.warnings,
                    *checked.warnings,
                    *files.warnings,
                    *covered.stale,
                ]
            )
        ),
        frozenset(row["table_name"] for row in checked.coverage_rows),
        counted_whole(evidence, read.matched.live, read.matched.holes),
        read.matched.live_rows,
        evidence.lineage,
        hosts_of(evidence, read.matched.rows("cloned")),
        catalogued_tables(evidence),
        read.matched.small_files,
    )


def without_tables(judgement: Judgement, judged_by: Mapping[str, str]) -> Judgement:
    """Return the judgement without a say about these tables, which other runs have judged; it names the runs."""
    if not judged_by:
        return judgement
    rows = [
        row | {"status": "overtaken", "reason": overtaken_reason(judged_by[row["table_name"]])}
        if row["table_name"] in judged_by
        else row
        for row in judgement.coverage_rows
    ]
    observed = [
        replace(each, status="overtaken") if each.table in judged_by else each
        for each in judgement.observations
    ]
    return replace(judgement, coverage_rows=rows, observations=observed)


def _restored(ids: Sequence[str]) -> pa.Table:
    """Return resolutions of restored files, with the columns of `ledger.resolution.resolutions`."""
    return duck.small(_RESOLUTIONS, [(id_, RESTORED, True) for id_ in ids])


_RESOLUTIONS = pa.schema(
    [("discrepancy_id", pa.string()), ("n_resolution", pa.string()), ("n_live", pa.bool_())]
)


def _class_warnings(counts: Counts) -> list[str]:
    return unknown_class_warnings(each for count in counts.values() for each in count["unknown_classes"])


def _tallies(evidence: Evidence, read: Confirmed) -> Tallies:
    """Count files by outcome: those that the match settled, and suspects after they were confirmed.

    Recent files were counted as too young, or as uncovered, before the live check.
    """
    before = coverage.uncounted(evidence.con, read.matched.fresh, None, "coalesce(s_size, c_size)")
    again = coverage.count(evidence.con, read.remaining)
    return coverage.together(read.matched.tallies, tallies_of(before), tallies_of(again))


def _new_files(evidence: Evidence) -> Tallies:
    """Count the files that are too new for a claim of the last storage snapshot."""
    states = [state for claims in evidence.observed.sources.claims for state in claims.states.values()]
    return {
        (state.table, "content"): Tally({"out_of_window": state.new_files}, state.new_bytes)
        for state in states
        if state.new_files
    }


@dataclass(frozen=True)
class _AboutFiles:
    """FINDINGS about files with bulk changes grouped, and the files of each group (`members`).

    `warnings` explain why it is unknown until when some files are recoverable.
    """

    rows: Relation
    members: Relation | None
    warnings: tuple[str, ...]


def _trace_causes(evidence: Evidence, engine: AuditEngine, read: Confirmed, progress: Progress) -> Causes:
    """Return the causes of the findings, if request records are configured."""
    if not evidence.observed.events:
        return Causes()
    with progress.stage("read requests") as log:
        causes = trace_causes(evidence, engine, read.remaining, read.matched.holes)
        log.note(causes=causes.number)
    return causes


def _about_files(
    evidence: Evidence, engine: AuditEngine, read: Confirmed, copies: Rows, tallies: Tallies, causes: Causes
) -> _AboutFiles:
    findings_of_files, warnings = _single(evidence, read.remaining, copies)
    named = with_other_places(evidence, duck.hold(evidence.con, findings_of_files))
    single = duck.hold(evidence.con, add_causes(evidence, named, causes))
    whole = {} if evidence.partitions else tallies  # a part shows nothing about its whole table
    prefixes = {fact.table.name: fact.table.location.prefix for fact in evidence.facts}
    count = partial(files_of_partitions, engine, evidence.observed.sources.claims, prefixes)
    single = duck.hold(
        evidence.con, with_whole_partitions(evidence.con, single, whole, partial(count, live=True))
    )
    rows = group_bulk_changes(evidence.con, single, whole, evidence.stamp, count)
    return _AboutFiles(rows, members(evidence.con, single, rows), tuple(warnings))


def _single(evidence: Evidence, remaining: Rows, copies: Rows) -> tuple[Relation, Sequence[str]]:
    """Return FINDINGS about single files, and warnings about unknown times until when files are recoverable."""
    findings = duck.made_of(evidence.con, "SELECT * FROM input WHERE outcome = 'finding'", remaining)
    rows, warnings = with_ends(
        evidence.con, duck.union(evidence.con, [findings, copies]), evidence.lifecycles
    )
    return finding_rows.file_findings(evidence.con, rows, evidence.stamp), warnings


def _findings(
    evidence: Evidence,
    matched: MatchResult,
    remaining: Relation,
    about_files: Relation,
    leftovers: LeftoverChecks,
    checked: CheckResult,
    causes: Causes,
) -> Relation:
    """Return all FINDINGS."""
    con, stamp = evidence.con, evidence.stamp
    rows = gap_findings(
        evidence.lake,
        evidence.scope,
        evidence.observed.infos,
        _reported(evidence, (*matched.holes, *causes.holes)),
        matched.vacuums,
        stamp.as_of.date(),
        (*lineage_findings(evidence), *checked.rows),
    )
    rows = one_loss_a_table(
        with_versions(evidence, rows),
        listed_less(evidence, matched.live),
        count_written_again(con, remaining),
    )
    frames = [
        about_files,
        finding_rows.tree_findings(con, matched.entries, stamp),
        finding_rows.leftover_findings(
            con, finding_rows.with_possible_copies(con, leftovers.files, remaining), stamp
        ),
        *checked.findings,
        add_causes(
            evidence,
            finding_rows.from_plain(con, [*with_own_subjects(con, rows, about_files)], stamp),
            causes,
        ),
    ]
    rows_of_all = duck.hold(con, _with_formats(evidence, duck.union(con, frames)))
    return finding_rows.with_losses(con, one_per_subject(con, rows_of_all))


def _with_formats(evidence: Evidence, rows: Relation) -> Relation:
    """Return FINDINGS that have the kind of the table's only manifest if the evidence names no kind."""
    kinds = {table.name: {manifest.kind for manifest in table.manifests} for table in evidence.scope}
    alone = [(name, *of_table) for name, of_table in kinds.items() if len(of_table) == 1]
    if not alone or duck.is_empty(rows):
        return rows
    sql = """
        SELECT findings.* REPLACE (coalesce(manifest_kind, only_kind) AS manifest_kind)
        FROM findings LEFT JOIN formats ON table_name = name
    """
    return duck.query(evidence.con, sql, findings=rows, formats=duck.small(_FORMATS, alone))


_FORMATS = pa.schema([("name", pa.string()), ("only_kind", pa.string())])


def _reported(evidence: Evidence, gaps: Sequence[EvidenceGap]) -> list[EvidenceGap]:
    """Return the gaps that are findings; single metadata files of a table that is missing completely are left out.

    In an audit of the past, unreadable files may have been cleaned up since then: they are gaps, but not losses.
    """
    missing = missing_tables(evidence)
    reported = [gap for gap in gaps if not (gap.table in missing and gap.kind == "missing_metadata")]
    if evidence.context.live:
        return reported
    return [replace(gap, kind=gap.kind and UNREADABLE) for gap in reported]


def _recent_files_checked(evidence: Evidence, remaining: Rows) -> dict[str, int]:
    """Count by table the recent files that the live check has decided."""
    sql = f"""
        SELECT judged_table, count(*) AS files FROM input
        WHERE {suspects.FRESH} AND s_source IS NOT NULL AND l_confirmation = 'live' GROUP BY judged_table
    """
    return {
        row["judged_table"]: row["files"] for row in duck.rows_of(duck.made_of(evidence.con, sql, remaining))
    }


def _availability(
    evidence: Evidence, read: Confirmed, checked: CheckResult, unnamed: UnnamedFields
) -> Availability:
    """Return the evidence that was available to judge the tables."""
    with_gaps = sources_with_gaps(read.matched.holes)
    stores = [store for store in evidence.lake.metastores if store.knows_files]
    available = availability(
        evidence.observed.sources, evidence.facts_in_scope, stores, with_gaps, evidence.stamp.as_of
    )
    pointed, elsewhere = (
        evidence.pointed,
        outside_files(evidence, read.matched.few("outside"), read.remaining),
    )
    return replace(
        available,
        storage_cuts={**available.storage_cuts, **checked.storage_cuts},
        catalogs=pointed is not None,
        catalog_cuts=pointed.cuts if pointed else {},
        catalog_gap=pointed.gap if pointed else "",
        catalog_holes=pointed.partition_gaps if pointed else {},
        overtaken=evidence.memory.overtaken,
        sample_checks=tuple(read.sample_checks),
        narrowed=scope_reasons(evidence.partitions, read.matched.partitions),
        fresh=_recent_files_checked(evidence, read.remaining),
        outside=elsewhere.reasons,
        looked_outside=elsewhere.looked_at,
        remarks=checked.remarks,
        declared=frozenset(fact.table.name for fact in evidence.facts_in_scope if fact.declared),
        not_rechecked=read.again.not_rechecked,
        incomplete_reports=read.again.incomplete,
        unread=unread_sources(evidence.observed.infos, read.matched.holes),
        unnamed_fields=unnamed.reasons,
    )


def _with_listers(available: Availability, others: ListerChecks) -> Availability:
    """Add the doubts about other tables and formats that list files of the tables."""
    doubts = {(table, "leftover"): why for table, why in others.doubtful.items()}
    return replace(available, other_listers=others.unknown, remarks={**doubts, **available.remarks})


def _covered(evidence: Evidence, tallies: Tallies, available: Availability) -> ExpectedReasons:
    """Return the coverage rows, with the gaps that the lake file expects marked."""
    scope = [fact.table.name for fact in evidence.facts_in_scope]
    rows = coverage.rows(
        evidence.facts_in_scope, tallies, available, evidence.stamp.run_id, evidence.stamp.lake
    )
    return mark_expected(rows, evidence.lake.expected, scope, evidence.stamp.as_of.date())


def _observations(
    evidence: Evidence, covered: list[dict[str, Any]], available: Availability
) -> list[AxisObservation]:
    return axis_observations(
        covered,
        available,
        evidence.stamp.as_of,
        all_sources=not evidence.observed.listed,
        refuted=evidence.memory.refuted,
    )
