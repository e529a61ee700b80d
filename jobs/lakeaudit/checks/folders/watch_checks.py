"""Judge files in watched places that no table owns, grouped by prefix."""

from dataclasses import replace
from typing import Any

from lakeaudit.checks.protocol import NOTHING, CheckInput, CheckResult
from lakeaudit.collect.evidence import Evidence
from lakeaudit.collect.evidence_gaps import sources_with_gaps
from lakeaudit.collect.source_facts import availability, deciding_places
from lakeaudit.engine.answers import tallies_of
from lakeaudit.findings import coverage
from lakeaudit.findings.coverage import Tallies
from lakeaudit.findings.finding_rows import because, finished, uri
from lakeaudit.keys import Location
from lakeaudit.matching.prefix_match import label_around
from lakeaudit.matching.table_facts import TableFacts
from lakeaudit.matching.verdicts import group_verdicts
from lakeaudit.matching.watched_folders import NamedPlaces, prefixes
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation
from lakeaudit.schemas import PARTITION

AXIS = "leftover"


def judge_watched(given: CheckInput) -> CheckResult:
    """Report folders in watched places that no table owns."""
    evidence = given.evidence
    watch, con = evidence.watch, evidence.con
    if watch is None:
        return NOTHING
    folders = given.matched.rows("watched_folders")
    grouped = duck.hold(con, prefixes(con, folders, watch.places, _named_places(evidence)))
    judged = duck.hold(con, group_verdicts(con, grouped, "watched", evidence.watch_policy))
    gaps = sources_with_gaps(given.matched.holes)
    able = availability(evidence.observed.sources, _facts(evidence), (), gaps, evidence.stamp.as_of)
    rows = _coverage(evidence, _tallies(con, judged), replace(able, overtaken=evidence.memory.overtaken))
    return CheckResult(
        (_findings(evidence, judged),), coverage_rows=tuple(rows), storage_cuts=able.storage_cuts
    )


def _named_places(evidence: Evidence) -> NamedPlaces:
    pointed, watched = evidence.pointed, [place.location for place in evidence.watched]
    own = [each for each in evidence.lake.own_places if not any(each.contains(place) for place in watched)]
    named = [
        t.location for catalog in evidence.observed.catalogs for t in catalog.tables if t.location is not None
    ]
    return NamedPlaces(
        [table.location for table in evidence.lake.tables],
        [*named, *own],
        pointed.partitions if pointed else PARTITION.empty_table(),
        bool(_gap(evidence)),
    )


def _gap(evidence: Evidence) -> str:
    """Return why a catalog may have a table although its answers do not name it; "" if they are complete."""
    return evidence.pointed.gap if evidence.pointed else ""


def _facts(evidence: Evidence) -> list[TableFacts]:
    return [TableFacts(place) for place in evidence.watched]


def _tallies(con: Connection, judged: Relation) -> Tallies:
    """Count files by outcome: those of the prefixes, and the ignored, too young and undecided ones."""
    by_outcome = """
        SELECT judged_table, axis, unnest([
            {'outcome': outcome, 'files': files, 'bytes': bytes}, {'outcome': 'ignored', 'files': skipped, 'bytes': 0},
            {'outcome': 'out_of_window', 'files': young, 'bytes': 0},
            {'outcome': 'undecided', 'files': unsure, 'bytes': 0}], recursive := true)
        FROM input
    """
    sql = """
        SELECT judged_table, axis, outcome, CAST(sum(files) AS BIGINT) AS files, CAST(sum(bytes) AS BIGINT) AS bytes,
            CAST(0 AS BIGINT) AS unconfirmed, CAST(0 AS BIGINT) AS refuted
        FROM input WHERE files > 0 GROUP BY ALL
    """
    return tallies_of(duck.query(con, sql, input=duck.query(con, by_outcome, input=judged)))


def _findings(evidence: Evidence, judged: Relation) -> Relation:
    con = evidence.con
    rows = duck.query(con, "SELECT * FROM input WHERE outcome = 'finding'", input=judged)
    time = "strftime({}, '%Y-%m-%dT%H:%M:%SZ')".format
    columns = {
        "subject_type": "'prefix'",
        "subject": uri("bucket", "key"),
        "bytes_at_stake": "bytes",
        "storage_time": "newest",
        "confirmation": "'not_needed'",
        "recoverable": "'unknown'",
        "explanation": f"""concat_ws('; ',
            'files: ' || files, 'the names are those of a ' || format || ' table', {because()},
            'written from ' || {time("oldest")} || ' to ' || {time("newest")},
            'such as ' || array_to_string(examples, ', '), 'storage as of ' || {time("cut")})""",
    }
    return finished(con, rows, columns, evidence.stamp)


def _coverage(evidence: Evidence, tallies: Tallies, able: coverage.Availability) -> list[dict[str, Any]]:
    """Return one coverage row for each watched place, of its only axis."""
    able = replace(able, reasons={"storage": "no storage source covers the watched place"})
    stamp = evidence.stamp
    rows = coverage.rows(_facts(evidence), tallies, able, stamp.run_id, stamp.lake, (AXIS,))
    places = {place.name: place.location for place in evidence.watched}
    return [_with_partial_status(evidence, row, places[row["table_name"]]) for row in rows]


def _with_partial_status(evidence: Evidence, row: dict[str, Any], place: Location) -> dict[str, Any]:
    """Return the row, with status `partial` if the place could not be judged completely."""
    decides = deciding_places(evidence.observed.sources.storage)
    in_part = "storage sources cover only parts of the watched place"
    reason = _gap(evidence) if label_around(decides, place) else in_part
    whole = row["status"] == "complete"
    return {**row, "status": "partial", "reason": reason} if whole and reason else row
