"""Records in the formats of the systems that write them, of a table with files `d=1/a` and `d=2/b c`."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from lakeaudit.keys import Location

JOB = "11111111-2222-3333-4444-555555555555"
NAMES = ("d=1/a.bin", "d=2/b c.bin")
SIZES = dict(zip(NAMES, (3, 5), strict=True))
MILLIS = 1_795_420_071_863
Files = dict[str, bytes]


Draw = Callable[[st.SearchStrategy[Any]], Any]


def other_json(content: bytes, draw: Draw) -> bytes:
    """The same object with other spaces, order, unknown fields and encoding."""
    fields = [*json.loads(content).items(), ("of a later version", {"deep": [1, None, "ü"]})]
    text = json.dumps(
        dict(draw(st.permutations(fields))), indent=draw(st.sampled_from([None, 2])), ensure_ascii=False
    )
    lines = draw(st.sampled_from(["\n", "\r\n"]))
    mark: bytes = draw(st.sampled_from([b"", b"\xef\xbb\xbf"]))
    return mark + text.replace("\n", lines).encode()


@dataclass(frozen=True)
class RecordKind:
    """A kind of records: its files below a table that names NAMES, and the one of them that is changed in tests.

    `more` is the rest of the manifest's entry in the lake file, where `{home}` is the table's location. `listed`: a
    folder of records is listed when they are read. `harmless` writes a record otherwise that says the same.
    """

    files: Callable[[Location, tuple[str, ...]], Files]
    record: str
    sizes: Mapping[str, int | None]
    more: str = ""
    listed: bool = False
    harmless: Callable[[bytes, Draw], bytes] = other_json


def success(
    home: Location, names: tuple[str, ...], committer: str | None = "magic", **given: Any
) -> dict[str, Any]:
    """Hadoop's SuccessData, as 3.4.2 writes it but for its statistics."""
    uris = f"/{home.prefix}" if committer == "magic" else f"s3a://{home.bucket}/{home.prefix}"
    return {
        "name": "org.apache.hadoop.fs.s3a.commit.files.SuccessData/1", "success": True, "timestamp": MILLIS,
        "date": "Mon Nov 23 07:47:51 UTC 2026", "hostname": "vm", "committer": committer, "jobId": JOB,
        "description": "Task committer attempt_2026_0001_m_000000_0", "metrics": {}, "diagnostics": {},
        "jobIdSource": "spark.sql.sources.writeJobUUID",
        "filenames": [f"{uris}{name if committer == 'magic' else name.replace(' ', '%20')}" for name in names],
        "iostatistics": {"counters": {"committer_commits_completed": len(names)}}, "state": None, "stage": None,
    } | given  # fmt: skip


def pending(home: Location, name: str, size: int, **given: Any) -> dict[str, Any]:
    """Hadoop's SinglePendingCommit."""
    return {
        "version": 2, "filename": f"s3a://{home.bucket}/{home.prefix}__magic_job-{JOB}/x/{name}.pending",
        "uri": f"s3a://{home.bucket}/{home.prefix}__magic_job-{JOB}/x/{name}", "uploadId": "AqUaLF2cpp5",
        "bucket": home.bucket, "destinationKey": f"{home.prefix}{name}", "created": MILLIS, "saved": MILLIS,
        "date": "Mon Nov 23 07:47:52 UTC 2026", "jobId": JOB, "taskId": "attempt_2026_0001_m_000000_0", "text": "",
        "etags": [{"etag": '"9336ebf25087d91c818ee6e9ec29f8c1"', "checksumAlgorithm": None, "checksum": None}],
        "extraData": {}, "length": size, "iostatistics": {"counters": {}}, "partCount": 1,
    } | given  # fmt: skip


def pending_set(home: Location, names: tuple[str, ...], **given: Any) -> dict[str, Any]:
    """Hadoop's PendingSet."""
    commits = [pending(home, name, SIZES.get(name, 1)) for name in names]
    return {"version": 3, "jobId": JOB, "commits": commits, "extraData": {}} | given


def task_manifest(home: Location, names: tuple[str, ...], **given: Any) -> dict[str, Any]:
    """Hadoop's TaskManifest."""
    uri = f"s3a://{home.bucket}/{home.prefix}"
    files = [{"s": "s3a://x/y", "d": f"{uri}{n.replace(' ', '%20')}", "z": SIZES.get(n, 1)} for n in names]
    return {
        "type": "org.apache.hadoop.mapreduce.lib.output.committer.manifest.files.TaskManifest/1", "version": 1,
        "jobId": JOB, "jobAttemptNumber": 0, "taskID": "task_2026_0001_m_000000", "extraData": {}, "files": files,
        "directories": [{"d": f"s3a://{home.bucket}/{home.prefix}d=1", "t": 1, "l": 1}], "iostatistics": {},
    } | given  # fmt: skip


def _json(value: object) -> bytes:
    return json.dumps(value).encode()


def _totals(names: tuple[str, ...]) -> dict[str, Any]:
    return {"iostatistics": {"counters": {"committer_commits_completed": len(names)}}}


def _s3a(home: Location, names: tuple[str, ...]) -> Files:
    return {"_SUCCESS": _json(success(home, names))}


def _s3a_leftovers(home: Location, names: tuple[str, ...]) -> Files:
    task = f"__magic_job-{JOB}/job-{JOB}/00/task_2026_0001_m_000000.pendingset"
    return {"_SUCCESS": _json(success(home, (), **_totals(names))), task: _json(pending_set(home, names))}


def _manifest(home: Location, names: tuple[str, ...]) -> Files:
    committer = "org.apache.hadoop.mapreduce.lib.output.committer.manifest.ManifestCommitter"
    task = f"_temporary/{JOB}/00/manifests/task_2026_0001_m_000000-manifest.json"
    return {
        "_SUCCESS": _json(success(home, (), committer, **_totals(names))),
        task: _json(task_manifest(home, names)),
    }


def sink_entry(home: Location, name: str, **given: Any) -> dict[str, Any]:
    """Spark's SinkFileStatus."""
    return {
        "path": f"s3a://{home.bucket}/{home.prefix}{name.replace(' ', '%20')}", "size": SIZES.get(name, 1),
        "isDir": False, "modificationTime": MILLIS, "blockReplication": 1, "blockSize": 33554432, "action": "add",
    } | given  # fmt: skip


def sink_batch(home: Location, names: tuple[str, ...]) -> bytes:
    """A file of `_spark_metadata`."""
    return "\n".join(["v1", *(json.dumps(sink_entry(home, name)) for name in names)]).encode()


def _spark_sink(home: Location, names: tuple[str, ...]) -> Files:
    return {
        "_spark_metadata/0": sink_batch(home, names[:1]),
        "_spark_metadata/1": sink_batch(home, names[1:]),
    }


def _compacted(home: Location, names: tuple[str, ...]) -> Files:
    return {
        "_spark_metadata/8": sink_batch(home, ("d=1/not this",)),
        "_spark_metadata/9.compact": sink_batch(home, names),
        "_spark_metadata/10": sink_batch(home, ()),
    }


def _symlink(home: Location, names: tuple[str, ...]) -> Files:
    """Delta's; each partition has a file of its own."""
    uris = [f"s3a://{home.bucket}/{home.prefix}{name}" for name in names]
    return {"_symlink_format_manifest/d=1/manifest": "\n".join(uris).encode()}


def unloaded(home: Location, names: tuple[str, ...]) -> dict[str, Any]:
    """Return the manifest of UNLOAD ... MANIFEST VERBOSE, as the Redshift developer guide shows it."""
    entries = [
        {"url": f"s3://{home.bucket}/{home.prefix}{name}",
         "meta": {"content_length": SIZES.get(name, 1), "record_count": 2}} for name in names
    ]  # fmt: skip
    length = sum(SIZES.get(name, 1) for name in names)
    return {
        "entries": entries,
        "schema": {"elements": [{"name": "venueid", "type": {"base": "integer"}}]},
        "meta": {"content_length": length, "record_count": 2 * len(names)},
        "author": {"name": "Amazon Redshift", "version": "1.0.1680"},
    }


def _redshift(home: Location, names: tuple[str, ...]) -> Files:
    return {"venue_manifest": _json(unloaded(home, names))}


def _databricks(_: Location, names: tuple[str, ...]) -> Files:
    one, two = ([name.rpartition("/")[2] for name in names if name.startswith(f"d={n}/")] for n in (1, 2))
    files = {"d=1/_started_8617": b"", "d=1/_committed_8617": _json({"added": one, "removed": []})}
    other = {"d=2/_committed_8618": _json({"added": two, "removed": ["older.bin"]})}
    return files | other


def other_lines(content: bytes, draw: Draw) -> bytes:
    """The same lines with other ends."""
    end: bytes = draw(st.sampled_from([b"\n", b"\r\n"]))
    last: bytes = draw(st.sampled_from([b"", end, end + end]))
    return content.replace(b"\n", end) + last


_UNKNOWN: dict[str, int | None] = dict.fromkeys(NAMES)
_LISTED: Any = {"listed": True}
KINDS: dict[str, tuple[str, RecordKind]] = {
    "s3a marker": ("s3a_committer", RecordKind(_s3a, "_SUCCESS", _UNKNOWN)),
    "s3a tasks": ("s3a_committer", RecordKind(_s3a_leftovers, ".pendingset", SIZES)),
    "manifest committer": ("manifest_committer", RecordKind(_manifest, "-manifest.json", SIZES)),
    "sink": (
        "spark_sink",
        RecordKind(_spark_sink, "_spark_metadata/0", SIZES, harmless=other_lines, **_LISTED),
    ),
    "compacted sink": (
        "spark_sink",
        RecordKind(_compacted, "9.compact", SIZES, harmless=other_lines, **_LISTED),
    ),
    "symlink": ("symlink", RecordKind(_symlink, "/manifest", _UNKNOWN, harmless=other_lines, **_LISTED)),
    "redshift": (
        "redshift_unload",
        RecordKind(_redshift, "_manifest", SIZES, ", location: '{home}'", **_LISTED),
    ),
    "databricks": ("databricks_commits", RecordKind(_databricks, "_committed_8617", _UNKNOWN)),
}
"""By name a kind of manifest and a way in which it is written."""
