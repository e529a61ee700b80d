"""Report losses in the ledger between and during audits: a small run of its own, under the ledger lease.

Such a run is not an audit: it has no coverage, and changes no discrepancy but those of its findings. A later audit
finds the same subject again, or resolves it.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import pyarrow as pa

from lakeaudit import __version__
from lakeaudit.config import Lake
from lakeaudit.errors import Busy, CannotAudit
from lakeaudit.evidence.protocol import Context
from lakeaudit.findings.finding_rows import RunStamp
from lakeaudit.ledger.axis_observation import AxisObservation
from lakeaudit.ledger.last_states import last_states
from lakeaudit.ledger.lease import ledger_lease
from lakeaudit.ledger.ledger_tables import LedgerTables
from lakeaudit.ledger.load_open import OpenDiscrepancies, abandoned_reports
from lakeaudit.ledger.renamed_tables import under_current_names
from lakeaudit.ledger.settle import TRANSITIONS
from lakeaudit.ledger.update_ledger import Changes, RunFindings, update_ledger
from lakeaudit.results.check_file import write_check_file
from lakeaudit.results.read import FOLLOWED, FOLLOWING, Results
from lakeaudit.results.write import ResultsWriter, open_results
from lakeaudit.runtime import duck
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.duck import Connection, Relation
from lakeaudit.runtime.progress import SilentProgress
from lakeaudit.schemas import OWNER

CONTENT = "content"
"""The axis of all findings of `follow`."""


def _refuse() -> None:
    """Refuse every write without the lease."""
    raise Busy("results", "this run does not hold the lease", "report this as a bug", retryable=False)


_NO_RESOLUTION = pa.schema(
    [
        ("discrepancy_id", pa.string()),
        ("n_resolution", pa.string()),
        ("n_live", pa.bool_()),
        ("n_words", pa.string()),
    ]
).empty_table()


@dataclass(frozen=True)
class Publisher:
    """Where losses are reported, and the clock of the process; the lake is as in the lake file."""

    lake: Lake
    clients: Clients
    clock: Callable[[], datetime]

    def publish(self, con: Connection, findings: Relation, stamp: RunStamp) -> Mapping[str, int]:
        """Report findings, and return the number of transitions by action; none if the ledger has all of them already.

        Raises:
            Busy: another run writes to the ledger.
            CannotPublish: the results cannot be written.
        """
        place, name = self.lake.results, self.lake.name
        holder = f"follow {stamp.run_id}"
        with ledger_lease(place, self.clients, holder, SilentProgress()) as still_ours:
            past = Results(place, self.clients, name).leased_by(still_ours)
            writer = open_results(past, still_ours)
            ledger = LedgerTables(writer)
            ledger.fail_abandoned_runs(abandoned_reports(past), self.clock())
            changes = self._changes(con, ledger, findings, stamp)
            if changes.counts:
                self._write(writer, ledger, findings, changes, stamp)
                write_check_file(past.again(), self.lake, self.clock(), all_tables=False)
            return {action: number for action, number in changes.counts.items() if action in TRANSITIONS}

    def open_discrepancies(self, tables: Collection[str], run_id: str) -> OpenDiscrepancies:
        """Return the open discrepancies of tables: a file that is back is not an overwritten one.

        Raises:
            CannotAudit: the results cannot be read.
        """
        past = Results(self.lake.results, self.clients, self.lake.name)
        return OpenDiscrepancies(LedgerTables(ResultsWriter(past, _refuse)).still_open(tables, run_id))

    def with_last_states(self, context: Context) -> Context:
        """Return the context with the states of tables that audits have read; without them if these cannot be read."""
        try:
            past = Results(self.lake.results, self.clients, self.lake.name)
            audited = under_current_names(last_states(past, context.as_of, ""), self.lake.tables)
        except CannotAudit:
            return context
        return replace(context, last_states=audited)

    def _changes(self, con: Connection, ledger: LedgerTables, findings: Relation, stamp: RunStamp) -> Changes:
        """Compute the changes of the findings' own discrepancies."""
        sql = "SELECT ledger.* FROM ledger SEMI JOIN findings USING (discrepancy_id)"
        own = duck.hold(con, duck.query(con, sql, ledger=ledger.rows(con, findings), findings=findings))
        rows = duck.rows_of(duck.query(con, "SELECT DISTINCT table_name, owner FROM f", f=findings))
        tables = [row["table_name"] for row in rows]
        seen = RunFindings(
            findings,
            _NO_RESOLUTION,
            [AxisObservation(table, CONTENT, "partial", stamp.as_of, stamp.as_of) for table in tables],
            {*tables},
            owners=duck.small(OWNER, [(row["table_name"], row["owner"]) for row in rows]),
        )
        growth = self.lake.ledger.ack_growth
        return update_ledger(con, own, seen, stamp, stamp.as_of, ledger.found_since, growth)

    def _write(
        self,
        writer: ResultsWriter,
        ledger: LedgerTables,
        findings: Relation,
        changes: Changes,
        stamp: RunStamp,
    ) -> None:
        """Write the rows of the run; its final row comes last."""
        row: dict[str, Any] = {"run_id": stamp.run_id, "lake": stamp.lake, "as_of": stamp.as_of}
        row |= {"started_at": stamp.as_of, "status": FOLLOWING, "version": __version__}
        writer.put_run(row)
        writer.write("findings", findings, stamp.run_id)
        ledger.publish(changes)
        writer.put_run(row | {"status": FOLLOWED, "finished_at": self.clock()})
