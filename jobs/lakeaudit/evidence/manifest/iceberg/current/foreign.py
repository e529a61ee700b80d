"""Find metadata of another table: a metadata.json outside the table's location that names another location.

A catalog that points at it (a typing error in `register_table`, two exchanged pointers) gives readers another table.
A copy that was registered lies in the table's own location, metadata in a separate place (`write.metadata.path`)
names the table's location, and a table that was moved (SET LOCATION) still has its id.
"""

from lakeaudit.config import Table
from lakeaudit.errors import one_line
from lakeaudit.evidence.lineage import (
    CATALOG,
    FOREIGN_STATE,
    LAST_AUDIT,
    METADATA,
    LastState,
    Witness,
)
from lakeaudit.evidence.manifest.iceberg.current.collapsed_paths import forms
from lakeaudit.evidence.manifest.iceberg.current.located_metadata import LocatedMetadata
from lakeaudit.evidence.manifest.iceberg.state.lists import place_of
from lakeaudit.evidence.manifest.iceberg.state.metadata import Metadata
from lakeaudit.keys import Location
from lakeaudit.runtime.connections.aws import Clients

_SHOWN = 200
"""Most characters of a location that the metadata names."""


def is_home(metadata: Metadata, table: Table, clients: Clients) -> bool:
    """Return whether the metadata names the table's own folder; a copy of another table names another folder."""
    named = _home(metadata, clients)
    return named is not None and not set(forms(named)).isdisjoint(forms(table.location))


def foreign_state(found: LocatedMetadata, last: LastState | None, clients: Clients) -> Witness | None:
    """Return a witness of another table's state; a catalog's pointer and an earlier audit's table id prove it.

    Args:
        found: the state that was read.
        last: the last state that an audit read under the table's name.
        clients: to resolve the location that the metadata names.
    """
    file, metadata, table = found.file, found.metadata, found.table
    location = table.location.uri
    if file is None or metadata is None or not _is_outside(found, metadata, clients):
        return None
    other = last is not None and last.is_of_another(location, metadata.uuid)
    if last is not None and not other and last.is_of(location, metadata.uuid):
        return None
    by = f"{found.called} points at" if found.called else "the lake file names"
    words = (
        f"{by} {file.place.uri}, but this metadata belongs to the table at {one_line(metadata.location, _SHOWN)}"
        f"{f' (id {metadata.uuid})' if metadata.uuid else ''}"
    )
    if last is None or not other:
        words += f", while the lake file has {table.name} at {location}: correct one of the two"
        return Witness(table.name, FOREIGN_STATE, (METADATA,), file.place.uri, words)
    words += f"; {last.description(location)} at {last.state.name} with the id {last.state.table_id}"
    evidence = (CATALOG, LAST_AUDIT) if found.called else (METADATA,)
    return Witness(table.name, FOREIGN_STATE, evidence, file.place.uri, words)


def _is_outside(found: LocatedMetadata, metadata: Metadata, clients: Clients) -> bool:
    """Return whether the file and the location that it names are both elsewhere, and not in the lake file."""
    named = _home(metadata, clients)
    if found.file is None or named is None:
        return False
    homes = forms(found.table.location)
    if any(home.contains(found.file.place) for home in homes):
        return False
    return not any(home.contains(form) or form.contains(home) for home in homes for form in forms(named))


def _home(metadata: Metadata, clients: Clients) -> Location | None:
    """Return the folder that the metadata names as its table's; None if its store is not known."""
    place = place_of(metadata.location, clients.names)
    return None if place is None else Location(place.bucket, place.key.rstrip("/"))
