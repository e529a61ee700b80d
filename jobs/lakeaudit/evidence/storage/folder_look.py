"""Storage asked now about one folder: whether anything lies there, and anything that readers see.

One listing, and one HEAD of the object of that name if the folder is empty.
"""

import re
from itertools import islice

from lakeaudit import keys
from lakeaudit.errors import SourceError
from lakeaudit.evidence.files import list_files, stat
from lakeaudit.keys import Location
from lakeaudit.runtime.connections.aws import Clients

MOST_NAMES = 5_000
"""The most names of a folder that are checked: if readers see none of these and there are more, it is not known."""

Place = tuple[str, str]
Answer = tuple[str, bool | None, bool | None, bool | None]
"""(live, denied or error; whether anything is there; whether readers see any of it; whether that has any bytes)."""


def look_into(clients: Clients, place: Place) -> Answer:
    """What is there now at (bucket, key of a folder), or at the object of that name."""
    folder = Location(place[0], place[1].removesuffix("/"))
    any_name, seen, names = False, False, 0
    try:
        for file in islice(list_files(clients, folder), MOST_NAMES):
            any_name, names = True, names + 1
            if re.search(keys.UNSEEN, file.place.key[len(folder.prefix) :]) is None:
                seen = True
                if file.size:
                    return "live", True, True, True
        if not names and folder.key and (single := stat(clients, folder)) is not None:
            return "live", True, True, bool(single.size)
    except SourceError as error:
        return ("denied" if "denied" in error.what else "error"), None, None, None
    if names == MOST_NAMES:
        return ("live", True, True, True) if seen else ("error", None, None, None)
    return "live", any_name, seen, False
