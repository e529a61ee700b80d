"""Judge unused files that readers may read because they list a Hudi table's folders, by the files of their file group.

The rules see names alone. Here all files of a file group are known: a file that no reader takes is only unused, and
the rows of a file that readers take are counted.
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
"""Rules that conclude from its name alone that readers read a file."""
MOST_COUNTED = 200
"""Files of one run whose footers are read for their rows."""
_THREADS = 16


def with_listed_slices(evidence: Evidence, leftovers: Relation) -> tuple[Relation, Tallies]:
    """Return `LEFTOVERS` rows, judged again where no reader takes the file, and the changes of the tallies."""
    if duck.is_empty(leftovers):
        return leftovers, {}
    by_name = f"rule IN ({duck.literals(BY_NAME)})"
    named = duck.hold(
        evidence.con, duck.made_of(evidence.con, f"SELECT * FROM input WHERE {by_name}", leftovers)
    )
    if duck.is_empty(named):
        return leftovers, {}
    judged = duck.hold(evidence.con, _judge(evidence, named, _slices(evidence, named)))
    others = duck.made_of(evidence.con, f"SELECT * FROM input WHERE NOT {by_name}", leftovers)
    findings = duck.made_of(
        evidence.con, "SELECT * EXCLUDE (outcome) FROM input WHERE outcome = 'finding'", judged
    )
    rows = duck.union(
        evidence.con, [others, _with_rows(evidence, duck.conform(evidence.con, findings, LEFTOVERS))]
    )
    counts = (
        coverage.uncounted(evidence.con, named, "finding", "size"),
        coverage.count_others(evidence.con, judged, "size"),
    )
    return duck.hold_any(evidence.con, rows), coverage.together(*map(tallies_of, counts))


def _slices(evidence: Evidence, named: Relation) -> Relation:
    """Return the SLICE rows that the readers know."""
    readers = [
        read.listed_slices for read in evidence.observed.sources.claims if read.listed_slices is not None
    ]
    return duck.union(
        evidence.con, [SLICE.empty_table(), *(slices(evidence.con, named) for slices in readers)]
    )


def _judge(evidence: Evidence, named: Relation, slices: Relation) -> Relation:
    """Return the rows with their outcome: a file that no reader takes is judged as any other unlisted file.

    A removal within the grace before the storage snapshot may be under way.
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


def _with_rows(evidence: Evidence, findings: Relation) -> Relation:
    """Return `LEFTOVERS` rows with row counts from footers where no instant records the row count of a file."""
    confirmed = {
        fact.table.name for fact in evidence.facts_in_scope if fact.table.settings.confirm.mode != "none"
    }
    if not evidence.context.live:
        return findings
    sql = f"""SELECT bucket, key, size FROM input WHERE kind = 'stale_visible' AND records IS NULL
        AND judged_table IN ({duck.literals(sorted(confirmed))}) ORDER BY bucket, key LIMIT {MOST_COUNTED}"""
    counted = duck.small(
        _COUNTED, list(_count_rows(evidence, duck.rows_of(duck.made_of(evidence.con, sql, findings))))
    )
    filled = """SELECT input.* REPLACE (coalesce(records, counted."rows") AS records)
        FROM input LEFT JOIN counted USING (bucket, key)"""
    return duck.made_of(evidence.con, filled, findings, counted=counted)


def _count_rows(evidence: Evidence, files: Sequence[dict[str, Any]]) -> Iterator[tuple[str, str, int | None]]:
    """Yield bucket, key and the row count of each file's footer."""

    def rows(file: dict[str, Any]) -> int | None:
        return rows_of(evidence.context.clients, file["bucket"], file["key"], file["size"] or 0)

    with ThreadPoolExecutor(_THREADS) as pool:
        for file, count in zip(files, pool.map(rows, files), strict=True):
            yield file["bucket"], file["key"], count
