"""Find live files that a lifecycle rule will delete or archive, per table and partition, from the tables' own logs.

Live files are data files, and the log files that readers of the newest state need; older log files may expire.

One configuration is read per bucket, and the logs of those tables for which a verdict depends on which files a rule
concerns. The time of a claim replaces that of its object, which was written a little earlier.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from os.path import commonprefix
from typing import Any

import pyarrow as pa

from lakeaudit.checks.hazards.expiring_files import Hazards, Row, action_row, hazards_of, merge, unread_row
from lakeaudit.collect.claim_lookups import query_claims
from lakeaudit.collect.lifecycles import Lifecycles, unread_of
from lakeaudit.config import Table
from lakeaudit.engine.local import AuditEngine
from lakeaudit.evidence.protocol import Claims
from lakeaudit.evidence.storage.lifecycle import Action, Lifecycle, in_places
from lakeaudit.keys import Location
from lakeaudit.matching.table_facts import TableFacts
from lakeaudit.matching.verdicts import FindingPolicy, group_verdicts
from lakeaudit.rules.file_rules import FACTS_OF, TABLES, facts_of, judge
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation, Rows
from lakeaudit.schemas import EXPIRING, plain_time

AXIS = "lifecycle"
NOWHERE: Mapping[str, Sequence[Location]] = {}


Places = Mapping[str, Sequence[Location]]
"""By table the folders outside its location that have live files of it: one per bucket."""


def places_elsewhere(rows: Iterable[Mapping[str, Any]]) -> Places:
    """Return folders with all live files of each table outside its location, from the rows of all shares."""
    ends: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        ends.setdefault((row["table_name"], row["bucket"]), []).extend((row["first_key"], row["last_key"]))
    places: dict[str, list[Location]] = {}
    for (table, bucket), keys in sorted(ends.items()):
        folder = commonprefix(keys).rpartition("/")[0]  # noqa: RUF071
        places.setdefault(table, []).append(Location(bucket, folder))
    return places


def lifecycles_of(
    tables: Sequence[Table], lifecycles: Lifecycles, elsewhere: Places = NOWHERE
) -> list[Lifecycle]:
    """Return the lifecycle of every bucket that has a table, or live files of a table."""
    buckets = {table.location.bucket for table in tables}
    buckets |= {place.bucket for table in tables for place in elsewhere.get(table.name, ())}
    return lifecycles.of(buckets - {""})


def hazards(
    engine: AuditEngine,
    con: Connection,
    facts: Sequence[TableFacts],
    claims: Sequence[Claims],
    lifecycles: Sequence[Lifecycle],
    policy: FindingPolicy,
    files: Mapping[str, int],
    elsewhere: Places = NOWHERE,
) -> Hazards:
    """Return what rules will do to the live files of these tables.

    Args:
        engine: reads the logs of tables that a rule concerns.
        con: where verdicts are computed.
        facts: the tables.
        claims: the claims of their manifests.
        lifecycles: the rules of their buckets.
        policy: the policy of the lake file for findings.
        files: by table how many files it lists: all are undecided if a rule filters by tags or cannot be read.
        elsewhere: other folders with live files of the tables.
    """
    places = {fact.table.name: (fact.table.location, *elsewhere.get(fact.table.name, ())) for fact in facts}
    actions = in_places(lifecycles, [place for each in places.values() for place in each])
    rows = list(_rows(facts, places, lifecycles, actions, files))
    open_ = [row for row in rows if _rests_on_files(row)]
    known = [row for row in rows if not _rests_on_files(row)]
    sums = [*_sums(engine, claims, open_, actions), *_of_logs(facts, open_, actions)] if open_ else []
    numbered = duck.small(
        _NUMBERED, [tuple(row[name] for name in _NUMBERED.names) for row in (*known, *sums)]
    )
    judged = duck.rows_of(group_verdicts(con, numbered, AXIS, policy))
    return hazards_of(judged, {fact.table.name: fact.table for fact in facts}, actions, files)


_NUMBERED = pa.schema([*EXPIRING, ("relative", pa.string())])


def needs_logs(facts: Sequence[TableFacts], lifecycles: Sequence[Lifecycle]) -> bool:
    """Return whether any rule concerns a table so that its log must be read."""
    places = {fact.table.name: (fact.table.location,) for fact in facts}
    actions = in_places(lifecycles, [place for each in places.values() for place in each])
    return any(map(_rests_on_files, _rows(facts, places, lifecycles, actions, {})))


def _rows(
    facts: Sequence[TableFacts],
    places: Places,
    lifecycles: Sequence[Lifecycle],
    actions: Sequence[Action],
    files: Mapping[str, int],
) -> Iterator[Row]:
    """Yield an EXPIRING row for each table and rule that concerns it, and for tables of a bucket of unknown rules."""
    unread = {each.bucket: unread_of(each) for each in lifecycles if each.unread}
    for fact in facts:
        name = fact.table.name
        for bucket in sorted({place.bucket for place in places[name]} & unread.keys()):
            yield unread_row(name, bucket, unread[bucket], files.get(name, 0))
        for number, action in enumerate(actions):
            if any(map(action.meets, places[name])):
                yield action_row(name, number, action, fact.archived_after, files.get(name, 0))


def _rests_on_files(row: Row) -> bool:
    """Return whether the row would be a finding if the rule concerned a file."""
    facts = facts_of({**row, "files": 1}, FACTS_OF[AXIS])
    return judge(TABLES[AXIS], facts).is_finding


def _sums(
    engine: AuditEngine, claims: Sequence[Claims], rows: Sequence[Row], actions: Sequence[Action]
) -> list[Row]:
    """Return these rows by partition with the live files that each concerns, without rows that concern no file."""
    tables = {row["judged_table"] for row in rows}
    of_action = {(row["judged_table"], row["number"]): row for row in rows}
    places = [
        (name, number, (at := actions[number]).below.bucket, at.below.key, at.larger_than, at.smaller_than)
        for name, number in of_action
    ]
    query = partial(_expiring, duck.small(_PLACES, places))
    sums = [row for batch in query_claims(engine, claims, tables, query) for row in batch.to_pylist()]
    return [
        of_action[row["table_name"], row["number"]]
        | {name: row[name] for name in row if name != "table_name"}
        for row in merge(sums)
    ]


def _of_logs(facts: Sequence[TableFacts], rows: Sequence[Row], actions: Sequence[Action]) -> Iterator[Row]:
    """Yield these rows with the files of the table's own log that each concerns."""
    of_name = {fact.table.name: fact for fact in facts}
    for row in rows:
        action = actions[row["number"]]
        needed = [
            file for file in of_name[row["judged_table"]].needed_log if action.concerns(file.place, file.size)
        ]
        if needed:
            yield row | {
                "files": len(needed),
                "bytes": sum(file.size for file in needed),
                "oldest": plain_time(min(file.written_at for file in needed)),
                "of_log": True,
            }


_PLACES = pa.schema(
    [
        *[
            ("table_name", pa.string()),
            ("number", pa.int64()),
            ("bucket", pa.string()),
            ("prefix", pa.string()),
        ],
        *[("larger_than", pa.int64()), ("smaller_than", pa.int64())],
    ]
)


def _expiring(places: pa.Table, con: Connection, claims: Rows) -> Relation:
    """Count the live files that each rule concerns by table and partition, with the time of the oldest claim.

    Bytes and records are null if those of a file are not known.
    """
    sql = """
        SELECT table_name, partition_path, number, count(*) AS files,
            CASE WHEN count(c.size) = count(*) THEN CAST(sum(c.size) AS BIGINT) END AS bytes,
            CASE WHEN count(records) = count(*) THEN CAST(sum(records) AS BIGINT) END AS records,
            min(claimed_at) AS oldest
        FROM claims c JOIN places p USING (table_name)
        WHERE state = 'live' AND c.bucket = p.bucket AND starts_with(c.key, p.prefix)
            AND coalesce(c.size > larger_than, true) AND coalesce(c.size < smaller_than, true)
        GROUP BY table_name, partition_path, number
    """
    return duck.query(con, sql, claims=claims, places=places)
