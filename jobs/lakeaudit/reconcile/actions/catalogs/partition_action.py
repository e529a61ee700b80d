"""Read, write and restore partitions of catalogs, for all actions on partitions."""

from collections.abc import Iterator
from typing import Any

from lakeaudit.config import Lake
from lakeaudit.grants import Grant
from lakeaudit.reconcile.key_state import Unclear
from lakeaudit.reconcile.manifest_precondition import NO_PRECONDITION, ManifestPrecondition
from lakeaudit.reconcile.protocol import CannotActSafely, Case, ConcurrentChange, Proposal, Target, Undo
from lakeaudit.reconcile.steps import REVERSIBLE, Step
from lakeaudit.reconcile.stores.partition_store import (
    PLAN,
    Occupied,
    Partition,
    PartitionStore,
    refuses_duplicates,
    same_for_readers,
)
from lakeaudit.reconcile.stores.partitions import PartitionState, partition_grants, partition_of, store_at


class PartitionAction:
    """The base of the actions on partitions. `precondition["wanted"]`: its new location; None: no partition."""

    reversibility = REVERSIBLE
    undo = "restore the previous partition, or remove the new one, only while it is as the step left it"
    risk = "low: queries read additional files; no file changes"

    look = staticmethod(partition_of)

    def permissions(self, lake: Lake) -> Iterator[Grant]:
        """See `protocol.Action`."""
        yield from partition_grants(lake)

    def manifest_precondition(self, step: Step) -> ManifestPrecondition:  # noqa: ARG002 - the protocol's
        """Require nothing: the table has no manifest."""
        return NO_PRECONDITION

    def refuses(self, case: Case) -> str | None:  # noqa: ARG002 - the protocol's
        """Refuse nothing before the state is read."""
        return None

    def still_holds(self, step: Step, state: PartitionState) -> bool:
        """Return whether table, partition and both folders are unchanged."""
        seen = step.precondition
        return (
            state.table.identity == seen["table"]
            and state.partition == seen["partition"]
            and (state.folder_filled, state.filled) == (seen["folder_filled"], seen["filled"])
        )

    def act(self, step: Step, target: Target) -> str | None:
        """Read once more, then write: a catalog's only condition is that the partition does not exist."""
        store, seen = _require_store(target), step.precondition
        values, before = seen["values"], seen["partition"]
        _require(store, values, before)
        _write(store, values, before, _new_partition(store, step))
        return None

    def outcome(self, step: Step, state: PartitionState, written: str | None) -> Undo | None:  # noqa: ARG002 - the protocol's
        """Return the undo if this plan has moved the partition to its new location, or removed it."""
        seen, now = step.precondition, state.partition
        if seen["wanted"] is None:
            done = now is None
        else:
            done = now is not None and (now["location"], now["parameters"].get(PLAN)) == (
                seen["wanted"], step.plan_id
            )  # fmt: skip
        if not done or state.table.identity != seen["table"]:
            return None
        return {
            "values": seen["values"], "before": seen["partition"], "after": now, "table": seen["table"],
        }  # fmt: skip

    def may_undo(self, step: Step, undo: Undo, state: PartitionState) -> bool:  # noqa: ARG002 - the protocol's
        """Return whether the partition is as the step left it, in the same table."""
        return state.table.identity == undo["table"] and same_for_readers(state.partition, undo["after"])

    def take_back(self, undo: Undo, target: Target) -> None:
        """Restore the previous partition, or remove the new one."""
        store = _require_store(target)
        now = store.partition(undo["values"])
        if not same_for_readers(now, undo["after"]):
            raise ConcurrentChange
        _write(store, undo["values"], now, undo["before"])

    def is_undone(self, step: Step, undo: Undo, state: PartitionState) -> bool:  # noqa: ARG002 - the protocol's
        """Return whether readers get the previous partition."""
        return state.table.identity == undo["table"] and same_for_readers(state.partition, undo["before"])


def proposal_for(state: PartitionState, wanted: str | None, matched_by: str) -> Proposal:
    """Return the proposal to move the partition to a location, or with None to remove it."""
    precondition: dict[str, Any] = {
        "table": state.table.identity,
        "values": [*state.values],
        "partition": state.partition,
        "folder_filled": state.folder_filled,
        "filled": state.filled,
        "wanted": wanted,
    }
    return Proposal(precondition, matched_by)


def _require_store(target: Target) -> PartitionStore:
    try:
        store = store_at(target.lake, target.clients, target.key)
    except Unclear as error:
        raise CannotActSafely(str(error)) from error
    if not target.forms.holds(store.name, lambda: refuses_duplicates(store)):
        raise CannotActSafely("the catalog overwrites an existing partition")
    return store


def _require(store: PartitionStore, values: list[str], seen: Partition | None) -> None:
    if store.partition(values) != seen:
        raise ConcurrentChange


def _new_partition(store: PartitionStore, step: Step) -> Partition | None:
    """Return the new partition, based on the existing one, else on the table's defaults."""
    seen = step.precondition
    if seen["wanted"] is None:
        return None
    before, table = seen["partition"], store.table()
    if table is None or table.identity != seen["table"]:
        raise ConcurrentChange
    descriptor = table.descriptor if before is None else before["descriptor"]
    parameters = {} if before is None else before["parameters"]
    return {
        "location": seen["wanted"],
        "descriptor": store.at_location(descriptor, seen["wanted"]),
        "parameters": {**parameters, PLAN: step.plan_id},
    }


def _write(store: PartitionStore, values: list[str], now: Partition | None, new: Partition | None) -> None:
    if new is None:
        if now is not None:
            store.remove(values)
    elif now is not None:
        store.replace(values, new)
    else:
        try:
            store.enter(values, new)
        except Occupied:
            raise ConcurrentChange from None
