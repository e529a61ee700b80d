"""The kernel: all rows of some keys in; tallies, suspects and leftovers out. Arrow and DuckDB, no Spark, no client.

Three stages, each given all rows that meet on one thing: a key; a group of equal contents or a key among folders; a
parent folder. The last two are asked for only what is configured.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from lakeaudit.checks import half_moved
from lakeaudit.checks.clones import cloned, under_own_root
from lakeaudit.checks.commits.commit_sums import changed_rows, rivals, whole_commits
from lakeaudit.checks.commits.commits import log_versions
from lakeaudit.checks.commits.repeated_batches import repeated
from lakeaudit.checks.lineage.marked_states import (
    marked_states,
    replaced_versions,
    state_files,
    with_older_versions,
)
from lakeaudit.checks.unnamed_file_fields import of_pairs
from lakeaudit.collect.partitions import uris
from lakeaudit.findings import coverage
from lakeaudit.findings.finding_rows import leftover_row
from lakeaudit.matching import duplicates, metastore_tree
from lakeaudit.matching.leftovers import folders_of_logs, nested_roots
from lakeaudit.matching.pairs import Kinds, SourceFacts, pairs
from lakeaudit.matching.prefix_match import Places, attach_label
from lakeaudit.matching.recent_files import OUTSIDE, RecentFileLimits, fairly, fresh_claims
from lakeaudit.matching.verdicts import FindingPolicy, candidates, fired, settled, with_outcome
from lakeaudit.matching.watched_folders import Watch, sum_unowned_folders, unowned_folders
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation, Rows
from lakeaudit.schemas import ENTRY, KNOWN, REPLACED, VERSION

if TYPE_CHECKING:
    from lakeaudit.collect.evidence import Evidence

Stage = Iterator[tuple[str, Rows]]


@dataclass(frozen=True)
class Kernel:
    """What the stages are given beside rows: plain data that travels to the tasks.

    `partitions` are the places that were asked for, with their URIs; empty: whole tables were. `metastores`: there is
    a metadata store with a tree of folders. `fresh` says how many
    files may be looked at that are too young for the evidence; None: none. `watch`: which places are watched for what
    no table owns; None: none.
    """

    sources: SourceFacts
    policy: FindingPolicy
    partitions: Places
    metastores: bool
    fresh: RecentFileLimits | None = None
    watch: Watch | None = None

    @property
    def stages(self) -> Sequence[partial[Stage]]:
        """The stages in their order."""
        by_group = partial(judge_groups, self)
        return [
            partial(judge_keys, self),
            by_group,
            *([partial(judge_children, self)] if self.metastores else []),
        ]


def kernel_of(evidence: "Evidence") -> Kernel:
    """Return what the tasks of a run need of its evidence."""
    trees = any(store.tree for store in evidence.observed.sources.metastores)
    places = uris(evidence.partitions)
    return Kernel(
        evidence.source_facts, evidence.policy, places, trees, evidence.recent_file_limits, evidence.watch
    )


def judge_keys(kernel: Kernel, con: Connection, rows: Kinds) -> Stage:
    """All rows of some keys: their verdicts, and what has to meet other keys."""
    matched = duck.hold(con, fired(con, pairs(con, rows, kernel.sources)))
    candidates_of_content = _within(con, matched, kernel)
    of_groups = (candidates_of_content, kernel.sources, kernel.policy.scope)
    yield "same", duplicates.same_content_candidates(con, *of_groups)
    yield "alike", duplicates.candidates_without_content(con, *of_groups)
    yield "moved", half_moved.candidates(con, *of_groups)
    if "settled_keys" in rows:
        matched = duck.hold(con, _unsettled(con, matched, rows["settled_keys"]))
    asked = _within(con, matched, kernel)
    known = rows.get("known", KNOWN.empty_table())
    yield "tallies", settled(con, asked, kernel.policy, known)
    yield "unnamed_fields", of_pairs(con, asked, known, kernel.policy.scope_table)
    if kernel.fresh:
        yield "young", fresh_claims(con, asked, kernel.policy, known, kernel.fresh, _shares(con, rows))
    judged = duck.hold(con, candidates(con, asked, kernel.policy, known))
    yield (
        "tallies",
        coverage.count(con, duck.made_of(con, f"SELECT * FROM input WHERE {_SETTLED}", judged)),
    )
    yield "suspects", duck.made_of(con, f"SELECT * FROM input WHERE NOT {_SETTLED}", judged)
    left = "axis = 'leftover' AND outcome = 'finding'"
    yield "leftovers", leftover_row(con, duck.made_of(con, f"SELECT * FROM input WHERE {left}", judged))
    yield "nested", nested_roots(con, matched)
    yield "logs_seen", folders_of_logs(con, duck.query(con, _PRESENT, input=matched))
    states = state_files(con, rows.get("versions", VERSION.empty_table()))
    older = with_older_versions(con, states)
    yield "log_versions", log_versions(con, older)
    yield "marked_states", marked_states(con, states, older, kernel.sources.read_states)
    yield "replaced_versions", replaced_versions(con, older)
    yield "live_totals", live_totals(con, matched)
    yield "outside", outside_places(con, asked)
    if kernel.watch:
        yield "watched", unowned_folders(con, matched, kernel.watch)
    yield from _commits(kernel, con, rows)
    claimed = under_own_root(con, matched, kernel.sources.homes)
    elsewhere = duck.hold(con, places_elsewhere(con, claimed))
    yield "elsewhere", elsewhere
    if not duck.is_empty(elsewhere):  # otherwise no table can be a clone
        yield "cloned", cloned(con, claimed, kernel.policy)
    yield "removals", removals(con, claimed)
    yield "claimed", claimed_of_sources(con, matched)
    if kernel.partitions:
        named = attach_label(con, matched, kernel.partitions, "partition_uri")
        yield "partitions", duck.query(con, "SELECT DISTINCT partition_uri FROM input", input=named)
    if kernel.metastores:
        entries = duck.relation(con, rows.get("entries", ENTRY.empty_table()))
        if "settled_keys" in rows:
            entries = _unsettled(con, entries, rows["settled_keys"])
        entries = metastore_tree.of_trees(con, entries)
        yield "etag_habits", metastore_tree.etag_habits(con, entries)
        yield "tree", metastore_tree.tree_rows(con, entries, matched, kernel.sources)
        yield "parents", metastore_tree.parent_rows(con, entries)
        yield "folders", metastore_tree.folder_rows(con, matched)
        yield from ((kind, rows[kind]) for kind in ("folders", "siblings") if kind in rows)


def _commits(kernel: Kernel, con: Connection, rows: Kinds) -> Stage:
    """What single commits did, of some tables, or to files of some keys."""
    if "batches" in rows:
        yield "repeated", repeated(con, rows["batches"])
    for contradictions in kernel.sources.contradictions:
        yield from contradictions(con, rows)
    if "commit_sums" in rows:
        yield "commit_sums", rows["commit_sums"]


_PRESENT = "SELECT bucket, key FROM input WHERE s_presence = 'present'"

# leftovers rest on nothing that a second reading looks at
_SETTLED = "(axis = 'leftover' OR (NOT suspected AND known_as IS NULL))"


def _unsettled(con: Connection, rows: Rows, settled_keys: Rows) -> Relation:
    """Without the keys that the screen has let go."""
    sql = "SELECT input.* FROM input ANTI JOIN settled USING (bucket, key)"
    return duck.query(con, sql, input=rows, settled=settled_keys)


def _shares(con: Connection, rows: Kinds) -> int:
    """Among how many shares the keys are spread."""
    (told,) = duck.rows_of(duck.relation(con, rows["shares"]))
    return int(told["shares"])


def judge_groups(kernel: Kernel, con: Connection, rows: Kinds) -> Stage:
    """All members of some groups of equal content, entries with their keys' folders, and commits of some tables."""
    if "same" in rows:
        redundant = duplicates.same_content(con, rows["same"])
        judged = duck.hold(con, with_outcome(con, redundant, kernel.policy))
        yield "tallies", coverage.count_others(con, judged, "s_size")
        # redundant copies were counted as consistent by the rules about single files
        yield "tallies", coverage.uncounted(con, judged)
        yield "copies", duck.query(con, "SELECT * FROM input WHERE outcome = 'finding'", input=judged)
    if "moved" in rows:
        yield "moves", half_moved.pairs_of_folders(con, rows["moved"], kernel.policy)
    if "alike" in rows:
        unsure = duck.hold(con, duplicates.undecided_copies(con, rows["alike"]))
        yield "tallies", coverage.count_others(con, unsure, "size")
        yield "tallies", coverage.uncounted(con, unsure, size="size")
    if "watched" in rows:
        yield "watched_folders", sum_unowned_folders(con, rows["watched"])
    if "young" in rows and kernel.fresh:
        yield "fresh", fairly(con, rows["young"], kernel.fresh)
    if "tree" in rows:
        folders = rows.get("folders", metastore_tree.FOLDERS.empty_table())
        yield "children", metastore_tree.with_folders(con, rows["tree"], folders)
    yield from ((kind, rows[kind]) for kind in ("parents", "siblings") if kind in rows)
    if "commit_sums" in rows:
        commits = whole_commits(con, rows["commit_sums"])
        yield "changed_rows", changed_rows(con, commits, rows.get("replaced", REPLACED.empty_table()))
        yield "rivals", rivals(con, commits)


def judge_children(kernel: Kernel, con: Connection, rows: Kinds) -> Stage:
    """All entries of some folders, with the folders' own entries."""
    parents = rows.get("parents", _PARENTS.empty_table())
    if "siblings" in rows:
        of_siblings = metastore_tree.sibling_tallies(
            con, rows["siblings"], parents, kernel.sources, kernel.policy
        )
        yield "siblings_judged", of_siblings
    if "children" not in rows:
        return
    judged = metastore_tree.tree_verdicts(con, rows["children"], parents, kernel.sources, kernel.policy)
    judged = duck.hold(con, _within(con, judged, kernel))
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


def _within(con: Connection, rows: Relation, kernel: Kernel) -> Relation:
    """The rows that lie in one of the partitions asked for; all of them where whole tables were."""
    if not kernel.partitions:
        return rows
    labelled = attach_label(con, rows, kernel.partitions, "partition_uri")
    return duck.query(
        con, "SELECT * EXCLUDE partition_uri FROM input WHERE partition_uri IS NOT NULL", input=labelled
    )


def removals(con: Connection, claimed: Rows) -> Relation:
    """By table what an unlogged VACUUM would explain: present_from, absent_until, absent_files, expired_files.

    The first is about removed files that storage has, the others about those it lacks; the removal of an expired file
    had passed the retention before the cutoff.

    Rows are those of `clones.under_own_root`: a VACUUM deletes below its own table's root, and no source's files.
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
    """What the newest states list of data files: table_name, files, bytes; a file listed twice counts twice.

    Bytes are null where a file's size is not said.
    """
    sql = """
        SELECT table_name, CAST(sum(c_listed) AS BIGINT) AS files,
            CASE WHEN count(c_size) = count(*) THEN CAST(sum(c_size * c_listed) AS BIGINT) END AS bytes
        FROM input WHERE c_state = 'live' AND category = 'data' AND c_listed IS NOT NULL GROUP BY table_name
    """
    return duck.query(con, sql, input=matched)


def outside_places(con: Connection, fired_rules: Rows) -> Relation:
    """Where listed files lie that no storage source covers: table_name, bucket, owner, first_key, last_key, files."""
    sql = f"""
        SELECT table_name, bucket, owner, min(key) AS first_key, max(key) AS last_key, count(*) AS files
        FROM input WHERE rule_content IN ({duck.literals(OUTSIDE)}) GROUP BY table_name, bucket, owner
    """
    return duck.query(con, sql, input=fired_rules)


def places_elsewhere(con: Connection, claimed: Rows) -> Relation:
    """Where live files lie that are not below their table's location: table_name, bucket, first_key, last_key."""
    sql = """
        SELECT table_name, bucket, min(key) AS first_key, max(key) AS last_key
        FROM input WHERE NOT own AND c_state = 'live' GROUP BY table_name, bucket
    """
    return duck.query(con, sql, input=claimed)


def claimed_of_sources(con: Connection, matched: Rows) -> Relation:
    """How many files of each table another role says that a source should hold: judged_table, source, files."""
    # content is judged by the table that claims a file, the metastore's entry by the one that owns its place
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
