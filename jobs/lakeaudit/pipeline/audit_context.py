"""Bench: what every step of judging one run needs."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from pyspark.sql import DataFrame

from lakeaudit.compare import verdicts
from lakeaudit.compare.findings import Stamp
from lakeaudit.compare.table_facts import TableFacts, roots, table_facts, table_frame
from lakeaudit.config import Lake, Table
from lakeaudit.evidence.protocol import Context
from lakeaudit.keys import Location
from lakeaudit.ledger.load_open import Memory
from lakeaudit.pipeline import live_check
from lakeaudit.pipeline.partitions import Parts, within
from lakeaudit.pipeline.read_sources import Observed


@dataclass
class Bench:
    """What every step of judging needs."""

    lake: Lake
    scope: Sequence[Table]
    parts: Parts
    observed: Observed
    context: Context
    stamp: Stamp
    facts: list[TableFacts]
    memory: Memory

    @cached_property
    def tables(self) -> DataFrame:
        return table_frame(self.context.spark, self.facts)

    @cached_property
    def roots(self) -> dict[Location, str]:
        return roots(self.lake.tables)

    def within(self, rows: DataFrame) -> DataFrame:
        """Of rows with (bucket, key) those that were asked for."""
        return within(rows, self.parts)

    def outcome(self, rows: DataFrame) -> DataFrame:
        return verdicts.with_outcome(rows, self.scope, self.lake.ignores, self.stamp.as_of.date())

    def again(self, suspects: DataFrame) -> DataFrame:
        return verdicts.again(suspects, self.scope, self.lake.ignores, self.stamp.as_of.date())

    def confirms(self, table: Table) -> bool:
        """Whether storage may be asked about this table's files now."""
        return self.context.live and table.settings.confirm.mode == "head"

    def look(self, keys: DataFrame) -> DataFrame:
        """LIVE rows: what storage says of (bucket, key) rows now."""
        rate = self.lake.settings.confirm.rate
        tasks = max(1, min(self.context.parallelism, rate))
        return live_check.look(keys, self.context.clients, rate=rate, tasks=tasks)

    @property
    def facts_in_scope(self) -> list[TableFacts]:
        names = {table.name for table in self.scope}
        return [fact for fact in self.facts if fact.table.name in names]


def bench_for(
    lake: Lake,
    scope: Sequence[Table],
    parts: Parts,
    observed: Observed,
    context: Context,
    stamp: Stamp,
    memory: Memory,
) -> Bench:
    """The bench of one run."""
    facts = table_facts(lake.tables, observed.evidence.claims)
    return Bench(lake, scope, parts, observed, context, stamp, facts, memory)
