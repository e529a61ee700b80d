"""The ledger's tables in Delta: what is known, what is still open, and the writing of what a run changed.

Transitions are appended before the rows of `discrepancies` they tell of. A run that was killed in between left
transitions that never took effect: the next one to write here takes them out first.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakeaudit.ledger.axis_observation import RECHECKED
from lakeaudit.ledger.settle import TRANSITIONS as TOLD
from lakeaudit.ledger.update_ledger import Changes
from lakeaudit.pipeline.dataframes import computed
from lakeaudit.results.read import UNRESOLVED
from lakeaudit.results.write import ResultsWriter


@dataclass(frozen=True)
class Standing:
    """Discrepancies by state, and the ids of those that a person has accepted until later than now (None: no such)."""

    states: Mapping[str, int]
    accepted: DataFrame | None = None


class LedgerTables:
    """The ledger of one lake, where its results are written."""

    def __init__(self, writer: ResultsWriter) -> None:
        self._writer = writer

    def rows(self) -> DataFrame:
        """The lake's rows of DISCREPANCIES."""
        return self._writer.rows("discrepancies")

    def still_open(self, tables: Collection[str], run_id: str) -> DataFrame | None:
        """Files of these tables to look at again; None without any.

        Columns: discrepancy_id, axis, judged_table, bucket, key, known_at: the evidence that first showed it to
        another run than this one, which may have been killed and is run again.
        """
        wanted = (
            F.col("axis").isin(*RECHECKED)
            & (F.col("subject_type") == "file")
            & F.col("state").isin(*UNRESOLVED)
            & F.col("table_name").isin(*tables)
        )
        of_table = F.col("table_name").alias("judged_table")
        back_again = (F.col("state") == "pending") & (F.col("last_run_id") == run_id)
        by_this_run = F.coalesce((F.col("first_run_id") == run_id) | back_again, F.lit(False))
        known_at = F.when(~by_this_run, F.col("first_seen_at")).alias("known_at")
        names = ("discrepancy_id", "axis", of_table, "bucket", "key", known_at)
        found = computed(self.rows().filter(wanted).select(*names))
        return None if found.isEmpty() else found

    def found_since(self, asked: DataFrame) -> DataFrame:
        """The newest evidence on which any run found each discrepancy: discrepancy_id, l_found_at."""
        first = asked.agg(F.to_date(F.min("l_last_evidence_at"))).first()
        since = F.col("as_of_date") >= F.lit(first[0] if first else None)
        columns = ("run_id", "discrepancy_id", "confirmation")
        found = self._writer.rows("findings").filter(since).select(*columns).join(asked, "discrepancy_id")
        cuts = self._writer.rows("coverage").select("run_id", "table_name", "axis", "storage_cut_from")
        runs = self._writer.rows("runs").select("run_id", "as_of")
        dated = found.join(cuts, ["run_id", "table_name", "axis"], "left").join(runs, "run_id", "left")
        at = F.when(F.col("confirmation") == "live", F.col("as_of")).otherwise(
            F.coalesce("storage_cut_from", "as_of")
        )
        return dated.groupBy("discrepancy_id").agg(F.max(at).alias("l_found_at"))

    def publish(self, changes: Changes) -> None:
        """Write what a run changed, and nothing else."""
        if not changes.counts:
            return
        if changes.counts.keys() & TOLD.keys():
            self._writer.append("transitions", changes.transitions)
        self._writer.replace_rows("discrepancies", changes.discrepancies, "discrepancy_id")

    def standing(self, now: datetime) -> Standing:
        """How the ledger stands."""
        accepted = F.coalesce(F.col("ack_until") > F.lit(now), F.lit(False))
        rows = self.rows().select("discrepancy_id", "state", accepted.alias("accepted"))
        counts = [row.asDict() for row in rows.groupBy("state", "accepted").count().collect()]
        states: dict[str, int] = {}
        for row in counts:
            states[row["state"]] = states.get(row["state"], 0) + row["count"]
        any_accepted = any(row["accepted"] for row in counts)
        return Standing(states, rows.filter("accepted").select("discrepancy_id") if any_accepted else None)

    def bury(self, killed: Sequence[Mapping[str, Any]], now: datetime) -> None:
        """Call killed runs failed, and take out their transitions that the ledger never knew."""
        if not killed:
            return
        told = self._writer.rows("transitions").filter(
            F.col("run_id").isin([run["run_id"] for run in killed])
        )
        known = self.rows().select("discrepancy_id", F.col("last_run_id").alias("run_id"))
        lost = computed(told.join(known, ["discrepancy_id", "run_id"], "left_anti").select("transition_id"))
        if not lost.isEmpty():
            self._writer.remove_rows("transitions", lost, "transition_id")
        for run in killed:
            self._writer.put_run(
                {**run, "status": "failed", "finished_at": now, "error": "it ended without a word"}
            )
