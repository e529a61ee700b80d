"""Read `redshift_unload`: the manifests of `UNLOAD ... MANIFEST [VERBOSE]`, an event manifest.

A manifest is one JSON object named `<prefix>manifest`, without a slash between: `entries` with `url` and
`meta.content_length`, and with VERBOSE `meta.record_count` too, with the totals in the object's own `meta` (r_UNLOAD in
the Redshift developer guide). Rows count header lines. An unload with ALLOWOVERWRITE replaces manifest and files.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lakeaudit.config import Table
from lakeaudit.evidence.files import File
from lakeaudit.evidence.manifest.file_list.read_lines import Fault, Row
from lakeaudit.evidence.manifest.records.find import InFolders
from lakeaudit.evidence.manifest.records.reader import RecordKind
from lakeaudit.evidence.manifest.records.record import (
    Content,
    Record,
    RecordSet,
    json_object,
    objects_of,
    text_of,
)
from lakeaudit.evidence.manifest.redshift_unload import RedshiftUnloadManifest
from lakeaudit.keys import END, Location

_NAME = re.compile(rf"manifest{END}")


def _places(table: Table) -> list[Location]:
    return [place for m in table.manifests if isinstance(m, RedshiftUnloadManifest) for place in m.places]


def _records_of(table: Table, there: Mapping[Location, Sequence[File]]) -> RecordSet:
    records: list[Record] = []
    for place, files in there.items():
        held = [file for file in files if _NAME.search(file.name)]
        if not held:
            return RecordSet(table, refused=f"{place.uri} holds no manifest of an UNLOAD", empty=place)
        records += [Record(file, table.location, table.name) for file in held]
    return RecordSet(table, tuple(records))


def _understand(record: Record, content: Content) -> Iterator[Row]:
    saved = json_object(content(record.file))
    entries = objects_of(saved, "entries")
    for what in ("content_length", "record_count"):
        _check(saved, entries, what)
    for entry in entries:
        meta = _meta(entry)
        yield {
            "path": text_of(entry, "url"),
            "size": meta.get("content_length"),
            "records": meta.get("record_count"),
        }


def _check(saved: Mapping[str, Any], entries: Sequence[Mapping[str, Any]], what: str) -> None:
    """Raise a fault if entries do not add up to the total: the manifest was cut, or written by another tool."""
    total = _meta(saved).get(what)
    parts = [part for entry in entries if isinstance(part := _meta(entry).get(what), int)]
    if isinstance(total, int) and len(parts) == len(entries) and sum(parts) != total:
        raise Fault(f"has a {what} of {total}, and its entries have {sum(parts)}")


def _meta(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    meta = entry.get("meta")
    return meta if isinstance(meta, dict) else {}


_IN_FOLDERS = InFolders(_places, _records_of)
REDSHIFT = RecordKind(
    "redshift_unload",
    RedshiftUnloadManifest,
    _IN_FOLDERS.find,
    _IN_FOLDERS.find_near,
    _understand,
    proves_loss=True,
)
