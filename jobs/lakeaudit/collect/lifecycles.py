"""Reads lifecycle rules of buckets: once per bucket, and only if a check needs them."""

from collections.abc import Collection, Iterator, Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from lakeaudit.evidence.storage.lifecycle import Lifecycle, read_lifecycle
from lakeaudit.findings import restorable_until
from lakeaudit.runtime import duck
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.duck import Connection, Relation, Rows
from lakeaudit.runtime.threads import beside
from lakeaudit.schemas import VERSION_RULES

OF_THE_PAST = "rules are not read in an audit of a past time"


class Lifecycles:
    """Reads the lifecycle of each bucket at its first use; with `live` false no lifecycle is read."""

    def __init__(self, clients: Clients, *, live: bool = True) -> None:
        self._clients, self._live = clients, live
        self._read: dict[str, Lifecycle] = {}

    def of(self, buckets: Collection[str]) -> list[Lifecycle]:
        """Return the lifecycles of these buckets, sorted by name: one request for each new bucket."""
        new = sorted({*buckets} - self._read.keys())
        if not self._live:
            self._read |= {bucket: Lifecycle(bucket, unread=OF_THE_PAST) for bucket in new}
        elif new:
            with beside(8) as pool:
                self._read |= dict(
                    zip(new, pool.map(partial(read_lifecycle, self._clients), new), strict=True)
                )
        return [self._read[bucket] for bucket in sorted({*buckets})]


def unread_of(lifecycle: Lifecycle) -> str:
    """Return the message for rules that cannot be read."""
    return f"the lifecycle of s3://{lifecycle.bucket} cannot be read: {lifecycle.unread}"


def with_ends(con: Connection, rows: Rows, lifecycles: Lifecycles) -> tuple[Relation, Sequence[str]]:
    """Add to verdict rows until when the restorable version is retained; also return doubts about rules.

    Without such a version no rules are read.
    """
    versions = duck.hold_any(con, restorable_until.restorable_versions(con, rows))
    ended, doubts = ends(con, versions, lifecycles)
    return restorable_until.with_ends(con, rows, ended), doubts


def ends(con: Connection, versions: Rows, lifecycles: Lifecycles) -> tuple[Relation, list[str]]:
    """Return the ends of these versions, see `restorable_until.ends`, and doubts about rules."""
    rules = version_rules(lifecycles.of(restorable_until.buckets_of(con, versions)))
    ended = duck.hold_any(con, restorable_until.ends(con, versions, rules))
    return ended, [doubt for doubt in restorable_until.doubts(con, ended) if OF_THE_PAST not in doubt]


def version_rules(lifecycles: Sequence[Lifecycle]) -> pa.Table:
    """Return VERSION_RULES of these lifecycles."""
    return duck.small(VERSION_RULES, [row for each in lifecycles for row in _rules(each)])


def _rules(lifecycle: Lifecycle) -> Iterator[tuple[Any, ...]]:
    if lifecycle.unread:
        yield (lifecycle.bucket, *[None] * 7, unread_of(lifecycle))
    for each in lifecycle.older:
        yield (lifecycle.bucket, each.below.key, each.rule, each.days, each.newer, each.larger_than,
               each.smaller_than, each.tags, None)  # fmt: skip
