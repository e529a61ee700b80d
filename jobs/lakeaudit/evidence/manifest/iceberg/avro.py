"""Avro container files, as Iceberg's manifest lists and manifests are: the one module that knows fastavro."""

import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import fastavro

MAGIC = b"Obj\x01"
LARGEST = 1 << 30
"""Bytes of a file; writers begin a new manifest after a few million."""


class Torn(Exception):
    """What of a file cannot be understood, in words."""


@dataclass(frozen=True)
class AvroFile:
    """The text that a file's header carries, and its records, read as they are asked for.

    `records` raises `Torn` where one of them cannot be understood.
    """

    header: Mapping[str, str]
    records: Iterator[dict[str, Any]]


def opened(content: bytes) -> AvroFile:
    """A file by its whole content.

    Raises:
        Torn: it is none, or its header cannot be understood.
    """
    if not content.startswith(MAGIC):
        raise Torn("it is no Avro file" if content else "it is empty")
    if len(content) > LARGEST:
        raise Torn(f"it has {len(content)} bytes, which no such file has")
    try:
        reader = fastavro.reader(io.BytesIO(content))
        return AvroFile(dict(reader.metadata), _records(reader))
    except Exception as error:
        raise Torn("its Avro header cannot be understood") from error


def _records(reader: Any) -> Iterator[dict[str, Any]]:
    number = 0
    while True:
        try:
            record = next(reader)
        except StopIteration:
            return
        except Exception as error:
            raise Torn(f"it is torn or damaged after {number} entries") from error
        if not isinstance(record, dict):
            raise Torn("its entries are no records")
        number += 1
        yield record
