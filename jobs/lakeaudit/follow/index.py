"""Index the files that tables need: for each key a hash, sorted on disk, and the tables that list the file.

A file takes 12 bytes on disk. A look-up reads a few pages through a memory map, and a build holds 1/256 of the files.
Two keys with equal hashes cost a read of the tables, never a wrong answer.
"""

import hashlib
import json
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, BinaryIO
from uuid import uuid4

import numpy as np
import numpy.typing as npt

from lakeaudit.errors import CannotPublish
from lakeaudit.evidence.references import Key
from lakeaudit.runtime.whole_files import replace_file

FORMAT = 1
"""The version of the files; others are built again."""
ABOUT = "index.json"
KEY_HASH = "md5_number_lower(bucket || chr(0) || key)"
"""SQL for the hash of a key; the twin of `key_hash`."""
_ROW = np.dtype([("hash", "<u8"), ("table", "<u4")])
_PARTITIONS = 256

Hashes = npt.NDArray[np.uint64]
Tables = npt.NDArray[np.uint32]
Files = tuple[Hashes, Tables]
"""Hashes of keys, and for each the number of a table."""


def key_hash(key: Key) -> int:
    """Return the hash of a (bucket, key); the twin of `KEY_HASH`."""
    text = "\0".join(key).encode("utf-8", "replace")
    return int.from_bytes(hashlib.md5(text, usedforsecurity=False).digest()[8:], "little")


@dataclass(frozen=True)
class AboutIndex:
    """Identifies the lake and the states of an index.

    Attributes:
        lake: the name of the lake.
        results: where its results are.
        states: by table the state that was read, as text.
        files: the number of its rows; 0 before it is written.
        data: the name of the folder of its rows.
        format: the version of its files.
    """

    lake: str
    results: str
    states: Mapping[str, str]
    files: int = 0
    data: str = ""
    format: int = FORMAT


@dataclass(frozen=True)
class FileIndex:
    """The files that tables need by one state of each table, in the order of their hashes.

    Attributes:
        hashes: of the keys.
        tables: for each hash the place of its table in `names`.
        names: of the tables.
        about: the lake and the states.
    """

    hashes: Hashes
    tables: Tables
    names: tuple[str, ...]
    about: AboutIndex

    def lookup(self, hashes: Sequence[int]) -> list[frozenset[str]]:
        """Return for each hash the tables that list a file with this hash."""
        wanted = np.array(hashes, dtype=np.uint64)
        first = np.searchsorted(self.hashes, wanted, side="left")
        last = np.searchsorted(self.hashes, wanted, side="right")
        return [
            frozenset(self.names[number] for number in self.tables[begin:end]) if end > begin else _NONE
            for begin, end in zip(first.tolist(), last.tolist(), strict=True)
        ]


_NONE: frozenset[str] = frozenset()


@dataclass
class RecentFiles:
    """Files that newer commits have added since an index was built, in memory."""

    tables: dict[int, frozenset[str]] = field(default_factory=dict)

    def add(self, hashes: Iterable[int], table: str) -> set[int]:
        """Add files of a table; return those that were not here."""
        new: set[int] = set()
        for each in hashes:
            before = self.tables.get(each, _NONE)
            if table not in before:
                self.tables[each] = before | {table}
                new.add(each)
        return new

    def lookup(self, each: int) -> frozenset[str]:
        """Return the tables that list a file with this hash."""
        return self.tables.get(each, _NONE)


def open_index(folder: Path, lake: str, results: str) -> FileIndex | None:
    """Return the index of a folder; None if there is none, or it is of another lake or version, or torn."""
    try:
        fields = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
        about = AboutIndex(**fields)
        if (about.format, about.lake, about.results) != (FORMAT, lake, results):
            return None
        return _opened(folder, about)
    except (OSError, ValueError, TypeError, AttributeError):
        return None


def write_index(folder: Path, about: AboutIndex, files: Iterable[Files]) -> FileIndex:
    """Write an index and return it; an older one is replaced in one step.

    Args:
        folder: the folder of the state of `follow`.
        about: its tables are numbered in the order of their names.
        files: the files of the tables, in any order; one that comes twice counts once.

    Raises:
        CannotPublish: the folder cannot be written.
    """
    data = f"files-{uuid4().hex[:12]}"
    try:
        (folder / data).mkdir(parents=True)
        count = _write_sorted(folder / data, files)
        written = AboutIndex(**{**asdict(about), "files": count, "data": data})
        about_text = json.dumps(asdict(written), sort_keys=True)
        replace_file(folder / ABOUT, about_text.encode(), durable=True)
        _remove_others(folder, data)
        return _opened(folder, written)
    except OSError as error:
        what = f"the index cannot be written ({error.strerror})"
        raise CannotPublish(
            str(folder), what, "let follow.state of the lake file name a folder with room"
        ) from error


def _opened(folder: Path, about: AboutIndex) -> FileIndex:
    """Map the files of an index.

    Raises:
        ValueError: they do not have the size that the index states.
    """
    arrays: list[Any] = []
    for name, kind in (("hashes", "<u8"), ("tables", "<u4")):
        path = folder / about.data / name
        if path.stat().st_size != about.files * np.dtype(kind).itemsize:
            raise ValueError(f"{path} has another size")
        arrays.append(np.memmap(path, kind, "r") if about.files else np.empty(0, kind))
    return FileIndex(arrays[0], arrays[1], tuple(sorted(about.states)), about)


def _write_sorted(folder: Path, files: Iterable[Files]) -> int:
    """Write the rows in the order of their hashes, and return their number."""
    with ExitStack() as opened:
        parts = [opened.enter_context((folder / f"{n}.part").open("w+b")) for n in range(_PARTITIONS)]
        for hashes, tables in files:
            _distribute(parts, hashes, tables)
        count = 0
        with (folder / "hashes").open("wb") as hash_file, (folder / "tables").open("wb") as table_file:
            for part in parts:
                rows = _sorted_rows(part)
                hash_file.write(np.ascontiguousarray(rows["hash"]).tobytes())
                table_file.write(np.ascontiguousarray(rows["table"]).tobytes())
                count += len(rows)
            for each in (hash_file, table_file):
                each.flush()
                os.fsync(each.fileno())
    for number in range(_PARTITIONS):
        (folder / f"{number}.part").unlink()
    return count


def _distribute(parts: Sequence[BinaryIO], hashes: Hashes, tables: Tables) -> None:
    rows = np.empty(len(hashes), _ROW)
    rows["hash"], rows["table"] = hashes, tables
    partition = (rows["hash"] >> np.uint64(56)).astype(np.intp)
    order = np.argsort(partition, kind="stable")
    ends = np.searchsorted(partition[order], np.arange(_PARTITIONS + 1))
    for number in np.unique(partition).tolist():
        parts[number].write(rows[order[ends[number] : ends[number + 1]]].tobytes())


def _sorted_rows(part: BinaryIO) -> npt.NDArray[Any]:
    part.seek(0)
    rows = np.frombuffer(part.read(), _ROW)
    rows = rows[np.argsort(rows["hash"], kind="stable")]
    again = np.zeros(len(rows), np.bool_)
    again[1:] = (rows["hash"][1:] == rows["hash"][:-1]) & (rows["table"][1:] == rows["table"][:-1])
    return rows[~again]


def _remove_others(folder: Path, data: str) -> None:
    """Remove the rows of older indexes, and of builds that were killed."""
    for each in folder.glob("files-*"):
        if each.name != data and each.is_dir():
            with suppress(OSError):
                for file in each.iterdir():
                    file.unlink()
                each.rmdir()


def numbered(states: Collection[str]) -> dict[str, int]:
    """Return the numbers of tables in an index."""
    return {name: number for number, name in enumerate(sorted(states))}
