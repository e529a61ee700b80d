"""Enter a file of storage in a table of s3mper, if it has no row there or one that is marked as deleted.

The row of the index by time is written first, so that s3mper purges the file's row one day like any other. Both have
s3mper's form, with the plan in an additional attribute that s3mper does not read.
"""

from collections.abc import Iterator
from typing import Any

from lakeaudit.config import Lake
from lakeaudit.evidence.metastore.s3mper.layout import INDEX
from lakeaudit.grants import Grant
from lakeaudit.reconcile.actions.entries.entry_action import is_current
from lakeaudit.reconcile.actions.entries.remove_name import precondition_of, write
from lakeaudit.reconcile.manifest_precondition import NO_PRECONDITION, ManifestPrecondition
from lakeaudit.reconcile.protocol import Case, Proposal, Target, Undo
from lakeaudit.reconcile.steps import REVERSIBLE, Step
from lakeaudit.reconcile.stores.entry_store import PLAN, Item, Place, store_grants
from lakeaudit.reconcile.stores.name_store import (
    S3MPER,
    NameState,
    NameStore,
    name_of,
    name_table_of,
    require_store,
)


class PutName:
    """See the module."""

    name = "put_name"
    reversibility = REVERSIBLE
    undo = "restore the previous row, or remove the new one, only while it is as the step left it"
    risk = "low: rows are written only while they are unchanged"

    look = staticmethod(name_of)

    def permissions(self, lake: Lake) -> Iterator[Grant]:
        """See `protocol.Action`."""
        yield from store_grants(lake, (S3MPER,), ("BatchGetItem", "DeleteItem", "PutItem", "Query"))

    def manifest_precondition(self, step: Step) -> ManifestPrecondition:  # noqa: ARG002 - the protocol's
        """The metadata store has to agree with storage, whatever manifests contain."""
        return NO_PRECONDITION

    def refuses(self, case: Case) -> str | None:
        """Refuse keys without a table of s3mper; other actions give the reason for other stores."""
        store = name_table_of(case.lake, case.row["bucket"], case.row["key"])
        return None if store is not None and store.kind == S3MPER else ""

    def propose(self, case: Case, state: NameState) -> Proposal | str:
        """Propose if storage has an object, and the table has no row or a deleted one."""
        if state.current is None:
            return "storage has no object there"
        if state.item is not None and not state.is_deleted:
            return "its row exists"
        at = round(case.now.timestamp() * 1000)
        return Proposal(precondition_of(state) | {"at": at}, "the object in storage")

    def still_holds(self, step: Step, state: NameState) -> bool:
        """Return whether row and object are unchanged, or this step has entered the row."""
        seen, now = step.precondition, precondition_of(state)
        known = {name: seen[name] for name in now}
        return known == {**now, "item": seen["item"]} and state.item in (seen["item"], _row(step))

    def act(self, step: Step, target: Target) -> str | None:
        """Write the index row, then the file's row; remove both at once if the object changed meanwhile."""
        store, seen = require_store(target), step.precondition
        write(store, _index_place(step), None, _index(step))
        write(store, _place(seen["place"]), seen["item"], _row(step))
        if not is_current(target, seen["object"]):
            _take_back(store, _undo_of(step))
        return None

    def outcome(self, step: Step, state: NameState, written: str | None) -> Undo | None:  # noqa: ARG002 - the protocol's
        """Return the undo if the row is the step's."""
        return _undo_of(step) if state.item == _row(step) else None

    def may_undo(self, step: Step, undo: Undo, state: NameState) -> bool:  # noqa: ARG002 - the protocol's
        """Return whether the row is as the step left it, or as before."""
        return state.item in (undo["after"], undo["before"])

    def take_back(self, undo: Undo, target: Target) -> None:
        """Restore the index row, then the file's row."""
        _take_back(require_store(target), undo)

    def is_undone(self, step: Step, undo: Undo, state: NameState) -> bool:  # noqa: ARG002 - the protocol's
        """Return whether the row is as before."""
        return bool(state.item == undo["before"])


def _row(step: Step) -> Item:
    """Return the file's row; it is the same in each run of the step."""
    path, name = _place(step.precondition["place"])
    return {
        "path": {"S": path},
        "file": {"S": name},
        "epoch": {"N": str(step.precondition["at"])},
        PLAN: {"S": step.plan_id},
    }


def _index_place(step: Step) -> Place:
    """Return the keys of the index row; s3mper distinguishes rows of one millisecond by a random number."""
    return INDEX, f"{step.precondition['at']}-{int(step.action_id[:7], 16)}"


def _index(step: Step) -> Item:
    row, (path, name) = _row(step), _index_place(step)
    links = {"linkPath": row["path"], "linkFile": row["file"], PLAN: row[PLAN]}
    return {"path": {"S": path}, "file": {"S": name}, **links}


def _undo_of(step: Step) -> dict[str, Any]:
    seen = step.precondition
    known = {"place": seen["place"], "before": seen["item"], "after": _row(step)}
    return {**known, "index_place": list(_index_place(step)), "index": _index(step)}


def _take_back(store: NameStore, undo: Undo) -> None:
    write(store, _place(undo["index_place"]), undo["index"], None)
    write(store, _place(undo["place"]), undo["after"], undo["before"])


def _place(data: Any) -> Place:
    return data[0], data[1]
