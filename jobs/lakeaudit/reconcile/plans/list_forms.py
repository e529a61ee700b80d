"""Write lists in the forms of other tools, row by row; a list is written completely or not at all."""

import tempfile
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

from lakeaudit.errors import BadInput
from lakeaudit.keys import uri_of
from lakeaudit.reconcile.plans.hand_over import HandOverFile
from lakeaudit.schemas import ICEBERG_FILE_LIST, VACUUM_INVENTORY

BATCH_ROWS = 10_000

Write = Callable[[Iterable[HandOverFile], Path], int]
"""(files, a path) -> the number of files written there."""


def write_list(write: Write, files: Iterable[HandOverFile], to: Path) -> int:
    """Write the list; return its number of files.

    Raises:
        BadInput: the list cannot be written, or cannot contain these files; an existing file is unchanged.
    """
    try:
        with tempfile.TemporaryDirectory(dir=to.parent, prefix=".list-") as folder:
            whole = Path(folder, "whole")
            count = write(files, whole)
            whole.replace(to)
            return count
    except OSError as error:
        what = f"cannot be written ({error.strerror})"
        raise BadInput(str(to), what, "name another file with -o") from error


def vacuum_inventory(files: Iterable[HandOverFile], to: Path) -> int:
    """Write the inventory of Delta's VACUUM: schemas.VACUUM_INVENTORY, in Parquet."""

    def rows(each: HandOverFile) -> Iterator[dict[str, object]]:
        known = {"length": each.size, "isDir": False, "modificationTime": _millis(each)}
        for path in _paths(each):
            yield {"path": path, **known}

    return _parquet(files, rows, VACUUM_INVENTORY, to)


def iceberg_file_list(files: Iterable[HandOverFile], to: Path) -> int:
    """Write the `file_list_view` of Iceberg's remove_orphan_files: schemas.ICEBERG_FILE_LIST, in Parquet."""

    def rows(each: HandOverFile) -> Iterator[dict[str, object]]:
        for path in _paths(each):
            yield {"file_path": path, "last_modified": each.modified_at}

    return _parquet(files, rows, ICEBERG_FILE_LIST, to)


def batch_manifest(files: Iterable[HandOverFile], to: Path) -> int:
    """Write the CSV manifest of S3 Batch Operations: bucket, URL-encoded key, version id, without a header.

    See the S3 User Guide, "Specifying a manifest". A job copies into one bucket, so a list contains one bucket.
    """
    count, first = 0, None
    with to.open("w", encoding="ascii", newline="") as out:
        for each in files:
            first = first or each.bucket
            if each.bucket != first:
                what = f"lost files are in the buckets {first} and {each.bucket}; a job copies into one"
                raise BadInput("--as s3-batch", what, "select tables of one bucket with --table")
            out.write(f"{each.bucket},{quote(each.key, safe='/')},{each.version_id}\n")
            count += 1
    return count


def combined(prefix: str) -> Write:
    """Return a writer for the output of `rclone check --combined`: a mark and the path below the table's prefix."""

    def write(files: Iterable[HandOverFile], to: Path) -> int:
        count = 0
        with to.open("w", encoding="utf-8", newline="") as out:
            for each in files:
                out.write(f"{each.mark} {each.key.removeprefix(prefix)}\n")
                count += 1
        return count

    return write


def _paths(each: HandOverFile) -> tuple[str, ...]:
    """Return the raw paths in Hadoop's form, `file:/` for local files, `s3a://` and `s3://` for files in S3.

    Delta and Iceberg silently ignore paths that do not begin with the path under which they know the table.
    """
    if not each.bucket:
        return (f"file:/{each.key}",)
    uri = uri_of(each.bucket, each.key)
    return uri.replace("s3://", "s3a://", 1), uri


def _millis(each: HandOverFile) -> int | None:
    return None if each.modified_at is None else int(each.modified_at.timestamp() * 1000)


def _parquet(
    files: Iterable[HandOverFile],
    rows: Callable[[HandOverFile], Iterator[dict[str, object]]],
    schema: pa.Schema,
    to: Path,
) -> int:
    count, rest = 0, iter(files)
    with pq.ParquetWriter(to, schema) as out:
        while some := list(islice(rest, BATCH_ROWS)):
            count += len(some)
            out.write_batch(pa.RecordBatch.from_pylist([*chain.from_iterable(map(rows, some))], schema))
    return count
