"""Parse the metadata.json of a table: snapshots, their lists of manifests, branches and tags. Pure.

Format: "Table Metadata Fields" and "Snapshots" of the Iceberg specification, versions 1 to 3.
"""

import json
import re
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from itertools import pairwise
from typing import Any

from lakeaudit.errors import one_line

VERSIONS = (1, 2, 3)
LARGEST = 1 << 29
"""Most bytes of a metadata.json, unpacked; thousands of snapshots need a few million."""
NAME = re.compile(r"v?(\d{1,18})(?:-[^/]*)?(?:\.gz)?\.metadata\.json(?:\.gz)?")
"""`00007-<uuid>.metadata.json` of catalogs, `v7.metadata.json` of tables that live only in a file system."""
_GZIP = b"\x1f\x8b"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class NotReadable(Exception):
    """The table cannot be read; the text says why."""


class NotSupported(NotReadable):
    """The table has a format version that this reader does not know; its own readers may."""


@dataclass(frozen=True)
class Snapshot:
    """Holds one retained state of a table.

    `manifests` are those that old writers of version 1 name here instead of in a list. `heads` are the branches and
    tags that point to it.
    """

    id: int
    parent: int | None
    at: datetime
    list_path: str | None
    manifests: tuple[str, ...] = ()
    summary: Mapping[str, str] = field(default_factory=dict)
    heads: tuple[str, ...] = ()


@dataclass(frozen=True)
class Metadata:
    """Holds a table as one metadata.json describes it; `old_files` are the earlier metadata.json files in it."""

    version: int
    uuid: str
    location: str
    updated_at: datetime
    current: int | None
    snapshots: tuple[Snapshot, ...]
    old_files: tuple[tuple[str, datetime], ...] = ()
    statistics: tuple[tuple[str, int | None, int], ...] = ()
    """Files with statistics: path, size, snapshot."""
    properties: Mapping[str, str] = field(default_factory=dict)

    lost_current: int | None = None
    """The snapshot of main when this file was written, if the file lost its current one; None: nothing shows that."""

    log: tuple[tuple[int, bool], ...] = ()
    """The states that main has had, oldest first, and whether a commit made each (else a rollback or the like)."""

    def written_by(self, moment: datetime) -> "Metadata":
        """Return the same without times later than its own file, or than a snapshot that was built on it.

        A writer's clock that was ahead must not make added files too young to be judged.
        """
        times = _bounded_times(self.snapshots, moment)
        return replace(
            self,
            updated_at=min(self.updated_at, moment),
            snapshots=tuple(replace(each, at=times[each.id]) for each in self.snapshots),
            old_files=tuple((name, min(at, moment)) for name, at in self.old_files),
        )

    @property
    def times(self) -> dict[int, datetime]:
        """Return when each retained snapshot was committed."""
        return {snapshot.id: snapshot.at for snapshot in self.snapshots}

    @cached_property
    def lost_updates(self) -> tuple[tuple[int, int], ...]:
        """Return pairs (older, younger) of consecutive states of main, if the younger was not built on the older.

        Both are retained, and so are all ancestors of the younger. A rollback between them would be its own state.
        """
        parents = {snapshot.id: snapshot.parent for snapshot in self.snapshots}
        return tuple(
            (older, younger)
            for (older, _), (younger, committed) in pairwise(self.log)
            if committed and older in parents and older != younger and _is_unrelated(older, younger, parents)
        )

    @property
    def horizon(self) -> datetime | None:
        """Return since when every state of every branch and tag can be read; None if there is no state.

        Behind each head its ancestors are followed as long as they are retained.
        """
        heads = [snapshot for snapshot in self.snapshots if snapshot.heads]
        return max((self._oldest_of(head) for head in heads), default=None)

    def _oldest_of(self, head: Snapshot) -> datetime:
        known = {snapshot.id: snapshot for snapshot in self.snapshots}
        oldest, seen = head, {head.id}
        while oldest.parent in known and oldest.parent not in seen:
            oldest = known[oldest.parent]
            seen.add(oldest.id)
        made = [at for _, at in self.old_files] if oldest.parent is None else []
        return min([oldest.at, *made])


def _bounded_times(snapshots: Sequence[Snapshot], moment: datetime) -> dict[int, datetime]:
    """Return the time of each snapshot, at most that moment and the times of those that were built on it."""
    times = {each.id: min(each.at, moment) for each in snapshots}
    parents = {each.id: each.parent for each in snapshots if each.parent in times}
    children = Counter(parents.values())
    newest = [id_ for id_ in times if not children[id_]]
    while newest:
        id_ = newest.pop()
        parent = parents.get(id_)
        if parent is None:
            continue
        times[parent] = min(times[parent], times[id_])
        children[parent] -= 1
        if not children[parent]:
            newest.append(parent)
    return times


def _is_unrelated(older: int, younger: int, parents: Mapping[int, int | None]) -> bool:
    """Return whether the younger snapshot's ancestors are known, back to the first or a common one, without the older.

    A snapshot without a parent begins a new history, as CREATE OR REPLACE does.
    """
    if parents.get(younger) in (None, older):
        return False
    at, passed = parents[younger], {younger}
    before = _ancestors(older, parents)
    while at is not None and at in parents and at not in passed:
        if at == older:
            return False
        if at in before:
            return True
        passed.add(at)
        at = parents[at]
    return at is None


def _ancestors(id_: int, parents: Mapping[int, int | None]) -> set[int]:
    found: set[int] = set()
    at = parents.get(id_)
    while at is not None and at not in found:
        found.add(at)
        at = parents.get(at)
    return found


def number_of(name: str) -> int | None:
    """Return the number in the name of a metadata.json, which gives their order; None for other files."""
    found = NAME.fullmatch(name)
    return int(found[1]) if found else None


def is_state_file(name: str) -> bool:
    """Return whether a file of the folder `metadata` is a metadata.json, which only an Iceberg table has."""
    return number_of(name) is not None


def parse_metadata(content: bytes) -> Metadata:
    """Parse a metadata.json, gzipped or not.

    Raises:
        NotReadable: it cannot be understood, or has an unknown version.
    """
    try:
        found = json.loads(unpack(content))
        version = found["format-version"]
    except (ValueError, RecursionError, LookupError, TypeError) as error:
        raise NotReadable("its content is not Iceberg metadata") from error
    if version not in VERSIONS:
        raise NotSupported(f"format version {str(version)[:20]} is not known; 1, 2 and 3 are")
    try:
        return _metadata(found)
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError) as error:
        raise NotReadable(f"its content cannot be understood ({one_line(str(error), 100)})") from error


def unpack(content: bytes) -> bytes:
    """Return a metadata.json without its gzip."""
    if not content.startswith(_GZIP):
        return content
    unpacking = zlib.decompressobj(wbits=31)
    try:
        plain = unpacking.decompress(content, LARGEST)
    except zlib.error as error:
        raise ValueError("no gzip") from error
    if unpacking.unconsumed_tail:
        raise ValueError("too large")
    return plain


def _metadata(found: Mapping[str, Any]) -> Metadata:
    if fault := next(_contradictions(found), None):
        raise NotReadable(f"it contradicts itself: {fault}; Iceberg's own readers refuse it")
    current = _current(found)
    heads = _heads(found.get("refs") or {}, current)
    return Metadata(
        version=found["format-version"],
        uuid=str(found.get("table-uuid") or ""),
        location=str(found["location"]),
        updated_at=_time(found["last-updated-ms"]),
        current=current,
        snapshots=tuple(_snapshot(each, heads) for each in found.get("snapshots") or ()),
        old_files=tuple(
            (str(each["metadata-file"]), _time(each["timestamp-ms"]))
            for each in found.get("metadata-log") or ()
        ),
        statistics=tuple(_statistics(found)),
        lost_current=_lost_current(found),
        log=tuple(_log(found)),
        properties={str(key): str(value) for key, value in (found.get("properties") or {}).items()},
    )


def _current(found: Mapping[str, Any]) -> int | None:
    current = found.get("current-snapshot-id")
    return None if current in (None, -1) else int(current)


def _lost_current(found: Mapping[str, Any]) -> int | None:
    """Compute `Metadata.lost_current`.

    An update of main writes one time for the file and for the entry of `snapshot-log`. CREATE OR REPLACE TABLE, which
    leaves main without a snapshot, writes a later time, or, by a clock that is behind, that of the file before it.
    """
    log = found.get("snapshot-log") or ()
    if not log or _current(found) is not None:
        return None
    at, last = int(found["last-updated-ms"]), int(log[-1]["snapshot-id"])
    earlier = {int(each["timestamp-ms"]) for each in found.get("metadata-log") or ()}
    retained = {int(each["snapshot-id"]) for each in found.get("snapshots") or ()}
    return last if int(log[-1]["timestamp-ms"]) == at and at not in earlier and last in retained else None


def _contradictions(found: Mapping[str, Any]) -> Iterator[str]:
    """Yield references to parts that the file does not hold. The reference implementation refuses such a file, too.

    Version 1 may lack branches, and lists of schemas and specs; a table without a snapshot has no current one.
    """
    ids = Counter(int(each["snapshot-id"]) for each in found.get("snapshots") or ())
    current, refs = _current(found), found.get("refs") or {}
    if current is not None and current not in ids:
        yield f"current-snapshot-id {current} names no snapshot"
    if "main" in refs and int(refs["main"]["snapshot-id"]) != current:
        yield f"the branch main is at snapshot {refs['main']['snapshot-id']}, and current-snapshot-id is {current}"
    for name, ref in refs.items():
        if int(ref["snapshot-id"]) not in ids:
            yield f"{ref.get('type') or 'reference'} {one_line(name, 60)} names no snapshot"
    yield from (f"two snapshots have the id {id_}" for id_, number in ids.items() if number > 1)
    for key, place, id_key in _DEFAULTS:
        among = {each.get(id_key) for each in found.get(place) or ()}
        if among and key in found and found[key] not in among:
            yield f"{key} {one_line(str(found[key]), 20)} is not among {place}"
    last = found.get("last-sequence-number")
    numbers = [int(each.get("sequence-number") or 0) for each in found.get("snapshots") or ()]
    if last is not None and any(number > int(last) for number in numbers):
        yield f"last-sequence-number {int(last)} is lower than a snapshot's ({max(numbers)})"


_DEFAULTS = (
    ("current-schema-id", "schemas", "schema-id"),
    ("default-spec-id", "partition-specs", "spec-id"),
    ("default-sort-order-id", "sort-orders", "order-id"),
)


def _heads(refs: Mapping[str, Mapping[str, Any]], current: int | None) -> dict[int, tuple[str, ...]]:
    """Return the branches and tags of each snapshot that has any; version 1 may omit main."""
    named: dict[int, list[str]] = {} if current is None else {current: ["main"]}
    for name, ref in refs.items():
        names = named.setdefault(int(ref["snapshot-id"]), [])
        if name not in names:
            names.append(name)
    return {id_: tuple(names) for id_, names in named.items()}


def _snapshot(found: Mapping[str, Any], heads: Mapping[int, tuple[str, ...]]) -> Snapshot:
    id_, parent, listed = (
        int(found["snapshot-id"]),
        found.get("parent-snapshot-id"),
        found.get("manifest-list"),
    )
    manifests: Sequence[object] = found.get("manifests") or ()
    if listed is None and found.get("manifests") is None:
        raise ValueError(f"snapshot {id_} names no list of manifests")
    return Snapshot(
        id_,
        None if parent is None else int(parent),
        _time(found["timestamp-ms"]),
        None if listed is None else str(listed),
        tuple(map(str, manifests)) if listed is None else (),
        {str(key): str(value) for key, value in (found.get("summary") or {}).items()},
        heads.get(id_, ()),
    )


def _log(found: Mapping[str, Any]) -> Iterator[tuple[int, bool]]:
    """Yield states of main; a commit enters its snapshot with the time of the snapshot itself."""
    made = {each["snapshot-id"]: each["timestamp-ms"] for each in found.get("snapshots") or ()}
    for each in found.get("snapshot-log") or ():
        yield int(each["snapshot-id"]), made.get(each["snapshot-id"]) == each["timestamp-ms"]


def _statistics(found: Mapping[str, Any]) -> Iterator[tuple[str, int | None, int]]:
    for block in ("statistics", "partition-statistics"):
        for each in found.get(block) or ():
            size = each.get("file-size-in-bytes")
            yield str(each["statistics-path"]), None if size is None else int(size), int(each["snapshot-id"])


def _time(epoch_ms: Any) -> datetime:
    return _EPOCH + timedelta(milliseconds=int(epoch_ms))
