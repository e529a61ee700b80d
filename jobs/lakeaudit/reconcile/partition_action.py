"""What all actions on partitions of catalogs share: how they look, write, and take back what they wrote."""

from typing import Any

from lakeaudit.reconcile.key_state import Unclear
from lakeaudit.reconcile.need import NO_NEED, Need
from lakeaudit.reconcile.partition_store import (
    PLAN,
    Occupied,
    Partition,
    PartitionStore,
    alike,
    refuses_doubles,
)
from lakeaudit.reconcile.partitions import PartitionState, partition_of, store_at
from lakeaudit.reconcile.protocol import Case, MetSomebody, NotProved, Proposal, Target, Undo
from lakeaudit.reconcile.steps import REVERSIBLE, Step


class PartitionAction:
    """The base of the actions on partitions. `precondition["wanted"]`: where readers shall find it; None: nowhere."""

    reversibility = REVERSIBLE
    undo = "the partition that was there, or none, only while it is as the step left it"
    risk = "low: queries see the files of a folder that they did not see; no file is touched"

    look = staticmethod(partition_of)

    def need(self, step: Step) -> Need:  # noqa: ARG002 - the protocol's
        """The table has no manifest."""
        return NO_NEED

    def refuses(self, case: Case) -> str | None:  # noqa: ARG002 - the protocol's
        """Nothing that is known before."""
        return None

    def still_holds(self, step: Step, state: PartitionState) -> bool:
        """Table, partition and both folders are as they were."""
        seen = step.precondition
        return (
            state.table.identity == seen["table"]
            and state.partition == seen["partition"]
            and (state.folder_filled, state.filled) == (seen["folder_filled"], seen["filled"])
        )

    def act(self, step: Step, target: Target) -> str | None:
        """Read once more, since catalogs have no condition but that there is none, and written."""
        store, seen = _proved(target), step.precondition
        values, before = seen["values"], seen["partition"]
        _require(store, values, before)
        _write(store, values, before, _wanted(store, step))
        return None

    def outcome(self, step: Step, state: PartitionState, written: str | None) -> Undo | None:  # noqa: ARG002 - the protocol's
        """It is at the wanted place by this plan, or there is none, as was wanted."""
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
        """The partition is as the step left it, of the same table."""
        return state.table.identity == undo["table"] and alike(state.partition, undo["after"])

    def take_back(self, undo: Undo, target: Target) -> None:
        """The one that was there before, or none."""
        store = _proved(target)
        now = store.partition(undo["values"])
        if not alike(now, undo["after"]):
            raise MetSomebody
        _write(store, undo["values"], now, undo["before"])

    def is_undone(self, step: Step, undo: Undo, state: PartitionState) -> bool:  # noqa: ARG002 - the protocol's
        """It is to readers as it was."""
        return state.table.identity == undo["table"] and alike(state.partition, undo["before"])


def proposed(state: PartitionState, wanted: str | None, matched_by: str) -> Proposal:
    """The step that leaves the partition at a place, or nowhere, upon the state as it is."""
    precondition: dict[str, Any] = {
        "table": state.table.identity,
        "values": [*state.values],
        "partition": state.partition,
        "folder_filled": state.folder_filled,
        "filled": state.filled,
        "wanted": wanted,
    }
    return Proposal(precondition, matched_by)


def _proved(target: Target) -> PartitionStore:
    try:
        store = store_at(target.lake, target.clients, target.key)
    except Unclear as error:
        raise NotProved(str(error)) from error
    if not target.forms.holds(store.name, lambda: refuses_doubles(store)):
        raise NotProved("the catalog enters a partition over another")
    return store


def _require(store: PartitionStore, values: list[str], seen: Partition | None) -> None:
    if store.partition(values) != seen:
        raise MetSomebody


def _wanted(store: PartitionStore, step: Step) -> Partition | None:
    """The partition as it is to be: of what is there, else as the table says of new ones."""
    seen = step.precondition
    if seen["wanted"] is None:
        return None
    before, table = seen["partition"], store.table()
    if table is None or table.identity != seen["table"]:
        raise MetSomebody
    descriptor = table.descriptor if before is None else before["descriptor"]
    parameters = {} if before is None else before["parameters"]
    return {
        "location": seen["wanted"],
        "descriptor": store.placed(descriptor, seen["wanted"]),
        "parameters": {**parameters, PLAN: step.plan_id},
    }


def _write(store: PartitionStore, values: list[str], now: Partition | None, wanted: Partition | None) -> None:
    if wanted is None:
        if now is not None:
            store.remove(values)
    elif now is not None:
        store.replace(values, wanted)
    else:
        try:
            store.enter(values, wanted)
        except Occupied:
            raise MetSomebody from None
