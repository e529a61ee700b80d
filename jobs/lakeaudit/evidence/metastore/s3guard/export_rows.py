"""Read the data files of an export as rows, in tasks."""

from collections.abc import Generator
from contextlib import closing
from pathlib import Path

import pyarrow as pa

from lakeaudit.errors import SourceError
from lakeaudit.evidence.files import fetched
from lakeaudit.evidence.metastore.dynamodb.export_files import (
    NO_GZIP,
    DataFile,
    count_fault,
    export_items,
    is_torn,
)
from lakeaudit.evidence.metastore.dynamodb.tally import Tally
from lakeaudit.evidence.metastore.s3guard.items import ITEM, EntryRules, counted_entries, entry_rows
from lakeaudit.evidence.protocol import Batches, note_row
from lakeaudit.runtime import duck
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.duck import Connection


def read_file(con: Connection, *, file: DataFile, clients: Clients, rules: EntryRules) -> Batches:
    """Yield the entries of one data file, then a NOTE row: the tally of its items, and the fault of the file.

    Rows before the fault are yielded anyway; `count` of the note is the number of missing items.
    """
    tally, fault = Tally(), None
    try:
        with fetched(clients, file.place) as path:
            fault = "cannot be read: does not exist"
            if path is not None:
                fault = yield from _read_local(con, path, file, rules, tally)
    except SourceError as error:
        fault = f"cannot be read: {error.what}"
    missing = max(file.items - tally.items, 1) if fault else 0
    yield "notes", note_row(rules.source, file.uri, fault, count=missing, data=tally.data)


def _read_local(
    con: Connection, path: Path, file: DataFile, rules: EntryRules, tally: Tally
) -> Generator[tuple[str, pa.RecordBatch], None, str | None]:
    """Yield the rows of a file; return its fault. They stream on a connection of their own, so `con` stays usable."""
    try:
        with closing(con.cursor()) as stream:
            rows = entry_rows(stream, export_items(stream, path, ITEM, zipped=file.zipped), rules)
            for batch in rows.to_arrow_reader(duck.BATCH_ROWS):
                yield "entries", counted_entries(batch, tally)
    except (duck.DuckError, pa.ArrowException, OSError) as error:
        return NO_GZIP if is_torn(path, file) else f"cannot be read: {type(error).__name__}"
    fault = count_fault(file, tally)
    return NO_GZIP if fault and is_torn(path, file) else fault
