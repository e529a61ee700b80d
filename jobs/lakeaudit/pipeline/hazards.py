"""Hazards: live files that a lifecycle rule will delete or archive, per table and partition, from the tables' own logs.

Where no rule meets a table nothing is read but one configuration a bucket. The time of a claim stands for that of its
object, which was written a little before.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

import pyarrow as pa

from lakeaudit.config import Table
from lakeaudit.evidence.protocol import Claims, Fold, pieces
from lakeaudit.evidence.storage.lifecycle import ARCHIVES, Action, Lifecycle, in_places
from lakeaudit.formatting import number, second
from lakeaudit.kinds import KINDS
from lakeaudit.pipeline.engine import AuditEngine
from lakeaudit.pipeline.lifecycles import Lifecycles, unread_of
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Rows
from lakeaudit.schemas import CLAIM

WILL_EXPIRE = "will_expire"
PARTITIONS = 1000
"""Partitions of one table and rule that are told one by one; of more there is one row for the table."""

Finding = dict[str, Any]


@dataclass(frozen=True)
class Hazards:
    """Rows of FINDINGS, and what could not be told: rules that ask for tags, lifecycles that cannot be read."""

    rows: tuple[Finding, ...] = ()
    untold: tuple[str, ...] = ()


def lifecycles_of(tables: Sequence[Table], lifecycles: Lifecycles) -> list[Lifecycle]:
    """The lifecycle of every bucket that holds a table."""
    return lifecycles.of({table.location.bucket for table in tables if table.location.bucket})


def hazards(
    engine: AuditEngine, tables: Sequence[Table], claims: Sequence[Claims], lifecycles: Sequence[Lifecycle]
) -> Hazards:
    """What rules will do to the live files of these tables."""
    actions = in_places(lifecycles, [table.location for table in tables])
    sure = [action for action in actions if not action.tags]
    met = {t.name: t for t in tables if any(action.meets(t.location) for action in sure)}
    if not met:
        return Hazards(untold=tuple(_untold(lifecycles, actions)))
    rows = [each for read in claims for each in pieces(*read.rows)]
    stage = partial(_expiring, tuple(read.fold for read in claims), tuple(sure), tuple(met))
    found = [
        row for kind, batch in engine.run(rows, [stage]) if kind == "expiring" for row in batch.to_pylist()
    ]
    return Hazards(tuple(_findings(found, sure, met)), tuple(_untold(lifecycles, actions)))


def needs_logs(tables: Sequence[Table], lifecycles: Sequence[Lifecycle]) -> bool:
    """Whether any rule meets a table, so that its log has to be read."""
    return any(not a.tags for a in in_places(lifecycles, [table.location for table in tables]))


def _untold(lifecycles: Sequence[Lifecycle], actions: Sequence[Action]) -> Iterator[str]:
    for each in lifecycles:
        if each.unread:
            yield unread_of(each)
    for bucket, rule in sorted({(action.below.bucket, action.rule) for action in actions if action.tags}):
        yield f"rule {rule} of s3://{bucket} asks for tags of objects: which live files it concerns cannot be told"


def _expiring(
    folds: Sequence[Fold],
    actions: Sequence[Action],
    tables: Sequence[str],
    con: Connection,
    rows: Mapping[str, Rows],
) -> Iterator[tuple[str, Rows]]:
    """By table, partition and rule how many live files it concerns, and when the oldest and the newest were claimed."""
    folded = [duck.conform(con, fold(con, rows), CLAIM) for fold in folds]
    live = duck.union(con, [CLAIM.empty_table(), *folded])
    sql = """
        SELECT table_name, partition_path, number, count(*) AS files, CAST(coalesce(sum(c.size), 0) AS BIGINT) AS bytes,
            CAST(coalesce(sum(records), 0) AS BIGINT) AS records, min(claimed_at) AS oldest, max(claimed_at) AS newest
        FROM claims c JOIN actions a ON c.bucket = a.bucket AND starts_with(c.key, a.prefix)
            AND coalesce(c.size > larger_than, true) AND coalesce(c.size < smaller_than, true)
        WHERE state = 'live' AND table_name IN ({})
        GROUP BY table_name, partition_path, number
    """
    rules = duck.small(_ACTIONS, [(n, a.below.bucket, a.below.key, a.larger_than, a.smaller_than)
                                  for n, a in enumerate(actions)])  # fmt: skip
    yield (
        "expiring",
        duck.query(con, sql.format(duck.literals(tables)), claims=duck.hold(con, live), actions=rules),
    )


_ACTIONS = pa.schema(
    [
        ("number", pa.int64()),
        *[(name, pa.string()) for name in ("bucket", "prefix")],
        *[(name, pa.int64()) for name in ("larger_than", "smaller_than")],
    ]
)


def _findings(
    found: Sequence[Mapping[str, Any]], actions: Sequence[Action], tables: Mapping[str, Table]
) -> Iterator[Finding]:
    groups: dict[tuple[str, int], dict[str, list[Mapping[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    for row in found:
        groups[row["table_name"], row["number"]][row["partition_path"] or ""].append(row)
    for (name, at), partitions in sorted(groups.items()):
        if _on_purpose(actions[at], tables[name]):
            continue
        merged = (
            partitions if len(partitions) <= PARTITIONS else {"": [r for p in partitions.values() for r in p]}
        )
        for partition, rows in sorted(merged.items()):
            yield _finding(tables[name], partition, actions[at], rows)


def _on_purpose(action: Action, table: Table) -> bool:
    """Whether the lake file says that files of that age are archived."""
    after = table.settings.archived.expected_after
    return (
        action.does == ARCHIVES
        and after is not None
        and action.days is not None
        and action.days >= after.days
    )


def _finding(table: Table, partition: str, action: Action, rows: Sequence[Mapping[str, Any]]) -> Finding:
    files = sum(row["files"] for row in rows)
    first = action.acts_at(min(row["oldest"] for row in rows))
    subject = "#".join(filter(None, (partition, WILL_EXPIRE, action.rule, action.does)))
    return {
        "table_name": table.name,
        "axis": KINDS[WILL_EXPIRE].axis,
        "kind": WILL_EXPIRE,
        "severity": table.severity_of(WILL_EXPIRE, "error"),
        "subject_type": "partition" if partition else "table",
        "subject": subject,
        "bucket": table.location.bucket,
        "partition_path": partition or None,
        "files": files,
        "rows_at_stake": sum(row["records"] for row in rows),
        "bytes_at_stake": sum(row["bytes"] for row in rows),
        "confirmation": "not_needed",
        "explanation": _words(action, files, first),
    }


def _words(action: Action, files: int, first: datetime | None) -> str:
    does = "archives" if action.does == ARCHIVES else "deletes"
    from_when = f", the first from {second(first)} on" if first else ""
    return (
        f"lifecycle rule {action.rule} of s3://{action.below.bucket} {does} objects below"
        f" s3://{action.below.bucket}/{action.below.key} {action.when}: {number(files, 'live file')}{from_when}"
    )
