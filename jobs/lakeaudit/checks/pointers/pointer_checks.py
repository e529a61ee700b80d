"""Judge the pointers of catalogs by the files in storage, and confirm findings by live requests."""

from collections.abc import Collection, Mapping

import pyarrow as pa

from lakeaudit.checks.pointers import pointers
from lakeaudit.checks.pointers.pointer_findings import findings
from lakeaudit.checks.pointers.pointer_lookups import look_up
from lakeaudit.checks.protocol import NOTHING, CheckInput, CheckResult
from lakeaudit.collect.evidence import Evidence
from lakeaudit.collect.evidence_gaps import sources_with_gaps
from lakeaudit.collect.match_result import MatchResult
from lakeaudit.collect.metadata_aims import aim_rows
from lakeaudit.collect.pointed_tables import PointedTables
from lakeaudit.engine.answers import tallies_of
from lakeaudit.engine.local import AuditEngine
from lakeaudit.errors import SourceError
from lakeaudit.evidence import registry
from lakeaudit.findings import coverage
from lakeaudit.findings.coverage import Tallies, together
from lakeaudit.matching.verdicts import group_verdicts, severity_rank
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation
from lakeaudit.schemas import PARTITION_FOLDER, PARTITION_POINTER, TABLE_POINTER

AXIS = "pointer"
SCHEMAS: Mapping[str, pa.Schema] = {
    "partitions": PARTITION_POINTER,
    "partition_folders": PARTITION_FOLDER,
    "table_pointers": TABLE_POINTER,
}
MOST_TABLES = 200
"""Tables with findings for which catalogs are queried again in one run."""


def judge_pointers(given: CheckInput) -> CheckResult:
    """Report pointers of catalogs that lead to nothing, or to something else than storage and the logs show."""
    evidence, pointed = given.evidence, given.evidence.pointed
    if pointed is None:
        return NOTHING
    con, tallies = evidence.con, Tallies()
    rows_of_findings: list[Relation] = []
    gaps = sources_with_gaps(given.matched.holes)
    for table, rows in _subjects(evidence, given.matched, pointed, gaps).items():
        judged = _confirm(evidence, given.engine, table, group_verdicts(con, rows, table, evidence.policy))
        judged = duck.hold(con, _without_moved_tables(evidence, pointed, judged))
        rows_of_findings.append(findings(con, judged, table, evidence.stamp))
        tallies = together(tallies, tallies_of(coverage.count_others(con, judged, "bytes")))
    return CheckResult(tuple(rows_of_findings), tallies=tallies, warnings=pointed.disagreements)


def _subjects(
    evidence: Evidence, matched: MatchResult, pointed: PointedTables, gaps: Collection[str]
) -> dict[str, Relation]:
    con, named = evidence.con, pointed.rows
    held = duck.hold(con, pointers.below(con, matched.folders))
    by = (evidence.source_facts, [*gaps])
    aims = aim_rows(evidence.context.clients, evidence.metadata_aims, evidence.context.now)
    registered = pointers.partition_pointers(con, pointed.partitions, named, held, *by)
    return {
        "partitions": registered,
        "partition_folders": pointers.partition_folders(con, matched.folders, registered, named, *by),
        "table_pointers": duck.union(con, [pointers.table_pointers(con, named, registered, held, *by), aims]),
    }


def _confirm(evidence: Evidence, engine: AuditEngine, table: str, verdicts: Relation) -> Relation:
    """Return the verdicts; findings are judged again by the current content of storage."""
    con = evidence.con
    judged = duck.hold(con, verdicts)
    suspects = duck.hold(con, duck.query(con, "FROM input WHERE outcome = 'finding'", input=judged))
    places = _places(evidence, con, suspects)
    if not places:
        return judged
    answers = look_up(engine, evidence.context.clients, places[: evidence.lake.settings.confirm.limit])
    known = duck.query(con, _with_answers(evidence, table), suspects=suspects, answers=answers)
    again = group_verdicts(
        con, duck.hold(con, duck.conform(con, known, SCHEMAS[table])), table, evidence.policy
    )
    rest = duck.query(con, "FROM input WHERE outcome <> 'finding'", input=judged)
    return duck.union(con, [rest, again])


def _with_answers(evidence: Evidence, table: str) -> str:
    """Return SQL of the suspects of a table of rules with the current `answers` of storage."""
    there = _THERE[table]
    confirmed = [each.name for each in evidence.scope if evidence.confirms(each)]
    # a partition that is filled now shows that not all are empty
    filled = f"bool_or(coalesce(look_there, {there}, false)) OVER (PARTITION BY catalog_id, s.table_name)"
    all_empty = f", all_empty AND NOT {filled} AS all_empty" if table == "partitions" else ""
    return f"""
        SELECT s.* REPLACE (
            CASE WHEN look IS NOT NULL THEN look
                WHEN judged_table IN ({duck.literals(confirmed)}) AND s.bucket IS NOT NULL
                THEN coalesce(looked, 'limit') END AS look,
            coalesce(look_there, {there}) AS look_there{all_empty})
        FROM suspects s LEFT JOIN answers USING (bucket, key)
    """


_THERE = {
    "partitions": "CASE WHEN content_said THEN with_bytes ELSE seen END",
    "partition_folders": "seen",
    "table_pointers": "anything",
}
"""SQL of whether a place has files now, from an answer; files of 0 bytes do not count where the catalog counts rows."""


def _places(evidence: Evidence, con: Connection, suspects: Relation) -> list[tuple[str, str]]:
    """Return the folders to check, those of the most severe findings first."""
    confirmed = [table.name for table in evidence.scope if evidence.confirms(table)]
    sql = f"""
        SELECT bucket, key FROM input WHERE judged_table IN ({duck.literals(confirmed)}) AND bucket IS NOT NULL
            AND look IS NULL GROUP BY bucket, key ORDER BY min({severity_rank()}), bucket, key
    """
    return [(row["bucket"], row["key"]) for row in duck.rows_of(duck.query(con, sql, input=suspects))]


def _without_moved_tables(evidence: Evidence, pointed: PointedTables, judged: Relation) -> Relation:
    """Return the verdicts; findings about tables that were dropped or changed meanwhile become `moved_on`."""
    con = evidence.con
    held = duck.hold(con, judged)
    sql = "SELECT DISTINCT catalog_id, table_name FROM input WHERE outcome = 'finding' ORDER BY ALL"
    pairs = [(row["catalog_id"], row["table_name"]) for row in duck.rows_of(duck.query(con, sql, input=held))]
    aims = {(each.by.catalog, each.by.name): each.by.metadata_location for each in pointed.named}
    gone = {each for each in pairs[:MOST_TABLES] if _has_moved(evidence, *each, aims[each])}
    moved = f"""
        SELECT * REPLACE (CASE WHEN outcome = 'finding' AND (catalog_id, table_name) IN ({_pairs(gone)})
            THEN 'moved_on' ELSE outcome END AS outcome) FROM input
    """
    return duck.query(con, moved, input=held) if gone else held


def _pairs(gone: Collection[tuple[str, str]]) -> str:
    return ", ".join(f"({duck.literal(id_)}, {duck.literal(name)})" for id_, name in gone)


def _has_moved(evidence: Evidence, catalog: str, name: str, aim: str) -> bool:
    """Return whether the catalog no longer has the table, or points at another state of it."""
    source = evidence.catalog_sources[catalog]
    ask = registry.catalog(source.kind).current
    try:
        now = None if ask is None else ask(source, evidence.context.clients, name)
    except SourceError:
        return False
    return ask is not None and (now is None or now.metadata_location != aim)
