"""Read lists in binary formats: Parquet, and clean plans of Hudi as Avro."""

from collections.abc import Iterator
from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakeaudit.errors import BadInput
from lakeaudit.guard.lists.columns import file_columns, unclear_columns
from lakeaudit.guard.lists.json_lists import PLAN, rows_of_plan
from lakeaudit.guard.lists.protocol import BATCH, Lines, ListForm, batches
from lakeaudit.schemas import LISTED


def _read_parquet(stream: BinaryIO, lines: Lines) -> Iterator[pa.RecordBatch]:  # noqa: ARG001
    try:
        file = pq.ParquetFile(stream)
        names = file.schema_arrow.names
        first = next(file.iter_batches(1), None)
        values = [] if first is None or not first.num_rows else [*first.to_pylist()[0].values()]
        bucket, path = file_columns(names, values)
        if path is None:
            raise unclear_columns(names)
        columns = [names[path], *([] if bucket is None else [names[bucket]])]
        number = 1
        for batch in file.iter_batches(BATCH, columns=columns):
            yield _listed(batch, names[path], None if bucket is None else names[bucket], number)
            number += batch.num_rows
    except (pa.ArrowException, OSError) as error:
        raise BadInput("LIST", f"the list is not complete Parquet: {error}", "write the list again") from None


def _listed(batch: pa.RecordBatch, path: str, bucket: str | None, first: int) -> pa.RecordBatch:
    text = batch.column(path).cast(pa.string())
    of_bucket = batch.column(bucket).cast(pa.string()) if bucket else pa.nulls(batch.num_rows, pa.string())
    missing = pc.if_else(text.is_valid(), pa.scalar(None, pa.string()), pa.scalar("the row has no path"))
    number = pa.array(range(first, first + batch.num_rows), pa.int64())
    encoded = pa.array([False] * batch.num_rows, pa.bool_())
    return pa.RecordBatch.from_arrays([number, text, of_bucket, encoded, missing], schema=LISTED)


def _read_avro(stream: BinaryIO, lines: Lines) -> Iterator[pa.RecordBatch]:  # noqa: ARG001
    from lakeaudit.evidence.avro.blocks import Torn
    from lakeaudit.evidence.avro.records import open_avro

    try:
        plans = [*open_avro(stream.read()).records]
    except Torn as error:
        raise BadInput(
            "LIST", f"the list is not complete Avro: {error}", "copy the clean plan again"
        ) from None
    if not plans or PLAN not in plans[0]:
        raise BadInput("LIST", "the Avro file is not a clean plan of Hudi", "name a `.clean.requested` file")
    yield from batches(row for plan in plans for row in rows_of_plan(plan))


PARQUET = ListForm("parquet", "Parquet", lambda sample: sample.startswith(b"PAR1"), _read_parquet)
HUDI_PLAN = ListForm(
    "hudi-clean", "clean plan of Hudi", lambda sample: sample.startswith(b"Obj\x01"), _read_avro
)
