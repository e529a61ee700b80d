"""Recheck: suspects judged a second time, by all that can clear them.

Gaps, assumed vacuums, the ceiling, the live check and the tables' newest states can clear a suspect, never make one.
"""

from collections.abc import Collection, Sequence

import pyarrow as pa

from lakeaudit.compare.apply_gaps import doubted, with_gaps, with_vacuums
from lakeaudit.compare.ceiling import BAD, Trial, losses
from lakeaudit.compare.evidence_for_tables import means
from lakeaudit.kinds import LIVE_AXES
from lakeaudit.ledger.axis_observation import evidence_at
from lakeaudit.pipeline import live_check
from lakeaudit.pipeline.absence_sampling import sample_absences, source_of
from lakeaudit.pipeline.audit_context import AuditContext
from lakeaudit.pipeline.read_sources import changes
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation, Rows
from lakeaudit.schemas import ASKED, LIVE, plain_time

FRESH = "NOT suspected AND known_as IS NULL"
"""SQL: a row is of a fresh file; all others are suspects, or open in the ledger."""


def second_reading(
    audit: AuditContext,
    suspects: Rows,
    fresh: Rows,
    claimed: Rows,
    holed: Collection[str],
    vacuumed: Collection[str],
) -> tuple[Relation, list[Trial], pa.Table]:
    """Suspects judged again with all that is known by now, the trials of sources that lack too much, live answers.

    Args:
        audit: the run.
        suspects: verdict rows with known_as, known_at and suspected.
        fresh: the same of files too young for the evidence, which are looked at all the same.
        claimed: how many files each source should hold of each table, see `kernel.claimed_of_sources`.
        holed: ids of sources with gaps.
        vacuumed: tables whose absent history an unlogged VACUUM explains.
    """
    con = audit.con
    named = (
        "SELECT *, NULL::VARCHAR AS related_key, s_older_version_id IS NOT NULL AS versions_known FROM input"
    )
    marked = with_gaps(con, duck.made_of(con, named, duck.union(con, [suspects, fresh])), holed)
    marked = duck.hold(con, with_vacuums(con, marked, vacuumed))
    # a gap in storage is answered by a live 404, so it must not keep a suspect from being looked at
    hopeful = duck.made_of(con, "SELECT * REPLACE (false AS h_storage), h_storage AS held FROM input", marked)
    hopeful = duck.hold(con, audit.judge_again(hopeful))
    trials = sample_absences(audit, hopeful, claimed)
    marked = doubted(con, marked, trials)
    keys = _keys_to_look_at(audit, hopeful, trials)
    if not keys.num_rows:
        return (
            by_second_cut(con, audit.judge_again(marked), _cuts_of_axes(audit)),
            trials,
            LIVE.empty_table(),
        )
    answers = audit.look(keys)
    answered = live_check.with_answers(con, marked, answers)
    let_go = _let_go(audit, duck.hold(con, audit.judge_again(answered)))
    twice = by_second_cut(con, let_go, _cuts_of_axes(audit))
    return by_sample(audit, twice, losses(trials)), trials, answers


def by_second_cut(con: Connection, rows: Rows, cuts: Rows) -> Relation:
    """What nobody could look at is confirmed by a picture that is newer than the one that showed it first.

    The ledger goes by the oldest picture that the axis of the table is judged by: `cuts` (judged_table, axis, cut_at).
    """
    sql = """
        SELECT input.* REPLACE (CASE WHEN outcome = 'finding' AND l_confirmation <> 'live'
            AND known_at < least(s_from, CASE WHEN axis = 'metastore' THEN m_from END, cut_at)
            THEN 'second_cut' ELSE l_confirmation END AS l_confirmation)
        FROM input LEFT JOIN cuts USING (judged_table, axis)
    """
    return duck.made_of(con, sql, rows, cuts=cuts)


_CUTS = pa.schema([("judged_table", pa.string()), ("axis", pa.string()), ("cut_at", pa.timestamp("us"))])


def _cuts_of_axes(audit: AuditContext) -> pa.Table:
    able = means(audit.observed.evidence, audit.facts_in_scope, (), ())
    places = [(fact.table.name, axis) for fact in audit.facts_in_scope for axis in LIVE_AXES]
    return duck.small(_CUTS, [(*place, plain_time(evidence_at(*place, able))) for place in places])


def by_sample(audit: AuditContext, rows: Rows, lost: Sequence[Trial]) -> Relation:
    """Of a mass loss the sample speaks for what was beyond the limit of live looks: it is one loss, and told as one."""
    of_these = [
        f"(judged_table = {duck.literal(trial.missing.table)} AND {source_of()} = {duck.literal(trial.missing.source)})"
        for trial in lost
    ]
    spoken_for = f"outcome = 'finding' AND l_confirmation = 'limit' AND ({' OR '.join(of_these) or 'false'})"
    confirmation = f"CASE WHEN {spoken_for} THEN 'sample' ELSE l_confirmation END AS l_confirmation"
    sql = f"SELECT * REPLACE ({confirmation}) FROM input"
    return duck.made_of(audit.con, sql, rows)


def _keys_to_look_at(audit: AuditContext, suspects: Rows, trials: Sequence[Trial]) -> pa.Table:
    """The keys of the live check, worst first, within each table's limit and the lake's.

    Where a sample has shown that the evidence is bad, nothing more of the table is looked at.
    """
    limits = audit.limits(without=[trial.missing.table for trial in trials if trial.verdict == BAD])
    if not limits:
        return ASKED.empty_table()
    con = audit.con
    ranked = live_check.limited(con, suspects, limits)
    worst = live_check.candidates(con, ranked, audit.lake.settings.confirm.limit)
    of_tables = f"{FRESH} AND judged_table IN ({duck.literals([*limits])})"
    fresh = duck.made_of(con, f"SELECT bucket, key FROM input WHERE {of_tables}", suspects)
    footers = [table.name for table in audit.scope if table.settings.confirm.mode == "footer"]
    return live_check.with_claims(con, worst, fresh, suspects, footers)


def _let_go(audit: AuditContext, suspects: Relation) -> Relation:
    """Suspects whose table has moved on since it was read are no findings any more."""
    looked_at = f"outcome = 'finding' AND axis IN ({duck.literals(LIVE_AXES)})"
    if not duck.count_of(duck.made_of(audit.con, f"FROM input WHERE {looked_at} LIMIT 1", suspects)):
        return suspects  # nothing that a newer state could take back
    for newer in changes(audit.observed, audit.lake, audit.context):
        unsure = duck.literals([*newer.unsure])
        sql = f"""
            SELECT suspects.* REPLACE (CASE
                WHEN {looked_at} AND touched.bucket IS NOT NULL THEN 'moved_on'
                WHEN {looked_at} AND coalesce(judged_table IN ({unsure}), false) THEN 'undecided'
                ELSE outcome END AS outcome)
            FROM suspects LEFT JOIN (SELECT DISTINCT bucket, key FROM newer) touched USING (bucket, key)
        """
        suspects = duck.hold(audit.con, duck.query(audit.con, sql, suspects=suspects, newer=newer.rows))
    return suspects
