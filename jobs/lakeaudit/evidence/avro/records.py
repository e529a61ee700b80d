"""Read the records of an Avro container file; the one module that knows fastavro."""

import json
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

from lakeaudit.evidence.avro.blocks import Torn, header_of, plain_chunks
from lakeaudit.evidence.avro.projection import projection_of

LARGEST = 1 << 30
"""Most bytes of a file; writers begin a new manifest after a few million."""


@dataclass(frozen=True)
class AvroFile:
    """Holds the text values of a file's header, and an iterator that decodes its records.

    `records` raises `Torn` at the first record that cannot be decoded.
    """

    header: Mapping[str, str]
    records: Iterator[dict[str, Any]]


def open_avro(content: bytes, excluded: AbstractSet[str] = frozenset()) -> AvroFile:
    """Open a file by its whole content; fields named in `excluded` are left out if its schema allows that.

    Raises:
        Torn: it is not an Avro file, or its header cannot be understood.
    """
    import fastavro  # most commands do not read Iceberg tables

    if len(content) > LARGEST:
        raise Torn(f"it has {len(content)} bytes, which no such file has")
    header = header_of(content)
    try:
        projection = projection_of(json.loads(header.values["avro.schema"]), excluded) if excluded else None
        stream: Any = _Stream(plain_chunks(content, header, projection))
        reader = fastavro.reader(stream)
    except Exception as error:
        raise Torn("its Avro header cannot be understood") from error
    return AvroFile(header.text, _records(reader))


class _Stream:
    """Reads chunks as one file, once."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks, self._held, self._at = chunks, b"", 0

    def read(self, size: int = -1) -> bytes:
        while len(self._held) - self._at < size and (more := next(self._chunks, b"")):
            self._held, self._at = self._held[self._at :] + more, 0
        content = self._held[self._at : self._at + size]
        self._at += len(content)
        return content


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
            raise Torn(f"it is incomplete or damaged after {number} entries") from error
        if not isinstance(record, dict):
            raise Torn("its entries are not records")
        number += 1
        yield record
