"""Remove a file that is lost for good from its Delta table with a commit that removes its entry: its rows are lost.

It is the last resort, and needs `--allow remove_reference`. Commits are made one after the other, each on the newest
state, which must list the file with the planned entry.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Any

from botocore.exceptions import ClientError

from lakeaudit.config import Lake, Table
from lakeaudit.errors import SourceError
from lakeaudit.evidence.manifest.delta import listed_file
from lakeaudit.evidence.manifest.delta.listed_file import ListedFile
from lakeaudit.evidence.manifest.delta.log.listing import LOG_FOLDER
from lakeaudit.evidence.manifest.delta.log.metadata import NotReadable
from lakeaudit.formatting import count
from lakeaudit.grants import PUT, Grant, S3Grant
from lakeaudit.reconcile.canary import canary_grants
from lakeaudit.reconcile.key_state import KeyState, Unclear, with_more
from lakeaudit.reconcile.manifest_precondition import NO_PRECONDITION, ManifestPrecondition
from lakeaudit.reconcile.protocol import (
    REMOVE_REFERENCE,
    CannotActSafely,
    Case,
    Proposal,
    StateReader,
    Target,
    Undo,
)
from lakeaudit.reconcile.steps import COMPENSABLE, Step
from lakeaudit.reconcile.stores.delta_commits import (
    MARK,
    Action,
    addition_of,
    commit,
    removal_of,
    why_not_committed_to,
)
from lakeaudit.runtime.connections.aws_failures import is_condition_refused

KIND = "delta"
_ATTEMPTS = 20
"""Attempts, since other commits may come first."""


@dataclass(frozen=True, kw_only=True)
class Reference(KeyState):
    """The versions of a key, and its entries in the newest state of its table."""

    listed: ListedFile


def reference_of(reader: StateReader, bucket: str, key: str) -> Reference:
    """Read the state. Raises Unclear."""
    state, table = reader.keys.read(bucket, key), table_around(reader.lake, bucket, key, KIND)
    if table is None:
        raise Unclear("no Delta table of the lake file contains it")
    reader.keys.pace()
    try:
        listed = listed_file.read(table, reader.clients, bucket, key)
    except (SourceError, NotReadable) as error:
        raise Unclear(str(error)) from error
    return with_more(state, Reference, listed=listed)


class RemoveReference:
    """See the module."""

    name = "remove_reference"
    reversibility = COMPENSABLE
    undo = "commit the same entry again, only while no later commit has removed it"
    risk = "high: the rows of the file are lost; the log keeps both commits"

    look = staticmethod(reference_of)

    def __init__(self) -> None:
        self._one_at_a_time = Lock()

    def permissions(self, lake: Lake) -> Iterator[Grant]:
        """See `protocol.Action`."""
        logs = [table.location.join(LOG_FOLDER) for table in lake.tables if is_of(table, KIND)]
        grants: list[Grant] = [S3Grant("CommitToDeltaTables", place, (PUT,)) for place in logs]
        yield from (*grants, *canary_grants(lake, grants))

    def manifest_precondition(self, step: Step) -> ManifestPrecondition:  # noqa: ARG002 - the protocol's
        """Require nothing: the table's entry is part of the state, and the step removes it."""
        return NO_PRECONDITION

    def refuses(self, case: Case) -> str | None:
        """Refuse without `--allow`, and files that another table than the one around them lists."""
        if REMOVE_REFERENCE not in case.allow:
            return f"if nothing is left of it, `--allow {REMOVE_REFERENCE}` removes it and its rows from the table"
        if is_of(case.table, "iceberg"):
            return ""
        table = table_around(case.lake, case.row["bucket"], case.row["key"], KIND)
        if table is None or table.name != case.table.name:
            return "it is outside the Delta table that lists it"
        return None

    def propose(self, case: Case, state: Reference) -> Proposal | str:
        """Propose if no version of the file is left, and the table permits the commit."""
        if why := why_not_lost(state) or why_not_committed_to(case.lake, case.table, state.listed):
            return why
        if len(state.listed.adds) != 1:
            return f"{len(state.listed.adds)} entries of its table list it"
        (entry,) = state.listed.adds
        seen = {"state": "lost", "entry": entry, "table_id": state.listed.metadata.get("id")}
        return Proposal(seen, lost_rows_text(case.row))

    def still_holds(self, step: Step, state: Reference) -> bool:
        """Return whether the file is still lost, and the same entry of the same table lists it."""
        return why_not_lost(state) is None and _is_listed(step.precondition, state.listed)

    def act(self, step: Step, target: Target) -> str | None:
        """Commit on the newest state; repeat while other commits come first."""
        removal = removal_of(step.precondition["entry"], step.action_id, target.now)
        self._commit(step.precondition, target, removal, "FSCK", listed_now=True)
        return None

    def outcome(self, step: Step, state: Reference, written: str | None) -> Undo | None:  # noqa: ARG002 - the protocol's
        """Return the undo if no entry lists the file, and this step's commit was the last to remove one."""
        removal = state.listed.removal
        if state.listed.adds or removal is None or (removal.get("tags") or {}).get(MARK) != step.action_id:
            return None
        seen = {name: step.precondition[name] for name in ("entry", "table_id")}
        return {**seen, "removed_at": removal.get("deletionTimestamp")}

    def may_undo(self, step: Step, undo: Undo, state: Reference) -> bool:  # noqa: ARG002 - the protocol's
        """Return whether no entry lists the file, and no later commit has removed one."""
        removal = state.listed.removal or {}
        return (
            not state.listed.adds
            and removal.get("deletionTimestamp") == undo["removed_at"]
            and state.listed.metadata.get("id") == undo["table_id"]
        )

    def take_back(self, undo: Undo, target: Target) -> None:
        """Commit the entry again."""
        self._commit(undo, target, addition_of(undo["entry"]), "FSCK UNDO", listed_now=False)

    def is_undone(self, step: Step, undo: Undo, state: Reference) -> bool:  # noqa: ARG002 - the protocol's
        """Return whether the same entry lists the file."""
        return _is_listed(undo, state.listed)

    def _commit(
        self, seen: Mapping[str, Any], target: Target, action: Action, operation: str, *, listed_now: bool
    ) -> None:
        """Commit unless the newest state has the effect already, or no longer lists the planned entry."""
        table = table_around(target.lake, target.bucket, target.key, KIND)
        if table is None:
            raise CannotActSafely("no Delta table of the lake file contains it")
        with self._one_at_a_time:
            for attempt in range(_ATTEMPTS):
                listed = _newest(table, target)
                if why := why_not_committed_to(target.lake, table, listed):
                    raise CannotActSafely(why)
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
        raise CannotActSafely(str(error)) from error


def is_of(table: Table, kind: str) -> bool:
    """Return whether the table has a manifest of this kind."""
    return any(each.kind == kind for each in table.manifests)


def table_around(lake: Lake, bucket: str, key: str, kind: str) -> Table | None:
    """Return the innermost table of this kind whose location contains a key."""
    around = [table for table in lake.tables if table.location.holds(bucket, key) and is_of(table, kind)]
    return max(around, key=lambda table: table.location.depth, default=None)


def why_not_lost(state: KeyState) -> str | None:
    """Return why a file is not lost for good."""
    if state.current is not None:
        return "the file exists again"
    if any(not version.is_marker for version in state.history.versions):
        return "versions of it are left: restore one, or remove them first"
    return None if state.history.whole else "it is not known whether versions of it are left"


def lost_rows_text(row: Mapping[str, Any]) -> str:
    """Return the text of a plan about the rows of a lost file, by its discrepancy."""
    rows = row["rows_at_stake"]
    lost = "an unknown number of rows is" if rows is None else f"{count(rows)} rows are"
    return f"storage, which has no version of it: {lost} lost"


def _is_listed(seen: Mapping[str, Any], listed: ListedFile) -> bool:
    """Return whether the only entry that lists the file has the recorded path, size and deletion vector."""
    known = ("path", "size", "deletionVector")
    entries = [[add.get(name) for name in known] for add in listed.adds]
    return (
        entries == [[seen["entry"].get(name) for name in known]]
        and listed.metadata.get("id") == seen["table_id"]
    )
