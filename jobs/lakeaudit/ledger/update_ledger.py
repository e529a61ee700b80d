"""Remember: a run's findings and looks meet the ledger. Changed ledger rows and their transitions come out.

The rules are those of `settle`; here they are asked of frames.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakeaudit.compare.classify import ruled
from lakeaudit.compare.expr import Expr, sql
from lakeaudit.compare.findings import Stamp, digest
from lakeaudit.compare.verdicts import severity_rank
from lakeaudit.ledger import settle
from lakeaudit.ledger.axis_observation import Look, look_frame
from lakeaudit.ledger.resolution import RETIRED, said_by_silence
from lakeaudit.pipeline.dataframes import computed
from lakeaudit.schemas import DISCREPANCIES, LEDGER, OF_FINDING, TRANSITIONS, conform

CONFIRMED = ("live", "sample", "not_needed")
"""Confirmations after which one cut is enough."""

_AT_STAKE = ("files", "rows_at_stake", "bytes_at_stake", "recoverable", "recoverable_until")

FoundSince = Callable[[DataFrame], DataFrame]
"""Rows (discrepancy_id, table_name, axis, l_last_evidence_at) -> (discrepancy_id, l_found_at).

The newest evidence on which earlier runs found each.
"""


@dataclass(frozen=True)
class Seen:
    """What a run saw: FINDINGS, its words on known subjects (discrepancy_id, n_said, n_live), and its looks."""

    findings: DataFrame
    words: DataFrame
    looks: Sequence[Look]
    tables: Collection[str]
    """All that the lake file names."""


@dataclass(frozen=True)
class Changes:
    """What a run changes: rows of DISCREPANCIES and of TRANSITIONS, and how many rows each action changed."""

    discrepancies: DataFrame
    transitions: DataFrame
    counts: Mapping[str, int]


def remember(ledger: DataFrame, seen: Seen, stamp: Stamp, now: datetime, found_since: FoundSince) -> Changes:
    """Settle every discrepancy that is not resolved, or was found again."""
    rows = settle_rows(ledger, seen, stamp, now)
    acted = computed(_acted(rows))
    counts = _counted(acted)
    if counts.keys() & settle.ENDED_BY_CUT:
        acted = computed(_acted(_last_found(rows, acted, found_since)))
        counts = _counted(acted)
    changed = acted.filter(F.col("action") != settle.KEEP)
    return Changes(_discrepancies(changed), _transitions(changed, stamp), _by_action(counts))


def _by_action(counts: Mapping[str, int]) -> dict[str, int]:
    actions = {rule.id: rule.verdict for rule in settle.RULES}
    summed: Counter[str] = Counter()
    for rule, number in counts.items():
        summed[actions[rule]] += number
    return {action: number for action, number in summed.items() if action != settle.KEEP}


def _counted(acted: DataFrame) -> dict[str, int]:
    """Small: the rules that fired."""
    return {row["rule_settle"]: row["count"] for row in acted.groupBy("rule_settle").count().collect()}


def settle_rows(ledger: DataFrame, seen: Seen, stamp: Stamp, now: datetime) -> DataFrame:
    """SETTLE rows: `l_`, `r_`, `n_`, `a_`, and the finding and ledger row they come from (`found`, `held`)."""
    held = ledger.select("discrepancy_id", F.struct(*DISCREPANCIES.names).alias("held"))
    found = seen.findings.select("discrepancy_id", F.struct(*OF_FINDING.names).alias("found"))
    both = held.join(found, "discrepancy_id", "full_outer")
    both = both.filter(F.col("found").isNotNull() | (F.col("held.state") != "resolved"))
    both = both.withColumns(
        {name: F.coalesce(f"found.{name}", f"held.{name}") for name in ("table_name", "axis")}
    )
    looked = both.withColumn("table_name", F.coalesce("table_name", F.lit("")))
    looked = looked.join(
        F.broadcast(look_frame(ledger.sparkSession, seen.looks)), ["table_name", "axis"], "left"
    )
    rows = looked.withColumns(_of_run(stamp, now) | _of_ledger()).withColumns(_of_finding())
    return _with_words(rows, seen)


def _of_run(stamp: Stamp, now: datetime) -> dict[str, Column]:
    return {"run_id": F.lit(stamp.run_id), "now": F.lit(now), "l_found_at": F.lit(None).cast("timestamp")}


def _of_ledger() -> dict[str, Column]:
    named = {f"l_{name}": F.col(f"held.{name}") for name in settle.NEXT}
    return named | {"l_rank": _rank("held.severity")}


def _of_finding() -> dict[str, Column]:
    """A live check saw storage in this run; whatever else was found rests on the look's picture."""
    found, live = F.col("found").isNotNull(), F.col("found.confirmation") == "live"
    grown = [~F.col(f"found.{name}").eqNullSafe(F.col(f"held.{name}")) for name in _AT_STAKE]
    return {
        "r_evidence_at": F.when(live, F.col("now")).when(found, F.col("a_evidence_at")),
        "r_edge": F.when(live, F.col("now")).when(found, F.col("a_edge")),
        "r_confirmed": F.col("found.confirmation").isin(*CONFIRMED),
        "r_kind": F.col("found.kind"),
        "r_severity": F.col("found.severity"),
        "r_rank": _rank("found.severity"),
        "r_grown": F.greatest(*grown),
    }


def _with_words(rows: DataFrame, seen: Seen) -> DataFrame:
    """What the run says of a subject that it did not find.

    Its verdict says it; without one the subject is no more; without a table or an axis to look at, it is retired.
    """
    words = seen.words.withColumn("__judged", F.lit(True))
    joined = rows.join(words, "discrepancy_id", "left")
    unknown = (F.col("table_name") != "") & ~F.col("table_name").isin(*seen.tables)
    retired = F.coalesce(F.col("a_off"), F.lit(False)) | unknown
    said = F.when(retired, RETIRED).when(F.col("__judged"), F.col("n_said")).otherwise(said_by_silence())
    live = retired | F.coalesce(F.col("n_live"), F.lit(False))
    return joined.withColumns(
        {
            "n_said": said,
            "n_live": live,
            "n_evidence_at": F.when(live, F.col("now")).otherwise(F.col("a_evidence_at")),
            "a_audited": F.coalesce(F.col("a_audited"), F.lit(False)) | retired,
        }
    ).drop("__judged")


def _last_found(rows: DataFrame, acted: DataFrame, found_since: FoundSince) -> DataFrame:
    """SETTLE rows with `l_found_at`: what a cut would end must not have been found by a newer one."""
    ended = acted.filter(F.col("rule_settle").isin(*settle.ENDED_BY_CUT))
    asked = ended.select("discrepancy_id", "table_name", "axis", "l_last_evidence_at")
    return rows.drop("l_found_at").join(found_since(asked), "discrepancy_id", "left")


def _acted(rows: DataFrame) -> DataFrame:
    """Rows with `action`, its `reason`, and each ledger column after it."""
    decided = ruled(rows, settle.FACTS, {"settle": settle.RULES})
    rule = F.col("rule_settle")
    named = decided.withColumns(
        {
            "action": F.coalesce(*[F.when(rule == r.id, F.lit(r.verdict)) for r in settle.RULES]),
            "reason": F.coalesce(*[F.when(rule == r.id, F.lit(r.because)) for r in settle.RULES]),
        }
    )
    return named.withColumns({f"x_{name}": _after(name, changes) for name, changes in settle.NEXT.items()})


def _after(name: str, changes: Mapping[str, Expr]) -> Column:
    cases = " ".join(f"WHEN '{action}' THEN {sql(value)}" for action, value in changes.items())
    return F.expr(f"CASE action {cases} ELSE `l_{name}` END")


def _discrepancies(changed: DataFrame) -> DataFrame:
    found = F.col("action").isin(*settle.FOUND)
    latest = {n: F.when(found, F.col(f"found.{n}")).otherwise(F.col(f"held.{n}")) for n in OF_FINDING.names}
    after = {n: F.col(f"x_{n}") for n in LEDGER.names if n != "discrepancy_id"}
    columns = [column.alias(name) for name, column in (after | latest).items()]
    return conform(changed.select("discrepancy_id", *columns), DISCREPANCIES)


def _transitions(changed: DataFrame, stamp: Stamp) -> DataFrame:
    """Only what people may be told; the id is the same whenever the run is run again."""
    word = F.coalesce(*[F.when(F.col("action") == a, F.lit(w)) for a, w in settle.TRANSITIONS.items()])
    told = changed.withColumn("transition", word).filter(F.col("transition").isNotNull())
    named = told.withColumns(
        {
            "transition_id": transition_id(),
            "lake": F.lit(stamp.lake),
            "from_kind": F.col("l_kind"),
            "to_kind": F.col("x_kind"),
            "from_severity": F.col("l_severity"),
            "to_severity": F.col("x_severity"),
            "at": F.col("now"),
        }
    )
    return conform(named, TRANSITIONS)


def transition_id() -> Column:
    """digest(run_id, discrepancy_id, transition)."""
    return digest("run_id", "discrepancy_id", "transition")


def _rank(column: str) -> Column:
    return F.when(F.col(column).isNotNull(), severity_rank(column))
