"""Read the records of Hadoop's committers: `s3a_committer` and `manifest_committer`, both event manifests.

Both leave a `_SUCCESS` of JSON in the folder that a job wrote (Hadoop's `SuccessData`): the job, its end, its totals,
and the names of the first hundred files (`SUCCESS_MARKER_FILE_LIMIT`). It lists the committed files, and so does not
show files that were lost before the commit. An empty `_SUCCESS` is from a committer that renames, and claims nothing.

The records of a job's tasks, which the end of the job deletes, list the files that it should have committed:
`.pendingset` and `.pending` of the S3A committers (`PendingSet`, `SinglePendingCommit`: key, exact length, upload), and
the task manifests of the other (`TaskManifest`: destination `d`, length `z`, ETag `e`). If they still exist together
with the `_SUCCESS` of the same job, their files should be in storage. Records of a job without such a `_SUCCESS` claim
nothing: it may have failed, and another may have done its work.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any
from urllib.parse import unquote

from lakeaudit.config import Table
from lakeaudit.errors import SourceError
from lakeaudit.evidence.files import File, list_files
from lakeaudit.evidence.manifest.committers import (
    CommitterManifest,
    ManifestCommitterManifest,
    S3ACommitterManifest,
)
from lakeaudit.evidence.manifest.file_list.read_lines import Fault, Row
from lakeaudit.evidence.manifest.records.find import MARKER, above, each, listed, stored
from lakeaudit.evidence.manifest.records.read_records import content
from lakeaudit.evidence.manifest.records.reader import RecordKind
from lakeaudit.evidence.manifest.records.record import (
    Content,
    Declared,
    Record,
    RecordSet,
    Search,
    json_object,
    objects_of,
    text_of,
    texts_of,
    time_of,
)
from lakeaudit.evidence.manifest.records.totals import tag_of
from lakeaudit.evidence.protocol import Context
from lakeaudit.keys import END, Location, uri_of
from lakeaudit.runtime.connections.aws import Clients

SUCCESS_DATA = "org.apache.hadoop.fs.s3a.commit.files.SuccessData/1"
TASK_MANIFEST = "org.apache.hadoop.mapreduce.lib.output.committer.manifest.files.TaskManifest/1"
MOST_NAMES = 100
"""Most names in a `_SUCCESS`."""
PENDING_SETS, PENDINGS = (1, 2, 3), (1, 2)
"""Versions in which the fields that are read here are the same."""

_OF_TASKS = re.compile(rf"(?:^|/)(?:__magic[^/]*/.*\.pending(?:set)?|_temporary/.*-manifest\.json){END}")
_NAMES = rf"(^|/)(_SUCCESS|__magic[^/]*/.*\.pending(set)?|_temporary/.*-manifest\.json){END}"
_REPORT = re.compile(rf"^summary-.*\.json{END}")


def _of_kind(model: type[CommitterManifest], table: Table) -> list[CommitterManifest]:
    return [manifest for manifest in table.manifests if isinstance(manifest, model)]


def _find(model: type[CommitterManifest], tables: Sequence[Table], ctx: Context) -> Search:
    """Locate the `_SUCCESS` files of the tables, each with the records of tasks below its folder; and the reports."""
    homes = {table.location: table.name for table in tables}
    there = stored(ctx, homes, _NAMES, with_tags=True)
    found = [RecordSet(table, tuple(_records(table, there.files.get(table.name, ())))) for table in tables]
    return Search(_with_reports(model, found, ctx.clients), there.tagged)


def _records(table: Table, files: Sequence[File]) -> Iterator[Record]:
    of_tasks: dict[str, list[File]] = {}
    for file in files:
        if _OF_TASKS.search(file.place.key):
            folder = re.split(r"(?:^|/)(?:__magic|_temporary/)", file.place.key, maxsplit=1)[0]
            of_tasks.setdefault(folder, []).append(file)
    for file in files:
        if file.name == MARKER:
            others = tuple(of_tasks.get(file.place.key.rpartition("/")[0], ()))
            yield Record(file, table.location, table.name, others)


def _with_reports(
    model: type[CommitterManifest], found: Sequence[RecordSet], clients: Clients
) -> list[RecordSet]:
    """Add each report to the first of the tables that name its place; its rows may concern all of them."""
    records: dict[str, list[Record]] = {}
    refused: dict[str, str] = {}
    warnings: dict[str, list[str]] = {}
    named: dict[Location, list[Table]] = {}
    for table in (one.table for one in found):
        for manifest in _of_kind(model, table):
            for place in manifest.places:
                named.setdefault(place, []).append(table)
    for place, files in each(listed, clients, list(named)).items():
        if isinstance(files, SourceError):
            refused |= {table.name: str(files) for table in named[place]}
            continue
        homes = tuple((table.location, table.name) for table in named[place])
        first = named[place][0]
        reports = [
            Record(file, first.location, "", homes=homes) for file in files if _REPORT.match(file.name)
        ]
        records.setdefault(first.name, []).extend(reports)
        if not reports:
            warnings.setdefault(first.name, []).append(
                f"{place.uri} holds no report of a job (summary-*.json)"
            )
    return [
        replace(
            one,
            records=(*one.records, *records.get(one.table.name, ())),
            warnings=tuple(warnings.get(one.table.name, ())),
            refused=refused.get(one.table.name),
        )
        for one in found
    ]


def _find_near(
    model: type[CommitterManifest], table: Table, clients: Clients, bucket: str, key: str
) -> RecordSet:
    """Locate the `_SUCCESS` files of the folders around a key, with the records of their jobs, and the reports."""
    if not table.location.holds(bucket, key):
        return RecordSet(table)
    files = list(above(clients, table.location, key, MARKER))
    for marker in list(files):
        folder = Location(bucket, marker.place.key.rpartition("/")[0])
        for job in _jobs(clients, marker):
            for below in (f"__magic_job-{job}", f"__magic/job-{job}", f"_temporary/{job}"):
                files += list_files(clients, folder.join(below))
    (found,) = _with_reports(model, [RecordSet(table, tuple(_records(table, files)))], clients)
    return found


def _jobs(clients: Clients, marker: File) -> list[str]:
    try:
        job = json_object(content(clients, marker)).get("jobId")
    except Fault:
        return []
    return [job] if isinstance(job, str) and re.fullmatch(r"[\w.-]+", job) else []


def _understand(ours: re.Pattern[str], record: Record, contents: Content) -> Iterator[Row | Declared]:
    """Yield the totals of a job, the files in its `_SUCCESS` or report, and those in its tasks' records."""
    held = contents(record.file)
    if not held:
        return
    saved = _success_data(held)
    if saved.get("success", True) is not True or not ours.search(text_of(saved, "committer")):
        return
    job, at = saved.get("jobId") or None, _time(saved.get("timestamp"))
    same = {"job_id": job, "committed_at": at.isoformat()}
    names = texts_of(saved, "filenames")
    if job and record.table and (declared := _job_totals(record, job, at, saved, names)):
        yield declared
    for name in names:
        yield {"path": _uri(name, record.home), **same}
    for other in record.others:
        if job and job in other.place.key:
            yield from ({**row, **same} for row in _of_task(other, contents))


def _success_data(held: bytes) -> Mapping[str, Any]:
    if not held.strip():
        raise Fault("has only blanks")
    saved = json_object(held)
    if saved.get("name") != SUCCESS_DATA:
        raise Fault(f"has the format {str(saved.get('name'))[:200]!r}, which is not understood")
    return saved


_FILES, _BYTES = ("committer_commits_completed", "committer_files_committed"), "committer_bytes_committed"


def _job_totals(
    record: Record, job: str, at: datetime, saved: Mapping[str, Any], names: Sequence[str]
) -> Declared | None:
    """Return the totals in the job's own statistics, if there are any; they count committed files."""
    statistics = saved.get("iostatistics")
    counters = statistics.get("counters") if isinstance(statistics, dict) else None
    if not isinstance(counters, dict):
        return None
    files = next((counters[name] for name in _FILES if _is_count(counters.get(name))), None)
    size = counters.get(_BYTES) if _is_count(counters.get(_BYTES)) else None
    place = record.file.place
    folder = Location(place.bucket, place.key.rpartition("/")[0])
    return Declared(job, folder, at, files, size, tag_of(names), place.key)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value < 1 << 62


def _of_task(other: File, contents: Content) -> Iterator[Row]:
    saved = json_object(contents(other))
    if other.name.endswith(".pending"):
        _version(other, saved, PENDINGS)
        # another attempt may have committed the same key with other bytes, so the length of this attempt may be wrong
        yield {"path": _destination(saved)}
    elif other.name.endswith(".pendingset"):
        _version(other, saved, PENDING_SETS)
        for commit in objects_of(saved, "commits"):
            yield {"path": _destination(commit), "size": commit.get("length")}
    elif saved.get("type") != TASK_MANIFEST:
        raise Fault(
            f"{other.place.uri} has the format {str(saved.get('type'))[:200]!r}, which is not understood"
        )
    else:
        for file in objects_of(saved, "files"):
            yield {"path": _decode(text_of(file, "d")), "size": file.get("z"), "etag": file.get("e")}


def _version(other: File, saved: Mapping[str, Any], known: Sequence[int]) -> None:
    if saved.get("version") not in known:
        raise Fault(
            f"{other.place.uri} has the version {str(saved.get('version'))[:50]}, which is not understood"
        )


def _destination(commit: Mapping[str, Any]) -> str:
    return f"s3://{text_of(commit, 'bucket')}/{text_of(commit, 'destinationKey')}"


def _uri(name: str, home: Location) -> str:
    """Return a URI; the S3A committers write keys after a slash, the other one writes URIs."""
    return uri_of(home.bucket, name[1:]) if name.startswith("/") and not home.is_local else _decode(name)


def _decode(uri: str) -> str:
    """Return the raw path of a URI as the manifest committer writes them (`AbstractManifestData.marshallPath`)."""
    return unquote(uri)


def _time(millis: object) -> datetime:
    if not isinstance(millis, int) or isinstance(millis, bool):
        raise Fault("has no time as timestamp")
    return time_of(millis, "timestamp")


def _kind(kind: str, model: type[CommitterManifest], committers: str) -> RecordKind:
    ours = re.compile(committers)
    return RecordKind(
        kind,
        model,
        partial(_find, model),
        partial(_find_near, model),
        partial(_understand, ours),
        by_storage=True,
        has_totals=True,
    )


S3A = _kind("s3a_committer", S3ACommitterManifest, r"^(magic|directory|partitioned|staging)$")
MANIFEST = _kind("manifest_committer", ManifestCommitterManifest, r"\.manifest\.ManifestCommitter$")
