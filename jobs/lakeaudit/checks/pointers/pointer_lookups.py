"""Look up in storage whether folders have objects now, and files that readers see. One listing per folder."""

from collections.abc import Sequence
from functools import partial

import pyarrow as pa

from lakeaudit.evidence.protocol import Engine
from lakeaudit.evidence.storage.folder_look import Place, look_into
from lakeaudit.runtime import duck
from lakeaudit.runtime.connections.aws import Clients

_FOLDERS = pa.schema(
    [
        *[("bucket", pa.string()), ("key", pa.string()), ("looked", pa.string())],
        *[("anything", pa.bool_()), ("seen", pa.bool_()), ("with_bytes", pa.bool_())],
    ]
)


def look_up(engine: Engine, clients: Clients, places: Sequence[Place]) -> pa.Table:
    """Return rows (bucket, key, looked, anything, seen, with_bytes) of the current folders.

    `looked` is live, denied or error.
    """
    answers = engine.map(partial(look_into, clients), places)
    return duck.small(_FOLDERS, [(*place, *answer) for place, answer in zip(places, answers, strict=True)])
