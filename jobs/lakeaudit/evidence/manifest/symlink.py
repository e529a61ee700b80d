"""`symlink`: manifests for readers by `SymlinkTextInputFormat` (Presto, Athena, Hive), a state manifest.

A file `_symlink_format_manifest/[partition/]manifest` for each partition, a data file's raw path a line. What such
readers see is what these list; Delta's `GENERATE symlink_format_manifest` writes them, and each is replaced by itself.
"""

from collections.abc import Iterator, Sequence

from lakeaudit.config import SymlinkManifest, Table
from lakeaudit.errors import SourceError
from lakeaudit.evidence.files import File
from lakeaudit.evidence.manifest.file_list.read_lines import Fault, Row
from lakeaudit.evidence.manifest.records.find import each, listed
from lakeaudit.evidence.manifest.records.reader import RecordKind
from lakeaudit.evidence.manifest.records.record import Content, Found, Record, Search
from lakeaudit.evidence.protocol import Context
from lakeaudit.runtime.aws import Clients

FOLDER = str(SymlinkManifest.folder)
LONGEST = 4096
"""Bytes of a line beyond which it is no path."""


def _find(tables: Sequence[Table], ctx: Context) -> Search:
    return Search(_found(tables, ctx.clients))


def _found(tables: Sequence[Table], clients: Clients) -> list[Found]:
    places = {table.location.join(FOLDER): table for table in tables}
    return [_of(places[place], files) for place, files in each(listed, clients, list(places)).items()]


def _of(table: Table, files: tuple[File, ...] | SourceError) -> Found:
    if isinstance(files, SourceError):
        return Found(table, refused=str(files))
    records = tuple(Record(file, table.location, table.name) for file in files if file.name == "manifest")
    missing = f"{table.location.join(FOLDER).uri} holds no file `manifest`"
    return Found(table, records, refused=None if records else missing)


def _find_near(table: Table, clients: Clients, _bucket: str, _key: str) -> Found:
    (found,) = _found([table], clients)
    return found


def _understand(record: Record, content: Content) -> Iterator[Row]:
    try:
        text = content(record.file).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise Fault("is no text") from None
    for line in text.split("\n"):
        path = line.rstrip("\r")
        if len(path) > LONGEST:
            raise Fault("has a line that is no path")
        if path:
            yield {"path": path}


SYMLINK = RecordKind("symlink", SymlinkManifest, _find, _find_near, _understand)
