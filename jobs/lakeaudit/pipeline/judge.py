"""Judge: match everything, classify it, look again at suspects, and make findings and coverage of what remains.

Suspects are the verdict rows that a first reading calls findings. Only they are looked at again: holes, assumed
vacuums, the live check and the tables' newest states can clear a suspect, never make one.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakeaudit.compare import (
    bulk_changes,
    coverage,
    duplicates,
    findings,
    leftovers,
    metastore_tree,
    rules,
    verdicts,
)
from lakeaudit.compare.apply_gaps import assumed_vacuums, with_holes
from lakeaudit.compare.ceiling import Trial
from lakeaudit.compare.classify import judged, ruled
from lakeaudit.compare.coverage import Means, Tallies
from lakeaudit.compare.evidence_for_tables import means
from lakeaudit.compare.facts import TREE_FACTS
from lakeaudit.compare.match import pairs
from lakeaudit.evidence.protocol import Hole
from lakeaudit.ledger.axis_observation import Look, looks
from lakeaudit.ledger.resolution import words
from lakeaudit.pipeline.audit_context import Bench
from lakeaudit.pipeline.dataframes import computed, small
from lakeaudit.pipeline.evidence_gaps import all_holes, blind_findings, counted
from lakeaudit.pipeline.partitions import as_asked, known, narrowed
from lakeaudit.pipeline.recheck import second_reading
from lakeaudit.runtime.progress import Progress
from lakeaudit.runtime.threads import beside

_LEFT = (
    *(
        "axis",
        "judged_table",
        "rule",
        "kind",
        "severity",
        "bucket",
        "key",
        "relative",
        "partition_path",
        "category",
    ),
    *("s_size", "s_etag", "s_version_id", "s_modified_at"),
)


@dataclass
class Judgement:
    """The result frames of one run, and the small facts its summary is made of."""

    holes: tuple[Hole, ...]
    counts: dict[str, Any]
    coverage_rows: list[dict[str, Any]]
    findings: DataFrame
    leftover_files: DataFrame
    words: DataFrame
    looks: list[Look]
    trials: list[Trial]
    as_asked: frozenset[str] = frozenset()
    """Reasons of coverage that are no hindrance: only parts of the tables were asked for."""


def judge(bench: Bench, progress: Progress) -> Judgement:
    """All findings, leftovers and the coverage of the tables in scope."""
    with progress.stage("match and classify") as log:
        world, suspects, settled = first_reading(bench)
        log.note(files=sum(tally.files for (_, axis), tally in settled.items() if axis == "content"))
    counts = counted(bench.observed)
    holes = all_holes(bench.observed, counts)
    vacuums = computed(assumed_vacuums(world))
    with beside(1) as pool:
        others = pool.submit(_other_verdicts, bench, world, holes)
        with progress.stage("look again at suspects") as log:
            reread_rows, trials = second_reading(bench, suspects, world, _holed(holes), vacuums)
            remaining = computed(reread_rows)
            reread = _tallied(remaining)
            log.note(suspects=sum(tally.files for tally in reread.values()))
        with progress.stage("make findings"):
            groups = others.result()
            blind = blind_findings(bench.lake, bench.scope, bench.observed, holes, vacuums)
            found, files = _findings(bench, remaining, groups, blind, settled)
            tallies = coverage.together(settled, reread)
            able = _means(bench, holes, trials, known(world, bench.parts))
            rows = _coverage(bench, tallies, groups, able)
    taken = looks(rows, able, bench.stamp.as_of, all_sources=not bench.observed.listed)
    leftover_files = findings.as_leftover_rows(files)
    said = words(remaining)
    return Judgement(holes, counts, rows, found, leftover_files, said, taken, trials, as_asked(able.narrowed))


def first_reading(bench: Bench) -> tuple[DataFrame, DataFrame, Tallies]:
    """Ruled PAIR rows, the suspects among their verdicts, and the tallies of all other verdicts."""
    spark = bench.context.spark
    matched = pairs(spark, bench.observed.evidence, bench.tables, bench.roots)
    # holes in manifests are known before anything is judged; those in storage and metastores once all is read
    world = computed(judged(with_holes(matched, (), bench.facts)))
    every = verdicts.verdicts(world, bench.scope, bench.lake.ignores, bench.stamp.as_of.date())
    every = bench.within(every)
    every = bench.memory.recalled(every.withColumn("suspected", F.col("outcome") == "finding"))
    again = F.col("suspected") | F.col("known_as").isNotNull()
    settled = _tallied(every.filter(~again))
    return world, computed(every.filter(again)), settled


@dataclass(frozen=True)
class _Others:
    """Verdict rows that are not about one PAIR row."""

    same: DataFrame
    entries: DataFrame
    uploads: DataFrame


def _other_verdicts(bench: Bench, world: DataFrame, holes: Sequence[Hole]) -> _Others:
    spark, evidence = bench.context.spark, bench.observed.evidence
    sizes = [(table.name, table.settings.min_duplicate_size) for table in bench.scope]
    same = duplicates.same_content(world, small(spark, sizes, "name string, min_size long"))
    same = same.withColumns({"axis": F.lit("duplicate"), "rule": F.lit("duplicate.same_content")})
    neighbours = metastore_tree.tree(
        spark, evidence.metastores, world, bench.tables, bench.roots, _holed(holes)
    )
    entries = ruled(neighbours, TREE_FACTS, {"metastore_tree": rules.TREE})
    entries = entries.withColumnsRenamed({"rule_metastore_tree": "rule", "owner": "judged_table"})
    entries = entries.withColumn("axis", F.lit("metastore_tree")).filter(_in_scope(bench))
    uploads = leftovers.unfinished_uploads(spark, evidence.storage, bench.scope, bench.roots)
    judged_entries = bench.outcome(entries).filter(F.col("outcome") != rules.NONE)
    asked = (bench.within(rows) for rows in (bench.outcome(same), judged_entries, bench.outcome(uploads)))
    return _Others(*map(computed, asked))


def _findings(
    bench: Bench, remaining: DataFrame, others: _Others, blind: list[dict[str, Any]], settled: Tallies
) -> tuple[DataFrame, DataFrame]:
    """FINDINGS, and the files behind its groups."""
    left = _found(remaining).filter(F.col("axis") == "leftover").select(*_LEFT)
    files = computed(
        findings.leftover_files(left.unionByName(_found(others.uploads).select(*_LEFT)), bench.stamp)
    )
    single = _found(remaining).filter(F.col("axis") != "leftover")
    single = single.unionByName(_found(others.same), allowMissingColumns=True)
    whole = {} if bench.parts else settled  # of a part nothing can be said about its table
    about_files = bulk_changes.grouped(findings.file_findings(single, bench.stamp), whole, bench.stamp)
    together = about_files.unionByName(findings.tree_findings(_found(others.entries), bench.stamp))
    together = together.unionByName(findings.leftover_findings(files, bench.stamp))
    if blind:
        together = together.unionByName(findings.from_plain(blind, together, bench.stamp))
    return computed(together), files


def _means(bench: Bench, holes: Sequence[Hole], trials: Sequence[Trial], met: Collection[str]) -> Means:
    able = means(bench.observed.evidence, bench.facts_in_scope, bench.lake.metastores, _holed(holes))
    asked = narrowed(bench.parts, met)
    return replace(able, overtaken=bench.memory.overtaken, trials=tuple(trials), narrowed=asked)


def _coverage(bench: Bench, tallies: Tallies, others: _Others, able: Means) -> list[dict[str, Any]]:
    counted_others = coverage.tallies(row.asDict() for row in coverage.count_others(_sized(others)).collect())
    tallies = coverage.together(tallies, counted_others)
    return coverage.rows(bench.facts_in_scope, tallies, able, bench.stamp.run_id, bench.stamp.lake)


def _sized(others: _Others) -> DataFrame:
    """Redundant copies were counted as consistent by the rules about single files: that goes."""
    said = ("judged_table", "axis", "outcome")
    parts = [(others.entries, "size"), (others.uploads, "s_size"), (others.same, "s_size")]
    frames = [
        frame.select(*said, F.col(size).alias("size"), F.lit(1).alias("files")) for frame, size in parts
    ]
    counted_before = others.same.select(
        "judged_table",
        "axis",
        F.lit("consistent").alias("outcome"),
        F.lit(0).alias("size"),
        F.lit(-1).alias("files"),
    )
    return frames[0].unionAll(frames[1]).unionAll(frames[2]).unionAll(counted_before)


def _found(rows: DataFrame) -> DataFrame:
    return rows.filter(F.col("outcome") == "finding")


def _holed(holes: Sequence[Hole]) -> set[str]:
    return {hole.source for hole in holes if hole.table is None}


def _in_scope(bench: Bench) -> Any:
    return F.col("judged_table").isin([table.name for table in bench.scope])


def _tallied(rows: DataFrame) -> Tallies:
    """Small: tables x axes x outcomes."""
    return coverage.tallies(row.asDict() for row in coverage.count(rows).collect())
