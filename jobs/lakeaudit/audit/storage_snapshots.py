"""Compares and stores storage snapshots for manifests of kind `previous`."""

from functools import partial

from lakeaudit.audit.judge import Judgement
from lakeaudit.audit.plan import Options
from lakeaudit.collect.read_sources import Observed
from lakeaudit.config import Lake
from lakeaudit.evidence.protocol import Context, SnapshotComparison
from lakeaudit.ledger.ledger_tables import LedgerTables
from lakeaudit.matching.prefix_match import attach_label
from lakeaudit.matching.table_facts import roots
from lakeaudit.results.read import PUBLISHED


def snapshot_comparison(
    lake: Lake, options: Options, ledger: LedgerTables, context: Context
) -> SnapshotComparison | None:
    """Return how a run compares storage snapshots; None if no table needs one.

    Only an audit of all tables, now and with the sources of the lake file, may replace the last snapshot.
    """
    if not any(each.is_snapshot for table in lake.tables for each in table.manifests):
        return None
    owned = partial(attach_label, places=roots(lake.tables), column="table_name")
    narrow = options.live or options.as_of or options.tables or options.partitions
    return SnapshotComparison(owned, ledger.accepted(context.now), writes=not narrow)


def store_snapshots(observed: Observed, judgement: Judgement, status: str, run_id: str) -> tuple[str, ...]:
    """Replace the last storage snapshot after a run was published, unless the run is suspect; return warnings."""
    overtaken = any(row["status"] == "overtaken" for row in judgement.coverage_rows)
    if overtaken or status not in PUBLISHED or status == "suspect":
        return ()
    storage = {stored.info.id for stored in observed.sources.storage}
    unread = {info.id for info in observed.infos if info.role == "storage"} - storage
    whole = not unread and not any(gap.source in storage for gap in judgement.gaps)
    return tuple(
        warning
        for read in observed.sources.claims
        if read.after_publishing is not None
        for warning in read.after_publishing(run_id, whole)
    )
