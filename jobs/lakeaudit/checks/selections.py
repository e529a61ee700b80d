"""Select and combine rows for the checks, in the tasks. Pure: the modules of this file run on executors.

A `select_...` function gets all rows of some keys. A `combine_...` function gets all rows of its selected kinds that
the routes of its check bring to one share.
"""

from lakeaudit.checks.clones import sum_clone_files
from lakeaudit.checks.commits.commit_sums import changed_rows, rivals, whole_commits
from lakeaudit.checks.commits.commits import log_versions
from lakeaudit.checks.commits.repeated_batches import find_repeats
from lakeaudit.checks.folders import half_moved
from lakeaudit.checks.lineage.marked_states import (
    marked_states,
    replaced_versions,
    state_files,
    with_older_versions,
)
from lakeaudit.checks.unnamed_file_fields import of_pairs
from lakeaudit.evidence.protocol import Batches
from lakeaudit.findings import coverage
from lakeaudit.matching import duplicates
from lakeaudit.matching.pairs import Kinds
from lakeaudit.matching.share import Share, TaskFacts
from lakeaudit.matching.verdicts import with_outcome
from lakeaudit.matching.watched_folders import sum_unowned_folders, unowned_folders
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation, Rows
from lakeaudit.schemas import REPLACED, VERSION


def select_copies(share: Share) -> Batches:
    """Select files that may have the content of another file, and files that may have its name."""
    of_content = (share.every_requested, share.facts.sources, share.facts.policy.scope)
    yield "same", duplicates.same_content_candidates(share.con, *of_content)
    yield "alike", duplicates.candidates_without_content(share.con, *of_content)


def combine_copies(facts: TaskFacts, con: Connection, rows: Kinds) -> Batches:
    """Combine files of equal content, and files that cannot be compared."""
    if "same" in rows:
        redundant = duplicates.same_content(con, rows["same"])
        judged = duck.hold(con, with_outcome(con, redundant, facts.policy))
        yield "tallies", coverage.count_others(con, judged, "s_size")
        # the rules about single files counted redundant copies as consistent
        yield "tallies", coverage.uncounted(con, judged)
        yield "copies", duck.query(con, "SELECT * FROM input WHERE outcome = 'finding'", input=judged)
    if "alike" in rows:
        undecided = duck.hold(con, duplicates.undecided_copies(con, rows["alike"]))
        yield "tallies", coverage.count_others(con, undecided, "size")
        yield "tallies", coverage.uncounted(con, undecided, size="size")


def select_moved(share: Share) -> Batches:
    """Select files that no state lists and that readers of their folder see."""
    of_scope = (share.every_requested, share.facts.sources, share.facts.policy.scope)
    yield "moved", half_moved.candidates(share.con, *of_scope)


def combine_moved(facts: TaskFacts, con: Connection, rows: Kinds) -> Batches:
    """Combine pairs of folders with equal files."""
    if "moved" in rows:
        yield "moves", half_moved.pairs_of_folders(con, rows["moved"], facts.policy)


def select_unnamed_fields(share: Share) -> Batches:
    """Select fields that storage does not report, of files that are undecided for that reason."""
    rows = of_pairs(share.con, share.requested, share.open_rows, share.facts.policy.scope_table)
    yield "unnamed_fields", rows


def select_states(share: Share) -> Batches:
    """Select versions of commits, states that a delete marker hides, and states newer than the one that was read."""
    con = share.con
    states = state_files(con, share.rows.get("versions", VERSION.empty_table()))
    older = with_older_versions(con, states)
    yield "log_versions", log_versions(con, older)
    yield "marked_states", marked_states(con, states, older, share.facts.sources.read_states)
    yield "replaced_versions", replaced_versions(con, older)


def select_commits(share: Share) -> Batches:
    """Select commits that repeat another commit or contradict their own declarations."""
    if "batches" in share.rows:
        yield "repeated", find_repeats(share.con, share.rows["batches"])
    for contradictions in share.facts.sources.contradictions:
        yield from contradictions(share.con, share.rows)
    if "commit_sums" in share.rows:
        yield "commit_sums", share.rows["commit_sums"]


def combine_commits(facts: TaskFacts, con: Connection, rows: Kinds) -> Batches:  # noqa: ARG001 - every check receives it
    """Combine rewrites that change rows, and overwrites that replaced the same state."""
    if "commit_sums" in rows:
        commits = whole_commits(con, rows["commit_sums"])
        yield "changed_rows", changed_rows(con, commits, rows.get("replaced", REPLACED.empty_table()))
        yield "rivals", rivals(con, commits)


def select_clones(share: Share) -> Batches:
    """Select the places of live files below other tables' roots, and the files of clones by the rule that matched."""
    elsewhere = duck.hold(share.con, _places_elsewhere(share.con, share.claimed))
    yield "elsewhere", elsewhere
    if not duck.is_empty(elsewhere):  # otherwise no table can be a clone
        yield "cloned", sum_clone_files(share.con, share.claimed, share.facts.policy)


def _places_elsewhere(con: Connection, claimed: Rows) -> Relation:
    """Return rows (table_name, bucket, first_key, last_key) of live files outside their table's location."""
    sql = """
        SELECT table_name, bucket, min(key) AS first_key, max(key) AS last_key
        FROM input WHERE NOT own AND c_state = 'live' GROUP BY table_name, bucket
    """
    return duck.query(con, sql, input=claimed)


def select_watched(share: Share) -> Batches:
    """Select folders of files in watched places that no table owns."""
    if share.facts.watch:
        yield "watched", unowned_folders(share.con, share.pairs, share.facts.watch)


def combine_watched(facts: TaskFacts, con: Connection, rows: Kinds) -> Batches:  # noqa: ARG001 - every check receives it
    """Combine the rows of each folder into one."""
    if "watched" in rows:
        yield "watched_folders", sum_unowned_folders(con, rows["watched"])
