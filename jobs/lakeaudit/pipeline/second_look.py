"""Second looks at what weakly consistent stores say is absent: a 404 of theirs may be an old answer."""

from collections.abc import Callable

import pyarrow as pa

APART = 60.0
"""Seconds between the two looks."""

Look = Callable[[pa.Table], pa.Table]
"""ASKED rows -> LIVE rows, in their order."""


def look_twice(
    keys: pa.Table, look: Look, is_weak: Callable[[str], bool], pause: Callable[[float], None]
) -> pa.Table:
    """LIVE rows of ASKED rows; what a weak bucket lacks is looked at once more, and the later answer holds."""
    answers = look(keys)
    buckets, presence = (answers.column(name).to_pylist() for name in ("bucket", "l_presence"))
    doubtful = [at for at, said in enumerate(presence) if said == "absent" and is_weak(buckets[at])]
    if not doubtful:
        return answers
    pause(APART)
    later = dict(zip(doubtful, look(keys.take(doubtful)).to_pylist(), strict=True))
    rows = [later.get(at, row) for at, row in enumerate(answers.to_pylist())]
    return pa.Table.from_pylist(rows, schema=answers.schema)
