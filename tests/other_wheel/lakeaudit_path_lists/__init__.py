"""`path_list`: a text file that names the files of a table, a path and a size in each line, as a manifest."""

from typing import Literal

from lakeaudit.config import ManifestSource
from lakeaudit.config.field_types import Flag, Place
from lakeaudit.evidence.kind import ManifestKind, deferred
from lakeaudit.keys import Location


class PathList(ManifestSource):
    """What the lake file says of the list: its place."""

    is_state = True

    kind: Literal["path_list"]
    location: Place
    complete: Flag = True

    @property
    def places(self) -> tuple[Location, ...]:
        return (self.location,)


KIND = ManifestKind(
    name="path_list",
    title="lists of paths",
    model=PathList,
    read=deferred("lakeaudit_path_lists.reader:read"),
    changes=deferred("lakeaudit_path_lists.reader:changes"),
    look_up=deferred("lakeaudit_path_lists.reader:look_up"),
)
