"""Remove an item from a table of EMRFS or s3mper: of a file that neither storage nor a table has, or a wrong deletion.

The item is not replaced by a deletion, which would hide a file that another tool writes later. Without an item EMRFS
lists the files of storage, so removing the deletion of an existing file repairs it; `emrfs import` can then enter the
file.
"""

from collections.abc import Iterator
from typing import Any

from botocore.exceptions import ClientError

from lakeaudit.config import Lake
from lakeaudit.grants import Grant
from lakeaudit.reconcile.manifest_precondition import NO_PRECONDITION, UNLISTED, ManifestPrecondition
from lakeaudit.reconcile.protocol import Case, Proposal, Target, Undo
from lakeaudit.reconcile.steps import REVERSIBLE, Step
from lakeaudit.reconcile.stores.entries import object_row
from lakeaudit.reconcile.stores.entry_store import Place, store_grants
from lakeaudit.reconcile.stores.name_store import (
    EMRFS,
    S3MPER,
    NameState,
    NameStore,
    name_of,
    name_table_of,
    require_store,
)
from lakeaudit.runtime.connections.aws_failures import is_condition_refused

PHANTOM = "phantom"


class RemoveName:
    """See the module."""

    name = "remove_name"
    reversibility = REVERSIBLE
    undo = "restore the same item, only while there is none"
    risk = "low: items are removed only while they are unchanged"

    look = staticmethod(name_of)

    def permissions(self, lake: Lake) -> Iterator[Grant]:
        """See `protocol.Action`."""
        yield from store_grants(lake, (S3MPER,), ("BatchGetItem", "DeleteItem", "PutItem", "Query"))
        yield from store_grants(lake, (EMRFS,), ("BatchGetItem", "DeleteItem", "PutItem"))

    def manifest_precondition(self, step: Step) -> ManifestPrecondition:
        """Require for a lost file that no table lists it: the item may be its only record."""
        return UNLISTED if step.kind == PHANTOM else NO_PRECONDITION

    def refuses(self, case: Case) -> str | None:
        """Refuse keys without a table of these kinds; other actions give the reason for other stores."""
        store = name_table_of(case.lake, case.row["bucket"], case.row["key"])
        return None if store is not None and (case.row["kind"] == PHANTOM or store.kind == EMRFS) else ""

    def propose(self, case: Case, state: NameState) -> Proposal | str:
        """Propose if there is an item that contradicts storage."""
        if state.item is None:
            return "the store has no item of it"
        if state.keys_below:
            return "storage has keys below it"
        wrong = state.is_deleted if case.row["kind"] == PHANTOM else not state.is_deleted
        if wrong or (state.current is None) is not (case.row["kind"] == PHANTOM):
            return "item and storage no longer contradict each other"
        return Proposal(
            precondition_of(state),
            "storage, which has an object there" if state.current else "storage, which has no object",
        )

    def still_holds(self, step: Step, state: NameState) -> bool:
        """Return whether item and object are unchanged."""
        now = precondition_of(state)
        return not state.keys_below and now == {name: step.precondition[name] for name in now}

    def act(self, step: Step, target: Target) -> str | None:
        """Remove the item while it is unchanged."""
        seen = step.precondition
        write(require_store(target), _place(seen["place"]), seen["item"], None)
        return None

    def outcome(self, step: Step, state: NameState, written: str | None) -> Undo | None:  # noqa: ARG002 - the protocol's
        """Return the undo if there is no item."""
        return (
            None
            if state.item is not None
            else {"place": list(state.place), "before": step.precondition["item"]}
        )

    def may_undo(self, step: Step, undo: Undo, state: NameState) -> bool:  # noqa: ARG002 - the protocol's
        """Return whether no other item was written since."""
        return state.item in (None, undo["before"])

    def take_back(self, undo: Undo, target: Target) -> None:
        """Restore the item."""
        write(require_store(target), _place(undo["place"]), None, undo["before"])

    def is_undone(self, step: Step, undo: Undo, state: NameState) -> bool:  # noqa: ARG002 - the protocol's
        """Return whether the item exists again."""
        return bool(state.item == undo["before"])


def precondition_of(state: NameState) -> dict[str, Any]:
    """Return the precondition of a step on an item."""
    seen = None if state.current is None else object_row(state.current)
    return {"store": state.store, "place": list(state.place), "item": state.item, "object": seen}


def write(store: NameStore, place: Place, seen: Any, item: Any) -> None:
    """Replace an item, unless another run of the step has replaced it."""
    try:
        store.replace(place, seen, item)
    except ClientError as error:
        if not is_condition_refused(error) or store.read(place) != item:
            raise


def _place(data: Any) -> Place:
    return data[0], data[1]
