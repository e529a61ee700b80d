"""Lists that an audit has read and that are gone, archived or torn now: what the next audit concludes from that."""

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lakeaudit.config import ManifestSource, Table
from lakeaudit.errors import SourceError
from lakeaudit.evidence.lineage import (
    ABSENT,
    ARCHIVED,
    LAST_AUDIT,
    METADATA,
    TORN,
    LastState,
    LastStates,
    LostState,
    Witness,
)
from lakeaudit.evidence.manifest.file_list import FileListManifest
from lakeaudit.evidence.manifest.redshift_unload import RedshiftUnloadManifest
from lakeaudit.evidence.manifest.spark_sink import SparkSinkManifest
from lakeaudit.evidence.manifest.symlink import SymlinkManifest
from lakeaudit.evidence.protocol import Claims
from lakeaudit.evidence.registry import MANIFESTS
from lakeaudit.keys import Location
from lakeaudit.runtime import duck
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.connections.aws_failures import ARCHIVED as ARCHIVED_WORDS
from lakeaudit.runtime.duck import task_connection
from lakeaudit.schemas import LEFTOVERS, plain_time
from tests.builders.delta_lake import NOW, context

Files = Mapping[str, bytes | None]
"""By path below the table's folder; None: the file is deleted."""
FIRST = NOW - timedelta(days=3)


def batch(*names: str, at: datetime = FIRST, tail: str = "") -> bytes:
    entries = [
        {
            "path": f"{{root}}/{name}",
            "size": 1,
            "modificationTime": int(at.timestamp() * 1000),
            "action": "add",
        }
        for name in names
    ]
    return ("\n".join(["v1", *map(json.dumps, entries)]) + tail).encode()


def listed(*names: str) -> bytes:
    rows = [{"path": f"{{root}}/{name}", "size": 1, "committed_at": FIRST.isoformat()} for name in names]
    return "\n".join(map(json.dumps, [*rows, {"end": True, "lines": len(rows)}])).encode()


def unload(name: str) -> bytes:
    return json.dumps({"entries": [{"url": f"{{root}}/{name}", "meta": {"content_length": 1}}]}).encode()


SINK: Files = {"_spark_metadata/0": batch("a"), "_spark_metadata/1": batch("b")}
LISTS: Files = {"lists/1.jsonl": listed("a"), "lists/2.jsonl": listed("b")}
UNLOADS: Files = {"u1_manifest": unload("a"), "u2_manifest": unload("b")}
SYMLINKS: Files = {
    "_symlink_format_manifest/d=1/manifest": b"{root}/a",
    "_symlink_format_manifest/manifest": b"{root}/b",
}


def put(root: Path, files: Files, at: datetime) -> None:
    for number, (name, content) in enumerate(files.items()):
        path, second = root / name, (at + timedelta(seconds=number)).timestamp()
        if content is None:
            path.unlink()
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.replace(b"{root}", f"file:{root}".encode()))
        os.utime(path, (second, second))


def manifest(kind: str, root: Path, *, complete: bool = True) -> ManifestSource:
    if kind == "spark_sink":
        return SparkSinkManifest(kind="spark_sink")
    if kind == "symlink":
        return SymlinkManifest(kind="symlink", complete=True)
    if kind == "redshift_unload":
        return RedshiftUnloadManifest(kind=kind, location=str(root), complete=complete)
    return FileListManifest(kind="file_list", location=str(root / "lists"), complete=complete)


def read(kind: str, root: Path, last: LastStates, *, complete: bool = True) -> Claims:
    table = Table(
        name="t", location=Location.parse(str(root)), manifests=(manifest(kind, root, complete=complete),)
    )
    return MANIFESTS[kind].read([table], replace(context(Clients()), last_states=last), "m")


def audited(kind: str, root: Path, claims: Claims, *, complete: bool = True) -> LastStates:
    state = claims.states["t"].state
    assert (state is not None) == complete
    if state is None:
        return {}
    return {(kind, "t"): LastState(state, NOW - timedelta(days=1), "r1", Location.parse(str(root)).uri, 2, 2)}


def leftovers(claims: Claims, at: datetime | None) -> list[Witness]:
    rows = [] if at is None else [{"judged_table": "t", "modified_at": plain_time(at)}]
    with task_connection("1GiB") as con:
        found = duck.relation(con, pa_rows(rows))
        return [] if claims.unlisted is None else [*claims.unlisted(con, found)]


def pa_rows(rows: list[dict[str, Any]]) -> Any:
    empty = dict.fromkeys(LEFTOVERS.names)
    return LEFTOVERS.empty_table().from_pylist([empty | row for row in rows], LEFTOVERS)


LOST, DOUBT, QUIET = (LAST_AUDIT,), (METADATA,), None
LATER = NOW - timedelta(hours=12)
GONE_LISTS: dict[str, tuple[str, Files, Files, tuple[str, ...] | None, str]] = {
    "the newest batch": ("spark_sink", SINK, {"_spark_metadata/1": None}, LOST, "_spark_metadata/1"),
    "an older batch": ("spark_sink", SINK, {"_spark_metadata/0": None}, QUIET, ""),
    "the newest batch was compacted": (
        "spark_sink", SINK, {"_spark_metadata/1": None, "_spark_metadata/1.compact": batch("a", "b")}, QUIET, "",
    ),
    "a later batch was written": ("spark_sink", SINK, {"_spark_metadata/2": batch("c")}, QUIET, ""),
    "the folder was created again": (
        "spark_sink", SINK, {"_spark_metadata/1": None, "_spark_metadata/0": batch("c", at=LATER)}, QUIET, "",
    ),
    "the folder was restored to its first batch": (
        "spark_sink", SINK, {"_spark_metadata/1": None, "_spark_metadata/0": batch("a")}, LOST, "_spark_metadata/1",
    ),
    "the newest list": ("file_list", LISTS, {"lists/2.jsonl": None}, LOST, "lists/2.jsonl"),
    "the newest list was written again": ("file_list", LISTS, {"lists/2.jsonl": listed("b", "c")}, QUIET, ""),
    "a later list took its place": (
        "file_list", LISTS, {"lists/2.jsonl": None, "lists/3.jsonl": listed("b")}, DOUBT, "lists/2.jsonl",
    ),
    "the newest manifest of an UNLOAD": (
        "redshift_unload", UNLOADS, {"u2_manifest": None}, LOST, "u2_manifest",
    ),
    "a manifest of one partition": (
        "symlink", SYMLINKS, {"_symlink_format_manifest/manifest": None}, DOUBT, "_symlink_format_manifest/manifest",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", GONE_LISTS)
def test_a_newest_list_that_is_gone_is_a_loss_or_a_doubt(name: str, tmp_path: Path) -> None:
    kind, before, change, evidence, subject = GONE_LISTS[name]
    put(tmp_path, before, FIRST)
    last = audited(kind, tmp_path, read(kind, tmp_path, {}))
    put(tmp_path, change, LATER)
    now = read(kind, tmp_path, last)
    expected = [] if evidence is None else [(evidence, f"{Location.parse(str(tmp_path)).uri}/{subject}")]
    found = [*now.witnesses, *leftovers(now, FIRST)]
    assert [(each.evidence, each.subject) for each in found] == expected
    assert leftovers(now, None) == [] == leftovers(now, NOW)


def test_a_list_stays_lost_until_it_is_back_and_is_not_lost_if_lists_need_not_name_every_file(
    tmp_path: Path,
) -> None:
    put(tmp_path, LISTS, FIRST)
    last = audited("file_list", tmp_path, read("file_list", tmp_path, {}))
    state = last["file_list", "t"].state
    put(tmp_path, {"lists/2.jsonl": None}, NOW)
    now = read("file_list", tmp_path, last)
    again = replace(
        audited("file_list", tmp_path, now)["file_list", "t"], lost=(LostState(state, NOW.astimezone(UTC)),)
    )
    (lost,) = read("file_list", tmp_path, {("file_list", "t"): again}).witnesses
    assert "reported it as lost" in lost.words
    put(tmp_path, {"lists/2.jsonl": listed("b")}, NOW)
    assert read("file_list", tmp_path, {("file_list", "t"): again}).witnesses == ()
    incomplete = read("file_list", tmp_path, last, complete=False)
    assert incomplete.states["t"].state is None
    assert incomplete.witnesses == ()


UNREADABLE: dict[str, tuple[str, Files, Files, str]] = {
    "no batch": ("spark_sink", SINK, dict.fromkeys(SINK), ABSENT),
    "an empty batch": ("spark_sink", SINK, {"_spark_metadata/0": b""}, TORN),
    "a batch that was cut off": ("spark_sink", SINK, {"_spark_metadata/1": batch("b", tail='\n{"pa')}, TORN),
    "a batch of a later Spark": ("spark_sink", SINK, {"_spark_metadata/1": b"v9\n{}"}, ""),
    "whole batches": ("spark_sink", SINK, {}, ""),
    "no manifest of an UNLOAD": ("redshift_unload", UNLOADS, dict.fromkeys(UNLOADS), ABSENT),
    "one torn manifest of two": ("redshift_unload", UNLOADS, {"u2_manifest": b"{"}, ""),
}


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("name", UNREADABLE)
def test_a_log_that_nobody_can_read_is_missing(name: str, known: bool, tmp_path: Path) -> None:
    kind, before, change, cause = UNREADABLE[name]
    put(tmp_path, before, FIRST)
    last = audited(kind, tmp_path, read(kind, tmp_path, {})) if known else {}
    put(tmp_path, change, LATER)
    now = read(kind, tmp_path, last)
    state = now.states["t"]
    expected = cause if known or cause != ABSENT else ""
    assert state.missing == expected
    if expected:
        assert state.refused
        assert state.state is None
        assert not now.holes
        assert state.missing_state is not None
        assert (tmp_path / state.missing_state.subject.rpartition("/")[2]).name in str([*change])


def test_an_archived_batch_makes_the_log_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, SINK, FIRST)

    def archived(*_: object, **__: object) -> bytes:
        raise SourceError("m", f"it {ARCHIVED_WORDS}", "")

    monkeypatch.setattr("lakeaudit.evidence.manifest.records.read_records.read_bytes", archived)
    assert read("spark_sink", tmp_path, {}).states["t"].missing == ARCHIVED
