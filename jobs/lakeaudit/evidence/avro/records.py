"""Read the records of an Avro container file; the one module that knows fastavro."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lakeaudit.evidence.avro.blocks import Torn, header_of, plain_chunks


@dataclass(frozen=True)
class AvroFile:
    """Holds the text values of a file's header, and an iterator that decodes its records.

    `records` raises `Torn` at the first record that cannot be decoded.
    """

    header: Mapping[str, str]
    records: Iterator[dict[str, Any]]


def open_avro(content: bytes) -> AvroFile:
    """Open a file by its whole content.

    Raises:
        Torn: it is not an Avro file, or its header cannot be understood.
    """
    import fastavro  # most commands do not read Iceberg tables

    header = header_of(content)
    try:
        stream: Any = _Stream(plain_chunks(content, header))
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
