"""Point a catalog at the newest metadata.json of an Iceberg table, if it points at an older one."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from lakeaudit.config import CatalogSource, Lake
from lakeaudit.errors import SourceError
from lakeaudit.evidence.catalog.metadata_pointers import aim_at, successor
from lakeaudit.grants import Grant
from lakeaudit.reconcile.key_state import Unclear
from lakeaudit.reconcile.manifest_precondition import NO_PRECONDITION, ManifestPrecondition
from lakeaudit.reconcile.protocol import (
    REPOINT_TABLE,
    CannotActSafely,
    Case,
    ConcurrentChange,
    Proposal,
    StateReader,
    Target,
    Undo,
)
from lakeaudit.reconcile.steps import REVERSIBLE, Step
from lakeaudit.reconcile.stores.table_pointers import (
    GluePointer,
    HivePointer,
    PointerState,
    TablePointer,
    pointer_grant,
)
from lakeaudit.runtime.connections.aws import Clients
from lakeaudit.runtime.connections.aws_failures import explain


@dataclass(frozen=True)
class TableState:
    """The pointer of the catalog, and the newest state of the table; None: the newest state cannot be determined."""

    pointing: PointerState
    newest: str | None


def table_of(reader: StateReader, bucket: str, key: str) -> TableState:  # noqa: ARG001 - the protocol's
    """Read the state of a finding's subject, `<table>#<kind> <catalog>`. Raises Unclear."""
    try:
        pointing = _pointer_at(reader.lake, reader.clients, key).read()
        if pointing is None or not pointing.location:
            raise Unclear("the catalog does not point at a metadata.json of its table")
        reader.keys.pace()
        aim = aim_at(reader.clients, pointing.location)
        name = None if aim is None else successor(reader.clients, aim)
        folder = pointing.location.rpartition("/")[0]
        return TableState(pointing, None if name is None else f"{folder}/{name}")
    except (ClientError, BotoCoreError) as error:
        raise Unclear(f"the catalog cannot be queried: {explain(error).what}") from error
    except SourceError as error:
        raise Unclear(str(error)) from error


class RepointTable:
    """See the module."""

    name = "repoint_table"
    reversibility = REVERSIBLE
    undo = "point the catalog at the previous state, only while it points where the step left it"
    risk = "high: readers see another state of the table; pause its writers, which may commit on either state"

    look = staticmethod(table_of)

    def permissions(self, lake: Lake) -> Iterator[Grant]:
        """See `protocol.Action`. Any table of a catalog may be an Iceberg table, whatever the lake file says of it."""
        for store in lake.metastores:
            if store.kind in _GRANTS:
                yield _GRANTS[store.kind](store)

    def manifest_precondition(self, step: Step) -> ManifestPrecondition:  # noqa: ARG002 - the protocol's
        """Require nothing: only the catalog defines the table's state."""
        return NO_PRECONDITION

    def refuses(self, case: Case) -> str | None:
        """Refuse without `--allow`: somebody may have rolled the table back on purpose."""
        if REPOINT_TABLE in case.allow:
            return None
        return f"somebody may have rolled it back on purpose: `--allow {REPOINT_TABLE}` plans it"

    def propose(self, case: Case, state: TableState) -> Proposal | str:  # noqa: ARG002 - the protocol's
        """Propose if exactly one newest state descends, by two commits at least, from the one of the catalog."""
        if state.newest is None:
            return "there is not exactly one newest state that descends from the one of the catalog"
        seen = {"location": state.pointing.location, "version": state.pointing.version}
        return Proposal(
            seen | {"wanted": state.newest}, "the newest metadata.json names this state as a previous one"
        )

    def still_holds(self, step: Step, state: TableState) -> bool:
        """Return whether the pointer is unchanged, and there is no newer state."""
        seen = step.precondition
        return (state.pointing.location, state.pointing.version, state.newest) == (
            seen["location"], seen["version"], seen["wanted"],
        )  # fmt: skip

    def act(self, step: Step, target: Target) -> str | None:
        """Set the pointer if it is unchanged; Glue's VersionId also changes by a canary whose condition is ignored."""
        seen = step.precondition
        pointer = _require_pointer(target)
        pointer.point(PointerState(seen["location"], seen["version"], None), seen["wanted"], step.plan_id)
        return None

    def outcome(self, step: Step, state: TableState, written: str | None) -> Undo | None:  # noqa: ARG002 - the protocol's
        """Return the undo if this plan has set the pointer."""
        after = step.precondition["wanted"]
        if (state.pointing.location, state.pointing.plan) != (after, step.plan_id):
            return None
        return {"before": step.precondition["location"], "after": after, "plan": step.plan_id}

    def may_undo(self, step: Step, undo: Undo, state: TableState) -> bool:  # noqa: ARG002 - the protocol's
        """Return whether there was no commit since."""
        return (state.pointing.location, state.pointing.plan) == (undo["after"], undo["plan"])

    def take_back(self, undo: Undo, target: Target) -> None:
        """Set the previous pointer."""
        pointer = _require_pointer(target)
        now = pointer.read()
        if now is None or (now.location, now.plan) != (undo["after"], undo["plan"]):
            raise ConcurrentChange
        pointer.point(now, undo["before"], undo["plan"])

    def is_undone(self, step: Step, undo: Undo, state: TableState) -> bool:  # noqa: ARG002 - the protocol's
        """Return whether the catalog points at the previous state."""
        return bool(state.pointing.location == undo["before"])


def _require_pointer(target: Target) -> TablePointer:
    try:
        pointer = _pointer_at(target.lake, target.clients, target.key)
    except Unclear as error:
        raise CannotActSafely(str(error)) from error
    if not target.forms.holds(pointer.name, pointer.honours_conditions):
        raise CannotActSafely("the catalog does not honour the condition of its own commit")
    return pointer


def _pointer_at(lake: Lake, clients: Clients, key: str) -> TablePointer:
    """Return the pointer of a finding's subject. Raises Unclear: the kind of catalog is not supported."""
    matches = [
        (store, key.removesuffix(mark))
        for store in lake.metastores
        if isinstance(store, CatalogSource) and store.knows_partitions
        for mark in [f"#{store.kind} {store.name}"]
        if key.endswith(mark)
    ]
    if len(matches) != 1:
        raise Unclear(f"{len(matches)} catalogs of the lake file have the name in the finding")
    ((source, name),) = matches
    if source.kind not in _POINTERS:
        raise Unclear(f"reconcile cannot write to a catalog of kind {source.kind}")
    return _POINTERS[source.kind](source, clients, name)


_POINTERS: Mapping[str, Callable[[Any, Clients, str], TablePointer]] = {
    "glue": GluePointer.of_table,
    "hive": lambda source, _, name: HivePointer.of_table(source, name),
}
"""Constructors of table pointers by kind of catalog."""
_GRANTS: Mapping[str, Callable[[Any], Grant]] = {"glue": pointer_grant}
