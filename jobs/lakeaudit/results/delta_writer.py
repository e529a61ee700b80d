"""Writes to the result tables through delta-rs: plain Delta, one commit a call, without a JVM.

Rows are an Arrow table or a stream of batches with the columns and types of `schemas.RESULTS`. A stream that fails ends
the write before its commit, so that the table stays as it was.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema, WriterProperties, write_deltalake
from deltalake.exceptions import DeltaError
from deltalake.table import TableMerger

from lakeaudit.descriptions import commented
from lakeaudit.errors import CannotAudit, CannotPublish
from lakeaudit.evidence.s3_responses import listed_objects
from lakeaudit.keys import Location
from lakeaudit.results.read import Results
from lakeaudit.results.tables import storage_options
from lakeaudit.results.write_errors import refuse
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.schemas import RESULTS

Stream: TypeAlias = pa.Table | pa.RecordBatchReader

PROPERTIES = {
    "delta.minReaderVersion": "1",
    "delta.minWriterVersion": "2",
    "delta.enableDeletionVectors": "false",
    "delta.columnMapping.mode": "none",
    "delta.checkpointPolicy": "classic",
}
"""Properties of every table that is created, so that Athena, Trino, DuckDB and delta-rs read it without table features.

delta-rs refuses to spell out `enableRowTracking` and `enableInCommitTimestamps`; without them both are off.
"""

PARTITIONS = {"findings": ["as_of_date"]}

ROW_GROUP = 122_880
"""Rows, as many as DuckDB gives at once. delta-rs reorders the batches of a stream but not the rows of a batch, so that
long runs of rows stay in order."""

CHECKPOINT_EVERY = 10
"""Number of commits, as in Spark; the default of delta-rs is 100, and a reader then opens all of them."""


def replace(results: Results, table: str, rows: Stream, whose: Mapping[str, str | Sequence[str]]) -> None:
    """Replace the rows with these values (a sequence matches any of its values), in one commit.

    The table is created where it does not exist.

    Raises:
        CannotPublish: the results place refused.
    """
    overwrite(
        results, table, rows, " AND ".join(f"{name} IN ({texts(value)})" for name, value in whose.items())
    )


def overwrite(results: Results, table: str, rows: Stream, condition: str) -> None:
    """Replace the rows that match a SQL condition; all new rows must match it. Raises as `replace`."""
    with writing(results, table) as found:
        if found is None:
            _create(results, table, rows)
        else:
            write_deltalake(found, rows, mode="overwrite", predicate=condition, writer_properties=FILES)
            checkpoint(found)


def append(results: Results, table: str, rows: Stream) -> None:
    """Add rows, in one commit; the table is created where it does not exist. Raises as `replace`."""
    with writing(results, table) as found:
        if found is None:
            _create(results, table, rows)
        else:
            write_deltalake(found, rows, mode="append", writer_properties=FILES)
            checkpoint(found)


def update(results: Results, table: str, rows: Stream, same: str, columns: Sequence[str]) -> None:
    """Set columns of the rows `old` to those of the row `new` for which `same` (SQL) holds. Raises as `replace`."""
    with _merging(results, table, rows, same) as merge:
        merge.when_matched_update({name: f"new.{name}" for name in columns}).execute()


def upsert(results: Results, table: str, rows: Stream, key: str) -> None:
    """Replace the lake's row with the same key by each row, or add the row. Raises as `replace`."""
    if results.newest(table) is None:
        append(results, table, rows)
        return
    with _merging(results, table, rows, _same(results, key)) as merge:
        merge.when_matched_update_all().when_not_matched_insert_all().execute()


def remove(results: Results, table: str, rows: Stream, key: str) -> None:
    """Remove the lake's rows with these keys. Raises as `replace`."""
    with _merging(results, table, rows, _same(results, key)) as merge:
        merge.when_matched_delete().execute()


def delete(results: Results, table: str, condition: str) -> int:
    """Remove the rows that match a SQL condition, and return their number. Raises as `replace`."""
    with writing(results, table) as found:
        if found is None:
            return 0
        deleted = int(found.delete(condition, writer_properties=FILES)["num_deleted_rows"])
        if deleted:
            checkpoint(found)
        return deleted


def open_all(results: Results) -> None:
    """Open every result table, several at a time.

    Raises:
        CannotPublish: the place cannot be reached, or a table is damaged.
    """
    with ThreadPoolExecutor(len(RESULTS)) as pool:
        list(pool.map(lambda table: shape(results, table), RESULTS))


@dataclass(frozen=True)
class Shape:
    """Describes a result table: types by column, in Delta's own JSON, and the reader version that it requires."""

    columns: dict[str, Any]
    reader_version: int


def shape(results: Results, table: str) -> Shape | None:
    """Return the shape of a result table; None where it was never written.

    Raises:
        CannotPublish: the table is damaged.
    """
    with _refusals(results, table):
        found = results.delta(table)
        return None if found is None else Shape(_columns(found.schema()), found.protocol().min_reader_version)


def contract(table: str) -> dict[str, Any]:
    """Return the types by column that a result table must have, as `Shape` spells them."""
    return _columns(Schema.from_arrow(RESULTS[table]))


def texts(value: str | Sequence[str]) -> str:
    """Quote texts for the brackets of an IN in delta-rs, where a backslash is a backslash."""
    return ", ".join(
        "'" + text.replace("'", "''") + "'" for text in ([value] if isinstance(value, str) else value)
    )


def _columns(schema: Schema) -> dict[str, Any]:
    return {field["name"]: _plain(field["type"]) for field in json.loads(schema.to_json())["fields"]}


def _plain(type_: Any) -> Any:
    """Return a type in Delta's JSON without the comments of its inner fields."""
    if isinstance(type_, list):
        return [_plain(each) for each in type_]
    if not isinstance(type_, dict):
        return type_
    return {key: _plain(value) for key, value in type_.items() if key != "metadata"}


def _create(results: Results, table: str, rows: Stream) -> None:
    uri, options = results.delta_table(table)
    columns = pa.schema([commented(table).field(name) for name in rows.schema.names])
    write_deltalake(
        uri, rows.cast(columns), partition_by=PARTITIONS.get(table), configuration=PROPERTIES, storage_options=options,
        writer_properties=FILES, commit_properties=FIRST_COMMIT,
    )  # fmt: skip


def _add_columns_and_comments(found: DeltaTable, table: str) -> None:
    """Add the columns and comments that a table of an older version lacks, in one commit without files.

    The column of an older row is null. A comment that the table has stays as it is.
    """
    there = {field.name: field.metadata for field in found.schema().fields}
    lacking = [
        field for field in Schema.from_arrow(commented(table)).fields
        if "comment" not in there.get(field.name, {})
    ]  # fmt: skip
    if lacking:
        found.alter.add_columns(lacking)


FIRST_COMMIT = CommitProperties(max_commit_retries=0)
"""If another run creates the table meanwhile, delta-rs 1.6 would commit the same rows again as version 1."""
FILES = WriterProperties(max_row_group_size=ROW_GROUP)


def checkpoint(table: DeltaTable) -> None:
    """Write a checkpoint at every tenth commit; a failure is ignored, since the commit is valid without it."""
    if table.version() % CHECKPOINT_EVERY == 0:
        with suppress(DeltaError, OSError):
            table.create_checkpoint()


def _same(results: Results, key: str) -> str:
    return f"old.{key} = new.{key} AND old.lake = {texts(results.lake)}"


@contextmanager
def _merging(results: Results, table: str, rows: Stream, same: str) -> Iterator[TableMerger]:
    with writing(results, table) as found:
        if found is None:
            raise CannotPublish(
                results.place.join(table).uri, "the table does not exist", "run an audit first"
            )
        yield found.merge(rows, same, source_alias="new", target_alias="old")
        checkpoint(found)


@contextmanager
def writing(results: Results, table: str) -> Iterator[DeltaTable | None]:
    """Give the newest version of the table while the lease is held; None where it has to be created.

    A table of an older version first gets the columns and comments that it lacks.

    Raises:
        CannotPublish: the results place refused.
        Busy: another run may have taken over the lease.
    """
    with _refusals(results, table):
        newest = results.newest(table)
        results.require_lease()
        if newest is not None:
            _add_columns_and_comments(newest, table)
        yield newest


@contextmanager
def _refusals(results: Results, table: str) -> Iterator[None]:
    """Turn an error of the results place into one line, or into Busy where another run has taken over the lease."""
    try:
        yield
    except CannotAudit as error:
        results.require_lease()
        cause = error.__cause__
        if isinstance(cause, _STORE_ERRORS):
            refuse(results.place.join(table), [in_words(cause)], cause)
        raise CannotPublish(*error.args) from error
    except _STORE_ERRORS as error:
        results.require_lease()
        refuse(results.place.join(table), [in_words(error)], error)


def try_out(place: Location, clients: Clients) -> None:
    """Write a small table below a place and read it, by the client and the settings of results; then remove it.

    Raises:
        CannotPublish: the place refused.
        CannotAudit: as `tables.storage_options`.
        ClientError, BotoCoreError: the table cannot be removed.
    """
    probe, options = place.join(PROBE), storage_options(place, clients)
    try:
        write_deltalake(probe.uri, pa.table({"n": [0]}), mode="overwrite", storage_options=options)
        DeltaTable(probe.uri, storage_options=options).to_pyarrow_table()
    except _STORE_ERRORS as error:
        refuse(place, [in_words(error)], error)
    client = clients.s3(*place)
    page: Any = client.list_objects_v2(Bucket=probe.bucket, Prefix=probe.prefix)
    for each in listed_objects(page):
        client.delete_object(Bucket=probe.bucket, Key=each.key)


PROBE = "_probe"


def in_words(error: Exception) -> str:
    """Return the error with its type, which is often clearer than its text."""
    return f"{type(error).__name__}: {error}"


_STORE_ERRORS = (DeltaError, pa.ArrowException, OSError)
