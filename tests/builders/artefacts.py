"""Small valid artefacts of every kind of evidence that is read from files, each with the lake file that reads it.

A kind is laid into a folder of its own. `mutable` are the files whose damage a test may try, as globs below the folder.
"""

import gzip
import json
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lakeaudit.config import Lake, load_lake
from lakeaudit.evidence.manifest.previous.snapshot_store import FILE, StorageSnapshot, publish, write_rows
from lakeaudit.keys import Location
from lakeaudit.runtime import duck
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.schemas import plain_time
from tests.builders import access_logs, azure_reports, gcs_reports, hudi, name_stores, s3guard
from tests.builders.delta_lake import BORN, Log, add, features, info, metadata, remove, vacuum, vector
from tests.builders.event_logs import UUIDS, App, part
from tests.builders.iceberg_files import Entry, Snapshot, write_metadata
from tests.builders.inventory import WRITERS, Version, into, lay
from tests.builders.records import success, task_manifest, unloaded

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
AT = NOW - timedelta(days=1)
NAMES = ("d=1/a.parquet", "d=1/b c.parquet", "d=2/é.parquet")
SIZES = dict(zip(NAMES, (101, 102, 103), strict=True))
LAKE = "version: 1\nlake: fuzz\nresults: {folder}/results\n"


@dataclass(frozen=True)
class Artefact:
    """One kind of evidence: its writer, the lake file's blocks that read it, and the files that tests may damage."""

    lay: Callable[[Path], None]
    source: str
    mutable: tuple[str, ...]
    rows: str
    """The rows that its damage may change: claims, versions, entries, entered or requests."""
    all_guarded: bool = False
    """Whether a checksum, a length or a count vouches for all of it."""

    def write_lake(self, folder: Path) -> Lake:
        """Write a new copy into the folder; return its lake."""
        shutil.rmtree(folder, ignore_errors=True)
        home = folder / "wh" / "t"
        home.mkdir(parents=True)
        for name, size in SIZES.items():
            put(home / name, b"x" * size)
        self.lay(folder)
        path = folder / "lake.yaml"
        path.write_text((LAKE + self.source).replace("{folder}", str(folder)))
        return load_lake(path, {})

    def files(self, folder: Path) -> list[Path]:
        """The files that may be hurt, in a fixed order."""
        return sorted({path for glob in self.mutable for path in folder.glob(glob) if path.is_file()})


def put(path: Path, content: bytes | str, at: datetime = AT) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    os.utime(path, (at.timestamp(), at.timestamp()))


LISTING = "inventories: [{kind: listing, location: '{folder}/wh/'}]\n"


def claimed(lay: Callable[[Path], None], manifest: str, *mutable: str, **more: Any) -> Artefact:
    """A manifest of the table t."""
    block = f"tables: [{{name: t, location: '{{folder}}/wh/t', manifests: [{{{manifest}}}]}}]\n"
    return Artefact(lay, LISTING + block, mutable, "claims", **more)


def stored(lay: Callable[[Path], None], source: str, *mutable: str, **more: Any) -> Artefact:
    """A report on storage."""
    block = f"inventories: [{{{source}}}]\ntables: [{{name: t, location: 's3://lake/wh/t'}}]\n"
    return Artefact(lay, block, mutable, "versions", **more)


def export_artefact(lay: Callable[[Path], None], source: str, rows: str = "entries") -> Artefact:
    """Return the artefact of a metadata store's export."""
    block = f"metastores: [{{{source}, export: '{{folder}}/export'}}]\n{_NO_TABLE}"
    return Artefact(lay, block, (f"{_EXPORT}/*.json", f"{_EXPORT}/data/*"), rows, all_guarded=True)


def recorded(lay: Callable[[Path], None], kind: str, **more: Any) -> Artefact:
    """Records of requests."""
    block = f"events: [{{kind: {kind}, location: '{{folder}}/events'}}]\n{_NO_TABLE}"
    return Artefact(lay, block, ("events/*",), "requests", **more)


_EXPORT = "export/AWSDynamoDB/*"
_NO_TABLE = LISTING + "tables: [{name: t, location: '{folder}/wh/t'}]\n"


# --- Delta -----------------------------------------------------------------------------------------------------------


def _delta_log(folder: Path) -> Log:
    log = Log(folder / "wh" / "t")
    log.commit(0, info("CREATE TABLE"), *BORN)
    log.commit(1, info(), *(add(name, size=size) for name, size in SIZES.items()))
    log.commit(2, info("DELETE"), add(NAMES[0], vector(1), size=101), remove(NAMES[0]))
    log.commit(3, vacuum(168))
    log.commit(4, info(), add("d=2/late.parquet", size=104))
    return log


def _delta(folder: Path) -> None:
    _delta_log(folder)


def _live_actions() -> list[dict[str, Any]]:
    adds = [add(NAMES[0], vector(1), size=101), *(add(name, size=SIZES[name]) for name in NAMES[1:])]
    return [*BORN, *adds, remove("d=1/old.parquet")]


def _delta_checkpoint(folder: Path) -> None:
    log = _delta_log(folder)
    log.checkpoint(3, *_live_actions())
    log.drop(*(f"{version:020}.json" for version in range(4)))
    log.put("_last_checkpoint", json.dumps({"version": 3, "size": 6}))
    log.put(f"{4:020}.crc", json.dumps({"numFiles": 4, "tableSizeBytes": 410, "txnId": "x"}))


def _delta_parts(folder: Path) -> None:
    log = _delta_log(folder)
    log.checkpoint(3, *_live_actions(), parts=2)
    log.drop(*(f"{version:020}.json" for version in range(4)))


def _delta_sidecars(form: str) -> Callable[[Path], None]:
    def lay_it(folder: Path) -> None:
        log = _delta_log(folder)
        born = [features("v2Checkpoint", "deletionVectors"), metadata()]
        log.sidecar_checkpoint(3, *born, *_live_actions()[2:], form=form)
        log.drop(*(f"{version:020}.json" for version in range(4)))

    return lay_it


# --- Iceberg ---------------------------------------------------------------------------------------------------------


def _iceberg(folder: Path) -> None:
    entries = [Entry(f"file://{folder}/wh/t/{name}", size) for name, size in SIZES.items()]
    first = Snapshot({"m1": entries[:2]}, AT)
    second = Snapshot({"m1": entries[:2], "m2": entries[2:]}, AT + timedelta(hours=1), 1, {"m1": 1})
    write_metadata(folder / "wh" / "t", {1: first, 2: second})
    put(folder / "wh/t/metadata/version-hint.text", "1")


# --- Hudi ------------------------------------------------------------------------------------------------------------

T1, T2, T3 = (f"2026110{n}100000000" for n in range(1, 4))


def _hudi_base(group: str, instant: str) -> str:
    return f"d=1/{group}_0-1-2_{instant}.parquet"


def _hudi_instants(layout: int) -> dict[str, str]:
    def completed_instant(instant: str) -> str:
        return instant if layout == 1 else f"{instant}_{instant[:8]}110000000"

    clean = {
        "partitionMetadata": {
            "d=1": {
                "partitionPath": "d=1",
                "successDeleteFiles": ["x_0-1-2_1.parquet"],
                "failedDeleteFiles": [],
            }
        }
    }
    return {
        f"{completed_instant(T1)}.commit": hudi.commit(*(hudi.stat(_hudi_base(g, T1)) for g in ("g1", "g2"))),
        f"{completed_instant(T2)}.commit": hudi.commit(hudi.stat(_hudi_base("g1", T2), prevCommit=T1)),
        f"{completed_instant(T3)}.clean": json.dumps(clean),
    }


def _hudi(layout: int) -> Callable[[Path], None]:
    def lay_it(folder: Path) -> None:
        hudi.write_timeline(folder / "wh" / "t", _hudi_instants(layout), layout=layout)

    return lay_it


def _hudi_archive(folder: Path) -> None:
    instants = _hudi_instants(2)
    first, *rest = instants.items()
    hudi.write_timeline(folder / "wh" / "t", dict(rest), layout=2)
    history = folder / "wh/t/.hoodie/timeline/history"
    history.mkdir()
    row = {"instantTime": T1, "completionTime": f"{T1[:8]}110000000", "action": "commit",
           "metadata": first[1].encode(), "plan": None, "version": 1}  # fmt: skip
    pq.write_table(pa.Table.from_pylist([row]), history / f"{T1}_{T1}_0.parquet")
    (history / "manifest_1").write_text(
        json.dumps({"files": [{"fileName": f"{T1}_{T1}_0.parquet", "fileLen": 1}]})
    )
    (history / "_version_").write_text("1")


def _hudi_of_spark(layout: int) -> Callable[[Path], None]:
    def lay_it(folder: Path) -> None:
        name = hudi.names_of(layout)[0]
        hudi.unpacked(folder / "unpacked", layout, [name])
        shutil.rmtree(folder / "wh" / "t")
        shutil.move(folder / "unpacked" / "wh" / name, folder / "wh" / "t")

    return lay_it


# --- records of writers ----------------------------------------------------------------------------------------------


def _home(folder: Path) -> Location:
    return Location.parse(str(folder / "wh" / "t"))


def _sink(folder: Path) -> None:
    home = folder / "wh" / "t"
    files = [
        {"path": f"file://{home}/{name}", "size": size, "isDir": False, "action": "add",
         "modificationTime": int(AT.timestamp() * 1000), "blockReplication": 1, "blockSize": 33554432}
        for name, size in SIZES.items()
    ]  # fmt: skip
    for number, chosen in enumerate((files[:2], files[2:])):
        put(home / "_spark_metadata" / str(number), "\n".join(["v1", *map(json.dumps, chosen)]))


def _sink_compacted(folder: Path) -> None:
    _sink(folder)
    log = folder / "wh/t/_spark_metadata"
    lines = [line for number in "01" for line in (log / number).read_text().splitlines()[1:]]
    put(log / "9.compact", "\n".join(["v1", *lines]))
    put(log / "10", "v1")


def _symlink(folder: Path) -> None:
    home = folder / "wh" / "t"
    put(home / "_symlink_format_manifest/manifest", "\n".join(f"file:{home}/{name}" for name in NAMES))


def _s3a(folder: Path) -> None:
    counters = {"counters": {"committer_commits_completed": 3}}
    put(folder / "wh/t/_SUCCESS", json.dumps(success(_home(folder), NAMES, iostatistics=counters)))


BY_MANIFESTS = "org.apache.hadoop.mapreduce.lib.output.committer.manifest.ManifestCommitter"


def _manifest_committer(folder: Path) -> None:
    home = folder / "wh" / "t"
    counters = {
        "counters": {"committer_files_committed": 3, "committer_bytes_committed": sum(SIZES.values())}
    }
    marker = success(_home(folder), NAMES, BY_MANIFESTS, iostatistics=counters)
    marker["filenames"] = [f"file:{home}/{name}" for name in NAMES]
    put(home / "_SUCCESS", json.dumps(marker))
    files = [{"s": "file:/tmp/x", "d": f"file:{home}/{name}", "z": size} for name, size in SIZES.items()]
    task = home / "_temporary" / marker["jobId"] / "00" / "manifests" / "task_1-manifest.json"
    put(task, json.dumps(task_manifest(_home(folder), (), files=files)))


def _redshift(folder: Path) -> None:
    entries = [
        {"url": str(folder / "wh/t" / name), "meta": {"content_length": size, "record_count": 2}}
        for name, size in SIZES.items()
    ]
    told = unloaded(_home(folder), ()) | {"entries": entries}
    told["meta"] = {"content_length": sum(SIZES.values()), "record_count": 6}
    put(folder / "records" / "t_manifest", json.dumps(told))


def _databricks(folder: Path) -> None:
    put(folder / "wh/t/d=1/_started_8617", "")
    names = [name.rpartition("/")[2] for name in NAMES if name.startswith("d=1/")]
    put(folder / "wh/t/d=1/_committed_8617", json.dumps({"added": names, "removed": ["old.parquet"]}))


def _list_rows(folder: Path) -> list[dict[str, Any]]:
    return [
        {"path": str(folder / "wh/t" / name), "size": size, "records": 2, "committed_at": AT.isoformat()}
        for name, size in SIZES.items()
    ]


def _jsonl(folder: Path) -> None:
    lines = [*_list_rows(folder), {"end": True, "lines": 3}]
    put(folder / "lists/list.jsonl", "".join(json.dumps(line) + "\n" for line in lines))


def _jsonl_gz(folder: Path) -> None:
    lines = [*_list_rows(folder), {"end": True, "lines": 3}]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    put(folder / "lists/list.jsonl.gz", gzip.compress(text.encode(), mtime=0))


def _csv(folder: Path) -> None:
    rows = _list_rows(folder)
    lines = [",".join(rows[0]), *(",".join(map(str, row.values())) for row in rows)]
    put(folder / "lists/list.csv", "".join(line + "\n" for line in lines))


def _parquet(folder: Path) -> None:
    (folder / "lists").mkdir()
    pq.write_table(pa.Table.from_pylist(_list_rows(folder)), folder / "lists/list.parquet")


def _event_log(codec: str, rolled: int = 0) -> Callable[[Path], None]:
    def lay_it(folder: Path) -> None:
        app = App(at=AT - timedelta(minutes=1))
        for number, uuid in enumerate(UUIDS[:2]):
            splits = {split: (2, 100 + 10 * number + split) for split in range(2)}
            ended = app.write(f"file:{folder}/wh/t", splits)
            for split, (_, size) in splits.items():
                put(folder / "wh/t" / part(split, uuid), b"x" * size, ended)
        app.end().save(folder / "logs", codec, rolled=rolled)

    return lay_it


def _previous(folder: Path) -> None:
    home, seen = _home(folder), NOW - timedelta(hours=12)
    times = tuple(map(plain_time, (AT, AT, seen)))
    rows = [
        ("t", home.bucket, home.join(name).key, size, None, *times, False) for name, size in SIZES.items()
    ]
    place = Location.parse(str(folder / "results")).join(".pictures")
    with duck.task_connection() as con:
        file = write_rows(Clients(), place, duck.relation(con, duck.small(FILE, rows)))
    publish(Clients(), place, StorageSnapshot("r1", seen, True, {"t": home.uri}, (file,)))


# --- storage ---------------------------------------------------------------------------------------------------------


def _inventory(form: str) -> Callable[[Path], None]:
    def lay_it(folder: Path) -> None:
        held = [Version(f"wh/t/{name}", Size=size, LastModifiedDate=AT) for name, size in SIZES.items()]
        contents = [WRITERS[form](held[:2]), WRITERS[form](held[2:])]
        lay(into(folder), contents, form=form, at=AT, under="inv")

    return lay_it


def _gcs(form: str) -> Callable[[Path], None]:
    def lay_it(folder: Path) -> None:
        records = [gcs_reports.Record(f"wh/t/{name}", size) for name, size in SIZES.items()]
        gcs_reports.lay(into(folder), [records[:2], records[2:]], form=form, under="insights", at=AT)

    return lay_it


def _azure(form: str) -> Callable[[Path], None]:
    def lay_it(folder: Path) -> None:
        blobs = [azure_reports.Blob(f"lake/wh/t/{name}", size) for name, size in SIZES.items()]
        azure_reports.lay(
            into(folder / "azure"), [blobs[:2], blobs[2:]], form=form, at=AT - timedelta(hours=6)
        )

    return lay_it


# --- metadata stores -------------------------------------------------------------------------------------------------


def _s3guard(folder: Path) -> None:
    items = [s3guard.marker(), s3guard.folder("b", "t", last_updated=AT)]
    items += [s3guard.file("b", f"t/{n}", mod_time=AT, last_updated=AT) for n in range(4)]
    s3guard.export(into(folder / "export"), [*items, s3guard.tombstone("b", "t/x", at=AT)], at=AT)


def _emrfs(folder: Path) -> None:
    items = [name_stores.emrfs("b", f"t/{n}", AT) for n in range(4)]
    s3guard.export(into(folder / "export"), items, at=AT)


def _s3mper(folder: Path) -> None:
    rows = [name_stores.s3mper("b", f"t/{n}", AT) for n in range(4)]
    s3guard.export(into(folder / "export"), [*rows, name_stores.index(AT, "b", "t/1")], at=AT)


def _log_store(folder: Path) -> None:
    items = [
        {"tablePath": {"S": "s3://b/t"}, "fileName": {"S": f"{version:020}.json"}, "complete": {"S": "true"},
         "tempPath": {"S": f".tmp/{version:020}.json.x"}, "expireTime": {"N": str(int(NOW.timestamp()) + 9999)}}
        for version in range(4)
    ]  # fmt: skip
    s3guard.export(into(folder / "export"), items, at=AT)


# --- events ----------------------------------------------------------------------------------------------------------


def _access_log(folder: Path) -> None:
    lines = [access_logs.write_line(f"t/{name}", AT) for name in NAMES]
    lines += [access_logs.deleted("t/x", AT), access_logs.expired("t/y", AT)]
    put(folder / "events" / access_logs.name(AT), access_logs.content(lines))


def _cloudtrail(folder: Path) -> None:
    records = [
        {"eventVersion": "1.11", "userIdentity": {"arn": "arn:aws:iam::123456789012:user/ann"},
         "eventTime": f"{AT:%Y-%m-%dT%H:%M:%SZ}", "eventSource": "s3.amazonaws.com", "eventName": "PutObject",
         "requestParameters": {"bucketName": "lake", "key": f"t/{name}"}, "requestID": f"R{n}",
         "eventID": "cdc4b7ed-e171-4cef-975a-ad829d4123e8", "readOnly": False, "eventCategory": "Data"}
        for n, name in enumerate(NAMES)
    ]  # fmt: skip
    name = f"123456789012_CloudTrail_eu-west-1_{AT:%Y%m%dT%H%M}Z_abcDEF123.json.gz"
    put(folder / "events" / name, gzip.compress(json.dumps({"Records": records}).encode(), mtime=0))


def _journal_rows() -> list[dict[str, Any]]:
    return [
        {"bucket": "lake", "key": f"t/{name}", "sequence_number": f"0062F{n:04}", "record_type": "CREATE",
         "record_timestamp": plain_time(AT), "version_id": f"v{n}", "is_delete_marker": False, "size": 5,
         "is_multipart": False, "requester": "123456789012", "request_id": f"R{n}"}
        for n, name in enumerate(NAMES)
    ]  # fmt: skip


def _journal(folder: Path) -> None:
    put(folder / "events/rows.parquet", b"")
    pq.write_table(pa.Table.from_pylist(_journal_rows()), folder / "events/rows.parquet")
    os.utime(folder / "events/rows.parquet", (AT.timestamp(), AT.timestamp()))


def _journal_json(folder: Path) -> None:
    rows = [{**row, "record_timestamp": AT.isoformat()} for row in _journal_rows()]
    put(
        folder / "events/rows.json.gz",
        gzip.compress("".join(json.dumps(r) + "\n" for r in rows).encode(), mtime=0),
    )


_LOG = "wh/t/_delta_log"
_META = "wh/t/metadata"
_HUDI = "wh/t/.hoodie"
_LISTS = "kind: file_list, location: '{folder}/lists'"
_LOGS = "kind: spark_event_log, location: '{folder}/logs'"
_INV = "kind: s3_inventory, location: '{folder}/inv'"
_GCS = "kind: gcs_inventory, location: '{folder}/insights'"
_AZURE = "kind: azure_inventory, location: '{folder}/azure'"

KINDS: Mapping[str, Artefact] = {
    "delta commit": claimed(_delta, "kind: delta", f"{_LOG}/*.json"),
    "delta checkpoint": claimed(_delta_checkpoint, "kind: delta", f"{_LOG}/*.parquet"),
    "delta crc": claimed(_delta_checkpoint, "kind: delta", f"{_LOG}/*.crc"),
    "delta hint": claimed(_delta_checkpoint, "kind: delta", f"{_LOG}/_last_checkpoint"),
    "delta checkpoint parts": claimed(_delta_parts, "kind: delta", f"{_LOG}/*.parquet"),
    "delta v2 checkpoint json": claimed(_delta_sidecars("json"), "kind: delta", f"{_LOG}/*.checkpoint*"),
    "delta v2 checkpoint": claimed(_delta_sidecars("parquet"), "kind: delta", f"{_LOG}/*.checkpoint*"),
    "delta sidecar": claimed(_delta_sidecars("parquet"), "kind: delta", f"{_LOG}/_sidecars/*"),
    "iceberg metadata": claimed(_iceberg, "kind: iceberg", f"{_META}/*.json"),
    "iceberg hint": claimed(_iceberg, "kind: iceberg", f"{_META}/*.text"),
    "iceberg manifest list": claimed(_iceberg, "kind: iceberg", f"{_META}/snap-*"),
    "iceberg manifest": claimed(_iceberg, "kind: iceberg", f"{_META}/m*.avro"),
    "hudi timeline 1": claimed(_hudi(1), "kind: hudi", f"{_HUDI}/2*"),
    "hudi timeline 2": claimed(_hudi(2), "kind: hudi", f"{_HUDI}/timeline/*"),
    "hudi properties": claimed(_hudi(2), "kind: hudi", f"{_HUDI}/*.properties"),
    "hudi archive": claimed(_hudi_archive, "kind: hudi", f"{_HUDI}/timeline/history/*"),
    "hudi timeline 1 by spark": claimed(_hudi_of_spark(1), "kind: hudi", f"{_HUDI}/*", f"{_HUDI}/archived/*"),
    "hudi timeline 2 by spark": claimed(
        _hudi_of_spark(2), "kind: hudi", f"{_HUDI}/*", f"{_HUDI}/timeline/*", f"{_HUDI}/timeline/history/*"
    ),
    "spark sink": claimed(_sink, "kind: spark_sink", "wh/t/_spark_metadata/*"),
    "compacted sink": claimed(_sink_compacted, "kind: spark_sink", "wh/t/_spark_metadata/*"),
    "symlink": claimed(_symlink, "kind: symlink", "wh/t/_symlink_format_manifest/*"),
    "s3a committer": claimed(_s3a, "kind: s3a_committer", "wh/t/_SUCCESS"),
    "manifest committer": claimed(
        _manifest_committer, "kind: manifest_committer", "wh/t/_SUCCESS", "wh/t/_temporary/**/*"
    ),
    "redshift unload": claimed(_redshift, "kind: redshift_unload, location: '{folder}/records'", "records/*"),
    "databricks commits": claimed(_databricks, "kind: databricks_commits", "wh/t/d=1/_committed_8617"),
    "file list jsonl": claimed(_jsonl, _LISTS, "lists/*"),
    "file list jsonl.gz": claimed(_jsonl_gz, _LISTS, "lists/*", all_guarded=True),
    "file list csv": claimed(_csv, _LISTS, "lists/*"),
    "file list parquet": claimed(_parquet, _LISTS, "lists/*"),
    "event log": claimed(_event_log("plain"), _LOGS, "logs/*"),
    "event log zstd": claimed(_event_log("zstd"), _LOGS, "logs/*"),
    "event log lz4": claimed(_event_log("lz4"), _LOGS, "logs/*"),
    "event log rolled": claimed(_event_log("snappy", 3), _LOGS, "logs/*/events_*"),
    "previous": claimed(_previous, "kind: previous, settled: 0s", "results/.pictures/**/*"),
    "s3 inventory csv": stored(_inventory("CSV"), _INV, "inv/**/*", all_guarded=True),
    "s3 inventory orc": stored(_inventory("ORC"), _INV, "inv/**/*", all_guarded=True),
    "s3 inventory parquet": stored(_inventory("Parquet"), _INV, "inv/**/*", all_guarded=True),
    "gcs inventory csv": stored(_gcs("csv"), _GCS, "insights/*"),
    "gcs inventory parquet": stored(_gcs("parquet"), _GCS, "insights/*"),
    "azure inventory csv": stored(_azure("csv"), _AZURE, "azure/**/*"),
    "azure inventory parquet": stored(_azure("parquet"), _AZURE, "azure/**/*"),
    "dynamodb export": export_artefact(_s3guard, "kind: s3guard"),
    "emrfs export": export_artefact(_emrfs, "kind: emrfs, location: 's3://b/'"),
    "s3mper export": export_artefact(_s3mper, "kind: s3mper, location: 's3://b/'"),
    "log store export": export_artefact(_log_store, "kind: delta_log_store", "entered"),
    "s3 access log": recorded(_access_log, "s3_access_log"),
    "cloudtrail": recorded(_cloudtrail, "cloudtrail", all_guarded=True),
    "journal parquet": recorded(_journal, "s3_journal"),
    "journal json": recorded(_journal_json, "s3_journal", all_guarded=True),
}
