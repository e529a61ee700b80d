"""Remove a file that is lost for good from its Iceberg table with a commit of its REST catalog: its rows are lost.

It is the Iceberg form of `remove_reference`, with the same `--allow`. PyIceberg, which builds the commits, is optional.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import takewhile
from threading import Lock
from typing import TYPE_CHECKING, Any, cast

from lakeaudit.config import Lake, Pointer, Table
from lakeaudit.errors import SourceError
from lakeaudit.evidence.catalog.iceberg_rest.reader import RestTable
from lakeaudit.evidence.manifest.iceberg import listed_file
from lakeaudit.evidence.manifest.iceberg.current.located_metadata import manifest_of
from lakeaudit.evidence.manifest.iceberg.listed_file import ListedFile
from lakeaudit.evidence.manifest.iceberg.state.metadata import Snapshot
from lakeaudit.grants import DELETE, PUT, Grant, S3Grant
from lakeaudit.keys import uri_of
from lakeaudit.reconcile.actions.catalogs.remove_reference import (
    is_of,
    lost_rows_text,
    table_around,
    why_not_lost,
)
from lakeaudit.reconcile.key_state import KeyState, Unclear, with_more
from lakeaudit.reconcile.manifest_precondition import NO_PRECONDITION, ManifestPrecondition
from lakeaudit.reconcile.protocol import (
    REMOVE_REFERENCE,
    CannotActSafely,
    Case,
    ConcurrentChange,
    Proposal,
    StateReader,
    Target,
    Undo,
)
from lakeaudit.reconcile.steps import COMPENSABLE, Step

if TYPE_CHECKING:
    from lakeaudit.evidence.catalog.iceberg_rest import IcebergRest
    from lakeaudit.reconcile.stores.iceberg_commits import Committer

KIND, REST = "iceberg", "iceberg_rest"
_STEP, _PLAN = "lakeaudit.step", "lakeaudit.plan"
"""Keys of a snapshot's summary with the step and the plan."""


@dataclass(frozen=True, kw_only=True)
class IcebergReference(KeyState):
    """The versions of a key, its entries in the current snapshot of its table, and why no commit is possible."""

    listed: ListedFile
    refused: str | None


def reference_of(reader: StateReader, bucket: str, key: str) -> IcebergReference:
    """Read the state. Raises Unclear."""
    state, table = reader.keys.read(bucket, key), table_around(reader.lake, bucket, key, KIND)
    if table is None:
        raise Unclear("no Iceberg table of the lake file contains it")
    reader.keys.pace()
    try:
        listed = listed_file.read(table, reader.clients, bucket, key)
        refused = _why_not_committed_to(table)
    except SourceError as error:
        raise Unclear(str(error)) from error
    return with_more(state, IcebergReference, listed=listed, refused=refused)


class RemoveIcebergReference:
    """See the module."""

    name = "remove_iceberg_reference"
    reversibility = COMPENSABLE
    undo = "set the main branch back to the previous snapshot, only while there is no other commit since"
    risk = "high: the rows of the file are lost; older snapshots list it until they are expired"

    look = staticmethod(reference_of)

    def __init__(self) -> None:
        self._one_at_a_time = Lock()

    def permissions(self, lake: Lake) -> Iterator[Grant]:
        """See `protocol.Action`: PyIceberg writes files below the table, and removes them if its commit fails."""
        for table in lake.tables:
            if is_of(table, KIND) and _pointer_of(table) is not None:
                yield S3Grant("CommitToIcebergTables", table.location, (PUT, DELETE))

    def manifest_precondition(self, step: Step) -> ManifestPrecondition:  # noqa: ARG002 - the protocol's
        """Require nothing: the table's entry is part of the state."""
        return NO_PRECONDITION

    def refuses(self, case: Case) -> str | None:
        """Refuse without `--allow`, without a single REST catalog, or without PyIceberg."""
        if REMOVE_REFERENCE not in case.allow or not is_of(case.table, KIND):
            return ""
        bucket, key = case.row["bucket"], case.row["key"]
        by_hand = _by_hand(bucket, key)
        table = table_around(case.lake, bucket, key, KIND)
        if table is None or table.name != case.table.name:
            return f"it is outside the Iceberg table that lists it: {by_hand}"
        if _pointer_of(table) is None:
            return f"a commit to its Iceberg table needs exactly one REST catalog in the lake file: {by_hand}"
        if find_spec("pyiceberg") is None:
            return f"commits to Iceberg tables need PyIceberg: pip install 'lakeaudit[iceberg]', or {by_hand}"
        return None

    def propose(self, case: Case, state: IcebergReference) -> Proposal | str:
        """Propose if no version of the file is left, and exactly one entry of the current snapshot lists it."""
        if why := why_not_lost(state) or state.refused or _why_not_this_one(state.listed):
            return f"{why}: {_by_hand(case.row['bucket'], case.row['key'])}"
        seen = {"state": "lost", "entry": state.listed.entries[0], "uuid": state.listed.metadata.uuid}
        return Proposal(seen, f"{lost_rows_text(case.row)}; {_history(state.listed)}")

    def still_holds(self, step: Step, state: IcebergReference) -> bool:
        """Return whether the file is still lost, and only the same entry of the same table lists it."""
        return (
            why_not_lost(state) is None
            and state.refused is None
            and _why_not_this_one(state.listed) is None
            and _is_listed(step.precondition, state.listed)
        )

    def act(self, step: Step, target: Target) -> str | None:
        """Commit on the current snapshot; if another commit comes first, nothing is done."""
        marks = {_STEP: step.action_id, _PLAN: step.plan_id}
        with self._one_at_a_time:
            _require_committer(target).remove(target.bucket, target.key, step.precondition, marks)
        return None

    def outcome(self, step: Step, state: IcebergReference, written: str | None) -> Undo | None:  # noqa: ARG002 - the protocol's
        """Return the undo if no entry lists the file, and the current snapshot descends from the step's."""
        ours = next((each for each in state.listed.past if each.summary.get(_STEP) == step.action_id), None)
        if state.listed.entries or ours is None:
            return None
        seen = {name: step.precondition[name] for name in ("entry", "uuid")}
        return {**seen, "snapshot": ours.id, "before": ours.parent, "plan": step.plan_id}

    def may_undo(self, step: Step, undo: Undo, state: IcebergReference) -> bool:  # noqa: ARG002 - the protocol's
        """Return whether all snapshots since the step's are the plan's own, which are undone as well."""
        return state.listed.metadata.uuid == undo["uuid"] and _is_last(undo, state.listed)

    def take_back(self, undo: Undo, target: Target) -> None:
        """Set the main branch back to the previous snapshot, unless the undo of an older step has done so."""
        with self._one_at_a_time:
            listed = _newest(target)
            if _is_listed(undo, listed):
                return
            if not _is_last(undo, listed) or listed.metadata.current is None:
                raise ConcurrentChange
            _require_committer(target).set_back(undo["uuid"], listed.metadata.current, undo["before"])

    def is_undone(self, step: Step, undo: Undo, state: IcebergReference) -> bool:  # noqa: ARG002 - the protocol's
        """Return whether the same entry lists the file."""
        return _is_listed(undo, state.listed)


def _pointer_of(table: Table) -> Pointer | None:
    """Return the pointer of the table's only REST catalog."""
    pointers = manifest_of(table).catalog_pointers
    return pointers[0] if len(pointers) == 1 and pointers[0].store.kind == REST else None


def _open_rest_table(table: Table) -> RestTable:
    """Open the table in its REST catalog. Raises SourceError."""
    pointer = _pointer_of(table)
    if pointer is None:
        raise SourceError(table.name, "it has not exactly one REST catalog", "name one in the lake file")
    return RestTable.opened(cast("IcebergRest", pointer.store), pointer.name)


def _why_not_committed_to(table: Table) -> str | None:
    """Return why no commit is possible, by the table's metadata in the catalog. Raises SourceError."""
    from lakeaudit.reconcile.stores.iceberg_commits import why_not_committed_to

    return why_not_committed_to(_open_rest_table(table).load().get("metadata") or {})


def _require_committer(target: Target) -> "Committer":
    """Return the committer of the table, after a test that its catalog refuses commits on another snapshot."""
    from lakeaudit.reconcile.stores.iceberg_commits import Committer

    table = table_around(target.lake, target.bucket, target.key, KIND)
    if table is None:
        raise CannotActSafely("no Iceberg table of the lake file contains it")
    rest = _open_rest_table(table)
    committer = Committer(rest, table, target.clients)
    if not target.forms.holds(f"iceberg_rest:{rest.client.base}/{rest.path}", committer.honours_requirements):
        raise CannotActSafely("the catalog does not honour the requirements of its own commit")
    return committer


def _newest(target: Target) -> ListedFile:
    table = table_around(target.lake, target.bucket, target.key, KIND)
    if table is None:
        raise CannotActSafely("no Iceberg table of the lake file contains it")
    return listed_file.read(table, target.clients, target.bucket, target.key)


def _why_not_this_one(listed: ListedFile) -> str | None:
    if listed.elsewhere:
        return f"the branch or tag {listed.elsewhere[0]} lists it too"
    if listed.has_deletes:
        return "the table has delete files, which may refer to its rows"
    return None if len(listed.entries) == 1 else f"{len(listed.entries)} data entries of its table list it"


def _history(listed: ListedFile) -> str:
    """Return the note about older snapshots. Nessie's catalog keeps only the current snapshot."""
    if len(list(listed.past)) == 1:
        return "no snapshot before the current one is kept: if the catalog keeps none, there is no undo"
    return "older snapshots continue to list it"


def _is_listed(seen: Mapping[str, Any], listed: ListedFile) -> bool:
    """Return whether the only entry that lists the file is the recorded one."""
    return bool(list(listed.entries) == [seen["entry"]] and listed.metadata.uuid == seen["uuid"])


def _is_last(undo: Undo, listed: ListedFile) -> bool:
    def is_own(snapshot: Snapshot) -> bool:
        return bool(snapshot.summary.get(_PLAN) == undo["plan"])

    return undo["snapshot"] in {each.id for each in takewhile(is_own, listed.past)}


def _by_hand(bucket: str, key: str) -> str:
    """Return the command that removes a file from an Iceberg table (Iceberg's Java API, DeleteFiles)."""
    path = json.dumps(uri_of(bucket, key))
    return f'in spark-shell, Spark3Util.loadIcebergTable(spark, "<table>").newDelete().deleteFile({path}).commit()'
