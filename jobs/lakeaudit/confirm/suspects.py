"""Confirms suspects: judges them again by everything that can clear them.

Gaps, assumed vacuums, the ceiling, the live check and the tables' newest states can clear a suspect, never add one.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from lakeaudit.collect.evidence import Evidence
from lakeaudit.collect.read_sources import changes
from lakeaudit.collect.source_facts import availability
from lakeaudit.confirm import live_check
from lakeaudit.confirm.absence_sampling import sample_absences, source_of
from lakeaudit.confirm.apply_gaps import with_doubted_sources, with_gaps, with_vacuums
from lakeaudit.confirm.collapsed_keys import under_single_slashes
from lakeaudit.confirm.incomplete_reports import incomplete_reports
from lakeaudit.confirm.replica_sources import without_vacuumed_originals
from lakeaudit.findings import coverage
from lakeaudit.findings.absence_ceiling import BAD, SampleCheck, losses
from lakeaudit.kinds import LIVE_AXES
from lakeaudit.ledger.axis_observation import evidence_at
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation, Rows
from lakeaudit.schemas import ASKED, LIVE, POINTED_OBJECT, RECHECKED, plain_time

FRESH = "NOT suspected AND known_as IS NULL"
"""SQL for whether a row is a recent file; other rows are suspects or open discrepancies."""


@dataclass(frozen=True)
class ConfirmResult:
    """Suspects judged again, the sample checks of sources that lack too many files, and the live answers.

    `not_rechecked` explains by table why its newest state could not be read again, if findings depend on it. `renamed`
    are objects (bucket, key) of files whose recorded keys have empty parts. `incomplete` explains by table why the
    deciding report is incomplete.
    """

    rows: Relation
    sample_checks: tuple[SampleCheck, ...]
    answers: pa.Table
    not_rechecked: Mapping[str, str] = field(default_factory=dict)
    incomplete: Mapping[str, str] = field(default_factory=dict)
    renamed: pa.Table = field(default_factory=POINTED_OBJECT.empty_table)


def confirm(
    evidence: Evidence,
    suspects: Rows,
    fresh: Rows,
    claimed: Rows,
    holed: Collection[str],
    vacuumed: Collection[str],
) -> ConfirmResult:
    """Judge suspects again with all evidence.

    Args:
        evidence: the evidence of the run.
        suspects: verdict rows with known_as, known_at and suspected.
        fresh: verdict rows of recent files, which are also checked live.
        claimed: the number of files of each table that each source should contain, see `kernel.claimed_of_sources`.
        holed: ids of sources with gaps.
        vacuumed: tables whose absent history an unlogged VACUUM explains.
    """
    con = evidence.con
    to_confirm = duck.union(con, [suspects, fresh])
    if duck.is_empty(to_confirm):
        return ConfirmResult(duck.relation(con, RECHECKED.empty_table()), (), LIVE.empty_table())
    named = """
        SELECT *, NULL::VARCHAR AS related_key, s_older_version_id IS NOT NULL AS versions_known,
            NULL::VARCHAR AS recheck_words
        FROM input
    """
    marked = with_gaps(con, duck.made_of(con, named, to_confirm), holed)
    marked = duck.hold(con, with_vacuums(con, marked, vacuumed))
    # a live 404 overrides a gap in storage, so a gap must not prevent the request
    hopeful = duck.made_of(con, "SELECT * REPLACE (false AS h_storage), h_storage AS held FROM input", marked)
    hopeful = duck.hold(con, evidence.judge_again(hopeful))
    sample_checks = tuple(sample_absences(evidence, hopeful, claimed))
    marked = with_doubted_sources(con, marked, sample_checks)
    keys = _keys_to_look_at(evidence, hopeful, sample_checks)
    if not keys.num_rows:
        rows = by_second_cut(con, evidence.judge_again(marked), _cuts_of_axes(evidence))
        return ConfirmResult(rows, sample_checks, LIVE.empty_table())
    answers = evidence.look(keys)
    unchecked = [table.name for table in evidence.scope if not evidence.confirms(table)]
    answered = duck.hold(con, evidence.judge_again(live_check.with_answers(con, marked, answers, unchecked)))
    renamed = under_single_slashes(evidence, without_vacuumed_originals(evidence, answered))
    current, not_rechecked = _by_newest_states(evidence, renamed.rows, marked)
    twice = by_second_cut(con, current, _cuts_of_axes(evidence))
    incomplete = incomplete_reports(evidence, marked, answers)
    rows = by_sample(evidence, twice, losses(sample_checks))
    return ConfirmResult(rows, sample_checks, answers, not_rechecked, incomplete, renamed.objects)


def by_second_cut(con: Connection, rows: Rows, cuts: Rows) -> Relation:
    """Confirm findings without a live answer by a snapshot that is newer than the one that showed them first.

    The ledger uses the oldest snapshot by which the table's axis is judged: `cuts` (judged_table, axis, cut_at).
    """
    sql = """
        SELECT input.* REPLACE (CASE WHEN outcome = 'finding' AND l_confirmation <> 'live'
            AND known_at < least(s_from, CASE WHEN axis = 'metastore' THEN m_from END, cut_at)
            THEN 'second_cut' ELSE l_confirmation END AS l_confirmation)
        FROM input LEFT JOIN cuts USING (judged_table, axis)
    """
    return duck.made_of(con, sql, rows, cuts=cuts)


_CUTS = pa.schema([("judged_table", pa.string()), ("axis", pa.string()), ("cut_at", pa.timestamp("us"))])


def _cuts_of_axes(evidence: Evidence) -> pa.Table:
    able = availability(evidence.observed.sources, evidence.facts_in_scope, (), (), evidence.stamp.as_of)
    places = [(fact.table.name, axis) for fact in evidence.facts_in_scope for axis in LIVE_AXES]
    return duck.small(_CUTS, [(*place, plain_time(evidence_at(*place, able))) for place in places])


def by_sample(evidence: Evidence, rows: Rows, lost: Sequence[SampleCheck]) -> Relation:
    """Confirm files of a mass loss beyond the limit of live checks by the sample: they are one loss."""
    of_these = [
        f"(judged_table = {duck.literal(check.missing.table)} AND {source_of()} = {duck.literal(check.missing.source)})"
        for check in lost
    ]
    spoken_for = f"outcome = 'finding' AND l_confirmation = 'limit' AND ({' OR '.join(of_these) or 'false'})"
    confirmation = f"CASE WHEN {spoken_for} THEN 'sample' ELSE l_confirmation END AS l_confirmation"
    sql = f"SELECT * REPLACE ({confirmation}) FROM input"
    return duck.made_of(evidence.con, sql, rows)


def _keys_to_look_at(evidence: Evidence, suspects: Rows, sample_checks: Sequence[SampleCheck]) -> pa.Table:
    """Return the keys of the live check, worst first, within each table's limit and the lake's.

    If a sample has shown that the evidence is wrong, no more files of the table are checked.
    """
    limits = evidence.limits(without=[check.missing.table for check in sample_checks if check.verdict == BAD])
    if not limits:
        return ASKED.empty_table()
    con = evidence.con
    ranked = live_check.limited(con, suspects, limits)
    worst = live_check.candidates(con, ranked, evidence.lake.settings.confirm.limit)
    of_tables = f"{FRESH} AND judged_table IN ({duck.literals([*limits])})"
    fresh = duck.made_of(con, f"SELECT bucket, key FROM input WHERE {of_tables}", suspects)
    footers = [table.name for table in evidence.scope if table.settings.confirm.mode == "footer"]
    return live_check.with_claims(con, worst, fresh, suspects, footers)


_LOOKED_AT = f"outcome = 'finding' AND axis IN ({duck.literals(LIVE_AXES)})"


def _by_newest_states(
    evidence: Evidence, suspects: Relation, by_cut: Rows
) -> tuple[Relation, Mapping[str, str]]:
    """Clear suspects that newer commits changed; also return the tables that could not be read again.

    `by_cut` are the same rows before storage answered, from the snapshots alone.
    """
    con = evidence.con
    if not duck.count_of(duck.made_of(con, f"FROM input WHERE {_LOOKED_AT} LIMIT 1", suspects)):
        return suspects, {}  # a newer state could clear none of them
    unread: dict[str, str] = {}
    for newer in changes(evidence.observed, evidence.lake, evidence.context):
        unread |= newer.unsure
        # a file that the readable part of the newest state lacks may be in the unreadable part
        read = f"NOT coalesce(table_name IN ({duck.literals([*newer.unsure])}), false)"
        sql = f"""
            SELECT suspects.* REPLACE (CASE WHEN {_LOOKED_AT} AND touched.bucket IS NOT NULL
                THEN 'moved_on' ELSE outcome END AS outcome)
            FROM suspects LEFT JOIN (
                SELECT DISTINCT bucket, key FROM newer WHERE {read}) touched USING (bucket, key)
        """
        suspects = duck.hold(con, duck.query(con, sql, suspects=suspects, newer=newer.rows))
    affected = f"SELECT DISTINCT judged_table FROM input WHERE {_LOOKED_AT}"
    left = {row["judged_table"] for row in duck.rows_of(duck.made_of(con, affected, suspects))}
    not_rechecked = {table: why for table, why in unread.items() if table in left}
    if not not_rechecked:
        return suspects, {}
    by_snapshots = duck.hold(con, evidence.judge_again(by_cut))
    return duck.hold(
        con, with_snapshot_findings_only(con, suspects, by_snapshots, not_rechecked)
    ), not_rechecked


def with_snapshot_findings_only(
    con: Connection, suspects: Rows, by_cut: Rows, reasons: Mapping[str, str]
) -> Relation:
    """Keep and mark only findings of the snapshots, for tables whose newest state could not be read again.

    The state was read after every snapshot, so a file that it lists and a snapshot lacks is lost. A loss that only the
    live check shows may be a VACUUM after a newer commit: it becomes undecided.

    Args:
        con: where the query runs.
        suspects: verdict rows after storage answered.
        by_cut: verdict rows from the snapshots alone.
        reasons: by table the reason why its newest state could not be read.
    """
    sql = f"""
        WITH shown AS (
            SELECT axis, judged_table, bucket, key, kind AS cut_kind, s_presence AS cut_presence
            FROM by_cut WHERE {_LOOKED_AT})
        SELECT suspects.* REPLACE (
            CASE WHEN NOT affected THEN outcome WHEN stays THEN outcome ELSE 'undecided' END AS outcome,
            CASE WHEN NOT affected OR l_confirmation = 'denied' THEN l_confirmation ELSE 'error' END AS l_confirmation,
            CASE WHEN affected THEN 'not rechecked: ' || why ELSE recheck_words END AS recheck_words)
        FROM (
            SELECT suspects.*, why, why IS NOT NULL AND {_LOOKED_AT} AS affected,
                coalesce(cut_presence = 'absent' OR cut_kind = kind, false) AS stays
            FROM suspects LEFT JOIN reasons ON judged_table = of_table
            LEFT JOIN shown USING (axis, judged_table, bucket, key)
        ) AS suspects
    """
    why_by_table = duck.small(
        _REASONS, [(table, coverage.not_rechecked(why)) for table, why in reasons.items()]
    )
    rows = duck.query(con, sql, suspects=suspects, by_cut=by_cut, reasons=why_by_table)
    return duck.made_of(con, "SELECT * EXCLUDE (why, affected, stays) FROM input", rows)


_REASONS = pa.schema([("of_table", pa.string()), ("why", pa.string())])
