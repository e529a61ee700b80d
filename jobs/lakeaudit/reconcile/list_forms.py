"""The forms of lists that other tools read, each written row by row, whole or not at all."""

import tempfile
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

from lakeaudit.errors import BadInput
from lakeaudit.keys import uri_of
from lakeaudit.reconcile.hand_over import Handed
from lakeaudit.schemas import ICEBERG_FILE_LIST, VACUUM_INVENTORY

BATCH_ROWS = 10_000

Write = Callable[[Iterable[Handed], Path], int]
"""(files, a path) -> how many files were written there."""


def written(write: Write, files: Iterable[Handed], to: Path) -> int:
    """How many files there are in the list.

    Raises:
        BadInput: it cannot be written, or cannot hold these files; what lay there before is untouched.
    """
    try:
        with tempfile.TemporaryDirectory(dir=to.parent, prefix=".list-") as folder:
            whole = Path(folder, "whole")
            count = write(files, whole)
            whole.replace(to)
            return count
    except OSError as error:
        what = f"cannot be written ({error.strerror})"
        raise BadInput(str(to), what, "give another file to -o") from error


def vacuum_inventory(files: Iterable[Handed], to: Path) -> int:
    """The inventory of Delta's VACUUM: schemas.VACUUM_INVENTORY, in Parquet."""

    def rows(each: Handed) -> Iterator[dict[str, object]]:
        known = {"length": each.size, "isDir": False, "modificationTime": _millis(each)}
        for path in _paths(each):
            yield {"path": path, **known}

    return _parquet(files, rows, VACUUM_INVENTORY, to)


def iceberg_file_list(files: Iterable[Handed], to: Path) -> int:
    """The `file_list_view` of Iceberg's remove_orphan_files: schemas.ICEBERG_FILE_LIST, in Parquet."""

    def rows(each: Handed) -> Iterator[dict[str, object]]:
        for path in _paths(each):
            yield {"file_path": path, "last_modified": each.modified_at}

    return _parquet(files, rows, ICEBERG_FILE_LIST, to)


def batch_manifest(files: Iterable[Handed], to: Path) -> int:
    """The CSV manifest of S3 Batch Operations: bucket, URL-encoded key, version id, without a header.

    See the S3 User Guide, "Specifying a manifest". A job copies into one bucket, so a list is of one.
    """
    count, first = 0, None
    with to.open("w", encoding="ascii", newline="") as out:
        for each in files:
            first = first or each.bucket
            if each.bucket != first:
                what = f"lost files lie in the buckets {first} and {each.bucket}; a job copies into one"
                raise BadInput("--as s3-batch", what, "name tables of one bucket by --table")
            out.write(f"{each.bucket},{quote(each.key, safe='/')},{each.version_id}\n")
            count += 1
    return count


def combined(prefix: str) -> Write:
    """What `rclone check --combined` prints, of the files that differ: a mark and the path below the table's prefix."""

    def write(files: Iterable[Handed], to: Path) -> int:
        count = 0
        with to.open("w", encoding="utf-8", newline="") as out:
            for each in files:
                out.write(f"{each.mark} {each.key.removeprefix(prefix)}\n")
                count += 1
        return count

    return write


def _paths(each: Handed) -> tuple[str, ...]:
    """The raw path as Hadoop writes it, with one slash where it is local; of a file of S3 as `s3a://` and as `s3://`.

    Delta and Iceberg take what begins with the path by which they know the table, and leave the rest in silence.
    """
    if not each.bucket:
        return (f"file:/{each.key}",)
    uri = uri_of(each.bucket, each.key)
    return uri.replace("s3://", "s3a://", 1), uri


def _millis(each: Handed) -> int | None:
    return None if each.modified_at is None else int(each.modified_at.timestamp() * 1000)


def _parquet(
    files: Iterable[Handed],
    rows: Callable[[Handed], Iterator[dict[str, object]]],
    schema: pa.Schema,
    to: Path,
) -> int:
    count, rest = 0, iter(files)
    with pq.ParquetWriter(to, schema) as out:
        while some := list(islice(rest, BATCH_ROWS)):
            count += len(some)
            out.write_batch(pa.RecordBatch.from_pylist([*chain.from_iterable(map(rows, some))], schema))
    return count
