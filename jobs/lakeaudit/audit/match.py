"""Runs the match: the engine joins all rows, and the kernel judges them as if the evidence were complete."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import pyarrow as pa

from lakeaudit.audit.projection_pass import Prefiltered, lost_siblings, run_projection_pass
from lakeaudit.audit.task_functions import kernel_of
from lakeaudit.checks.pointers.folder_counts import HELD, CountingEngine
from lakeaudit.collect.evidence import Evidence
from lakeaudit.collect.evidence_gaps import all_evidence_gaps, sources_with_gaps
from lakeaudit.collect.match_result import Counts, Listed, MatchResult, SmallFiles
from lakeaudit.collect.partitions import uris
from lakeaudit.collect.source_facts import storage_cuts
from lakeaudit.confirm.apply_gaps import assumed_vacuums
from lakeaudit.engine.answers import (
    AnswersByKind,
    AnswerTables,
    answers_of,
    few_answers,
    hold_answers,
    tallies_of,
)
from lakeaudit.engine.local import AuditEngine
from lakeaudit.evidence.protocol import Batches, BufferedRows, EvidenceGap, Part
from lakeaudit.findings import coverage, finding_rows
from lakeaudit.findings.coverage import Tallies
from lakeaudit.keys import Location
from lakeaudit.matching.leftovers import unfinished_uploads
from lakeaudit.matching.metastore_tree import judged_tree
from lakeaudit.matching.prefix_match import attach_label, label_around
from lakeaudit.matching.verdicts import with_outcome
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation
from lakeaudit.schemas import ANSWERS


@dataclass(frozen=True)
class RowsRead:
    """The answers of one pass over all rows.

    `evidence` is the evidence of the pass, including the tables that the projection pass showed to be uncovered.
    """

    evidence: Evidence
    rows: Sequence[Part | BufferedRows]
    prefiltered: Prefiltered
    answers: AnswersByKind

    @cached_property
    def notes(self) -> Sequence[Mapping[str, Any]]:
        return few_answers(self.answers, "notes")

    @cached_property
    def counts(self) -> Counts:
        return _counts(self.answers)

    @cached_property
    def gaps(self) -> tuple[EvidenceGap, ...]:
        """Return all gaps of sources: the earlier ones, and those that the pass showed."""
        earlier = (*self.evidence.observed.holes, *_layout_faults(self.evidence, self.notes))
        return all_evidence_gaps(earlier, self.counts, [note for note in self.notes if note["reason"]])


def read_rows(evidence: Evidence, engine: AuditEngine) -> RowsRead:
    """Read all rows once and match them."""
    rows = [*evidence.observed.rows(), *_open_rows(evidence)]
    prefiltered = run_projection_pass(evidence, engine, rows)
    if prefiltered.prefilter is not None:
        evidence = evidence.with_uncovered(_tables_without_log(evidence, prefiltered.logs))
    # a projection pass has counted the folders already
    count = evidence.folder_count if prefiltered.prefilter is None else None
    answers = AnswerTables(evidence.con)
    stages = prefiltered.stages(kernel_of(evidence).stages)
    read = [*rows, *prefiltered.sums]
    for kind, batch in CountingEngine(engine, count).run(read, stages, prefiltered.reading):
        answers.add(kind, batch)
    return RowsRead(evidence, rows, prefiltered, answers.by_kind())


def with_gaps_of_rows(read: RowsRead) -> Evidence:
    """Add gaps for logs that were lost during the pass, or else for tables that reports do not cover."""
    if lost := lost_logs(read.evidence, read.notes):
        return read.evidence.with_gaps(lost)
    logs = _places(read.answers, "logs_seen")
    return read.evidence.with_uncovered(
        _tables_without_log(read.evidence, logs, sources_with_gaps(read.gaps))
    )


def match(read: RowsRead, engine: AuditEngine) -> MatchResult:
    """Return the verdicts of a pass that showed no new gaps."""
    evidence, prefiltered, gaps = read.evidence, read.prefiltered, read.gaps
    con = evidence.con
    siblings, answers = _siblings(read, engine)
    entries, of_entries = _entries(evidence, answers, sources_with_gaps(gaps))
    uploads = duck.hold_any(con, _uploads(evidence, answers))
    of_uploads = tallies_of(coverage.count_others(con, uploads, "s_size"))
    unfinished = duck.made_of(con, "SELECT * FROM input WHERE outcome = 'finding'", uploads)
    cleared = duck.small(ANSWERS["claimed"], prefiltered.claimed())
    settled = coverage.tallies(few_answers(answers, "tallies"))
    return MatchResult(
        con=con,
        selected=answers,
        tallies=coverage.together(settled, siblings, of_entries, of_uploads, prefiltered.tallies()),
        suspects=answers_of(con, answers, "suspects"),
        fresh=answers_of(con, answers, "fresh"),
        leftovers=answers_of(con, answers, "leftovers"),
        uploads=finding_rows.leftover_row(con, unfinished),
        entries=entries,
        claimed=duck.hold(con, duck.union(con, [answers_of(con, answers, "claimed"), cleared])),
        folders=answers_of(con, answers, HELD)
        if prefiltered.prefilter is None
        else prefiltered.folders_held(con),
        live=_live(few_answers(answers, "live_totals"), prefiltered.settled),
        live_rows=_live_rows(few_answers(answers, "live_totals"), prefiltered.settled),
        small_files=_small_files(few_answers(answers, "live_totals"), prefiltered.settled),
        nested=_formats(answers),
        vacuums=assumed_vacuums(con, answers_of(con, answers, "removals")),
        counts=read.counts,
        holes=gaps,
        partitions=frozenset(
            r["partition_uri"] for r in few_answers(answers, "partitions") if r["partition_uri"]
        ),
    )


def _live(judged: Sequence[Mapping[str, Any]], cleared: Sequence[Mapping[str, Any]]) -> dict[str, Listed]:
    """Return the live files of each table: those that the match judged, and cleared ones, which are all live."""
    listed: dict[str, Listed] = {}
    for row in [*judged, *({**row, "table_name": row["name"]} for row in cleared)]:
        files, size = listed.get(row["table_name"], (0, 0))
        unknown = size is None or row["bytes"] is None
        listed[row["table_name"]] = (files + row["files"], None if unknown else size + row["bytes"])
    return listed


def _live_rows(judged: Sequence[Mapping[str, Any]], cleared: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Return the rows of the live files of each table; without tables of which a number is unknown.

    The prefilter does not read the numbers of rows.
    """
    unknown = {row["name"] for row in cleared if row["files"]}
    unknown |= {row["table_name"] for row in judged if row["rows"] is None}
    counted: dict[str, int] = {}
    for row in judged:
        if row["table_name"] not in unknown:
            counted[row["table_name"]] = counted.get(row["table_name"], 0) + row["rows"]
    return counted


def _small_files(
    judged: Sequence[Mapping[str, Any]], cleared: Sequence[Mapping[str, Any]]
) -> dict[str, SmallFiles]:
    """Return the small files of each table, without tables of which files were cleared."""
    unknown = {row["name"] for row in cleared if row["files"]}
    counted: dict[str, SmallFiles] = {}
    for row in judged:
        if row["table_name"] not in unknown:
            before = counted.get(row["table_name"], SmallFiles())
            counted[row["table_name"]] = SmallFiles(
                before.files + row["small_files"], before.bytes + row["small_bytes"]
            )
    return counted


def _places(answers: AnswersByKind, kind: str) -> frozenset[Location]:
    return frozenset(Location(row["bucket"], row["key"]) for row in few_answers(answers, kind))


def _formats(answers: AnswersByKind) -> dict[Location, frozenset[str]]:
    formats: dict[Location, frozenset[str]] = {}
    for row in few_answers(answers, "nested"):
        place = Location(row["bucket"], row["key"])
        formats[place] = formats.get(place, frozenset()) | {row["format"]}
    return formats


def lost_logs(evidence: Evidence, notes: Sequence[Mapping[str, Any]]) -> list[EvidenceGap]:
    """Return gaps of logs that were lost during the pass: the tables' files are unknown, so all rows are read again."""
    lost = [
        gap
        for read in evidence.observed.sources.claims
        for note in notes
        if read.gap_of and note["source"] == read.info.id and (gap := read.gap_of(note))
    ]
    return [gap for gap in lost if gap not in evidence.observed.holes]


def _tables_without_log(
    evidence: Evidence, logs: Collection[Location], with_gaps: Collection[str] = ()
) -> list[str]:
    """Return tables whose log is missing in a complete report although it existed before the report began."""
    if evidence.observed.listed or evidence.partitions:
        return []
    cuts = storage_cuts(evidence.observed.sources.storage)
    tables = []
    for fact in evidence.facts_in_scope:
        source = label_around(evidence.source_facts.deciding, fact.table.location)
        if not source or source in with_gaps or fact.log_since is None or fact.table.location in logs:
            continue
        cutoff = cuts[source].start - cuts[source].margin
        if fact.log_since + fact.table.settings.grace <= cutoff:
            tables.append(fact.table.name)
    return tables


def _siblings(read: RowsRead, engine: AuditEngine) -> tuple[Tallies, AnswersByKind]:
    """Tally cleared entries; entries below a folder at fault are judged singly and added to the tree answers."""
    con, answers = read.evidence.con, read.answers
    judged = answers_of(con, answers, "siblings_judged")
    sums = """
        SELECT judged_table, axis, outcome, CAST(sum(files) AS BIGINT) AS files, CAST(sum(bytes) AS BIGINT) AS bytes,
            CAST(0 AS BIGINT) AS unconfirmed, CAST(0 AS BIGINT) AS refuted
        FROM input WHERE outcome IS NOT NULL GROUP BY judged_table, axis, outcome HAVING sum(files) > 0
    """
    at_fault = """
        SELECT source, bucket, parent FROM input WHERE outcome IS NULL GROUP BY ALL HAVING sum(files) > 0
    """
    lost = duck.table(duck.made_of(con, at_fault, judged))
    if lost.num_rows:
        more = hold_answers(con, lost_siblings(read.evidence, engine, read.rows, read.prefiltered, lost))
        kinds = [kind for kind in ("tree_tallies", "tree_suspects") if kind in more]
        answers = {**answers, **{k: duck.union(con, [answers_of(con, answers, k), more[k]]) for k in kinds}}
    return tallies_of(duck.made_of(con, sums, judged)), answers


def _layout_faults(evidence: Evidence, notes: Sequence[Mapping[str, Any]]) -> Iterator[EvidenceGap]:
    """Yield gaps of stores whose parts, once all were read, do not match the layout of their kind."""
    for store in evidence.observed.sources.metastores:
        mine = [note for note in notes if note["source"] == store.info.id]
        if store.check and (fault := store.check(mine)):
            yield EvidenceGap(store.info.id, fault, store.info.location)


def _open_rows(evidence: Evidence) -> Iterator[Part]:
    """Yield open discrepancies of the ledger as a part whose rows are joined with the others."""
    still_open = evidence.memory.still_open
    if still_open is not None:
        yield Part("ledger", partial(_read_open, still_open), still_open.nbytes)


def _read_open(still_open: pa.Table, con: Connection) -> Batches:  # noqa: ARG001 - readers of parts receive a connection
    yield "known", still_open


def _counts(answers: AnswersByKind) -> dict[str, dict[str, Any]]:
    """Return rows, rejected rows with a sample, and unknown storage classes of each source that counts its rows."""
    counts: dict[str, dict[str, Any]] = {}
    for row in few_answers(answers, "counted"):
        empty: dict[str, Any] = {"rows": 0, "rejected": 0, "sample": None, "unknown_classes": []}
        of_source = counts.setdefault(row["source"], empty)
        of_source["rows"] += row["rows"]
        of_source["rejected"] += row["rejected"]
        of_source["sample"] = min(filter(None, (of_source["sample"], row["sample"])), default=None)
        classes = {*of_source["unknown_classes"], *(row.get("unknown_classes") or ())}
        of_source["unknown_classes"] = sorted(classes)
    return counts


def _entries(
    evidence: Evidence, answers: AnswersByKind, with_gaps: frozenset[str]
) -> tuple[Relation, Tallies]:
    """Return findings about entries of metadata stores, and tallies of all entries, by the stores' ETag habits."""
    con = evidence.con
    habits = _habits(answers)
    mine = f"mostly_etags = (source IN ({duck.literals([s for s, most in habits.items() if most])}))"
    settled = duck.made_of(
        con,
        f"SELECT * FROM input WHERE coalesce({mine}, NOT mostly_etags)",
        answers_of(con, answers, "tree_tallies"),
    )
    marked = f"""
        SELECT * EXCLUDE (rule, outcome, kind, severity)
            REPLACE (source IN ({duck.literals(sorted(with_gaps))}) IS TRUE AS h_metastore)
        FROM input WHERE coalesce({mine}, NOT mostly_etags)
    """
    suspects = duck.made_of(con, marked, answers_of(con, answers, "tree_suspects"))
    judged = duck.hold_any(con, judged_tree(con, suspects, evidence.policy))
    findings = duck.made_of(con, "SELECT * FROM input WHERE outcome = 'finding'", judged)
    at_fault = finding_rows.parents_at_fault(con, findings)
    counted = [coverage.count_others(con, rows, "size") for rows in (judged, at_fault)]
    return findings, coverage.together(tallies_of(settled), *map(tallies_of, counted))


def _habits(answers: AnswersByKind) -> dict[str, bool]:
    """Return by store whether most of its live file entries have an ETag."""
    sums: dict[str, list[int]] = {}
    for row in few_answers(answers, "etag_habits"):
        of_store = sums.setdefault(row["source"], [0, 0])
        of_store[0] += row["live_files"]
        of_store[1] += row["with_etag"]
    return {source: with_etag * 2 > files for source, (files, with_etag) in sums.items()}


def _uploads(evidence: Evidence, answers: AnswersByKind) -> Relation:
    """Return verdict rows of multipart uploads that were never completed."""
    con = evidence.con
    uploads = answers_of(con, answers, "uploads")
    rows = unfinished_uploads(
        con, uploads, evidence.source_facts.storage_cuts, evidence.scope, evidence.source_facts.roots
    )
    judged = with_outcome(con, rows, evidence.policy)
    places = uris(evidence.partitions)
    if not places:
        return judged
    labelled = attach_label(con, judged, places, "partition_uri")
    return duck.made_of(con, "SELECT * FROM input WHERE partition_uri IS NOT NULL", labelled)
