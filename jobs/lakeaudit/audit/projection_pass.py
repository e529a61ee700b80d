"""Runs the projection pass: it clears the keys on which all sources plainly agree, before rows are read in full.

The pass pays only for large evidence; below `PREFILTER_FROM` all rows are read in full at once.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pyarrow as pa

from lakeaudit.audit.cached_prefilter import PrefilterResult, prefilter_cache
from lakeaudit.audit.kernel import judge_children
from lakeaudit.audit.task_functions import has_trees, task_facts
from lakeaudit.checks.pointers.folder_counts import CountingEngine, without_folders
from lakeaudit.checks.registry import checks
from lakeaudit.collect.evidence import Evidence
from lakeaudit.engine.cached_rows import cached_rows
from lakeaudit.engine.chunks import FINGERPRINTS, WHOLE, Chunk, Reading, has_fault, routes_of
from lakeaudit.engine.local import Answers, AuditEngine, LocalBufferedRows
from lakeaudit.evidence.protocol import BufferedRows, Part, RoutedStage, Stage
from lakeaudit.findings.coverage import Tallies, Tally
from lakeaudit.keys import Location
from lakeaudit.matching import tree_sums
from lakeaudit.matching.prefilter import ENTRY, Prefilter, cleared_keys, prefilter_of
from lakeaudit.matching.prefilter_fingerprints import fingerprints
from lakeaudit.matching.prefiltered_reads import (
    RowFilter,
    Trees,
    ask_again,
    bitmap,
    read_again,
    read_siblings,
    subtract_entries,
)
from lakeaudit.matching.tree_sums import TreeSums
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation
from lakeaudit.schemas import FOLDER_FILES

PREFILTER_FROM = 32 << 20
"""The projection pass runs from this size of the evidence (bytes in storage)."""
FEW_LEFT = 0.1
"""Below this fraction of keys that are not cleared, the rows of a part that are left are held at once."""


@dataclass(frozen=True)
class Prefiltered:
    """The cleared files and bytes by table (`settled`), and how the other rows are read.

    Attributes:
        logs: tables whose log has a file in storage; known only after a projection pass.
        folders: file counts of folders, from the same pass.
        whole: reads all rows, cached ones included.
        sums: what trees need of plain rows, for the full read, see `tree_sums`; empty if there are no trees, or if they
            are not known.
    """

    reading: Reading = WHOLE
    settled: Sequence[Mapping[str, Any]] = ()
    tables: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    prefilter: Prefilter | None = None
    row_filter: RowFilter | None = None
    logs: frozenset[Location] = frozenset()
    folders: Sequence[pa.RecordBatch] = ()
    whole: Reading = WHOLE
    sums: Sequence[BufferedRows] = ()

    def stages(self, stages: Sequence[Stage]) -> Sequence[Stage]:
        """Return the stages of the full read."""
        if not self.sums or self.prefilter is None:
            return stages
        first, *others = stages
        return [RoutedStage(partial(subtract_entries, self.prefilter, first), routes_of(first)), *others]

    def folders_held(self, con: Connection) -> Relation:
        """Return FOLDER_FILES rows, one per folder."""
        return duck.hold_batches(con, FOLDER_FILES, self.folders)

    def tallies(self) -> Tallies:
        """Return the cleared files as consistent, on every axis that judges them."""
        tallies: Tallies = {}
        for row in self.settled:
            axes = ["content", "leftover", "duplicate"]
            if self.tables[row["name"]]["sides"] & ENTRY:
                axes.append("metastore")
            for axis in axes:
                tally = Tally({"consistent": row["files"]}, row["bytes"])
                tallies[row["name"], axis] = tallies.get((row["name"], axis), Tally()).plus(tally)
        return tallies

    def claimed(self) -> list[tuple[str, str, int]]:
        """Return how many cleared files of each table each source should hold, see `kernel.claimed_of_sources`."""
        return [
            (row["name"], source, row["files"])
            for row in self.settled
            for side in ("storage", "store")
            if (source := self.tables[row["name"]][side]) is not None
        ]


def run_projection_pass(
    evidence: Evidence, engine: AuditEngine, rows: Sequence[Part | BufferedRows]
) -> Prefiltered:
    """Read the few columns of fingerprints of all rows and clear keys, if the evidence is large enough."""
    weight = sum(each.weight for each in rows if isinstance(each, Part))
    if weight < PREFILTER_FROM or evidence.partitions or any(check.every_key for check in checks()):
        return Prefiltered()
    by_kind = {
        kind: trace for read in evidence.observed.sources.claims for kind, trace in read.traces.items()
    }
    prefilter = prefilter_of(evidence.source_facts, evidence.facts, evidence.policy.scope, by_kind)
    row_cache = cached_rows(evidence.lake.results, evidence.lake.name, evidence.context.clients)
    row_cache.prepare([each for each in rows if isinstance(each, Part)])
    folders: list[pa.RecordBatch] = []
    cache = prefilter_cache(evidence, prefilter, rows)
    result = cache.load(engine) if cache else None
    if result is None:
        projection = partial(fingerprints, prefilter)
        narrow = replace(FINGERPRINTS, project=projection, rows=row_cache.rows_to_keep)
        stage = cache.stage(prefilter) if cache else partial(cleared_keys, prefilter)
        answers = CountingEngine(engine, evidence.folder_count).project(rows, [stage], narrow)
        result = _collect(evidence.con, without_folders(answers, folders))
        if cache:
            cache.store(result, engine)
    row_filter = result.row_filter
    trees: Trees = "none" if not has_trees(evidence) else "unknown" if result.has_fault else "summed"
    again = partial(read_again, prefilter, row_filter, trees)
    tables = {row["name"]: row for row in prefilter.tables.to_pylist()}
    left = row_filter.count / max(row_filter.count + result.files, 1)
    alone = left < FEW_LEFT and trees != "unknown"
    reading = Reading(partial(ask_again, row_filter, alone), again, left, rows=row_cache.rows)
    sums = [_buffered(result.trees)] if trees == "summed" else []
    whole = Reading(rows=row_cache.rows)
    return Prefiltered(
        reading, result.settled, tables, prefilter, row_filter, result.logs, folders, whole, sums
    )


def _buffered(sums: TreeSums) -> LocalBufferedRows:
    """Return sums as rows that a full read takes beside the rows of sources."""
    chunks = [Chunk(0, kind, batch) for kind, rows in sums.items() for batch in rows.to_batches()]
    return LocalBufferedRows(chunks, (), {})


def lost_siblings(
    evidence: Evidence,
    engine: AuditEngine,
    rows: Sequence[Part | BufferedRows],
    prefiltered: Prefiltered,
    lost: pa.Table,
) -> Answers:
    """Judge cleared entries in folders whose own entries are at fault, see `metastore_tree.sibling_tallies`."""
    if prefiltered.prefilter is None or prefiltered.row_filter is None:
        return iter(())
    of_lost = partial(read_siblings, prefiltered.prefilter, prefiltered.row_filter, lost)
    reading = replace(prefiltered.whole, select=of_lost)
    return engine.run(rows, [partial(judge_children, task_facts(evidence))], reading)


def _collect(con: Connection, answers: Answers) -> PrefilterResult:
    files, sizes = Counter[str](), Counter[str]()
    logs: set[Location] = set()
    held: dict[str, list[pa.RecordBatch]] = defaultdict(list)
    keys: list[str] = []
    fault = False
    for kind, batch in answers:
        if kind == "settled":
            for row in batch.to_pylist():
                files[row["name"]] += row["files"]
                sizes[row["name"]] += row["bytes"]
        elif kind == "logs_seen":
            logs |= {Location(row["bucket"], row["key"]) for row in batch.to_pylist()}
        elif kind in ("buckets", "twins", *tree_sums.KINDS):
            held[kind].append(batch)
        elif kind == "kept":
            keys += batch.column("name").to_pylist()
        elif kind == "notes":
            fault |= has_fault(batch)
    settled = [{"name": name, "files": count, "bytes": sizes[name]} for name, count in files.items()]
    again, twins = (
        bitmap(batch.column("bucket").to_numpy() for batch in held[kind]) for kind in ("buckets", "twins")
    )
    row_filter, trees = RowFilter(again, twins), tree_sums.total(con, held)
    return PrefilterResult(settled, row_filter, frozenset(logs), keys, trees, has_fault=fault)
