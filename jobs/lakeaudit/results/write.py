"""Writes the result tables: plain Delta, idempotent by run id.

Every write is one Delta commit that replaces what the same run wrote before, so an audit that was killed anywhere can
be run again under its run id. Readers ignore a run whose row in `runs` is not final, and that row is written last. Rows
are relations of DuckDB or Arrow tables, and are streamed, so that only few are held at a time.

A results place has a single writer, the run that holds its lease (`ledger/lease.py`). The lease is checked before every
commit.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from itertools import chain
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc
from botocore.exceptions import BotoCoreError, ClientError

from lakeaudit.errors import CannotPublish
from lakeaudit.results import delta_files, delta_writer
from lakeaudit.results.delta_writer import PARTITIONS, ROW_GROUP, in_words, texts
from lakeaudit.results.read import Results
from lakeaudit.results.write_errors import refuse
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Relation, Rows
from lakeaudit.schemas import RESULTS

ORDER = ("table_name", "axis", "kind", "partition_path", "key", "discrepancy_id")
"""Order of rows inside a file, so that rows that are read together are stored together."""


def open_results(results: Results, require_lease: Callable[[], None]) -> "ResultsWriter":
    """Return the writer of a lake's results, after their tables were checked and a test object was written there.

    Args:
        results: place and lake of the results; other lakes may have theirs in the same place.
        require_lease: raises when another run may write there now.

    Raises:
        CannotPublish: the place is not writable, or a table there is damaged or of another version.
    """
    _probe(results)
    delta_writer.open_all(results)
    for name in RESULTS:
        _check(results, name)
    return ResultsWriter(results, require_lease)


class ResultsWriter:
    """Writes one run: its row of `runs`, then every table, then that row again.

    After a write, `results` reads the new rows.
    """

    def __init__(self, results: Results, require_lease: Callable[[], None]) -> None:
        self.results = results
        self._still_ours = require_lease

    def put_run(self, run: Mapping[str, Any]) -> None:
        """Replace the run's row of `runs`.

        Until its status is final, readers ignore the run; the final status publishes all rows of the run id.
        """
        self.put("runs", [run], run["run_id"])

    def put(self, table: str, rows: Sequence[Mapping[str, Any]], run_id: str) -> None:
        """Replace the run's rows of a table by a few rows in memory. Raises as `write`."""
        schema = RESULTS[table]
        unknown = {name for row in rows for name in row} - set(schema.names)
        if unknown:
            raise ValueError(f"no columns of {table}: {sorted(unknown)}")
        self._still_ours()
        arrow = pa.Table.from_pylist([dict(row) for row in rows], schema)
        delta_writer.replace(self.results, table, arrow, {"lake": self.results.lake, "run_id": run_id})
        self.results.forget(table)

    def put_all(self, table: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Replace all of the lake's rows of a table by a few rows in memory. Raises as `write`."""
        self._still_ours()
        arrow = pa.Table.from_pylist([dict(row) for row in rows], RESULTS[table])
        delta_writer.replace(self.results, table, arrow, {"lake": self.results.lake})
        self.results.forget(table)

    def write(self, table: str, rows: Rows, run_id: str) -> None:
        """Replace the run's rows of a table by `rows`, in one commit.

        Args:
            table: leftover_files or findings.
            rows: they have that table's columns, times in UTC with or without a zone; they are read once.
            run_id: the run the rows belong to.

        Raises:
            CannotPublish: the results place refused. A failure of `rows` itself is raised unchanged.
            Busy: another audit may have taken over the lease.
        """
        whose = f"lake = {texts(self.results.lake)} AND run_id = {texts(run_id)}"
        replaces = self.results.holds_any(table, pc.field("run_id") == run_id)
        with self._stream(table, rows) as stream:
            if not stream.any_rows and not replaces and self.results.delta(table) is not None:
                return
            self._still_ours()
            if replaces:  # appending is cheaper
                delta_writer.overwrite(self.results, table, stream.reader(), whose)
            else:
                delta_writer.append(self.results, table, stream.reader())
        self.results.forget(table)

    def append(self, table: str, rows: Rows) -> None:
        """Add new rows. Raises as `write`."""
        self._still_ours()
        with self._stream(table, rows) as stream:
            delta_writer.append(self.results, table, stream.reader())
        self.results.forget(table)

    def replace_rows(self, table: str, rows: Rows, key: str) -> None:
        """Replace the lake's row with the same key by each row, or add the row. Raises as `write`."""
        self._still_ours()
        with self._stream(table, rows) as stream:
            delta_writer.upsert(self.results, table, stream.reader(), key)
        self.results.forget(table)

    def remove_rows(self, table: str, rows: pa.Table, key: str) -> None:
        """Remove the lake's rows with these keys. Raises as `write`."""
        self._still_ours()
        delta_writer.remove(self.results, table, rows.select([key]), key)
        self.results.forget(table)

    def delete(self, table: str, condition: str) -> int:
        """Remove the lake's rows that match a SQL condition, and return their number. Raises as `write`."""
        self._still_ours()
        mine = f"lake = {texts(self.results.lake)} AND ({condition})"
        return self._after_write(table, delta_writer.delete(self.results, table, mine))

    def compact(self, table: str) -> int:
        """Join the small files of a table, and return how many were replaced. Raises as `write`."""
        self._still_ours()
        return self._after_write(table, delta_files.compact(self.results, table))

    def vacuum(self, table: str, age: timedelta) -> int:
        """Remove files that no version has listed for `age`, and return their number. Raises as `write`."""
        self._still_ours()
        return self._after_write(table, len(delta_files.vacuum(self.results, table, age)))

    def _stream(self, table: str, rows: Rows) -> "_Stream":
        return _Stream(table, rows, self._still_ours)

    def _after_write(self, table: str, count: int) -> int:
        self.results.forget(table)
        return count


class _Stream:
    """Rows in the columns, types and order of a result table, as delta-rs takes them.

    The lease is required again after the last row, right before the commit: a stream may take minutes. A failure of the
    rows themselves is raised instead of the error that delta-rs made from it.
    """

    def __init__(self, table: str, rows: Rows, require_lease: Callable[[], None]) -> None:
        self._still_ours = require_lease
        self._schema = RESULTS[table]
        self._batches = _batches(rows, table, self._schema)
        self._first: pa.RecordBatch | None = None
        self._failure: Exception | None = None

    def __enter__(self) -> Self:
        self._first = next(self._batches, None)
        return self

    @property
    def any_rows(self) -> bool:
        return self._first is not None

    def reader(self) -> pa.RecordBatchReader:
        """Return the rows, to be read once. It is not stored: Python cannot free a cycle through Arrow's reader."""
        first = [] if self._first is None else [self._first]
        return pa.RecordBatchReader.from_batches(self._schema, self._watched(chain(first, self._batches)))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _traceback: object
    ) -> None:
        if kind is not None and self._failure is not None:
            raise self._failure from error

    def _watched(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            yield from batches
            self._still_ours()
        except Exception as error:
            self._failure = error
            raise


def _batches(rows: Rows, table: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield rows with the schema's types. Times without a zone are UTC, and the cast adds the zone."""
    for batch in _sorted(rows, table, schema):
        if batch.num_rows:
            yield batch.cast(schema)


def _sorted(rows: Rows, table: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    order = [*PARTITIONS.get(table, ()), *(column for column in ORDER if column in schema.names)]
    if isinstance(rows, pa.RecordBatch):
        rows = pa.Table.from_batches([rows])
    if duck.is_empty(rows):
        return
    if isinstance(rows, Relation):
        named, by = (", ".join(map(duck.quoted, names)) for names in (schema.names, order))
        in_order = duck.query(rows.con, f"FROM input SELECT {named} ORDER BY {by}", input=rows)
        yield from in_order.to_arrow_reader(ROW_GROUP)
    elif isinstance(rows, pa.Table):
        in_order = rows.select(schema.names).sort_by([(name, "ascending") for name in order])
        yield from in_order.to_batches(max_chunksize=ROW_GROUP)
    else:
        for batch in rows:
            yield batch.select(schema.names)


def _check(results: Results, name: str) -> None:
    """Require that an existing table has reader version 1 and only our columns.

    The first write creates a missing table, and adds the columns that a table of an older version lacks.
    """
    found = delta_writer.shape(results, name)
    if found is None:
        return
    there, ours, place = found.columns, delta_writer.contract(name), results.place.join(name).uri
    odd = sorted(column for column, kind in there.items() if kind != ours.get(column))
    if odd:
        what = f"the table is of another version of lakeaudit (columns {', '.join(odd[:5])})"
        raise CannotPublish(place, what, "use that version, or another place for `results`")
    if found.reader_version > 1:
        what = f"someone raised the table to Delta reader version {found.reader_version}"
        raise CannotPublish(place, what, "move it away, or use another place for `results`")


def _probe(results: Results) -> None:
    """Write and remove an empty object: hours of audit must not fail at the last step."""
    at = results.place.join("_probe")
    try:
        if at.is_local:
            path = Path(at.spark_path)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
            path.unlink()
        else:
            s3 = results.clients.s3(*at)
            s3.put_object(Bucket=at.bucket, Key=at.key, Body=b"")
            s3.delete_object(Bucket=at.bucket, Key=at.key)
    except (OSError, ClientError, BotoCoreError) as error:
        refuse(results.place, [in_words(error)], error)
