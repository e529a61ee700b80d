"""Samples absences: if too many files are missing, a sample is requested from storage first."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from lakeaudit.collect.evidence import Evidence
from lakeaudit.confirm import live_check
from lakeaudit.findings.absence_ceiling import ABSENCES, LEAST, Missing, SampleCheck, over_ceiling
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation, Rows

_GROUP = "judged_table, role, source"
_ROLE = "CASE kind " + " ".join(f"WHEN '{kind}' THEN '{role}'" for kind, role in ABSENCES.items()) + " END"

Counts = Mapping[tuple[str, str], int]


def sample_absences(evidence: Evidence, suspects: Rows, claimed: Rows) -> list[SampleCheck]:
    """Draw and check a sample for every source that lacks too many files of a table."""
    con = evidence.con
    if duck.are_few(suspects, LEAST):
        return []
    absent = duck.hold(con, _absent(con, suspects))
    counts = duck.rows_of(
        duck.query(con, f"SELECT {_GROUP}, count(*) AS files FROM input GROUP BY {_GROUP}", input=absent)
    )
    if sum(row["files"] for row in counts) < LEAST:
        return []
    should_hold = _counts_by_source(con, claimed, "sum(files)")
    labels = {info.id: f"{info.kind} {info.location}" for info in evidence.observed.infos}
    missing = [_missing(row, should_hold, labels) for row in counts]
    over = over_ceiling(missing, should_hold, evidence.lake.ceiling.share)
    may_look = evidence.limits()
    requested = [each for each in over if each.table in may_look]
    sample_checks = _check_samples(evidence, absent, requested) if requested else {}
    return [replace(sample_checks.get(_pool(m)) or SampleCheck(m), missing=m) for m in over]


def _pool(missing: Missing) -> tuple[str, str]:
    """Return the group from which the sample is drawn: a table, or several tables together."""
    return missing.among or missing.table, missing.source


def _missing(row: Mapping[str, Any], should_hold: Counts, labels: Mapping[str, str]) -> Missing:
    table, source = row["judged_table"], row["source"]
    of = max(row["files"], should_hold.get((table, source), 0))
    whole = row["files"] == of
    return Missing(table, source, row["role"], row["files"], of, labels[source], whole=whole)


def _check_samples(
    evidence: Evidence, absent: Rows, requested: Sequence[Missing]
) -> dict[tuple[str, str], SampleCheck]:
    con = evidence.con
    sample = duck.hold(
        con, draw_sample(con, absent, requested, evidence.lake.ceiling.sample, evidence.stamp.run_id)
    )
    answers = evidence.look(
        duck.table(duck.query(con, "SELECT DISTINCT bucket, key FROM input", input=sample))
    )
    bare = duck.query(con, "SELECT * EXCLUDE (role, source, pool) FROM input", input=sample)
    # held: DuckDB 2.0 fails to bind when it pushes the conditions that follow down into the rules
    judged = duck.hold(con, evidence.judge_again(live_check.with_answers(con, bare, answers)))
    again = _absent(con, judged)
    answered = """
        SELECT sample.* FROM sample SEMI JOIN (SELECT * FROM answers WHERE l_confirmation = 'live') live
            USING (bucket, key)
    """
    live = duck.query(con, "SELECT * FROM input WHERE l_confirmation = 'live'", input=again)
    frames = (sample, duck.query(con, answered, sample=sample, answers=answers), live)
    counts = [_by_pool(_counts_by_source(con, frame, "count(*)"), requested) for frame in frames]
    return {_pool(m): SampleCheck(m, *(count[_pool(m)] for count in counts)) for m in requested}


def _by_pool(counts: Counts, requested: Sequence[Missing]) -> Counter[tuple[str, str]]:
    found: Counter[tuple[str, str]] = Counter()
    for missing in requested:
        found[_pool(missing)] += counts.get((missing.table, missing.source), 0)
    return found


_WANTED = pa.schema([(name, pa.string()) for name in ("judged_table", "role", "source", "pool")])


def draw_sample(
    con: Connection, absent: Rows, requested: Sequence[Missing], size: int, seed: str
) -> Relation:
    """Draw up to `size` rows of each group (`pool`): in turn from each of its partitions, by the seed."""
    wanted = duck.small(_WANTED, [(m.table, m.role, m.source, _pool(m)[0]) for m in requested])
    drawn = f"md5({duck.literal(seed)} || chr(0) || bucket || chr(0) || key)"
    pool = "pool, role, source"
    sql = f"""
        SELECT * EXCLUDE (turn, drawn) FROM (
            SELECT *, row_number() OVER (PARTITION BY {pool}, judged_table, partition_path ORDER BY drawn, key) AS turn
            FROM (SELECT *, {drawn} AS drawn FROM absent JOIN wanted USING ({_GROUP})))
        QUALIFY row_number() OVER (PARTITION BY {pool} ORDER BY turn, drawn, key) <= {size}
    """
    return duck.query(con, sql, absent=absent, wanted=wanted)


def _absent(con: Connection, rows: Rows) -> Relation:
    """Return new findings of absence without a gap, with the role and the source that should contain the file."""
    sql = f"""
        SELECT * FROM (SELECT *, {_ROLE} AS role, {source_of()} AS source FROM input WHERE outcome = 'finding')
        WHERE role IS NOT NULL AND known_at IS NULL AND NOT (role = 'storage' AND held)
    """
    return duck.made_of(con, sql, rows)


def source_of() -> str:
    """Return SQL for the source that should contain the missing file; null for other findings."""
    return f"CASE {_ROLE} WHEN 'storage' THEN s_source WHEN 'metastore' THEN m_source END"


def _counts_by_source(con: Connection, rows: Rows, number: str) -> dict[tuple[str, str], int]:
    """Return counts by table and source."""
    sql = (
        f"SELECT judged_table, source, CAST({number} AS BIGINT) AS n FROM input GROUP BY judged_table, source"
    )
    return {
        (row["judged_table"], row["source"]): row["n"]
        for row in duck.rows_of(duck.query(con, sql, input=rows))
    }
