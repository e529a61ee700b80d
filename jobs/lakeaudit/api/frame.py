"""A table of results that is read when it is used: as Arrow, pandas, Polars or dictionaries, or in a notebook."""

import html
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from importlib import import_module
from itertools import islice
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakeaudit.api.printed import text_of
from lakeaudit.errors import CannotAudit
from lakeaudit.formatting import number, second, visible

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

SHOWN = 20
"""Rows that a notebook or terminal shows."""
ROWS = 4096
"""Rows of a batch that is made of dictionaries."""


@dataclass(frozen=True)
class Frame:
    """Rows of results in a fixed order. Every use reads them again, batch by batch.

    Attributes:
        schema: names and types of the columns; docs/result-tables.md explains them.
        source: returns the batches from the first one on.
        columns: the columns that a notebook or terminal shows.
    """

    schema: pa.Schema
    source: Callable[[], Iterable[pa.RecordBatch]]
    columns: Sequence[str] = ()
    owner: object = field(default=None, repr=False, compare=False)
    """The lake of the rows: temporary results of a scan exist as long as it does."""

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows as Arrow batches; only a few thousand rows are in memory at a time.

        Raises:
            CannotAudit: the results cannot be read.
        """
        yield from self.source()

    def arrow(self) -> pa.Table:
        """Return all rows as an Arrow table."""
        batches = [*self.batches()]
        return pa.Table.from_batches(batches) if batches else self.schema.empty_table()

    def pandas(self) -> "pd.DataFrame":
        """Return all rows as a pandas DataFrame.

        Raises:
            CannotAudit: pandas is not installed, or the results cannot be read.
        """
        frame: pd.DataFrame = _installed("pandas").DataFrame(self.arrow().to_pandas())
        return frame

    def polars(self) -> "pl.DataFrame":
        """Return all rows as a Polars DataFrame.

        Raises:
            CannotAudit: Polars is not installed, or the results cannot be read.
        """
        frame: pl.DataFrame = _installed("polars").DataFrame(self.arrow())
        return frame

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return all rows as dictionaries."""
        return [*self]

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for batch in self.batches():
            yield from batch.to_pylist()

    def __len__(self) -> int:
        return sum(batch.num_rows for batch in self.batches())

    def __bool__(self) -> bool:
        """Return whether there is a row; only the first one is read."""
        return next(iter(self), None) is not None

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.arrow().__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        from rich.table import Table
        from rich.text import Text

        table = Table(*self._shown_columns, box=None)
        for row in self._first:
            table.add_row(*(Text(_cell(row[name])) for name in self._shown_columns))
        return text_of(lambda console: console.print(table, self._size, sep="\n")).rstrip()

    def _repr_html_(self) -> str:
        """Return the first rows as an HTML table; every value is escaped."""
        head = "".join(f"<th>{html.escape(name)}</th>" for name in self._shown_columns)
        body = "".join(f"<tr>{self._html_cells(row)}</tr>" for row in self._first)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table><p>{self._size}</p>"

    def _html_cells(self, row: dict[str, Any]) -> str:
        return "".join(f"<td>{html.escape(_cell(row[name]))}</td>" for name in self._shown_columns)

    @property
    def _shown_columns(self) -> Sequence[str]:
        return self.columns or self.schema.names

    @property
    def _first(self) -> list[dict[str, Any]]:
        return [*islice(self, SHOWN)]

    @property
    def _size(self) -> str:
        rows = len(self)
        shown = f", the first {SHOWN} are shown" if rows > SHOWN else ""
        return f"{number(rows, 'row')}{shown}"


def frame_of_rows(
    schema: pa.Schema,
    rows: Callable[[], Iterable[dict[str, Any]]],
    columns: Sequence[str] = (),
    owner: object = None,
) -> Frame:
    """Return a frame of dictionaries."""
    return Frame(schema, lambda: _batched(rows(), schema), columns, owner)


def _batched(rows: Iterable[dict[str, Any]], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    source = iter(rows)
    while some := [*islice(source, ROWS)]:
        yield pa.RecordBatch.from_pylist(some, schema=schema)


def _installed(name: str) -> Any:
    """Import a package of the user's environment. Raises CannotAudit: it is not installed."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        raise CannotAudit(name, "is not installed", f"pip install {name}") from error


def _cell(value: object) -> str:
    if isinstance(value, datetime):
        return second(value)
    return "" if value is None else visible(str(value))
