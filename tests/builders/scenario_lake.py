"""All scenarios as the evidence of one lake, each in a bucket and under names of its own, judged by the kernel."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from functools import cached_property
from typing import Any

import pyarrow as pa

from lakeaudit.audit.kernel import removals
from lakeaudit.collect.source_facts import Sources, source_facts
from lakeaudit.confirm import live_check
from lakeaudit.confirm.apply_gaps import assumed_vacuums, with_gaps, with_vacuums
from lakeaudit.evidence.metastore.s3guard import S3Guard
from lakeaudit.evidence.protocol import Claims, Entries, SnapshotWindow, Stored
from lakeaudit.keys import Location
from lakeaudit.matching import duplicates, metastore_tree
from lakeaudit.matching.leftovers import unfinished_uploads
from lakeaudit.matching.pairs import SourceFacts, pairs
from lakeaudit.matching.recent_files import RecentFileLimits, fresh_claims
from lakeaudit.matching.share import under_own_root
from lakeaudit.matching.table_facts import TableFacts, roots
from lakeaudit.matching.verdicts import FindingPolicy, finding_policy, judge_again, verdicts
from lakeaudit.rules import file_rules
from lakeaudit.rules.classify import apply_rules
from lakeaudit.rules.file_facts import ALL_FACTS
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation
from lakeaudit.schemas import KNOWN, LIVE, plain_time
from tests.builders.evidence import claims_of, entries_of, folded_objects, rows_by_kind, rows_table, stored_of
from tests.builders.scenario import NOW, Row, Scenario, Storage, Store
from tests.builders.twin import verdict_text
from tests.builders.twin_match import EVENT_KINDS

TODAY = date(2026, 11, 20)


def with_rules(con: Connection, matched_rows: Relation) -> Relation:
    """PAIR rows with the rules that matched."""
    return apply_rules(con, matched_rows, ALL_FACTS, file_rules.PAIR_AXES)


@dataclass(frozen=True)
class Numbered:
    """A scenario with the number that keeps it apart from the others."""

    number: int
    scenario: Scenario

    @property
    def bucket(self) -> str:
        return f"lake{self.number}"

    @property
    def store_id(self) -> str:
        """Stores with equal settings are one, but for those whose habit of keeping ETags is the point."""
        store, entries = self.scenario.store, self.scenario.entries
        own = self.number if any(row["etag"] is None for row in entries if not row["is_dir"]) else ""
        return f"metastore{own} {store.cut} {store.margin} {store.ttl} {store.holed}" if store else ""

    def name(self, table: str) -> str:
        return f"{self.number}/{table}"

    def place(self, prefix: str) -> Location:
        return Location(self.bucket, prefix)

    def row(self, row: Row) -> Row:
        named = {"table_name": self.name(row["table_name"])} if "table_name" in row else {}
        return row | {"bucket": self.bucket} | named

    def tables(self) -> list[TableFacts]:
        return [self._table(fact) for fact in self.scenario.tables]

    def _table(self, fact: TableFacts) -> TableFacts:
        name = self.name(fact.table.name)
        named = {
            "name": name,
            "location": self.place(fact.table.location.key),
            "shares": tuple(self.name(other) for other in fact.table.shares),
        }
        states = tuple(replace(state, table=name) for state in fact.states)
        return replace(fact, table=fact.table.model_copy(update=named), states=states)


@dataclass
class Lake:
    """The evidence of all scenarios; sources with equal settings are one source."""

    scenarios: Sequence[Numbered]
    con: Connection = field(default_factory=duck.connect)

    @property
    def tables(self) -> list[TableFacts]:
        return [fact for each in self.scenarios for fact in each.tables()]

    @property
    def places(self) -> dict[Location, str]:
        return roots([fact.table for fact in self.tables])

    @property
    def sources_with_gaps(self) -> set[str]:
        storage = {
            _id(n, s) for each in self.scenarios for n, s in enumerate(each.scenario.storage) if s.holed
        }
        return storage | {each.store_id for each in self.scenarios if _has_gap(each.scenario.store)}

    def evidence(self) -> Sources:
        stores = self._stores()
        return Sources(self._claims(), self._storage(), [store for store, _ in stores],
                        {store.info.id: source for store, source in stores})  # fmt: skip

    @cached_property
    def sources(self) -> SourceFacts:
        """Return the facts about all sources; claims and objects are grouped by key."""
        facts = self.tables
        known = source_facts(self.evidence(), [fact.table for fact in facts], facts)
        return replace(known, objects=folded_objects)

    @cached_property
    def policy(self) -> FindingPolicy:
        return finding_policy([fact.table for fact in self.tables], (), TODAY)

    def rows(self) -> dict[str, pa.Table]:
        """All observations by kind, as the engine brings them together."""
        evidence = self.evidence()
        sources = [*(s.rows for s in evidence.storage), *(s.rows for s in evidence.metastores)]
        return rows_by_kind(self.con, [*sources, *(rows for read in evidence.claims for rows in read.rows)])

    def _claims(self) -> list[Claims]:
        rows = [each.row(row) for each in self.scenarios for row in each.scenario.claims]
        events = [row for row in rows if row["manifest_kind"] in EVENT_KINDS]
        states = [row for row in rows if row["manifest_kind"] not in EVENT_KINDS]
        return [claims_of(states, ()), claims_of(events, (), "file_list")]

    def _storage(self) -> list[Stored]:
        sources: dict[str, Storage] = {}
        covers: dict[str, list[Location]] = {}
        objects: dict[str, list[Row]] = {}
        uploads: dict[str, list[Row]] = {}
        for each in self.scenarios:
            for number, source in enumerate(each.scenario.storage):
                name = _id(number, source)
                sources[name] = source
                covers.setdefault(name, []).extend(each.place(prefix) for prefix in source.covers)
                for rows, into in ((each.scenario.objects, objects), (each.scenario.uploads, uploads)):
                    mine = [row for row in rows if row["source"] == f"storage:{number}"]
                    into.setdefault(name, []).extend(each.row(row) | {"source": name} for row in mine)
        return [
            stored_of(
                objects[name],
                cut=SnapshotWindow(source.cut, None, source.margin),
                source=name,
                covers=tuple(covers[name]),
                uploads=uploads[name],
            )
            for name, source in sources.items()
        ]

    def _stores(self) -> list[tuple[Entries, S3Guard]]:
        by_id: dict[str, list[Numbered]] = {}
        for each in self.scenarios:
            if each.scenario.store is not None:
                by_id.setdefault(each.store_id, []).append(each)
        return [self._store(name, group) for name, group in by_id.items()]

    def _store(self, name: str, group: Sequence[Numbered]) -> tuple[Entries, S3Guard]:
        store = group[0].scenario.store or Store()
        rows = [each.row(row) | {"source": name} for each in group for row in each.scenario.entries]
        trusted = [
            (each, prefix) for each in group for prefix in (each.scenario.store or store).authoritative
        ]
        cut = SnapshotWindow(store.cut, None, store.margin)
        scope = tuple(each.place("") for each in group)
        source = S3Guard.model_construct(
            kind="s3guard", table="guard", authoritative=tuple(each.place(prefix) for each, prefix in trusted)
        )
        return entries_of(rows, cut=cut, source=name, scope=scope, ttl=store.ttl), source

    def answers(self) -> pa.Table:
        """Return the live answers of storage that scenarios define."""
        rows = [
            answer
            | {"bucket": each.bucket, "key": key, "l_versions_known": answer["l_confirmation"] == "live"}
            for each in self.scenarios
            for key, answer in each.scenario.live.items()
        ]
        return rows_table(LIVE, rows)


def _id(number: int, source: Storage) -> str:
    return f"storage:{number} {source.cut} {source.margin} {source.holed}"


def _has_gap(store: Store | None) -> bool:
    return store is not None and store.holed


def numbered(scenarios: Sequence[Scenario]) -> list[Numbered]:
    return [Numbered(number, scenario) for number, scenario in enumerate(scenarios)]


def matched(lake: Lake) -> pa.Table:
    """PAIR rows of all scenarios."""
    return duck.table(pairs(lake.con, lake.rows(), lake.sources))


Answer = tuple[str, str, str, str]
"""(judged table, key, axis, verdict)."""


def answers(lake: Lake, world: pa.Table) -> dict[int, list[Answer]]:
    """The verdicts of all scenarios by number, in the steps of an audit."""
    con = lake.con
    recalled = """
        SELECT *, NULL::VARCHAR AS known_as, NULL::TIMESTAMP AS known_at, true AS suspected FROM input
    """
    every = duck.hold(
        con, duck.query(con, recalled, input=verdicts(con, with_rules(con, world), lake.policy))
    )
    young = _recent(lake, world)
    settled = """
        SELECT * FROM every ANTI JOIN young USING (axis, judged_table, bucket, key) WHERE outcome <> 'finding'
    """
    parts = [duck.query(con, settled, every=every, young=young)]
    parts += [
        _judged_again(lake, world, duck.union(con, [every, young])),
        _duplicates(lake, world),
        _undecided_copies(lake, world),
        _tree(lake, world),
    ]
    tables = [fact.table for fact in lake.tables]
    uploads = lake.rows()["uploads"]
    parts.append(unfinished_uploads(con, uploads, lake.sources.storage_cuts, tables, lake.places))
    return _by_number([row for part in parts for row in duck.rows_of(part)])


def _recent(lake: Lake, world: pa.Table) -> Relation:
    """Files too young for the evidence, of which a scenario says what storage answers now."""
    con = lake.con
    everything = RecentFileLimits(plain_time(NOW), dict.fromkeys(lake.policy.scope, 99), 9999)
    fresh = fresh_claims(con, with_rules(con, world), lake.policy, KNOWN.empty_table(), everything, 1)
    answered = "SELECT fresh.* FROM fresh SEMI JOIN answers USING (bucket, key)"
    return duck.hold(con, duck.query(con, answered, fresh=fresh, answers=lake.answers()))


def _judged_again(lake: Lake, world: pa.Table, every: Relation) -> Relation:
    con = lake.con
    finding = """SELECT *, false AS versions_known, NULL::VARCHAR AS recheck_words
        FROM input WHERE outcome = 'finding' OR NOT suspected"""
    vacuumed = [
        row["vacuumed"]
        for row in assumed_vacuums(con, removals(con, under_own_root(con, world, lake.sources.homes)))
    ]
    suspects = with_gaps(con, duck.query(con, finding, input=every), lake.sources_with_gaps)
    marked = duck.hold(con, with_vacuums(con, suspects, vacuumed))
    return judge_again(con, live_check.with_answers(con, marked, lake.answers()), lake.policy)


def _duplicates(lake: Lake, world: pa.Table) -> Relation:
    candidates = duplicates.same_content_candidates(
        lake.con, with_rules(lake.con, world), lake.sources, lake.policy.scope
    )
    return duplicates.same_content(lake.con, candidates)


def _undecided_copies(lake: Lake, world: pa.Table) -> Relation:
    rows = duplicates.candidates_without_content(
        lake.con, with_rules(lake.con, world), lake.sources, lake.policy.scope
    )
    return duplicates.undecided_copies(lake.con, rows)


def _tree(lake: Lake, world: pa.Table) -> Relation:
    """The tree's verdicts once gaps are known, for the habit that each store has."""
    con, every = lake.con, lake.rows()["entries"]
    entries = metastore_tree.of_trees(con, every, lake.sources)
    tree = metastore_tree.tree_rows(con, entries, world, lake.sources)
    children = metastore_tree.with_folders(con, tree, metastore_tree.folder_rows(con, world))
    parents = metastore_tree.parent_rows(con, entries)
    judged = metastore_tree.tree_verdicts(con, children, parents, lake.sources, lake.policy)
    habits = metastore_tree.etag_habits(con, entries)
    sql = f"""
        SELECT judged.* EXCLUDE (rule, outcome, kind, severity)
            REPLACE (judged.source IN ({duck.literals(sorted(lake.sources_with_gaps))}) AS h_metastore)
        FROM judged LEFT JOIN habits ON judged.source = habits.source
        WHERE mostly_etags = coalesce(with_etag * 2 > live_files, false)
    """
    return metastore_tree.judged_tree(con, duck.query(con, sql, judged=judged, habits=habits), lake.policy)


def _by_number(rows: Iterable[Mapping[str, Any]]) -> dict[int, list[Answer]]:
    """The second verdict of an axis replaces `consistent`."""
    found: dict[int, list[Answer]] = {}
    for row in rows:
        number, _, table = row["judged_table"].partition("/")
        verdict = verdict_text(file_rules.RULES[row["rule"]])
        found.setdefault(int(number), []).append((table, row["key"], row["axis"], verdict))
    return found
