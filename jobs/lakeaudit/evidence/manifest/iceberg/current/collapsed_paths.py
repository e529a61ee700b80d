"""Handle paths with empty parts: Hadoop's file systems write `wh//db/t` to the key `wh/db/t`, others to `wh//db/t`.

The metadata names files by the location as it was configured, whichever client wrote them. A table's files are read and
judged under the form under which its metadata.json lies.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from lakeaudit.evidence.files import File, ensure_bucket, stat
from lakeaudit.evidence.manifest.iceberg.current.located_metadata import LocatedMetadata
from lakeaudit.evidence.manifest.iceberg.state.lists import place_of
from lakeaudit.keys import Aliases, Location, collapsed
from lakeaudit.runtime.connections.aws import Clients


def forms(place: Location) -> tuple[Location, ...]:
    """Return the place as written, and as Hadoop writes it if that differs; a local disk has only the second form."""
    by_hadoop = Location(place.bucket, collapsed(place.key))
    return (by_hadoop,) if place.is_local else tuple(dict.fromkeys([place, by_hadoop]))


def stat_any(clients: Clients, place: Location) -> File | None:
    """Return the file under the form of its name that exists; None if neither exists.

    Raises:
        SourceError: storage refuses, or has no such bucket.
    """
    file = next((file for form in forms(place) if (file := stat(clients, form)) is not None), None)
    if file is None:
        ensure_bucket(clients, place)
    return file


def with_collapsed_names(clients: Clients, found: Sequence[LocatedMetadata]) -> Clients:
    """Return clients with aliases for files that Hadoop wrote below one slash while their metadata names two."""
    more = [alias for each in found for alias in _aliases(each, clients.names)]
    if not more:
        return clients
    known = sorted({*clients.aliases, *more}, key=lambda pair: (-len(pair[0].key), pair))
    return replace(clients, aliases=tuple(known))


def _aliases(found: LocatedMetadata, names: Aliases) -> Iterator[tuple[Location, Location]]:
    if found.file is None or found.metadata is None:
        return
    for written in (found.metadata.location, found.table.location.uri):
        raw = place_of(written, names)
        if raw is None or "//" not in raw.key:
            continue
        raw = Location(raw.bucket, raw.key.rstrip("/"))
        one_slash = forms(raw)[-1]
        at = found.file.place
        if one_slash != raw and one_slash.contains(at) and not raw.contains(at):
            yield raw, one_slash
