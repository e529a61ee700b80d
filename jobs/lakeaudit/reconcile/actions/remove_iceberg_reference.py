"""Take a file that is lost for good out of its Iceberg table, by its REST catalog's own commit: its rows are given up.

The Iceberg form of `remove_reference`, under the same `--allow`. PyIceberg, which makes the commits, is optional.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import takewhile
from threading import Lock
from typing import TYPE_CHECKING, Any, cast

from lakeaudit.config import Pointer, Table
from lakeaudit.errors import SourceError
from lakeaudit.evidence.catalog.iceberg_rest.reader import RestTable
from lakeaudit.evidence.manifest.iceberg import listed_file
from lakeaudit.evidence.manifest.iceberg.listed_file import ListedFile
from lakeaudit.evidence.manifest.iceberg.located_metadata import manifest_of
from lakeaudit.evidence.manifest.iceberg.metadata import Snapshot
from lakeaudit.keys import uri_of
from lakeaudit.reconcile.actions.remove_reference import given_up, is_of, table_around, why_not_lost
from lakeaudit.reconcile.key_state import KeyState, Unclear, with_more
from lakeaudit.reconcile.need import NO_NEED, Need
from lakeaudit.reconcile.protocol import (
    REMOVE_REFERENCE,
    Case,
    MetSomebody,
    NotProved,
    Proposal,
    Sight,
    Target,
    Undo,
)
from lakeaudit.reconcile.steps import COMPENSABLE, Step

if TYPE_CHECKING:
    from lakeaudit.evidence.catalog.iceberg_rest import IcebergRest
    from lakeaudit.reconcile.iceberg_commits import Committer

KIND, REST = "iceberg", "iceberg_rest"
_STEP, _PLAN = "lakeaudit.step", "lakeaudit.plan"
"""What of a snapshot's summary says whose it is."""


@dataclass(frozen=True, kw_only=True)
class IcebergReference(KeyState):
    """The versions of a key, how the current snapshot of the table around it lists it, and why nothing may commit."""

    listed: ListedFile
    refused: str | None


def reference_of(sight: Sight, bucket: str, key: str) -> IcebergReference:
    """What `look` gives. Raises Unclear."""
    state, table = sight.keys.read(bucket, key), table_around(sight.lake, bucket, key, KIND)
    if table is None:
        raise Unclear("no Iceberg table of the lake file lies around it")
    sight.keys.pace()
    try:
        listed = listed_file.read(table, sight.clients, bucket, key)
        refused = _why_not_committed_to(table)
    except SourceError as error:
        raise Unclear(str(error)) from error
    return with_more(state, IcebergReference, listed=listed, refused=refused)


class RemoveIcebergReference:
    """See the module."""

    name = "remove_iceberg_reference"
    reversibility = COMPENSABLE
    undo = "its main branch goes back to the snapshot before, only while nobody else has committed since"
    risk = "high: the rows of the file are given up; older snapshots list it until they are expired"

    look = staticmethod(reference_of)

    def __init__(self) -> None:
        self._one_at_a_time = Lock()

    def need(self, step: Step) -> Need:  # noqa: ARG002 - the protocol's
        """What the table says is part of its own state."""
        return NO_NEED

    def refuses(self, case: Case) -> str | None:
        """Where nobody allows it, no REST catalog says what the table is, or PyIceberg is not there."""
        if REMOVE_REFERENCE not in case.allow or not is_of(case.table, KIND):
            return ""
        bucket, key = case.row["bucket"], case.row["key"]
        by_hand = _by_hand(bucket, key)
        table = table_around(case.lake, bucket, key, KIND)
        if table is None or table.name != case.table.name:
            return f"it lies outside the Iceberg table that lists it: {by_hand}"
        if _pointer_of(table) is None:
            return f"commits to Iceberg tables go through their catalog, and no single REST catalog is named: {by_hand}"
        if find_spec("pyiceberg") is None:
            return f"commits to Iceberg tables need PyIceberg: pip install 'lakeaudit[iceberg]', or {by_hand}"
        return None

    def propose(self, case: Case, state: IcebergReference) -> Proposal | str:
        """Where nothing is left of the file, and one entry of the current snapshot alone lists it."""
        if why := why_not_lost(state) or state.refused or _why_not_this_one(state.listed):
            return f"{why}: {_by_hand(case.row['bucket'], case.row['key'])}"
        seen = {"state": "lost", "entry": state.listed.entries[0], "uuid": state.listed.metadata.uuid}
        return Proposal(seen, f"{given_up(case.row)}; {_history(state.listed)}")

    def still_holds(self, step: Step, state: IcebergReference) -> bool:
        """Still lost, and still listed by the same entry of the same table alone."""
        return (
            why_not_lost(state) is None
            and state.refused is None
            and _why_not_this_one(state.listed) is None
            and _is_listed(step.precondition, state.listed)
        )

    def act(self, step: Step, target: Target) -> str | None:
        """One commit, upon the snapshot that is current just then; where another comes first nothing is done."""
        marks = {_STEP: step.action_id, _PLAN: step.plan_id}
        with self._one_at_a_time:
            _proved(target).remove(target.bucket, target.key, step.precondition, marks)
        return None

    def outcome(self, step: Step, state: IcebergReference, written: str | None) -> Undo | None:  # noqa: ARG002 - the protocol's
        """No entry lists the file, and the step's snapshot is among those that the current one was built on."""
        ours = next((each for each in state.listed.past if each.summary.get(_STEP) == step.action_id), None)
        if state.listed.entries or ours is None:
            return None
        seen = {name: step.precondition[name] for name in ("entry", "uuid")}
        return {**seen, "snapshot": ours.id, "before": ours.parent, "plan": step.plan_id}

    def may_undo(self, step: Step, undo: Undo, state: IcebergReference) -> bool:  # noqa: ARG002 - the protocol's
        """Since the step's snapshot there are none but the plan's own, which are taken back as well."""
        return state.listed.metadata.uuid == undo["uuid"] and _is_last(undo, state.listed)

    def take_back(self, undo: Undo, target: Target) -> None:
        """The main branch to the snapshot before; where the undo of an older step did that already, nothing."""
        with self._one_at_a_time:
            listed = _newest(target)
            if _is_listed(undo, listed):
                return
            if not _is_last(undo, listed) or listed.metadata.current is None:
                raise MetSomebody
            _proved(target).set_back(undo["uuid"], listed.metadata.current, undo["before"])

    def is_undone(self, step: Step, undo: Undo, state: IcebergReference) -> bool:  # noqa: ARG002 - the protocol's
        """The same entry lists it."""
        return _is_listed(undo, state.listed)


def _pointer_of(table: Table) -> Pointer | None:
    """The one REST catalog that says what the table is."""
    pointers = manifest_of(table).catalog_pointers
    return pointers[0] if len(pointers) == 1 and pointers[0].store.kind == REST else None


def _opened(table: Table) -> RestTable:
    """Raises SourceError."""
    pointer = _pointer_of(table)
    if pointer is None:
        raise SourceError(table.name, "no single REST catalog says what it is", "name one in the lake file")
    return RestTable.opened(cast("IcebergRest", pointer.store), pointer.name)


def _why_not_committed_to(table: Table) -> str | None:
    """By what the catalog says of it. Raises SourceError."""
    from lakeaudit.reconcile.iceberg_commits import why_not_committed_to

    return why_not_committed_to(_opened(table).load().get("metadata") or {})


def _proved(target: Target) -> "Committer":
    """What commits to the table, where its catalog was shown to refuse what is built on another snapshot."""
    from lakeaudit.reconcile.iceberg_commits import Committer

    table = table_around(target.lake, target.bucket, target.key, KIND)
    if table is None:
        raise NotProved("no Iceberg table of the lake file lies around it")
    rest = _opened(table)
    committer = Committer(rest, table, target.clients)
    if not target.forms.holds(f"iceberg_rest:{rest.client.base}/{rest.path}", committer.honours_requirements):
        raise NotProved("the catalog does not honour the requirements of its own commit")
    return committer


def _newest(target: Target) -> ListedFile:
    table = table_around(target.lake, target.bucket, target.key, KIND)
    if table is None:
        raise NotProved("no Iceberg table of the lake file lies around it")
    return listed_file.read(table, target.clients, target.bucket, target.key)


def _why_not_this_one(listed: ListedFile) -> str | None:
    if listed.elsewhere:
        return f"the branch or tag {listed.elsewhere[0]} lists it, too"
    if listed.has_deletes:
        return "the table has delete files, which may be of its rows"
    return None if len(listed.entries) == 1 else f"{len(listed.entries)} data entries of its table list it"


def _history(listed: ListedFile) -> str:
    """What becomes of older states. Nessie's catalog keeps the current snapshot alone."""
    if len(list(listed.past)) == 1:
        return "no snapshot before the current one is kept: if the catalog keeps none, there is no undo"
    return "older snapshots go on listing it"


def _is_listed(seen: Mapping[str, Any], listed: ListedFile) -> bool:
    """Whether the one entry that lists the file is the one that was seen."""
    return bool(list(listed.entries) == [seen["entry"]] and listed.metadata.uuid == seen["uuid"])


def _is_last(undo: Undo, listed: ListedFile) -> bool:
    def is_own(snapshot: Snapshot) -> bool:
        return bool(snapshot.summary.get(_PLAN) == undo["plan"])

    return undo["snapshot"] in {each.id for each in takewhile(is_own, listed.past)}


def _by_hand(bucket: str, key: str) -> str:
    """What takes a file out of an Iceberg table by the catalog's own commit (Iceberg's Java API, DeleteFiles)."""
    path = json.dumps(uri_of(bucket, key))
    return f'in spark-shell, Spark3Util.loadIcebergTable(spark, "<table>").newDelete().deleteFile({path}).commit()'
