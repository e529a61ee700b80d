"""Opens the result tables through delta-rs: their location, their version, and their rows batch by batch."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc
from botocore.exceptions import BotoCoreError, ClientError
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from pyarrow.dataset import Dataset, Expression, Fragment

from lakeaudit.errors import CannotAudit, SourceError, one_line
from lakeaudit.evidence.files import File, list_files
from lakeaudit.keys import Location
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.connections.aws_failures import explain
from lakeaudit.runtime.connections.resolve import delta_rs_options
from lakeaudit.schemas import RESULT_SCHEMAS

BATCH_ROWS = 4096


class ResultTables:
    """The tables of one results place, limited to the rows of one lake.

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
        self._tables: dict[str, _Opened] = {}
        self._family: dict[str, _Opened] = {}

    @property
    def lake(self) -> str:
        """Return the name of the lake whose rows are read."""
        return self._lake

    @property
    def place(self) -> Location:
        """Return the location of the result tables."""
        return self._place

    @property
    def clients(self) -> Clients:
        """Return the clients that reach the place."""
        return self._clients

    def again(self) -> Self:
        """Return the same results with their newest rows."""
        return self._following(self._require_lease)

    def leased_by(self, require_lease: Callable[[], None]) -> Self:
        """Return the same results for a run that holds their lease: each write calls `require_lease` first.

        A process that was suspended must not overwrite rows of a later run; `require_lease` raises Busy then.
        """
        return self._following(require_lease)

    def _following(self, require_lease: Callable[[], None] | None) -> Self:
        """Return the newest rows; what was read of tables that nobody has written to since is not read again."""
        following = type(self)(self._place, self._clients, self._lake, require_lease)
        following._family = self._family
        return following

    def require_lease(self) -> None:
        """Raise Busy when another run may have taken over the lease under which these results are written."""
        if self._require_lease is not None:
            self._require_lease()

    def delta_table(self, name: str) -> tuple[str, dict[str, str]]:
        """Return the location of a result table, and the options with which delta-rs reaches it."""
        return self._place.join(name).path_or_uri, self._options

    def batches(
        self, table: str, condition: Expression, columns: Sequence[str] | None = None, rows: int = BATCH_ROWS
    ) -> Iterator[pa.RecordBatch]:
        """Yield the lake's rows of a result table that match a condition, at most `rows` at a time."""
        dataset = self._dataset(table)
        if dataset is None:
            return
        mine = condition & (pc.field("lake") == self._lake)
        names = None if columns is None else list(columns)
        with self.reading(table):
            for file in dataset.get_fragments(mine):  # one after the other: a scan of all reads far ahead
                found = _filtered(file, dataset.schema, names, mine, rows)
                yield from (batch for batch in found if batch.num_rows)

    def _dataset(self, table: str) -> Dataset | None:
        """Return the table's dataset; None where the table was never written."""
        found = self.delta(table)
        opened = self._tables[table]
        if found is not None and opened.dataset is None:
            with self.reading(table):
                opened.dataset = _with_all_columns(found.to_pyarrow_dataset(), table)
        return opened.dataset

    def has_table(self, table: str) -> bool:
        """Return whether a result table was ever written: its first commit was finished."""
        return self._newest_file(table) is not None

    def _newest_file(self, table: str) -> File | None:
        """Return the newest commit of a table, or another file of its log; None where it was never written."""
        try:
            log = list_files(self._clients, self._place.join(table, "_delta_log"), flat=True)
            written = (file for file in log if not file.name.startswith("."))
            return max(written, key=lambda file: (file.name[:1].isdigit(), file.name), default=None)
        except SourceError as error:  # delta-rs words a missing bucket, a refusal or a dead endpoint worse
            raise CannotAudit(*error.args) from error

    def delta(self, table: str) -> DeltaTable | None:
        """Return a result table in the version of its first use here; None where it was never written.

        After credentials were renewed, the same version is opened with the new ones.
        """
        options = self._options
        opened = self._tables.get(table)
        if opened is None:
            self._tables[table] = self._open(table, options)
        elif opened.table is not None and opened.options != options:
            self._tables[table] = _Opened(options, self._at(table, options, opened.table.version()))
        return self._tables[table].table

    def _open(self, table: str, options: dict[str, str]) -> "_Opened":
        """Open the newest version of a table, or take it from relatives (`again`, `leased_by`) that opened it."""
        newest = self._newest_file(table)
        if newest is None:
            return _Opened(options, None)
        known = self._family.get(table)
        if known is None or (known.newest, known.options) != (newest, options):
            known = self._family[table] = _Opened(options, self._at(table, options), newest)
        known.users += 1
        return known

    def _at(self, table: str, options: dict[str, str], version: int | None = None) -> DeltaTable:
        with self.reading(table):
            return DeltaTable(self._place.join(table).path_or_uri, version, storage_options=options)

    def newest(self, table: str) -> DeltaTable | None:
        """Return the newest version of a result table, for a write; None where it was never written.

        Rows that were read from it before stay those of the version that was read, here and in relatives.
        """
        opened = self._tables.get(table)
        if opened is None or opened.table is None:
            options = self._options
            there = self.has_table(table)
            self._tables[table] = _Opened(options, self._at(table, options) if there else None)
        elif opened.users > 1:
            opened.users -= 1
            own = _Opened(self._options, self._at(table, self._options), None, opened.dataset, opened.rows)
            self._tables[table] = own
        elif (found := self.delta(table)) is not None:
            self._tables[table].newest = None  # first, so that nobody takes a table that moves
            with self.reading(table):
                found.update_incremental()
        return self._tables[table].table

    def forget(self, table: str) -> None:
        """Drop cached rows, so that the next read sees what was written to the table."""
        opened = self._tables.get(table)
        if opened is None or opened.table is None:
            self._tables.pop(table, None)
        elif opened.users > 1:
            opened.users -= 1
            del self._tables[table]
        else:
            opened.dataset = opened.rows = None

    def version(self, table: str) -> int | None:
        """Return the version of a result table at its first use here; None where it was never written."""
        found = self.delta(table)
        return None if found is None else found.version()

    @contextmanager
    def reading(self, table: str) -> Iterator[None]:
        """Turn an error inside the block into CannotAudit, which names the table in one line."""
        try:
            yield
        except (DeltaError, pa.ArrowException, OSError, ValueError) as error:
            what = f"the table cannot be read ({type(error).__name__}: {one_line(str(error), 160)})"
            other = any(sign in str(error) for sign in _OF_ANOTHER_VERSION)
            hint = _UPDATE if other else "restore it, or audit into another place"
            raise CannotAudit(self._place.join(table).uri, what, hint) from error

    @property
    def _options(self) -> dict[str, str]:
        """Return the options with current credentials: delta-rs does not renew them."""
        return storage_options(self._place, self._clients)


@dataclass
class _Opened:
    """A result table as delta-rs opened it (None: it was never written), and the options of that moment.

    `newest` is the newest file of its log then, unless the table was moved to a newer version. `rows` are all rows of a
    small table that is read more than once. `users` counts the results that share all this.
    """

    options: dict[str, str]
    table: DeltaTable | None
    newest: File | None = None
    dataset: Dataset | None = None
    rows: list[dict[str, Any]] | None = None
    users: int = 0


def _with_all_columns(dataset: Dataset, table: str) -> Dataset:
    """Return a dataset with all columns of a result table: those that an older version did not write are null."""
    schema = RESULT_SCHEMAS.get(table, dataset.schema)
    lacking = [field for field in schema if field.name not in dataset.schema.names]
    return dataset.replace_schema(pa.schema([*dataset.schema, *lacking])) if lacking else dataset


def _filtered(
    file: Fragment, schema: pa.Schema, names: list[str] | None, condition: Expression, rows: int
) -> Iterator[pa.RecordBatch]:
    """Yield matching rows of a file; string views of delta-rs are cast first, since pyarrow cannot filter them."""
    if pa.string_view() not in file.physical_schema.types:
        for group in file.split_by_row_group(condition, schema):  # a scan of all reads far ahead, here too
            yield from group.to_batches(schema, columns=names, filter=condition, batch_size=rows)
        return
    for batch in file.to_batches(schema, batch_size=rows):
        matching = batch.filter(condition)
        yield matching if names is None else matching.select(names)


def storage_options(place: Location, clients: Clients) -> dict[str, str]:
    """Return the options with which delta-rs reaches a place, with current credentials.

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
