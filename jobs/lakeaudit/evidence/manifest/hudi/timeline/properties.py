"""Parse hoodie.properties: the version of a table, and the place of its timeline. Pure.

Format: `HoodieTableConfig` and `HoodieTableVersion` of Apache Hudi, in the syntax of Java's properties.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

VERSIONS = {**dict.fromkeys(range(1, 7), 1), 8: 2, 9: 2}
"""The layout of the timeline by table version; 7 only occurs between two steps of an upgrade."""
LARGEST = 1 << 24
_FOLDER = re.compile(r"[\w-][\w.-]*(/[\w-][\w.-]*)*")
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


class NotReadable(Exception):
    """The table cannot be read; the text says why."""


@dataclass(frozen=True)
class TableConfig:
    """Holds the settings that a table is read with.

    Attributes:
        layout: 1 or 2, of the timeline.
        timeline: the folder of the active timeline below `.hoodie`; empty: `.hoodie` itself.
        archive: the folder of the archived one below `.hoodie`.
        utc: the times in names are UTC; else they are in an unknown time zone.
        encoded: values in partitions' folders are percent-encoded.
        indexed: writers keep a metadata table, Hudi's own index of files.
        name: of the table, as its writers call it.
    """

    layout: int
    timeline: str
    archive: str
    utc: bool = False
    encoded: bool = False
    indexed: bool = False
    name: str = ""


def parse_properties(content: bytes) -> TableConfig:
    """Parse the file.

    Raises:
        NotReadable: this table cannot be read, or not yet.
    """
    if len(content) > LARGEST:
        raise NotReadable(f"hoodie.properties has {len(content)} bytes, which none has")
    values = properties(content.decode("utf-8", "replace"))
    layout = _layout(values)
    if values.get("hoodie.bootstrap.base.path"):
        raise NotReadable("it was bootstrapped from files elsewhere, which is not read yet")
    timeline = _folder(values, "hoodie.timeline.path", "timeline") if layout == 2 else ""
    archive = (
        f"{timeline}/{_folder(values, 'hoodie.timeline.history.path', 'history')}"
        if layout == 2
        else _folder(values, "hoodie.archivelog.folder", "archived")
    )
    zone = values.get("hoodie.table.timeline.timezone", "local").lower()
    encoded = values.get("hoodie.datasource.write.partitionpath.urlencode", "false").lower() == "true"
    indexed = bool(values.get("hoodie.table.metadata.partitions"))
    name = values.get("hoodie.table.name", "")
    return TableConfig(layout, timeline, archive, zone == "utc", encoded, indexed, name)


def is_of_hudi(content: bytes | None) -> bool:
    """Return whether the content has a property of Hudi, so that it is not another or damaged file."""
    return any(
        name.startswith("hoodie.")
        for name in properties((content or b"")[:LARGEST].decode("utf-8", "replace"))
    )


def _layout(values: Mapping[str, str]) -> int:
    version = values.get("hoodie.table.version", "")
    if not version:
        raise NotReadable("its hoodie.properties names no table version")
    known = VERSIONS.get(int(version)) if version.isdecimal() and len(version) < 6 else None
    if known is None:
        raise NotReadable(f"its table version {version[:20]} is not known; 1 to 6, 8 and 9 are")
    layout = values.get("hoodie.timeline.layout.version", str(known))
    if layout != str(known):
        raise NotReadable(f"timeline layout {layout[:20]} is not known of tables of version {version}")
    return known


def _folder(values: Mapping[str, str], name: str, default: str) -> str:
    folder = values.get(name) or default
    if not _FOLDER.fullmatch(folder):
        raise NotReadable(f"its {name} is not a folder's name: {folder[:80]!r}")
    return folder


def properties(text: str) -> dict[str, str]:
    """Return the values of a properties file by their names."""
    found: dict[str, str] = {}
    for line in re.sub(r"(?<!\\)((?:\\\\)*)\\\r?\n[ \t\f]*", r"\1", text).splitlines():
        entry = line.strip(" \t\f")
        if entry and entry[0] not in "#!":
            split = re.match(r"((?:\\.|[^\\:=\s])*)[ \t\f]*[:=]?[ \t\f]*(.*)", entry, re.DOTALL)
            if split is not None:
                found[_plain(split[1])] = _plain(split[2])
    return found


def _plain(text: str) -> str:
    return re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[1]), text)
