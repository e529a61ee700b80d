"""Reads the result tables without a JVM, through delta-rs: what commands, pages and dashboards show.

Only finished runs are shown. Findings are streamed batch by batch, worst severity first, since there may be
hundreds of thousands.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cached_property, reduce
from operator import and_
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from botocore.exceptions import BotoCoreError, ClientError
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from pyarrow.dataset import Dataset, Expression, Fragment

from lakeaudit.aws import Clients, delta_rs_options, explain
from lakeaudit.errors import BadInput, CannotAudit, SourceError
from lakeaudit.evidence.files import list_files
from lakeaudit.keys import Location
from lakeaudit.kinds import SEVERITIES

Row = dict[str, Any]

PUBLISHED = ("complete", "partial", "suspect")
"""States of a run whose rows may be shown."""

UNRESOLVED = ("pending", "open")
"""States of a discrepancy that is not over."""

BATCH_ROWS = 4096
_BEFORE_ALL = datetime(1, 1, 1, tzinfo=UTC)
_GROUP = ("kind", "severity", "table_name", "partition_path")


class Results:
    """The results of one lake at one place.

    Raises:
        CannotAudit: from every method, where the place or a table of it cannot be read.
    """

    def __init__(self, place: Location, clients: Clients, lake: str) -> None:
        self._place = place
        self._clients = clients
        self._lake = lake

    @property
    def lake(self) -> str:
        """The lake whose rows these are."""
        return self._lake

    @property
    def place(self) -> Location:
        """Where the result tables lie."""
        return self._place

    def again(self) -> "Results":
        """The same results as they lie there now."""
        return Results(self._place, self._clients, self._lake)

    def delta_table(self, name: str) -> tuple[str, dict[str, str]]:
        """Where a result table lies, and how delta-rs reaches it."""
        return _uri(self._place.join(name)), self._options

    def runs(self) -> list[Row]:
        """The rows of `runs`, oldest first; finished or not."""
        rows = self._rows("runs", pc.scalar(True))
        return sorted(rows, key=lambda row: (row["finished_at"] or _BEFORE_ALL, row["run_id"]))

    def last_published(self) -> Row | None:
        """The published run that finished last."""
        return next((run for run in reversed(self.runs()) if run["status"] in PUBLISHED), None)

    def published(self, run_id: str | None) -> Row:
        """The row of a published run, by default the last one.

        Raises:
            BadInput: there is no run of that id, or it has not finished.
            CannotAudit: nothing was ever published.
        """
        if run_id is None:
            if run := self.last_published():
                return run
            raise CannotAudit(self._place.uri, "holds no finished audit", "run `lakeaudit audit` first")
        run = self.run(run_id)
        if run["status"] not in PUBLISHED:
            what = f"that run is {run['status']}: it published nothing"
            raise BadInput(f"--run-id {run_id}", what, "run it again, or leave --run-id out")
        return run

    def run(self, run_id: str) -> Row:
        """The row of one run, finished or not.

        Raises:
            BadInput: there is none of that id.
        """
        found = [run for run in self.runs() if run["run_id"] == run_id]
        if not found:
            raise BadInput(
                f"--run-id {run_id}", f"no such run in {self._place.uri}", "leave it out for the last"
            )
        return found[-1]

    def coverage(self, run_id: str, tables: Sequence[str] = ()) -> list[Row]:
        """The run's rows of `coverage`, by table and axis."""
        rows = self._rows("coverage", _of(run_id, tables=tables))
        return sorted(rows, key=lambda row: (row["table_name"] or "", row["axis"]))

    def findings(
        self, run_id: str, kinds: Sequence[str] = (), tables: Sequence[str] = ()
    ) -> Iterator[pa.RecordBatch]:
        """The run's findings with all columns, worst severity first; only of some kinds or tables if given."""
        yield from self._worst_first("findings", _of(run_id, kinds, tables))

    def discrepancies(self, states: Sequence[str] = (), like: str = "") -> Iterator[pa.RecordBatch]:
        """The ledger with all columns, worst severity first; of some states, or whose id begins so, if given."""
        begins = pc.starts_with(pc.field("discrepancy_id"), like)
        yield from self._worst_first("discrepancies", begins & _among(("state", states)))

    def holds_any(self, table: str, run_id: str, tables: Sequence[str] = ()) -> bool:
        """Whether a result table has rows of this run, or of any run about one of these tables."""
        wanted = pc.field("run_id") == run_id
        if tables:
            wanted |= pc.field("table_name").isin(list(tables))
        return any(True for _ in self.batches(table, wanted, ["run_id"]))

    def unresolved(self) -> list[Row]:
        """What is pending or open: discrepancy_id, kind, severity."""
        wanted = _among(("state", UNRESOLVED))
        columns = ("discrepancy_id", "kind", "severity")
        return [row for batch in self.batches("discrepancies", wanted, columns) for row in batch.to_pylist()]

    def discrepancies_of_file(self, bucket: str, key: str) -> list[Row]:
        """The ledger's rows about one key, whatever their state."""
        return self._rows("discrepancies", (pc.field("bucket") == bucket) & (pc.field("key") == key))

    def notices(self) -> list[Row]:
        """What was told or is to be told, oldest first."""
        return sorted(
            self._rows("notices", pc.scalar(True)), key=lambda row: (row["made_at"], row["notice_id"])
        )

    def history(self, ids: Sequence[str]) -> list[Row]:
        """What happened to these discrepancies, oldest first."""
        return sorted(self._rows("transitions", _among(("discrepancy_id", ids))), key=lambda row: row["at"])

    def _worst_first(self, table: str, wanted: Expression) -> Iterator[pa.RecordBatch]:
        for severity in SEVERITIES:
            yield from self.batches(table, wanted & (pc.field("severity") == severity))
        odd = pc.field("severity").isin(SEVERITIES)
        yield from self.batches(table, wanted & (~odd | pc.field("severity").is_null()))

    def findings_of_file(self, run_id: str, bucket: str, key: str) -> list[Row]:
        """The run's findings about one key, or that name it as the other one."""
        about = (pc.field("key") == key) | (pc.field("related_key") == key)
        return self._rows("findings", _of(run_id) & (pc.field("bucket") == bucket) & about)

    def group_findings(self, run_id: str, table: str) -> list[Row]:
        """The run's findings about more than one file of a table: prefixes, partitions, the table itself."""
        return self._rows("findings", _of(run_id, tables=(table,)) & (pc.field("subject_type") != "file"))

    def leftover_groups(
        self, run_id: str, kinds: Sequence[str] = (), tables: Sequence[str] = ()
    ) -> list[Row]:
        """The run's findings that stand for many files each, which `leftover_files` names."""
        return self._rows("findings", _of(run_id, kinds, tables) & (pc.field("axis") == "leftover"))

    def worst(self, run_id: str, limit: int) -> list[Row]:
        """The worst findings: by severity, then most bytes at stake, then key."""
        found: list[Row] = []
        for severity in SEVERITIES:
            if len(found) < limit:
                wanted = _of(run_id) & (pc.field("severity") == severity)
                found += self._top(wanted, limit - len(found))
        return found

    def totals(self, run_id: str, kinds: Sequence[str] = (), tables: Sequence[str] = ()) -> list[Row]:
        """What all findings add up to: a row per kind, severity, table and partition.

        Each has findings, files, rows_at_stake, bytes_at_stake (null where every part is) and the soonest
        recoverable_until.
        """
        summed = ("files", "rows_at_stake", "bytes_at_stake")
        columns = [*_GROUP, *summed, "recoverable_until"]
        batches = list(self.batches("findings", _of(run_id, kinds, tables), columns))
        if not batches:
            return []
        asked = [*((name, "sum") for name in summed), ("recoverable_until", "min")]
        grouped = pa.Table.from_batches(batches).group_by(list(_GROUP)).aggregate([*asked, ([], "count_all")])
        names = {f"{name}_{how}": name for name, how in asked} | {"count_all": "findings"}
        rows: list[Row] = grouped.rename_columns([names.get(n, n) for n in grouped.column_names]).to_pylist()
        return rows

    def leftover_files(self, run_id: str, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """The files of the run's grouped leftovers, where no later run replaced them."""
        yield from self.batches("leftover_files", _of(run_id), columns)

    def leftovers_of_file(self, run_id: str, bucket: str, key: str) -> list[Row]:
        """The rows of `leftover_files` about one key."""
        about = (pc.field("bucket") == bucket) & (pc.field("key") == key)
        return self._rows("leftover_files", _of(run_id) & about)

    def _top(self, wanted: Expression, limit: int) -> list[Row]:
        """Keeps at most `limit` rows and one batch at a time."""
        order = [("bytes_at_stake", "descending"), ("key", "ascending"), ("table_name", "ascending")]
        kept: list[pa.RecordBatch] = []
        for batch in self.batches("findings", wanted):
            kept.append(batch)
            if sum(each.num_rows for each in kept) > limit + 16 * BATCH_ROWS:
                kept = pa.Table.from_batches(kept).sort_by(order).slice(0, limit).to_batches()
        rows: list[Row] = []
        if kept:
            rows = pa.Table.from_batches(kept).sort_by(order).slice(0, limit).to_pylist()
        return rows

    def _rows(self, table: str, wanted: Expression) -> list[Row]:
        return [row for batch in self.batches(table, wanted) for row in batch.to_pylist()]

    def batches(
        self, table: str, wanted: Expression, columns: Sequence[str] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The lake's rows of a result table that a condition lets through."""
        dataset = self._dataset(table)
        if dataset is None:
            return
        mine = wanted & (pc.field("lake") == self._lake)
        names = None if columns is None else list(columns)
        with self.reading(table):
            for file in dataset.get_fragments(mine):  # one after the other: a scan of all reads far ahead
                found = _filtered(file, dataset.schema, names, mine)
                yield from (batch for batch in found if batch.num_rows)

    def _dataset(self, table: str) -> Dataset | None:
        """None where the table was never written."""
        found = self.delta(table)
        if found is None:
            return None
        if table not in self._datasets:
            with self.reading(table):
                self._datasets[table] = found.to_pyarrow_dataset()
        return self._datasets[table]

    def has_table(self, table: str) -> bool:
        """Whether a result table was ever written: its first commit was finished."""
        try:
            log = list_files(self._clients, self._place.join(table, "_delta_log"), flat=True)
            return not all(file.name.startswith(".") for file in log)
        except SourceError as error:  # a missing bucket, a refusal, a dead endpoint: delta-rs tells it worse
            raise CannotAudit(*error.args) from error

    def delta(self, table: str) -> DeltaTable | None:
        """A result table as it lay there when it was first asked for; None where it was never written."""
        if table not in self._tables:
            with self.reading(table):
                uri, options = self.delta_table(table)
                written = self.has_table(table)
                self._tables[table] = DeltaTable(uri, storage_options=options) if written else None
        return self._tables[table]

    def version(self, table: str) -> int | None:
        """The version of a result table as it was first asked for; None where it was never written."""
        found = self.delta(table)
        return None if found is None else found.version()

    @contextmanager
    def reading(self, table: str) -> Iterator[None]:
        """What goes wrong inside is told in one line, as the table's."""
        try:
            yield
        except (DeltaError, pa.ArrowException, OSError, ValueError) as error:
            what = f"the table cannot be read ({type(error).__name__}: {str(error)[:160]})"
            other = any(sign in str(error) for sign in _OF_ANOTHER_VERSION)
            way_out = _UPDATE if other else "restore it, or audit into another place"
            raise CannotAudit(self._place.join(table).uri, what, way_out) from error

    @cached_property
    def _tables(self) -> dict[str, DeltaTable | None]:
        return {}

    @cached_property
    def _datasets(self) -> dict[str, Dataset]:
        return {}

    @cached_property
    def _options(self) -> dict[str, str]:
        bucket = self._place.bucket
        if not bucket:
            return {}
        try:
            return delta_rs_options(self._clients.endpoint(bucket), bucket) | _PATIENCE
        except (ClientError, BotoCoreError) as error:
            raise CannotAudit(self._place.uri, *explain(error)) from error


def _filtered(
    file: Fragment, schema: pa.Schema, names: list[str] | None, wanted: Expression
) -> Iterator[pa.RecordBatch]:
    """Files that delta-rs rewrote hold string views, which pyarrow filters only once they are cast."""
    if pa.string_view() not in file.physical_schema.types:
        yield from file.to_batches(schema, columns=names, filter=wanted, batch_size=BATCH_ROWS)
        return
    for batch in file.to_batches(schema, batch_size=BATCH_ROWS):
        kept = batch.filter(wanted)
        yield kept if names is None else kept.select(names)


_PATIENCE = {"connect_timeout": "5s", "timeout": "60s", "max_retries": "3", "retry_timeout": "30s"}


_OF_ANOTHER_VERSION = ("No field named", "Unsupported", "is not supported")
_UPDATE = "another version of lakeaudit wrote it: use the newer of the two, or audit once more with it"


def _uri(place: Location) -> str:
    return place.spark_path if place.is_local else place.uri


def _of(run_id: str, kinds: Sequence[str] = (), tables: Sequence[str] = ()) -> Expression:
    return (pc.field("run_id") == run_id) & _among(("kind", kinds), ("table_name", tables))


def _among(*wanted: tuple[str, Sequence[str]]) -> Expression:
    """Each column among its values; no values mean any."""
    conditions = [pc.field(column).isin(list(values)) for column, values in wanted if values]
    return reduce(and_, conditions, pc.scalar(True))
