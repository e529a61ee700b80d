"""Keys that a prefilter clears in a lake, compared with the verdicts of the rules for each key, in plain Python."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import cache, cached_property
from typing import Any

import pyarrow as pa

from lakeaudit.evidence.manifest.delta.state import replay
from lakeaudit.evidence.manifest.replica_source import originals
from lakeaudit.matching import metastore_tree, prefilter, prefilter_fingerprints
from lakeaudit.matching.pairs import pairs
from lakeaudit.rules import file_rules
from lakeaudit.rules.file_facts import ALL_FACTS
from lakeaudit.runtime import duck
from lakeaudit.schemas import KNOWN
from tests.builders.connections import connection
from tests.builders.evidence import rows_table
from tests.builders.screen_lake import ScreenLake

Key = tuple[str, str]
Row = dict[str, Any]


@dataclass(frozen=True)
class ClearedKeys:
    """Keys that were cleared, and the prefilter's counts of files and bytes by table."""

    keys: frozenset[Key]
    sums: Mapping[str, tuple[int, int]]


_HASHES = connection()


@cache
def hash_of(bucket: str, key: str) -> int:
    """The hash of a key, as the screen makes it."""
    (row,) = duck.rows_of(
        duck.query(_HASHES, f"SELECT hash({duck.literal(bucket)}, {duck.literal(key)}) AS h")
    )
    return int(row["h"])


def bucket_of(bucket: str, key: str, bits: int) -> int:
    """The bucket of a key among 2^`bits`."""
    return hash_of(bucket, key) >> (64 - bits)


class Truth:
    """A lake, its screen, and what the rules say."""

    def __init__(self, lake: ScreenLake) -> None:
        self.lake = lake
        self.con = connection()
        self.evidence = lake.evidence()
        self.screen = lake.screen()
        self.sides = {row["name"]: row["sides"] for row in self.screen.tables.to_pylist()}
        self._made: dict[Any, list[tuple[str, pa.Table]]] = {}
        self._faults_of_key: dict[Key, list[Any]] = {}
        self.known = {(row["bucket"], row["key"]) for row in lake.known}

    @cached_property
    def rows(self) -> dict[str, pa.Table]:
        """All sound rows by kind."""
        sound = {
            kind: rows.filter(pa.compute.is_null(rows["reject"])) if "reject" in rows.schema.names else rows
            for kind, rows in self.lake.arrow.items()
        }
        return {**sound, "known": rows_table(KNOWN, self.lake.known)}

    @cached_property
    def _buckets(self) -> list[tuple[Key, int]]:
        """Every key that has a row, and its bucket."""
        kinds = ("versions", "entries", "steps", "events", "originals")
        keys = pa.concat_tables([self.rows[k].select(["bucket", "key"]) for k in kinds if k in self.rows])
        hashed = "SELECT *, hash(bucket, key) AS h FROM input"
        sql = f"SELECT DISTINCT bucket, key, {prefilter.BUCKET} AS at FROM ({hashed})"
        rows = duck.rows_of(duck.query(self.con, sql, input=keys))
        return [((row["bucket"], row["key"]), row["at"]) for row in rows]

    def fingerprints(self) -> dict[str, pa.Table]:
        """Return the fingerprints that a projection pass makes of all rows."""
        held: dict[str, list[pa.Table]] = defaultdict(list)
        for kind, rows in {**self.lake.arrow, "known": self.rows["known"]}.items():
            for of_kind, made in self._fingerprints_of_kind(kind, rows):
                held[of_kind].append(made)
        return {kind: pa.concat_tables(tables) for kind, tables in held.items()}

    def _fingerprints_of_kind(self, kind: str, rows: pa.Table) -> list[tuple[str, pa.Table]]:
        """Return those of one kind of row; cached while the conditions about this kind stay equal."""
        about = {
            "versions": (prefilter_fingerprints.OBJECT_PLAIN, prefilter_fingerprints.ODD),
            "entries": prefilter_fingerprints.ENTRY_PLAIN,
            "steps": replay.PLAIN,
            "originals": originals.PLAIN,
        }
        conditions = (kind, about.get(kind))
        if conditions not in self._made:
            made = prefilter_fingerprints.fingerprints(self.screen, self.con, kind, rows)
            self._made[conditions] = [(of, duck.table(duck.relation(self.con, each))) for of, each in made]
        return self._made[conditions]

    def cleared_keys(self) -> ClearedKeys:
        """Return the keys that the prefilter clears with its current conditions."""
        answers = {
            k: duck.table(rows)
            for k, rows in prefilter.cleared_keys(self.screen, self.con, self.fingerprints())
        }
        again = set(answers["buckets"]["bucket"].to_pylist())
        sums = {row["name"]: (row["files"], row["bytes"]) for row in answers["settled"].to_pylist()}
        return ClearedKeys(frozenset(key for key, at in self._buckets if at not in again), sums)

    def faults(self, gone: ClearedKeys) -> list[Any]:
        """Keys of which the rules have another word than the screen; and sums that are not those of the keys."""
        found: list[Any] = [(key, "is open in the ledger") for key in gone.keys & self.known]
        sums: dict[str, list[int]] = defaultdict(lambda: [0, 0])
        for key in gone.keys:
            found += self._of_key(key)
            for row in self._pairs.get(key, ()):
                name = row["table_name"] or row["owner"]
                sums[name][0] += 1
                sums[name][1] += row["s_size"] or row["c_size"] or 0
        counted = {name: (files, size) for name, (files, size) in sums.items()}
        return found if counted == gone.sums else [*found, (counted, dict(gone.sums))]

    def _of_key(self, key: Key) -> list[Any]:
        """Return the verdicts that forbid clearing the key; the prefilter's conditions are not used."""
        if key not in self._faults_of_key:
            of_pairs = [fault for row in self._pairs.get(key, ()) for fault in self._of_pair(key, row)]
            self._faults_of_key[key] = self._of_tree(key) + of_pairs
        return self._faults_of_key[key]

    def _of_pair(self, key: Key, row: Row) -> list[Any]:
        verdicts = self._verdicts(row)
        axes = {"content", "leftover", "duplicate"}
        if self.sides.get(row["table_name"], 0) & prefilter.ENTRY:
            axes.add("metastore")
        expected = dict.fromkeys(axes, (row["table_name"], file_rules.CONSISTENT))
        return [] if verdicts == expected else [(key, verdicts)]

    def _verdicts(self, row: Row) -> dict[str, tuple[str, str]]:
        """By axis that asks the judged table and the verdict."""
        facts = file_rules.facts_of(row, ALL_FACTS)
        of_place = row["owner"] if row["first"] else None
        judged = {"content": row["table_name"], "duplicate": row["table_name"] or row["owner"], "leftover": of_place,
                  "metastore": of_place}  # fmt: skip
        fired = {axis: file_rules.judge(file_rules.PAIR_AXES[axis], facts).verdict for axis in judged}
        return {
            axis: (name, fired[axis])
            for axis, name in judged.items()
            if name in self.evidence.policy.scope and fired[axis] != file_rules.NONE
        }

    def _of_tree(self, key: Key) -> list[Any]:
        """Return the verdicts of the tree, except for effects of a folder's own entry, which are computed later."""
        later = ("parent_untold", "parent_missing", "parent_tombstone", "parent_file", "parent_young")
        return [
            (key, row["rule"])
            for row in self._tree.get(key, ())
            if row["outcome"] != file_rules.CONSISTENT and row["rule"].partition(".")[2] not in later
        ]

    @cached_property
    def _pair_rows(self) -> pa.Table:
        return duck.table(pairs(self.con, self.rows, self.evidence.source_facts))

    @cached_property
    def _pairs(self) -> dict[Key, list[Row]]:
        return _by_key(self._pair_rows)

    @cached_property
    def _tree(self) -> dict[Key, list[Row]]:
        """Entries whose store mostly has ETags, as the lake's stores do."""
        con, sources = self.con, self.evidence.source_facts
        entries = duck.table(metastore_tree.of_trees(con, self.rows["entries"], sources))
        tree = metastore_tree.tree_rows(con, entries, self._pair_rows, sources)
        children = metastore_tree.with_folders(con, tree, metastore_tree.folder_rows(con, self._pair_rows))
        parents = metastore_tree.parent_rows(con, entries)
        judged = metastore_tree.tree_verdicts(con, children, parents, sources, self.evidence.policy)
        return _by_key(duck.table(duck.query(con, "SELECT * FROM input WHERE mostly_etags", input=judged)))


def _by_key(rows: pa.Table) -> dict[Key, list[Row]]:
    found: dict[Key, list[Row]] = defaultdict(list)
    for row in rows.to_pylist():
        found[row["bucket"], row["key"]].append({name: _plain(value) for name, value in row.items()})
    return found


def _plain(value: Any) -> Any:
    """Spans as Python has them."""
    if isinstance(value, pa.MonthDayNano):
        return timedelta(days=value.days, microseconds=value.nanoseconds // 1000)
    return value
