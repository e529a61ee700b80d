"""Defines the stages that tasks run: they take all rows of some keys and return tallies, suspects and selections.

They use Arrow and DuckDB, but neither Spark nor clients. The three stages receive the rows of one key, of one group of
selected rows, and of one parent folder. The last stage runs only if a metadata store has a tree of folders.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from lakeaudit.collect.match_result import SMALL_FILE
from lakeaudit.evidence.protocol import Batches, RoutedStage, Stage
from lakeaudit.findings import coverage
from lakeaudit.findings.finding_rows import leftover_row
from lakeaudit.matching import metastore_tree
from lakeaudit.matching.leftovers import folders_of_logs, nested_roots
from lakeaudit.matching.pairs import Kinds, pairs
from lakeaudit.matching.prefix_match import attach_label
from lakeaudit.matching.recent_files import OUTSIDE, fairly, fresh_claims
from lakeaudit.matching.share import Combine, Select, Share, TaskFacts, uncleared, within
from lakeaudit.matching.verdicts import candidates, settled
from lakeaudit.rules.classify import apply_rules
from lakeaudit.rules.file_facts import ALL_FACTS
from lakeaudit.rules.file_rules import PAIR_AXES
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation, Rows
from lakeaudit.schemas import ENTRY


@dataclass(frozen=True)
class Kernel:
    """The plain data and the functions of the checks that the tasks of a run receive in addition to rows."""

    facts: TaskFacts
    selects: Sequence[Select]
    combines: Sequence[Combine]
    routes: Mapping[str, str]
    """The routes of rows that `selects` pass on to `combines`."""

    @property
    def stages(self) -> Sequence[Stage]:
        """Return the stages in order."""
        return [
            RoutedStage(partial(judge_keys, self), self.routes),
            RoutedStage(partial(judge_groups, self), self.routes),
            *([partial(judge_children, self.facts)] if self.facts.metastores else []),
        ]


def judge_keys(kernel: Kernel, con: Connection, rows: Kinds) -> Batches:
    """Judge all rows of some keys, and yield the rows that checks select."""
    matched = apply_rules(con, pairs(con, rows, kernel.facts.sources), ALL_FACTS, PAIR_AXES)
    share = Share(kernel.facts, con, rows, duck.hold(con, matched))
    yield from verdict_rows(share)
    yield from table_rows(share)
    for select in kernel.selects:
        yield from select(share)
    if kernel.facts.metastores:
        yield from tree_rows(share)


def verdict_rows(share: Share) -> Batches:
    """Yield tallies of settled files, suspects, unused files, and recent files that may be looked up."""
    con, facts = share.con, share.facts
    yield "tallies", settled(con, share.requested, facts.policy, share.open_rows)
    if facts.recent:
        recent = (share.requested, facts.policy, share.open_rows, facts.recent, share.number_of_shares)
        yield "young", fresh_claims(con, *recent)
    judged = duck.hold(con, candidates(con, share.requested, facts.policy, share.open_rows))
    certain = duck.made_of(con, f"SELECT * FROM input WHERE {_SETTLED}", judged)
    yield "tallies", coverage.count(con, certain)
    yield "suspects", duck.made_of(con, f"SELECT * FROM input WHERE NOT {_SETTLED}", judged)
    unused = "axis = 'leftover' AND outcome = 'finding'"
    yield "leftovers", leftover_row(con, duck.made_of(con, f"SELECT * FROM input WHERE {unused}", judged))


# a live check never changes the verdict on an unused file
_SETTLED = "(axis = 'leftover' OR (NOT suspected AND known_as IS NULL))"


def table_rows(share: Share) -> Batches:
    """Yield sums and locations by table."""
    con = share.con
    yield "nested", nested_roots(con, share.pairs)
    yield "logs_seen", folders_of_logs(con, duck.query(con, _PRESENT, input=share.pairs))
    yield "live_totals", live_totals(con, share.pairs)
    yield "outside", outside_places(con, share.requested)
    yield "removals", removals(con, share.claimed)
    yield "claimed", claimed_of_sources(con, share.pairs)
    if share.facts.partitions:
        named = attach_label(con, share.pairs, share.facts.partitions, "partition_uri")
        yield "partitions", duck.query(con, "SELECT DISTINCT partition_uri FROM input", input=named)


_PRESENT = "SELECT bucket, key FROM input WHERE s_presence = 'present'"


def tree_rows(share: Share) -> Batches:
    """Yield entries of metadata stores with a tree of folders, and the folders in storage."""
    con, rows = share.con, share.rows
    entries = uncleared(con, duck.relation(con, rows.get("entries", ENTRY.empty_table())), rows)
    entries = metastore_tree.of_trees(con, entries, share.facts.sources)
    yield "etag_habits", metastore_tree.etag_habits(con, entries)
    yield "tree", metastore_tree.tree_rows(con, entries, share.pairs, share.facts.sources)
    yield "parents", metastore_tree.parent_rows(con, entries)
    yield "folders", metastore_tree.folder_rows(con, share.pairs)
    yield from ((kind, rows[kind]) for kind in ("folders", "siblings") if kind in rows)


def judge_groups(kernel: Kernel, con: Connection, rows: Kinds) -> Batches:
    """Combine selected rows of one group, and join entries with their folders."""
    for combine in kernel.combines:
        yield from combine(kernel.facts, con, rows)
    if "young" in rows and kernel.facts.recent:
        yield "fresh", fairly(con, rows["young"], kernel.facts.recent)
    if "tree" in rows:
        folders = rows.get("folders", metastore_tree.FOLDERS.empty_table())
        yield "children", metastore_tree.with_folders(con, rows["tree"], folders)
    yield from ((kind, rows[kind]) for kind in ("parents", "siblings") if kind in rows)


def judge_children(facts: TaskFacts, con: Connection, rows: Kinds) -> Batches:
    """Judge all entries of some folders, with the folders' own entries."""
    parents = rows.get("parents", _PARENTS.empty_table())
    if "siblings" in rows:
        of_siblings = metastore_tree.sibling_tallies(
            con, rows["siblings"], parents, facts.sources, facts.policy
        )
        yield "siblings_judged", of_siblings
    if "children" not in rows:
        return
    judged = metastore_tree.tree_verdicts(con, rows["children"], parents, facts.sources, facts.policy)
    judged = duck.hold(con, within(con, judged, facts))
    finding = "outcome IN ('finding', 'ignored')"
    settled = duck.query(con, f"SELECT * FROM input WHERE NOT {finding}", input=judged)
    yield "tree_tallies", coverage.count_others(con, settled, "size", "source", "mostly_etags")
    yield "tree_suspects", duck.query(con, f"SELECT * FROM input WHERE {finding}", input=judged)


_PARENTS = pa.schema(
    [
        *[("source", pa.string()), ("bucket", pa.string()), ("key", pa.string())],
        *[(name, pa.bool_()) for name in ("parent_is_tombstone", "parent_is_file", "parent_there")],
        ("parent_touched_at", pa.timestamp("us")),
    ]
)


def removals(con: Connection, claimed: Rows) -> Relation:
    """Return by table the removals that an unlogged VACUUM would explain.

    Columns: table_name, present_from, absent_until, absent_files, expired_files.

    `present_from` is about removed files that storage has, the other columns about those that it lacks. An expired
    file was removed longer before the cutoff than the retention. The rows come from `share.under_own_root`, because a
    VACUUM deletes only below its own table's root.
    """
    absent = "c_state = 'history' AND s_presence = 'absent' AND NOT c_explained"
    sql = f"""
        SELECT table_name, min(c_removed_at) FILTER (s_presence = 'present') AS present_from,
            max(c_removed_at) FILTER ({absent}) AS absent_until, count(*) FILTER ({absent}) AS absent_files,
            count(*) FILTER ({absent} AND c_removed_at + o_retention <= s_from - s_margin) AS expired_files
        FROM input WHERE own AND c_state IN ('history', 'gone') AND c_removed_at IS NOT NULL GROUP BY table_name
    """
    return duck.query(con, sql, input=claimed)


def live_totals(con: Connection, matched: Rows) -> Relation:
    """Return the data files of the newest states by table, see `ANSWERS`; a repeated entry counts twice.

    Bytes are null if the size of a file is unknown, and rows if the number of its rows is.
    """
    small = f"FILTER (c_size < {SMALL_FILE})"
    sql = f"""
        SELECT table_name, CAST(sum(c_listed) AS BIGINT) AS files,
            CASE WHEN count(c_size) = count(*) THEN CAST(sum(c_size * c_listed) AS BIGINT) END AS bytes,
            CASE WHEN count(c_records) = count(*) THEN CAST(sum(c_records * c_listed) AS BIGINT) END AS rows,
            CAST(coalesce(sum(c_listed) {small}, 0) AS BIGINT) AS small_files,
            CAST(coalesce(sum(c_size * c_listed) {small}, 0) AS BIGINT) AS small_bytes
        FROM input WHERE c_state = 'live' AND category = 'data' AND c_listed IS NOT NULL GROUP BY table_name
    """
    return duck.query(con, sql, input=matched)


def outside_places(con: Connection, fired_rules: Rows) -> Relation:
    """Return listed files that no storage source covers: table_name, bucket, owner, first_key, last_key, files."""
    sql = f"""
        SELECT table_name, bucket, owner, min(key) AS first_key, max(key) AS last_key, count(*) AS files
        FROM input WHERE rule_content IN ({duck.literals(OUTSIDE)}) GROUP BY table_name, bucket, owner
    """
    return duck.query(con, sql, input=fired_rules)


def claimed_of_sources(con: Connection, matched: Rows) -> Relation:
    """Return how many files of each table a source should hold by other roles: judged_table, source, files."""
    # the table that claims a file judges its content; the table that owns the location judges its entry
    sql = """
        WITH each AS (
            SELECT s_source, m_source, s_presence = 'present' AS stored, s_presence = 'absent' AS absent,
                coalesce(m_state IN ('file', 'named', 'opaque'), false) AS entered, m_state = 'none' AS unentered,
                coalesce(c_state IN ('live', 'history'), false) AS listed,
                unnest(list_distinct([table_name, owner])) AS judged_table
            FROM input),
        wanted AS (
            SELECT judged_table, s_source AS source FROM each WHERE (stored OR absent) AND (listed OR entered)
            UNION ALL SELECT judged_table, m_source FROM each WHERE stored AND (entered OR unentered))
        SELECT judged_table, source, count(*) AS files FROM wanted
        WHERE judged_table IS NOT NULL AND source IS NOT NULL GROUP BY judged_table, source
    """
    return duck.query(con, sql, input=matched)
