"""Judges groups of tables alone, so that losses can be shown before all tables of an audit are read.

The audit still judges all tables together afterwards: files that tables share, moves between tables and copies are
known only then. What a preview shows is a loss of a table by the table's own log and location, which other tables
cannot refute.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from lakeaudit.config import Table
from lakeaudit.errors import AuditError
from lakeaudit.kinds import SERIOUS
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation
from lakeaudit.runtime.progress import Progress, StageLog, Work

FIRST, GROWTH, MOST_TABLES = 4, 4, 64
"""Tables of the first group, how many times larger each next group is, and the most tables of a group."""

Row = dict[str, Any]


@dataclass(frozen=True)
class Preview:
    """Shows the findings of each group, as rows of `serious`; no group is begun after `goes_on` has returned false."""

    show: Callable[[StageLog, Sequence[Row]], None]
    goes_on: Callable[[], bool] = lambda: True


def show_groups(
    tables: Sequence[Table],
    most: int | None,
    judge_alone: Callable[[Sequence[Table]], Sequence[Row]],
    preview: Preview,
    progress: Progress,
) -> None:
    """Judge groups of up to `most` tables and show their findings; for the last group the audit itself is as quick.

    A group that cannot be read ends the preview: the audit itself reports the reason.
    """
    first = [*groups(tables, most)][:-1]
    if not first:
        return
    judged = 0
    with progress.stage("judge tables") as log:
        log.watch(lambda: Work(judged, len(tables), "tables"))
        for group in first:
            if not preview.goes_on():
                break
            try:
                rows = judge_alone(group)
            except AuditError:
                break
            judged += len(group)
            preview.show(log, rows)
        log.note(tables=judged)


def groups(tables: Sequence[Table], most: int | None) -> Iterator[list[Table]]:
    """Yield groups of tables, small ones first; a table is in the same group as the tables inside of its location.

    Groups grow up to `most` tables; None: without a limit, so that there are few.
    """
    group: list[Table] = []
    enough = FIRST
    for family in _families(tables):
        if len(group) >= enough:
            yield group
            group, enough = [], min(enough * GROWTH, most or len(tables))
        group += family
    if group:
        yield group


def _families(tables: Sequence[Table]) -> Iterator[list[Table]]:
    """Yield the tables at or inside of the location of an outermost table, in the order of locations."""
    family: list[Table] = []
    for table in sorted(tables, key=lambda each: (each.location.bucket, each.location.prefix)):
        if family and not family[0].location.contains(table.location):
            yield family
            family = []
        family.append(table)
    if family:
        yield family


def serious(con: Connection, findings: Relation) -> list[Row]:
    """Sum up the serious FINDINGS by table, kind, severity and `recoverable`, as `Results.totals`, with an example.

    Other findings may be about files that another table needs.
    """
    sql = f"""
        SELECT table_name, kind, severity, recoverable, CAST(count(*) AS BIGINT) AS findings,
            CAST(sum(files) AS BIGINT) AS files, CAST(sum(rows_at_stake) AS BIGINT) AS rows_at_stake,
            CAST(sum(bytes_at_stake) AS BIGINT) AS bytes_at_stake, min(recoverable_until) AS recoverable_until,
            min(owner) AS owner, NULL AS partition_path, min(subject) AS subject
        FROM input WHERE table_name IS NOT NULL AND severity IN ({duck.literals(SERIOUS)})
        GROUP BY table_name, kind, severity, recoverable
    """
    return duck.rows_of(duck.made_of(con, sql, findings))
