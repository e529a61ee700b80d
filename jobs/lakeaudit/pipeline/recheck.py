"""Again: suspects judged a second time, by all that can clear them.

Holes, assumed vacuums, the ceiling, the live check and the tables' newest states can clear a suspect, never make one.
"""

from collections.abc import Sequence
from functools import reduce
from operator import or_

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakeaudit.compare.apply_gaps import doubted, with_holes, with_vacuums
from lakeaudit.compare.ceiling import BAD, Trial, losses
from lakeaudit.pipeline import live_check
from lakeaudit.pipeline.absence_sampling import source_of, tried
from lakeaudit.pipeline.audit_context import Bench
from lakeaudit.pipeline.dataframes import computed
from lakeaudit.pipeline.read_sources import changes


def second_reading(
    bench: Bench, suspects: DataFrame, world: DataFrame, holed: set[str], vacuums: DataFrame
) -> tuple[DataFrame, list[Trial]]:
    """Suspects judged again with all that is known by now, and the trials of sources that lack too much."""
    known = F.col("s_older_version_id").isNotNull()
    suspects = suspects.withColumns({"related_key": F.lit(None).cast("string"), "versions_known": known})
    marked = computed(with_vacuums(with_holes(suspects, holed, bench.facts), vacuums))
    # a hole in storage is answered by a live 404, so it must not keep a suspect from being looked at
    hopeful = marked.withColumns({"held": F.col("h_storage"), "h_storage": F.lit(False)})
    hopeful = computed(bench.again(hopeful))
    trials = tried(bench, hopeful, world)
    marked = doubted(marked, trials)
    keys = _to_look_at(bench, hopeful, trials)
    if keys is None or keys.isEmpty():
        return by_second_cut(bench.again(marked)), trials
    answers = computed(bench.look(keys))
    answered = computed(live_check.with_answers(marked, answers))
    let_go = _let_go(bench, computed(bench.again(answered)))
    return by_sample(by_second_cut(let_go), losses(trials)), trials


def by_second_cut(rows: DataFrame) -> DataFrame:
    """What nobody could look at is confirmed by a picture that is newer than the one that showed it first."""
    cut = F.least("s_from", F.when(F.col("axis") == "metastore", F.col("m_from")))
    seen_twice = (F.col("known_at") < cut) & (F.col("l_confirmation") != "live")
    found_again = F.coalesce(seen_twice & (F.col("outcome") == "finding"), F.lit(False))
    return rows.withColumn(
        "l_confirmation", F.when(found_again, "second_cut").otherwise(F.col("l_confirmation"))
    )


def by_sample(rows: DataFrame, lost: Sequence[Trial]) -> DataFrame:
    """Of a mass loss the sample speaks for what was beyond the limit of live looks: it is one loss, and told as one."""
    of_these = [
        (F.col("judged_table") == trial.missing.table) & (source_of() == trial.missing.source)
        for trial in lost
    ]
    missed = (F.col("outcome") == "finding") & (F.col("l_confirmation") == "limit")
    spoken_for = reduce(or_, of_these, F.lit(False)) & missed
    return rows.withColumn("l_confirmation", F.when(spoken_for, "sample").otherwise(F.col("l_confirmation")))


def _to_look_at(bench: Bench, suspects: DataFrame, trials: Sequence[Trial]) -> DataFrame | None:
    """The keys of the live check, worst first, within each table's limit and the lake's.

    Where a sample has shown that the evidence is bad, nothing more of the table is looked at.
    """
    bad = {trial.missing.table for trial in trials if trial.verdict == BAD}
    limits = {
        t.name: t.settings.confirm.limit for t in bench.scope if bench.confirms(t) and t.name not in bad
    }
    if not limits:
        return None
    return computed(
        live_check.candidates(live_check.limited(suspects, limits), bench.lake.settings.confirm.limit)
    )


def _let_go(bench: Bench, suspects: DataFrame) -> DataFrame:
    """Suspects whose table has moved on since it was read are no findings any more."""
    for newer in changes(bench.observed, bench.lake, bench.context):
        touched = newer.frame.select("bucket", "key").distinct().withColumn("__new", F.lit(True))
        unsure = F.coalesce(F.col("judged_table").isin(*newer.unsure), F.lit(False))
        looked_at = (F.col("outcome") == "finding") & F.col("axis").isin(*live_check.CONFIRMED_AXES)
        outcome = F.when(looked_at & F.col("__new"), "moved_on").when(looked_at & unsure, "undecided")
        joined = suspects.join(F.broadcast(touched), ["bucket", "key"], "left")
        suspects = joined.withColumn("outcome", outcome.otherwise(F.col("outcome"))).drop("__new")
    return suspects
