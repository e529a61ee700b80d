"""Reads the causes of open lost files that a plan may restore, for the question before it."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime

from lakeaudit.advice.causes import counted_causes
from lakeaudit.advice.next_steps import BROUGHT_BACK
from lakeaudit.report.summary import AT_STAKE
from lakeaudit.results.read import Results
from lakeaudit.results.sql import ask, text, texts
from lakeaudit.results.summaries.lake_standing import standing


@dataclass(frozen=True)
class LostCauses:
    """The kinds of open lost files that may be restored, and their known causes."""

    kinds: Collection[str]
    by_cause: Mapping[str, int]


def lost_causes(results: Results, now: datetime, tables: tuple[str, ...] | None) -> LostCauses:
    """Return the causes of open lost files of some tables, above info; None: of all."""
    of_tables = "true" if tables is None else f"table_name IN ({texts(tables)})" if tables else "false"
    sql = f"""SELECT kind, cause, cause_principal, count(*) AS number FROM discrepancies
        WHERE state <> 'resolved' AND {standing(now)} = {text("open")} AND {of_tables}
            AND severity IN ({texts(AT_STAKE)})
            AND kind IN ({texts(tuple(sorted(BROUGHT_BACK)))}) AND coalesce(recoverable, 'unknown') <> 'no'
        GROUP BY kind, cause, cause_principal"""
    rows = ask(results, sql, "discrepancies")
    return LostCauses({row["kind"] for row in rows}, counted_causes(rows))
