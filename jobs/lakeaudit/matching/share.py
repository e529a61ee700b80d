"""Defines a share: all rows of some keys in one task. Checks select from it the rows that they judge."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from lakeaudit.evidence.protocol import Batches
from lakeaudit.keys import Location
from lakeaudit.matching.pairs import Kinds, SourceFacts
from lakeaudit.matching.prefix_match import Places, attach_label
from lakeaudit.matching.recent_files import RecentFileLimits
from lakeaudit.matching.verdicts import FindingPolicy
from lakeaudit.matching.watched_folders import Watch
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation, Rows
from lakeaudit.schemas import KNOWN

_ROOTS = pa.schema([("name", pa.string()), ("root_bucket", pa.string()), ("root_prefix", pa.string())])


@dataclass(frozen=True)
class TaskFacts:
    """The plain data of a run that its tasks need.

    Attributes:
        partitions: the requested locations with their URIs; empty if whole tables were requested.
        metastores: whether a metadata store has a tree of folders.
        recent: how many files that are too young for the evidence may be looked up; None: no file.
        watch: the places in which files without a table are reported; None: there are none.
    """

    sources: SourceFacts
    policy: FindingPolicy
    partitions: Places
    metastores: bool
    recent: RecentFileLimits | None = None
    watch: Watch | None = None


@dataclass(frozen=True, eq=False)
class Share:
    """All rows of some keys, and their pairs.

    Attributes:
        facts: the plain data of the run.
        con: the task's connection.
        rows: the rows as the readers sent them, by kind.
        every_pair: PAIR rows with the rules that matched, of all keys.
    """

    facts: TaskFacts
    con: Connection
    rows: Kinds
    every_pair: Relation

    @cached_property
    def pairs(self) -> Relation:
        """Return PAIR rows without the keys that the prefilter has cleared."""
        if "settled_keys" not in self.rows:
            return self.every_pair
        return duck.hold(self.con, uncleared(self.con, self.every_pair, self.rows))

    @cached_property
    def requested(self) -> Relation:
        """Return the pairs in the requested partitions; all pairs if whole tables were requested."""
        return within(self.con, self.pairs, self.facts)

    @cached_property
    def every_requested(self) -> Relation:
        """Return `every_pair` in the requested partitions."""
        return within(self.con, self.every_pair, self.facts)

    @property
    def open_rows(self) -> Rows:
        """Return rows of open discrepancies in the ledger; their files are judged again."""
        return self.rows.get("known", KNOWN.empty_table())

    @cached_property
    def claimed(self) -> Relation:
        """Return pairs that a table claims; `own` states whether the key is below that table's own location."""
        return under_own_root(self.con, self.pairs, self.facts.sources.homes)

    @property
    def number_of_shares(self) -> int:
        (row,) = duck.rows_of(duck.relation(self.con, self.rows["shares"]))
        return int(row["shares"])


Select = Callable[[Share], Batches]
"""Selects from all rows of some keys the rows that a check needs.

A kind with a route (`Check.routes`) goes to `combine`, any other kind is an answer for the driver.
"""
Combine = Callable[[TaskFacts, Connection, Kinds], Batches]
"""Combines selected rows that their route (`Check.routes`) brought to one share."""


def uncleared(con: Connection, rows: Relation, of_share: Kinds) -> Relation:
    """Return the rows without the keys that the prefilter has cleared."""
    if "settled_keys" not in of_share:
        return rows
    sql = "SELECT input.* FROM input ANTI JOIN settled USING (bucket, key)"
    return duck.query(con, sql, input=rows, settled=of_share["settled_keys"])


def within(con: Connection, rows: Relation, facts: TaskFacts) -> Relation:
    """Return the rows in the requested partitions; all rows if whole tables were requested."""
    if not facts.partitions:
        return rows
    labelled = attach_label(con, rows, facts.partitions, "partition_uri")
    return duck.query(
        con, "SELECT * EXCLUDE partition_uri FROM input WHERE partition_uri IS NOT NULL", input=labelled
    )


def under_own_root(con: Connection, matched: Rows, homes: Mapping[str, Location]) -> Relation:
    """Return PAIR rows that a table claims; `own` states whether the key is below that table's own location."""
    places = [(name, place.bucket, place.prefix) for name, place in homes.items()]
    sql = """
        SELECT p.*, p.bucket = root_bucket AND starts_with(p.key, root_prefix) AS own
        FROM pairs p JOIN places ON table_name = name
    """
    return duck.query(con, sql, pairs=matched, places=duck.small(_ROOTS, places))
