"""List or permanently remove expired files of the quarantine, for `lakeaudit reconcile purge`."""

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime
from typing import TextIO

from lakeaudit.audit.collapsed_locations import as_stored
from lakeaudit.commands.repair.reconcile import references_of, run_of
from lakeaudit.commands.status import CommandResult
from lakeaudit.config import Lake, Quarantine
from lakeaudit.engine.local import InProcessEngine
from lakeaudit.errors import BadInput
from lakeaudit.formatting import count, number, size, visible
from lakeaudit.keys import digest
from lakeaudit.ledger.lease import audit_lease
from lakeaudit.reconcile.canary import Forms
from lakeaudit.reconcile.execution.origins import Origins, locations_of
from lakeaudit.reconcile.execution.purge import Purge, QuarantinedObject, due, windows
from lakeaudit.reconcile.execution.unfinished import finish
from lakeaudit.reconcile.plans.lost_content import lost_content
from lakeaudit.results.read import Results
from lakeaudit.results.summaries.lake_standing import lost_states
from lakeaudit.runtime.connections.endpoints import clients_of
from lakeaudit.runtime.progress import Progress
from lakeaudit.runtime.threads import Pacer

SHOWN = 20
"""Objects that are printed."""


def purge(
    lake: Lake, results: Results, out: TextIO, *, yes: bool, now: datetime, progress: Progress
) -> CommandResult:
    """List objects that are in the quarantine for longer than `keep`; with `yes` remove them permanently.

    Raises:
        BadInput: the lake file names no quarantine.
        Busy: an audit is running on these results.
        CannotAudit, CannotPublish: the record cannot be read or written.
    """
    if lake.quarantine is None:
        raise BadInput("quarantine", "is not in the lake file", "there is nothing to purge")
    tally = Tally(out)
    if yes:
        _remove(lake, lake.quarantine, results, tally, now, progress)
        out.writelines(
            f"not removed: {number(n, 'object')}: {visible(reason)}\n"
            for reason, n in tally.left.most_common(SHOWN)
        )
        left = f", {count(tally.left.total())} not removed" if tally.left else ""
        return CommandResult(f"{tally.summary} removed permanently{left}", 3 if tally.left else 0)
    for batch in due(results, lake.quarantine.keep, now):
        tally.add(batch, {})
    verdict = f"{tally.summary} would be removed permanently; nothing was changed"
    return CommandResult(f"{verdict}; --yes removes them" if tally.objects else verdict, 0)


@dataclass
class Tally:
    """Counts removed objects and those left by reason; prints the first removed ones on `out`."""

    out: TextIO
    objects: int = 0
    bytes: int = 0
    left: Counter[str] = field(default_factory=Counter)

    def add(self, batch: Sequence[QuarantinedObject], why_left: Mapping[str, str]) -> None:
        """Count a batch; an object whose action id has a reason in `why_left` was not removed."""
        for each in batch:
            if reason := why_left.get(each.row["action_id"]):
                self.left[reason] += 1
                continue
            if self.objects < SHOWN:
                self.out.write(f"{visible(each.place.uri)}  {size(each.size)}\n")
            self.objects, self.bytes = self.objects + 1, self.bytes + each.size

    @property
    def summary(self) -> str:
        return f"{number(self.objects, 'object')} ({size(self.bytes)})"


def _remove(
    lake: Lake, quarantine: Quarantine, results: Results, tally: Tally, now: datetime, progress: Progress
) -> None:
    lake, clients = as_stored(lake, clients_of(lake))
    run_id = f"purge-{now:%Y%m%dT%H%M%SZ}-{digest(lake.name, now.isoformat())[:8]}"
    pacer = Pacer(lake.settings.confirm.rate)
    with (
        audit_lease(lake.results, clients, run_id, progress) as still_ours,
        closing(InProcessEngine()) as engine,
        progress.stage("purge the quarantine") as log,
    ):
        results = results.leased_by(still_ours)
        finish(results, run_of(lake, results, engine, clients, still_ours, lambda: now))
        references = references_of(lake, results, engine, clients, lambda: now)
        forms = Forms(clients, lake.results, still_ours)
        state = (
            lost_states(results),
            lost_content(results),
            Origins(lake.tables, locations_of(results.states())),
        )
        purge = Purge(results, clients, forms, pacer, still_ours, *state)
        for window in windows(due(results.again(), quarantine.keep, now)):
            newest = references({each.file for batch in window for each in batch}, None)
            for batch in window:
                still_ours()
                tally.add(batch, purge.remove(batch, newest, now))
                log.note(removed=tally.objects, left=tally.left.total())
