"""The result tables as delta-rs opens them: where they lie, which version, and their rows batch by batch."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc
from botocore.exceptions import BotoCoreError, ClientError
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from pyarrow.dataset import Dataset, Expression, Fragment

from lakeaudit.errors import CannotAudit, SourceError, one_line
from lakeaudit.evidence.files import list_files
from lakeaudit.keys import Location
from lakeaudit.runtime.aws import Clients
from lakeaudit.runtime.aws_failures import explain
from lakeaudit.runtime.connections import delta_rs_options

BATCH_ROWS = 4096


class ResultTables:
    """The tables of one results place; of their rows only those of one lake.

    Raises:
        CannotAudit: from every method, where the place or a table of it cannot be read.
    """

    def __init__(
        self, place: Location, clients: Clients, lake: str, require_lease: Callable[[], None] | None = None
    ) -> None:
        self._place = place
        self._clients = clients
        self._lake = lake
        self._require_lease = require_lease

    @property
    def lake(self) -> str:
        """The lake whose rows these are."""
        return self._lake

    @property
    def place(self) -> Location:
        """Where the result tables lie."""
        return self._place

    @property
    def clients(self) -> Clients:
        """How the place is reached."""
        return self._clients

    def again(self) -> Self:
        """The same results as they lie there now."""
        return type(self)(self._place, self._clients, self._lake, self._require_lease)

    def leased_by(self, require_lease: Callable[[], None]) -> Self:
        """The same results for a run that holds their lease: each write calls `require_lease` first.

        A process that stood still must not write over what another run wrote since; `require_lease` raises Busy then.
        """
        return type(self)(self._place, self._clients, self._lake, require_lease)

    def require_lease(self) -> None:
        """Raise Busy when another run may have taken over the lease under which these results are written."""
        if self._require_lease is not None:
            self._require_lease()

    def delta_table(self, name: str) -> tuple[str, dict[str, str]]:
        """Where a result table lies, and how delta-rs reaches it."""
        return self._place.join(name).path_or_uri, self._options

    def batches(
        self, table: str, wanted: Expression, columns: Sequence[str] | None = None, rows: int = BATCH_ROWS
    ) -> Iterator[pa.RecordBatch]:
        """The lake's rows of a result table that a condition lets through, so many or fewer at a time."""
        dataset = self._dataset(table)
        if dataset is None:
            return
        mine = wanted & (pc.field("lake") == self._lake)
        names = None if columns is None else list(columns)
        with self.reading(table):
            for file in dataset.get_fragments(mine):  # one after the other: a scan of all reads far ahead
                found = _filtered(file, dataset.schema, names, mine, rows)
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
        """A result table as it lay there when it was first asked for; None where it was never written.

        Credentials that were renewed since then are given to the same version of it.
        """
        options = self._options
        opened = self._tables.get(table)
        if opened is None:
            self._tables[table] = self._open(table, options)
        elif opened.table is not None and opened.options != options:
            self._datasets.pop(table, None)
            self._tables[table] = self._open(table, options, opened.table.version())
        return self._tables[table].table

    def _open(self, table: str, options: dict[str, str], version: int | None = None) -> "_Opened":
        with self.reading(table):
            if version is None and not self.has_table(table):
                return _Opened(options, None)
            uri = self._place.join(table).path_or_uri
            return _Opened(options, DeltaTable(uri, version, storage_options=options))

    def newest(self, table: str) -> DeltaTable | None:
        """A result table as it lies there now, to be written to; None where it was never written.

        Rows that were read from it before are still those of the version that was read.
        """
        if (opened := self._tables.get(table)) is not None and opened.table is None:
            del self._tables[table]
        found = self.delta(table)
        if found is not None and opened is not None:
            with self.reading(table):
                found.update_incremental()
        return found

    def forget(self, table: str) -> None:
        """Read the table anew from now on, with what was written to it."""
        self._datasets.pop(table, None)
        self._rows_read.pop(table, None)
        if (opened := self._tables.get(table)) is not None and opened.table is None:
            del self._tables[table]

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
            what = f"the table cannot be read ({type(error).__name__}: {one_line(str(error), 160)})"
            other = any(sign in str(error) for sign in _OF_ANOTHER_VERSION)
            hint = _UPDATE if other else "restore it, or audit into another place"
            raise CannotAudit(self._place.join(table).uri, what, hint) from error

    @cached_property
    def _tables(self) -> "dict[str, _Opened]":
        return {}

    @cached_property
    def _datasets(self) -> dict[str, Dataset]:
        return {}

    @cached_property
    def _rows_read(self) -> dict[str, list[dict[str, Any]]]:
        """By name the rows of small tables that are read more than once."""
        return {}

    @property
    def _options(self) -> dict[str, str]:
        """Asked for at each use: delta-rs does not renew credentials."""
        return storage_options(self._place, self._clients)


@dataclass(frozen=True)
class _Opened:
    """A result table as delta-rs opened it (null: it was never written), and the options it was opened with."""

    options: dict[str, str]
    table: DeltaTable | None


def _filtered(
    file: Fragment, schema: pa.Schema, names: list[str] | None, wanted: Expression, rows: int
) -> Iterator[pa.RecordBatch]:
    """Files that delta-rs rewrote hold string views, which pyarrow filters only once they are cast."""
    if pa.string_view() not in file.physical_schema.types:
        for group in file.split_by_row_group(wanted, schema):  # a scan of all reads far ahead, here too
            yield from group.to_batches(schema, columns=names, filter=wanted, batch_size=rows)
        return
    for batch in file.to_batches(schema, batch_size=rows):
        kept = batch.filter(wanted)
        yield kept if names is None else kept.select(names)


def storage_options(place: Location, clients: Clients) -> dict[str, str]:
    """How delta-rs reaches a place, with the credentials of now.

    Raises:
        CannotAudit: there are no credentials, or the endpoint of the place is not known.
    """
    if place.is_local:
        return {}
    try:
        return delta_rs_options(clients.endpoint(*place), place.bucket) | _PATIENCE
    except (ClientError, BotoCoreError) as error:
        raise CannotAudit(place.uri, *explain(error)) from error


_PATIENCE = {"connect_timeout": "5s", "timeout": "60s", "max_retries": "3", "retry_timeout": "30s"}


_OF_ANOTHER_VERSION = ("No field named", "Unsupported", "is not supported")
_UPDATE = "another version of lakeaudit wrote it: use the newer of the two, or audit once more with it"
