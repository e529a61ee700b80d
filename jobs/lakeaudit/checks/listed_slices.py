"""Unused files that readers which list a Hudi table's folders may read: among the other files of their file groups.

The rules go by names alone. Here the files of the same file group are known: a file that no reader takes is unused
after all, and the rows of one that readers take are counted.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa

from lakeaudit.collect.evidence import Evidence
from lakeaudit.engine.answers import tallies_of
from lakeaudit.evidence.storage.footers import rows_of
from lakeaudit.findings import coverage
from lakeaudit.findings.coverage import Tallies
from lakeaudit.matching.verdicts import with_outcome
from lakeaudit.rules.rule import OUT
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Relation
from lakeaudit.schemas import LEFTOVERS, SLICE, plain_time

BY_NAME = ("leftover.slice_visible", "leftover.slice_of_index")
"""Rules that take a file for one that readers read, by its name alone."""
MOST_COUNTED = 200
"""Files of one run whose footers are read for their rows."""
_THREADS = 16


def with_listed_slices(evidence: Evidence, leftovers: Relation) -> tuple[Relation, Tallies]:
    """LEFTOVERS rows, those that no reader takes as what they are then; and what that changes in the tallies."""
    if duck.is_empty(leftovers):
        return leftovers, {}
    by_name = f"rule IN ({duck.literals(BY_NAME)})"
    named = duck.hold(
        evidence.con, duck.made_of(evidence.con, f"SELECT * FROM input WHERE {by_name}", leftovers)
    )
    if duck.is_empty(named):
        return leftovers, {}
    judged = duck.hold(evidence.con, _judged(evidence, named, _slices(evidence, named)))
    others = duck.made_of(evidence.con, f"SELECT * FROM input WHERE NOT {by_name}", leftovers)
    found = duck.made_of(
        evidence.con, "SELECT * EXCLUDE (outcome) FROM input WHERE outcome = 'finding'", judged
    )
    kept = duck.union(
        evidence.con, [others, _with_rows(evidence, duck.conform(evidence.con, found, LEFTOVERS))]
    )
    counts = (
        coverage.uncounted(evidence.con, named, "finding", "size"),
        coverage.count_others(evidence.con, judged, "size"),
    )
    return duck.hold_any(evidence.con, kept), coverage.together(*map(tallies_of, counts))


def _slices(evidence: Evidence, named: Relation) -> Relation:
    """SLICE rows, of what the readers know."""
    readers = [
        read.listed_slices for read in evidence.observed.sources.claims if read.listed_slices is not None
    ]
    return duck.union(
        evidence.con, [SLICE.empty_table(), *(slices(evidence.con, named) for slices in readers)]
    )


def _judged(evidence: Evidence, named: Relation, slices: Relation) -> Relation:
    """The rows with their outcome: what no reader takes is judged as any other file that nothing lists.

    A removal within the grace before the picture of storage may be under way.
    """
    facts = [
        (fact.table.name, plain_time(fact.horizon), fact.table.settings.grace)
        for fact in evidence.facts_in_scope
    ]
    cuts = duck.query(
        evidence.con, "SELECT min(start - margin) AS edge FROM cuts", cuts=evidence.source_facts.storage_cuts
    )
    sql = """
        SELECT input.* EXCLUDE (kind, severity) REPLACE (
                CASE WHEN taken IS DISTINCT FROM false THEN rule WHEN modified_at > horizon THEN 'leftover.uncommitted'
                    ELSE 'leftover.unreferenced' END AS rule,
                coalesce(input.records, slices.records) AS records),
            coalesce(taken AND removed_at + grace > edge, false) AS young
        FROM input LEFT JOIN slices USING (judged_table, bucket, key)
        LEFT JOIN facts ON judged_table = name CROSS JOIN cuts"""
    rows = duck.made_of(evidence.con, sql, named, slices=slices, facts=duck.small(_FACTS, facts), cuts=cuts)
    judged = with_outcome(evidence.con, rows, evidence.policy)
    young = f"""SELECT * EXCLUDE (young) REPLACE (CASE WHEN young THEN {duck.literal(OUT)} ELSE outcome END AS outcome)
        FROM input"""
    return duck.made_of(evidence.con, young, judged)


_FACTS = pa.schema([("name", pa.string()), ("horizon", pa.timestamp("us")), ("grace", pa.duration("us"))])
_COUNTED = pa.schema([("bucket", pa.string()), ("key", pa.string()), ("rows", pa.int64())])


def _with_rows(evidence: Evidence, found: Relation) -> Relation:
    """LEFTOVERS rows with the rows that footers count, where no instant says how many a file has."""
    asked = {
        fact.table.name for fact in evidence.facts_in_scope if fact.table.settings.confirm.mode != "none"
    }
    if not evidence.context.live:
        return found
    sql = f"""SELECT bucket, key, size FROM input WHERE kind = 'stale_visible' AND records IS NULL
        AND judged_table IN ({duck.literals(sorted(asked))}) ORDER BY bucket, key LIMIT {MOST_COUNTED}"""
    counted = duck.small(
        _COUNTED, list(_counted(evidence, duck.rows_of(duck.made_of(evidence.con, sql, found))))
    )
    filled = """SELECT input.* REPLACE (coalesce(records, counted."rows") AS records)
        FROM input LEFT JOIN counted USING (bucket, key)"""
    return duck.made_of(evidence.con, filled, found, counted=counted)


def _counted(evidence: Evidence, files: Sequence[dict[str, Any]]) -> Iterator[tuple[str, str, int | None]]:
    """The rows that each file's own footer counts."""

    def rows(file: dict[str, Any]) -> int | None:
        return rows_of(evidence.context.clients, file["bucket"], file["key"], file["size"] or 0)

    with ThreadPoolExecutor(_THREADS) as pool:
        for file, count in zip(files, pool.map(rows, files), strict=True):
            yield file["bucket"], file["key"], count
