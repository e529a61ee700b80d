"""Resolutions: why a discrepancy ends, from a run's verdict on a subject that is not wrong any more."""

from lakeaudit.results.read import RETIRED
from lakeaudit.rules.rule import NONE
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation, Rows

RESTORED, REMOVED, MENDED, ACCEPTED = "restored", "reference_removed", "metastore_mended", "accepted"
RESOLUTIONS = (RESTORED, REMOVED, MENDED, ACCEPTED, RETIRED)
"""Resolutions. `reference_removed`: closed, and NOT restored. `retired`: not tracked on its own any more."""

_ORIGINAL_GONE = "('content.dropped', 'content.missing_metadata')"
"""SQL: rules of losses, which are consistent only for a copy whose original is lost too."""

OF_VERDICT = f"""CASE
    WHEN outcome = 'ignored' THEN '{ACCEPTED}'
    WHEN outcome = 'consistent' AND axis = 'metastore' THEN '{MENDED}'
    WHEN outcome = 'consistent' AND (starts_with(rule, 'content.history_') OR rule IN {_ORIGINAL_GONE})
        THEN '{REMOVED}'
    WHEN outcome = 'consistent' THEN '{RESTORED}' END"""
"""SQL: the resolution by a verdict row; null where the verdict is undecided."""

OF_CONTENT = """CASE WHEN outcome = 'consistent' AND rule = 'content.same_content' THEN 'content verified'
    WHEN outcome = 'consistent' AND rule = 'content.same' THEN 'content not verified' END"""
"""SQL: whether the existing file is known to have the recorded content, or only its size."""

OF_NO_VERDICT = f"""CASE
    WHEN axis = 'content' AND held.subject_type = 'file' AND coalesce(held.category <> 'log', true) THEN '{REMOVED}'
    WHEN starts_with(axis, 'metastore') THEN '{MENDED}'
    WHEN axis = 'commit' THEN '{REMOVED}'
    ELSE '{RESTORED}' END"""
"""SQL: the resolution without a verdict: a file that no table lists and no store has an entry for has none any more.

Columns read: axis, and the ledger row `held`.
"""


def resolutions(con: Connection, judged: Rows) -> Relation:
    """Return the run's resolutions of known subjects.

    Columns: discrepancy_id, n_resolution (null: undecided), n_live (checked live), n_words (see OF_CONTENT).

    Args:
        con: the connection that computes them.
        judged: verdict rows: known_as (null: not in the ledger), axis, rule, outcome, l_confirmation.
    """
    sql = f"""
        SELECT known_as AS discrepancy_id, {OF_VERDICT} AS n_resolution,
            coalesce(l_confirmation = 'live', false) AS n_live, {OF_CONTENT} AS n_words
        FROM input WHERE known_as IS NOT NULL AND outcome <> {duck.literal(NONE)}"""
    return duck.made_of(con, sql, judged)
