"""Read `spark_sink`: the log of the output of Spark's streaming file sink, `_spark_metadata`, a state manifest.

Spark reads such a folder by this log alone (`MetadataLogFileIndex`): the listed files are the table, and other files of
a failed batch are not. Each batch has a file, `<batch>`, and about every tenth is `<batch>.compact`, which has all
entries before (`CompactibleFileStreamLog`); older files are deleted later. The first line is the version, each other
line a file (`SinkFileStatus`: path as a URI, size, modificationTime, action).
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from urllib.parse import unquote

from lakeaudit.config import Table
from lakeaudit.evidence.files import File
from lakeaudit.evidence.manifest.file_list.read_lines import Fault, Row
from lakeaudit.evidence.manifest.records.find import InFolders
from lakeaudit.evidence.manifest.records.reader import RecordKind
from lakeaudit.evidence.manifest.records.record import TORN, Content, Record, RecordSet, text_of, time_of
from lakeaudit.evidence.manifest.spark_sink import SparkSinkManifest
from lakeaudit.evidence.protocol import EvidenceGap
from lakeaudit.keys import END, Location

FOLDER = str(SparkSinkManifest.folder)
VERSION = b"v1"
_VERSIONED = re.compile(rb"v\d+")
_BATCH = re.compile(rf"^(\d{{1,18}})(\.compact)?{END}")
_ACTIONS = {"add": "add", "delete": "remove"}


def _places(table: Table) -> list[Location]:
    return [table.location.join(FOLDER)]


def _log(table: Table, there: Mapping[Location, Sequence[File]]) -> RecordSet:
    """Return the newest compaction and all later batches; a missing batch is an evidence gap."""
    ((place, files),) = there.items()
    batches = {
        int(named[1]): (file, named[2] is not None)
        for file in sorted(files, key=lambda file: file.name)
        if (named := _BATCH.match(file.name))
    }
    if not batches:
        return RecordSet(table, refused=f"{place.uri} holds no batch of Spark's streaming sink", empty=place)
    first = max((number for number, (_, compacted) in batches.items() if compacted), default=0)
    held = [batches[number][0] for number in sorted(batches) if number >= first]
    lacking = _missing_spans(sorted(number for number in batches if number >= first), first)
    compacted = sorted(number for number, (_, is_compact) in batches.items() if is_compact)
    gaps = tuple(gap for span in lacking for gap in _evidence_gaps(table, place, span, _interval(compacted)))
    return RecordSet(table, tuple(Record(file, table.location, table.name) for file in held), gaps)


INTERVAL = 10
"""Batches between compactions, unless `spark.sql.streaming.fileSink.log.compactInterval` sets another number."""


def _interval(compacted: Sequence[int]) -> int:
    """Return the number of batches from one compaction to the next."""
    steps = [after - before for before, after in pairwise(compacted)]
    return min(steps, default=compacted[0] + 1 if compacted else INTERVAL)


def _missing_spans(numbers: Sequence[int], first: int) -> Iterator[tuple[int, int]]:
    """Yield the spans of missing batches."""
    expected = first
    for number in numbers:
        if number > expected:
            yield expected, number - 1
        expected = number + 1


def _evidence_gaps(
    table: Table, place: Location, span: tuple[int, int], interval: int
) -> Iterator[EvidenceGap]:
    """Yield gaps for a span: its last compaction, which has all batches up to it, and the batches after that."""
    begin, end = span
    last = (end + 1) // interval * interval - 1
    if last >= begin:
        reason = f"{last}.compact is missing; this file lists the files of batches 0 to {last}"
        yield _evidence_gap(table, place, f"{last}.compact", reason, last - begin + 1)
    begin = max(begin, last + 1)
    if begin <= end:
        reason = (
            f"the files of batches {begin} to {end} of the sink's log are missing"
            if end > begin
            else f"the file of batch {begin} is missing"
        )
        yield _evidence_gap(table, place, str(begin), reason, end - begin + 1)


def _evidence_gap(table: Table, place: Location, name: str, reason: str, count: int) -> EvidenceGap:
    return EvidenceGap(
        "", reason, place.join(name).uri, table=table.name, hides="the files that it lists", count=count,
        kind="missing_metadata",
    )  # fmt: skip


def _understand(record: Record, content: Content) -> Iterator[Row]:
    version, *lines = content(record.file).split(b"\n")
    if not _VERSIONED.match(version.strip()):
        raise Fault(f"{TORN}: it does not begin with a version")
    if version.strip() != VERSION:
        raise Fault(f"has the version {version[:50].decode(errors='replace')!r}, which is not understood")
    for line in lines:
        if line.strip():
            yield _row(line, record.file.modified_at)


def _row(line: bytes, logged_at: datetime) -> Row:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        raise Fault(f"{TORN}: it has a line that is not JSON") from None
    if not isinstance(entry, dict):
        raise Fault(f"{TORN}: it has a line that is not a JSON object")
    action = entry.get("action", "add")
    if action not in _ACTIONS:
        raise Fault(f"has the unknown action {str(action)[:50]!r}")
    # a compaction is younger than the files that it lists, and the sink writes a file once, before it lists it
    return {
        "path": unquote(text_of(entry, "path")),
        "size": entry.get("size"),
        "action": _ACTIONS[action],
        "committed_at": min(_time(entry.get("modificationTime")) or logged_at, logged_at).isoformat(),
    }


def _time(millis: object) -> datetime | None:
    if not isinstance(millis, int) or isinstance(millis, bool) or millis <= 0:
        return None
    return time_of(millis, "modificationTime")


def _number(name: str) -> int | None:
    named = _BATCH.match(name)
    return int(named[1]) if named else None


_IN_LOG = InFolders(_places, _log)
SPARK_SINK = RecordKind(
    "spark_sink",
    SparkSinkManifest,
    _IN_LOG.find,
    _IN_LOG.find_near,
    _understand,
    number_of=_number,
    proves_loss=True,
)
