"""Enter a file in a table of s3mper that storage has: in place of nothing, or of a row that is marked as deleted.

The row of the index by time comes first, so that the file's row is purged one day like any other. Both are as s3mper
writes them, with the plan that wrote them in an attribute of our own, which s3mper does not read.
"""

from typing import Any

from lakeaudit.evidence.metastore.s3mper.layout import INDEX
from lakeaudit.reconcile.actions.remove_name import precondition_of, write
from lakeaudit.reconcile.entry_action import is_current
from lakeaudit.reconcile.entry_store import PLAN, Item, Place
from lakeaudit.reconcile.name_store import S3MPER, NameState, NameStore, name_of, names_of, proved
from lakeaudit.reconcile.need import NO_NEED, Need
from lakeaudit.reconcile.protocol import Case, Proposal, Target, Undo
from lakeaudit.reconcile.steps import REVERSIBLE, Step


class PutName:
    """See the module."""

    name = "put_name"
    reversibility = REVERSIBLE
    undo = "put the row back that was there, or remove what was put, only while it is as the step left it"
    risk = "low: rows are written only while they are as they were seen"

    look = staticmethod(name_of)

    def need(self, step: Step) -> Need:  # noqa: ARG002 - the protocol's
        """The metadata store has to say what storage has."""
        return NO_NEED

    def refuses(self, case: Case) -> str | None:
        """Where no table of s3mper says what readers see: other ways speak of other stores."""
        store = names_of(case.lake, case.row["bucket"], case.row["key"])
        return None if store is not None and store.kind == S3MPER else ""

    def propose(self, case: Case, state: NameState) -> Proposal | str:
        """Where storage has an object, and the table no row of it, or one that says deleted."""
        if state.current is None:
            return "storage has no object there"
        if state.item is not None and not state.is_deleted:
            return "its row is there"
        at = round(case.now.timestamp() * 1000)
        return Proposal(precondition_of(state) | {"at": at}, "what storage has")

    def still_holds(self, step: Step, state: NameState) -> bool:
        """Row and object are as they were, or this step has entered it."""
        seen, now = step.precondition, precondition_of(state)
        known = {name: seen[name] for name in now}
        return known == {**now, "item": seen["item"]} and state.item in (seen["item"], _row(step))

    def act(self, step: Step, target: Target) -> str | None:
        """The index first, then the row, both taken back at once where the object changed meanwhile."""
        store, seen = proved(target), step.precondition
        write(store, _index_place(step), None, _index(step))
        write(store, _place(seen["place"]), seen["item"], _row(step))
        if not is_current(target, seen["object"]):
            _take_back(store, _undo_of(step))
        return None

    def outcome(self, step: Step, state: NameState, written: str | None) -> Undo | None:  # noqa: ARG002 - the protocol's
        """The row is the step's."""
        return _undo_of(step) if state.item == _row(step) else None

    def may_undo(self, step: Step, undo: Undo, state: NameState) -> bool:  # noqa: ARG002 - the protocol's
        """The row is as the step left it, or as it was before."""
        return state.item in (undo["after"], undo["before"])

    def take_back(self, undo: Undo, target: Target) -> None:
        """The index's row first, then the file's."""
        _take_back(proved(target), undo)

    def is_undone(self, step: Step, undo: Undo, state: NameState) -> bool:  # noqa: ARG002 - the protocol's
        """The row is as it was."""
        return bool(state.item == undo["before"])


def _row(step: Step) -> Item:
    """A file's row. A second row of it by this step would be the same."""
    path, name = _place(step.precondition["place"])
    return {
        "path": {"S": path},
        "file": {"S": name},
        "epoch": {"N": str(step.precondition["at"])},
        PLAN: {"S": step.plan_id},
    }


def _index_place(step: Step) -> Place:
    """s3mper tells rows of one millisecond apart by a number that it draws."""
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


def _place(written: Any) -> Place:
    return written[0], written[1]
