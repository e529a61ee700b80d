"""Trial: where more is missing than may be believed, a sample is looked at first."""

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from lakeaudit.compare.ceiling import ABSENCES, LEAST, Missing, Trial
from lakeaudit.pipeline import live_check
from lakeaudit.pipeline.audit_context import Bench
from lakeaudit.pipeline.dataframes import computed, small

_GROUP = ("judged_table", "role", "source")


def tried(bench: Bench, suspects: DataFrame, world: DataFrame) -> list[Trial]:
    """The trials of every source that lacks too much of a table, from judged suspects and all PAIR rows."""
    absent = _absent(suspects)
    counts = absent.groupBy(*_GROUP).count().filter(F.col("count") >= LEAST).collect()
    if not counts:
        return []
    claimed = {(row["judged_table"], row["source"]): row["count"] for row in _claimed(world).collect()}
    labels = {info.id: f"{info.kind} {info.location}" for info in bench.observed.infos}
    found = [_missing(row.asDict(), claimed, labels) for row in counts]
    over = [missing for missing in found if missing.over(bench.lake.ceiling.share)]
    may_look = {table.name for table in bench.scope if bench.confirms(table)}
    asked = [missing for missing in over if missing.table in may_look]
    looked = _looked(bench, absent, asked) if asked else {}
    return [looked.get((m.table, m.source)) or Trial(m) for m in over]


def _missing(
    row: dict[str, Any], claimed: Mapping[tuple[str, str], int], labels: Mapping[str, str]
) -> Missing:
    table, source = row["judged_table"], row["source"]
    return Missing(table, source, row["role"], row["count"], claimed[table, source], labels[source])


def _looked(bench: Bench, absent: DataFrame, asked: Sequence[Missing]) -> dict[tuple[str, str], Trial]:
    sample = computed(sampled(absent, asked, bench.lake.ceiling.sample, bench.stamp.run_id))
    answers = computed(bench.look(sample.select("bucket", "key").distinct()))
    again = _absent(bench.again(live_check.with_answers(sample.drop("role", "source"), answers)))
    live = F.col("l_confirmation") == "live"
    answered = sample.select(*_GROUP, "bucket", "key").join(
        answers.filter(live).select("bucket", "key"), ["bucket", "key"]
    )
    counts = [_counted(frame) for frame in (sample, answered, again.filter(live))]
    return {
        (m.table, m.source): Trial(m, *(count.get((m.table, m.source), 0) for count in counts))
        for m in asked
    }  # fmt: skip


def sampled(absent: DataFrame, asked: Sequence[Missing], size: int, seed: str) -> DataFrame:
    """Up to `size` rows of each group, in turn from each of its partitions, drawn by the seed."""
    groups = [(missing.table, missing.role, missing.source) for missing in asked]
    wanted = small(absent.sparkSession, groups, "judged_table string, role string, source string")
    drawn = F.xxhash64(F.lit(seed), "bucket", "key")
    of_partition = Window.partitionBy(*_GROUP, "partition_path").orderBy(drawn, "key")
    ranked = absent.join(F.broadcast(wanted), [*_GROUP]).withColumn(
        "__turn", F.row_number().over(of_partition)
    )
    of_group = Window.partitionBy(*_GROUP).orderBy("__turn", drawn, "key")
    placed = ranked.withColumn("__place", F.row_number().over(of_group))
    return placed.filter(F.col("__place") <= size).drop("__turn", "__place")


def _absent(rows: DataFrame) -> DataFrame:
    """New findings of absence that no hole forbids, with the role and the source that should hold the file."""
    of_storage = F.col("role") == "storage"
    named = rows.filter(F.col("outcome") == "finding").withColumns({"role": _role(), "source": source_of()})
    forbidden = of_storage & F.col("held")
    return named.filter(F.col("role").isNotNull() & F.col("known_at").isNull() & ~forbidden)


def source_of() -> Column:
    """The source that should hold what a finding of absence misses; null for any other finding."""
    of_store = F.when(_role() == "metastore", F.col("m_source"))
    return F.when(_role() == "storage", F.col("s_source")).otherwise(of_store)


def _role() -> Column:
    return F.coalesce(*[F.when(F.col("kind") == kind, role) for kind, role in ABSENCES.items()])


def _claimed(world: DataFrame) -> DataFrame:
    """How many files of each table another role says that a source should hold."""
    stored, kept = F.col("s_presence") == "present", F.col("m_state") == "file"
    listed = F.col("c_state").isin("live", "history")
    wanted = F.array(
        F.when((stored | (F.col("s_presence") == "absent")) & (listed | kept), F.col("s_source")),
        F.when(stored & (kept | (F.col("m_state") == "none")), F.col("m_source")),
    )
    # content is judged by the table that claims a file, the metastore's entry by the one that owns its place
    tables = F.array_compact(F.array_distinct(F.array("table_name", "owner")))
    each = world.select(F.explode(tables).alias("judged_table"), wanted.alias("wanted"))
    asked = each.select("judged_table", F.explode("wanted").alias("source"))
    return asked.filter(F.col("source").isNotNull()).groupBy("judged_table", "source").count()


def _counted(rows: DataFrame) -> dict[tuple[str, str], int]:
    """Small: the groups on trial."""
    counts = rows.groupBy("judged_table", "source").count().collect()
    return {(row["judged_table"], row["source"]): row["count"] for row in counts}
