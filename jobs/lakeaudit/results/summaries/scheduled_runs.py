"""Tells the scheduled audits of a lake from live audits, which read only listings of their own."""

from collections.abc import Collection, Sequence
from datetime import datetime

from lakeaudit.config import Lake
from lakeaudit.results.read import Results, Row

Source = tuple[str, str]
"""Kind and location of a source."""
LISTING = "listing"
"""The kind of the sources of a live audit."""


def only_listed(run: Row, sources: Collection[Source] = ()) -> bool:
    """Return whether all storage sources of a run were listings, other than these sources of the lake file."""
    read = [(each["kind"], each["location"]) for each in run["sources"] or () if each["role"] == "storage"]
    return bool(read) and all(kind == LISTING and (kind, place) not in sources for kind, place in read)


def scheduled_runs(results: Results, before: datetime, sources: Collection[Source]) -> list[Row]:
    """Return the published audits with evidence from before a time, the newest first.

    Audits with suspect evidence and live audits are left out: a live audit has only listings of its own. `sources` are
    kind and location of the storage sources of the lake file, among which a listing may be.

    Raises:
        CannotAudit: the results cannot be read.
    """
    runs = [
        run for run in results.runs()
        if run["status"] in ("complete", "partial") and run["as_of"] < before and not only_listed(run, sources)
    ]  # fmt: skip
    return sorted(runs, key=lambda run: (run["as_of"], run["run_id"]), reverse=True)


def without_live_audits(runs: Sequence[Row], lake: Lake) -> list[Row]:
    """Return the runs without live audits of some tables, which do not replace an audit of the lake.

    A run that only listed storage is such an audit if the lake has reports and the last run that read them covered more
    tables.
    """
    whole = [run for run in runs if not only_listed(run)]
    if not whole or all(each.is_listing for each in lake.inventories):
        return [*runs]
    most = whole[-1]["tables_expected"] or 0
    return [run for run in runs if not only_listed(run) or (run["tables_expected"] or 0) >= most]
