"""Find the table that contains an object, and whether the object is a part of the table's log or metadata. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from lakeaudit.config import Table
from lakeaudit.evidence.references import Key
from lakeaudit.evidence.registry import list_folders, roots
from lakeaudit.keys import Location


@dataclass(frozen=True)
class TablePlaces:
    """The locations of tables, and the folders of their logs and metadata, with the names of the tables."""

    homes: Mapping[Location, str]
    logs: Mapping[Location, str]

    @classmethod
    def of(cls, tables: Sequence[Table]) -> "TablePlaces":
        """Return the places of these tables."""
        logs = {
            table.location.join(folder): table.name
            for table in tables
            for manifest in table.manifests
            if (folder := _folder(manifest.kind))
        }
        return cls({table.location: table.name for table in tables}, logs)

    def around(self, key: Key) -> str | None:
        """Return the table whose location contains the object; the innermost of several."""
        return next((self.homes[each] for each in _folders(key) if each in self.homes), None)

    def log_around(self, key: Key) -> str | None:
        """Return the table of whose log or metadata the object is a part."""
        return next((self.logs[each] for each in _folders(key) if each in self.logs), None)


def _folder(kind: str) -> str:
    if kind in list_folders():
        return list_folders()[kind]
    return roots()[kind].folder if kind in roots() else ""


def _folders(key: Key) -> Iterator[Location]:
    """Yield the folders around an object, the innermost first."""
    bucket, path = key
    while path:
        path = path.rpartition("/")[0]
        yield Location(bucket, path)
