"""Read and write the ledger's Delta tables: known and open discrepancies, and the changes of a run.

Transitions are appended before their rows of `discrepancies`. A run that was killed in between left transitions that
never took effect: the next run that writes here removes them first.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow.dataset import Expression

from lakeaudit.kinds import LIVE_AXES
from lakeaudit.ledger.axis_observation import NEVER
from lakeaudit.ledger.resolution import RESTORED
from lakeaudit.ledger.settle import TRANSITIONS as WITH_TRANSITION
from lakeaudit.ledger.update_ledger import Changes
from lakeaudit.results import sql
from lakeaudit.results.read import FOLLOWED, FOLLOWING, RETIRED, UNRESOLVED
from lakeaudit.results.write import ResultsWriter
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation, Rows, task_connection
from lakeaudit.schemas import KNOWN, RESULTS, plain_time, without_zone

ABANDONED = "the process was killed; no final status was written"
"""The error of a run that was killed."""

FEW = 1000
"""The most findings whose ids are pushed down to pyarrow; for more of them DuckDB joins the whole ledger."""

GONE = ("dropped", "dropped_history", "missing_metadata", "archived", "size_mismatch")
"""Kinds of finding that end once an object of the claimed size exists, whenever it was written."""

_KNOWN = f"""
    SELECT axis, table_name AS judged_table, bucket, key, manifest_time AS known_claim,
        CASE WHEN still_open THEN discrepancy_id END AS known_as,
        CASE WHEN still_open AND NOT by_this_run THEN
            CASE WHEN state <> 'pending' THEN first_seen_at
                WHEN refuted_at >= last_evidence_at THEN TIMESTAMP '9999-01-01'
                ELSE last_evidence_at END END AS known_at,
        CASE WHEN kind IN ({duck.literals(GONE)}) THEN
            CASE WHEN still_open THEN TIMESTAMP 'infinity' ELSE resolved_at END END AS known_back
    FROM (SELECT *, state IN ({duck.literals(UNRESOLVED)}) AS still_open,
            coalesce(first_run_id = {{run}} OR (state = 'pending' AND last_run_id = {{run}}), false) AS by_this_run
        FROM held LEFT JOIN refuted USING (table_name, axis))
"""

_BATCH_ROWS = 32_768

_REFUTED = pa.schema([("table_name", pa.string()), ("axis", pa.string()), ("refuted_at", pa.timestamp("us"))])
_ID = pa.schema([("discrepancy_id", pa.string())])


@dataclass(frozen=True)
class Standing:
    """Discrepancies by state, and the ids of those that a person has accepted until later than now (None: no such)."""

    states: Mapping[str, int]
    accepted: pa.Table | None = None


class LedgerTables:
    """The ledger of one lake, where its results are written."""

    def __init__(self, writer: ResultsWriter) -> None:
        self._writer = writer
        self._results = writer.results

    def rows(self, con: Connection, findings: Rows) -> Relation:
        """The lake's rows of DISCREPANCIES that are not resolved, or that the findings are about, held by `con`.

        Times are without a zone.
        """
        ids = duck.made_of(con, "SELECT DISTINCT discrepancy_id FROM input", findings)
        few = pa.array([], pa.string())
        if not duck.is_empty(ids):
            first = duck.table(duck.query(con, f"FROM ids LIMIT {FEW + 1}", ids=ids))
            few = first.column("discrepancy_id").combine_chunks()
        wanted = pc.field("state").isin(UNRESOLVED)
        if len(few) <= FEW:
            return duck.hold(
                con, self._reader("discrepancies", wanted | pc.field("discrepancy_id").isin(few))
            )
        joined = f"""
            SELECT ledger.* FROM ledger LEFT JOIN ids USING (discrepancy_id)
            WHERE state IN ({duck.literals(UNRESOLVED)}) OR ids.discrepancy_id IS NOT NULL"""
        return duck.hold(
            con, duck.query(con, joined, ledger=self._reader("discrepancies", pc.scalar(True)), ids=ids)
        )

    def still_open(
        self, tables: Collection[str], run_id: str, refuted: Mapping[tuple[str, str], datetime] = NEVER
    ) -> pa.Table | None:
        """Files of these tables to look at again, and those that were put back, as rows of KNOWN; None without any.

        known_at is null where only this very run found it, which may have been killed and is run again. It lies in a
        time to come where a live check has refuted what first showed it (`refuted`, by table and axis): as for
        `settle`, this run's picture is the first.
        """
        put_back = pc.field("kind").isin(GONE) & (pc.field("resolution") == RESTORED)
        wanted = (
            pc.field("axis").isin(LIVE_AXES)
            & (pc.field("subject_type") == "file")
            & (pc.field("state").isin(UNRESOLVED) | put_back)
            & pc.field("table_name").isin(list(tables))
        )
        columns = ("discrepancy_id", "axis", "table_name", "bucket", "key", "state", "first_seen_at",
                   "last_evidence_at", "first_run_id",
                   "last_run_id", "manifest_time", "kind", "resolved_at")  # fmt: skip
        with task_connection() as con:
            held = self._reader("discrepancies", wanted, columns)
            refutations = [(*place, plain_time(at)) for place, at in refuted.items()]
            rows = duck.query(con, _KNOWN.format(run=duck.literal(run_id)), held=held,
                              refuted=duck.small(_REFUTED, refutations))  # fmt: skip
            known = duck.table(duck.conform(con, rows, KNOWN))
        return known if known.num_rows else None

    def accepted(self, now: datetime) -> pa.Table:
        """What people accept now about the content of files: table_name, bucket, key, partition_path.

        Without a key it is about many files, of the partition or of the table.
        """
        wanted = (
            (pc.field("axis") == "content")
            & (pc.field("ack_until") > pa.scalar(now, pa.timestamp("us", "UTC")))
            & pc.field("state").isin(UNRESOLVED)
        )
        columns = ("table_name", "bucket", "key", "partition_path")
        return self._reader("discrepancies", wanted, columns).read_all()

    def accepted_of(self, con: Connection, tables: Collection[str], now: datetime) -> Relation:
        """Rows of DISCREPANCIES of tables that the lake file names no more, which people accept now.

        Where one was retired with its table's name, nobody has seen it end.
        """
        wanted = (
            pc.field("table_name").isin(list(tables))
            & (pc.field("ack_until") > pa.scalar(now, pa.timestamp("us", "UTC")))
            & (pc.field("state").isin(UNRESOLVED) | (pc.field("resolution") == RETIRED))
        )
        return duck.hold(con, self._reader("discrepancies", wanted))

    def found_since(self, con: Connection, ended: Relation) -> Relation:
        """The newest evidence on which any run found each discrepancy: discrepancy_id, l_found_at.

        Args:
            con: holds the answer.
            ended: discrepancy_id, table_name, axis, l_last_evidence_at.
        """
        found = duck.hold(con, self._found_again(con, ended))
        runs = [
            row["run_id"] for row in duck.rows_of(duck.query(con, "SELECT DISTINCT run_id FROM f", f=found))
        ]
        of_runs = pc.field("run_id").isin(pa.array(runs, pa.string()))
        newest = """
            SELECT discrepancy_id, max(CASE WHEN confirmation = 'live' THEN as_of ELSE coalesce(storage_cut_from, as_of)
                END) AS l_found_at
            FROM found LEFT JOIN cuts USING (run_id, table_name, axis) LEFT JOIN runs USING (run_id)
            GROUP BY discrepancy_id"""
        cuts = self._reader("coverage", of_runs, ("run_id", "table_name", "axis", "storage_cut_from"))
        dated = duck.query(
            con, newest, found=found, cuts=cuts, runs=self._reader("runs", of_runs, ("run_id", "as_of"))
        )
        return duck.hold(con, dated)

    def _found_again(self, con: Connection, ended: Relation) -> Relation:
        """Findings about these discrepancies from the day on that the oldest of them was last found."""
        (first,) = duck.rows_of(
            duck.query(con, "SELECT min(l_last_evidence_at) AS at FROM input", input=ended)
        )
        since = first["at"].date() if first["at"] else date.max
        columns = ("run_id", "discrepancy_id", "confirmation")
        findings = self._reader("findings", pc.field("as_of_date") >= pa.scalar(since), columns)
        again = """
            SELECT run_id, discrepancy_id, confirmation, table_name, axis
            FROM findings JOIN ended USING (discrepancy_id)"""
        return duck.query(con, again, findings=findings, ended=ended)

    def not_in_ledger(self, con: Connection, findings: Rows) -> Relation:
        """Return the FINDINGS of a published run that are neither pending nor open in the ledger."""
        unresolved = self._reader("discrepancies", pc.field("state").isin(UNRESOLVED), ("discrepancy_id",))
        sql = "SELECT findings.* FROM findings ANTI JOIN unresolved USING (discrepancy_id)"
        return duck.query(con, sql, findings=findings, unresolved=unresolved)

    def publish(self, changes: Changes) -> None:
        """Write what a run changed, and nothing else."""
        if not changes.counts:
            return
        if changes.counts.keys() & WITH_TRANSITION.keys():
            self._writer.append("transitions", changes.transitions)
        self._writer.replace_rows("discrepancies", changes.discrepancies, "discrepancy_id")

    def standing(self, now: datetime) -> Standing:
        """How the ledger stands."""
        counts = "SELECT state, count(*) AS number FROM discrepancies GROUP BY state"
        states = {row["state"]: row["number"] for row in sql.ask(self._results, counts, "discrepancies")}
        until = f"SELECT discrepancy_id FROM discrepancies WHERE ack_until > {sql.moment(now)}"
        accepted = sql.rows(self._results, until, "discrepancies")
        return Standing(states, accepted.cast(_ID) if accepted is not None and accepted.num_rows else None)

    def fail_abandoned_runs(self, runs: Sequence[Mapping[str, Any]], now: datetime) -> None:
        """Set runs that were killed to failed, and remove their transitions that never reached the ledger.

        A run of `follow` whose changes reached the ledger is finished, so that its alerts are sent; any other is
        removed, because its events come again.
        """
        if not runs:
            return
        ids = pa.array([run["run_id"] for run in runs], pa.string())
        lost = self._lost_transitions(ids)
        if lost.num_rows:
            self._writer.remove_rows("transitions", lost, "transition_id")
        for run in runs:
            if run["status"] == FOLLOWING:
                changed = self._results.holds_any("transitions", pc.field("run_id") == run["run_id"])
                row = {**run, "status": FOLLOWED, "finished_at": now}
                self._writer.put("runs", [row] if changed else [], run["run_id"])
            else:
                self._writer.put_run({**run, "status": "failed", "finished_at": now, "error": ABANDONED})

    def _lost_transitions(self, runs: pa.Array) -> pa.Table:
        """Transitions of these runs whose discrepancy was not changed by the same run in the ledger."""
        of_runs = pc.field("run_id").isin(runs)
        written = self._reader(
            "transitions", of_runs, ("transition_id", "discrepancy_id", "run_id")
        ).read_all()
        by_them = pc.field("last_run_id").isin(runs)
        changed = self._reader("discrepancies", by_them, ("discrepancy_id", "last_run_id")).read_all()
        return written.join(
            changed, ["discrepancy_id", "run_id"], ["discrepancy_id", "last_run_id"], join_type="left anti"
        )

    def _reader(
        self, table: str, wanted: Expression, columns: Sequence[str] | None = None
    ) -> pa.RecordBatchReader:
        """The lake's rows of a result table, times without a zone, streamed."""
        whole = without_zone(RESULTS[table])
        schema = whole if columns is None else pa.schema([whole.field(name) for name in columns])
        batches = (batch.cast(schema) for batch in self._batches(table, wanted, schema.names))
        return pa.RecordBatchReader.from_batches(schema, batches)

    def _batches(self, table: str, wanted: Expression, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        return self._results.batches(table, wanted, columns, _BATCH_ROWS)
