"""Storage asked now about folders: whether anything lies there, and anything that readers see. One listing a folder."""

import re
from collections.abc import Sequence
from functools import partial
from itertools import islice

import pyarrow as pa

from lakeaudit import keys
from lakeaudit.errors import SourceError
from lakeaudit.evidence.files import list_files
from lakeaudit.evidence.protocol import Engine
from lakeaudit.keys import Location
from lakeaudit.runtime import duck
from lakeaudit.runtime.aws import Clients

MOST_NAMES = 5_000
"""Of a folder so many names are looked at: where readers see none of them and there are more, nobody can tell."""

_LOOKED = pa.schema(
    [
        *[("bucket", pa.string()), ("key", pa.string()), ("looked", pa.string())],
        *[("anything", pa.bool_()), ("seen", pa.bool_())],
    ]
)
Place = tuple[str, str]
Answer = tuple[str, bool | None, bool | None]


def looks(engine: Engine, clients: Clients, places: Sequence[Place]) -> pa.Table:
    """Rows (bucket, key, looked, anything, seen) of folders as they are now; `looked` is live, denied or error."""
    answers = engine.map(partial(_look, clients), places)
    return duck.small(_LOOKED, [(*place, *answer) for place, answer in zip(places, answers, strict=True)])


def _look(clients: Clients, place: Place) -> Answer:
    folder = Location(place[0], place[1].rstrip("/"))
    any_name, names = False, 0
    try:
        for file in islice(list_files(clients, folder), MOST_NAMES):
            any_name, names = True, names + 1
            if re.search(keys.UNSEEN, file.place.key[len(folder.prefix) :]) is None:
                return "live", True, True
    except SourceError as error:
        return ("denied" if "denied" in error.what else "error"), None, None
    return ("error", None, None) if names == MOST_NAMES else ("live", any_name, False)
