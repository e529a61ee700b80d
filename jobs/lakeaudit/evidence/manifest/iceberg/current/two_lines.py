"""Find two catalogs that each commit to one table: two lines of metadata, of which neither includes the other."""

from collections.abc import Iterator
from itertools import islice

from lakeaudit.errors import SourceError
from lakeaudit.evidence.manifest.iceberg.current.lines import logged_names, oldest_logged
from lakeaudit.evidence.manifest.iceberg.state.metadata import Metadata, number_of
from lakeaudit.evidence.manifest.iceberg.witnesses.lost_states import added_files
from lakeaudit.keys import Location
from lakeaudit.runtime.connections.aws import Clients

Line = tuple[str, Location, Metadata]
"""The catalog's kind and name, and the file at which it points."""
MOST_SNAPSHOTS = 5
"""Most snapshots of one line whose files are looked up."""
SAMPLES = 3


def words_of_two_lines(one: Line, other: Line, clients: Clients) -> str:
    """Describe both lines, and files that only one of them lists; empty if one may descend from the other.

    A log that is cut off does not show older files.
    """
    if one[1] == other[1] or not one[2].uuid or one[2].uuid != other[2].uuid:
        return ""
    if not (_lacks(one, other) and _lacks(other, one)):
        return ""
    parts = [f"{called} points at {place.uri}{_alone(metadata, than, clients)}"
             for (called, place, metadata), than in ((one, other[2]), (other, one[2]))]  # fmt: skip
    return f"{'; '.join(parts)}; neither reaches back through the other"


def _lacks(line: Line, other: Line) -> bool:
    oldest, number = oldest_logged(line[2]), number_of(_name(other[1]))
    own = number_of(_name(line[1]))
    if number is None or own is None or _name(other[1]) in logged_names(line[2]):
        return False
    return number > own or (oldest is not None and number >= oldest)


def _alone(metadata: Metadata, other: Metadata, clients: Clients) -> str:
    """Name files of snapshots that the other line lacks."""
    try:
        names = sorted(set(islice(_added_names(metadata, other, clients), SAMPLES * MOST_SNAPSHOTS)))[
            :SAMPLES
        ]
    except SourceError:
        return ""
    return f", which alone lists {', '.join(names)}" if names else ""


def _added_names(metadata: Metadata, other: Metadata, clients: Clients) -> Iterator[str]:
    known = {snapshot.id for snapshot in other.snapshots}
    others = [each for each in metadata.snapshots if each.id not in known]
    for snapshot in others[-MOST_SNAPSHOTS:]:
        yield from added_files(metadata, snapshot, clients)


def _name(place: Location) -> str:
    return place.key.rpartition("/")[2]
