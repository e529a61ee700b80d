"""Find the objects of a long list that are live without a doubt, by hashes: no text of a key is compared.

A line is cleared if exactly one plain claim of all tables has the hash of its key: the newest state of that table lists
the file below its own location (`Claims.traces`). All other lines are compared by their text, so that a hash never
makes a file free. Two keys may have the same hash of 64 bits: then a file that is free can be called live. For n lines
and m live files the expected number of such files is n * m / 2^64: 0.000005 for 10 million each.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa

from lakeaudit.collect.claim_lookups import parts_of
from lakeaudit.engine.chunks import FINGERPRINTS
from lakeaudit.engine.local import AuditEngine
from lakeaudit.evidence.protocol import Batches, Part
from lakeaudit.guard.long_lists import Hashes, is_among
from lakeaudit.guard.manifests import Manifests
from lakeaudit.matching.prefilter import is_keyed
from lakeaudit.runtime import duck
from lakeaudit.runtime.duck import Connection, Relation, Rows

CLEARED, LISTED_HASHES = "cleared hashes", "listed_hashes"
HASHES_A_PART = 1_000_000
_CATEGORIES = ("data", "deletes", "changes", "log")
"""The categories of files that are live, see the rule `live`."""
Traces = Mapping[str, tuple[Callable[[Connection, Rows], Relation], tuple[str, ...]]]
"""By kind of row the function that makes claims of single rows, and the tables whose files these claims decide."""


@dataclass(frozen=True)
class Cleared:
    """The hashes of listed objects that are live (`live`, sorted), and how many other listed hashes some claim has."""

    live: Hashes
    others: int


def cleared_hashes(engine: AuditEngine, manifests: Manifests, hashes: Hashes) -> Cleared:
    """Return which of these sorted, distinct hashes are of live files; few columns of the tables are read."""
    traces = {
        kind: (trace, tuple(manifests.decided_by(claims)))
        for claims in manifests.claims
        for kind, trace in claims.traces.items()
    }
    parts = [part for claims in manifests.claims for part in parts_of(claims, claims.states.keys())]
    reading = replace(FINGERPRINTS, project=partial(_narrow, traces))
    answers = engine.run([*parts, *_parts(hashes)], [_cleared], reading)
    batches = [batch for kind, batch in answers if kind == CLEARED]
    live = np.concatenate([hashes[:0], *(batch.filter(batch["live"])["h"].to_numpy() for batch in batches)])
    live.sort()
    return Cleared(live, sum(batch.num_rows for batch in batches) - len(live))


def _parts(hashes: Hashes) -> Iterator[Part]:
    for start in range(0, len(hashes), HASHES_A_PART):
        few = pa.table({"h": hashes[start : start + HASHES_A_PART]})
        yield Part("list", partial(_read, few), few.nbytes)


def _read(rows: pa.Table, con: Connection) -> Batches:  # noqa: ARG001 - readers of parts receive a connection
    yield LISTED_HASHES, rows


def _narrow(traces: Traces, con: Connection, kind: str, rows: Rows) -> Iterator[tuple[str, Rows]]:
    """Yield the hash of each row about one key, and whether it is a plain claim of a live file."""
    if kind == LISTED_HASHES:
        yield kind, rows
    elif kind in traces:
        trace, tables = traces[kind]
        live = f"plain AND category IN ({duck.literals(_CATEGORIES)})"
        sql = f"""SELECT hash(bucket, key) AS h, coalesce({live}, false) AS plain FROM input
            WHERE table_name IN ({duck.literals(tables)})"""
        yield "traces", duck.query(con, sql, input=trace(con, rows))
    elif is_keyed(kind):
        yield (
            "traces",
            duck.query(con, "SELECT hash(bucket, key) AS h, false AS plain FROM input", input=rows),
        )


def _cleared(con: Connection, rows: Mapping[str, Rows]) -> Iterator[tuple[str, Rows]]:
    """Return the listed hashes of a share that claims have: h, and whether exactly one claim has it, which is plain."""
    if not {LISTED_HASHES, "traces"} <= rows.keys():
        return
    traces = duck.table(duck.relation(con, rows["traces"]))
    hashes, plain = (np.asarray(traces[name]) for name in ("h", "plain"))
    claimed = np.sort(hashes[plain])
    several = claimed[1:][claimed[1:] == claimed[:-1]]
    doubtful = np.unique(np.concatenate([several, hashes[~plain]]))
    listed = np.sort(np.asarray(duck.table(duck.relation(con, rows[LISTED_HASHES]))["h"]))
    uncertain = is_among(listed, doubtful)
    live = is_among(listed, claimed) & ~uncertain
    met = live | uncertain
    yield CLEARED, pa.table({"h": listed[met], "live": live[met]})
