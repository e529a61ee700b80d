"""Read `databricks_commits`: the marks of Databricks' transactional writes to plain tables (DBIO), an event manifest.

A transaction leaves in each folder that it wrote `_started_<id>`, empty, when it begins, and `_committed_<id>` when it
is committed, a JSON object with the names of the files it `added` and `removed` there. A removed file stays until a
vacuum: readers on Databricks skip it, others read it.
"""

from collections.abc import Iterator, Sequence

from lakeaudit.config import Table
from lakeaudit.evidence.files import list_files
from lakeaudit.evidence.manifest.databricks_commits import DatabricksCommitsManifest
from lakeaudit.evidence.manifest.file_list.read_lines import Fault, Row
from lakeaudit.evidence.manifest.records.find import stored
from lakeaudit.evidence.manifest.records.reader import RecordKind
from lakeaudit.evidence.manifest.records.record import (
    Content,
    Record,
    RecordSet,
    Search,
    json_object,
    texts_of,
)
from lakeaudit.evidence.protocol import Context
from lakeaudit.keys import END, Location, uri_of
from lakeaudit.runtime.connections.aws import Clients

_NAMES = rf"(^|/)_committed_[0-9]+{END}"
_BEGIN = "_committed_"


def _find(tables: Sequence[Table], ctx: Context) -> Search:
    files = stored(ctx, {table.location: table.name for table in tables}, _NAMES).files
    return Search(
        [
            RecordSet(
                table, tuple(Record(file, table.location, table.name) for file in files.get(table.name, ()))
            )
            for table in tables
        ]
    )


def _find_near(table: Table, clients: Clients, bucket: str, key: str) -> RecordSet:
    """Return the marks in the file's own folder: no others can name it."""
    folder = Location(bucket, key.rpartition("/")[0])
    if not table.location.holds(bucket, key):
        return RecordSet(table)
    files = [file for file in list_files(clients, folder, flat=True) if _is_mark(file.name)]
    return RecordSet(table, tuple(Record(file, table.location, table.name) for file in files))


def _is_mark(name: str) -> bool:
    return name.startswith(_BEGIN) and name.removeprefix(_BEGIN).isdecimal()


def _understand(record: Record, content: Content) -> Iterator[Row]:
    saved = json_object(content(record.file))
    folder = record.file.place.key.rpartition("/")[0]
    for field, action in (("added", "add"), ("removed", "remove")):
        for name in texts_of(saved, field) if field in saved or field == "added" else ():
            if "/" in name or not name:
                raise Fault(f"names {name[:200]!r}, which is not a file of its own folder")
            key = f"{folder}/{name}" if folder else name
            yield {
                "path": uri_of(record.home.bucket, key),
                "action": action,
                "job_id": record.file.name[len(_BEGIN) :],
            }


DATABRICKS = RecordKind(
    "databricks_commits", DatabricksCommitsManifest, _find, _find_near, _understand, by_storage=True
)
