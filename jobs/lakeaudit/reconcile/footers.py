"""How many rows a Parquet file has by its footer, of any version of an object.

The file ends with its metadata, the length of that in four bytes, little endian, and `PAR1` (Parquet format, "File
format"); an encrypted footer ends with `PARE` and is not read.
"""

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from botocore.exceptions import BotoCoreError, ClientError

from lakeaudit.runtime.aws import Clients

_TAIL = 64 << 10
_MOST = 64 << 20
"""Bytes of a footer that is read."""


def rows_of(clients: Clients, bucket: str, key: str, size: int, version_id: str | None = None) -> int | None:
    """The rows; None where no footer of Parquet can be read."""
    try:
        tail = _tail(clients, bucket, key, min(_TAIL, size), version_id)
        needed = int.from_bytes(tail[-8:-4], "little") + 8
        if tail[-4:] != b"PAR1" or needed > min(size, _MOST):
            return None
        if needed > len(tail):
            tail = _tail(clients, bucket, key, needed, version_id)
        return int(pq.read_metadata(io.BytesIO(tail)).num_rows)
    except (ClientError, BotoCoreError, pa.ArrowException, OSError):
        return None


def _tail(clients: Clients, bucket: str, key: str, length: int, version_id: str | None) -> bytes:
    asked: Any = {"Bucket": bucket, "Key": key, "Range": f"bytes=-{length}"}
    if version_id is not None:
        asked["VersionId"] = version_id
    return clients.s3(bucket, key).get_object(**asked)["Body"].read()
