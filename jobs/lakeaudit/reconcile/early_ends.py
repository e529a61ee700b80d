"""Lifecycle rules that remove what lies in the quarantine, or is hidden, before `keep` is over."""

from collections.abc import Collection, Iterator
from datetime import timedelta

from lakeaudit.config import Lake, Quarantine
from lakeaudit.evidence.storage.lifecycle import DELETES, Lifecycle, read_lifecycle
from lakeaudit.formatting import number
from lakeaudit.keys import Location
from lakeaudit.runtime.aws import Clients


def early_ends(lake: Lake, clients: Clients, *, copied: bool, hidden_in: Collection[str]) -> Iterator[str]:
    """What to warn of where a plan copies into the quarantine, and where it hides files in these buckets."""
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
            told = f"rule {rule.rule} removes what lies in the quarantine {rule.when}"
            yield f"{told}, before keep ({number(quarantine.keep.days, 'day')}) is over: there is no undo then"


def _of_versions(keep: timedelta, places: Collection[Location], lifecycle: Lifecycle) -> Iterator[str]:
    yield from _unread(lifecycle)
    for rule in lifecycle.older:
        lies_about = any(
            each.key.startswith(rule.below.key) or rule.below.key.startswith(each.key) for each in places
        )
        if timedelta(days=rule.days) < keep and lies_about:
            after = f"after {number(rule.days, 'day')}, before keep ({number(keep.days, 'day')}) is over"
            told = f"rule {rule.rule} of s3://{lifecycle.bucket} removes older versions"
            yield f"{told} {after}: there is no undo then"


def _unread(lifecycle: Lifecycle) -> Iterator[str]:
    if lifecycle.unread:
        yield f"the lifecycle of s3://{lifecycle.bucket} cannot be read ({lifecycle.unread}): it may remove files early"
