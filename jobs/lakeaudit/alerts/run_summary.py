"""Reads from the result tables what notices report about one finished run."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from lakeaudit.judged import files_judged
from lakeaudit.kinds import FILE_AXES, says_loss
from lakeaudit.results.read import Results, Row
from lakeaudit.results.summaries.change_summary import Change, changes_of, open_now
from lakeaudit.results.watermark import fell_behind


@dataclass(frozen=True)
class News:
    """The status of one run and its changes.

    `open` counts by table and severity what is open after the run and not accepted; `losses` are mass losses by table.
    `behind` says by table that commits which an earlier audit verified are no longer verified. `judged` of the
    `tables` in its scope have judged files.
    """

    run_id: str
    at: datetime
    status: str
    error: str | None = None
    changes: tuple[Change, ...] = ()
    open: Mapping[str | None, Mapping[str, int]] = field(default_factory=dict)
    losses: Mapping[str, str] = field(default_factory=dict)
    behind: Mapping[str, str] = field(default_factory=dict)
    judged: int = 0
    tables: int = 0


def news_of(results: Results, run: Row, now: datetime) -> News:
    """Return the news of one finished run."""
    coverage = results.coverage(run["run_id"])
    judged = {row["table_name"] for row in coverage if row["axis"] in FILE_AXES and files_judged(row)}
    lost = [
        row for row in coverage
        if row["status"] == "complete" and says_loss(row["reason"]) and row["axis"] == "content"
    ]  # fmt: skip
    return News(
        run_id=run["run_id"],
        at=run["finished_at"],
        status=run["status"],
        error=run["error"],
        changes=tuple(changes_of(results, run["run_id"])),
        open=open_now(results, now),
        losses={row["table_name"]: row["reason"] for row in lost},
        behind={
            row["table_name"]: f"{text}; later ones are verified again when this is resolved"
            for row in results.verified(run["run_id"])
            if (text := fell_behind(row))
        },
        judged=len(judged),
        tables=len({row["table_name"] for row in coverage}),
    )
