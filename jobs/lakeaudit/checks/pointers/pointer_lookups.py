"""Storage asked now about folders: whether anything lies there, and anything that readers see. One listing a folder."""

from collections.abc import Sequence
from functools import partial

import pyarrow as pa

from lakeaudit.evidence.protocol import Engine
from lakeaudit.evidence.storage.folder_look import Place, look_into
from lakeaudit.runtime import duck
from lakeaudit.runtime.aws import Clients

_LOOKED = pa.schema(
    [
        *[("bucket", pa.string()), ("key", pa.string()), ("looked", pa.string())],
        *[("anything", pa.bool_()), ("seen", pa.bool_()), ("with_bytes", pa.bool_())],
    ]
)


def looks(engine: Engine, clients: Clients, places: Sequence[Place]) -> pa.Table:
    """Rows (bucket, key, looked, anything, seen, with_bytes) of folders as they are now.

    `looked` is live, denied or error.
    """
    answers = engine.map(partial(look_into, clients), places)
    return duck.small(_LOOKED, [(*place, *answer) for place, answer in zip(places, answers, strict=True)])
