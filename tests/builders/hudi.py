"""Tables that Hudi's bundle for Spark wrote (tests/data/hudi), and timelines by hand; how their lake is audited."""

import json
import os
import zipfile
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType

from lakeaudit.config import Lake, load_lake

PACKED = Path(__file__).parents[1] / "data" / "hudi"
LAYOUTS = {1: "of_0_15.zip", 2: "of_1_0.zip"}
"""By layout of the timeline what has its tables."""
NO_WAIT = "grace: 0s, leftover_age: 0s, max_upload: 0s, min_duplicate_size: 1MiB"


def names_of(layout: int) -> list[str]:
    """The tables there are."""
    with zipfile.ZipFile(PACKED / LAYOUTS[layout]) as packed:
        return sorted({info.filename.split("/")[0] for info in packed.infolist()})


def unpacked(folder: Path, layout: int, names: Sequence[str] = ()) -> Path:
    """Some tables (none named: all) in `folder/wh`, each file as old as it was."""
    with zipfile.ZipFile(PACKED / LAYOUTS[layout]) as packed:
        for info in packed.infolist():
            if not names or info.filename.split("/")[0] in names:
                path = folder / "wh" / info.filename
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(packed.read(info))
                at = datetime.fromisoformat(info.comment.decode()).timestamp()
                os.utime(path, (at, at))
    return folder / "wh"


def lake_of(folder: Path, names: Sequence[str]) -> Lake:
    """The lake file of some of them, loaded."""
    entries = ", ".join(
        f"{{name: {name}, location: '{folder}/wh/{name}', manifests: [{{kind: hudi}}]}}" for name in names
    )
    path = folder / "lake.yaml"
    path.write_text(
        f"version: 1\nlake: hudi\nresults: {folder / 'results'}\n"
        f"inventories: [{{kind: listing, location: '{folder}/wh/'}}]\n"
        f"tables: [{entries}]\ndefaults: {{{NO_WAIT}}}\n"
    )
    return load_lake(path, {})


def instant_text(at: datetime) -> str:
    """A time as Hudi names instants."""
    return f"{at:%Y%m%d%H%M%S}{at.microsecond // 1000:03}"


def stat(path: str, size: int = 100, rows: int = 10, **more: object) -> dict[str, object]:
    """What a commit says of one file."""
    return {"path": path, "fileSizeInBytes": size, "numWrites": rows, "prevCommit": "null", **more}


def commit(*stats: Mapping[str, object], replaced: Mapping[str, Sequence[str]] | None = None) -> str:
    """The content of a commit's file; `replaced` are file groups by partition."""
    by_partition: dict[str, list[Mapping[str, object]]] = {}
    for each in stats:
        by_partition.setdefault(str(each["path"]).rpartition("/")[0], []).append(each)
    more = {} if replaced is None else {"partitionToReplaceFileIds": replaced}
    return json.dumps({"partitionToWriteStats": by_partition, "operationType": "UPSERT", **more})


def laid(
    home: Path,
    instants: Mapping[str, str],
    *,
    layout: int = 1,
    properties: Mapping[str, str] = MappingProxyType({}),
) -> Path:
    """A timeline by hand: by the names of its files their content. Gives its folder.

    Times of the files are those in their names; `properties` are more of hoodie.properties, an empty one is none.
    """
    version = {1: "6", 2: "8"}[layout]
    said = {"hoodie.table.version": version, "hoodie.timeline.layout.version": str(layout), **properties}
    folder = home / ".hoodie"
    timeline = folder if layout == 1 else folder / "timeline"
    timeline.mkdir(parents=True, exist_ok=True)
    (folder / "hoodie.properties").write_text(
        "".join(f"{name}={value}\n" for name, value in said.items() if value)
    )
    for name, content in instants.items():
        path = timeline / name
        path.write_text(content)
        told = name.partition(".")[0].rpartition("_")[2]
        at = datetime.strptime(told[:14], "%Y%m%d%H%M%S").replace(tzinfo=UTC).timestamp()
        os.utime(path, (at, at))
    return timeline
