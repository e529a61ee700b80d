"""Builds the files of Hudi timelines and commits without Hudi, by their paths below the table."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from types import MappingProxyType

TABLE_VERSIONS = {1: "6", 2: "8"}
"""Table version by layout of the timeline."""


def instant_text(at: datetime) -> str:
    """Return a time in the form of Hudi's instants."""
    return f"{at:%Y%m%d%H%M%S}{at.microsecond // 1000:03}"


def stat(path: str, size: int = 100, rows: int = 10, **more: object) -> dict[str, object]:
    """Return a commit's record of one file."""
    return {"path": path, "fileSizeInBytes": size, "numWrites": rows, "prevCommit": "null", **more}


def commit(*stats: Mapping[str, object], replaced: Mapping[str, Sequence[str]] | None = None) -> str:
    """Return the content of a commit's file; `replaced` are file groups by partition."""
    by_partition: dict[str, list[Mapping[str, object]]] = {}
    for each in stats:
        by_partition.setdefault(str(each["path"]).rpartition("/")[0], []).append(each)
    more = {} if replaced is None else {"partitionToReplaceFileIds": replaced}
    return json.dumps({"partitionToWriteStats": by_partition, "operationType": "UPSERT", **more})


def timeline(layout: int) -> str:
    """Return the folder of the active timeline, below the table."""
    return ".hoodie" if layout == 1 else ".hoodie/timeline"


def timeline_files(
    instants: Mapping[str, str],
    *,
    layout: int = 1,
    properties: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, str]:
    """Return the properties file of a table and the files of its instants, which are given by file name.

    `properties` are added to hoodie.properties; one without a value is left out.
    """
    own = {"hoodie.table.version": TABLE_VERSIONS[layout], "hoodie.timeline.layout.version": str(layout)}
    lines = [f"{name}={value}\n" for name, value in {**own, **properties}.items() if value]
    files = {".hoodie/hoodie.properties": "".join(lines)}
    return files | {f"{timeline(layout)}/{name}": content for name, content in instants.items()}


def complete_instant(instant: str, content: str) -> dict[str, str]:
    """Return the files of a complete instant of layout 1: requested, inflight and committed."""
    names = (f"{instant}.commit.requested", f"{instant}.inflight")
    return {**dict.fromkeys(names, ""), f"{instant}.commit": content}
