"""Records of Avro container files, as Iceberg's lists and manifests are: the one module that knows fastavro."""

import json
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

from lakeaudit.evidence.manifest.iceberg.avro_blocks import Torn, header_of, plain_chunks
from lakeaudit.evidence.manifest.iceberg.avro_narrow import narrow

LARGEST = 1 << 30
"""Bytes of a file; writers begin a new manifest after a few million."""


@dataclass(frozen=True)
class AvroFile:
    """The text that a file's header carries, and its records, read as they are asked for.

    `records` raises `Torn` where one of them cannot be understood.
    """

    header: Mapping[str, str]
    records: Iterator[dict[str, Any]]


def opened(content: bytes, unasked: AbstractSet[str] = frozenset()) -> AvroFile:
    """A file by its whole content; fields of these names are left out where that can be done.

    Raises:
        Torn: it is none, or its header cannot be understood.
    """
    import fastavro  # most commands read no Iceberg table

    if len(content) > LARGEST:
        raise Torn(f"it has {len(content)} bytes, which no such file has")
    header = header_of(content)
    try:
        fewer = narrow(json.loads(header.values["avro.schema"]), unasked) if unasked else None
        stream: Any = _Stream(plain_chunks(content, header, fewer))
        reader = fastavro.reader(stream)
    except Exception as error:
        raise Torn("its Avro header cannot be understood") from error
    return AvroFile(header.text, _records(reader))


class _Stream:
    """Chunks as a file that is read once."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks, self._held, self._at = chunks, b"", 0

    def read(self, size: int = -1) -> bytes:
        while len(self._held) - self._at < size and (more := next(self._chunks, b"")):
            self._held, self._at = self._held[self._at :] + more, 0
        taken = self._held[self._at : self._at + size]
        self._at += len(taken)
        return taken


def _records(reader: Any) -> Iterator[dict[str, Any]]:
    number = 0
    while True:
        try:
            record = next(reader)
        except StopIteration:
            return
        except Torn:
            raise
        except Exception as error:
            raise Torn(f"it is torn or damaged after {number} entries") from error
        if not isinstance(record, dict):
            raise Torn("its entries are no records")
        number += 1
        yield record
