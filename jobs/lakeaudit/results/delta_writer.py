"""Writes to the result tables what the driver holds in a few rows, by delta-rs: in milliseconds, without a JVM."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError

from lakeaudit.errors import CannotAudit, CannotPublish
from lakeaudit.results.read import Results
from lakeaudit.results.write_errors import refuse


def replace(results: Results, table: str, rows: pa.Table, whose: Mapping[str, str | Sequence[str]]) -> None:
    """Put rows in the place of those with these values (of several: any of them), in one commit; the table may be new.

    Raises:
        CannotPublish: the results place refused.
    """
    uri, options = results.delta_table(table)
    with _refusals(results, table):
        if not results.has_table(table):
            write_deltalake(uri, rows, storage_options=options)
            return
        theirs = " AND ".join(f"{column} IN ({_literals(value)})" for column, value in whose.items())
        write_deltalake(uri, rows, mode="overwrite", predicate=theirs, storage_options=options)


def append(results: Results, table: str, rows: pa.Table) -> None:
    """Add rows to a table that is there. Raises as `replace`."""
    uri, options = results.delta_table(table)
    with _refusals(results, table):
        write_deltalake(uri, rows, mode="append", storage_options=options)


def update(results: Results, table: str, rows: pa.Table, same: str, columns: Sequence[str]) -> None:
    """Set columns of the rows `old` to those of the row `new` for which `same` (SQL) holds. Raises as `replace`."""
    uri, options = results.delta_table(table)
    with _refusals(results, table):
        merge = DeltaTable(uri, storage_options=options).merge(
            rows, same, source_alias="new", target_alias="old"
        )
        merge.when_matched_update({name: f"new.{name}" for name in columns}).execute()


@dataclass(frozen=True)
class Shape:
    """What a result table is: types by column, as Delta's own JSON spells them, and who can still read it."""

    columns: dict[str, Any]
    reader_version: int


def shape(results: Results, table: str) -> Shape | None:
    """The shape of a result table; None where it was never written.

    Raises:
        CannotPublish: the table is damaged.
    """
    uri, options = results.delta_table(table)
    with _refusals(results, table):
        if not results.has_table(table):
            return None
        found = DeltaTable(uri, storage_options=options)
        fields = json.loads(found.schema().to_json())["fields"]
        columns = {field["name"]: field["type"] for field in fields}
        return Shape(columns, found.protocol().min_reader_version)


def _literals(value: str | Sequence[str]) -> str:
    return ", ".join(map(_literal, [value] if isinstance(value, str) else value))


def _literal(text: str) -> str:
    """A text in a condition, as delta-rs reads it: a backslash is a backslash."""
    return "'" + text.replace("'", "''") + "'"


@contextmanager
def _refusals(results: Results, table: str) -> Iterator[None]:
    try:
        yield
    except CannotAudit as error:
        raise CannotPublish(*error.args) from error
    except (DeltaError, pa.ArrowException, OSError) as error:
        refuse(results.place.join(table), [f"{type(error).__name__}: {error}"], error)
