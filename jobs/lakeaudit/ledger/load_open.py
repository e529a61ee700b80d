"""Recall: what earlier runs left that this one has to know before it judges."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakeaudit.compare.findings import Stamp
from lakeaudit.ledger.ledger_tables import LedgerTables
from lakeaudit.results.read import PUBLISHED, Results, Row


@dataclass(frozen=True)
class Memory:
    """Files still open, to be looked at again, and tables that a newer run has settled.

    `still_open` is that of `LedgerTables.still_open`; `overtaken` names the newer run by table.
    """

    still_open: DataFrame | None = None
    overtaken: Mapping[str, str] = field(default_factory=dict)

    def recalled(self, verdicts: DataFrame) -> DataFrame:
        """Verdict rows with the discrepancy that is still open there: its id `known_as`, its evidence `known_at`."""
        if self.still_open is None:
            nothing = {"known_as": F.lit(None).cast("string"), "known_at": F.lit(None).cast("timestamp")}
            return verdicts.withColumns(nothing)
        known = self.still_open.withColumnRenamed("discrepancy_id", "known_as")
        return verdicts.join(known, ["axis", "judged_table", "bucket", "key"], "left")


def recall(ledger: LedgerTables, past: Results, tables: Collection[str], stamp: Stamp) -> Memory:
    """The memory for a run's audit of these tables."""
    return Memory(ledger.still_open(tables, stamp.run_id), overtaken(past, stamp.as_of))


def overtaken(past: Results, as_of: datetime) -> dict[str, str]:
    """The newest published run that looked at each table after `as_of`."""
    newer = [run for run in past.runs() if run["status"] in PUBLISHED and run["as_of"] > as_of]
    return {
        row["table_name"]: run["run_id"]
        for run in sorted(newer, key=lambda run: run["as_of"])
        for row in past.coverage(run["run_id"])
        if row["status"] in ("complete", "partial")
    }


def killed(past: Results) -> list[Row]:
    """Runs that ended without a word: whoever holds the lease knows that none of them is alive."""
    return [run for run in past.runs() if run["status"] == "running"]
