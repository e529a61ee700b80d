"""Tables that Hudi's bundle for Spark wrote (tests/data/hudi), and timelines by hand; how their lake is audited."""

import os
import zipfile
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType

from lakeaudit.config import Lake, load_lake
from lakeaudit.demo.hudi_files import commit, instant_text, stat, timeline, timeline_files

__all__ = [
    "LAYOUTS",
    "NO_WAIT",
    "PACKED",
    "commit",
    "instant_text",
    "lake_of",
    "names_of",
    "stat",
    "unpacked",
    "write_timeline",
]

PACKED = Path(__file__).parents[1] / "data" / "hudi"
LAYOUTS = {1: "of_0_15.zip", 2: "of_1_0.zip"}
"""By layout of the timeline what has its tables."""
NO_WAIT = "grace: 0s, leftover_age: 0s, max_upload: 0s, min_duplicate_size: 1MiB"


def names_of(layout: int) -> list[str]:
    """Return the names of all tables."""
    with zipfile.ZipFile(PACKED / LAYOUTS[layout]) as packed:
        return sorted({info.filename.split("/")[0] for info in packed.infolist()})


def unpacked(folder: Path, layout: int, names: Sequence[str] = ()) -> Path:
    """Unpack the named tables (default: all) into `folder/wh` with the original times of their files."""
    with zipfile.ZipFile(PACKED / LAYOUTS[layout]) as packed:
        for info in packed.infolist():
            if not names or info.filename.split("/")[0] in names:
                path = folder / "wh" / info.filename
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(packed.read(info))
                at = datetime.fromisoformat(info.comment.decode()).timestamp()
                os.utime(path, (at, at))
    return folder / "wh"


def lake_of(
    folder: Path,
    names: Sequence[str],
    *,
    tables: Sequence[str] = (),
    inventories: Sequence[str] = (),
    extra: str = "",
) -> Lake:
    """Write and load a lake file of the named tables, and of entries for tables and storage snapshots elsewhere."""
    local = [
        f"{{name: {name}, location: '{folder}/wh/{name}', manifests: [{{kind: hudi}}]}}" for name in names
    ]
    entries = ", ".join([*local, *tables])
    listed = ", ".join([f"{{kind: listing, location: '{folder}/wh/'}}", *inventories])
    path = folder / "lake.yaml"
    path.write_text(
        f"version: 1\nlake: hudi\nresults: {folder / 'results'}\n"
        f"inventories: [{listed}]\n"
        f"tables: [{entries}]\ndefaults: {{{NO_WAIT}}}\n{extra}"
    )
    return load_lake(path, {})


def write_timeline(
    home: Path,
    instants: Mapping[str, str],
    *,
    layout: int = 1,
    properties: Mapping[str, str] = MappingProxyType({}),
) -> Path:
    """Write a timeline, given the content of its files by name; return its folder.

    The files get the time in their names. `properties` are added to hoodie.properties; an empty value removes one.
    """
    (home / timeline(layout)).mkdir(parents=True, exist_ok=True)
    for name, content in timeline_files(instants, layout=layout, properties=properties).items():
        path = home / name
        path.write_text(content)
        if path.name in instants:
            instant = path.name.partition(".")[0].rpartition("_")[2]
            at = datetime.strptime(instant[:14], "%Y%m%d%H%M%S").replace(tzinfo=UTC).timestamp()
            os.utime(path, (at, at))
    return home / timeline(layout)
