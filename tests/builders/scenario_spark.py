"""All scenarios as the evidence of one lake, each in a bucket and under table names of its own, judged by Spark."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakeaudit.compare import duplicates, leftovers, metastore_tree, rules, verdicts
from lakeaudit.compare.apply_gaps import assumed_vacuums, with_holes, with_vacuums
from lakeaudit.compare.classify import judged, ruled
from lakeaudit.compare.facts import TREE_FACTS
from lakeaudit.compare.match import Evidence, pairs
from lakeaudit.compare.table_facts import TableFacts, roots, table_frame
from lakeaudit.config import S3Guard
from lakeaudit.evidence.protocol import Claims, Cut, Entries, SourceInfo, Stored
from lakeaudit.keys import Location
from lakeaudit.pipeline import live_check
from lakeaudit.pipeline.dataframes import computed, small
from lakeaudit.schemas import CLAIM, ENTRY, LIVE, STORED, UPLOAD
from tests.builders.scenario import Row, Scenario, Storage, Store
from tests.builders.twin import spoken
from tests.builders.twin_match import EVENT_KINDS

TODAY = date(2026, 11, 20)


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

    spark: SparkSession
    scenarios: Sequence[Numbered]

    @property
    def tables(self) -> list[TableFacts]:
        return [fact for each in self.scenarios for fact in each.tables()]

    @property
    def places(self) -> dict[Location, str]:
        return roots([fact.table for fact in self.tables])

    @property
    def holed(self) -> set[str]:
        storage = {
            _id(n, s) for each in self.scenarios for n, s in enumerate(each.scenario.storage) if s.holed
        }
        return storage | {each.store_id for each in self.scenarios if _has_hole(each.scenario.store)}

    def evidence(self) -> Evidence:
        stores = self._stores()
        return Evidence(self._claims(), self._storage(), [store for store, _ in stores],
                        {store.info.id: source for store, source in stores})  # fmt: skip

    def _frame(self, rows: Iterable[Mapping[str, Any]], schema: Any) -> DataFrame:
        return small(self.spark, [tuple(row.get(name) for name in schema.names) for row in rows], schema)

    def _claims(self) -> list[Claims]:
        rows = [each.row(row) for each in self.scenarios for row in each.scenario.claims]
        kinds = {"delta": [row for row in rows if row["manifest_kind"] not in EVENT_KINDS],
                 "file_list": [row for row in rows if row["manifest_kind"] in EVENT_KINDS]}  # fmt: skip
        return [
            Claims(
                SourceInfo(f"manifest:{kind}", "manifest", kind, "", "", None), self._frame(found, CLAIM), {}
            )
            for kind, found in kinds.items()
        ]

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
            Stored(
                SourceInfo(name, "storage", "s3_inventory", "", "", Cut(source.cut, None, source.margin)),
                self._frame(objects[name], STORED),
                tuple(covers[name]),
                self._frame(uploads[name], UPLOAD),
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
        info = SourceInfo(name, "metastore", "s3guard", "", "", Cut(store.cut, None, store.margin))
        scope = tuple(each.place("") for each in group)
        source = S3Guard.model_construct(
            kind="s3guard", table="guard", authoritative=tuple(each.place(prefix) for each, prefix in trusted)
        )
        return Entries(info, self._frame(rows, ENTRY), scope, store.ttl), source

    def answers(self) -> DataFrame:
        """What storage answers now, where a scenario says so."""
        rows = [
            answer
            | {"bucket": each.bucket, "key": key, "l_versions_known": answer["l_confirmation"] == "live"}
            for each in self.scenarios
            for key, answer in each.scenario.live.items()
        ]
        return self._frame(rows, LIVE)


def _id(number: int, source: Storage) -> str:
    return f"storage:{number} {source.cut} {source.margin} {source.holed}"


def _has_hole(store: Store | None) -> bool:
    return store is not None and store.holed


def numbered(scenarios: Sequence[Scenario]) -> list[Numbered]:
    return [Numbered(number, scenario) for number, scenario in enumerate(scenarios)]


def matched(lake: Lake) -> DataFrame:
    """Ruled PAIR rows of all scenarios."""
    tables = table_frame(lake.spark, lake.tables)
    return computed(
        judged(with_holes(pairs(lake.spark, lake.evidence(), tables, lake.places), (), lake.tables))
    )


Answer = tuple[str, str, str, str]
"""(judged table, key, axis, verdict)."""


def answers(lake: Lake, world: DataFrame) -> dict[int, list[Answer]]:
    """The verdicts of all scenarios by number, in the steps of an audit."""
    tables = [fact.table for fact in lake.tables]
    every = verdicts.verdicts(world, tables, (), TODAY)
    finding = F.col("outcome") == "finding"
    suspects = every.filter(finding).withColumn("versions_known", F.lit(False))
    marked = with_vacuums(with_holes(suspects, lake.holed, lake.tables), assumed_vacuums(world))
    again = verdicts.again(live_check.with_answers(marked, lake.answers()), tables, (), TODAY)
    parts = [
        _said(every.filter(~finding)),
        _said(again),
        _said(_duplicates(lake, world)),
        _said(_tree(lake, world)),
    ]
    parts.append(
        _said(leftovers.unfinished_uploads(lake.spark, lake.evidence().storage, tables, lake.places))
    )
    together = parts[0]
    for part in parts[1:]:
        together = together.unionAll(part)
    return _by_number(together)


def _said(rows: DataFrame) -> DataFrame:
    return rows.select("judged_table", "key", "axis", "rule")


def _duplicates(lake: Lake, world: DataFrame) -> DataFrame:
    sizes = [(fact.table.name, fact.table.settings.min_duplicate_size) for fact in lake.tables]
    same = duplicates.same_content(world, small(lake.spark, sizes, "name string, min_size long"))
    return same.withColumns({"axis": F.lit("duplicate"), "rule": F.lit("duplicate.same_content")})


def _tree(lake: Lake, world: DataFrame) -> DataFrame:
    tables = table_frame(lake.spark, lake.tables)
    rows = metastore_tree.tree(lake.spark, lake.evidence().metastores, world, tables, lake.places, lake.holed)
    judged_rows = ruled(rows, TREE_FACTS, {"metastore_tree": rules.TREE})
    return judged_rows.withColumnsRenamed(
        {"rule_metastore_tree": "rule", "owner": "judged_table"}
    ).withColumn("axis", F.lit("metastore_tree"))


def _by_number(rows: DataFrame) -> dict[int, list[Answer]]:
    """The test's own collect: a few thousand rows; the second verdict of an axis replaces `consistent`."""
    found: dict[int, list[Answer]] = {}
    for name, key, axis, rule in rows.collect():
        number, _, table = name.partition("/")
        found.setdefault(int(number), []).append((table, key, axis, spoken(rules.RULES[rule])))
    return found
