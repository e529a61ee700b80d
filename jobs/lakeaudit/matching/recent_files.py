"""Selects recent files: claims that the evidence cannot judge, a limited number of which is checked live. Pure.

A storage report does not contain files that were committed after it began; the listings of a live audit do not contain
files outside of the tables' folders. A live check can judge them: a young file as soon as its grace period is over.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa

from lakeaudit.matching.verdicts import FindingPolicy, with_outcome
from lakeaudit.rules import file_rules
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation, Rows

YOUNG = (
    *(rule.id for rule in file_rules.CONTENT if rule.verdict == file_rules.OUT),
    *file_rules.UNSETTLED,
)
"""Rules of the content axis for files that are too young for this evidence, or were written again since it."""

OUTSIDE = tuple(rule.id for rule in file_rules.CONTENT if rule.verdict == file_rules.UNCOVERED)
"""Rules of the content axis for files that no storage source covers."""

SPARE = 2
"""The factor by which a share exceeds its part, because keys are not spread evenly."""


@dataclass(frozen=True)
class RecentFileLimits:
    """Limits for the live check of recent files: plain data that travels to the tasks.

    `limits` are by table, `limit` is for all tables together. `now` is the run's clock reading, without a zone.
    `outside`: include listed files that no storage source covers.
    """

    now: datetime
    limits: Mapping[str, int]
    limit: int
    outside: bool = False

    @property
    def condition(self) -> str:
        """Return SQL over rows with `rule_content` for whether a claim may be checked live."""
        young = f"""rule_content IN ({duck.literals(YOUNG)}) AND c_state = 'live'
            AND c_claimed_at + t_grace <= {duck.literal(self.now)}"""
        outside = f"rule_content IN ({duck.literals(OUTSIDE)}) AND c_state IN ('live', 'history')"
        either = f"(({young}) OR ({outside}))" if self.outside else f"({young})"
        return f"{either} AND coalesce(c_certain, false)"


def fresh_claims(
    con: Connection,
    fired_rules: Rows,
    policy: FindingPolicy,
    known: Rows,
    look: RecentFileLimits,
    shares: int,
) -> Relation:
    """Return VERDICT rows of recent files to check live; one share's part.

    Files with an open discrepancy are left out: they are checked anyway.
    """
    names = ", ".join(f"rule_{axis}" for axis in file_rules.PAIR_AXES)
    sql = f"""
        SELECT * FROM (
            SELECT * EXCLUDE ({names}), 'content' AS axis, table_name AS judged_table, rule_content AS rule,
                c_claimed_at AS manifest_claimed_at,
                NULL::VARCHAR AS known_as, NULL::TIMESTAMP AS known_at, false AS suspected
            FROM fired
            WHERE {look.condition})
        ANTI JOIN known USING (axis, judged_table, bucket, key)
    """
    young = duck.query(con, sql, fired=fired_rules, known=known)
    most = look.limit if shares <= 1 else min(look.limit, SPARE * look.limit // shares + 1)
    # buffered: mostly there are none, and then the statement of the outcomes is not planned
    return with_outcome(con, duck.hold(con, fairly(con, young, look, most)), policy)


def fairly(con: Connection, rows: Rows, look: RecentFileLimits, most: int | None = None) -> Relation:
    """Return at most `most` rows (None: the limit for all), in turn from every table and within its limit."""
    limits = duck.small(_LIMITS, list(look.limits.items()))
    drawn = "hash(bucket, key)"
    sql = f"""
        SELECT * EXCLUDE (table_limit, turn) FROM (
            SELECT rows.*, table_limit,
                row_number() OVER (
                    PARTITION BY judged_table ORDER BY c_state = 'live' DESC, {drawn}, bucket, key) AS turn
            FROM rows JOIN limits USING (judged_table))
        WHERE turn <= table_limit
        QUALIFY row_number() OVER (ORDER BY turn, {drawn}, bucket, key, judged_table)
            <= {look.limit if most is None else most}
    """
    return duck.query(con, sql, rows=rows, limits=limits)


_LIMITS = pa.schema([("judged_table", pa.string()), ("table_limit", pa.int64())])
