"""Find lifecycle rules that remove quarantined or hidden files before the end of `keep`."""

from collections.abc import Collection, Iterator
from datetime import timedelta

from lakeaudit.config import Lake, Quarantine
from lakeaudit.evidence.storage.lifecycle import DELETES, Lifecycle, read_lifecycle
from lakeaudit.formatting import number
from lakeaudit.keys import Location
from lakeaudit.runtime.connections.aws import Clients


def early_ends(lake: Lake, clients: Clients, *, copied: bool, hidden_in: Collection[str]) -> Iterator[str]:
    """Yield warnings for a plan that copies into the quarantine, and for buckets in which it hides files."""
    if lake.quarantine is None:
        return
    if copied:
        yield from _of_copies(lake.quarantine, read_lifecycle(clients, lake.quarantine.location.bucket))
    for bucket in sorted(hidden_in):
        places = [table.location for table in lake.tables if table.location.bucket == bucket]
        yield from _of_versions(lake.quarantine.keep, places, read_lifecycle(clients, bucket))


def _of_copies(quarantine: Quarantine, lifecycle: Lifecycle) -> Iterator[str]:
    yield from _unread(lifecycle)
    for rule in lifecycle.actions:
        early = rule.days is None or timedelta(days=rule.days) < quarantine.keep
        if rule.does == DELETES and early and rule.meets(quarantine.location):
            early_rule = f"rule {rule.rule} removes files from the quarantine {rule.when}"
            yield f"{early_rule}, before the end of keep ({number(quarantine.keep.days, 'day')}): no undo after that"


def _of_versions(keep: timedelta, places: Collection[Location], lifecycle: Lifecycle) -> Iterator[str]:
    yield from _unread(lifecycle)
    for rule in lifecycle.older:
        lies_about = any(
            each.key.startswith(rule.below.key) or rule.below.key.startswith(each.key) for each in places
        )
        if timedelta(days=rule.days) < keep and lies_about:
            after = f"after {number(rule.days, 'day')}, before the end of keep ({number(keep.days, 'day')})"
            early_rule = f"rule {rule.rule} of s3://{lifecycle.bucket} removes older versions"
            yield f"{early_rule} {after}: no undo after that"


def _unread(lifecycle: Lifecycle) -> Iterator[str]:
    if lifecycle.unread:
        yield f"the lifecycle of s3://{lifecycle.bucket} cannot be read ({lifecycle.unread}): it may remove files early"
