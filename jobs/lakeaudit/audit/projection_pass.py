"""The narrow reading: what all sources plainly agree on is let go before anything is read in full.

It pays where there is much to read; below `SCREEN_FROM` everything is read in full at once.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pyarrow as pa

from lakeaudit.audit.cached_prefilter import Screened, kept_screen
from lakeaudit.audit.cached_rest import KeptRest
from lakeaudit.audit.kernel import judge_children
from lakeaudit.audit.task_functions import has_trees, task_facts
from lakeaudit.checks.pointers.folder_counts import CountingEngine, without_folders
from lakeaudit.checks.registry import checks
from lakeaudit.collect.evidence import Evidence
from lakeaudit.engine.cached_rows import cached_rows
from lakeaudit.engine.chunks import WHOLE, Reading, has_fault
from lakeaudit.engine.local import Answers, AuditEngine
from lakeaudit.evidence.protocol import BufferedRows, Part
from lakeaudit.findings.coverage import Tallies, Tally
from lakeaudit.keys import Location
from lakeaudit.matching.prefilter import ENTRY, Prefilter, cleared_keys, prefilter_of
from lakeaudit.matching.prefilter_fingerprints import fingerprints
from lakeaudit.matching.prefiltered_reads import RowFilter, ask_again, bitmap, read_again, read_siblings
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation
from lakeaudit.schemas import FOLDER_FILES

SCREEN_FROM = 32 << 20
"""Bytes of evidence, as stored, from which on a narrow reading pays."""
TRACE_WIDTH = 3 / 8
"""Of a trace, beside a whole row."""


@dataclass(frozen=True)
class Prefiltered:
    """What was let go: by table files and bytes, and how the rest is to be read."""

    reading: Reading = WHOLE
    settled: Sequence[Mapping[str, Any]] = ()
    tables: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    screen: Prefilter | None = None
    wanted: RowFilter | None = None
    logs: frozenset[Location] = frozenset()
    """Tables of whose logs storage has a file; known where there was a narrow reading."""
    folders: Sequence[pa.RecordBatch] = ()
    """What was counted of folders beside it."""
    whole: Reading = WHOLE
    """All rows, as they are kept."""

    def folders_held(self, con: Connection) -> Relation:
        """FOLDER_FILES rows, a folder each."""
        return duck.hold_batches(con, FOLDER_FILES, self.folders)

    def tallies(self) -> Tallies:
        """Every axis that asks of these files is consistent."""
        found: Tallies = {}
        for row in self.settled:
            axes = ["content", "leftover", "duplicate"]
            if self.tables[row["name"]]["sides"] & ENTRY:
                axes.append("metastore")
            for axis in axes:
                tally = Tally({"consistent": row["files"]}, row["bytes"])
                found[row["name"], axis] = found.get((row["name"], axis), Tally()).plus(tally)
        return found

    def claimed(self) -> list[tuple[str, str, int]]:
        """How many files each source should hold of each table, see `kernel.claimed_of_sources`."""
        return [
            (row["name"], source, row["files"])
            for row in self.settled
            for side in ("storage", "store")
            if (source := self.tables[row["name"]][side]) is not None
        ]


def run_projection_pass(
    evidence: Evidence, engine: AuditEngine, rows: Sequence[Part | BufferedRows]
) -> Prefiltered:
    """Read everything narrowly, if that pays."""
    weight = sum(each.weight for each in rows if isinstance(each, Part))
    if weight < SCREEN_FROM or evidence.partitions or any(check.every_key for check in checks()):
        return Prefiltered()
    by_kind = {
        kind: trace for read in evidence.observed.sources.claims for kind, trace in read.traces.items()
    }
    screen = prefilter_of(evidence.source_facts, evidence.facts, evidence.policy.scope, by_kind)
    kept = cached_rows(evidence.lake.results, evidence.lake.name, evidence.context.clients)
    kept.prepare([each for each in rows if isinstance(each, Part)])
    folders: list[pa.RecordBatch] = []
    keeper = kept_screen(evidence, screen, rows)
    found = keeper.last(engine) if keeper else None
    if found is None:
        narrow = Reading(project=partial(fingerprints, screen), width=TRACE_WIDTH, rows=kept.rows_to_keep)
        stage = keeper.stage(screen) if keeper else partial(cleared_keys, screen)
        answers = CountingEngine(engine, evidence.folder_count).project(rows, [stage], narrow)
        found = _sorted_out(without_folders(answers, folders))
        if keeper:
            found = keeper.keep(found, engine)
    wanted = found.wanted
    again = partial(read_again, screen, wanted, has_trees(evidence))
    tables = {row["name"]: row for row in screen.tables.to_pylist()}
    left = wanted.count / max(wanted.count + found.files, 1)
    all_rows = kept.rows
    if keeper and found.rest and has_trees(evidence):
        sources = evidence.observed.sources
        stored = frozenset(each.info.id for side in (sources.storage, sources.metastores) for each in side)
        all_rows = KeptRest(keeper.kept, found.rest, stored, screen, wanted, found.more, kept.rows).rows
    reading = Reading(partial(ask_again, wanted), again, left, rows=all_rows)
    whole = Reading(rows=kept.rows)
    return Prefiltered(reading, found.settled, tables, screen, wanted, found.logs, folders, whole)


def lost_siblings(
    evidence: Evidence,
    engine: AuditEngine,
    rows: Sequence[Part | BufferedRows],
    gone: Prefiltered,
    lost: pa.Table,
) -> Answers:
    """Verdicts of let-go entries whose folders' own entries are at fault, see `metastore_tree.sibling_tallies`."""
    if gone.screen is None or gone.wanted is None:
        return iter(())
    of_lost = partial(read_siblings, gone.screen, gone.wanted, lost)
    reading = replace(gone.whole, select=of_lost)
    return engine.run(rows, [partial(judge_children, task_facts(evidence))], reading)


def _sorted_out(answers: Answers) -> Screened:
    files, sizes = Counter[str](), Counter[str]()
    logs: set[Location] = set()
    buckets: dict[str, list[Any]] = {"buckets": [], "twins": []}
    keys: list[str] = []
    faulted = False
    for kind, batch in answers:
        if kind == "settled":
            for row in batch.to_pylist():
                files[row["name"]] += row["files"]
                sizes[row["name"]] += row["bytes"]
        elif kind == "logs_seen":
            logs |= {Location(row["bucket"], row["key"]) for row in batch.to_pylist()}
        elif kind in buckets:
            buckets[kind].append(batch.column("bucket").to_numpy())
        elif kind == "kept":
            keys += batch.column("name").to_pylist()
        elif kind == "notes":
            faulted |= has_fault(batch)
    settled = [{"name": name, "files": count, "bytes": sizes[name]} for name, count in files.items()]
    wanted = RowFilter(bitmap(buckets["buckets"]), bitmap(buckets["twins"]))
    return Screened(settled, wanted, frozenset(logs), keys, faulted=faulted)
