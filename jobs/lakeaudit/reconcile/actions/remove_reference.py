"""Take a file that is lost for good out of its Delta table, by a commit that removes its entry: its rows are given up.

The last of all ways, and only where `--allow remove_reference` says so. Commits are made one after the other, each upon
the newest state, which has to list the file by the very entry that the step was decided on.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Any

from botocore.exceptions import ClientError

from lakeaudit.config import Lake, Table
from lakeaudit.errors import SourceError
from lakeaudit.evidence.manifest.delta import listed_file
from lakeaudit.evidence.manifest.delta.listed_file import ListedFile
from lakeaudit.evidence.manifest.delta.metadata import NotReadable
from lakeaudit.formatting import count
from lakeaudit.reconcile.delta_commits import (
    MARK,
    Action,
    addition_of,
    commit,
    removal_of,
    why_not_committed_to,
)
from lakeaudit.reconcile.key_state import KeyState, Unclear, with_more
from lakeaudit.reconcile.need import NO_NEED, Need
from lakeaudit.reconcile.protocol import REMOVE_REFERENCE, Case, NotProved, Proposal, Sight, Target, Undo
from lakeaudit.reconcile.steps import COMPENSABLE, Step
from lakeaudit.runtime.aws_failures import is_condition_refused

KIND = "delta"
_ATTEMPTS = 20
"""Commits of others that may come first."""


@dataclass(frozen=True, kw_only=True)
class Reference(KeyState):
    """The versions of a key, and how the newest state of the table around it lists it."""

    listed: ListedFile


def reference_of(sight: Sight, bucket: str, key: str) -> Reference:
    """What `look` gives. Raises Unclear."""
    state, table = sight.keys.read(bucket, key), table_around(sight.lake, bucket, key, KIND)
    if table is None:
        raise Unclear("no Delta table of the lake file lies around it")
    sight.keys.pace()
    try:
        listed = listed_file.read(table, sight.clients, bucket, key)
    except (SourceError, NotReadable) as error:
        raise Unclear(str(error)) from error
    return with_more(state, Reference, listed=listed)


class RemoveReference:
    """See the module."""

    name = "remove_reference"
    reversibility = COMPENSABLE
    undo = "a commit that adds the same entry again, only while this one was the last to remove it"
    risk = "high: the rows of the file are given up; the log keeps both commits"

    look = staticmethod(reference_of)

    def __init__(self) -> None:
        self._one_at_a_time = Lock()

    def need(self, step: Step) -> Need:  # noqa: ARG002 - the protocol's
        """What the table says is part of its own state: after the step it lists the file no more."""
        return NO_NEED

    def refuses(self, case: Case) -> str | None:
        """Where nobody allows it, or the file is listed by another table than the one that it lies in."""
        if REMOVE_REFERENCE not in case.allow:
            return f"`--allow {REMOVE_REFERENCE}` gives its rows up, where nothing is left of it"
        if is_of(case.table, "iceberg"):
            return ""
        table = table_around(case.lake, case.row["bucket"], case.row["key"], KIND)
        if table is None or table.name != case.table.name:
            return "it lies outside the Delta table that lists it"
        return None

    def propose(self, case: Case, state: Reference) -> Proposal | str:
        """Where nothing is left of the file, and the table may be committed to."""
        if why := why_not_lost(state) or why_not_committed_to(case.lake, case.table, state.listed):
            return why
        if len(state.listed.adds) != 1:
            return f"{len(state.listed.adds)} entries of its table list it"
        (entry,) = state.listed.adds
        seen = {"state": "lost", "entry": entry, "table_id": state.listed.metadata.get("id")}
        return Proposal(seen, given_up(case.row))

    def still_holds(self, step: Step, state: Reference) -> bool:
        """Still lost, and still listed by the same entry of the same table."""
        return why_not_lost(state) is None and _is_listed(step.precondition, state.listed)

    def act(self, step: Step, target: Target) -> str | None:
        """A commit on top of the newest, as often as another one comes first."""
        removal = removal_of(step.precondition["entry"], step.action_id, target.now)
        self._commit(step.precondition, target, removal, "FSCK", listed_now=True)
        return None

    def outcome(self, step: Step, state: Reference, written: str | None) -> Undo | None:  # noqa: ARG002 - the protocol's
        """No entry lists the file, and this step's commit was the last to remove one."""
        removal = state.listed.removal
        if state.listed.adds or removal is None or (removal.get("tags") or {}).get(MARK) != step.action_id:
            return None
        seen = {name: step.precondition[name] for name in ("entry", "table_id")}
        return {**seen, "removed_at": removal.get("deletionTimestamp")}

    def may_undo(self, step: Step, undo: Undo, state: Reference) -> bool:  # noqa: ARG002 - the protocol's
        """No entry lists it, and nobody has removed one since."""
        removal = state.listed.removal or {}
        return (
            not state.listed.adds
            and removal.get("deletionTimestamp") == undo["removed_at"]
            and state.listed.metadata.get("id") == undo["table_id"]
        )

    def take_back(self, undo: Undo, target: Target) -> None:
        """A commit that adds the entry again."""
        self._commit(undo, target, addition_of(undo["entry"]), "FSCK UNDO", listed_now=False)

    def is_undone(self, step: Step, undo: Undo, state: Reference) -> bool:  # noqa: ARG002 - the protocol's
        """The same entry lists it."""
        return _is_listed(undo, state.listed)

    def _commit(
        self, seen: Mapping[str, Any], target: Target, action: Action, operation: str, *, listed_now: bool
    ) -> None:
        """Nothing is written where the newest state is no longer the one that the action is meant for."""
        table = table_around(target.lake, target.bucket, target.key, KIND)
        if table is None:
            raise NotProved("no Delta table of the lake file lies around it")
        with self._one_at_a_time:
            for attempt in range(_ATTEMPTS):
                listed = _newest(table, target)
                if why := why_not_committed_to(target.lake, table, listed):
                    raise NotProved(why)
                if _is_listed(seen, listed) is not listed_now or (listed.adds and not listed_now):
                    return
                try:
                    commit(target, table, listed, action, operation)
                except ClientError as error:
                    if not is_condition_refused(error) or attempt == _ATTEMPTS - 1:
                        raise
                else:
                    return


def _newest(table: Table, target: Target) -> ListedFile:
    try:
        return listed_file.read(table, target.clients, target.bucket, target.key)
    except (SourceError, NotReadable) as error:
        raise NotProved(str(error)) from error


def is_of(table: Table, kind: str) -> bool:
    """Whether a manifest of this kind says what the table is."""
    return any(each.kind == kind for each in table.manifests)


def table_around(lake: Lake, bucket: str, key: str, kind: str) -> Table | None:
    """The table of this kind whose folder holds a key, the innermost one."""
    around = [table for table in lake.tables if table.location.holds(bucket, key) and is_of(table, kind)]
    return max(around, key=lambda table: table.location.depth, default=None)


def why_not_lost(state: KeyState) -> str | None:
    """Why a file is not one of which nothing is left."""
    if state.current is not None:
        return "the file is there again"
    if any(not version.is_marker for version in state.history.versions):
        return "versions of it are left: bring one back, or remove them first"
    return None if state.history.whole else "nobody can tell whether versions of it are left"


def given_up(row: Mapping[str, Any]) -> str:
    """What a plan says of a lost file, by its discrepancy: the rows that go with its entry."""
    rows = row["rows_at_stake"]
    told = "rows that nobody counted" if rows is None else f"{count(rows)} rows"
    return f"storage, which has no version of it: {told} are given up"


def _is_listed(seen: Mapping[str, Any], listed: ListedFile) -> bool:
    """Whether the one entry that lists the file is the one that was seen: the same path, size and deletion vector."""
    known = ("path", "size", "deletionVector")
    entries = [[add.get(name) for name in known] for add in listed.adds]
    return (
        entries == [[seen["entry"].get(name) for name in known]]
        and listed.metadata.get("id") == seen["table_id"]
    )
