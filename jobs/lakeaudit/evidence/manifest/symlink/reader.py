"""Read `symlink`: manifests for readers by `SymlinkTextInputFormat` (Presto, Athena, Hive), a state manifest.

A file `_symlink_format_manifest/[partition/]manifest` for each partition has a data file's raw path in each line. Such
readers read the listed files; Delta's `GENERATE symlink_format_manifest` writes these manifests, and replaces each on
its own.
"""

from collections.abc import Iterator, Mapping, Sequence

from lakeaudit.config import Table
from lakeaudit.evidence.files import File
from lakeaudit.evidence.manifest.file_list.read_lines import Fault, Row
from lakeaudit.evidence.manifest.records.find import InFolders
from lakeaudit.evidence.manifest.records.reader import RecordKind
from lakeaudit.evidence.manifest.records.record import Content, Record, RecordSet
from lakeaudit.evidence.manifest.symlink import SymlinkManifest
from lakeaudit.keys import Location

FOLDER = str(SymlinkManifest.folder)
LONGEST = 4096
"""Most bytes of a line; a longer one is not a path."""


def _places(table: Table) -> list[Location]:
    return [table.location.join(FOLDER)]


def _records_of(table: Table, there: Mapping[Location, Sequence[File]]) -> RecordSet:
    ((place, files),) = there.items()
    records = tuple(Record(file, table.location, table.name) for file in files if file.name == "manifest")
    missing = f"{place.uri} holds no file `manifest`"
    return RecordSet(table, records, refused=None if records else missing)


def _understand(record: Record, content: Content) -> Iterator[Row]:
    try:
        text = content(record.file).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise Fault("is not text") from None
    if text and not text.strip():
        raise Fault("has only blanks")
    for line in text.split("\n"):
        path = line.rstrip("\r")
        if len(path) > LONGEST:
            raise Fault("has a line that is not a path")
        if path:
            yield {"path": path}


_IN_FOLDERS = InFolders(_places, _records_of)
SYMLINK = RecordKind("symlink", SymlinkManifest, _IN_FOLDERS.find, _IN_FOLDERS.find_near, _understand)
